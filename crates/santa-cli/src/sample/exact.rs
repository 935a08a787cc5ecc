//! A short comparison with exact gradients, for small problems.
//!
//! Minibatches and a finite step bias a sampler, and a biased chain converges as nicely as any other.
//! Hamiltonian Monte Carlo with all data and a Metropolis correction has no such bias: a short run of
//! it, in the same coordinates, says how far off the draws may be. It may be slow itself, and a reference
//! that has not converged would condemn right draws or let wrong ones pass: it is made longer until it has,
//! and if it never does, nothing confirms the draws.

use super::stein::Parameters;
use crate::failure::Result;
use santa::Potential;
use santa::noise::{Purpose, Stream};
use santa_posterior::Draws;
use santa_posterior::check::Hmc;
use santa_posterior::diagnostics::{Row, Summary};
use santa_posterior::sampler::{Recorder, Scales, Whitened};
use serde::Serialize;

/// Up to so many multiplications for a gradient, the comparison takes about a second.
const SMALL: u64 = 200_000;
/// Chains of the exact sampler, and draws of each: if they have not converged, so many times more, up to
/// the most.
const CHAINS: u32 = 4;
const FEWEST_DRAWS: usize = 500;
const LONGER: usize = 4;
const MOST_DRAWS: usize = 8_000;
const WARM_UP: u64 = 300;
/// Draws times the multiplications of a gradient, at most: what is large is given up earlier.
const MOST_WORK: u64 = 2_000 * SMALL;
/// A split R-hat above this, or an effective sample size below that, is no reference.
const CONVERGED: f64 = 1.01;
const EFFECTIVE: f64 = 400.0;

/// What of a quantity can be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// Its mean.
    Mean,
    /// Its standard deviation.
    Sd,
}

/// What the comparison found for one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Its name.
    pub name: String,
    /// Mean minus exact mean, in exact standard deviations.
    pub mean: f64,
    /// Its standard error.
    pub mean_error: f64,
    /// Standard deviation over the exact one.
    pub sd_ratio: f64,
    /// Its standard error.
    pub sd_ratio_error: f64,
}

impl Difference {
    fn new(here: &Row, exact: &Row) -> Self {
        let ratio = here.sd / exact.sd;
        let relative = (here.mcse_sd / here.sd).hypot(exact.mcse_sd / exact.sd);
        Difference {
            name: here.name.clone(),
            mean: (here.mean - exact.mean) / exact.sd,
            mean_error: here.mcse_mean.hypot(exact.mcse_mean) / exact.sd,
            sd_ratio: ratio,
            sd_ratio_error: ratio * relative,
        }
    }

    /// What is off, the worse of the two: the mean by more than a tenth of a standard deviation, or
    /// the standard deviation by more than a twentieth, and not by chance: four standard errors, one
    /// quantity in 16,000. With it, how many times its tolerance it is off by.
    pub fn off(&self) -> Option<(Off, f64)> {
        const SURELY: f64 = 4.0;
        let of = |what, by: f64, tolerance: f64, error: f64| {
            // What is not a number is off.
            let off = !(by.abs() <= tolerance || by.abs() <= SURELY * error);
            off.then_some((what, by.abs() / tolerance))
        };
        let mean = of(Off::Mean, self.mean, 0.1, self.mean_error);
        let sd = of(Off::Sd, self.sd_ratio - 1.0, 0.05, self.sd_ratio_error);
        mean.into_iter().chain(sd).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// What checks with exact gradients need.
pub struct Exact<P, R> {
    /// The potential.
    pub potential: P,
    /// What is kept of a draw.
    pub recorder: R,
    /// The way back.
    pub parameters: Parameters,
    /// Makes the start of a chain from standard normals. As far apart as those of the draws: what is
    /// begun inside of what the draws have seen would not see more.
    pub start: Start,
}

type Start = Box<dyn Fn(&[f64]) -> Vec<f64>>;

impl<P: Potential<f64>, R> Exact<P, R> {
    /// Whether a comparison is quick.
    pub fn is_small(&self) -> bool {
        self.work() <= SMALL
    }

    /// Multiplications for a gradient.
    fn work(&self) -> u64 {
        let target = self.potential.target();
        target.data_size().get().saturating_mul(target.dim() as u64)
    }
}

/// What came of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// One for each quantity.
    Of(Vec<Difference>),
    /// The exact chains have not converged.
    NotConverged(Slow),
}

/// An exact run that has not converged, by the quantity that shows it best.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    /// Its name.
    pub name: String,
    /// Its R-hat.
    pub r_hat: f64,
    /// The smaller of its effective sample sizes.
    pub effective: f64,
    /// Draws of each chain.
    pub draws: usize,
}

impl Slow {
    /// What a run has not brought to an end; none if it has.
    fn of(exact: &Summary, draws: usize) -> Option<Slow> {
        let effective = |row: &Row| row.ess_bulk.min(row.ess_tail);
        // Not a number is the worst.
        let worst = exact.rows.iter().max_by(|a, b| a.r_hat.total_cmp(&b.r_hat))?;
        let least = exact.rows.iter().min_by(|a, b| effective(a).total_cmp(&effective(b)))?;
        let row = match worst.r_hat <= CONVERGED {
            false => worst,
            true if effective(least) >= EFFECTIVE => return None,
            true => least,
        };
        let (name, r_hat) = (row.name.clone(), row.r_hat);
        Some(Slow { name, r_hat, effective: effective(row), draws })
    }
}

/// Compares draws with those of the exact sampler.
pub fn compare<P: Potential<f64>, R: Recorder<f64, P>>(
    exact: Exact<P, R>,
    scales: &Scales<f64>,
    seed: u64,
    summary: &Summary,
) -> Result<Comparison> {
    let work = exact.work();
    let Exact { potential, mut recorder, start, .. } = exact;
    let dim = potential.target().dim();
    let mut seen = Whitened::new(potential, scales.clone())?;
    let starts: Vec<Vec<f64>> = (0..CHAINS)
        .map(|chain| {
            let mut normals = vec![0.0; dim];
            Stream::new(seed, chain, Purpose::Custom(PURPOSE)).normals(0, 0, 0, &mut normals);
            scales.to_z(&start(&normals))
        })
        .collect();
    let names = recorder.names();
    let mut draws = FEWEST_DRAWS;
    loop {
        let scales_of_hmc = Some(vec![1.0; dim]);
        let hmc = Hmc { warm_up: WARM_UP, draws, scales: scales_of_hmc, seed, ..Hmc::default() };
        let run = hmc.run(&mut seen, &starts)?;
        let exact = summarised(&run.draws, &names, scales, seen.inner_mut(), &mut recorder)?;
        let Some(slow) = Slow::of(&exact, draws) else {
            let pairs = summary.rows.iter().zip(&exact.rows);
            return Ok(Comparison::Of(pairs.map(|(here, e)| Difference::new(here, e)).collect()));
        };
        draws *= LONGER;
        if draws > MOST_DRAWS || work.saturating_mul(draws as u64) > MOST_WORK {
            return Ok(Comparison::NotConverged(slow));
        }
    }
}

/// The summary of what is kept of draws in whitened coordinates.
fn summarised<P: Potential<f64>, R: Recorder<f64, P>>(
    whitened: &Draws,
    names: &[String],
    scales: &Scales<f64>,
    potential: &mut P,
    recorder: &mut R,
) -> Result<Summary> {
    let mut draws = Draws::new(names, whitened.chains())?;
    let (mut theta, mut row) = (vec![0.0; whitened.names().len()], vec![0.0; names.len()]);
    for chain in 0..whitened.chains() {
        for draw in 0..whitened.len() {
            scales.to_theta(whitened.draw(chain, draw), &mut theta);
            recorder.record(potential, &theta, &mut row)?;
            draws.push(chain, &row)?;
        }
    }
    Ok(Summary::new(&draws))
}

/// Numbers the stream of this module.
const PURPOSE: u8 = 61;

#[cfg(test)]
mod tests {
    use super::*;
    use santa::potential::analytic::{Gaussian, Mixture};
    use santa_posterior::sampler::Parameters as All;

    /// What comes of comparing a few draws with a law.
    fn of<P: Potential<f64>>(potential: P) -> Comparison {
        const SPREAD: f64 = 5.0;
        let dim = potential.target().dim();
        let recorder = All::of(potential.target());
        let mut draws = Draws::new((0..dim).map(|i| i.to_string()), 1).unwrap();
        (0..4).for_each(|i| draws.push(0, &vec![f64::from(i); dim]).unwrap());
        let exact = Exact {
            potential,
            recorder,
            parameters: Box::new(|draw| Ok(draw.to_vec())),
            start: Box::new(|normals| normals.iter().map(|x| SPREAD * x).collect()),
        };
        compare(exact, &Scales::Identity, 1, &Summary::new(&draws)).unwrap()
    }

    #[test]
    fn a_run_that_never_converges_is_no_reference() {
        assert!(matches!(of(Gaussian::diagonal(&[1.0, 2.0]).unwrap()), Comparison::Of(_)));
        let apart = of(Mixture::new(1, &[0.5, 0.5], &[-6.0, 6.0], &[1.0, 1.0]).unwrap());
        let Comparison::NotConverged(slow) = apart else { panic!("{apart:?}") };
        assert!(slow.draws == MOST_DRAWS && slow.r_hat > 1.1, "{slow:?}");
    }

    #[test]
    fn a_reference_needs_chains_that_agree_and_draws_that_forget() {
        let of = |memory: f64, apart: f64| {
            let mut draws = Draws::new(["a"], 4).unwrap();
            for chain in 0..4 {
                let (stream, mut x) = (Stream::new(1, chain, Purpose::Custom(PURPOSE)), 0.0);
                for t in 0..500 {
                    let mut fresh = [0.0];
                    stream.normals(t, 0, 0, &mut fresh);
                    x = memory * x + (1.0 - memory * memory).sqrt() * fresh[0];
                    draws.push(chain as usize, &[x + apart * f64::from(chain)]).unwrap();
                }
            }
            Slow::of(&Summary::new(&draws), 500)
        };
        assert_eq!(of(0.0, 0.0), None);
        assert!(of(0.0, 0.5).unwrap().r_hat > CONVERGED);
        assert!(of(0.9, 0.0).unwrap().effective < EFFECTIVE);
    }
}
