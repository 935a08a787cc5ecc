//! How far off may an estimate be?

use super::chains::{mean, sorted, usable, variance};
use super::ess::{ess_mean, ess_quantile, ess_sd};
use super::special::beta_quantile;

/// The probabilities of one standard deviation below and above the centre, $\Phi(\mp 1)$, with the
/// digits that the other implementations use.
const ONE_SIGMA: [f64; 2] = [0.158_655_3, 0.841_344_7];

/// Monte Carlo standard error of the mean, $s / \sqrt{\mathrm{ESS}}$, by [`ess_mean`]. NaN where nothing
/// can be said; see the [conventions](super#conventions).
pub fn mcse_mean(chains: &[Vec<f64>]) -> f64 {
    if !usable(chains) {
        return f64::NAN;
    }
    (variance(chains.iter().flatten()) / ess_mean(chains)).sqrt()
}

/// Monte Carlo standard error of the standard deviation: with
/// $v = (\theta_{mn} - \bar\theta)^2$, by the delta method and [`ess_sd`],
///
/// $$ \sqrt{\frac{\overline{v^2} - \bar v^2}{4\ \bar v\ \mathrm{ESS}}} $$
///
/// NaN for draws that do not move.
pub fn mcse_sd(chains: &[Vec<f64>]) -> f64 {
    if !usable(chains) {
        return f64::NAN;
    }
    let centre = mean(chains.iter().flatten());
    let squares: Vec<f64> = chains.iter().flatten().map(|x| (x - centre) * (x - centre)).collect();
    let spread = mean(&squares);
    let fourth = squares.iter().map(|v| (v - spread) * (v - spread)).sum::<f64>();
    (fourth / squares.len() as f64 / (4.0 * spread * ess_sd(chains))).sqrt()
}

/// Monte Carlo standard error of the quantile of probability `p`.
///
/// Of $\mathrm{ESS}$ independent draws (by [`ess_quantile`]), those below the true quantile leave the
/// probability with the law $\mathrm{Beta}(p\ \mathrm{ESS} + 1, (1 - p)\ \mathrm{ESS} + 1)$. Half the
/// distance between the draws at its 16 % and 84 % quantiles is the error. NaN for `p` outside of
/// $[0, 1]$.
pub fn mcse_quantile(chains: &[Vec<f64>], p: f64) -> f64 {
    let ess = ess_quantile(chains, p);
    if ess.is_nan() {
        return f64::NAN;
    }
    let draws = sorted(chains);
    let last = (draws.len() - 1) as f64;
    let place = |probability: f64| {
        let quantile = beta_quantile(probability, ess * p + 1.0, ess * (1.0 - p) + 1.0);
        (quantile * draws.len() as f64 - 1.0).clamp(0.0, last)
    };
    let [low, high] = ONE_SIGMA.map(place);
    (draws[high.ceil() as usize] - draws[low.floor() as usize]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    #[test]
    fn errors_of_independent_normal_draws_are_the_known_ones() {
        let chains: Vec<Vec<f64>> = (0..4)
            .map(|chain| {
                let mut draws = vec![0.0; 2_500];
                Stream::new(5, chain, Purpose::Custom(0)).normals(0, 0, 0, &mut draws);
                draws
            })
            .collect();
        let n = 10_000.0f64;
        // sigma / sqrt n, sigma / sqrt 2n, and sqrt(pi / 2) of the first one for the median.
        let known = [1.0 / n.sqrt(), 1.0 / (2.0 * n).sqrt(), 1.2533 / n.sqrt()];
        let found = [mcse_mean(&chains), mcse_sd(&chains), mcse_quantile(&chains, 0.5)];
        for (known, found) in known.into_iter().zip(found) {
            assert!((found / known - 1.0).abs() < 0.25, "{found} for {known}");
        }
    }

    #[test]
    fn draws_that_do_not_move_have_no_error_of_the_mean() {
        let still = [vec![0.1; 8], vec![0.1; 8]];
        assert_eq!(mcse_mean(&still), 0.0);
        assert_eq!(mcse_quantile(&still, 0.5), 0.0);
        assert!(mcse_sd(&still).is_nan());
        assert!(mcse_mean(&[]).is_nan() && mcse_quantile(&still, 2.0).is_nan());
    }
}
