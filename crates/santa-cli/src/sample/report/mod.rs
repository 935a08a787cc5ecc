//! The report of draws from a posterior: can they be trusted, what do they say, and how do they
//! look. One HTML file that needs nothing else, no script either.
//!
//! | module | what is there |
//! | --- | --- |
//! | `order` | what is suspicious, and which quantities are worst |
//! | `density`, `ranks`, `autocorrelation` | what the figures show |
//! | `figures` | the figures |
//! | `reliability` | those of predictions |
//! | `page`, `words` | the HTML, made of `page.html` and `style.css`, and its numbers |

mod autocorrelation;
mod density;
mod figures;
mod order;
mod page;
mod ranks;
mod reliability;
mod words;

use crate::failure::Result;
use crate::report::files;
use santa_posterior::Draws;
use santa_posterior::predict::Bin;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// What is known of one quantity from its draws. What could not be computed is not a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name, as the draws have it.
    pub name: String,
    /// Mean over all draws.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// The value that 5 % of the draws are below.
    pub q5: f64,
    /// The median.
    pub q50: f64,
    /// The value that 95 % of the draws are below.
    pub q95: f64,
    /// Monte Carlo standard error of the mean.
    pub mcse: f64,
    /// Effective sample size in the middle of the distribution.
    pub ess_bulk: f64,
    /// Effective sample size in the tails.
    pub ess_tail: f64,
    /// Split R-hat of the ranks.
    pub r_hat: f64,
}

impl From<&santa_posterior::diagnostics::Row> for Row {
    /// Of a summary with the quantiles at 5 %, 50 % and 95 %.
    fn from(row: &santa_posterior::diagnostics::Row) -> Self {
        let quantile = |i: usize| row.quantiles.get(i).copied().unwrap_or(f64::NAN);
        Row {
            name: row.name.clone(),
            mean: row.mean,
            sd: row.sd,
            q5: quantile(0),
            q50: quantile(1),
            q95: quantile(2),
            mcse: row.mcse_mean,
            ess_bulk: row.ess_bulk,
            ess_tail: row.ess_tail,
            r_hat: row.r_hat,
        }
    }
}

/// A table that is shown as it is, such as of predictions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Written above.
    pub title: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows; the first cell of each is its name.
    pub rows: Vec<Vec<String>>,
    /// What to know about it, written below; may be empty.
    pub note: String,
    /// Predictions by their confidence, which are drawn as well; empty for other tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<Bin>,
}

/// What is reported.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// Title of the page.
    pub title: String,
    /// What is wrong, in sentences, the worst first. Empty if no trouble was found.
    pub verdict: Vec<String>,
    /// What made the draws: model, sampler, seed, command and so on, each with its name.
    pub facts: Vec<(String, String)>,
    /// The draws.
    pub draws: &'a Draws,
    /// A row for each quantity, in the order of the draws.
    pub rows: Vec<Row>,
    /// Tables of predictions.
    pub tables: Vec<Table>,
    /// Names of the quantities to draw. Empty: all if they are few, otherwise the worst.
    pub shown: Vec<String>,
    /// Stretches of draws that are a cycle of the schedule each, shaded alternately in the traces.
    pub cycles: Vec<Range<usize>>,
}

impl<'a> Report<'a> {
    /// The report of some draws, without facts and without trouble.
    pub fn new(title: impl Into<String>, draws: &'a Draws, rows: Vec<Row>) -> Self {
        Report {
            title: title.into(),
            verdict: Vec::new(),
            facts: Vec::new(),
            draws,
            rows,
            tables: Vec::new(),
            shown: Vec::new(),
            cycles: Vec::new(),
        }
    }
}

/// The report as an HTML file. Equal reports are equal files.
///
/// # Errors
/// If rows and draws are not of the same quantities, or one is to be shown that there is not.
pub fn html(report: &Report<'_>) -> Result<String> {
    page::html(report)
}

/// Writes the report, whole or not at all.
///
/// # Errors
/// As [`html`], and if the file cannot be written; the message names it.
pub fn write(report: &Report<'_>, path: &Path) -> Result<()> {
    files::write(path, &html(report)?)
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
