//! Draws the pictures of the guide, from runs that it makes itself.
//!
//! ```text
//! cargo run --release -p santa-cli --example guide_figures             # into docs/src/images
//! cargo run --release -p santa-cli --example guide_figures -- FOLDER
//! ```

use clap::Parser;
use santa::{Santa, StepSize};
use santa_cli::args::Cli;
use santa_cli::data::Library;
use santa_cli::experiment::Draft;
use santa_cli::failure::{Failure, Result};
use santa_cli::figure::{Axis, Figure, Series, Style, sheet};
use santa_cli::reproduce::double_well;
use santa_cli::run::record::{Evaluation, QUANTILES, Record, Scores};
use santa_cli::run::stored::StoredRun;
use santa_cli::train::{Existing, Plan, Silent, execute};
use std::path::{Path, PathBuf};

/// Of the paths on the double well.
const STEPS: u64 = 2_000;

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/images"));
    let write = |name: &str, svg: String| {
        let path = folder.join(name).with_extension("svg");
        std::fs::write(&path, svg)
            .map_err(|e| Failure::system(format!("writing {}: {e}", path.display())))
    };
    let mut well = double_well::Experiment::parse(double_well::SETTINGS)?;
    write("double-well", double_well::potential())?;
    // A shorter path shows more of itself.
    well.steps = STEPS;
    for method in well.methods.iter_mut().filter(|method| method.name == "santa") {
        let step = StepSize::paper(0.58f64.powi(2), 0.4);
        method.algorithm = Santa::annealing(step, (0.8, 3.0), STEPS).into();
    }
    write("trajectories", well.trajectories()?)?;

    let scratch = tempfile::tempdir().map_err(Failure::system)?;
    let santa = train("santa", &[], scratch.path())?;
    write("temperature-and-momentum", temperature_and_momentum(&santa))?;
    // A chain that goes on exploring at a tenth of the posterior's temperature, its rate as large as
    // that of plain descent.
    let sghmc = train(
        "sghmc",
        &["optimizer.beta.value=10", "prior.precision=10", "averaging.from=5 epochs"],
        scratch.path(),
    )?;
    write(
        "averaging",
        sheet(&[averaging("Santa", &santa), averaging("SGHMC at T = 0.1", &sghmc)], 2),
    )
}

fn style(index: usize) -> Style {
    Style { dash: "", ..Style::numbered(index) }
}

/// Trains the network of the quickstart on the built-in digits.
fn train(optimizer: &str, set: &[&str], folder: &Path) -> Result<StoredRun> {
    let mut draft = Draft::open("quickstart")?;
    draft.set(&format!("optimizer={optimizer}"))?;
    set.iter().try_for_each(|assignment| draft.set(assignment))?;
    let plan = Plan::new(draft, folder)?;
    let library = Library::new(&Cli::parse_from(["santa", "--offline", "presets"]).global)?;
    execute(&plan, &library, Existing::Refuse, &mut Silent)?;
    StoredRun::read(&plan.folder)
}

/// The temperature of a run, and the share of the momentum that survives a step, over its weights.
fn temperature_and_momentum(run: &StoredRun) -> String {
    let training = run.records.iter().filter_map(|record| match record {
        Record::Training(training) => Some((training.epoch, training.temperature)),
        _ => None,
    });
    let temperature = Figure::new(Axis::new("epoch"), Axis::new("temperature 1/β"))
        .titled("Temperature")
        .with(Series::line("", style(0), training.collect()));

    let mut momentum = Figure::new(Axis::new("epoch"), Axis::new("momentum"))
        .titled("Learned momentum, weights of the first layer");
    let quantiles: Vec<(f64, [f64; QUANTILES.len()])> = run
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Layers(layers) => Some((layers.epoch, layers.layers.first()?.momentum?)),
            _ => None,
        })
        .collect();
    let of = |low: usize, high: usize| {
        quantiles.iter().map(|(epoch, at)| (*epoch, at[low], at[high])).collect()
    };
    let median = quantiles.iter().map(|(epoch, at)| (*epoch, at[3])).collect();
    momentum = momentum
        .with(Series::band(style(2), of(0, 6)))
        .with(Series::band(style(2), of(1, 5)))
        .with(Series::line("median", style(2), median).with_band(of(2, 4)));
    sheet(&[temperature, momentum], 2)
}

/// The test error of the last parameters and of the averaged prediction.
fn averaging(title: &str, run: &StoredRun) -> Figure {
    let evaluations: Vec<&Evaluation> = run
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Evaluation(evaluation) => Some(evaluation),
            _ => None,
        })
        .collect();
    let percent = |scores: &Scores| Some(100.0 * scores.test?.error?);
    let last = evaluations.iter().filter_map(|e| Some((e.epoch, percent(&e.last)?)));
    let averaged =
        evaluations.iter().filter_map(|e| Some((e.epoch, percent(&e.averaged.as_ref()?.scores)?)));
    Figure::new(Axis::new("epoch"), Axis::new("test error, %").between(4.0, 10.0))
        .titled(title)
        .with(Series::line("last parameters", Style::numbered(1), last.collect()))
        .with(Series::line("averaged prediction", style(0), averaged.collect()))
}
