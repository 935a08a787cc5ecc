//! What [`Dynamics`](crate::Dynamics) know about one parameter, and how a record holds it.
//!
//! | entry | contents |
//! | --- | --- |
//! | scalars `step`, `rollbacks`, `lr`, `lr_before` | where the dynamics are |
//! | scalar `carried` | SGNHT's thermostat |
//! | scalars `segment`, `segments` | which noise is this parameter's; how many are handed out |
//! | tensors by the names of the state vectors | momenta, frictions, second moments |

use burn::optim::{RecordState, StateSink, StateSource};
use burn::tensor::{Device, TensorData};
use santa::Stepper;
use santa::dynamics::Position;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Names of the state vectors of all dynamics. A record is asked for each.
const VECTORS: [&str; 8] = ["u", "alpha_shift", "v", "f_smooth", "m", "d", "delta", "momentum"];

/// The state of one parameter under any dynamics.
#[derive(Clone)]
pub struct DynamicsState<const D: usize> {
    pub(crate) at: At,
    /// The parameter's number in the noise.
    pub(crate) segment: u32,
    /// The numbers handed out so far, to all parameters.
    pub(crate) segments: Arc<AtomicU32>,
}

/// Where the state is kept.
#[derive(Clone)]
pub(crate) enum At {
    /// At work, on the host.
    Host(Box<Stepper<f32>>),
    /// As read from a record, with the parameter's shape, until the next step knows the settings.
    Loaded(Position<f32>, Vec<usize>),
}

impl<const D: usize> DynamicsState<D> {
    /// Steps made by this parameter.
    pub fn steps(&self) -> u64 {
        match &self.at {
            At::Host(stepper) => stepper.steps(),
            At::Loaded(position, _) => position.step,
        }
    }

    /// The dynamics at work; `None` between the loading of a record and the next step.
    pub fn stepper(&self) -> Option<&Stepper<f32>> {
        match &self.at {
            At::Host(stepper) => Some(stepper),
            At::Loaded(..) => None,
        }
    }

    fn position(&self) -> santa::Result<Position<f32>> {
        match &self.at {
            At::Host(stepper) => stepper.position(),
            At::Loaded(position, _) => Ok(position.clone()),
        }
    }

    fn shape(&self) -> &[usize] {
        match &self.at {
            At::Host(stepper) => stepper.target().layout().segments()[0].shape(),
            At::Loaded(_, shape) => shape,
        }
    }
}

impl<const D: usize> RecordState for DynamicsState<D> {
    /// # Panics
    ///
    /// If the dynamics stopped half-way through a step: the trait has no way to say so.
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        let position = self.position().unwrap_or_else(|error| panic!("{error}"));
        let [lr, lr_before] = position.lr_factors;
        out.push_scalar(prefix, "step", position.step.into());
        out.push_scalar(prefix, "rollbacks", position.rollbacks.into());
        out.push_scalar(prefix, "lr", lr.into());
        out.push_scalar(prefix, "lr_before", lr_before.into());
        if let Some(carried) = position.carried {
            out.push_scalar(prefix, "carried", carried.into());
        }
        out.push_scalar(prefix, "segment", self.segment.into());
        out.push_scalar(prefix, "segments", self.segments.load(Ordering::Relaxed).into());
        for (name, vector) in position.state {
            out.push_tensor(prefix, &name, TensorData::new(vector, self.shape().to_vec()));
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, _: &Device) -> Option<Self> {
        let lr = f64::try_from(src.take_scalar(prefix, "lr")?).ok()?;
        let lr_before = f64::try_from(src.take_scalar(prefix, "lr_before")?).ok()?;
        let mut position = Position {
            step: u64::try_from(src.take_scalar(prefix, "step")?).ok()?,
            rollbacks: u32::try_from(src.take_scalar(prefix, "rollbacks")?).ok()?,
            lr_factors: [lr, lr_before],
            carried: src.take_scalar(prefix, "carried").and_then(|x| f64::try_from(x).ok()),
            state: Vec::new(),
        };
        let mut shape = Vec::new();
        for name in VECTORS {
            if let Some(data) = src.take_tensor(prefix, name) {
                shape = data.shape().as_slice().to_vec();
                position.state.push((name.to_string(), data.try_into_vec().ok()?));
            }
        }
        let segments = u32::try_from(src.take_scalar(prefix, "segments")?).ok()?;
        Some(DynamicsState {
            at: At::Loaded(position, shape),
            segment: u32::try_from(src.take_scalar(prefix, "segment")?).ok()?,
            segments: Arc::new(AtomicU32::new(segments)),
        })
    }
}

/// The vectors of a record in the order in which the dynamics keep them. What they do not know stays
/// at the end, for them to refuse.
pub(crate) fn in_order(mut position: Position<f32>, stepper: &Stepper<f32>) -> Position<f32> {
    let place = |name: &str| stepper.state().position(|(n, _)| n == name).unwrap_or(usize::MAX);
    position.state.sort_by_key(|(name, _)| place(name));
    position
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::dynamics::*;
    use santa::{Algorithm, DataSize, Layout, Prior, Rate, StepSize, Target};

    #[test]
    fn every_state_vector_of_every_dynamics_has_its_place_in_a_record() {
        let step = StepSize::heavy_ball(1e-3, 0.9);
        let algorithms: Vec<Algorithm> = vec![
            Santa { smoothing: 0.5, ..Santa::new(1e-3, 10) }.into(),
            Sgld::new(Rate::lr(1e-3)).into(),
            Psgld { gamma: Gamma::On { guard: 0.1 }, ..Psgld::new(Rate::lr(1e-3)) }.into(),
            Sghmc::new(step.clone()).into(),
            Sgnht::new(step.clone()).into(),
            Msgnht::new(step).into(),
            Sgd::new(1e-3).momentum(0.9).into(),
            Adagrad::new(1e-3).into(),
            Adadelta::new(1.0).into(),
            RmsProp { momentum: 0.5, ..RmsProp::new(1e-3) }.into(),
            Adam::new(1e-3).into(),
        ];
        let layout = Layout::new([("p", vec![2, 3])]).unwrap();
        let target = Target::new(layout, DataSize::new(10).unwrap(), Prior::Flat).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for algorithm in algorithms {
            let stepper: Stepper<f32> = Stepper::of_part(algorithm, &target, 1, 0, 5).unwrap();
            let names: Vec<_> = stepper.state().map(|(name, _)| name.to_string()).collect();
            let position = stepper.position().unwrap();
            let state = DynamicsState::<2> {
                at: At::Host(Box::new(stepper.clone())),
                segment: 5,
                segments: Arc::new(AtomicU32::new(9)),
            };
            let mut sink = StateSink::default();
            state.state_flatten("7", &mut sink);
            assert!(sink.tensors.iter().all(|(_, data)| data.shape().as_slice() == [2, 3]));
            let mut source = StateSource::new(sink.scalars.into_iter().collect());
            for (name, data) in sink.tensors {
                source.insert_tensor(name, data);
            }
            let device = Device::default();
            let back = DynamicsState::<2>::state_unflatten("7", &mut source, &device).unwrap();
            assert_eq!(back.segment, 5);
            assert_eq!(back.segments.load(Ordering::Relaxed), 9);
            let At::Loaded(loaded, _) = back.at else { panic!("a record is not at work yet") };
            assert_eq!(in_order(loaded, &stepper), position);
            seen.extend(names);
        }
        assert!(seen.iter().all(|name| VECTORS.contains(&name.as_str())), "{seen:?}");
        assert_eq!(seen.len(), VECTORS.len());
    }
}
