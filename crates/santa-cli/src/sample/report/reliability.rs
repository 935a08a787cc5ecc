//! The reliability diagram: how often predictions of some confidence are right, and how many there are.

use super::figures::{BAND, style};
use crate::figure::{Axis, Figure, Series, Style};
use santa_posterior::predict::Bin;

/// Pixels: larger than the other figures, since fifteen bars stand side by side, and about square, so
/// that the diagonal is one.
const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 300.0;
/// Of the bars, so that grid and diagonal show through.
const OPACITY: f64 = 0.35;
/// Share of its interval that a bar fills.
const FILLED: f64 = 0.88;

/// Bars as high as the share that is right, dots at the mean confidence of each, and about the diagonal
/// the band that holds them if the predictions are calibrated.
pub fn diagram(bins: &[Bin]) -> Figure {
    let mut figure = Figure::new(confidence(), Axis::new("").between(0.0, 1.0))
        .sized(WIDTH, HEIGHT)
        .with(Series::line("", Style::reference(), vec![(0.0, 0.0), (1.0, 1.0)]));
    for (interval, bin) in filled(bins) {
        figure = figure.with(bar(interval, 0.0, bin.accuracy));
    }
    for (_, bin) in filled(bins) {
        let room = BAND * (bin.confidence * (1.0 - bin.confidence) / bin.count as f64).sqrt();
        let (low, high) = (bin.confidence - room, bin.confidence + room);
        let expected = [low.max(0.0), high.min(1.0)].map(|y| (bin.confidence, y));
        figure = figure.with(Series::line(
            "",
            Style { dash: "", ..Style::reference() },
            expected.to_vec(),
        ));
    }
    // A line of one point is a dot.
    filled(bins).fold(figure, |figure, (_, bin)| {
        figure.with(Series::line("", style(0), vec![(bin.confidence, bin.accuracy)]))
    })
}

/// How many predictions there are of each confidence.
pub fn counts(bins: &[Bin]) -> Figure {
    /// Where bars begin on an axis that has no zero: below a single prediction.
    const FLOOR: f64 = 0.5;
    /// Room above the highest bar, as a factor.
    const ROOM: f64 = 2.0;
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0) as f64;
    let y = Axis::new("").log().between(FLOOR, ROOM * most.max(1.0));
    filled(bins)
        .fold(Figure::new(confidence(), y).sized(WIDTH, HEIGHT), |figure, (interval, bin)| {
            figure.with(bar(interval, FLOOR, bin.count as f64))
        })
}

fn confidence() -> Axis {
    Axis::new("confidence").between(0.0, 1.0)
}

/// The bins that have predictions, with their intervals.
fn filled(bins: &[Bin]) -> impl Iterator<Item = ((f64, f64), &Bin)> {
    let edge = |i: usize| i as f64 / bins.len() as f64;
    let all = bins.iter().enumerate().map(move |(i, bin)| ((edge(i), edge(i + 1)), bin));
    all.filter(|(_, bin)| bin.count > 0)
}

fn bar((from, to): (f64, f64), low: f64, high: f64) -> Series {
    let gap = 0.5 * (1.0 - FILLED) * (to - from);
    let ends = [from + gap, to - gap];
    Series {
        band_opacity: OPACITY,
        ..Series::band(style(0), ends.map(|x| (x, low, high)).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins() -> Vec<Bin> {
        let bin = |count, confidence, accuracy| Bin { count, confidence, accuracy };
        vec![bin(0, 0.0, 0.0), bin(10, 0.4, 0.3), bin(1, 0.6, 1.0), bin(900, 0.97, 0.95)]
    }

    #[test]
    fn every_bin_with_predictions_has_a_bar_in_its_interval_as_high_as_its_share() {
        let figure = diagram(&bins());
        let bars: Vec<_> = figure.series.iter().filter(|s| !s.band.is_empty()).collect();
        assert_eq!(bars.len(), 3);
        assert!(bars[0].band.iter().all(|b| b.0 > 0.25 && b.0 < 0.5 && (b.1, b.2) == (0.0, 0.3)));
        let dots: Vec<_> =
            figure.series.iter().filter(|s| s.points.len() == 1).map(|s| s.points[0]).collect();
        assert_eq!(dots, [(0.4, 0.3), (0.6, 1.0), (0.97, 0.95)]);
    }

    #[test]
    fn a_bar_of_one_prediction_is_seen_beside_one_of_a_thousand() {
        let figure = counts(&bins());
        assert_eq!(figure.series.len(), 3);
        assert!(figure.series.iter().all(|s| s.band[0].2 > s.band[0].1 && s.band[0].1 > 0.0));
    }

    #[test]
    fn no_predictions_are_no_figure() {
        assert!(counts(&[]).is_empty() && counts(&[Bin::default(); 3]).is_empty());
    }
}
