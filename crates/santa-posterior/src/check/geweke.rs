//! The joint-distribution test: parameters and data, simulated in two ways.

use super::laws::{student_threshold, student_two_sided};
use super::{
    FALSE_ALARM_RATE, Model, check_count, check_rate, in_parallel, log_likelihood, parameter_names,
};
use crate::error::Result;
use santa::noise::{Purpose, Stream};
use santa::potential::Potential;
use santa::stats::Moments;
use serde::Serialize;
use std::fmt;

/// Settings of the joint-distribution test (Geweke, 2004).
///
/// The joint law $p(\theta)\ p(y \mid \theta)$ is drawn from in two ways:
///
/// * *marginal-conditional*: $\theta$ from the prior, y from $\theta$; independent draws;
/// * *successive-conditional*: again and again y from $\theta$, then $\theta$ by a few steps of
///   the sampler on the posterior of y, from where it is.
///
/// If the transition leaves every posterior invariant, both have the same law, and averages of any
/// function of $(\theta, y)$ agree. The functions are each $\theta_i$, each $\theta_i^2$ and the
/// log-likelihood, taken after the transition and before y is drawn anew.
///
/// # Standard errors
///
/// The successive draws are correlated, so there are many independent `runs`, each started in the
/// joint law and each a batch of its own: its averages are independent of the other runs', whatever
/// the correlation within. The z-score
///
/// $$ z = \frac{\bar g_\mathrm{sc} - \bar g_\mathrm{mc}}{\sqrt{\mathrm{se}_\mathrm{sc}^2 + \mathrm{se}_\mathrm{mc}^2}} $$
///
/// is held against Student's law (Welch's degrees of freedom), each function at the false-alarm
/// rate divided by their number. The first `warm_up` sweeps of a run are left out: a right sampler
/// needs none, but a wrong one takes some to get away from the joint law.
///
/// # Resolution
///
/// An error of the transition adds up: where a right transition forgets a share $1 - \rho$ of
/// $\theta$ in a sweep, an error of $\delta$ in the posterior becomes one of $\delta/(1-\rho)$
/// here. For a linear model and long transitions $\rho$ is one minus the posterior's variance over
/// the prior's. [`JointQuantity::resolution`] is in standard deviations under the joint law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JointTest {
    /// Independent runs of the successive-conditional simulator.
    pub runs: u32,
    /// Sweeps of a run that are left out.
    pub warm_up: u32,
    /// Sweeps of a run that are averaged over.
    pub sweeps: u32,
    /// The chance that a right sampler fails, over all functions.
    pub false_alarm_rate: f64,
    /// Seed of the simulations.
    pub seed: u64,
}

/// The purposes of this module's noise.
const MARGINAL: Purpose = Purpose::Custom(104);
const SUCCESSIVE: Purpose = Purpose::Custom(105);

impl JointTest {
    /// So many runs of so many sweeps, a tenth as many before, and a false-alarm rate of
    /// [`FALSE_ALARM_RATE`].
    pub fn new(runs: u32, sweeps: u32) -> Self {
        /// Share of the sweeps that a wrong sampler is given to get away.
        const TENTH: u32 = 10;
        let warm_up = sweeps / TENTH;
        JointTest { runs, warm_up, sweeps, false_alarm_rate: FALSE_ALARM_RATE, seed: 0 }
    }
    /// Other simulations.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs both simulators, on all cores. `sampler` gives for the number of a run the transition
    /// that moves theta on a posterior, and that may keep what it likes from call to call.
    pub fn run<M, S, T>(&self, model: &M, sampler: S) -> Result<JointReport>
    where
        M: Model + Sync,
        S: Fn(u32) -> T + Sync,
        T: FnMut(&mut M::Posterior, &mut Vec<f64>) -> Result<()>,
    {
        // Two runs have a spread; a law with few degrees of freedom has no resolution.
        check_count("runs", self.runs.into(), 2)?;
        check_count("sweeps", self.sweeps.into(), 1)?;
        check_rate(self.false_alarm_rate)?;
        // As many independent draws as there are successive ones: their error is the smaller.
        let marginal = in_parallel(self.runs, |run| {
            let stream = Stream::new(self.seed, run, MARGINAL);
            let mut moments = Vec::new();
            let mut names = Vec::new();
            for draw in 0..u64::from(self.sweeps) {
                let theta = model.draw_prior(&stream, draw)?;
                let mut posterior = model.simulate(&theta, &stream, draw)?;
                take_in(&mut moments, &functions(&mut posterior, &theta)?);
                if names.is_empty() {
                    names = function_names(&posterior);
                }
            }
            Ok((names, moments))
        })?;
        let successive = in_parallel(self.runs, |run| {
            let stream = Stream::new(self.seed, run, SUCCESSIVE);
            let mut transition = sampler(run);
            let mut theta = model.draw_prior(&stream, 0)?;
            let mut moments = Vec::new();
            for sweep in 0..self.warm_up.saturating_add(self.sweeps) {
                let mut posterior = model.simulate(&theta, &stream, sweep.into())?;
                transition(&mut posterior, &mut theta)?;
                if sweep >= self.warm_up {
                    take_in(&mut moments, &functions(&mut posterior, &theta)?);
                }
            }
            Ok(moments)
        })?;
        let names = &marginal[0].0;
        let rate = self.false_alarm_rate / names.len() as f64;
        let quantities = names
            .iter()
            .enumerate()
            .map(|(q, name)| {
                // Averages of runs: independent numbers, of the first simulator's draws, too.
                let right: Moments = marginal.iter().map(|(_, m)| m[q].mean()).collect();
                let found: Moments = successive.iter().map(|m| m[q].mean()).collect();
                let within: Moments = marginal.iter().map(|(_, m)| m[q].variance()).collect();
                let sd = (within.mean() + right.variance()).sqrt();
                JointQuantity::compare(name.clone(), right, found, sd, rate)
            })
            .collect();
        let JointTest { runs, sweeps, false_alarm_rate, .. } = *self;
        Ok(JointReport { quantities, runs, sweeps, false_alarm_rate })
    }
}

fn take_in(moments: &mut Vec<Moments>, values: &[f64]) {
    moments.resize(values.len(), Moments::default());
    moments.iter_mut().zip(values).for_each(|(m, x)| m.push(*x));
}

/// theta, its squares and the log-likelihood.
fn functions(posterior: &mut impl Potential<f64>, theta: &[f64]) -> Result<Vec<f64>> {
    let mut values = theta.to_vec();
    values.extend(theta.iter().map(|x| x * x));
    values.push(log_likelihood(posterior, theta)?);
    Ok(values)
}

fn function_names(posterior: &impl Potential<f64>) -> Vec<String> {
    let parameters = parameter_names(posterior.target());
    let squares = parameters.iter().map(|name| format!("{name}^2"));
    parameters.iter().cloned().chain(squares).chain(["log-likelihood".into()]).collect()
}

/// One function of parameters and data, under both simulators.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JointQuantity {
    /// The function.
    pub name: String,
    /// Its mean under the prior and the simulator, with the standard error.
    pub expected: (f64, f64),
    /// Its mean under the sampler and the simulator, with the standard error.
    pub found: (f64, f64),
    /// The difference in standard errors.
    pub z: f64,
    /// Welch's degrees of freedom.
    pub freedom: f64,
    /// The chance of a z as far from 0, for a right sampler.
    pub p_value: f64,
    /// The difference that is noticed in half of the cases, in standard deviations of the function
    /// under the joint law.
    pub resolution: f64,
}

impl JointQuantity {
    fn compare(name: String, right: Moments, found: Moments, sd: f64, rate: f64) -> Self {
        let (a, b) = (right.standard_error().powi(2), found.standard_error().powi(2));
        let error = (a + b).sqrt();
        let shares = [(a, right), (b, found)]
            .map(|(square, moments)| square * square / (moments.count() - 1) as f64);
        let freedom = (a + b).powi(2) / (shares[0] + shares[1]);
        let z = (found.mean() - right.mean()) / error;
        JointQuantity {
            name,
            expected: (right.mean(), right.standard_error()),
            found: (found.mean(), found.standard_error()),
            z,
            freedom,
            p_value: student_two_sided(z, freedom),
            resolution: student_threshold(rate, freedom) * error / sd,
        }
    }
}

/// What the joint-distribution test found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JointReport {
    /// Every function.
    pub quantities: Vec<JointQuantity>,
    /// Independent runs.
    pub runs: u32,
    /// Sweeps of each.
    pub sweeps: u32,
    /// The chance that a right sampler fails, over all functions.
    pub false_alarm_rate: f64,
}

impl JointReport {
    /// A p-value below this one fails: the false-alarm rate divided by the number of functions.
    pub fn threshold(&self) -> f64 {
        self.false_alarm_rate / self.quantities.len() as f64
    }
    /// Whether no function fails. One whose average is no number does.
    pub fn passes(&self) -> bool {
        self.quantities.iter().all(|q| q.p_value >= self.threshold())
    }
}

impl fmt::Display for JointReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} runs of {} sweeps; a right sampler fails with a chance below {:e}",
            if self.passes() { "the joint laws agree" } else { "the joint laws DIFFER" },
            self.runs,
            self.sweeps,
            self.false_alarm_rate
        )?;
        for q in &self.quantities {
            writeln!(
                f,
                "  {:<16} {:>10.4} +- {:.4}, expected {:>10.4} +- {:.4}: z = {:>6.2}, p = {:.2e}, \
                 resolution {:.3} sd",
                q.name,
                q.found.0,
                q.found.1,
                q.expected.0,
                q.expected.1,
                q.z,
                q.p_value,
                q.resolution
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

    /// Exact draws of the conjugate posterior, stretched by a factor.
    fn report(test: JointTest, stretch: f64) -> JointReport {
        let exact = |run: u32| {
            let stream = Stream::new(7, run, Purpose::Custom(1));
            let mut draw = 0;
            move |posterior: &mut LinearRegression, theta: &mut Vec<f64>| {
                let (mean, covariance) = posterior.posterior()?;
                Gaussian::from_covariance(mean.clone(), &covariance)?
                    .sample(&stream, draw, theta)?;
                draw += 1;
                theta.iter_mut().zip(&mean).for_each(|(x, m)| *x = m + stretch * (*x - m));
                Ok(())
            }
        };
        test.run(&model(), exact).unwrap()
    }

    #[test]
    fn an_exact_transition_leaves_the_joint_law_alone() {
        let report = report(JointTest::new(30, 60).seed(1), 1.0);
        assert!(report.passes(), "{report}");
        assert_eq!(report.quantities.len(), 5);
    }

    #[test]
    fn a_transition_that_is_too_wide_or_too_narrow_does_not() {
        for stretch in [0.6, 1.4] {
            let report = report(JointTest::new(30, 60).seed(1), stretch);
            assert!(!report.passes(), "{report}");
        }
    }

    /// The p-values of a right transition are as rare as they say: at a rate of 10 %, over 100
    /// tests, at most 25 alarms (five standard errors above ten).
    #[test]
    #[cfg_attr(debug_assertions, ignore = "slow without optimization")]
    fn false_alarms_are_as_rare_as_stated() {
        let test = JointTest { false_alarm_rate: 0.1, ..JointTest::new(12, 30) };
        let alarms = (0..100).filter(|seed| !report(test.seed(*seed), 1.0).passes()).count();
        assert!(alarms <= 25, "{alarms}");
    }

    #[test]
    fn impossible_tests_are_refused() {
        let still = |_: u32| |_: &mut LinearRegression, _: &mut Vec<f64>| Ok(());
        assert!(JointTest::new(1, 10).run(&model(), still).is_err());
        assert!(JointTest::new(10, 0).run(&model(), still).is_err());
        let rate = JointTest { false_alarm_rate: 2.0, ..JointTest::new(5, 5) };
        assert!(rate.run(&model(), still).unwrap_err().to_string().contains("false_alarm_rate"));
    }
}
