//! Sampling a posterior: `santa sample`.
//!
//! | module | what is there |
//! | --- | --- |
//! | `request` | what to sample and how, from the command line and from files |
//! | `built_in`, `regression`, `network` | the three kinds of models |
//! | `conduct` | running the chains, and what is known of the draws afterwards |
//! | `stein` | a test of the draws against the gradient, the kernel Stein discrepancy |
//! | `exact` | a short comparison with exact gradients |
//! | `judgement` | what is said of the draws, in words |
//! | `bars` | how far the chains are |
//! | [`report`] | the page |

mod bars;
mod built_in;
mod conduct;
mod exact;
mod judgement;
mod network;
mod regression;
pub mod report;
mod request;
mod stein;

pub use built_in::DENSITIES;
pub use conduct::Outcome;
pub use exact::Difference;
pub use judgement::reading;
pub use regression::REGRESSIONS;
pub use request::Request;
pub use stein::Measured;

use crate::console::Console;
use crate::data::Library;
use crate::failure::{Failure, Result};
use crate::nearest;
use santa_distributed::Team;
use std::path::PathBuf;

/// Where and for whom the sampling is done.
pub struct Context<'a> {
    /// The folder of the draws.
    pub folder: PathBuf,
    /// The seed, unless the request has one.
    pub seed: u64,
    /// Go on with the draws in the folder.
    pub resume: bool,
    /// Where to speak.
    pub console: &'a Console,
    /// The data sets.
    pub data_sets: &'a Library,
    /// Quantities that the report is to show.
    pub show: &'a [String],
    /// What is asked for, for the store's description.
    pub request: &'a Request,
    /// Who shares the chains. Rank 0 speaks and writes for all.
    pub team: &'a dyn Team,
}

impl Context<'_> {
    /// Whether this process speaks and writes for the team.
    pub fn leads(&self) -> bool {
        self.team.rank() == 0
    }
}

/// What kind of model a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A built-in density.
    BuiltIn,
    /// A regression on a CSV file.
    Regression,
    /// An experiment with a network.
    Network,
}

impl Kind {
    /// By the model's name; whatever is no other is taken for an experiment.
    pub fn of(model: &str) -> Self {
        if DENSITIES.iter().any(|(name, _)| *name == model) {
            Kind::BuiltIn
        } else if REGRESSIONS.iter().any(|(name, _)| *name == model) {
            Kind::Regression
        } else {
            Kind::Network
        }
    }
}

/// Does what is asked for.
pub fn run(request: &Request, context: &Context<'_>) -> Result<Outcome> {
    match Kind::of(&request.model) {
        Kind::BuiltIn => built_in::run(request, context),
        Kind::Regression => regression::run(request, context),
        Kind::Network => network::run(request, context).map_err(|failure| better(failure, request)),
    }
}

/// A name that is not that of an experiment may have been meant for a density or a regression.
fn better(failure: Failure, request: &Request) -> Failure {
    let known = DENSITIES.iter().chain(&REGRESSIONS).map(|(name, _)| *name);
    match nearest::nearest(&request.model, known) {
        Some(meant) if !failure.message.contains("did you mean") => {
            let hint = failure.hint.clone().unwrap_or_default();
            let also = format!("or the built-in model {meant:?}?");
            failure.hint(if hint.is_empty() { also } else { format!("{hint}; {also}") })
        }
        _ => failure,
    }
}
