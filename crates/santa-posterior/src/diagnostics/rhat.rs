//! Do the chains agree?

use super::chains::{map, mean, sorted, split, usable, variance};
use super::quantile::quantile;
use super::rank::rank_normalised;

/// R-hat, rank-normalised, split, the larger one of bulk and folded.
///
/// Every chain is cut into halves, so that a drift within a chain counts as a disagreement. With
/// $B$ and $W$ the variances between and within these $2M$ chains of $N$ draws,
///
/// $$ \hat R = \sqrt{\frac{N - 1}{N} + \frac{B}{N W}}, \qquad
/// B = \frac{N}{2M - 1} \sum_m (\bar z_m - \bar z)^2, \qquad W = \frac{1}{2M} \sum_m s_m^2 $$
///
/// for the [rank-normalised](super::rank_normalised) draws, which tells of different locations, and for
/// those of $|\theta_{mn} - \mathrm{median}(\theta)|$, which tells of different scales. Values above
/// 1.01 are a warning. NaN if there are fewer than two chains or if nothing moves; see the
/// [conventions](super#conventions).
///
/// ```
/// use santa_posterior::diagnostics::r_hat;
///
/// let here: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 100)).collect();
/// let there: Vec<f64> = here.iter().map(|x| x + 50.0).collect();
/// assert!(r_hat(&[here.clone(), here.clone()]) < 1.01);
/// assert!(r_hat(&[here, there]) > 1.1);
/// ```
pub fn r_hat(chains: &[Vec<f64>]) -> f64 {
    if chains.len() < 2 || !usable(chains) {
        return f64::NAN;
    }
    let halves = split(chains);
    let median = quantile(&sorted(&halves), 0.5);
    let bulk = scale_reduction(&rank_normalised(&halves));
    let folded = scale_reduction(&rank_normalised(&map(&halves, |x| (x - median).abs())));
    // Folding may leave nothing that moves, a coin's two sides for instance; then the bulk counts.
    bulk.max(folded)
}

fn scale_reduction(chains: &[Vec<f64>]) -> f64 {
    let n = chains[0].len() as f64;
    let means: Vec<f64> = chains.iter().map(mean).collect();
    let variances: Vec<f64> = chains.iter().map(variance).collect();
    let (between, within) = (n * variance(&means), mean(&variances));
    ((between / within + n - 1.0) / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    fn normal(scales: [f64; 4]) -> Vec<Vec<f64>> {
        (0..4)
            .map(|chain| {
                let mut draws = vec![0.0; 400];
                Stream::new(3, chain, Purpose::Custom(0)).normals(0, 0, 0, &mut draws);
                draws.iter().map(|x| x * scales[chain as usize]).collect()
            })
            .collect()
    }

    #[test]
    fn chains_of_one_law_agree_and_chains_of_other_scales_do_not() {
        assert!(r_hat(&normal([1.0; 4])) < 1.01);
        assert!(r_hat(&normal([1.0, 1.0, 1.0, 2.0])) > 1.05);
    }

    #[test]
    fn a_drift_that_all_chains_share_is_a_disagreement_of_halves() {
        let mut chains = normal([1.0; 4]);
        for chain in &mut chains {
            chain.iter_mut().enumerate().for_each(|(i, x)| *x += i as f64 / 200.0);
        }
        assert!(r_hat(&chains) > 1.05);
    }

    #[test]
    fn what_says_nothing_is_nan() {
        assert!(r_hat(&[vec![0.0, 1.0, 2.0, 3.0]]).is_nan());
        assert!(r_hat(&[vec![0.1; 9], vec![0.1; 9]]).is_nan());
        assert!(r_hat(&[]).is_nan());
    }
}
