//! Simulation-based calibration: over data that the prior predicts, the truth has no preferred rank
//! among the draws.

use super::laws::normal_threshold;
use super::uniformity::rank_p_value;
use super::{
    FALSE_ALARM_RATE, Model, check_count, check_rate, in_parallel, log_likelihood, parameter_names,
};
use crate::error::{Error, Result};
use santa::noise::{Purpose, Stream};
use santa::potential::Potential;
use serde::Serialize;
use std::fmt;

/// Settings of simulation-based calibration (Talts and others, 2018).
///
/// Simulation s draws $\theta_s$ from the prior and data from $\theta_s$, and the sampler draws
/// $\theta^1, \dots, \theta^L$ from the posterior of those data. Then $\theta_s$ is one more draw
/// from the same posterior, so for any quantity q the rank
///
/// $$ r_s = \sum_{l=1}^L \mathbb 1 \left[ q(\theta^l, y_s) < q(\theta_s, y_s) \right] $$
///
/// is uniform on 0, ..., L, if the draws are independent. The quantities are the parameters and the
/// log-likelihood of the data: it depends on the data, and sees errors that leave each parameter's
/// ranks uniform, such as draws that ignore the data (Modrák and others, 2023).
///
/// Uniformity is tested exactly, by [`rank_p_value`], each quantity at the false-alarm rate divided
/// by their number. Draws that are still correlated make ranks of right samplers uneven: thin them
/// well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// S
    pub simulations: u32,
    /// L
    pub draws: usize,
    /// The chance that a right sampler fails, over all quantities.
    pub false_alarm_rate: f64,
    /// Seed of the simulations.
    pub seed: u64,
}

/// The purposes of this module's noise: simulations, and the breaking of ties.
const SIMULATION: Purpose = Purpose::Custom(102);
const TIES: Purpose = Purpose::Custom(103);

impl Calibration {
    /// S simulations with L draws each, and a false-alarm rate of [`FALSE_ALARM_RATE`].
    pub fn new(simulations: u32, draws: usize) -> Self {
        Calibration { simulations, draws, false_alarm_rate: FALSE_ALARM_RATE, seed: 0 }
    }
    /// Other simulations.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs the sampler on every simulation, on all cores. `sampler` is handed the posterior and
    /// the number of the simulation, and gives L draws of all parameters.
    pub fn run<M, S>(&self, model: &M, sampler: S) -> Result<CalibrationReport>
    where
        M: Model + Sync,
        S: Fn(&mut M::Posterior, u32) -> Result<Vec<Vec<f64>>> + Sync,
    {
        check_count("simulations", self.simulations.into(), 1)?;
        check_count("draws", self.draws as u64, 1)?;
        check_rate(self.false_alarm_rate)?;
        let largest = u32::try_from(self.draws)
            .map_err(|_| Error::setting("draws", self.draws, "at most 2^32 - 1"))?;
        let simulation = |s: u32| {
            let stream = Stream::new(self.seed, 0, SIMULATION);
            let truth = model.draw_prior(&stream, s.into())?;
            let mut posterior = model.simulate(&truth, &stream, s.into())?;
            let draws = sampler(&mut posterior, s)?;
            if draws.len() != self.draws || draws.iter().any(|d| d.len() != truth.len()) {
                return Err(Error::data(format!(
                    "simulation {s}: the sampler must give {} draws of {} parameters",
                    self.draws,
                    truth.len()
                )));
            }
            let names = parameter_names(posterior.target());
            let mut quantities: Vec<(f64, Vec<f64>)> = (0..truth.len())
                .map(|i| (truth[i], draws.iter().map(|d| d[i]).collect()))
                .collect();
            let likelihoods: Result<Vec<f64>> =
                draws.iter().map(|d| log_likelihood(&mut posterior, d)).collect();
            quantities.push((log_likelihood(&mut posterior, &truth)?, likelihoods?));
            // It would be neither above the truth nor below.
            if quantities.iter().any(|(truth, d)| truth.is_nan() || d.iter().any(|x| x.is_nan())) {
                return Err(Error::data(format!("simulation {s}: a draw that is NaN has no rank")));
            }
            let ranks: Vec<u32> = quantities
                .iter()
                .zip(0..)
                .map(|((truth, draws), q)| self.rank(*truth, draws, s, q))
                .collect();
            Ok((names, ranks))
        };
        let results = in_parallel(self.simulations, simulation)?;
        let mut names = results[0].0.clone();
        names.push("log-likelihood".into());
        let quantities: Result<Vec<RankedQuantity>> = names
            .into_iter()
            .enumerate()
            .map(|(q, name)| {
                let ranks: Vec<u32> = results.iter().map(|(_, ranks)| ranks[q]).collect();
                let p_value = rank_p_value(&ranks, largest)?;
                Ok(RankedQuantity { name, ranks, p_value })
            })
            .collect();
        Ok(CalibrationReport {
            quantities: quantities?,
            draws: self.draws,
            false_alarm_rate: self.false_alarm_rate,
        })
    }

    /// The rank of the truth; among equals its place is drawn.
    fn rank(&self, truth: f64, draws: &[f64], simulation: u32, quantity: u32) -> u32 {
        let below = draws.iter().filter(|d| **d < truth).count() as u32;
        let equal = draws.iter().filter(|d| **d == truth).count() as u64;
        let stream = Stream::new(self.seed, 0, TIES);
        below + stream.below(simulation.into(), quantity, 0, equal + 1) as u32
    }
}

/// The ranks of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankedQuantity {
    /// A parameter, or the log-likelihood.
    pub name: String,
    /// Of each simulation, the number of draws below the truth.
    pub ranks: Vec<u32>,
    /// The chance of ranks as uneven as these, if they are uniform.
    pub p_value: f64,
}

/// What a calibration found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationReport {
    /// Every quantity.
    pub quantities: Vec<RankedQuantity>,
    /// L
    pub draws: usize,
    /// The chance that a right sampler fails, over all quantities.
    pub false_alarm_rate: f64,
}

/// The errors that a test notices in about half of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Resolution {
    /// A shift of all posteriors, in their standard deviations.
    pub shift: f64,
    /// A relative error of all posterior standard deviations.
    pub spread: f64,
}

impl CalibrationReport {
    /// A p-value below this one fails: the false-alarm rate divided by the number of quantities.
    pub fn threshold(&self) -> f64 {
        self.false_alarm_rate / self.quantities.len() as f64
    }
    /// Whether no quantity fails.
    pub fn passes(&self) -> bool {
        self.quantities.iter().all(|q| q.p_value >= self.threshold())
    }

    /// How small an error could be seen, for normal posteriors and many draws.
    ///
    /// With a shift of $\delta$ standard deviations the mean of the ranks, as shares of L, moves by
    /// $\delta/(2\sqrt\pi)$; its standard error is $1/\sqrt{12 S}$. With standard deviations that
    /// are a share $\rho$ too large, the mean square of (rank - 1/2) falls by
    /// $\rho/(2\pi\sqrt 3)$; its standard error is $1/\sqrt{180 S}$. Half of the errors are noticed
    /// when these are as many standard errors as the threshold has. A test that knew what to look
    /// for would reach this; the one for any unevenness needs about a fifth more.
    pub fn resolution(&self) -> Resolution {
        use std::f64::consts::PI;
        let simulations = self.quantities[0].ranks.len() as f64;
        let z = normal_threshold(self.threshold());
        /// Twelve: the variance of a uniform number is 1/12.
        const MEAN: f64 = 12.0;
        /// The variance of its squared distance from the middle is 1/180.
        const SQUARE: f64 = 180.0;
        // Derivative of $\arcsin(r^2 / (1 + r^2))$ at r = 1, which is $1/\sqrt 3$.
        let slope = 1.0 / (2.0 * PI * 3f64.sqrt());
        Resolution {
            shift: z * 2.0 * PI.sqrt() / (MEAN * simulations).sqrt(),
            spread: z / (slope * (SQUARE * simulations).sqrt()),
        }
    }

    /// For a figure: how many ranks of a quantity fall into each of `bins` bins of equal width, with
    /// what uniform ranks expect in each. Bins that L + 1 is a multiple of expect the same.
    ///
    /// # Panics
    /// If there is no such quantity.
    pub fn histogram(&self, quantity: usize, bins: usize) -> Vec<(usize, f64)> {
        let bins = bins.clamp(1, self.draws + 1);
        let ranks = &self.quantities[quantity].ranks;
        let bin = |rank: usize| rank * bins / (self.draws + 1);
        let each = ranks.len() as f64 / (self.draws + 1) as f64;
        let mut histogram = vec![(0, 0.0); bins];
        (0..=self.draws).for_each(|rank| histogram[bin(rank)].1 += each);
        ranks.iter().for_each(|rank| histogram[bin(*rank as usize)].0 += 1);
        histogram
    }
}

impl RankedQuantity {
    /// In words, what is most conspicuous about the ranks.
    fn tendency(&self, draws: usize) -> &'static str {
        let n = self.ranks.len() as f64;
        // The mean and the mean square of (rank - 1/2), ranks as shares, against those of uniform
        // ranks and in standard errors.
        let centred = |r: &u32| (f64::from(*r) + 0.5) / (draws as f64 + 1.0) - 0.5;
        let mean = self.ranks.iter().map(centred).sum::<f64>() / n;
        let square = self.ranks.iter().map(|r| centred(r).powi(2)).sum::<f64>() / n;
        let levels = (draws as f64 + 1.0).powi(2);
        let uniform = (1.0 - 1.0 / levels) / 12.0;
        let (shift, spread) = (mean * (12.0 * n).sqrt(), (square - uniform) * (180.0 * n).sqrt());
        match (shift.abs() > spread.abs(), shift > 0.0, spread > 0.0) {
            (true, true, _) => "draws too low",
            (true, false, _) => "draws too high",
            (false, _, true) => "draws too narrow",
            (false, _, false) => "draws too wide, or correlated",
        }
    }
}

impl fmt::Display for CalibrationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resolution { shift, spread } = self.resolution();
        writeln!(
            f,
            "{}: {} simulations with {} draws; a right sampler fails with a chance below {:e}; \
             resolution {shift:.2} sd in the mean, {:.0} % in the sd",
            if self.passes() { "calibrated" } else { "NOT calibrated" },
            self.quantities[0].ranks.len(),
            self.draws,
            self.false_alarm_rate,
            100.0 * spread
        )?;
        for quantity in &self.quantities {
            let fails = quantity.p_value < self.threshold();
            writeln!(
                f,
                "  {:<16} p = {:<10.3e} {}",
                quantity.name,
                quantity.p_value,
                if fails { quantity.tendency(self.draws) } else { "uniform" }
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::LinearModel;
    use super::*;
    use santa::potential::analytic::{Gaussian, LinearRegression};

    fn model() -> LinearModel {
        LinearModel::new(20, 2, 10.0, 1.0, &Stream::new(1, 0, Purpose::Data)).unwrap()
    }
    const CALIBRATION: fn() -> Calibration = || Calibration::new(400, 15).seed(3);

    /// Exact draws of the conjugate posterior, moved by so many standard deviations and stretched.
    fn report(shift: f64, stretch: f64) -> CalibrationReport {
        let sampler = |posterior: &mut LinearRegression, s: u32| {
            let (mean, covariance) = posterior.posterior()?;
            let law = Gaussian::from_covariance(mean.clone(), &covariance)?;
            let stream = Stream::new(5, s, Purpose::Custom(1));
            let draw = |l: u64| {
                let mut theta = vec![0.0; 2];
                law.sample(&stream, l, &mut theta)?;
                Ok((0..2)
                    .map(|i| {
                        let sd = covariance[3 * i].sqrt();
                        mean[i] + stretch * (theta[i] - mean[i]) + shift * sd
                    })
                    .collect())
            };
            (0..15).map(draw).collect()
        };
        CALIBRATION().run(&model(), sampler).unwrap()
    }

    #[test]
    fn exact_draws_are_calibrated() {
        let report = report(0.0, 1.0);
        assert!(report.passes(), "{report}");
        assert_eq!(report.quantities.len(), 3);
        let histogram = report.histogram(0, 8);
        assert_eq!(histogram.iter().map(|(n, _)| n).sum::<usize>(), 400);
        assert!(histogram.iter().all(|(_, expected)| (expected - 50.0).abs() < 1e-9));
        assert!(report.to_string().starts_with("calibrated"));
    }

    /// Twice the resolution must be noticed, and be named.
    #[test]
    fn shifted_and_stretched_draws_are_not() {
        let Resolution { shift, spread } = report(0.0, 1.0).resolution();
        for (report, words) in [
            (report(-2.0 * shift, 1.0), "too low"),
            (report(2.0 * shift, 1.0), "too high"),
            (report(0.0, 1.0 - 2.0 * spread), "too narrow"),
            (report(0.0, 1.0 + 2.0 * spread), "too wide"),
        ] {
            assert!(!report.passes(), "{report}");
            assert!(report.to_string().contains(words), "{report}");
        }
    }

    /// Draws from the prior have uniform ranks in every parameter; only what depends on the data
    /// shows that they have ignored them.
    #[test]
    fn draws_from_the_prior_fail_by_the_likelihood_alone() {
        let stream = Stream::new(6, 0, Purpose::Custom(2));
        let report = CALIBRATION()
            .run(&model(), |_, s| {
                (0..15).map(|l| model().draw_prior(&stream, u64::from(s) * 15 + l)).collect()
            })
            .unwrap();
        let fails: Vec<bool> =
            report.quantities.iter().map(|q| q.p_value < report.threshold()).collect();
        assert_eq!(fails, [false, false, true], "{report}");
    }

    #[test]
    fn impossible_calibrations_are_refused() {
        let nothing = |_: &mut LinearRegression, _: u32| Ok(vec![]);
        assert!(Calibration::new(0, 5).run(&model(), nothing).is_err());
        assert!(Calibration::new(5, 0).run(&model(), nothing).is_err());
        let rate = Calibration { false_alarm_rate: 0.0, ..Calibration::new(5, 5) };
        assert!(rate.run(&model(), nothing).unwrap_err().to_string().contains("false_alarm_rate"));
        let error = Calibration::new(5, 5).run(&model(), nothing).unwrap_err();
        assert!(error.to_string().contains("5 draws of 2 parameters"));
        let no_number = |_: &mut LinearRegression, _: u32| Ok(vec![vec![0.0, f64::NAN]; 5]);
        let error = Calibration::new(5, 5).run(&model(), no_number).unwrap_err();
        assert!(error.to_string().contains("a draw that is NaN"), "{error}");
    }
}
