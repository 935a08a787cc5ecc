//! Densities whose answers are known, to try the sampler on.

use super::conduct::{Model, conduct};
use super::exact::Exact;
use super::request::Request;
use super::{Context, Outcome};
use crate::failure::{Failure, Result};
use santa::Potential;
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::{DoubleWell, Gaussian, Mixture, Rosenbrock, Wavy};
use santa_posterior::sampler::{Member, Parameters};

/// The built-in densities, with what they are.
pub const DENSITIES: [(&str, &str); 5] = [
    ("gaussian", "a Gaussian with correlations of 0.9 and scales from 1 to 10"),
    ("double-well", "the paper's Figure 1, in every coordinate: two wells"),
    ("mixture", "two Gaussians, far apart: chains that do not meet"),
    ("rosenbrock", "a curved valley"),
    ("wavy", "a Gaussian with waves"),
];

/// The most parameters. The covariance of a Gaussian has the square of them.
const LARGEST_DIM: usize = 1_024;

const OPTIONS: [&str; 4] = ["--dim", "--metric", "--largest-step", "--temperature"];

/// Samples a built-in density.
pub fn run(request: &Request, context: &Context<'_>) -> Result<Outcome> {
    request.refuse_others("a built-in density", &OPTIONS)?;
    let dim = request.dim.unwrap_or(2);
    if dim == 0 {
        return Err(Failure::usage("--dim 0: there must be at least one parameter"));
    }
    if dim > LARGEST_DIM {
        return Err(Failure::usage(format!(
            "--dim {dim}: a built-in density has {LARGEST_DIM} at most"
        ))
        .hint("they are there to try the sampler on; ask for fewer parameters"));
    }
    match request.model.as_str() {
        "gaussian" => {
            sample(Gaussian::from_covariance(vec![0.0; dim], &covariance(dim))?, request, context)
        }
        "double-well" => sample(DoubleWell::new(dim)?, request, context),
        "mixture" => sample(two(dim)?, request, context),
        "rosenbrock" => {
            /// Wide enough to be walked along.
            const TEMPERATURE: f64 = 10.0;
            sample(Rosenbrock::new(dim.max(2), TEMPERATURE)?, request, context)
        }
        _ => sample(Wavy::new(dim)?, request, context),
    }
}

/// Correlations of 0.9 from each to the next, scales from 1 to 10.
fn covariance(dim: usize) -> Vec<f64> {
    const CORRELATION: f64 = 0.9;
    const LARGEST: f64 = 10.0;
    let scale = |i: usize| LARGEST.powf(i as f64 / (dim - 1).max(1) as f64);
    (0..dim * dim)
        .map(|k| {
            let (i, j) = (k / dim, k % dim);
            CORRELATION.powi(i.abs_diff(j) as i32) * scale(i) * scale(j)
        })
        .collect()
}

/// Two unit Gaussians, one on each side of where the chains start.
fn two(dim: usize) -> santa::Result<Mixture> {
    const MEAN: f64 = 5.0;
    let mut means = vec![-MEAN; dim];
    means.extend(vec![MEAN; dim]);
    Mixture::new(dim, &[0.5, 0.5], &means, &[1.0, 1.0])
}

fn sample<P: Potential<f64> + Clone + Send>(
    potential: P,
    request: &Request,
    context: &Context<'_>,
) -> Result<Outcome> {
    let sampler = request.sampler.sampler(context.seed);
    sampler.check()?;
    let dim = potential.target().dim();
    let recorder = Parameters::of(potential.target());
    /// How far apart the chains start.
    const SPREAD: f64 = 5.0;
    let start = |normals: &[f64]| normals.iter().map(|x| SPREAD * x).collect::<Vec<_>>();
    let members = sampler.members_in_team(context.team, |chain| {
        let mut normals = vec![0.0; dim];
        Stream::new(sampler.seed, chain, Purpose::Initialisation).normals(0, 0, 0, &mut normals);
        Member::new(potential.clone(), recorder.clone(), start(&normals))
    });
    let about = DENSITIES.iter().find(|(name, _)| *name == request.model).map_or("", |(_, a)| a);
    let model = Model {
        title: format!("{} in {dim} dimensions", request.model),
        facts: vec![("model".into(), about.to_string())],
        troubles: Vec::new(),
        exact: Some(Exact {
            potential,
            recorder,
            parameters: Box::new(|draw| Ok(draw.to_vec())),
            start: Box::new(start),
        }),
    };
    conduct(sampler, members, model, context)
}
