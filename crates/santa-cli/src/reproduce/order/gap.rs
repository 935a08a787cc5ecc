//! The gap between annealed averages of U and its minimum, against its true size and against the
//! integral in the paper's theorem.

use super::Experiment;
use super::ensemble::{Ensemble, Potential, grouped};
use crate::commands::table::Table;
use crate::failure::Result;
use crate::figure::{Axis, Figure, Series, Style, sheet};
use crate::reproduce::fit::{Point, jackknife, log_spaced};
use crate::reproduce::section::{Curve, Section, found, rounded, short};
use rayon::prelude::*;
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::DoubleWell;
use santa::stats::{Moments, expectation};
use santa::{InverseTemperature, Santa, Schedule};
use serde::Deserialize;
use serde_json::{Map, json};
use std::f64::consts::TAU;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    h: f64,
    gammas: Vec<f64>,
    shortest: u64,
    longest: u64,
    lengths: usize,
    /// Lengths between which slopes are fitted.
    fit: (u64, u64),
    quadratic: Quadratic,
    well: Well,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Quadratic {
    dims: Vec<usize>,
    chains: usize,
    beta_0: f64,
    offset: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Well {
    chains: usize,
    start: f64,
    beta_0: f64,
    offset: f64,
}

/// $\theta^2/2$ for each coordinate.
const QUADRATIC: Potential = Potential { u: |x| 0.5 * x * x, du: |x| x };
const WELL: Potential = Potential { u: DoubleWell::u, du: DoubleWell::du };

/// beta_0 (1 + t / offset)^gamma
fn annealing(beta_0: f64, offset: f64, gamma: f64) -> Schedule {
    Schedule::power(beta_0 * offset.powf(-gamma), offset, gamma)
}

/// What is annealed.
enum Problem {
    Quadratic { dims: usize },
    Well,
}

/// A run's measured gap, the gap of chains in equilibrium at every step, and the theorem's integral,
/// all averaged over the first L steps.
struct Run {
    problem: Problem,
    gamma: f64,
    measured: Curve,
    equilibrium: Vec<f64>,
    integral: Vec<f64>,
    /// Of the two before, in logarithms.
    slopes: [f64; 2],
    /// Share of the chains that ended outside the basin of the global minimum.
    astray: Option<f64>,
}

impl Settings {
    fn run(&self, santa: &Santa, problem: Problem, gamma: f64, stream: (u64, u32)) -> Result<Run> {
        let lengths = log_spaced(self.shortest, self.longest, self.lengths);
        let x: Vec<f64> = lengths.iter().map(|length| *length as f64).collect();
        let (beta, dims, chains) = match problem {
            Problem::Quadratic { dims } => {
                let Quadratic { beta_0, offset, chains, .. } = self.quadratic;
                (annealing(beta_0, offset, gamma), dims, chains)
            }
            Problem::Well => {
                let Well { beta_0, offset, chains, .. } = self.well;
                (annealing(beta_0, offset, gamma), 1, chains)
            }
        };
        let santa = Santa { beta: InverseTemperature::annealed(beta.clone()), ..santa.clone() };
        let (potential, lowest, start) = match problem {
            Problem::Quadratic { dims } => {
                let mut start = vec![0.0; dims * chains];
                let draws = Stream::new(stream.0, stream.1, Purpose::Custom(0));
                draws.normals(0, 0, 0, &mut start);
                let spread = 1.0 / beta.at(1).sqrt();
                start.iter_mut().for_each(|x| *x *= spread);
                (QUADRATIC, 0.0, start)
            }
            Problem::Well => {
                (WELL, DoubleWell::u(DoubleWell::GLOBAL), vec![self.well.start; chains])
            }
        };
        let mut ensemble = Ensemble::new(&santa, self.h, potential, start, stream)?;
        let averages = ensemble.averages(&lengths, dims)?;
        let gap = |average: f64| average - lowest;

        let (low, high) = self.fit;
        let inside = |k: &usize| (low..=high).contains(&lengths[*k]);
        let kept: Vec<usize> = (0..lengths.len()).filter(inside).collect();
        let pick = |all: &[f64]| kept.iter().map(|k| all[*k]).collect::<Vec<f64>>();
        let slope = |curves: &[Vec<f64>]| {
            jackknife(&pick(&x), &curves.iter().map(|curve| pick(curve)).collect::<Vec<_>>())
        };
        let points = averages.iter().enumerate().map(|(k, all)| {
            let moments: Moments = all.iter().map(|average| gap(*average)).collect();
            let (y, standard_error) = (Some(moments.mean()), moments.standard_error());
            Point { x: x[k], y, standard_error, fitted: kept.contains(&k) }
        });
        let (name, label) = match problem {
            Problem::Quadratic { dims } => (format!("quadratic-{dims}"), format!("d = {dims}")),
            Problem::Well => ("well".into(), "double well".into()),
        };
        let measured = Curve {
            name: format!("{name}-gamma-{gamma}"),
            label: format!("{label}, γ = {gamma}"),
            claim: None,
            slope: slope(&grouped(&averages, gap)),
            points: points.collect(),
        };
        let (equilibrium, integral) = match problem {
            Problem::Quadratic { dims } => {
                let d = dims as f64;
                (
                    time_means(&lengths, |t| d / (2.0 * beta.at(t))),
                    time_means(&lengths, |t| (TAU / beta.at(t)).powf(d / 2.0)),
                )
            }
            Problem::Well => {
                let curves = WellCurves::new(beta.at(1), beta.at(self.longest));
                (
                    time_means(&lengths, |t| curves.gap(beta.at(t))),
                    time_means(&lengths, |t| curves.integral(beta.at(t))),
                )
            }
        };
        // One curve without noise: two parts that agree have no error.
        let exact = |curve: &[f64]| {
            slope(&[curve.to_vec(), curve.to_vec()]).map_or(f64::NAN, |slope| slope.value)
        };
        let slopes = [exact(&equilibrium), exact(&integral)];
        let astray = matches!(problem, Problem::Well).then(|| {
            let out = ensemble.theta().iter().filter(|x| **x > DoubleWell::BARRIER).count();
            out as f64 / chains as f64
        });
        Ok(Run { problem, gamma, measured, equilibrium, integral, slopes, astray })
    }
}

/// Means of a function of the step over the first L steps, for each L (rising).
fn time_means(lengths: &[u64], of: impl Fn(u64) -> f64) -> Vec<f64> {
    let (mut sum, mut done) = (0.0, 0);
    let mean = |length: &u64| {
        sum += (done + 1..=*length).map(&of).sum::<f64>();
        done = *length;
        sum / done as f64
    };
    lengths.iter().map(mean).collect()
}

/// The gap and the integral of the double well by inverse temperature, from a grid.
struct WellCurves {
    ends: (f64, f64),
    values: Vec<(f64, f64)>,
}

impl WellCurves {
    const GRID: usize = 200;
    /// Beyond, the density is below 1e-16 at the temperatures that are used.
    const RANGE: (f64, f64) = (-9.0, 9.0);

    fn new(low: f64, high: f64) -> Self {
        let ends = (low.ln(), high.ln());
        let lowest = DoubleWell::u(DoubleWell::GLOBAL);
        let (from, to) = Self::RANGE;
        let at = |i: usize| {
            let beta = (ends.0 + (ends.1 - ends.0) * i as f64 / Self::GRID as f64).exp();
            let energy = |x: f64| beta * (DoubleWell::u(x) - lowest);
            let gap = expectation(Self::RANGE, energy, |x| DoubleWell::u(x) - lowest);
            // The integral is the inverse of the density's mean over a flat law.
            const POINTS: i32 = 20_000;
            let width = (to - from) / f64::from(POINTS);
            let integral: f64 =
                (0..=POINTS).map(|k| (-energy(from + width * f64::from(k))).exp() * width).sum();
            (gap.ln(), integral.ln())
        };
        WellCurves { ends, values: (0..=Self::GRID).map(at).collect() }
    }

    /// Both, interpolated in logarithms.
    fn at(&self, beta: f64) -> (f64, f64) {
        let (low, high) = self.ends;
        let place = ((beta.ln() - low) / (high - low)).clamp(0.0, 1.0) * Self::GRID as f64;
        let i = (place as usize).min(Self::GRID - 1);
        let share = place - i as f64;
        let (a, b) = (self.values[i], self.values[i + 1]);
        let between = |a: f64, b: f64| (a + share * (b - a)).exp();
        (between(a.0, b.0), between(a.1, b.1))
    }
    fn gap(&self, beta: f64) -> f64 {
        self.at(beta).0
    }
    fn integral(&self, beta: f64) -> f64 {
        self.at(beta).1
    }
}

/// The figure.
pub fn section(experiment: &Experiment) -> Result<Section> {
    let settings = &experiment.gap;
    let santa = &experiment.scheme("midpoint")?.santa;
    let mut jobs = Vec::new();
    for &gamma in &settings.gammas {
        for &dims in &settings.quadratic.dims {
            jobs.push((Problem::Quadratic { dims }, gamma));
        }
        jobs.push((Problem::Well, gamma));
    }
    let runs: Vec<Run> = jobs
        .into_par_iter()
        .enumerate()
        .map(|(i, (problem, gamma))| {
            settings.run(santa, problem, gamma, (experiment.seed, i as u32))
        })
        .collect::<Result<_>>()?;
    let mut table = Table::new([
        "problem",
        "gap at the end",
        "over that of equilibrium",
        "slope in L",
        "slope in equilibrium",
        "slope of the theorem's integral",
    ]);
    let mut more = Map::new();
    for run in &runs {
        let ratio = run.ratio();
        table.row([
            run.measured.label.clone(),
            short(run.measured.points.last().and_then(|p| p.y).unwrap_or(f64::NAN)),
            format!("{ratio:.3}"),
            found(run.measured.slope),
            rounded(run.slopes[0]),
            rounded(run.slopes[1]),
        ]);
        let numbers = json!({
            "ratio": ratio,
            "equilibrium": run.equilibrium,
            "integral": run.integral,
            "equilibrium_slope": run.slopes[0],
            "integral_slope": run.slopes[1],
            "astray": run.astray,
        });
        more.insert(run.measured.name.clone(), numbers);
    }
    let more = Map::from_iter([("comparisons".into(), more.into())]);
    let remarks = remarks(&runs);
    let svg = figure(settings, &runs);
    let curves = runs.into_iter().map(|run| run.measured).collect();
    let title = "Gap of annealed averages of U above the minimum";
    Ok(Section { name: "gap", title, curves, table, remarks, svg, more })
}

impl Run {
    /// The measured gap over that of equilibrium, at the longest length.
    fn ratio(&self) -> f64 {
        let measured = self.measured.points.last().and_then(|point| point.y);
        measured.unwrap_or(f64::NAN) / self.equilibrium.last().unwrap_or(&f64::NAN)
    }
}

fn remarks(runs: &[Run]) -> Vec<String> {
    let mut ratios = (f64::INFINITY, f64::NEG_INFINITY);
    let quadratic = || runs.iter().filter(|run| matches!(run.problem, Problem::Quadratic { .. }));
    for run in quadratic() {
        ratios = (ratios.0.min(run.ratio()), ratios.1.max(run.ratio()));
    }
    let mut all = vec![format!(
        "On quadratics the gap is that of a Gaussian mode, d/(2β_t) averaged over the steps ({:.3} to \
         {:.3} of it after the longest run), whatever d is. The theorem bounds it by the average of \
         ∫exp(−β_t ΔU)dθ ~ β_t^(−d/2), up to a constant and to 1/(L h) + h².",
        ratios.0, ratios.1
    )];
    // The slowest annealing tells the two decays apart; averages of what falls faster go like 1/L.
    let slowest = runs.iter().map(|run| run.gamma).fold(f64::INFINITY, f64::min);
    let slopes: Vec<String> = quadratic()
        .filter(|run| run.gamma == slowest)
        .map(|run| {
            let (found, integral) = (found(run.measured.slope), rounded(run.slopes[1]));
            format!("{}: {found} against {integral}", run.measured.label)
        })
        .collect();
    all.push(format!(
        "The integral falls too slowly for d = 1 and too fast for d > 2 (slopes in L: {}): there, no \
         constant makes it a bound, and what is left to bound the gap is h², which does not fall with L.",
        slopes.join("; ")
    ));
    let astray: Vec<String> = runs
        .iter()
        .filter_map(|run| {
            let share = 100.0 * run.astray?;
            let ratio = run.ratio();
            Some(format!(
                "γ = {}: {share:.1} %, {ratio:.2} times the gap of equilibrium",
                run.gamma
            ))
        })
        .collect();
    all.push(format!(
        "On the double well the integral knows nothing of the barrier. Chains that are left in the \
         local minimum when it gets cold stay there, and their share of the gap does not fall ({}).",
        astray.join("; ")
    ));
    all
}

fn figure(settings: &Settings, runs: &[Run]) -> String {
    const IN_EQUILIBRIUM: &str = "2 3";
    const INTEGRAL: &str = "7 3";
    let mut panels = Vec::new();
    for &gamma in &settings.gammas {
        let axes = (Axis::new("steps L").log(), Axis::new("mean of U − min U").log());
        let title = format!("Annealed with γ = {gamma}");
        let mut panel = Figure::new(axes.0, axes.1).titled(title).sized(430.0, 330.0);
        for (i, run) in runs.iter().filter(|run| run.gamma == gamma).enumerate() {
            let x = || run.measured.points.iter().map(|point| point.x);
            let colour = Style { dash: "", ..Style::numbered(i) };
            let name = run.measured.label.split(',').next().unwrap_or_default();
            let label = format!("{name}: {}", found(run.measured.slope));
            let mut series = run.measured.series(colour);
            series.label = label;
            panel = panel.with(series);
            let thin = Style { dash: IN_EQUILIBRIUM, width: 1.1, ..colour };
            let equilibrium = x().zip(run.equilibrium.iter().copied()).collect();
            panel = panel.with(Series::line("", thin, equilibrium));
            // With the constant that makes it the gap at the first length.
            let first = run.measured.points[0].y.unwrap_or(f64::NAN) / run.integral[0];
            let integral = x().zip(run.integral.iter().map(|value| first * value)).collect();
            let dashed = Style { dash: INTEGRAL, width: 1.1, ..colour };
            panel = panel.with(Series::line("", dashed, integral));
        }
        for (label, dash) in
            [("in equilibrium", IN_EQUILIBRIUM), ("the theorem's integral, scaled", INTEGRAL)]
        {
            let style = Style { dash, width: 1.1, ..Style::reference() };
            panel = panel.with(Series::line(label, style, Vec::new()));
        }
        panels.push(panel);
    }
    sheet(&panels, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_over_time_are_running_means() {
        assert_eq!(time_means(&[1, 2, 4], |t| t as f64), [1.0, 1.5, 2.5]);
    }

    #[test]
    fn the_wells_gap_is_that_of_a_gaussian_mode_when_it_is_cold() {
        let curves = WellCurves::new(1.0, 1_000.0);
        let beta = 500.0;
        assert!((curves.gap(beta) * 2.0 * beta - 1.0).abs() < 0.01);
        // Negative control: not at temperature 1.
        assert!((curves.gap(1.0) * 2.0 - 1.0).abs() > 0.1);
        // Laplace: U'' at the minimum, from the quartic's second derivative (12 x^2 + 6 x - 26) / 14.
        let x = DoubleWell::GLOBAL;
        let curvature = (12.0 * x * x + 6.0 * x - 26.0) / 14.0;
        let laplace = (TAU / (beta * curvature)).sqrt();
        assert!((curves.integral(beta) / laplace - 1.0).abs() < 0.01);
    }
}
