//! The figures as files, for papers.

use super::annealing::{Annealing, Momentum, Stretch, annealing};
use super::calibration::reliability;
use super::curves::{self, Curve, Measure, Part, Prediction};
use super::groups::{Experiment, Group, seed};
use super::table::PERCENT;
use crate::figure::{Axis, Figure, Scale, Series, Shade, Style, sheet};
use santa::Stage;

/// A figure and the name of its file, without folder and ending.
pub struct Drawing {
    /// Part of a file name.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The SVG.
    pub svg: String,
}

/// All figures of an experiment that have something to show.
pub fn draw(experiment: &Experiment<'_>) -> Vec<Drawing> {
    let mut drawings = Vec::new();
    let mut keep = |name: &str, title: &str, figure: Figure| {
        if !figure.is_empty() {
            drawings.push(Drawing { name: name.into(), title: title.into(), svg: figure.svg() });
        }
    };
    let groups = &experiment.groups;
    keep("training-loss", "training loss", lines(groups, "training loss", curves::loss));
    for (part, part_name) in [(Part::Test, "test"), (Part::Validation, "validation")] {
        for (measure, measure_name) in [(Measure::Error, "error"), (Measure::Nll, "NLL")] {
            for (prediction, suffix) in PREDICTIONS {
                let title = format!("{part_name} {measure_name}{suffix}");
                let (label, scale) = match measure {
                    Measure::Error => (format!("{title}, %"), PERCENT),
                    Measure::Nll => (title.clone(), 1.0),
                };
                let figure = lines(groups, &label, |g| {
                    Some(curves::scores(g, part, measure, prediction)?.scaled(scale))
                });
                keep(&slug(&title), &title, figure);
            }
        }
    }
    keep("temperature", "temperature", temperatures(groups));
    for (prediction, suffix) in PREDICTIONS {
        let label = format!("calibration{suffix}");
        keep(&slug(&label), &label, calibration(groups, prediction));
    }
    for group in groups {
        let run = group.runs[0];
        let Some(annealing) = annealing(run).filter(|a| !a.momenta.is_empty()) else { continue };
        let title = match seed(run) {
            Some(seed) => format!("momentum, {}, seed {seed}", group.label),
            None => format!("momentum, {}", group.label),
        };
        let style = Style { dash: "", ..Style::numbered(group.index) };
        let svg = sheet(&momenta(&annealing, style), COLUMNS);
        drawings.push(Drawing { name: slug(&format!("momentum {}", group.label)), title, svg });
    }
    drawings
}

const PREDICTIONS: [(Prediction, &str); 2] =
    [(Prediction::Last, ""), (Prediction::Averaged, " averaged")];
/// Small figures in a row.
const COLUMNS: usize = 3;

/// Letters and digits, with single hyphens between them: safe in the name of any file.
pub fn slug(text: &str) -> String {
    /// Bytes, at most: names of files may have 255, and others are put before and behind.
    const LONGEST: usize = 80;
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = words.collect::<Vec<_>>().join("-").to_lowercase();
    slug.truncate(LONGEST);
    slug
}

fn lines(groups: &[Group<'_>], label: &str, curve: impl Fn(&Group<'_>) -> Option<Curve>) -> Figure {
    /// Ratio of highest to lowest from which on a linear axis would hide most of a curve.
    const WIDE: f64 = 20.0;
    let curves: Vec<_> = groups.iter().filter_map(|g| Some((g, curve(g)?))).collect();
    let mut y = Axis::new(label);
    let values = || curves.iter().flat_map(|(_, c)| &c.mean).filter(|v| v.is_finite());
    let lowest = values().copied().fold(f64::INFINITY, f64::min);
    let highest = values().copied().fold(f64::NEG_INFINITY, f64::max);
    if lowest > 0.0 && highest / lowest > WIDE {
        y.scale = Scale::Log;
    }
    let mut figure = Figure::new(Axis::new("epoch"), y);
    for (group, curve) in curves {
        let points = curve.epoch.iter().copied().zip(curve.mean.iter().copied()).collect();
        let mut series = Series::line(&group.label, Style::numbered(group.index), points);
        if group.runs.len() > 1 {
            let ends = curve.low.iter().zip(&curve.high);
            series.band = curve.epoch.iter().zip(ends).map(|(&x, (&l, &h))| (x, l, h)).collect();
        }
        figure.series.push(series);
    }
    figure
}

/// Colours of the stages, pale enough to draw on.
fn shades(annealing: &Annealing) -> Vec<Shade> {
    let shade = |stretch: &Stretch| {
        let (label, fill) = match stretch.stage {
            Stage::Exploring => ("exploring", "#fdf3e3"),
            Stage::Refining => ("refining", "#eef3f8"),
        };
        Shade { from: stretch.from, to: stretch.to, label: label.into(), fill }
    };
    annealing.stages.iter().map(shade).collect()
}

fn temperatures(groups: &[Group<'_>]) -> Figure {
    let mut figure = Figure::new(Axis::new("epoch"), Axis::new("temperature").log());
    for group in groups {
        let Some(annealing) = annealing(group.runs[0]) else { continue };
        if figure.shades.is_empty() {
            figure.shades = shades(&annealing);
        }
        let style = Style::numbered(group.index);
        figure.series.push(Series::line(&group.label, style, annealing.temperature));
    }
    figure
}

fn momenta(annealing: &Annealing, style: Style) -> Vec<Figure> {
    /// Quantiles that a band lies between, by their place in `QUANTILES`, and its opacity: lowest to
    /// highest, 5 to 95 per cent, 25 to 75 per cent.
    const BANDS: [(usize, usize, f64); 3] = [(0, 6, 0.12), (1, 5, 0.18), (2, 4, 0.3)];
    const MEDIAN: usize = 3;
    let values = || annealing.momenta.iter().flat_map(|m| &m.times).flat_map(|(_, q)| q);
    let ends = |start: f64, pick: fn(f64, f64) -> f64| values().copied().fold(start, pick);
    let (low, high) = (ends(f64::INFINITY, f64::min), ends(f64::NEG_INFINITY, f64::max));
    // Not less than a hundredth, so that no drift looks like nothing.
    let (middle, half) = (0.5 * (low + high), f64::max(0.005, 0.5 * (high - low)));
    let (low, high) = (middle - half, middle + half);
    let figure = |Momentum { name, times }: &Momentum| {
        let y = Axis::new("weight of momentum").between(low, high);
        let mut figure = Figure::new(Axis::new("epoch"), y).titled(name).sized(260.0, 190.0);
        for (lower, upper, opacity) in BANDS {
            let band = times.iter().map(|(x, q)| (*x, q[lower], q[upper])).collect();
            let band = Series { band_opacity: opacity, ..Series::band(style, band) };
            figure.series.push(band);
        }
        let median = times.iter().map(|(x, q)| (*x, q[MEDIAN])).collect();
        figure.with(Series::line("", style, median))
    };
    annealing.momenta.iter().map(figure).collect()
}

fn calibration(groups: &[Group<'_>], prediction: Prediction) -> Figure {
    let x = Axis::new("confidence").between(0.0, 1.0);
    let y = Axis::new("accuracy").between(0.0, 1.0);
    let mut figure = Figure::new(x, y).sized(320.0, 320.0);
    for group in groups {
        let Some(found) = reliability(group, prediction) else { continue };
        let points = found.bins.iter().map(|b| (b.confidence, b.accuracy)).collect();
        let series = Series::line(&group.label, Style::numbered(group.index), points);
        figure.series.push(series.with_dots());
    }
    if !figure.series.is_empty() {
        let diagonal = Series::line("", Style::reference(), vec![(0.0, 0.0), (1.0, 1.0)]);
        figure.series.insert(0, diagonal);
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_safe_names() {
        assert_eq!(slug("../Santa, lr 0.1 <b>"), "santa-lr-0-1-b");
        assert_eq!(slug("\u{1d6c3}"), "");
        assert_eq!(slug(&"word ".repeat(1000)).len(), 80);
    }
}
