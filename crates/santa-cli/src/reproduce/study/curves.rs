//! Learning curves, as they are kept and as they are drawn.

use crate::figure::{Axis, Figure, Series, Style, sheet};
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
        let mut figure = Figure::new(Axis::new("epoch"), Axis::new(label).log())
            .titled(title)
            .sized(460.0, 320.0);
        for Family { label, number, curves, authors: own } in families {
            let style = Style::numbered(*number);
            let points = mean(curves, values, factor);
            if !points.is_empty() {
                figure = figure.with(Series::line(*label, Style { dash: "", ..style }, points));
            }
            let theirs = own.as_ref().map(authors).filter(|line| !line.is_empty());
            if let Some(line) = theirs {
                let style = Style { dash: "3 3", width: 1.2, ..style };
                figure = figure.with(Series::line(format!("{label} (2016)"), style, line.clone()));
            }
        }
        if !figure.is_empty() {
            figures.push(figure);
        }
    }
    sheet(&figures, figures.len().clamp(1, 2))
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
