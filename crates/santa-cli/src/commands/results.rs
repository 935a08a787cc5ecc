//! The results of several runs: a table for people, a list for programs, and the report.

use super::table::Table;
use crate::console::Console;
use crate::failure::{Failure, Kind, Result};
use crate::report;
use crate::run::folder::{write, write_json};
use crate::run::record::Score;
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
    /// The same six on validation data.
    pub validation_error_last: Option<f64>,
    /// Of the averaged prediction.
    pub validation_error_averaged: Option<f64>,
    /// Of the parameters that were best on validation data.
    pub validation_error_best: Option<f64>,
    /// Negative log-likelihoods likewise.
    pub validation_nll_last: Option<f64>,
    /// Of the averaged prediction.
    pub validation_nll_averaged: Option<f64>,
    /// Of the parameters that were best on validation data.
    pub validation_nll_best: Option<f64>,
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
        let (table, data) = (self.table(), self.data());
        console.result(format_args!("{data}:\n{table}"))?;
        for run in &self.runs {
            if let Some(message) = &run.diverged {
                console.warning(format_args!("{} seed {}: {message}", run.optimizer, run.seed));
            }
        }
        let stored = self.runs.iter().map(|run| StoredRun::read(&run.folder));
        let stored = stored.collect::<Result<Vec<_>>>()?;
        let path = out.join("report.html");
        report::write(&stored, &self.title(), &path)?;
        console.note(format_args!("report: {}", path.display()));
        let shown = Results { report: Some(path), ..self.clone() };
        let markdown = format!("{data}:\n\n{}", table.markdown());
        write(&out.join("results.md"), markdown.as_bytes())?;
        write_json(&out.join("results.json"), &shown)?;
        console.object(&shown)?;
        if self.runs.iter().all(|run| run.diverged.is_some()) {
            let failure = Failure::new(Kind::Numerical, "every run diverged");
            return Err(failure.hint("try smaller step sizes"));
        }
        Ok(())
    }

    fn title(&self) -> String {
        let mut names: Vec<&str> = self.runs.iter().map(|run| run.experiment.as_str()).collect();
        names.dedup();
        names.join(", ")
    }

    /// Whether a run has been tried on test data. If none was, validation data are shown.
    fn tested(&self) -> bool {
        self.runs.iter().any(|run| run.nll_last.is_some())
    }

    /// Which data the table is about.
    fn data(&self) -> &'static str {
        if self.tested() { "On test data" } else { "On validation data" }
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
        let scores = if self.tested() { &TEST } else { &VALIDATION };
        let columns: Vec<&Column> = scores
            .iter()
            .chain([&SECONDS])
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

const TEST: [Column; 6] = [
    Column { title: "error last", value: |run| run.error_last, form: PERCENT },
    Column { title: "error averaged", value: |run| run.error_averaged, form: PERCENT },
    Column { title: "error best", value: |run| run.error_best, form: PERCENT },
    Column { title: "nll last", value: |run| run.nll_last, form: NLL },
    Column { title: "nll averaged", value: |run| run.nll_averaged, form: NLL },
    Column { title: "nll best", value: |run| run.nll_best, form: NLL },
];
const VALIDATION: [Column; 6] = [
    Column { title: "error last", value: |run| run.validation_error_last, form: PERCENT },
    Column { title: "error averaged", value: |run| run.validation_error_averaged, form: PERCENT },
    Column { title: "error best", value: |run| run.validation_error_best, form: PERCENT },
    Column { title: "nll last", value: |run| run.validation_nll_last, form: NLL },
    Column { title: "nll averaged", value: |run| run.validation_nll_averaged, form: NLL },
    Column { title: "nll best", value: |run| run.validation_nll_best, form: NLL },
];
const SECONDS: Column = Column { title: "seconds", value: |run| run.seconds, form: (1.0, 1, "") };

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
    let last = summary.map(|summary| summary.last).unwrap_or_default();
    let averaged = summary.and_then(|summary| summary.averaged);
    let averaged = averaged.map(|averaged| averaged.scores).unwrap_or_default();
    let best = summary.and_then(|summary| summary.best);
    let best = best.map(|best| best.scores).unwrap_or_default();
    let error = |score: Option<Score>| score.and_then(|score| score.error);
    let nll = |score: Option<Score>| score.map(|score| score.nll);
    Run {
        experiment: plan.experiment.name.clone(),
        optimizer: plan.experiment.optimizer.name.clone(),
        seed: plan.experiment.seed,
        error_last: error(last.test),
        error_averaged: error(averaged.test),
        error_best: error(best.test),
        nll_last: nll(last.test),
        nll_averaged: nll(averaged.test),
        nll_best: nll(best.test),
        validation_error_last: error(last.validation),
        validation_error_averaged: error(averaged.validation),
        validation_error_best: error(best.validation),
        validation_nll_last: nll(last.validation),
        validation_nll_averaged: nll(averaged.validation),
        validation_nll_best: nll(best.validation),
        seconds: summary.map(|summary| summary.seconds),
        diverged: match outcome {
            Outcome::Diverged(message) => Some(message.clone()),
            Outcome::Done(_) => None,
        },
        folder: plan.folder.clone(),
    }
}
