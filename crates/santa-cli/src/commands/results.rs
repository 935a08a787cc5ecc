//! The results of several runs: a table for people, a list for programs, and the report.

use super::table::Table;
use crate::console::Console;
use crate::failure::{Failure, Kind, Result};
use crate::report;
use crate::run::folder::{write, write_json};
use crate::run::record::{Score, Summary};
use crate::run::stored::StoredRun;
use crate::train::Plan;
use crate::train::fleet::Outcome;
use santa::stats::Moments;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// One run, as `--json` lists it.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the optimizer.
    pub optimizer: String,
    /// Its seed.
    pub seed: u64,
    /// Test error of the last parameters.
    pub error_last: Option<f64>,
    /// Test error of the averaged prediction.
    pub error_averaged: Option<f64>,
    /// Test error of the parameters that were best on validation data.
    pub error_best: Option<f64>,
    /// Negative log-likelihoods likewise.
    pub nll_last: Option<f64>,
    /// Of the averaged prediction.
    pub nll_averaged: Option<f64>,
    /// Of the parameters that were best on validation data.
    pub nll_best: Option<f64>,
    /// Seconds of training and evaluation.
    pub seconds: Option<f64>,
    /// Why there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diverged: Option<String>,
    /// Where it is.
    pub folder: PathBuf,
}

/// All runs of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// One by one.
    pub runs: Vec<Run>,
    /// The report.
    pub report: Option<PathBuf>,
}

impl Results {
    /// What became of the plans.
    pub fn new(plans: &[Plan], outcomes: &[Outcome]) -> Self {
        let runs = plans.iter().zip(outcomes).map(|(plan, outcome)| of_run(plan, outcome));
        Results { runs: runs.collect(), report: None }
    }

    /// Prints the table, and writes it and the report into a folder.
    pub fn show(&self, out: &Path, console: &Console) -> Result<()> {
        let table = self.table();
        console.result(&table)?;
        for run in &self.runs {
            if let Some(message) = &run.diverged {
                console.warning(format_args!("{} seed {}: {message}", run.optimizer, run.seed));
            }
        }
        let done = self.runs.iter().filter(|run| run.diverged.is_none());
        let stored = done.map(|run| StoredRun::read(&run.folder)).collect::<Result<Vec<_>>>()?;
        let mut shown = self.clone();
        if !stored.is_empty() {
            let title = self.title();
            let path = out.join("report.html");
            report::write(&stored, &title, &path)?;
            console.note(format_args!("report: {}", path.display()));
            shown.report = Some(path);
        }
        write(&out.join("results.md"), table.markdown().as_bytes())?;
        write_json(&out.join("results.json"), &shown)?;
        console.object(&shown)?;
        match stored.is_empty() {
            true => {
                Err(Failure::new(Kind::Numerical, "every run diverged")
                    .hint("try smaller step sizes"))
            }
            false => Ok(()),
        }
    }

    fn title(&self) -> String {
        let mut names: Vec<&str> = self.runs.iter().map(|run| run.experiment.as_str()).collect();
        names.dedup();
        names.join(", ")
    }

    /// A row for each experiment and optimizer, over its seeds.
    pub fn table(&self) -> Table {
        let mut groups: Vec<(&str, &str, Vec<&Run>)> = Vec::new();
        for run in &self.runs {
            let key = (run.experiment.as_str(), run.optimizer.as_str());
            match groups.iter_mut().find(|group| (group.0, group.1) == key) {
                Some(group) => group.2.push(run),
                None => groups.push((key.0, key.1, vec![run])),
            }
        }
        let several = groups.iter().any(|group| group.0 != groups[0].0);
        let columns: Vec<&Column> = COLUMNS
            .iter()
            .filter(|column| self.runs.iter().any(|run| (column.value)(run).is_some()))
            .collect();
        let titles = ["optimizer", "seeds"].into_iter();
        let mut table = Table::new(titles.chain(columns.iter().map(|column| column.title)));
        for (experiment, optimizer, runs) in groups {
            let name = match several {
                true => format!("{experiment} {optimizer}"),
                false => optimizer.to_string(),
            };
            let lost = runs.iter().filter(|run| run.diverged.is_some()).count();
            let seeds = match lost {
                0 => runs.len().to_string(),
                _ => format!("{} ({lost} diverged)", runs.len()),
            };
            let cells = columns.iter().map(|column| column.cell(&runs));
            table.row([name, seeds].into_iter().chain(cells));
        }
        table
    }
}

struct Column {
    title: &'static str,
    value: fn(&Run) -> Option<f64>,
    /// What a value is multiplied by, its decimals and its unit.
    form: (f64, usize, &'static str),
}

const PERCENT: (f64, usize, &str) = (100.0, 2, " %");
const NLL: (f64, usize, &str) = (1.0, 4, "");

const COLUMNS: [Column; 7] = [
    Column { title: "error last", value: |run| run.error_last, form: PERCENT },
    Column { title: "error averaged", value: |run| run.error_averaged, form: PERCENT },
    Column { title: "error best", value: |run| run.error_best, form: PERCENT },
    Column { title: "nll last", value: |run| run.nll_last, form: NLL },
    Column { title: "nll averaged", value: |run| run.nll_averaged, form: NLL },
    Column { title: "nll best", value: |run| run.nll_best, form: NLL },
    Column { title: "seconds", value: |run| run.seconds, form: (1.0, 1, "") },
];

impl Column {
    /// The mean over the runs, and the standard deviation if there are several.
    fn cell(&self, runs: &[&Run]) -> String {
        let (factor, decimals, unit) = self.form;
        let values: Moments =
            runs.iter().filter_map(|run| (self.value)(run)).map(|x| factor * x).collect();
        match values.count() {
            0 => "-".into(),
            1 => format!("{:.decimals$}{unit}", values.mean()),
            _ => {
                let sd = values.variance().sqrt();
                format!("{:.decimals$} ± {sd:.decimals$}{unit}", values.mean())
            }
        }
    }
}

fn of_run(plan: &Plan, outcome: &Outcome) -> Run {
    let summary = outcome.summary();
    let score = |of: fn(&Summary) -> Option<Score>| summary.and_then(of);
    let last = score(|summary| summary.last.test);
    let averaged = score(|summary| summary.averaged?.scores.test);
    let best = score(|summary| summary.best?.scores.test);
    Run {
        experiment: plan.experiment.name.clone(),
        optimizer: plan.experiment.optimizer.name.clone(),
        seed: plan.experiment.seed,
        error_last: last.and_then(|score| score.error),
        error_averaged: averaged.and_then(|score| score.error),
        error_best: best.and_then(|score| score.error),
        nll_last: last.map(|score| score.nll),
        nll_averaged: averaged.map(|score| score.nll),
        nll_best: best.map(|score| score.nll),
        seconds: summary.map(|summary| summary.seconds),
        diverged: match outcome {
            Outcome::Diverged(message) => Some(message.clone()),
            Outcome::Done(_) => None,
        },
        folder: plan.folder.clone(),
    }
}
