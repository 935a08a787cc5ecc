//! The report of stored runs: one HTML file that needs nothing else, and its figures as SVG beside it.
//!
//! | module | what is there |
//! | --- | --- |
//! | `groups` | which runs belong together, and what differs between them |
//! | `curves`, `annealing`, `calibration`, `table` | what is shown: over time, by confidence, at the end |
//! | `page`, `data` | the HTML, made of `page.html`, `style.css` and `script.js`, and what it draws |
//! | `figures` | the SVG files |
//! | `files` | writing a file whole or not at all |

mod annealing;
mod calibration;
mod curves;
mod data;
mod figures;
pub(crate) mod files;
mod groups;
mod page;
mod table;

use crate::failure::{Failure, Result};
use crate::run::stored::StoredRun;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The look of a report's page.
pub(crate) const STYLE: &str = include_str!("style.css");

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The HTML file.
    pub report: PathBuf,
    /// The SVG files.
    pub figures: Vec<PathBuf>,
}

/// Writes the report of some runs to `out`, and its figures beside it: those of `report.html` are
/// `report-test-error.svg` and so on. Each file is written whole or not at all, the report last.
/// Runs that are not done are drawn as far as they came.
///
/// # Errors
/// If there is no run, or a file cannot be written; the message names it.
pub fn write(runs: &[StoredRun], title: &str, out: &Path) -> Result<Written> {
    if runs.is_empty() {
        return Err(Failure::usage("no run to report"));
    }
    let experiments = groups::group(runs);
    let mut names = HashSet::new();
    let mut figures = Vec::new();
    let mut links = Vec::new();
    for experiment in &experiments {
        let mut of_experiment = Vec::new();
        for drawing in figures::draw(experiment) {
            let name = if experiments.len() > 1 {
                let prefix = figures::slug(&experiment.name);
                let prefix = if prefix.is_empty() { "experiment" } else { &prefix };
                format!("{prefix}-{}", drawing.name)
            } else {
                drawing.name
            };
            // Names that differ in signs alone would be one file.
            let numbered = (2..).map(|n| format!("{name}-{n}"));
            let name = std::iter::once(name.clone()).chain(numbered).find(|n| !names.contains(n));
            let name = name.expect("some number is free");
            names.insert(name.clone());
            let path = beside(out, &name);
            files::write(&path, &drawing.svg)?;
            of_experiment.push(page::Link::new(&path, drawing.title));
            figures.push(path);
        }
        links.push(of_experiment);
    }
    files::write(out, &page::html(&experiments, &links, runs, title)?)?;
    Ok(Written { report: out.to_path_buf(), figures })
}

/// A title for the report of some runs: the names of their experiments.
pub fn title(runs: &[StoredRun]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in runs.iter().map(groups::experiment_name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

fn beside(out: &Path, name: &str) -> PathBuf {
    let mut file = OsString::from(out.file_stem().unwrap_or(out.as_os_str()));
    file.push(format!("-{name}.svg"));
    out.with_file_name(file)
}
