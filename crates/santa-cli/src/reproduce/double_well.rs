//! Figure 1: a double well, many chains, and where they end.

use crate::failure::{Failure, Result};
use crate::figure::{Axis, Figure, Series, Shade, Style, sheet};
use santa::potential::analytic::DoubleWell;
use santa::stats::wilson_lower;
use santa::{Algorithm, Chain, Sampling, Stage, Stepper};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use toml::{Table, Value};

/// The settings as they are built in.
pub const SETTINGS: &str = include_str!("../../experiments/double-well.toml");

/// A chain has arrived when it is this close to the global minimum.
const CLOSE: f64 = 0.3;
/// A chain that is not even this close to one of the minima has diverged.
const ASTRAY: f64 = 1.0;
/// Chains of the small version.
const QUICK: usize = 100;

const EXPLORING: &str = "#fdf3e1";
const REFINING: &str = "#e8f1fa";

/// What is run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Where every chain starts.
    pub start: f64,
    /// Steps of a chain.
    pub steps: u64,
    /// Chains of each method.
    pub chains: usize,
    /// Of the noise.
    pub seed: u64,
    /// In the order of the file.
    pub methods: Vec<Method>,
}

/// One way to move.
#[derive(Clone, Debug)]
pub struct Method {
    /// What tables call it.
    pub name: String,
    /// For the reader.
    pub description: String,
    /// Its settings.
    pub algorithm: Algorithm,
}

/// How the chains of a method ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Share of the chains that ended at the global minimum.
    pub global_mode: f64,
    /// Lower end of its 95 % interval.
    pub lower_bound: f64,
    /// Share of the chains that ended near no minimum.
    pub diverged: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    start: f64,
    steps: u64,
    chains: usize,
    seed: u64,
    methods: Table,
}

impl Experiment {
    /// Reads the settings.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |e: toml::de::Error| Failure::usage(format!("double-well: {e}"));
        let File { start, steps, chains, seed, methods } = toml::from_str(text).map_err(wrong)?;
        let mut all = Vec::new();
        for (name, mut value) in methods {
            let description = value.as_table_mut().and_then(|table| table.remove("description"));
            let description = description.as_ref().and_then(Value::as_str).unwrap_or_default();
            let algorithm = value.try_into().map_err(wrong)?;
            all.push(Method { name, description: description.into(), algorithm });
        }
        Ok(Experiment { start, steps, chains, seed, methods: all })
    }

    /// The same with few chains.
    pub fn quick(mut self) -> Self {
        self.chains = self.chains.min(QUICK);
        self
    }

    /// Runs the chains of a method, as the coordinates of one vector.
    pub fn run(&self, method: &Method) -> Result<Outcome> {
        let well = DoubleWell::new(self.chains)?;
        let target = santa::Potential::<f64>::target(&well).clone();
        let stepper = Stepper::<f64>::new(method.algorithm.clone(), &target, self.seed, 0)?;
        let start = vec![self.start; self.chains];
        let mut chain = Chain::new(well, stepper, start, Sampling::Full, 1)?;
        chain.advance(self.steps)?;
        let near = |x: f64, minimum: f64, radius: f64| (x - minimum).abs() < radius;
        let count = |is: &dyn Fn(f64) -> bool| chain.theta().iter().filter(|x| is(**x)).count();
        let arrived = count(&|x| near(x, DoubleWell::GLOBAL, CLOSE));
        let astray =
            count(&|x| !near(x, DoubleWell::GLOBAL, ASTRAY) && !near(x, DoubleWell::LOCAL, ASTRAY));
        let chains = self.chains as f64;
        Ok(Outcome {
            global_mode: arrived as f64 / chains,
            lower_bound: wilson_lower(arrived as u64, self.chains as u64),
            diverged: astray as f64 / chains,
        })
    }

    /// The path of the first chain of a method, and the step after which it refined.
    fn path(&self, name: &str) -> Result<(Vec<(f64, f64)>, u64)> {
        /// Points of a drawn path.
        const POINTS: u64 = 2_000;
        let method = self.methods.iter().find(|method| method.name == name);
        let method = method.ok_or_else(|| Failure::usage(format!("no method `{name}`")))?;
        let well = DoubleWell::new(1)?;
        let target = santa::Potential::<f64>::target(&well).clone();
        let stepper = Stepper::<f64>::new(method.algorithm.clone(), &target, self.seed, 0)?;
        let mut chain = Chain::new(well, stepper, vec![self.start], Sampling::Full, 1)?;
        let (mut path, mut explored) = (vec![(0.0, self.start)], 0);
        let every = (self.steps / POINTS).max(1);
        let _ = chain.advance_with(self.steps, |progress| {
            if progress.step.is_multiple_of(every) {
                path.push((progress.step as f64, progress.theta[0]));
            }
            if progress.stage == Stage::Exploring {
                explored = progress.step;
            }
            ControlFlow::<()>::Continue(())
        })?;
        Ok((path, explored))
    }

    /// Where Santa and RMSprop go, one chain of each.
    pub fn trajectories(&self) -> Result<String> {
        let (santa, explored) = self.path("santa")?;
        let (rmsprop, _) = self.path("rmsprop")?;
        let (explored, end) = (explored as f64, self.steps as f64);
        let plain = |index: usize| Style { dash: "", ..Style::numbered(index) };
        let mut figure =
            Figure::new(Axis::new("step").between(0.0, end), Axis::new("θ").between(-5.5, 5.0))
                .sized(640.0, 300.0);
        let shade = |from, to, label: &str, fill| Shade { from, to, label: label.into(), fill };
        figure.shades = vec![
            shade(0.0, explored, "exploring, ever colder", EXPLORING),
            shade(explored, end, "refining", REFINING),
        ];
        let minima = [
            ("global minimum", DoubleWell::GLOBAL, "2 3"),
            ("local minimum", DoubleWell::LOCAL, "9 3 2 3"),
        ];
        for (name, minimum, dash) in minima {
            let line = Style { dash, ..Style::reference() };
            figure = figure.with(Series::line(name, line, vec![(0.0, minimum), (end, minimum)]));
        }
        Ok(figure
            .with(Series::line("Santa", Style { width: 1.0, ..plain(0) }, santa))
            .with(Series::line("RMSprop", plain(1), rmsprop))
            .svg())
    }
}

/// U of the double well, and the law exp(-U/T) at three temperatures.
pub fn potential() -> String {
    const POINTS: i32 = 400;
    const RANGE: (f64, f64) = (-5.0, 4.5);
    let at = |i: i32| RANGE.0 + (RANGE.1 - RANGE.0) * f64::from(i) / f64::from(POINTS);
    let curve = |f: &dyn Fn(f64) -> f64| (0..=POINTS).map(|i| (at(i), f(at(i)))).collect();
    let line = Style { dash: "", ..Style::numbered(5) };
    let potential = Figure::new(Axis::new("θ"), Axis::new("U(θ)").between(-3.5, 6.0))
        .titled("The potential")
        .with(Series::line("", line, curve(&DoubleWell::u)));
    let mut density = Figure::new(Axis::new("θ"), Axis::new("density")).titled("exp(−U/T)");
    for (i, temperature) in [4.0, 1.0, 0.25].into_iter().enumerate() {
        let weight = |x: f64| (-DoubleWell::u(x) / temperature).exp();
        let width = (RANGE.1 - RANGE.0) / f64::from(POINTS);
        let total: f64 = (0..=POINTS).map(|i| weight(at(i)) * width).sum();
        let points = curve(&|x| weight(x) / total);
        density =
            density.with(Series::line(format!("T = {temperature}"), Style::numbered(i), points));
    }
    sheet(&[potential, density], 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn santa_finds_the_global_minimum_and_the_others_that_cool_too_soon_do_not() {
        let experiment = Experiment::parse(SETTINGS).unwrap().quick();
        let outcome = |name: &str| {
            let method = experiment.methods.iter().find(|method| method.name == name).unwrap();
            experiment.run(method).unwrap()
        };
        assert!(outcome("santa").global_mode > 0.9);
        assert_eq!(outcome("literal").global_mode, 0.0);
        assert_eq!(outcome("rmsprop").global_mode, 0.0);
    }

    /// The file says in full what the library's preset computes.
    #[test]
    fn the_file_is_the_librarys_annealing() {
        let experiment = Experiment::parse(SETTINGS).unwrap();
        let step = santa::StepSize::paper(0.3364, 0.4);
        let preset = santa::Santa::annealing(step, (0.8, 3.0), experiment.steps);
        assert_eq!(experiment.methods[0].algorithm, preset.into());
    }
}
