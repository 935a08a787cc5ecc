//! A short comparison with exact gradients, for small problems.
//!
//! Minibatches and a finite step bias a sampler, and a biased chain converges as nicely as any other.
//! Hamiltonian Monte Carlo with all data and a Metropolis correction has no such bias: a short run of
//! it, in the same coordinates, says how far off the draws may be.

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
/// Chains of the exact sampler, and draws of each.
const CHAINS: u32 = 4;
const DRAWS: usize = 500;
const WARM_UP: u64 = 300;

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
        let target = self.potential.target();
        target.data_size().get().saturating_mul(target.dim() as u64) <= SMALL
    }
}

/// What came of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// One for each quantity.
    Of(Vec<Difference>),
    /// The exact chains have not met.
    NotConverged {
        /// The quantity that shows it best.
        name: String,
        /// Its R-hat.
        r_hat: f64,
    },
}

/// Compares draws with those of the exact sampler.
pub fn compare<P: Potential<f64>, R: Recorder<f64, P>>(
    exact: Exact<P, R>,
    scales: &Scales<f64>,
    seed: u64,
    summary: &Summary,
) -> Result<Comparison> {
    /// A split R-hat above this is no reference.
    const CONVERGED: f64 = 1.05;
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
    let hmc = Hmc {
        warm_up: WARM_UP,
        draws: DRAWS,
        scales: Some(vec![1.0; dim]),
        seed,
        ..Hmc::default()
    };
    let run = hmc.run(&mut seen, &starts)?;
    let names = recorder.names();
    let mut draws = Draws::new(&names, CHAINS as usize)?;
    let (mut theta, mut row) = (vec![0.0; dim], vec![0.0; names.len()]);
    for chain in 0..CHAINS as usize {
        for draw in 0..run.draws.len() {
            scales.to_theta(run.draws.draw(chain, draw), &mut theta);
            recorder.record(seen.inner_mut(), &theta, &mut row)?;
            draws.push(chain, &row)?;
        }
    }
    let exact = Summary::new(&draws);
    // Not a number is the worst.
    if let Some(worst) = exact.rows.iter().max_by(|a, b| a.r_hat.total_cmp(&b.r_hat))
        && (worst.r_hat.is_nan() || worst.r_hat > CONVERGED)
    {
        return Ok(Comparison::NotConverged { name: worst.name.clone(), r_hat: worst.r_hat });
    }
    let pairs = summary.rows.iter().zip(&exact.rows);
    Ok(Comparison::Of(pairs.map(|(here, exact)| Difference::new(here, exact)).collect()))
}

/// Numbers the stream of this module.
const PURPOSE: u8 = 61;
