//! Draws the pictures of the guide, from runs that it makes itself.
//!
//! ```text
//! cargo run --release -p santa-cli --example guide_figures             # into docs/src/images
//! cargo run --release -p santa-cli --example guide_figures -- FOLDER
//! ```

use clap::Parser;
use santa::dynamics::RmsProp;
use santa::potential::analytic::DoubleWell;
use santa::{Algorithm, Chain, Sampling, Santa, Stage, StepSize, Stepper};
use santa_cli::args::Cli;
use santa_cli::data::Library;
use santa_cli::experiment::Draft;
use santa_cli::failure::{Failure, Result};
use santa_cli::figure::{Axis, Figure, Series, Shade, Style, sheet};
use santa_cli::run::record::{Evaluation, QUANTILES, Record, Scores};
use santa_cli::run::stored::StoredRun;
use santa_cli::train::{Existing, Plan, Silent, execute};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Of all runs on the double well.
const SEED: u64 = 2016;
/// Where they start: on the wrong side of the barrier.
const START: f64 = 4.0;
const STEPS: u64 = 2_000;

const EXPLORING: &str = "#fdf3e1";
const REFINING: &str = "#e8f1fa";

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/images"));
    let write = |name: &str, svg: String| {
        let path = folder.join(name).with_extension("svg");
        std::fs::write(&path, svg)
            .map_err(|e| Failure::system(format!("writing {}: {e}", path.display())))
    };
    write("double-well", double_well())?;
    write("trajectories", trajectories()?)?;

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

/// U of the double well, and the law exp(-beta U) at three temperatures.
fn double_well() -> String {
    const POINTS: i32 = 400;
    const RANGE: (f64, f64) = (-5.0, 4.5);
    let at = |i: i32| RANGE.0 + (RANGE.1 - RANGE.0) * f64::from(i) / f64::from(POINTS);
    let curve = |f: &dyn Fn(f64) -> f64| (0..=POINTS).map(|i| (at(i), f(at(i)))).collect();
    let potential = Figure::new(Axis::new("θ"), Axis::new("U(θ)").between(-3.5, 6.0))
        .titled("The potential")
        .with(Series::line("", style(5), curve(&DoubleWell::u)));
    let mut density = Figure::new(Axis::new("θ"), Axis::new("density")).titled("exp(−U/T)");
    for (i, temperature) in [4.0, 1.0, 0.25].into_iter().enumerate() {
        let weight = |x: f64| (-DoubleWell::u(x) / temperature).exp();
        let width = (RANGE.1 - RANGE.0) / f64::from(POINTS);
        let total: f64 = (0..=POINTS).map(|i| weight(at(i)) * width).sum();
        let points = curve(&|x| weight(x) / total);
        density =
            density.with(Series::line(format!("T = {temperature}"), Style::numbered(i), points));
    }
    sheet(&[potential, density], 2)
}

/// Where Santa and RMSprop go on the double well.
fn trajectories() -> Result<String> {
    // The settings of the example `double_well`.
    let santa = Santa::annealing(StepSize::paper(0.58f64.powi(2), 0.4), (0.8, 3.0), STEPS);
    let (path, refining) = walk(santa)?;
    let (stuck, _) = walk(RmsProp::new(0.01))?;
    let end = STEPS as f64;
    let mut figure =
        Figure::new(Axis::new("step").between(0.0, end), Axis::new("θ").between(-5.5, 5.0))
            .sized(640.0, 300.0);
    let shade = |from, to, label: &str, fill| Shade { from, to, label: label.into(), fill };
    figure.shades = vec![
        shade(0.0, refining, "exploring, ever colder", EXPLORING),
        shade(refining, end, "refining", REFINING),
    ];
    for (name, minimum) in
        [("global minimum", DoubleWell::GLOBAL), ("local minimum", DoubleWell::LOCAL)]
    {
        let dash = if minimum == DoubleWell::GLOBAL { "2 3" } else { "9 3 2 3" };
        let line = Style { dash, ..Style::reference() };
        figure = figure.with(Series::line(name, line, vec![(0.0, minimum), (end, minimum)]));
    }
    Ok(figure
        .with(Series::line("Santa", Style { width: 1.0, ..style(0) }, path))
        .with(Series::line("RMSprop", style(1), stuck))
        .svg())
}

/// The path of one chain, and the step at which it begins to refine.
fn walk(algorithm: impl Into<Algorithm>) -> Result<(Vec<(f64, f64)>, f64)> {
    let well = DoubleWell::new(1)?;
    let stepper = Stepper::<f64>::new(algorithm, well.target(), SEED, 0)?;
    let mut chain = Chain::new(well, stepper, vec![START], Sampling::Full, 1)?;
    let mut path = vec![(0.0, START)];
    let mut explored = 0;
    let _ = chain.advance_with(STEPS, |progress| {
        path.push((progress.step as f64, progress.theta[0]));
        if progress.stage == Stage::Exploring {
            explored = progress.step;
        }
        ControlFlow::<()>::Continue(())
    })?;
    Ok((path, explored as f64))
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
