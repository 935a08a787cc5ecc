//! `santa report`

use crate::args::Report;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::report;
use crate::run::stored::StoredRun;
use serde_json::json;
use std::collections::HashSet;

pub fn run(args: &Report, console: &Console) -> Result<()> {
    let mut runs = Vec::new();
    let mut seen = HashSet::new();
    for folder in &args.runs {
        let found = StoredRun::find(folder)?;
        if found.is_empty() {
            return Err(Failure::data(format!("{}: no run in this folder", folder.display()))
                .hint("a run is a folder with an experiment.toml; `santa train` makes one"));
        }
        for run in found {
            // A folder that is given twice, or inside another, is one run.
            if seen.insert(run.canonicalize().unwrap_or_else(|_| run.clone())) {
                runs.push(StoredRun::read(&run)?);
            }
        }
    }
    for run in runs.iter().filter(|run| run.summary.is_none()) {
        let folder = run.folder.display();
        match &run.failure {
            Some(failure) => console.warning(format_args!("{folder}: {}", failure.message)),
            None => console
                .warning(format_args!("{folder} is unfinished; it is drawn as far as it came")),
        }
    }
    let title = args.title.clone().unwrap_or_else(|| report::title(&runs));
    let written = report::write(&runs, &title, &args.out)?;
    console.detail(format_args!("{} figures beside it, as SVG", written.figures.len()));
    console.result(written.report.display())?;
    let figures: Vec<String> = written.figures.iter().map(|f| f.display().to_string()).collect();
    console.object(&json!({
        "report": written.report.display().to_string(),
        "figures": figures,
        "runs": runs.len(),
    }))
}
