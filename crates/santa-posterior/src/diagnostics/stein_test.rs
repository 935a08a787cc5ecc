//! Is a Stein discrepancy more than chance?

use super::stein::{Stein, SteinKernel, SteinSettings, root};
use crate::error::{Error, Result};
use santa::noise::{Purpose, Stream};
use serde::Serialize;

/// How sure a [`stein_test`] is to be, and how it finds that out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FalseAlarms {
    /// The share of samples of the right law that are called off.
    pub rate: f64,
    /// How often the signs are drawn; at least `1 / rate`, to be precise about the rate a few times
    /// that.
    pub resamples: usize,
    /// Seed of the signs.
    pub seed: u64,
}

impl Default for FalseAlarms {
    /// One in a thousand, from 1,999 resamples: the threshold is the second largest of them.
    fn default() -> Self {
        FalseAlarms { rate: 1e-3, resamples: 1_999, seed: 0 }
    }
}

/// A kernel Stein discrepancy beside what chance makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SteinTest {
    /// The discrepancy.
    #[serde(flatten)]
    pub stein: Stein,
    /// What samples of the right law exceed as often as [`FalseAlarms::rate`] says.
    pub threshold: f64,
    /// The chance of a discrepancy at least as large under the right law. Not below
    /// `1 / (resamples + 1)`.
    pub p_value: f64,
    /// The rate of false alarms.
    pub false_alarm_rate: f64,
}

impl SteinTest {
    /// Whether the points are not of the law. A discrepancy that is no number agrees with nothing.
    pub fn is_off(&self) -> bool {
        let agrees = self.stein.discrepancy <= self.threshold;
        !agrees
    }
}

/// Whether *independent* points are of the law $e^{-\beta U}$: their
/// [`stein_discrepancy`](super::stein_discrepancy) beside a threshold, which a wild bootstrap finds
/// (Chwialkowski, Strathmann and Gretton, *A kernel test of goodness of fit*, ICML 2016).
///
/// Under the right law $k_0$ has the mean zero in each argument, and then random signs
/// $w_i = \pm 1$ change nothing about the law of
///
/// $$ \frac{1}{n^2} \sum_{ij} w_i w_j\ k_0(x_i, x_j) $$
///
/// for many points. With all signs the same it is the squared discrepancy. Under another law the sum
/// over pairs has a mean, which the signs take away and the discrepancy keeps.
///
/// Draws of a chain that remember each other have larger discrepancies than independent ones, and would
/// be called off: take one of them in twice the autocorrelation time ([`integrated_time`]), which leaves
/// a correlation of some 2 % between neighbours. What matters then is how many points remain: in
/// coordinates in which the law is about round, with half of their median distance as the scale, a
/// thousand tell variances that are off by a half in some ten dimensions (the example
/// `stein_resolution` has more).
///
/// Memory and time grow with the square of the points: 1,000 of them take 4 MB, and 1,999 resamples
/// 10^9 multiplications.
///
/// [`integrated_time`]: super::integrated_time
///
/// ```
/// use santa::noise::{Purpose, Stream};
/// use santa_posterior::diagnostics::{FalseAlarms, SteinSettings, stein_test};
///
/// let mut normal = vec![0.0; 300];
/// Stream::new(1, 0, Purpose::Custom(0)).normals(0, 0, 0, &mut normal);
/// let wide: Vec<f64> = normal.iter().map(|x| 1.5 * x).collect();
/// // Of the standard normal law, U(x) = x^2 / 2, the gradient at x is x.
/// let (settings, alarms) = (SteinSettings::default(), FalseAlarms::default());
/// assert!(!stein_test(&normal, &normal, 1, &settings, &alarms)?.is_off());
/// assert!(stein_test(&wide, &wide, 1, &settings, &alarms)?.is_off());
/// # Ok::<(), santa_posterior::Error>(())
/// ```
pub fn stein_test(
    points: &[f64],
    gradients: &[f64],
    dim: usize,
    settings: &SteinSettings,
    alarms: &FalseAlarms,
) -> Result<SteinTest> {
    let allowed = exceeding(alarms)?;
    let kernel = SteinKernel::new(points, gradients, dim, settings)?;
    let n = kernel.points();
    let same: f64 = (0..n).map(|i| kernel.at(i, i)).sum();
    // Below the diagonal, row by row.
    let below: Vec<f64> =
        (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| kernel.at(i, j)).collect();
    let stein = kernel.stein(same, 2.0 * below.iter().sum::<f64>());

    let mut chance: Vec<f64> = signed_sums(&below, n, alarms)
        .into_iter()
        .map(|sum| root((same + 2.0 * sum) / (n * n) as f64))
        .collect();
    let as_large = chance.iter().filter(|by_chance| **by_chance >= stein.discrepancy).count();
    // The largest first.
    chance.sort_by(|a, b| b.total_cmp(a));
    Ok(SteinTest {
        stein,
        threshold: chance[allowed],
        p_value: (1 + as_large) as f64 / (1 + alarms.resamples) as f64,
        false_alarm_rate: alarms.rate,
    })
}

/// How many of the resamples may exceed a discrepancy that is called off.
fn exceeding(alarms: &FalseAlarms) -> Result<usize> {
    let FalseAlarms { rate, resamples, .. } = *alarms;
    if !(rate > 0.0 && rate < 1.0) {
        return Err(Error::setting("rate", rate, "it must lie between 0 and 1"));
    }
    /// So that 0.001 of 2,000 are 2 and not 1.999.
    const ROUNDING: f64 = 1e-9;
    let exceeding = (rate * (resamples + 1) as f64 + ROUNDING) as usize;
    exceeding.checked_sub(1).ok_or_else(|| {
        let allowed = format!("a rate of {rate} takes at least {:.0}", (1.0 / rate).ceil() - 1.0);
        Error::setting("resamples", resamples, allowed)
    })
}

/// The purpose of the signs.
const SIGNS: Purpose = Purpose::Custom(106);
/// Resamples that are summed side by side: as many as have room in registers.
const SIDE_BY_SIDE: usize = 16;

/// $\sum_{j < i} w_i w_j k_{ij}$ for each resample.
fn signed_sums(below: &[f64], n: usize, alarms: &FalseAlarms) -> Vec<f64> {
    let stream = Stream::new(alarms.seed, 0, SIGNS);
    let mut sums = Vec::with_capacity(alarms.resamples + SIDE_BY_SIDE);
    for group in 0..alarms.resamples.div_ceil(SIDE_BY_SIDE) as u64 {
        let signs: Vec<[f64; SIDE_BY_SIDE]> = (0..n as u32)
            .map(|point| {
                let [bits, ..] = stream.words(group, 0, point);
                std::array::from_fn(|k| if bits >> k & 1 == 1 { 1.0 } else { -1.0 })
            })
            .collect();
        let mut together = [0.0; SIDE_BY_SIDE];
        let mut rest = below;
        for (i, own) in signs.iter().enumerate() {
            let (row, after) = rest.split_at(i);
            let mut of_row = [0.0; SIDE_BY_SIDE];
            for (value, sign) in row.iter().zip(&signs) {
                for k in 0..SIDE_BY_SIDE {
                    of_row[k] += value * sign[k];
                }
            }
            for k in 0..SIDE_BY_SIDE {
                together[k] += own[k] * of_row[k];
            }
            rest = after;
        }
        sums.extend(together);
    }
    sums.truncate(alarms.resamples);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::Scale;

    const DIM: usize = 3;
    const POINTS: usize = 300;

    /// Standard normal points, whose gradient at x is x, changed by a function.
    fn test(sample: u32, rate: f64, change: impl Fn(f64) -> f64) -> SteinTest {
        let mut x = vec![0.0; POINTS * DIM];
        Stream::new(5, sample, Purpose::Custom(0)).normals(0, 0, 0, &mut x);
        x.iter_mut().for_each(|x| *x = change(*x));
        // Half of the median distance, which sees widths better.
        let scale = Scale::Given((0.5 * DIM as f64).sqrt());
        let settings = SteinSettings { scale, ..SteinSettings::default() };
        let alarms = FalseAlarms { rate, resamples: 199, seed: 1 };
        stein_test(&x, &x, DIM, &settings, &alarms).unwrap()
    }

    #[test]
    fn samples_of_the_right_law_are_called_off_as_often_as_was_said() {
        const SAMPLES: u32 = 300;
        for rate in [0.05, 0.2] {
            let off = (0..SAMPLES).filter(|sample| test(*sample, rate, |x| x).is_off()).count();
            let expected = rate * f64::from(SAMPLES);
            // Four standard deviations: one seed in 16,000.
            let room = 4.0 * (expected * (1.0 - rate)).sqrt();
            assert!((off as f64 - expected).abs() < room, "{off} where {expected} were due");
        }
    }

    #[test]
    fn wider_narrower_and_shifted_samples_are_called_off() {
        let hot = 2f64.sqrt();
        for sample in 0..20 {
            assert!(test(sample, 0.005, |x| hot * x).is_off(), "{sample}");
            assert!(test(sample, 0.005, |x| x / hot).is_off(), "{sample}");
            assert!(test(sample, 0.005, |x| x + 0.3).is_off(), "{sample}");
        }
    }

    #[test]
    fn the_threshold_and_the_chance_say_the_same() {
        let (mut on, mut off) = (0, 0);
        for sample in 0..40 {
            let test = test(sample, 0.05, |x| 1.1 * x);
            assert_eq!(test.is_off(), test.p_value <= 0.05, "{test:?}");
            *(if test.is_off() { &mut off } else { &mut on }) += 1;
        }
        assert!(on > 3 && off > 3, "{on} {off}");
    }

    #[test]
    fn a_discrepancy_that_is_no_number_is_off() {
        let far = [1e200, -1e200, 3e200, 1.0];
        let settings = SteinSettings { scale: Scale::Given(1.0), ..Default::default() };
        assert!(stein_test(&far, &far, 1, &settings, &FalseAlarms::default()).unwrap().is_off());
    }

    #[test]
    fn what_cannot_be_promised_is_refused_by_name() {
        let x = [0.0, 1.0, 2.0];
        let refused = |rate: f64, resamples: usize| {
            let alarms = FalseAlarms { rate, resamples, seed: 0 };
            let test = stein_test(&x, &x, 1, &SteinSettings::default(), &alarms);
            test.unwrap_err().to_string()
        };
        assert!(refused(0.0, 100).contains("`rate`") && refused(f64::NAN, 9).contains("`rate`"));
        assert!(refused(1e-3, 998).contains("at least 999"));
        let alarms = FalseAlarms { rate: 1e-3, resamples: 999, seed: 0 };
        assert_eq!(exceeding(&alarms).unwrap(), 0);
        assert_eq!(exceeding(&FalseAlarms::default()).unwrap(), 1);
    }
}
