//! Theorem 2 of the paper, measured: the order of the schemes, averages of finite length,
//! their mean-square error, and the gap that annealing leaves.

mod average;
mod bias;
mod ensemble;
mod gap;

use super::section::{Section, check_only, publish};
use super::settings::{read, replace, word};
use crate::args::Reproduce;
use crate::console::Console;
use crate::failure::{Failure, Result};
use ensemble::Potential;
use santa::Santa;
use santa::potential::analytic::Wavy;
use santa::stats::expectation;
use serde::Deserialize;
use toml::{Table, Value};

/// The settings as they are built in.
pub const SETTINGS: &str = include_str!("../../../experiments/order.toml");

/// The figures.
const FIGURES: [&str; 4] = ["bias", "finite", "error", "gap"];

/// The potential of all figures but the last: not quadratic, or the errors of a scheme may cancel.
const WAVY: Potential = Potential { u: Wavy::u, du: Wavy::du };

/// Its mean at temperature 1, by quadrature between places where the density is below 1e-16.
fn truth() -> f64 {
    const ENDS: (f64, f64) = (-9.0, 9.0);
    expectation(ENDS, Wavy::u, Wavy::u)
}

/// What is run.
struct Experiment {
    seed: u64,
    schemes: Vec<Scheme>,
    bias: bias::Settings,
    finite: average::Finite,
    error: average::Error,
    gap: gap::Settings,
}

/// A way to integrate.
struct Scheme {
    name: String,
    label: String,
    /// As the paper has it.
    order: i32,
    santa: Santa,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seed: u64,
    santa: Table,
    schemes: Table,
    bias: bias::Settings,
    finite: average::Finite,
    error: average::Error,
    gap: gap::Settings,
}

impl Experiment {
    fn new(quick: bool) -> Result<Self> {
        let File { seed, santa, schemes, bias, finite, error, gap } =
            read("order", SETTINGS, quick)?;
        let one = |(name, value): (String, Value)| {
            let wrong = |what: &dyn std::fmt::Display| {
                Failure::usage(format!("order: schemes.{name}: {what}"))
            };
            let Value::Table(own) = value else { return Err(wrong(&"not a table")) };
            let mut all = santa.clone();
            replace(&mut all, own);
            let order = all.remove("order").and_then(|order| order.as_integer());
            let order = order.ok_or_else(|| wrong(&"`order` is missing"))? as i32;
            let mut all = Value::Table(all);
            let label = word(&mut all, "label").unwrap_or_else(|| name.clone());
            let santa = all.try_into().map_err(|e: toml::de::Error| wrong(&e))?;
            Ok(Scheme { name, label, order, santa })
        };
        let schemes = schemes.into_iter().map(one).collect::<Result<_>>()?;
        Ok(Experiment { seed, schemes, bias, finite, error, gap })
    }

    fn scheme(&self, name: &str) -> Result<&Scheme> {
        let found = self.schemes.iter().find(|scheme| scheme.name == name);
        found.ok_or_else(|| Failure::usage(format!("order: there is no scheme `{name}`")))
    }
}

/// `santa reproduce order`: its numbers by figure.
pub fn run(args: &Reproduce, console: &Console) -> Result<serde_json::Value> {
    check_only(&args.only, &FIGURES)?;
    let experiment = Experiment::new(args.quick)?;
    let mut sections: Vec<Section> = Vec::new();
    for name in FIGURES {
        if !args.only.is_empty() && !args.only.iter().any(|only| only == name) {
            continue;
        }
        console.note(format_args!("measuring: {name}"));
        sections.push(match name {
            "bias" => bias::section(&experiment)?,
            "finite" => average::finite(&experiment)?,
            "error" => average::error(&experiment)?,
            _ => gap::section(&experiment)?,
        });
    }
    publish(args, console, "order", experiment.seed, &sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_the_settings_are_read() {
        for quick in [false, true] {
            let experiment = Experiment::new(quick).unwrap();
            assert_eq!(experiment.schemes.len(), 3);
            assert_eq!(experiment.scheme("midpoint").unwrap().order, 2);
        }
    }

    /// Simpson's rule on another interval.
    #[test]
    fn the_truth_is_that_of_another_quadrature() {
        const HALF: i32 = 3_000;
        let x = |i: i32| 12.0 * f64::from(i) / f64::from(HALF);
        let (mut weight, mut sum) = (0.0, 0.0);
        for i in -HALF..=HALF {
            let simpson = if i.rem_euclid(2) == 0 { 2.0 } else { 4.0 };
            let w = simpson * (-Wavy::u(x(i))).exp();
            weight += w;
            sum += w * Wavy::u(x(i));
        }
        assert!((truth() - sum / weight).abs() < 1e-10);
    }
}
