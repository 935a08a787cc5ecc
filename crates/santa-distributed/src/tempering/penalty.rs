//! Decisions from numbers that are only estimates.

use santa::stats::Moments;

/// What to subtract from an estimate of the log acceptance ratio before it is used.
///
/// The estimate is the mean of `batches` independent normal ones, and `variance` is the estimated
/// variance of that mean. The [module](crate::tempering) has the formula and what it leaves.
pub fn penalty(variance: f64, batches: usize) -> f64 {
    let (s2, k) = (variance, batches as f64);
    s2 / 2.0 + s2.powi(2) / (4.0 * (k + 1.0)) + s2.powi(3) / (3.0 * (k + 1.0) * (k + 3.0))
}

/// An estimate of D, the log acceptance ratio of a swap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub mean: f64,
    /// Of the mean.
    pub variance: f64,
    pub batches: usize,
}

impl Ratio {
    /// From the energies of the colder and the hotter replica, on the same batches.
    pub fn new(beta_difference: f64, colder: &[f64], hotter: &[f64]) -> Self {
        let moments: Moments =
            colder.iter().zip(hotter).map(|(a, b)| beta_difference * (a - b)).collect();
        let batches = colder.len();
        let variance = if batches > 1 { moments.variance() / batches as f64 } else { 0.0 };
        Ratio { mean: moments.mean(), variance, batches }
    }

    /// The probability of the swap.
    pub fn acceptance(&self, penalised: bool) -> f64 {
        let penalty = if penalised { penalty(self.variance, self.batches) } else { 0.0 };
        (self.mean - penalty).min(0.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::stats::normal_cdf;

    /// The expected acceptance for an estimate that is N(D, s^2), with this penalty.
    fn expected(d: f64, s: f64, penalty: f64) -> f64 {
        let x = d - penalty;
        normal_cdf(x / s) + (x + s * s / 2.0).exp() * normal_cdf(-(x + s * s) / s)
    }

    /// The same where the penalty is a function of an estimated variance, which is s^2 times a
    /// chi-square of K - 1 degrees of freedom over their number.
    fn expected_estimated(d: f64, s: f64, batches: usize, penalty: impl Fn(f64) -> f64) -> f64 {
        // In the logarithm of the chi-square, whose density vanishes at both ends: the trapezoidal
        // rule converges faster than any power.
        const POINTS: u32 = 600;
        const RANGE: (f64, f64) = (-25.0, 6.0);
        let degrees = batches as f64 - 1.0;
        let (mut weight, mut sum) = (0.0, 0.0);
        for i in 0..=POINTS {
            let log = RANGE.0 + (RANGE.1 - RANGE.0) * f64::from(i) / f64::from(POINTS);
            let w = (log * degrees / 2.0 - log.exp() / 2.0).exp();
            weight += w;
            sum += w * expected(d, s, penalty(s * s * log.exp() / degrees));
        }
        sum / weight
    }

    /// By how much the log-odds of the two arrangements are wrong, at the worst D up to 4.
    fn bias(acceptance: impl Fn(f64) -> f64) -> f64 {
        (1..=4)
            .map(f64::from)
            .map(|d| ((acceptance(d) / acceptance(-d)).ln() - d).abs())
            .fold(0.0, f64::max)
    }

    #[test]
    fn a_known_variance_is_corrected_exactly() {
        for s in [0.1, 1.0, 3.0] {
            assert!(bias(|d| expected(d, s, s * s / 2.0)) < 1e-10, "{s}");
        }
        // Negative control: nothing, or the wrong half.
        assert!(bias(|d| expected(d, 1.0, 0.0)) > 0.1);
        assert!(bias(|d| expected(d, 1.0, 1.0)) > 0.1);
    }

    /// The table of the module's documentation.
    #[test]
    fn an_estimated_variance_leaves_little() {
        /// s, K, and the biases without a penalty, with s^2/2, and with the series.
        const TABLE: [(f64, usize, [f64; 3]); 5] = [
            (0.5, 4, [0.125, 0.005, 0.001]),
            (1.0, 4, [0.500, 0.069, 0.031]),
            (1.0, 8, [0.500, 0.033, 0.005]),
            (1.0, 16, [0.500, 0.016, 0.001]),
            (2.0, 32, [1.607, 0.100, 0.008]),
        ];
        for (s, batches, told) in TABLE {
            let none = bias(|d| expected(d, s, 0.0));
            let half = bias(|d| expected_estimated(d, s, batches, |s2| s2 / 2.0));
            let series = bias(|d| expected_estimated(d, s, batches, |s2| penalty(s2, batches)));
            for (found, told) in [none, half, series].iter().zip(told) {
                assert!((found - told).abs() < 0.0006, "s = {s}, K = {batches}: {found} {told}");
            }
        }
    }

    #[test]
    fn the_spread_of_batches_is_that_of_the_difference() {
        // Energies that share what the batch adds: 10, 20, 30.
        let ratio = Ratio::new(0.5, &[11.0, 21.5, 30.5], &[10.0, 20.0, 30.0]);
        assert_eq!((ratio.mean, ratio.batches), (0.5, 3));
        assert!((ratio.variance - 0.0625 / 3.0).abs() < 1e-15);
        let exact = Ratio::new(0.5, &[3.0], &[7.0]);
        assert_eq!((exact.variance, exact.acceptance(true)), (0.0, (-2.0f64).exp()));
        assert_eq!(Ratio::new(0.5, &[7.0], &[3.0]).acceptance(true), 1.0);
    }
}
