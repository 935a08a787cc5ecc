//! Tables for people.

use crate::run::record::{Score, Scores, Summary};

/// Columns of text, the first aligned to the left and the others to the right.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these titles.
    pub fn new<S: Into<String>>(titles: impl IntoIterator<Item = S>) -> Self {
        Table { rows: vec![titles.into_iter().map(Into::into).collect()] }
    }
    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
    /// The same for a Markdown file.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = String::new();
        for (i, row) in self.rows.iter().enumerate() {
            text += &line(row);
            if i == 0 {
                let rule = |column| if column == 0 { "---" } else { "---:" }.to_string();
                text += &line(&(0..row.len()).map(rule).collect::<Vec<_>>());
            }
        }
        text
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (i, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            write!(f, "{}{}", if i == 0 { "" } else { "\n" }, line.trim_end())?;
        }
        Ok(())
    }
}

/// An error as a percentage, or a dash.
pub fn percent(error: Option<f64>) -> String {
    error.map_or("-".into(), |error| format!("{:.2} %", 100.0 * error))
}

/// A likelihood, or a dash.
pub fn nll(score: Option<&Score>) -> String {
    score.map_or("-".into(), |score| format!("{:.4}", score.nll))
}

/// The result of one run.
pub fn of_summary(summary: &Summary) -> Table {
    let mut table =
        Table::new(["", "validation error", "validation nll", "test error", "test nll"]);
    let mut row = |name: String, scores: &Scores| {
        let error = |score: &Option<Score>| percent(score.and_then(|score| score.error));
        table.row([
            name,
            error(&scores.validation),
            nll(scores.validation.as_ref()),
            error(&scores.test),
            nll(scores.test.as_ref()),
        ]);
    };
    row("last parameters".into(), &summary.last);
    if let Some(averaged) = &summary.averaged {
        row(format!("average of {} predictions", averaged.count), &averaged.scores);
    }
    // One that is the best at the end is in the table already.
    if let Some(best) = summary.best_averaged.filter(|best| best.step < summary.steps) {
        row(format!("best average on validation (epoch {:.1})", best.epoch), &best.scores);
    }
    if let Some(best) = &summary.best {
        row(format!("best on validation (epoch {:.1})", best.epoch), &best.scores);
    }
    table
}
