//! `santa sample`: draws from a posterior.

use super::set_threads;
use crate::args::{Global, Sample};
use crate::console::Console;
use crate::data::Library;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::ranks::Ranks;
use crate::run::machine::provenance;
use crate::sample::report::{self, Report};
use crate::sample::{self, Context, Outcome, Request};
use crate::train::Together;
use santa_distributed::Team;
use santa_posterior::arviz::Export;
use santa_posterior::sampler::Plan;
use serde_json::json;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The seed by default.
const SEED: u64 = 42;

/// Seconds to wait for other processes, which answer at the end of each stage of the warm-up.
const PATIENCE: f64 = 3600.0;

pub fn run(args: &Sample, global: &Global, console: &Console) -> Result<()> {
    let ranks = Ranks::join(&args.ranks, PATIENCE)?;
    let console = ranks.console(console);
    let outcome = sample(args, global, &console, ranks.team());
    ranks.leave(outcome, &console)
}

fn sample(args: &Sample, global: &Global, console: &Console, team: &dyn Team) -> Result<()> {
    let together = Together { team, ..Together::alone() };
    let request = together.agreed(Request::new(args))?;
    set_threads(global)?;
    interrupt::listen(console)?;
    let data_sets = Library::new(global)?;
    let folder = args.out.clone().unwrap_or_else(|| default_folder(&args.model));
    let context = Context {
        folder: folder.clone(),
        seed: SEED,
        resume: args.resume,
        console,
        data_sets: &data_sets,
        show: &args.show,
        request: &request,
        team,
    };
    let outcome = sample::run(&request, &context)?;
    if !context.leads() {
        return Ok(());
    }
    let page = folder.join("report.html");
    report::write(&page_of(&outcome, &args.show), &page)?;
    let object = object(&outcome, &folder);
    let text = serde_json::to_string_pretty(&object).map_err(Failure::system)?;
    santa::checkpoint::write_whole(folder.join("summary.json"), format!("{text}\n").as_bytes())?;
    if args.arviz {
        export(&outcome, &folder.join("arviz.zarr"))?;
    }
    show(&outcome, console)?;
    console.note(format_args!("draws, summary and report are in {}", folder.display()));
    console.object(&object)
}

/// `posteriors/MODEL`, or the name of a file without its ending.
fn default_folder(model: &str) -> PathBuf {
    let name = Path::new(model).file_stem().unwrap_or_default();
    Path::new("posteriors").join(name)
}

/// Quantities that are shown before the rest is counted.
const SHOWN: usize = 30;

fn show(outcome: &Outcome, console: &Console) -> Result<()> {
    let mut summary = outcome.summary.clone();
    let hidden = summary.rows.len().saturating_sub(SHOWN);
    summary.rows.truncate(SHOWN);
    console.result(summary.to_string().trim_end())?;
    if hidden > 0 {
        console.result(format_args!("and {hidden} more, in summary.json"))?;
    }
    for table in &outcome.tables {
        let mut text = super::table::Table::new(table.columns.iter().cloned());
        table.rows.iter().for_each(|row| text.row(row.iter().cloned()));
        console.result(format_args!("\n{text}"))?;
    }
    console.result(format_args!(
        "\nconfigurational temperature {}",
        sample::reading(&outcome.configurational)
    ))?;
    if let Some(stein) = &outcome.stein {
        console.result(format_args!("kernel Stein discrepancy {stein}"))?;
    }
    if let Some(differences) = &outcome.exact {
        let largest = |of: fn(&sample::Difference) -> f64| {
            // Not a number is the largest.
            differences.iter().map(|d| of(d).abs()).max_by(f64::total_cmp).unwrap_or(0.0)
        };
        console.result(format_args!(
            "against a short run with exact gradients: means within {:.2} standard deviations, \
             standard deviations within {:.0} %",
            largest(|d| d.mean),
            100.0 * largest(|d| d.sd_ratio - 1.0)
        ))?;
    }
    outcome.notes.iter().try_for_each(|note| console.result(note))?;
    match outcome.troubles.is_empty() {
        true => console.result(
            "No trouble was found. (Chains that all miss a mode agree with each other, too.)",
        ),
        false => {
            console.result("\nThese draws are not to be trusted yet:")?;
            outcome
                .troubles
                .iter()
                .try_for_each(|trouble| console.result(format_args!("- {trouble}")))
        }
    }
}

fn object(outcome: &Outcome, folder: &Path) -> serde_json::Value {
    json!({
        "folder": folder,
        "converged": outcome.troubles.is_empty(),
        "troubles": outcome.troubles,
        "notes": outcome.notes,
        "summary": outcome.summary,
        "temperature": { "configurational": outcome.configurational, "kinetic": outcome.kinetic },
        "stein": outcome.stein,
        "exact": outcome.exact,
        "warm_up": outcome.figures,
        "sampler": outcome.sampler,
        "cycles": cycles(outcome),
        "predictions": outcome.tables,
        "seconds": outcome.seconds,
    })
}

fn page_of<'a>(outcome: &'a Outcome, show: &[String]) -> Report<'a> {
    let rows = outcome.summary.rows.iter().map(report::Row::from).collect();
    let mut page = Report::new(outcome.title.clone(), &outcome.draws, rows);
    page.verdict = outcome.troubles.clone();
    page.shown = show.to_vec();
    page.tables = outcome.tables.clone();
    page.tables.extend(outcome.exact.as_ref().map(|all| comparison(all)));
    page.cycles = cycles(outcome);
    let made = provenance();
    let figures = &outcome.figures;
    page.facts = outcome.facts.clone();
    page.facts.extend(outcome.notes.iter().map(|note| ("to be known".into(), note.clone())));
    let mut fact = |name: &str, value: String| page.facts.push((name.into(), value));
    let sampler = &outcome.sampler;
    fact("chains and draws", format!("{} of {} draws", sampler.chains, sampler.draws));
    fact("configurational temperature", sample::reading(&outcome.configurational));
    fact("kinetic temperature", sample::reading(&outcome.kinetic));
    if let Some(stein) = &outcome.stein {
        fact("kernel Stein discrepancy", stein.to_string());
    }
    if sampler.dynamics.is_none() {
        fact("step", format!("{:.3} of the posterior's scales", figures.step));
        fact("steps between draws", figures.thin.to_string());
        fact("variance of the minibatch gradient", format!("{:.3}", figures.gradient_noise));
    }
    fact("batch", sampler.batch_size.to_string());
    fact("seed", sampler.seed.to_string());
    fact("seconds", format!("{:.1}", outcome.seconds));
    fact("command", made.command.join(" "));
    fact("version", made.version);
    fact("machine", format!("{}, {} threads", made.machine.cpu, made.machine.threads));
    page
}

/// The stretches of draws that belong to one cycle each.
fn cycles(outcome: &Outcome) -> Vec<Range<usize>> {
    let Plan::Cycles { draws, .. } = outcome.plan else { return Vec::new() };
    let all = outcome.draws.len();
    let size = draws.max(1) as usize;
    (0..all).step_by(size).map(|first| first..(first + size).min(all)).collect()
}

/// The comparison with exact gradients, as a table.
fn comparison(all: &[sample::Difference]) -> report::Table {
    /// The worst ones alone.
    const ROWS: usize = 20;
    let mut sorted: Vec<&sample::Difference> = all.iter().collect();
    // What is off comes first; of the others, their means.
    let key = |d: &sample::Difference| (d.off().map_or(0.0, |(_, by)| by), d.mean.abs());
    sorted.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    let rows = sorted.iter().take(ROWS).map(|d| {
        vec![
            d.name.clone(),
            format!("{:+.3} ± {:.3}", d.mean, d.mean_error),
            format!("{:.3} ± {:.3}", d.sd_ratio, d.sd_ratio_error),
        ]
    });
    report::Table {
        title: "Against a short run with exact gradients".into(),
        columns: ["quantity", "mean, difference in standard deviations", "standard deviation, ratio"]
            .map(String::from)
            .to_vec(),
        rows: rows.collect(),
        note: "Hamiltonian Monte Carlo with all data and a Metropolis correction, 4 chains of 500 draws."
            .into(),
        bins: Vec::new(),
    }
}

fn export(outcome: &Outcome, path: &Path) -> Result<()> {
    let names = outcome.statistics.names();
    let statistics: Vec<_> = (0..names.len()).map(|i| outcome.statistics.quantity(i)).collect();
    let mut export = Export::new(&outcome.draws).replace(true);
    for (name, values) in names.iter().zip(&statistics) {
        export = export.statistic(name, values);
    }
    let export = export
        .attribute("seed", outcome.sampler.seed.to_string())
        .attribute("created_by", format!("santa {}", env!("CARGO_PKG_VERSION")));
    Ok(export.write(path)?)
}
