//! How many independent draws are these worth?

use super::autocorrelation::mean_autocovariance;
use super::chains::{map, mean, sorted, split, usable, variance};
use super::quantile::quantile;
use super::rank::rank_normalised;

/// The probabilities whose quantiles stand for the tails.
pub(super) const TAILS: [f64; 2] = [0.05, 0.95];

/// Effective sample size for the bulk of the distribution, by which to judge convergence: that of
/// the mean of the [rank-normalised](super::rank_normalised) draws.
///
/// All effective sample sizes are $S / \hat\tau$ with $S$ the number of draws in the halves of the
/// chains and $\hat\tau$ their [`integrated_time`]. Chains that alternate can be worth more than
/// $S$, up to $S \log_{10} S$. NaN where nothing can be said; see the
/// [conventions](super#conventions).
pub fn ess_bulk(chains: &[Vec<f64>]) -> f64 {
    if !usable(chains) {
        return f64::NAN;
    }
    effective(&rank_normalised(&split(chains)))
}

/// Effective sample size for the tails: the smaller one of those of the 5 % and the 95 % quantile.
pub fn ess_tail(chains: &[Vec<f64>]) -> f64 {
    if !usable(chains) {
        return f64::NAN;
    }
    tail(chains, &sorted(chains))
}

/// [`ess_tail`] of usable chains whose draws have been sorted already.
pub(super) fn tail(chains: &[Vec<f64>], sorted: &[f64]) -> f64 {
    let [low, high] = TAILS.map(|p| not_above(chains, quantile(sorted, p)));
    // Spelt out since `min` would hide a NaN.
    if low < high || low.is_nan() { low } else { high }
}

/// Effective sample size for the mean.
pub fn ess_mean(chains: &[Vec<f64>]) -> f64 {
    if !usable(chains) {
        return f64::NAN;
    }
    effective(&split(chains))
}

/// Effective sample size for the standard deviation: that of the mean of
/// $(\theta_{mn} - \bar\theta)^2$.
pub fn ess_sd(chains: &[Vec<f64>]) -> f64 {
    if !usable(chains) {
        return f64::NAN;
    }
    let centre = mean(chains.iter().flatten());
    effective(&split(&map(chains, |x| (x - centre) * (x - centre))))
}

/// Effective sample size for the quantile of probability `p`: that of the mean of the indicator
/// $\theta_{mn} \le q_p$. NaN for `p` outside of $[0, 1]$.
pub fn ess_quantile(chains: &[Vec<f64>], p: f64) -> f64 {
    if !usable(chains) || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    not_above(chains, quantile(&sorted(chains), p))
}

fn not_above(chains: &[Vec<f64>], threshold: f64) -> f64 {
    effective(&split(&map(chains, |x| if x <= threshold { 1.0 } else { 0.0 })))
}

/// Integrated autocorrelation time of the mean, in draws: so many draws are worth an independent one.
///
/// From the halves of the chains, $K = 2M$ of $N$ draws each, with their variances $s_k^2$
/// (divisor $N - 1$), their means $\bar\theta_k$ and their mean [autocovariance](super::autocovariance)
/// $\bar c_t$:
///
/// $$ W = \frac{1}{K} \sum_k s_k^2, \qquad
/// V^+ = \frac{N - 1}{N} W + \frac{1}{K - 1} \sum_k (\bar\theta_k - \bar\theta)^2, \qquad
/// \hat\rho_t = 1 - \frac{W - \bar c_t}{V^+}, \quad \hat\rho_0 = 1 $$
///
/// Sums of neighbours $\hat P_j = \hat\rho_{2j} + \hat\rho_{2j+1}$ are positive and fall, for a
/// reversible chain (Geyer 1992). They are taken up to the last one before the first negative one, and
/// each is lowered to the one before it where it is larger:
///
/// $$ \hat\tau = -1 + 2 \sum_{j=0}^{J} \hat P_j + \hat\rho_{2J+2}, \qquad
/// \hat\tau \ge \frac{1}{\log_{10} K N} $$
///
/// where the single last term counts only if it is positive. Chains that do not move have 1 by
/// convention. NaN where nothing can be said; see the [conventions](super#conventions).
pub fn integrated_time(chains: &[Vec<f64>]) -> f64 {
    if !usable(chains) {
        return f64::NAN;
    }
    time(&split(chains))
}

fn effective(chains: &[Vec<f64>]) -> f64 {
    (chains.len() * chains[0].len()) as f64 / time(chains)
}

/// $\hat\tau$ of chains that are not to be split any more.
fn time(chains: &[Vec<f64>]) -> f64 {
    let n = chains[0].len();
    let size = (chains.len() * n) as f64;
    let first = chains[0][0];
    if chains.iter().flatten().all(|x| *x == first) {
        return 1.0;
    }
    let covariance = mean_autocovariance(chains);
    let length = n as f64;
    let within = covariance[0] * length / (length - 1.0);
    let means: Vec<f64> = chains.iter().map(mean).collect();
    let between = if means.len() > 1 { variance(&means) } else { 0.0 };
    let total = within * (length - 1.0) / length + between;
    let correlation = |t: usize| 1.0 - (within - covariance[t]) / total;

    // The initial positive sequence. The last pair that is looked at is left out of the sum, but for
    // its even term; so are the last lags, of which too few products tell.
    let mut rho = vec![0.0; n];
    let (mut even, mut odd) = (1.0, correlation(1));
    (rho[0], rho[1]) = (even, odd);
    let mut t = 1;
    while t + 3 < n && even + odd > 0.0 {
        (even, odd) = (correlation(t + 1), correlation(t + 2));
        if even + odd >= 0.0 {
            (rho[t + 1], rho[t + 2]) = (even, odd);
        }
        t += 2;
    }
    let end = t - 1;
    if even > 0.0 {
        rho[end] = even;
    }
    // The initial monotone sequence.
    for t in (2..end.saturating_sub(1)).step_by(2) {
        let before = rho[t - 2] + rho[t - 1];
        if rho[t] + rho[t + 1] > before {
            (rho[t], rho[t + 1]) = (before / 2.0, before / 2.0);
        }
    }
    let tau = -1.0 + 2.0 * rho[..end].iter().sum::<f64>() + rho[end];
    // Spelt out since `max` would hide a NaN.
    let least = 1.0 / size.log10();
    if tau < least { least } else { tau }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    /// Chains of $x_{n+1} = \rho x_n + \sqrt{1 - \rho^2} \xi_n$, whose time is
    /// $(1 + \rho) / (1 - \rho)$.
    fn autoregressive(rho: f64, n: usize) -> Vec<Vec<f64>> {
        (0..4)
            .map(|chain| {
                let mut draws = vec![0.0; n];
                Stream::new(11, chain, Purpose::Custom(0)).normals(0, 0, 0, &mut draws);
                for i in 1..n {
                    draws[i] = rho * draws[i - 1] + (1.0 - rho * rho).sqrt() * draws[i];
                }
                draws
            })
            .collect()
    }

    #[test]
    fn the_time_of_an_autoregression_is_the_known_one() {
        for rho in [-0.5f64, 0.0, 0.5, 0.9] {
            let chains = autoregressive(rho, 5_000);
            let expected = (1.0 + rho) / (1.0 - rho);
            let tau = integrated_time(&chains);
            assert!((tau / expected - 1.0).abs() < 0.15, "{rho}: {tau} for {expected}");
            let worth = 20_000.0 / expected;
            assert!((ess_mean(&chains) / worth - 1.0).abs() < 0.15);
            assert!((ess_bulk(&chains) / worth - 1.0).abs() < 0.15);
        }
    }

    #[test]
    fn what_says_nothing_is_nan_and_what_does_not_move_counts_in_full() {
        let short = [vec![1.0, 2.0, 3.0]];
        for ess in [ess_bulk, ess_tail, ess_mean, ess_sd, integrated_time] {
            assert!(ess(&short).is_nan() && ess(&[]).is_nan());
        }
        assert!(ess_quantile(&[vec![1.0, 2.0, 3.0, 4.0]], -0.1).is_nan());
        assert_eq!(ess_mean(&[vec![0.1; 10], vec![0.1; 10]]), 20.0);
    }

    #[test]
    fn the_unit_of_a_quantity_does_not_matter() {
        let chains = autoregressive(0.5, 200);
        let tiny = map(&chains, |x| x * 1e-12);
        assert!((ess_sd(&tiny) / ess_sd(&chains) - 1.0).abs() < 1e-10);
        assert_eq!(ess_bulk(&tiny), ess_bulk(&chains));
    }
}
