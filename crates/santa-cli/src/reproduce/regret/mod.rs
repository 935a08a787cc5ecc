//! The supplement's claim that refinement has Adam's regret bound, measured: on a convex problem, and
//! on the known counter-example to that bound.

mod convex;
mod counterexample;
mod logistic;

use super::section::{Section, check_only, publish};
use super::settings::read;
use crate::args::Reproduce;
use crate::console::Console;
use crate::failure::Result;
use serde::Deserialize;

/// The settings as they are built in.
pub const SETTINGS: &str = include_str!("../../../experiments/regret.toml");

/// The figures.
const FIGURES: [&str; 2] = ["convex", "counterexample"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Experiment {
    seed: u64,
    convex: convex::Settings,
    counterexample: counterexample::Settings,
}

/// `santa reproduce regret`: its numbers by figure.
pub fn run(args: &Reproduce, console: &Console) -> Result<serde_json::Value> {
    check_only(&args.only, &FIGURES)?;
    let experiment: Experiment = read("regret", SETTINGS, args.quick)?;
    let mut sections: Vec<Section> = Vec::new();
    for name in FIGURES {
        if !args.only.is_empty() && !args.only.iter().any(|only| only == name) {
            continue;
        }
        console.note(format_args!("measuring: {name}"));
        sections.push(match name {
            "convex" => convex::section(&experiment.convex, experiment.seed)?,
            _ => counterexample::section(&experiment.counterexample, experiment.seed)?,
        });
    }
    publish(args, console, "regret", experiment.seed, &sections)
}
