//! Regret on a convex problem.

use super::logistic::Examples;
use crate::commands::table::Table;
use crate::failure::Result;
use crate::figure::{Axis, Figure, Style};
use crate::reproduce::fit::{Point, Slope, jackknife, log_spaced};
use crate::reproduce::section::{Curve, Section, cell, claimed, found, guide};
use crate::reproduce::settings::Method;
use rayon::prelude::*;
use santa::stats::Moments;
use santa::{Stepper, Target};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    dim: usize,
    weights: f64,
    radius: f64,
    problems: u32,
    first: u64,
    rounds: u64,
    checkpoints: usize,
    /// Rounds from which slopes are fitted.
    fit: u64,
    methods: toml::Table,
}

/// The slope of sqrt(T).
const ROOT: f64 = 0.5;

impl Settings {
    fn rounds(&self) -> Vec<u64> {
        log_spaced(self.first, self.rounds, self.checkpoints)
    }

    /// The regret of each method at each number of rounds, on one problem.
    fn play(&self, methods: &[Method], seed: u64, problem: u32) -> Result<Vec<Vec<f64>>> {
        let examples = Examples::draw(self.dim, self.rounds as usize, self.weights, seed, problem);
        let mut least = Vec::new();
        let mut best = vec![0.0; self.dim];
        for rounds in self.rounds() {
            best = examples.best(rounds as usize, self.radius, best)?;
            least.push(examples.total(rounds as usize, &best));
        }
        methods.iter().map(|method| self.regret(method, &examples, &least, seed)).collect()
    }

    fn regret(
        &self,
        method: &Method,
        examples: &Examples,
        least: &[f64],
        seed: u64,
    ) -> Result<Vec<f64>> {
        let target = Target::density(self.dim)?;
        let mut stepper = Stepper::<f64>::new(method.algorithm.clone(), &target, seed, 0)?;
        let (mut theta, mut gradient) = (vec![0.0; self.dim], vec![0.0; self.dim]);
        let (mut paid, mut t) = (0.0, 0);
        let mut all = Vec::new();
        for (rounds, least) in self.rounds().into_iter().zip(least) {
            while t < rounds as usize {
                paid += examples.loss(t, &theta, &mut gradient);
                stepper.step(&mut theta, &gradient)?;
                theta.iter_mut().for_each(|w| *w = w.clamp(-self.radius, self.radius));
                t += 1;
            }
            all.push(paid - least);
        }
        Ok(all)
    }
}

/// The figure.
pub fn section(settings: &Settings, seed: u64) -> Result<Section> {
    let methods = Method::all("regret", settings.methods.clone())?;
    let problems: Vec<Vec<Vec<f64>>> = (0..settings.problems)
        .into_par_iter()
        .map(|problem| settings.play(&methods, seed, problem))
        .collect::<Result<_>>()?;
    let x: Vec<f64> = settings.rounds().iter().map(|rounds| *rounds as f64).collect();
    let from = x.iter().position(|x| *x >= settings.fit as f64).unwrap_or(0);
    let mut curves = Vec::new();
    for (m, method) in methods.iter().enumerate() {
        let parts: Vec<Vec<f64>> = problems.iter().map(|problem| problem[m].clone()).collect();
        let point = |(k, x): (usize, &f64)| {
            let moments: Moments = parts.iter().map(|part| part[k]).collect();
            let (y, standard_error) = (Some(moments.mean()), moments.standard_error());
            Point { x: *x, y, standard_error, fitted: k >= from }
        };
        let late: Vec<Vec<f64>> = parts.iter().map(|part| part[from..].to_vec()).collect();
        curves.push(Curve {
            name: method.name.clone(),
            label: method.label.clone(),
            claim: (method.name != "constant").then_some(ROOT),
            slope: jackknife(&x[from..], &late),
            points: x.iter().enumerate().map(point).collect(),
        });
    }

    let last = x[x.len() - 1];
    let mut table = Table::new([
        "method".to_string(),
        format!("regret at T = {}", x[0]),
        format!("at T = {last}"),
        "slope".into(),
        "in the paper, at most".into(),
    ]);
    for curve in &curves {
        let (slope, claim) = (found(curve.slope), claimed(curve.claim));
        table.row([curve.label.clone(), cell(curve.at(x[0])), cell(curve.at(last)), slope, claim]);
    }
    let mut figure = Figure::new(Axis::new("rounds T").log(), Axis::new("regret R(T)").log())
        .titled(format!("Online logistic regression, {} weights", settings.dim))
        .sized(480.0, 340.0);
    if let Some(Point { y: Some(y), .. }) = curves.first().map(|curve| curve.points[0]) {
        figure = figure.with(guide("√T", (x[0], y / 2.0), last, ROOT));
    }
    for (i, curve) in curves.iter().enumerate() {
        figure = figure.with(curve.series(Style { dash: "", ..Style::numbered(i) }));
    }
    let slope = |name: &str| curves.iter().find(|curve| curve.name == name).and_then(|c| c.slope);
    let decaying = curves.iter().filter(|c| c.claim.is_some()).filter_map(|c| c.slope);
    let highest = decaying.map(|slope: Slope| slope.value).fold(f64::NEG_INFINITY, f64::max);
    let mut remarks = vec![
        format!(
            "With rates ~ 1/√t, the largest slope from T = {} on is {highest:.2}: no regret grows faster \
             than √T here, and refining Santa's ({}) like Adam's ({}), as the supplement says. At a \
             constant rate, the control, it grows with slope {}.",
            x[from],
            found(slope("santa")),
            found(slope("adam")),
            found(slope("constant"))
        ),
        "This is a friendly problem: the rounds are alike, and the sum of the losses is strongly \
         convex. The bound that the supplement refers to does not hold for all convex problems: see \
         the counter-example."
            .into(),
    ];
    let described = methods.iter().filter(|method| !method.description.is_empty());
    remarks.extend(described.map(|method| format!("{}: {}.", method.label, method.description)));
    let title = "Regret of refinement on a convex problem";
    let (svg, more) = (figure.svg(), Default::default());
    Ok(Section { name: "convex", title, curves, table, remarks, svg, more })
}
