//! Averages over finitely many steps: their bias from a start out of equilibrium, and their
//! mean-square error.

use super::ensemble::{Ensemble, grouped};
use super::{Experiment, Scheme, WAVY, truth};
use crate::commands::table::Table;
use crate::failure::Result;
use crate::figure::{Axis, Figure, Style, sheet};
use crate::reproduce::fit::{Point, jackknife, log_spaced, weighted};
use crate::reproduce::section::{Curve, Section, cell, claimed, found, guide};
use rayon::prelude::*;
use santa::stats::Moments;
use serde::Deserialize;
use serde_json::{Map, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finite {
    chains: usize,
    h: f64,
    start: f64,
    shortest: u64,
    longest: u64,
    lengths: usize,
    /// Times L h.
    fit: (f64, f64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Error {
    chains: usize,
    h: f64,
    start: f64,
    warm_up: f64,
    shortest: u64,
    longest: u64,
    lengths: usize,
    /// Lengths L.
    fit: (u64, u64),
    best: Best,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Best {
    chains: usize,
    shortest: u64,
    longest: u64,
    lengths: usize,
    curves: toml::map::Map<String, toml::Value>,
}

/// A rule for the step size: best for a scheme of this order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    scheme: String,
    order: i32,
    h_1: f64,
}

impl Rule {
    /// The length at which h is `h_1`.
    const LENGTH: f64 = 10_000.0;

    /// h that makes the sum of 1/(L h) and h^(2 order) fall fastest, up to a factor.
    fn h(&self, length: u64) -> f64 {
        self.h_1 * (length as f64 / Self::LENGTH).powf(-1.0 / f64::from(2 * self.order + 1))
    }
    /// How the mean-square error then falls with L.
    fn claim(&self) -> f64 {
        -f64::from(2 * self.order) / f64::from(2 * self.order + 1)
    }
}

/// The curve of the chains' means of `of`, fitted where `fitted` says.
fn curve_of(
    scheme: &Scheme,
    x: &[f64],
    averages: &[Vec<f64>],
    of: impl Fn(f64) -> f64,
    fitted: impl Fn(f64) -> bool,
) -> Curve {
    let groups = grouped(averages, &of);
    let points = x.iter().zip(averages).map(|(x, all)| {
        let moments: Moments = all.iter().map(|average| of(*average)).collect();
        let standard_error = moments.standard_error();
        Point { x: *x, y: Some(moments.mean()), standard_error, fitted: fitted(*x) }
    });
    let points: Vec<Point> = points.collect();
    let kept: Vec<usize> = (0..x.len()).filter(|k| points[*k].fitted).collect();
    let pick = |all: &[f64]| kept.iter().map(|k| all[*k]).collect::<Vec<f64>>();
    let slope = jackknife(&pick(x), &groups.iter().map(|group| pick(group)).collect::<Vec<_>>());
    let (name, label) = (scheme.name.clone(), scheme.label.clone());
    Curve { name, label, claim: None, slope, points }
}

/// The figure of the bias.
pub fn finite(experiment: &Experiment) -> Result<Section> {
    let settings = &experiment.finite;
    let h = settings.h;
    let mut lengths = log_spaced(settings.shortest, settings.longest, settings.lengths);
    let half = settings.longest / 2;
    lengths.push(half);
    lengths.sort_unstable();
    lengths.dedup();
    let x: Vec<f64> = lengths.iter().map(|length| 1.0 / (*length as f64 * h)).collect();
    let (from, to) = settings.fit;
    let truth = truth();
    let one = |(i, scheme): (usize, &Scheme)| {
        let start = vec![settings.start; settings.chains];
        let stream = (experiment.seed, i as u32);
        let mut averages =
            Ensemble::new(&scheme.santa, h, WAVY, start, stream)?.averages(&lengths, 1)?;
        let total = curve_of(scheme, &x, &averages, |average| average - truth, |_| false);
        // What remains: the average of the second half, which the start does not reach.
        let last = averages.len() - 1;
        let middle = lengths.iter().position(|length| *length == half).unwrap_or(last);
        let share = half as f64 / settings.longest as f64;
        let late = averages[last].iter().zip(&averages[middle]);
        let late: Vec<f64> = late.map(|(all, half)| (all - share * half) / (1.0 - share)).collect();
        for average in &mut averages {
            average.iter_mut().zip(&late).for_each(|(average, late)| *average -= late);
        }
        let inside = |x: f64| (from..=to).contains(&(1.0 / x));
        let curve = curve_of(scheme, &x, &averages, |difference| difference, inside);
        let late: Moments = late.into_iter().collect();
        let (y, standard_error) = (Some(late.mean() - truth), late.standard_error());
        let remaining = Point { x: 0.0, y, standard_error, fitted: false };
        let (name, label) = (format!("{}-total", total.name), format!("{}, in all", total.label));
        Ok((Curve { claim: Some(1.0), ..curve }, Curve { name, label, ..total }, remaining))
    };
    let measured: Vec<(Curve, Curve, Point)> =
        experiment.schemes.par_iter().enumerate().map(one).collect::<Result<_>>()?;

    let mut figure =
        Figure::new(Axis::new("1 / (L h)").log(), Axis::new("bias of the average").log())
            .titled(format!("The first L steps from θ = {}, h = {h}", settings.start))
            .sized(480.0, 340.0);
    if let Some((Curve { points, .. }, ..)) = measured.last()
        && let Some(Point { x: at, y: Some(y), .. }) = points.iter().find(|point| point.fitted)
    {
        figure = figure.with(guide("slope 1", (*at, 2.0 * y), x[x.len() - 1], 1.0));
    }
    let (mut curves, mut remaining) = (Vec::new(), Vec::new());
    for (i, (curve, total, left)) in measured.into_iter().enumerate() {
        let style = Style { dash: "", ..Style::numbered(i) };
        figure = figure.with(curve.series(style));
        let mut series = total.series(Style { dash: "2 3", width: 1.1, ..style });
        series.dots = false;
        series.band.clear();
        figure = figure.with(series);
        remaining.push((curve.label.clone(), left));
        curves.extend([curve, total]);
    }
    let middle = x[x.iter().position(|x| 1.0 / x >= from).unwrap_or(0)];
    let name = |x: &f64| format!("L h = {:.0}", 1.0 / x);
    let table = table("scheme", &curves, &[x[0], middle, x[x.len() - 1]], name);
    let slopes: Vec<String> =
        curves.iter().filter_map(|c| c.slope).map(|s| s.to_string()).collect();
    let left: Vec<String> =
        remaining.iter().map(|(label, left)| format!("{label} {}", cell(Some(left)))).collect();
    let remarks = vec![format!(
        "The term 1/(L h) of the theorem is right, for all schemes alike: between L h = {from} and {to}, \
         what the start adds to the bias falls with slopes {} in 1/(L h). What remains is the scheme's \
         own ({}). Dotted: both together, which have opposite signs here and meet at zero.",
        slopes.join(", "),
        left.join("; ")
    )];
    let title = "Bias of the mean of the first L steps";
    let (svg, more) = (figure.svg(), Map::new());
    Ok(Section { name: "finite", title, curves, table, remarks, svg, more })
}

/// The figure of the mean-square error.
pub fn error(experiment: &Experiment) -> Result<Section> {
    let fixed = fixed(experiment)?;
    let best = best(experiment)?;
    let settings = &experiment.error;
    let panel = |title: String, curves: &[Curve], slopes: &[(f64, &str)]| {
        let axes = (Axis::new("steps L").log(), Axis::new("mean-square error").log());
        let mut figure = Figure::new(axes.0, axes.1).titled(title).sized(430.0, 320.0);
        let first = curves.iter().filter_map(|c| c.points.first()).filter_map(|p| p.y);
        let top = 2.0 * first.fold(0.0, f64::max);
        let ends = curves.first().map(|c| (c.points[0].x, c.points[c.points.len() - 1].x));
        for (slope, name) in slopes {
            if let Some((from, to)) = ends {
                figure = figure.with(guide(name, (from, top), to, *slope));
            }
        }
        for (i, curve) in curves.iter().enumerate() {
            figure = figure.with(curve.series(Style { dash: "", ..Style::numbered(i) }));
        }
        figure
    };
    let thirds: [(f64, &str); 2] = [(-2.0 / 3.0, "slope −2/3"), (-0.8, "slope −4/5")];
    let svg = sheet(
        &[
            panel(format!("At h = {}", settings.h), &fixed, &[(-1.0, "slope −1")]),
            panel("At the h that the theorem calls best for L".into(), &best, &thirds),
        ],
        1,
    );
    let of = |curves: &[Curve], name: &str| {
        let curve = curves.iter().find(|curve| curve.name == name).cloned();
        (found(curve.as_ref().and_then(|c| c.slope)), curve.and_then(|c| c.points.last().copied()))
    };
    let floor = |name: &str| cell(of(&fixed, name).1.as_ref());
    let remarks = vec![
        format!(
            "At a fixed h the error falls like 1/L, and ends at the square of the bias: after {} steps \
             at {} (Euler), {} (as printed) and {} (midpoint).",
            settings.longest,
            floor("fixed-euler"),
            floor("fixed-printed"),
            floor("fixed-midpoint")
        ),
        format!(
            "With h ~ L^(−1/5), best for the second order that the theorem states, the midpoint \
             splitting reaches a slope of {} where −4/5 is promised, and the splitting as printed {}: \
             being of first order, it needs h ~ L^(−1/3), which gives {} (promised for first order: \
             −2/3; Euler: {}).",
            of(&best, "best-midpoint").0,
            of(&best, "best-printed").0,
            of(&best, "best-printed-1").0,
            of(&best, "best-euler").0
        ),
    ];
    let curves: Vec<Curve> = fixed.into_iter().chain(best).collect();
    let shown = [settings.best.shortest as f64, settings.best.longest as f64];
    let table = table("scheme", &curves, &shown, |x| format!("L = {x}"));
    let title = "Mean-square error of the mean of L steps";
    let more = Map::from_iter([("h".into(), json!(settings.h))]);
    Ok(Section { name: "error", title, curves, table, remarks, svg, more })
}

/// Curves at a fixed step size.
fn fixed(experiment: &Experiment) -> Result<Vec<Curve>> {
    let settings = &experiment.error;
    let lengths = log_spaced(settings.shortest, settings.longest, settings.lengths);
    let x: Vec<f64> = lengths.iter().map(|length| *length as f64).collect();
    let (from, to) = settings.fit;
    let one = |(i, scheme): (usize, &Scheme)| {
        let averages =
            settled(experiment, scheme, settings.h, settings.chains, &lengths, i as u32)?;
        let inside = |x: f64| (from as f64..=to as f64).contains(&x);
        let truth = truth();
        let curve = curve_of(scheme, &x, &averages, |average| (average - truth).powi(2), inside);
        let label = format!("{}, h = {}", scheme.label, settings.h);
        Ok(Curve { name: format!("fixed-{}", curve.name), label, claim: Some(-1.0), ..curve })
    };
    experiment.schemes.par_iter().enumerate().map(one).collect()
}

/// Curves at the step size that a rule says for each length.
fn best(experiment: &Experiment) -> Result<Vec<Curve>> {
    let best = &experiment.error.best;
    let lengths = log_spaced(best.shortest, best.longest, best.lengths);
    let truth = truth();
    let mut curves = Vec::new();
    for (k, (name, rule)) in best.curves.iter().enumerate() {
        let rule: Rule = rule.clone().try_into().map_err(|e: toml::de::Error| {
            crate::failure::Failure::usage(format!("order: error.best.{name}: {e}"))
        })?;
        let scheme = experiment.scheme(&rule.scheme)?;
        let one = |(i, length): (usize, &u64)| {
            // Noise that no other run of this figure has.
            let chain = (experiment.schemes.len() + k * lengths.len() + i) as u32;
            let h = rule.h(*length);
            let averages = settled(experiment, scheme, h, best.chains, &[*length], chain)?;
            let errors: Moments = averages[0].iter().map(|a| (a - truth).powi(2)).collect();
            let (y, standard_error) = (Some(errors.mean()), errors.standard_error());
            Ok(Point { x: *length as f64, y, standard_error, fitted: true })
        };
        let points: Vec<Point> = lengths.par_iter().enumerate().map(one).collect::<Result<_>>()?;
        let label = format!("{}, h ~ L^(−1/{})", scheme.label, 2 * rule.order + 1);
        let (name, claim) = (format!("best-{name}"), Some(rule.claim()));
        curves.push(Curve { name, label, claim, slope: weighted(&points), points });
    }
    Ok(curves)
}

/// Averages of chains that have forgotten where they started.
fn settled(
    experiment: &Experiment,
    scheme: &Scheme,
    h: f64,
    chains: usize,
    lengths: &[u64],
    chain: u32,
) -> Result<Vec<Vec<f64>>> {
    let settings = &experiment.error;
    let start = vec![settings.start; chains];
    let mut ensemble = Ensemble::new(&scheme.santa, h, WAVY, start, (experiment.seed, chain))?;
    ensemble.walk((settings.warm_up / h) as u64)?;
    Ok(ensemble.averages(lengths, 1)?)
}

fn table(first: &str, curves: &[Curve], shown: &[f64], name: impl Fn(&f64) -> String) -> Table {
    let ends = ["slope", "in the paper"].map(String::from);
    let titles = std::iter::once(first.to_string()).chain(shown.iter().map(name)).chain(ends);
    let mut table = Table::new(titles);
    for curve in curves {
        let mut row = vec![curve.label.clone()];
        row.extend(shown.iter().map(|x| cell(curve.at(*x))));
        row.extend([found(curve.slope), claimed(curve.claim)]);
        table.row(row);
    }
    table
}
