//! What a run gives back.

use super::plan::Plan;
use super::tuning::Tuning;
use crate::Draws;
use crate::error::Result;
use serde::Serialize;

/// The draws of a run, and what is known about them.
#[derive(Clone, Debug)]
pub struct Posterior<F, R> {
    /// What the recorders kept.
    pub draws: Draws,
    /// Of each draw: [`TEMPERATURE`], [`KINETIC`], [`LOSS`].
    pub statistics: Draws,
    /// What the warm-up found.
    pub tuning: Tuning<F>,
    /// The recorders, one for each chain, with what they have gathered. In a team, those of all chains
    /// on rank 0 and those of the own ones elsewhere.
    pub recorders: Vec<R>,
    /// Which steps became draws.
    pub plan: Plan,
    /// $\beta$
    pub beta: f64,
    /// Whether all draws were made; false if the run was asked to stop.
    pub complete: bool,
}

/// The configurational temperature, mean over the steps since the draw before.
pub const TEMPERATURE: &str = "temperature";
/// The kinetic temperature at the draw.
pub const KINETIC: &str = "kinetic_temperature";
/// The loss of the draw's minibatch.
pub const LOSS: &str = "loss";
/// The statistics of each draw.
pub const STATISTICS: [&str; 3] = [TEMPERATURE, KINETIC, LOSS];

/// A temperature over a whole run, with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Temperature {
    /// Mean over all chains.
    pub mean: f64,
    /// Standard error, from the means of batches of consecutive draws.
    pub standard_error: f64,
    /// What it should be: $1/\beta$.
    pub expected: f64,
}

impl Temperature {
    /// Whether it is off by more than `tolerance`, relative, and by more than chance would have it
    /// (four standard errors: one sound run in 16,000); or unknown, which is no agreement either. See
    /// [`Temperature::is_unknown`].
    pub fn is_off(&self, tolerance: f64) -> bool {
        const SURELY: f64 = 4.0;
        let off = (self.mean - self.expected).abs();
        let agrees = off <= tolerance * self.expected || off <= SURELY * self.standard_error;
        self.is_unknown() || !agrees
    }

    /// Whether the draws do not tell it: a mean or a standard error that is not finite, or a standard
    /// error above the temperature that is expected. Either there are very few draws, or some of them
    /// are of chains that have run away, whose readings scatter as widely as they are large.
    pub fn is_unknown(&self) -> bool {
        !(self.mean.is_finite() && self.standard_error <= self.expected)
    }
}

impl<F, R> Posterior<F, R> {
    /// The configurational temperature: whether the law of the parameters is the right one.
    pub fn configurational_temperature(&self) -> Temperature {
        self.temperature(TEMPERATURE)
    }
    /// The kinetic temperature, which a thermostat keeps right whatever the parameters do.
    pub fn kinetic_temperature(&self) -> Temperature {
        self.temperature(KINETIC)
    }

    fn temperature(&self, name: &str) -> Temperature {
        let place = self.statistics.position(name).expect("a statistic of every draw");
        let chains = self.statistics.quantity(place);
        let slices: Vec<&[f64]> = chains.iter().map(Vec::as_slice).collect();
        let (mean, standard_error) = batch_means(&slices);
        Temperature { mean, standard_error, expected: 1.0 / self.beta }
    }

    /// The draws of one cycle of a cyclical schedule.
    pub fn cycle(&self, cycle: u64) -> Result<Draws> {
        let mut some = Draws::new(self.draws.names(), self.draws.chains())?;
        for draw in 0..self.draws.len() {
            if self.plan.cycle_of(draw as u64) == cycle {
                for chain in 0..self.draws.chains() {
                    some.push(chain, self.draws.draw(chain, draw))?;
                }
            }
        }
        Ok(some)
    }
}

/// The mean of correlated numbers, by chain, and its standard error from the scatter of the means of
/// batches of consecutive ones: some twenty to each chain.
pub fn batch_means(chains: &[&[f64]]) -> (f64, f64) {
    const BATCHES: usize = 20;
    let mut means = Vec::new();
    let (mut sum, mut count) = (0.0, 0usize);
    for chain in chains {
        sum += chain.iter().sum::<f64>();
        count += chain.len();
        let size = (chain.len() / BATCHES).max(1);
        means.extend(chain.chunks_exact(size).map(|b| b.iter().sum::<f64>() / size as f64));
    }
    let mean = sum / count as f64;
    let k = means.len() as f64;
    let scatter = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (k - 1.0);
    (mean, (scatter / k).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_off(mean: f64, standard_error: f64, expected: f64) -> bool {
        Temperature { mean, standard_error, expected }.is_off(0.05)
    }

    #[test]
    fn a_temperature_agrees_within_the_tolerance_or_within_chance() {
        assert!(!is_off(1.04, 0.001, 1.0) && !is_off(1.5, 0.2, 1.0) && !is_off(0.5, 0.2, 1.0));
        assert!(is_off(1.06, 0.001, 1.0) && is_off(2.0, 0.2, 1.0) && is_off(0.1, 0.2, 1.0));
        assert!(is_off(1.0, 0.01, 0.5) && !is_off(0.51, 0.01, 0.5));
    }

    #[test]
    fn a_temperature_that_is_not_known_agrees_with_nothing() {
        let huge = [f64::INFINITY, f64::NAN, f64::MAX, 2e242];
        for error in huge {
            assert!(is_off(1.0, error, 1.0) && is_off(2.5e242, error, 1.0), "{error}");
        }
        for mean in huge {
            assert!(is_off(mean, 0.1, 1.0) && is_off(-mean, 0.1, 1.0), "{mean}");
        }
        assert!(is_off(553.0, 102.0, 1.0) && is_off(300.0, 200.0, 100.0));
        assert!(!is_off(150.0, 90.0, 100.0));
    }
}
