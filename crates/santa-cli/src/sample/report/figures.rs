//! The figures: traces, densities, ranks, autocorrelations and pairs. All take the draws of a
//! quantity chain by chain.

use super::words::short;
use super::{autocorrelation, density, ranks};
use crate::figure::{Axis, COLOURS, DASHES, Figure, Series, Shade, Style};
use std::ops::Range;

/// Pixels of a figure at the page's full width, where four of them stand side by side.
const WIDTH: f64 = 256.0;
const HEIGHT: f64 = 180.0;
/// A trace is two figures wide, with the gap and the margins between them.
const TRACE_WIDTH: f64 = 2.0 * WIDTH + 32.0;
/// Points of a chain in a trace and in a cloud, at most.
const TRACE_POINTS: usize = 1_000;
const CLOUD_POINTS: usize = 500;
/// Autocorrelations that are computed and drawn, at most.
const LAGS: usize = 100;
/// Standard deviations from the middle that hold 99 % of a normal distribution.
pub const BAND: f64 = 2.576;
/// Pixels.
const THIN: f64 = 0.7;

/// The line of a chain. Up to eight chains differ in colour alone.
pub fn style(chain: usize) -> Style {
    Style { dash: DASHES[chain / COLOURS.len() % DASHES.len()], ..Style::numbered(chain) }
}

/// Only what can be drawn.
pub fn finite(chains: &[Vec<f64>]) -> Vec<Vec<f64>> {
    chains.iter().map(|c| c.iter().copied().filter(|x| x.is_finite()).collect()).collect()
}

/// The value that all draws have, if they have one.
pub fn constant(chains: &[Vec<f64>]) -> Option<f64> {
    let mut all = chains.iter().flatten();
    let first = *all.next()?;
    all.all(|&x| x == first).then_some(first)
}

/// Every so many draws are drawn, so that at most `most` are.
fn stride(draws: usize, most: usize) -> usize {
    draws.div_ceil(most).max(1)
}

/// The draws in their order; draws that are not finite are gaps. Every other cycle is shaded.
pub fn trace(chains: &[Vec<f64>], cycles: &[Range<usize>]) -> Figure {
    let draws = chains.iter().map(Vec::len).max().unwrap_or(0);
    let mut x = Axis::new("draw");
    if draws > 1 {
        x = x.between(1.0, draws as f64);
    }
    let mut figure = Figure::new(x, Axis::new("")).sized(TRACE_WIDTH, HEIGHT);
    for (i, cycle) in cycles.iter().enumerate().filter(|(i, _)| i % 2 == 0) {
        let (from, to) = (cycle.start as f64 + 1.0, cycle.end as f64 + 1.0);
        let label = format!("cycle {}", i + 1);
        figure.shades.push(Shade { from, to, label, fill: "var(--refining)" });
    }
    for (chain, values) in chains.iter().enumerate() {
        let points = values.iter().enumerate().step_by(stride(draws, TRACE_POINTS));
        let points = points.map(|(i, &x)| (i as f64 + 1.0, x)).collect();
        let style = Style { dash: "", width: THIN, ..style(chain) };
        figure = figure.with(Series::line("", style, points));
    }
    figure
}

/// The density of each chain. One that never moves is a line upwards.
pub fn densities(chains: &[Vec<f64>]) -> Figure {
    let estimates: Vec<_> = chains.iter().map(|c| density::density(c)).collect();
    let highest = estimates.iter().flatten().flatten().map(|p| p.1).fold(0.0, f64::max);
    let highest = if highest > 0.0 { highest } else { 1.0 };
    let mut figure = Figure::new(Axis::new(""), Axis::new("")).sized(WIDTH, HEIGHT);
    for (chain, estimate) in estimates.into_iter().enumerate() {
        let upwards = || chains[chain].first().map(|&x| vec![(x, 0.0), (x, highest)]);
        let points = estimate.or_else(upwards).unwrap_or_default();
        figure = figure.with(Series::line("", style(chain), points));
    }
    figure
}

/// The frequencies of ranks, with the band that holds them if the chains agree. Nothing if there is
/// one chain, or too few draws.
pub fn rank_frequencies(chains: &[Vec<f64>]) -> Option<Figure> {
    let draws = chains.iter().map(Vec::len).min().filter(|_| chains.len() > 1)?;
    let bins = ranks::bins(draws)?;
    let times: Vec<f64> = chains
        .iter()
        .filter_map(|c| autocorrelation::autocorrelations(c, LAGS))
        .map(|rho| autocorrelation::time(&rho))
        .collect();
    let time = if times.is_empty() { 1.0 } else { times.iter().sum::<f64>() / times.len() as f64 };
    let room = BAND * ranks::deviation(chains.len(), draws, bins, time);
    let edge = |bin: usize| bin as f64 / bins as f64;
    let frequencies = ranks::frequencies(chains, bins);
    let highest = frequencies.iter().flatten().copied().fold(1.0 + room, f64::max);
    /// Share of the height that is left free above.
    const ROOM: f64 = 1.05;
    let x = Axis::new("rank, as a share").between(0.0, 1.0);
    let mut figure = Figure::new(x, Axis::new("").between(0.0, ROOM * highest))
        .sized(WIDTH, HEIGHT)
        .with(Series::band(
            Style::reference(),
            [0.0, 1.0].map(|x| (x, (1.0 - room).max(0.0), 1.0 + room)).to_vec(),
        ))
        .with(Series::line("", Style::reference(), vec![(0.0, 1.0), (1.0, 1.0)]));
    for (chain, heights) in frequencies.into_iter().enumerate() {
        let steps = heights.into_iter().enumerate();
        let points = steps.flat_map(|(bin, y)| [(edge(bin), y), (edge(bin + 1), y)]).collect();
        figure = figure.with(Series::line("", style(chain), points));
    }
    Some(figure)
}

/// The autocorrelations of each chain that moves.
pub fn autocorrelations(chains: &[Vec<f64>]) -> Figure {
    let mut figure = Figure::new(Axis::new("lag"), Axis::new("")).sized(WIDTH, HEIGHT);
    for (chain, values) in chains.iter().enumerate() {
        if let Some(rho) = autocorrelation::autocorrelations(values, LAGS) {
            let points: Vec<_> = rho.into_iter().enumerate().map(|(k, r)| (k as f64, r)).collect();
            if figure.series.is_empty() {
                let zero = points.iter().map(|p| (p.0, 0.0)).collect();
                figure = figure.with(Series::line("", Style::reference(), zero));
            }
            figure = figure.with(Series::line("", style(chain), points));
        }
    }
    figure
}

/// The draws of one quantity against those of another, with their names.
pub fn pair(x: (&str, &[Vec<f64>]), y: (&str, &[Vec<f64>])) -> Figure {
    let ends = |chains: &[Vec<f64>]| {
        /// Share of the range that is left free at each end: no point is cut.
        const ROOM: f64 = 0.04;
        let all = || chains.iter().flatten().copied().filter(|x| x.is_finite());
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::MIN, f64::max));
        let room = ROOM * (high - low);
        (low - room, high + room)
    };
    let axis = |(name, chains): (&str, &[Vec<f64>])| {
        let (low, high) = ends(chains);
        Axis::new(short(name)).between(low, high)
    };
    let mut figure = Figure::new(axis(x), axis(y)).sized(WIDTH, HEIGHT + 20.0);
    for (chain, (xs, ys)) in x.1.iter().zip(y.1).enumerate() {
        let points = xs.iter().copied().zip(ys.iter().copied());
        let points = points.step_by(stride(xs.len(), CLOUD_POINTS)).collect();
        figure = figure.with(Series::scatter("", style(chain), points));
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::super::testing::normals;
    use super::*;

    fn chains(count: u32, draws: usize) -> Vec<Vec<f64>> {
        (0..count).map(|chain| normals(chain, draws)).collect()
    }

    #[test]
    fn long_chains_are_thinned_and_short_ones_are_whole() {
        for (draws, most) in [(1, 1), (999, 999), (1_001, 501), (123_456, 1_000)] {
            let figure = trace(&chains(2, draws), &[]);
            assert!(figure.series.iter().all(|s| s.points.len() <= most.max(1)), "{draws}");
            assert!(figure.series[0].points.len() >= draws.min(TRACE_POINTS / 2), "{draws}");
            assert_eq!(figure.series[1].points[0].0, 1.0);
        }
        let many = chains(1, 10_000);
        assert_eq!(pair(("a", &many), ("b", &many)).series[0].points.len(), CLOUD_POINTS);
    }

    #[test]
    fn every_other_cycle_is_shaded() {
        let figure = trace(&chains(1, 30), &[0..10, 10..20, 20..30]);
        let shades: Vec<_> = figure.shades.iter().map(|s| (s.from, s.to)).collect();
        assert_eq!(shades, [(1.0, 11.0), (21.0, 31.0)]);
    }

    #[test]
    fn a_chain_that_never_moves_is_a_line_upwards() {
        let mut chains = chains(2, 100);
        chains[1] = vec![0.5; 100];
        let figure = densities(&chains);
        assert_eq!(figure.series[1].points[0], (0.5, 0.0));
        assert!(figure.series[1].points[1].1 > 0.1);
        // It has no autocorrelations.
        assert_eq!(autocorrelations(&chains).series.len(), 2);
    }

    #[test]
    fn ranks_need_two_chains_and_some_draws() {
        assert!(rank_frequencies(&chains(1, 100)).is_none());
        assert!(rank_frequencies(&chains(2, 3)).is_none());
        let figure = rank_frequencies(&chains(2, 100)).unwrap();
        assert_eq!(figure.series.len(), 4, "band, uniform line, two chains");
    }

    #[test]
    fn nine_chains_look_different() {
        let looks: Vec<_> = (0..9).map(|c| (style(c).colour, style(c).dash)).collect();
        assert!((1..9).all(|i| !looks[..i].contains(&looks[i])));
    }
}
