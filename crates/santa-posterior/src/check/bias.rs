//! How far a sampler is from a known posterior, as a function of its step and its batches.
//!
//! Parameters are measured in the posterior's own units, $z_i = (\theta_i - m_i)/s_i$ with the
//! [`Reference`]'s means and standard deviations. A [`Plan`] makes independent runs; each gives time
//! averages of z and $z^2$, and their spread over the runs *is* the standard error, whatever the
//! correlation along a run. [`fit_power`] finds the power of h that a bias grows with.
//!
//! The example `bias` makes the table for Santa and its relatives.

use super::{Walk, check_count, in_parallel};
use crate::Draws;
use crate::error::{Error, Result};
use santa::potential::Potential;
use santa::stats::Moments;
use serde::Serialize;

/// The posterior's means and standard deviations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reference {
    /// Means.
    pub mean: Vec<f64>,
    /// Standard deviations.
    pub sd: Vec<f64>,
    /// The largest standard error of a mean, in standard deviations; 0 if exact.
    pub error: f64,
}

impl Reference {
    /// From the exact mean and covariance (row-major).
    pub fn exact(mean: Vec<f64>, covariance: &[f64]) -> Result<Self> {
        let dim = mean.len();
        if dim == 0 || covariance.len() != dim * dim {
            let text = format!("{dim} means and {} covariances", covariance.len());
            return Err(Error::data(text));
        }
        let sd = (0..dim).map(|i| covariance[i * (dim + 1)].sqrt()).collect();
        Reference { mean, sd, error: 0.0 }.checked()
    }

    /// From the draws of an exact sampler, such as [`Hmc`](super::Hmc); the spread over the chains
    /// gives the error.
    pub fn from_draws(draws: &Draws) -> Result<Self> {
        check_count("chains", draws.chains() as u64, 2)?;
        let (mut mean, mut sd, mut error) = (Vec::new(), Vec::new(), 0.0f64);
        for quantity in 0..draws.dim() {
            let chains = draws.quantity(quantity);
            let all: Moments = chains.iter().flatten().copied().collect();
            let means: Moments =
                chains.iter().map(|c| c.iter().copied().collect::<Moments>().mean()).collect();
            mean.push(all.mean());
            sd.push(all.variance().sqrt());
            error = error.max(means.standard_error() / all.variance().sqrt());
        }
        Reference { mean, sd, error }.checked()
    }

    fn checked(self) -> Result<Self> {
        if self.sd.iter().all(|s| *s > 0.0 && s.is_finite()) {
            Ok(self)
        } else {
            Err(Error::data("a standard deviation of the reference is not positive and finite"))
        }
    }

    /// The mean precision of a parameter, $\kappa$.
    pub fn precision(&self) -> f64 {
        self.sd.iter().map(|s| 1.0 / (s * s)).sum::<f64>() / self.sd.len() as f64
    }
}

/// How long to look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Independent runs.
    pub runs: u32,
    /// Steps of a run that are left out. Runs start at the reference's mean.
    pub warm_up: u64,
    /// Steps of a run that are averaged over.
    pub steps: u64,
    /// Seed of all runs.
    pub seed: u64,
}

/// The bias of a sampler, averaged over the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bias {
    /// Of the means, in standard deviations, positive away from zero:
    /// $\frac1d \sum_i \mathrm{sign}(m_i)\ \bar z_i$.
    pub mean: f64,
    /// Its standard error, without the reference's own.
    pub mean_error: f64,
    /// The standard deviations, over the right ones.
    pub sd_ratio: f64,
    /// Its standard error, without the reference's own.
    pub sd_error: f64,
}

/// Of one run, the averages of z and of z^2.
struct Averages {
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Plan {
    /// Runs a sampler on the posteriors that `posterior` gives, all runs on all cores.
    pub fn measure<P: Potential<f64>>(
        &self,
        reference: &Reference,
        walk: &Walk,
        posterior: impl Fn() -> Result<P> + Sync,
    ) -> Result<Bias> {
        check_count("runs", self.runs.into(), 2)?;
        check_count("steps", self.steps, 1)?;
        let Reference { mean, sd, .. } = reference;
        let dim = mean.len();
        let averages = in_parallel(self.runs, |run| {
            let mut chain = walk.chain(posterior()?, mean.clone(), (self.seed, run))?;
            chain.advance(self.warm_up)?;
            let (mut first, mut second) = (vec![0.0; dim], vec![0.0; dim]);
            for _ in 0..self.steps {
                chain.advance(1)?;
                for (i, theta) in chain.theta().iter().enumerate() {
                    let z = (theta - mean[i]) / sd[i];
                    first[i] += z / self.steps as f64;
                    second[i] += z * z / self.steps as f64;
                }
            }
            Ok(Averages { first, second })
        })?;
        let over_runs =
            |of: &dyn Fn(&Averages) -> f64| -> Moments { averages.iter().map(of).collect() };
        let centre: Vec<f64> = (0..dim).map(|i| over_runs(&|a| a.first[i]).mean()).collect();
        let spread: Vec<f64> = (0..dim)
            .map(|i| (over_runs(&|a| a.second[i]).mean() - centre[i] * centre[i]).sqrt())
            .collect();
        let d = dim as f64;
        let outward =
            over_runs(&|a| a.first.iter().zip(mean).map(|(z, m)| m.signum() * z).sum::<f64>() / d);
        // The linear part of the standard deviations' error in the averages of a run.
        let widths = over_runs(&|a| {
            let part = |i: usize| (a.second[i] - 2.0 * centre[i] * a.first[i]) / (2.0 * spread[i]);
            (0..dim).map(part).sum::<f64>() / d
        });
        Ok(Bias {
            mean: outward.mean(),
            mean_error: outward.standard_error(),
            sd_ratio: spread.iter().sum::<f64>() / d,
            sd_error: widths.standard_error(),
        })
    }
}

/// A power of h, with its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Power {
    /// p of $|b| \propto h^p$.
    pub power: f64,
    /// Its standard error.
    pub error: f64,
}

/// Fits $\log|b| = p \log h + c$ to biases `(h, b, standard error)`, weighted, with those that are
/// more than three standard errors from zero; `None` where fewer than two are, or where their
/// signs differ: two errors that cancel somewhere have no one power. Near that bound the choice
/// favours biases that came out large, and the power comes out a little low.
///
/// ```
/// use santa_posterior::check::bias::fit_power;
///
/// let square = [0.1, 0.2, 0.4].map(|h| (h, 3.0 * h * h, 1e-4));
/// assert!((fit_power(&square).unwrap().power - 2.0).abs() < 1e-9);
/// ```
pub fn fit_power(biases: &[(f64, f64, f64)]) -> Option<Power> {
    /// Standard errors from which a logarithm makes sense.
    const CLEAR: f64 = 3.0;
    // The standard error of a logarithm is the relative one.
    let clear = || biases.iter().filter(|(_, b, error)| b.is_finite() && b.abs() > CLEAR * error);
    let points: Vec<(f64, f64, f64)> =
        clear().map(|(h, b, error)| (h.ln(), b.abs().ln(), (b / error).powi(2))).collect();
    if points.len() < 2 || clear().any(|(_, b, _)| *b > 0.0) == clear().any(|(_, b, _)| *b < 0.0) {
        return None;
    }
    let sum = |of: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let weight = sum(&|p| p.2);
    let (x, y) = (sum(&|p| p.2 * p.0) / weight, sum(&|p| p.2 * p.1) / weight);
    let xx = sum(&|p| p.2 * (p.0 - x).powi(2));
    let xy = sum(&|p| p.2 * (p.0 - x) * (p.1 - y));
    Some(Power { power: xy / xx, error: xx.sqrt().recip() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::dynamics::Sgld;
    use santa::noise::{Purpose, Stream};
    use santa::potential::analytic::{Gaussian, LinearRegression};
    use santa::{Rate, Sampling};

    /// SGLD on a unit Gaussian has the variance $1/(1 - \eta/2)$, and no bias of the mean.
    #[test]
    fn the_known_bias_of_sgld_is_found() {
        let plan = Plan { runs: 12, warm_up: 50, steps: 2000, seed: 1 };
        let walk = Walk::new(Sgld::new(Rate::eta(0.5)), Sampling::Full, 1);
        let reference = Reference::exact(vec![0.0; 2], &[1.0, 0.0, 0.0, 1.0]).unwrap();
        let bias =
            plan.measure(&reference, &walk, || Ok(Gaussian::diagonal(&[1.0, 1.0])?)).unwrap();
        let ratio = (1.0 / (1.0 - 0.25f64)).sqrt();
        assert!((bias.sd_ratio - ratio).abs() < 5.0 * bias.sd_error, "{bias:?}");
        assert!(bias.mean.abs() < 5.0 * bias.mean_error, "{bias:?}");
        // Negative control: the bias itself is resolved.
        assert!((bias.sd_ratio - 1.0).abs() > 5.0 * bias.sd_error, "{bias:?}");
    }

    #[test]
    fn draws_make_a_reference_with_an_error() {
        let (model, _) =
            LinearRegression::synthetic(40, 2, 1.0, 1.0, &Stream::new(1, 0, Purpose::Data))
                .unwrap();
        let (mean, covariance) = model.posterior().unwrap();
        let exact = Reference::exact(mean.clone(), &covariance).unwrap();
        let law = Gaussian::from_covariance(mean, &covariance).unwrap();
        let mut draws = Draws::new(["a", "b"], 8).unwrap();
        let mut theta = [0.0; 2];
        for chain in 0..8 {
            for i in 0..500 {
                law.sample(&Stream::new(2, chain, Purpose::Custom(1)), i, &mut theta).unwrap();
                draws.push(chain as usize, &theta).unwrap();
            }
        }
        let found = Reference::from_draws(&draws).unwrap();
        for i in 0..2 {
            assert!(((found.mean[i] - exact.mean[i]) / exact.sd[i]).abs() < 6.0 * found.error);
            // 4000 draws know a standard deviation to 1.1 %.
            assert!((found.sd[i] / exact.sd[i] - 1.0).abs() < 0.06);
        }
        assert!(found.error > 0.003 && found.error < 0.06, "{}", found.error);
    }

    #[test]
    fn a_power_needs_two_clear_biases() {
        assert!(fit_power(&[(0.1, 1.0, 0.1), (0.2, 0.1, 0.1)]).is_none());
        assert!(fit_power(&[(0.1, 1.0, 0.1), (0.2, -1.0, 0.1)]).is_none());
        let line = [(0.1, -0.1, 1e-3), (0.2, -0.2, 1e-3), (0.4, f64::NAN, 1e-3)];
        let fit = fit_power(&line).unwrap();
        assert!((fit.power - 1.0).abs() < 1e-9 && fit.error > 0.0);
    }

    #[test]
    fn impossible_references_are_refused() {
        assert!(Reference::exact(vec![0.0], &[1.0, 2.0]).is_err());
        assert!(Reference::exact(vec![0.0], &[0.0]).is_err());
        assert!(Reference::from_draws(&Draws::new(["a"], 1).unwrap()).is_err());
    }
}
