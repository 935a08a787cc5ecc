//! The table of results: a row for each group, mean and standard deviation over its seeds.

use super::curves::{Measure, Part, Prediction};
use super::groups::{Group, State};
use crate::figure::{COLOURS, DASHES};
use crate::run::record::{Evaluation, Record, Scores};
use crate::run::stored::StoredRun;
use serde::Serialize;

/// The results of one experiment.
#[derive(Debug, Serialize)]
pub struct Table {
    /// Columns that belong together, from left to right.
    pub heads: Vec<Head>,
    /// The columns, in the same order.
    pub columns: Vec<Column>,
    /// The groups.
    pub rows: Vec<Row>,
    /// Whether some group has several seeds.
    pub several_seeds: bool,
    /// Whether some group has a single seed.
    pub single_seed: bool,
    /// Whether a best value is marked.
    pub marked: bool,
}

/// A heading over several columns.
#[derive(Debug, Serialize)]
pub struct Head {
    /// What is measured on which data.
    pub title: String,
    /// How many columns.
    pub span: usize,
    /// Whether the columns are about validation data, which are shown on request.
    pub validation: bool,
}

/// A column.
#[derive(Debug, Serialize)]
pub struct Column {
    /// Whose prediction.
    pub title: &'static str,
    /// Whether it is about validation data.
    pub validation: bool,
}

/// A group.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub label: String,
    /// The number of its colour.
    pub colour: usize,
    /// The dashes of its line.
    pub dash: &'static str,
    /// How many seeds.
    pub seeds: usize,
    /// How far it came, if it is not done.
    pub unfinished: Option<String>,
    /// Where it diverged, if it did.
    pub diverged: Option<String>,
    /// A cell for each column.
    pub cells: Vec<Cell>,
    /// Seconds for a run.
    pub seconds: Cell,
}

/// A mean over seeds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cell {
    /// The mean.
    pub mean: String,
    /// Standard deviation, where there are several seeds.
    pub deviation: Option<String>,
    /// Whether it is the lowest of its column.
    pub best: bool,
    /// Whether it is about validation data.
    pub validation: bool,
}

/// Shares become per cent.
pub const PERCENT: f64 = 100.0;

/// Whose prediction a column is about.
#[derive(Clone, Copy, PartialEq)]
enum Whose {
    Now(Prediction),
    Best,
}

const PREDICTIONS: [(Whose, &str); 3] = [
    (Whose::Now(Prediction::Last), "last"),
    (Whose::Now(Prediction::Averaged), "averaged"),
    (Whose::Best, "best"),
];
const BLOCKS: [(Part, Measure, &str); 4] = [
    (Part::Test, Measure::Error, "Test error, %"),
    (Part::Test, Measure::Nll, "Test NLL"),
    (Part::Validation, Measure::Error, "Validation error, %"),
    (Part::Validation, Measure::Nll, "Validation NLL"),
];

/// The table of some groups.
pub fn table(groups: &[Group<'_>]) -> Table {
    let mut rows: Vec<Row> = groups.iter().map(row).collect();
    let (mut heads, mut columns) = (Vec::new(), Vec::new());
    let mut marked = false;
    for (part, measure, title) in BLOCKS {
        let validation = part == Part::Validation;
        let mut span = 0;
        for (whose, title) in PREDICTIONS {
            let values: Vec<Vec<f64>> =
                groups.iter().map(|g| values(g, part, measure, whose)).collect();
            if values.iter().all(Vec::is_empty) {
                continue;
            }
            span += 1;
            columns.push(Column { title, validation });
            let mut cells: Vec<Cell> = values
                .iter()
                .map(|v| Cell { validation, ..cell(v, |x| number(measure, x)) })
                .collect();
            marked |= mark_best(&mut cells, &values, groups);
            for (row, cell) in rows.iter_mut().zip(cells) {
                row.cells.push(cell);
            }
        }
        if span > 0 {
            heads.push(Head { title: title.into(), span, validation });
        }
    }
    Table {
        heads,
        columns,
        several_seeds: rows.iter().any(|r| r.seeds > 1),
        single_seed: rows.iter().any(|r| r.seeds == 1),
        rows,
        marked,
    }
}

fn row(group: &Group<'_>) -> Row {
    let seconds: Vec<f64> = group.runs.iter().filter_map(|run| seconds(run)).collect();
    let epochs = group.runs.iter().filter_map(|run| epochs(run)).fold(f64::NAN, f64::min);
    let reached = if epochs.is_nan() { "no epoch".into() } else { format!("epoch {epochs:.1}") };
    Row {
        label: group.label.clone(),
        colour: group.index % COLOURS.len(),
        dash: DASHES[group.index % DASHES.len()],
        seeds: group.runs.len(),
        unfinished: (group.state == State::Unfinished).then_some(reached),
        diverged: (group.state == State::Diverged).then(|| diverged(group)),
        cells: Vec::new(),
        // Tenths are noise in what takes minutes.
        seconds: cell(&seconds, |s| if s < 100.0 { format!("{s:.1}") } else { format!("{s:.0}") }),
    }
}

/// Where the run of a group diverged; of several, the number, for they are listed below the table.
fn diverged(group: &Group<'_>) -> String {
    match (group.runs.len(), &group.runs[0].failure) {
        (1, Some(failure)) => failure.place().into(),
        (count, _) => format!("with {count} seeds"),
    }
}

fn seconds(run: &StoredRun) -> Option<f64> {
    let last = run.records.iter().rev().find_map(|record| match record {
        Record::Training(r) => Some(r.seconds),
        Record::Evaluation(r) => Some(r.seconds),
        _ => None,
    });
    run.summary.as_ref().map(|s| s.seconds).or(last)
}

fn epochs(run: &StoredRun) -> Option<f64> {
    run.records.iter().rev().find_map(|record| match record {
        Record::Training(r) => Some(r.epoch),
        Record::Evaluation(r) => Some(r.epoch),
        _ => None,
    })
}

/// The values of a group's runs. One whose runs have none, or not all, is without.
fn values(group: &Group<'_>, part: Part, measure: Measure, whose: Whose) -> Vec<f64> {
    let value = |run: &&StoredRun| measure.of(part.of(&scores(run, whose)?)?);
    let found: Option<Vec<f64>> = group.runs.iter().map(value).collect();
    found.unwrap_or_default()
}

/// Scores of the result; of the last evaluation, if the run is not done; none, if it diverged.
fn scores(run: &StoredRun, whose: Whose) -> Option<Scores> {
    if State::of(run) == State::Diverged {
        return None;
    }
    if let Some(summary) = &run.summary {
        return match whose {
            Whose::Now(Prediction::Last) => Some(summary.last),
            Whose::Now(Prediction::Averaged) => summary.averaged.map(|a| a.scores),
            Whose::Best => summary.best.map(|b| b.scores),
        };
    }
    let Whose::Now(prediction) = whose else { return None };
    prediction.of(last_evaluation(run)?)
}

fn last_evaluation(run: &StoredRun) -> Option<&Evaluation> {
    run.records.iter().rev().find_map(|record| match record {
        Record::Evaluation(r) => Some(r),
        _ => None,
    })
}

/// Mean and standard deviation; the latter with one degree of freedom less than there are values.
pub fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()))
}

fn cell(values: &[f64], number: impl Fn(f64) -> String) -> Cell {
    if values.is_empty() {
        return Cell { mean: "\u{2013}".into(), ..Cell::default() };
    }
    let (mean, deviation) = mean_and_deviation(values);
    if !mean.is_finite() {
        return Cell { mean: "not finite".into(), ..Cell::default() };
    }
    let deviation = deviation.filter(|d| d.is_finite()).map(&number);
    Cell { mean: number(mean), deviation, ..Cell::default() }
}

fn number(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Error => format!("{:.2}", value * PERCENT),
        Measure::Nll => format!("{value:.4}"),
    }
}

/// Marks the lowest mean among groups that are done; all of them that are written alike. Tells
/// whether it did: a single group has nothing to be better than.
fn mark_best(cells: &mut [Cell], values: &[Vec<f64>], groups: &[Group<'_>]) -> bool {
    let mean = |i: usize| mean_and_deviation(&values[i]).0;
    let candidates: Vec<usize> = (0..cells.len())
        .filter(|&i| groups[i].state == State::Done && mean(i).is_finite())
        .collect();
    let lowest = candidates.iter().copied().min_by(|&a, &b| mean(a).total_cmp(&mean(b)));
    let Some(lowest) = lowest.filter(|_| candidates.len() > 1) else { return false };
    let text = cells[lowest].mean.clone();
    for i in candidates {
        cells[i].best = cells[i].mean == text;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        assert_eq!(mean_and_deviation(&[1.0, 3.0]), (2.0, Some(2f64.sqrt())));
        assert_eq!(mean_and_deviation(&[1.0]), (1.0, None));
    }

    #[test]
    fn a_cell_says_what_it_cannot_say() {
        assert_eq!(cell(&[], |_| unreachable!()).mean, "\u{2013}");
        assert_eq!(cell(&[1.0, f64::NAN], |_| unreachable!()).mean, "not finite");
        assert_eq!(cell(&[0.0123], |x| number(Measure::Error, x)).mean, "1.23");
    }
}
