//! Temperature, stages and momenta of one run.

use super::curves::{MAX_POINTS, thin};
use crate::run::record::{QUANTILES, Record};
use crate::run::stored::StoredRun;
use santa::Stage;
use std::collections::BTreeMap;

/// A stretch of training in one stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// What was done.
    pub stage: Stage,
    /// Epochs at its beginning.
    pub from: f64,
    /// Epochs at its end.
    pub to: f64,
}

/// The share of the momentum that survives a step, for the elements of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Momentum {
    /// Name of the tensor.
    pub name: String,
    /// Epochs, and the quantiles by then.
    pub times: Vec<(f64, [f64; QUANTILES.len()])>,
}

/// Temperature and momenta of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Annealing {
    /// Epochs and temperatures.
    pub temperature: Vec<(f64, f64)>,
    /// What was done when.
    pub stages: Vec<Stretch>,
    /// The tensors, in their order.
    pub momenta: Vec<Momentum>,
}

/// Times at which the momenta of a tensor are drawn, at most: the figures are small.
const MAX_MOMENTUM_POINTS: usize = 120;

/// Temperature and momenta of a run, if it had any.
pub fn annealing(run: &StoredRun) -> Option<Annealing> {
    // A resumed run may have written a step twice: the later one counts.
    let training: BTreeMap<_, _> = run
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Training(r) => Some((r.step, r)),
            _ => None,
        })
        .collect();
    let temperature: Vec<f64> = training.values().map(|r| r.temperature).collect();
    let momenta = momenta(run);
    if momenta.is_empty() && !temperature.iter().any(|&t| t > 0.0) {
        return None;
    }
    let mut stages: Vec<Stretch> = Vec::new();
    for r in training.values() {
        match stages.last_mut() {
            Some(last) if last.stage == r.stage => last.to = r.epoch,
            last => {
                let from = last.map_or(0.0, |last| last.to);
                stages.push(Stretch { stage: r.stage, from, to: r.epoch });
            }
        }
    }
    let epochs: Vec<f64> = training.values().map(|r| r.epoch).collect();
    let keep = thin(&temperature, MAX_POINTS);
    let temperature = keep.into_iter().map(|i| (epochs[i], temperature[i])).collect();
    Some(Annealing { temperature, stages, momenta })
}

fn momenta(run: &StoredRun) -> Vec<Momentum> {
    let layers: BTreeMap<_, _> = run
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Layers(r) => Some((r.step, r)),
            _ => None,
        })
        .collect();
    let every = layers.len().div_ceil(MAX_MOMENTUM_POINTS).max(1);
    let mut momenta: Vec<Momentum> = Vec::new();
    for record in layers.values().step_by(every) {
        for layer in &record.layers {
            let Some(quantiles) = layer.momentum else { continue };
            let at = momenta.iter().position(|m| m.name == layer.name).unwrap_or_else(|| {
                momenta.push(Momentum { name: layer.name.clone(), times: Vec::new() });
                momenta.len() - 1
            });
            momenta[at].times.push((record.epoch, quantiles));
        }
    }
    momenta
}
