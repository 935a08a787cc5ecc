//! Learning curves, as they are kept and as they are drawn.

use crate::figure::{Axis, COLOURS, DASHES, Figure, Series, Style, sheet};
use crate::run::record::{Record, Score, Scores};
use serde::{Deserialize, Serialize};

/// Scores against epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Passes over the training data.
    pub epoch: Vec<f64>,
    /// Of the parameters then, on test data.
    pub last: Vec<Option<f64>>,
    /// Of the average until then, on test data.
    pub averaged: Vec<Option<f64>>,
    /// Of the parameters then, on validation data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validation: Vec<Option<f64>>,
}

impl Curve {
    /// The evaluations among some records: errors, or likelihoods where there are no errors.
    pub fn of(records: &[Record]) -> Self {
        let value = |score: Option<Score>| {
            let score = score?;
            Some(rounded(score.error.unwrap_or(score.nll)))
        };
        let mut curve = Curve::default();
        for record in records {
            let Record::Evaluation(evaluation) = record else { continue };
            let averaged = evaluation.averaged.map_or(Scores::default(), |average| average.scores);
            curve.epoch.push(rounded(evaluation.epoch));
            curve.last.push(value(evaluation.last.test));
            curve.averaged.push(value(averaged.test));
            curve.validation.push(value(evaluation.last.validation));
        }
        if curve.validation.iter().all(Option::is_none) {
            curve.validation.clear();
        }
        curve
    }
}

/// To six digits: enough to draw.
fn rounded(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap_or(x)
}

/// Curves of one row: its runs.
pub struct Family<'a> {
    /// In the legend.
    pub label: &'a str,
    /// Its place among the rows, for the colour.
    pub number: usize,
    /// One for each seed.
    pub curves: Vec<&'a Curve>,
    /// The authors' own curve, validation and test.
    pub authors: Option<(Line, Line)>,
}

/// A panel: its title and which curve it is about.
type Panel = (&'static str, fn(&Curve) -> &Vec<Option<f64>>, fn(&(Line, Line)) -> &Line);
/// Points of a line.
pub type Line = Vec<(f64, f64)>;

/// The curves of some rows side by side: of the parameters at each moment and of the averages; for
/// data with validation, these too.
pub fn draw(families: &[Family<'_>], label: &str, factor: f64) -> String {
    const PANELS: [Panel; 3] = [
        ("Parameters at the time, validation data", |curve| &curve.validation, |a| &a.0),
        ("Parameters at the time, test data", |curve| &curve.last, |a| &a.1),
        ("Average so far, test data", |curve| &curve.averaged, |_| const { &Vec::new() }),
    ];
    let mut figures = Vec::new();
    for (title, values, authors) in PANELS {
        let mut lines: Vec<(String, Style, Line)> = Vec::new();
        for Family { label, number, curves, authors: own } in families {
            let style = Style::numbered(*number);
            // Whole lines as long as there are colours.
            let dash = DASHES[*number / COLOURS.len() % DASHES.len()];
            let ours = mean(curves, values, factor);
            lines.push((label.to_string(), Style { dash, ..style }, ours));
            let style = Style { dash: "3 3", width: 1.2, ..style };
            let theirs = own.as_ref().map(authors).cloned().unwrap_or_default();
            lines.push((format!("{label} (2016)"), style, theirs));
        }
        lines.retain(|(_, _, line)| !line.is_empty());
        let mut height = Axis::new(label).log();
        height.range = heights(&lines.iter().map(|(_, _, line)| line).collect::<Vec<_>>());
        let (_, top) = height.range.unwrap_or((0.0, f64::INFINITY));
        let mut figure = Figure::new(Axis::new("epoch"), height).titled(title).sized(460.0, 320.0);
        for (mut label, style, line) in lines {
            if line.iter().all(|(_, y)| *y > top) {
                label += " (off the scale)";
            }
            figure = figure.with(Series::line(label, style, line));
        }
        if !figure.is_empty() {
            figures.push(figure);
        }
    }
    sheet(&figures, figures.len().clamp(1, 2))
}

/// What the vertical axis shows, so that one curve does not hide the differences between the others:
/// from the least of all values to the largest that a curve has once the beginning is over. Curves that
/// end far above the best one, because nothing was learnt, do not count.
fn heights(lines: &[&Line]) -> Option<(f64, f64)> {
    /// Share of the epochs that is the beginning.
    const BEGINNING: f64 = 0.1;
    /// How many times the least final value is far above.
    const FAR: f64 = 4.0;
    /// Room at both ends, as a share of the axis.
    const ROOM: f64 = 0.04;
    let all = lines.iter().copied().flatten();
    let least = all.clone().map(|(_, y)| *y).reduce(f64::min)?;
    let end = all.map(|(x, _)| *x).reduce(f64::max)?;
    let last = |line: &Line| line.last().map_or(f64::INFINITY, |(_, y)| *y);
    let best = lines.iter().map(|line| last(line)).reduce(f64::min)?;
    let near = lines.iter().filter(|line| last(line) <= FAR * best);
    let settled = near.flat_map(|line| {
        let after = line.iter().filter(|(x, _)| *x >= BEGINNING * end).map(|(_, y)| *y);
        after.chain([last(line)])
    });
    let most = settled.reduce(f64::max)?;
    let room = (most / least).powf(ROOM);
    Some((least / room, most * room))
}

/// The mean over the runs that came as far.
fn mean(curves: &[&Curve], values: fn(&Curve) -> &Vec<Option<f64>>, factor: f64) -> Line {
    let Some(longest) = curves.iter().max_by_key(|curve| curve.epoch.len()) else {
        return Line::new();
    };
    let at = |i: usize| {
        let all: Vec<f64> = curves.iter().filter_map(|c| values(c).get(i).copied()?).collect();
        (!all.is_empty()).then(|| factor * all.iter().sum::<f64>() / all.len() as f64)
    };
    let points = longest.epoch.iter().enumerate();
    points.filter_map(|(i, epoch)| Some((*epoch, at(i)?))).collect()
}

/// Reads one of the authors' curves: epoch, validation, test.
pub fn authors(text: &str) -> Option<(Line, Line)> {
    let (mut validation, mut test) = (Line::new(), Line::new());
    for line in text.lines().skip(1) {
        let numbers: Vec<f64> = line.split(',').filter_map(|x| x.trim().parse().ok()).collect();
        let [epoch, v, t, ..] = numbers[..] else { return None };
        validation.push((epoch, v));
        test.push((epoch, t));
    }
    Some((validation, test))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(values: &[f64]) -> Line {
        (1..).map(f64::from).zip(values.iter().copied()).collect()
    }

    #[test]
    fn steep_beginnings_and_runs_that_learnt_nothing_leave_the_axis_to_the_others() {
        let good: Vec<f64> = (1..=20).map(|t| 1.0 + 50.0 / f64::from(t * t)).collect();
        let poor: Vec<f64> = (1..=20).map(|t| 2.0 + 1.0 / f64::from(t)).collect();
        let (good, poor, none) = (line(&good), line(&poor), line(&[90.0; 20]));
        let (low, high) = heights(&[&good, &poor, &none]).unwrap();
        // From the last value of the one to what it has after a tenth, 13.5.
        assert!((1.0..good[19].1).contains(&low) && (13.5..17.0).contains(&high), "{low} {high}");
        // A curve that ends in the beginning of the others is shown.
        let short = line(&[30.0]);
        assert!(heights(&[&good, &line(&[3.0])]).unwrap().1 > 3.0);
        assert!(heights(&[&short]).unwrap().1 >= 30.0);
        assert!(heights(&[]).is_none());
    }

    #[test]
    fn what_is_off_the_scale_is_called_so() {
        let curve = |values: &[f64]| Curve {
            epoch: (1..).map(f64::from).take(values.len()).collect(),
            last: values.iter().map(|x| Some(*x)).collect(),
            ..Curve::default()
        };
        let (good, none) = (curve(&[3.0, 2.0, 1.5]), curve(&[90.0; 3]));
        let family =
            |label, number, curve| Family { label, number, curves: vec![curve], authors: None };
        let drawn = draw(&[family("good", 0, &good), family("none", 1, &none)], "error", 1.0);
        assert_eq!(drawn.matches("off the scale").count(), 1);
        assert!(drawn.contains("none (off the scale)"));
    }
    #[test]
    fn rows_beyond_the_colours_are_dashed() {
        let curve =
            Curve { epoch: vec![1.0, 2.0], last: vec![Some(2.0), Some(1.0)], ..Curve::default() };
        let family = |number| Family { label: "row", number, curves: vec![&curve], authors: None };
        let drawn = |number| draw(&[family(0), family(number)], "error", 1.0);
        let dashes = |number| drawn(number).matches(DASHES[1]).count();
        let last = COLOURS.len() - 1;
        assert_eq!(dashes(last), 0);
        assert!(dashes(last + 1) > 0);
    }
}
