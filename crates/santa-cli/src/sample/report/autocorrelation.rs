//! How much a draw has to do with those before it.

/// Draws of a chain that are used, at most; the last ones.
const MOST: usize = 50_000;

/// Autocorrelations of a chain's draws $x_t$ about their own mean, from lag 0 on,
///
/// $$\hat\rho_k = \frac{\sum_t (x_t - \bar x) (x_{t+k} - \bar x)}{\sum_t (x_t - \bar x)^2}.$$
///
/// Nothing for draws that are all equal, or so large that their mean is no number.
pub fn autocorrelations(draws: &[f64], lags: usize) -> Option<Vec<f64>> {
    let draws = &draws[draws.len().saturating_sub(MOST)..];
    // Not by the variance: the mean of equal numbers may be rounded.
    if draws.iter().all(|x| *x == draws[0]) {
        return None;
    }
    let mean = draws.iter().sum::<f64>() / draws.len() as f64;
    let largest = draws.iter().map(|x| (x - mean).abs()).fold(0.0, f64::max);
    if !largest.is_finite() {
        return None;
    }
    // Numbers of which squares cannot overflow.
    let centred: Vec<f64> = draws.iter().map(|x| (x - mean) / largest).collect();
    let product = |lag: usize| centred[lag..].iter().zip(&centred).map(|(a, b)| a * b).sum::<f64>();
    let variance = product(0);
    Some((0..=lags.min(draws.len() - 1)).map(|lag| product(lag) / variance).collect())
}

/// How many draws are worth one independent draw: $1 + 2 \sum_{k \ge 1} \rho_k$, of which two
/// neighbours at a time are added while their sum is positive (Geyer, 1992). At least 1, so that a
/// chain whose draws alternate is not thought more certain than independent draws.
pub fn time(correlations: &[f64]) -> f64 {
    let pairs = correlations.chunks_exact(2).map(|pair| pair[0] + pair[1]);
    (2.0 * pairs.take_while(|&pair| pair > 0.0).sum::<f64>() - 1.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::normals;
    use super::*;

    /// An autoregression of order one, of which both are known: $\rho_k = \phi^k$ and the time is
    /// $(1 + \phi) / (1 - \phi)$.
    fn autoregression(phi: f64, n: usize) -> Vec<f64> {
        let mut x = 0.0;
        let step = |e: f64| {
            x = phi * x + e;
            x
        };
        normals(0, n).into_iter().map(step).collect()
    }

    #[test]
    fn those_of_an_autoregression_are_powers() {
        for phi in [0.0, 0.5, 0.9] {
            let rho = autocorrelations(&autoregression(phi, 40_000), 100).unwrap();
            assert_eq!(rho.len(), 101);
            for (k, rho) in rho.iter().enumerate().take(10) {
                assert!((rho - phi.powi(k as i32)).abs() < 0.05, "{phi} {k}: {rho}");
            }
            let (found, exact) = (time(&rho), (1.0 + phi) / (1.0 - phi));
            // Three standard deviations: a sum over 100 lags on either side has a relative one of
            // the square root of 2 x 201 / 40000.
            assert!((found / exact - 1.0).abs() < 0.3, "{phi}: {found} {exact}");
        }
    }

    #[test]
    fn draws_without_variance_have_none() {
        assert_eq!(autocorrelations(&[], 10), None);
        assert_eq!(autocorrelations(&[1.0], 10), None);
        assert_eq!(autocorrelations(&[0.4; 2_500], 10), None);
        assert_eq!(autocorrelations(&[f64::MAX, f64::MAX, 0.0], 2), None);
        assert_eq!(autocorrelations(&[1.0, 2.0], 10).unwrap().len(), 2);
        assert!(autocorrelations(&[1e299, -1e299, 1e299], 2).unwrap()[0] == 1.0);
    }

    #[test]
    fn alternating_draws_count_as_independent() {
        let alternating: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert_eq!(time(&autocorrelations(&alternating, 10).unwrap()), 1.0);
    }
}
