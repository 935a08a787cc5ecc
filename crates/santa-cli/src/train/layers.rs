//! What there is to know of each layer: sizes, kinetic temperature, momenta.

use crate::failure::Result;
use crate::run::record::{Layer, QUANTILES};
use santa::{Integrator, Stepper, Vitals};
use santa_nn::Scalar;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Elements of a layer that its quantiles are taken from.
const QUANTILE_SAMPLE: usize = 20_000;

/// The layers that move, with the momentum that survives a step.
pub fn layers<F: Scalar>(stepper: &Stepper<F>, vitals: &Vitals) -> Result<Vec<Layer>> {
    let friction = stepper.friction()?;
    let euler = stepper.algorithm().integrator() == Some(Integrator::Euler);
    let survives = |alpha: f64| if euler { 1.0 - alpha } else { (-alpha).exp() };
    let layout = stepper.target().layout();
    let layer = |vital: &santa::SegmentVitals| {
        let mut momentum = match (&friction, layout.segment(&vital.name), &vital.friction) {
            (Some(friction), Some(segment), _) => {
                Some(quantiles(&friction[segment.range()]).map(survives))
            }
            (None, _, Some(one)) => Some([survives(one.mean); QUANTILES.len()]),
            _ => None,
        };
        // The largest friction leaves the least momentum.
        if let Some(momentum) = &mut momentum {
            momentum.reverse();
        }
        Layer {
            name: vital.name.clone(),
            theta_rms: vital.theta_rms,
            gradient_rms: vital.gradient_rms,
            kinetic_temperature: vital.kinetic_temperature,
            momentum,
        }
    };
    Ok(vitals.segments.iter().map(layer).collect())
}

/// Warnings that were given; they are not repeated when only their numbers change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Warned(BTreeSet<String>);

impl Warned {
    /// Those that are new.
    pub fn news(&mut self, warnings: Vec<String>) -> Vec<String> {
        warnings.into_iter().filter(|text| self.0.insert(wording(text))).collect()
    }
}

/// A text without its numbers. Those of names, which are between backticks, stay.
fn wording(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    for (i, part) in text.split('`').enumerate() {
        let is_name = i % 2 == 1;
        let mut rest = part;
        while let Some(first) = rest.chars().next() {
            let numeric = |c: char| c.is_ascii_digit() || ".-+e".contains(c);
            let end = rest.find(|c| numeric(c) != numeric(first)).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            if is_name || !run.contains(|c: char| c.is_ascii_digit()) {
                words += run;
            }
            rest = after;
        }
    }
    words
}

/// Quantiles at [`QUANTILES`]; the least and the largest are exact, the others are those of a sample.
fn quantiles(values: &[f64]) -> [f64; QUANTILES.len()] {
    let stride = values.len().div_ceil(QUANTILE_SAMPLE).max(1);
    let mut sample: Vec<f64> = values.iter().copied().step_by(stride).collect();
    sample.sort_unstable_by(f64::total_cmp);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    QUANTILES.map(|level| match level {
        0.0 => least,
        1.0 => largest,
        _ => sample[(level * (sample.len() - 1) as f64).round() as usize],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(quantiles(&values), [0.0, 5.0, 25.0, 50.0, 75.0, 95.0, 100.0]);
        let many: Vec<f64> = (0..=100_000).map(f64::from).collect();
        let found = quantiles(&many);
        assert_eq!((found[0], found[6]), (0.0, 100_000.0));
        assert!((found[3] - 50_000.0).abs() < 100.0);
        assert_eq!(quantiles(&[3.0]), [3.0; 7]);
    }

    #[test]
    fn a_warning_is_not_repeated_for_its_numbers() {
        let mut warned = Warned::default();
        let text = |n: u32| format!("segment `dense1`: {n} of 400 are below 0, the least -1e-{n}");
        assert_eq!(warned.news(vec![text(3)]).len(), 1);
        assert!(warned.news(vec![text(4)]).is_empty());
        assert_eq!(warned.news(vec!["segment `dense2`: something else".into()]).len(), 1);
    }

    /// The very texts of [`Vitals::warnings`], before and after some steps.
    #[test]
    fn the_warnings_of_dynamics_are_given_once_for_each_layer() {
        use santa::{DataSize, Layout, Prior, Santa, Target};
        let layout = Layout::new([("dense1.weight", vec![100]), ("dense2.weight", vec![100])]);
        let n = DataSize::new(1000).unwrap();
        let target = Target::new(layout.unwrap(), n, Prior::Flat).unwrap();
        let mut stepper = Santa::new(1e-2, 1000).init::<f64>(&target, 42).unwrap();
        let texts =
            |stepper: &Stepper<f64>| stepper.vitals(&[1.0; 200], &[1.0; 200]).unwrap().warnings();
        let mut warned = Warned::default();
        let mut seen = Vec::new();
        for (count, least) in [(3, -2e3), (14, -1.5), (77, -4e-7), (100, -1e12)] {
            let shift = stepper.state_vector_mut("alpha_shift").unwrap();
            for layer in shift.chunks_exact_mut(100) {
                layer[..count].fill(least - 10.0);
            }
            let given = texts(&stepper);
            assert_eq!(given.len(), 2, "{given:?}");
            seen.extend(warned.news(given));
        }
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert!(seen[0].contains("dense1.weight") && seen[1].contains("dense2.weight"));
    }
}
