//! Quantiles of a sample.

/// Quantile of numbers in order of size, linear between neighbours (type 7 of Hyndman and Fan, the
/// usual one): with $h = (S - 1) p + 1$ and $k = \lfloor h \rfloor$,
///
/// $$ q_p = (1 - h + k)\ x_{(k)} + (h - k)\ x_{(k+1)} $$
///
/// NaN for no numbers, or for $p$ outside of $[0, 1]$.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let n = sorted.len();
    if n == 0 || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if n == 1 {
        return sorted[0];
    }
    let h = n as f64 * p + (1.0 - p);
    let k = h.clamp(1.0, (n - 1) as f64).floor();
    let weight = (h - k).clamp(0.0, 1.0);
    let (below, above) = (sorted[k as usize - 1], sorted[k as usize]);
    // Ties would otherwise come out a rounding error away from the value that they share.
    if below == above { below } else { (1.0 - weight) * below + weight * above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_linear_between_neighbours() {
        let numbers = [1.0, 2.0, 4.0, 8.0];
        assert_eq!(quantile(&numbers, 0.0), 1.0);
        assert_eq!(quantile(&numbers, 0.5), 3.0);
        assert_eq!(quantile(&numbers, 1.0), 8.0);
        assert!((quantile(&numbers, 0.9) - 6.8).abs() < 1e-12);
        assert_eq!(quantile(&[3.0], 0.3), 3.0);
        assert!(quantile(&[], 0.5).is_nan() && quantile(&numbers, 1.1).is_nan());
        assert!(quantile(&numbers, f64::NAN).is_nan());
    }

    #[test]
    fn a_quantile_between_ties_is_the_value_they_share() {
        for i in 0..1000 {
            assert_eq!(quantile(&[0.1, 0.1, 0.1], f64::from(i) / 1000.0), 0.1);
        }
    }
}
