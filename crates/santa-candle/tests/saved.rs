//! Saving, loading, and learning rates from outside.

mod common;

use candle_core::{DType, Device};
use candle_nn::{Optimizer, VarBuilder, VarMap, linear};
use common::*;
use santa::{Algorithm, Checkpoint, Clip, Prior, Santa, Schedule};
use santa_candle::{Dynamics, InitialWeights, ParamsDynamics, initialise};

fn map(seed: u64) -> VarMap {
    let vars = VarMap::new();
    let builder = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    linear(9, 21, builder.pp("first")).unwrap();
    linear(21, 4, builder.pp("second")).unwrap();
    initialise(&vars, InitialWeights::HeNormal, seed).unwrap();
    vars
}

fn params(algorithm: Algorithm) -> ParamsDynamics {
    ParamsDynamics {
        prior: Prior::gaussian(1.0),
        clip: Clip::Norm(1.0),
        seed: 4,
        ..ParamsDynamics::new(algorithm, data_size())
    }
}

/// Steps at a rate that falls.
fn advance(dynamics: &mut Dynamics, steps: std::ops::Range<u64>, start: f64) {
    for t in steps {
        dynamics.set_learning_rate(start / (1.0 + 0.1 * t as f64));
        dynamics.step(&pulls(dynamics.vars())).unwrap();
    }
}

#[test]
fn every_dynamics_resumes_bit_for_bit_on_reloaded_variables() {
    let folder = tempfile::tempdir().unwrap();
    let (weights, state) =
        (folder.path().join("w.safetensors"), folder.path().join("s.safetensors"));
    for algorithm in algorithms() {
        let name = algorithm.name();
        let vars = map(1);
        let mut whole = Dynamics::from_varmap(&vars, params(algorithm.clone())).unwrap();
        let lr = whole.learning_rate();
        advance(&mut whole, 0..12, lr);
        vars.save(&weights).unwrap();
        whole.save(&state).unwrap();
        advance(&mut whole, 12..30, lr);

        let mut vars = map(2);
        vars.load(&weights).unwrap();
        let mut resumed = Dynamics::from_varmap(&vars, params(algorithm)).unwrap();
        resumed.load(&state).unwrap();
        assert_eq!(resumed.stepper().steps(), 12);
        advance(&mut resumed, 12..30, lr);
        assert_eq!(bits(&resumed.theta().unwrap()), bits(&whole.theta().unwrap()), "{name}");
    }
}

#[test]
fn a_learning_rate_that_was_set_is_saved_and_one_that_was_not_is_the_schedules() {
    let schedule = Schedule::power(1e-2, 1.0, -0.5);
    let new =
        || Dynamics::from_varmap(&map(1), params(Santa::new(schedule.clone(), 50).into())).unwrap();
    let mut santa = new();
    assert_eq!(santa.learning_rate(), schedule.at(1));
    santa.step(&pulls(santa.vars())).unwrap();
    assert_eq!(santa.learning_rate(), schedule.at(2));
    let mut other = new();
    other.restore(&santa.checkpoint().unwrap()).unwrap();
    assert_eq!(other.learning_rate(), schedule.at(2));

    santa.set_learning_rate(3e-3);
    other.restore(&santa.checkpoint().unwrap()).unwrap();
    for _ in 0..5 {
        santa.step(&pulls(santa.vars())).unwrap();
        other.step(&pulls(other.vars())).unwrap();
        assert_eq!((santa.learning_rate(), other.learning_rate()), (3e-3, 3e-3));
    }
    assert_eq!(bits(&santa.theta().unwrap()), bits(&other.theta().unwrap()));
}

#[test]
fn a_schedule_from_outside_gives_the_path_of_the_same_schedule_inside() {
    let schedule = Schedule::cosine(1e-2, 1e-3, 40);
    let mut inside =
        Dynamics::from_varmap(&map(1), params(Santa::new(schedule.clone(), 40).into())).unwrap();
    let mut outside = Dynamics::from_varmap(&map(1), params(Santa::new(0.7, 40).into())).unwrap();
    for t in 1..=40 {
        outside.set_learning_rate(schedule.at(t));
        inside.step(&pulls(inside.vars())).unwrap();
        outside.step(&pulls(outside.vars())).unwrap();
    }
    for (x, y) in inside.theta().unwrap().iter().zip(outside.theta().unwrap()) {
        assert!((x - y).abs() < 1e-4 * (1.0 + y.abs()), "{x} {y}");
    }
}

#[test]
fn a_state_of_other_settings_is_refused_and_changes_nothing() {
    let mut santa = Dynamics::from_varmap(&map(1), params(Santa::new(1e-3, 50).into())).unwrap();
    santa.step(&pulls(santa.vars())).unwrap();
    let saved = santa.checkpoint().unwrap();
    for (params, word) in [
        (params(Santa::new(2e-3, 50).into()), "lr"),
        (ParamsDynamics { seed: 5, ..params(Santa::new(1e-3, 50).into()) }, "seed"),
        (ParamsDynamics { clip: Clip::Off, ..params(Santa::new(1e-3, 50).into()) }, "clip"),
    ] {
        let mut other = Dynamics::from_varmap(&map(2), params).unwrap();
        let before = other.theta().unwrap();
        let message = other.restore(&saved).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
        assert_eq!((other.theta().unwrap(), other.stepper().steps()), (before, 0));
    }
    assert!(santa.restore(&Checkpoint::new()).is_err());
    assert!(santa.load("there is no such file").is_err());
}
