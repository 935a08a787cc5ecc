//! Steps through Candle are the library's own, in the variables' own memory.

mod common;

use candle_core::{CpuStorage, DType, Device, Storage, Tensor, Var};
use candle_nn::{Module, Optimizer, VarBuilder, VarMap, linear};
use common::*;
use santa::dynamics::{Adam, Sgld, Sgnht};
use santa::noise::{Purpose, Stream};
use santa::{
    Algorithm, Clip, DataSize, Group, Layout, OnTrouble, Prior, Rate, Santa, StepOutcome, StepSize,
    Stepper, Target,
};
use santa_candle::{Dynamics, InitialWeights, MissingGradient, ParamsDynamics, initialise};

fn groups() -> Vec<Group> {
    vec![Group::new("*.bias").prior(Prior::Flat).lr_scale(2.0), Group::new("b.weight").frozen()]
}

fn params(algorithm: Algorithm) -> ParamsDynamics {
    ParamsDynamics {
        prior: Prior::gaussian(2.0),
        groups: groups(),
        seed: 5,
        chain: 3,
        clip: Clip::Norm(0.05),
        ..ParamsDynamics::new(algorithm, data_size())
    }
}

/// The library on its own, from the same values, on the gradients of [`pull`].
fn native(algorithm: Algorithm, vars: &[(String, Var)]) -> (Stepper<f32>, Vec<f32>) {
    let segments = vars.iter().map(|(name, var)| (name.as_str(), var.dims().to_vec()));
    let mut target =
        Target::new(Layout::new(segments).unwrap(), data_size(), Prior::gaussian(2.0)).unwrap();
    for group in groups() {
        target = target.with_group(group).unwrap();
    }
    let stepper = Stepper::new(algorithm, &target, 5, 3).unwrap();
    let theta = vars.iter().flat_map(|(_, var)| values(var)).collect();
    (stepper.with_clip(Clip::Norm(0.05)).unwrap(), theta)
}

fn native_pull(target: &Target, theta: &[f32]) -> Vec<f32> {
    target.layout().segments().iter().flat_map(|s| pull(&theta[s.range()])).collect()
}

#[test]
fn every_dynamics_makes_the_librarys_own_steps_bit_for_bit() {
    for algorithm in algorithms() {
        let name = algorithm.name();
        let vars = named_vars();
        let (mut stepper, mut theta) = native(algorithm.clone(), &vars);
        let mut dynamics = Dynamics::from_named(vars.clone(), params(algorithm)).unwrap();
        for _ in 0..40 {
            let gradient = native_pull(stepper.target(), &theta);
            stepper.step(&mut theta, &gradient).unwrap();
            dynamics.step(&pulls(dynamics.vars())).unwrap();
        }
        assert_eq!(bits(&dynamics.theta().unwrap()), bits(&theta), "{name}");
        assert_eq!(dynamics.stepper().carried(), stepper.carried(), "{name}");
        for (slot, vector) in stepper.state() {
            assert_eq!(dynamics.stepper().state_vector(slot), Some(vector), "{name} {slot}");
        }
    }
}

#[test]
fn sgnht_has_one_thermostat_for_all_variables() {
    let sgnht = || Sgnht::new(StepSize::practical(1e-3, 0.9));
    let all = named_vars();
    let mut together =
        Dynamics::from_named(all, ParamsDynamics::new(sgnht(), data_size())).unwrap();
    let mut alone = Dynamics::from_named(
        named_vars().into_iter().take(1),
        ParamsDynamics::new(sgnht(), data_size()),
    )
    .unwrap();
    for _ in 0..10 {
        together.step(&pulls(together.vars())).unwrap();
        alone.step(&pulls(alone.vars())).unwrap();
    }
    // With a thermostat each, the first variable's would be the same in both.
    assert_ne!(together.stepper().carried(), alone.stepper().carried());
}

fn address(tensor: &Tensor) -> *const f32 {
    match &*tensor.storage_and_layout().0 {
        Storage::Cpu(CpuStorage::F32(values)) => values.as_ptr(),
        _ => panic!("not on the CPU"),
    }
}

#[test]
fn variables_keep_their_memory() {
    let vars = named_vars();
    let mut santa =
        Dynamics::from_named(vars.clone(), ParamsDynamics::new(Santa::new(1e-3, 10), data_size()))
            .unwrap();
    let before: Vec<_> = vars.iter().map(|(_, var)| address(var)).collect();
    let start = santa.theta().unwrap();
    for _ in 0..3 {
        santa.step(&pulls(santa.vars())).unwrap();
    }
    let after: Vec<_> = vars.iter().map(|(_, var)| address(var)).collect();
    assert_eq!(before, after);
    assert!(start.iter().zip(santa.theta().unwrap()).all(|(a, b)| *a != b));
}

#[test]
fn the_noise_is_the_streams_numbers_of_the_variable_and_the_step() {
    const STEPS: u64 = 3;
    let vars: Vec<_> = SHAPES
        .iter()
        .map(|(name, shape)| (*name, Var::zeros(*shape, DType::F32, &Device::Cpu).unwrap()))
        .collect();
    let params = ParamsDynamics {
        missing: MissingGradient::Zero,
        seed: 77,
        ..ParamsDynamics::new(Sgld::new(Rate::eta(0.5)), DataSize::ONE)
    };
    let mut sgld = Dynamics::from_named(vars.clone(), params).unwrap();
    let stream = Stream::new(77, 0, Purpose::Dynamics);
    for t in 1..=STEPS {
        let before: Vec<_> = vars.iter().map(|(_, var)| values(var)).collect();
        sgld.step(&no_gradients()).unwrap();
        for (segment, ((name, var), before)) in (0u32..).zip(vars.iter().zip(before)) {
            let mut zeta = vec![0f32; var.elem_count()];
            stream.normals(t, segment, 0, &mut zeta);
            // Without a gradient a step is sqrt(2 eta) times the noise, and 2 eta is 1.
            let expected: Vec<f32> = before.iter().zip(&zeta).map(|(x, z)| x + z).collect();
            assert_eq!(values(var), expected, "{name} at step {t}");
        }
    }
}

#[test]
fn more_variables_than_can_be_held_at_once_make_the_same_steps() {
    const VARIABLES: usize = 400;
    let vars = || {
        (0..VARIABLES).map(|i| {
            let len = 1 + i % 3;
            Var::from_vec(normals(i as u32, len), len, &Device::Cpu).unwrap()
        })
    };
    let params = ParamsDynamics {
        groups: vec![Group::new("39*").frozen()],
        ..ParamsDynamics::new(Santa::new(1e-3, 10), data_size())
    };
    let mut santa = Dynamics::new(vars().collect(), params).unwrap();
    let mut stepper = Stepper::new(Santa::new(1e-3, 10), santa.stepper().target(), 0, 0).unwrap();
    let mut theta = santa.theta().unwrap();
    for _ in 0..10 {
        let gradient = native_pull(stepper.target(), &theta);
        stepper.step(&mut theta, &gradient).unwrap();
        santa.step(&pulls(santa.vars())).unwrap();
    }
    assert_eq!(bits(&santa.theta().unwrap()), bits(&theta));
}

#[test]
fn a_variable_may_be_a_gradient() {
    let vars = named_vars();
    let params = || ParamsDynamics::new(Adam::new(1e-2), data_size());
    let mut adam = Dynamics::from_named(vars.clone(), params()).unwrap();
    let mut twin = Dynamics::from_named(named_vars(), params()).unwrap();
    for _ in 0..5 {
        let (mut itself, mut copied) = (no_gradients(), no_gradients());
        for (a, b) in adam.vars().iter().zip(twin.vars()) {
            itself.insert(a, a.as_tensor().clone());
            copied.insert(b, b.copy().unwrap());
        }
        adam.step(&itself).unwrap();
        twin.step(&copied).unwrap();
    }
    assert_eq!(adam.theta().unwrap(), twin.theta().unwrap());
}

#[test]
fn gradients_of_candles_layers_arrive_at_the_right_elements() {
    let vars = VarMap::new();
    let builder = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    let first = linear(40, 33, builder.pp("first")).unwrap();
    let second = linear(33, 5, builder.pp("second")).unwrap();
    initialise(&vars, InitialWeights::HeNormal, 1).unwrap();
    let mut sgd = Dynamics::from_varmap(
        &vars,
        ParamsDynamics::new(santa::dynamics::Sgd::new(1.0), data_size()),
    )
    .unwrap();
    let x = Tensor::from_vec(normals(9, 8 * 40), (8, 40), &Device::Cpu).unwrap();
    let hidden = first.forward(&x).unwrap().relu().unwrap();
    let loss = second.forward(&hidden).unwrap().sqr().unwrap().mean_all().unwrap();
    let grads = loss.backward().unwrap();
    let before: Vec<_> = sgd.vars().iter().map(|var| var.copy().unwrap()).collect();
    sgd.step(&grads).unwrap();
    for (var, before) in sgd.vars().iter().zip(before) {
        let expected = (before - grads.get(var).unwrap()).unwrap();
        for (x, y) in values(var).iter().zip(values(&expected)) {
            assert!((x - y).abs() <= 1e-6 * y.abs().max(1.0), "{x} {y}");
        }
    }
}

#[test]
fn a_gradient_may_lie_in_another_order() {
    let new = || {
        let params = ParamsDynamics::new(Adam::new(1e-2), data_size());
        Dynamics::from_named(named_vars(), params).unwrap()
    };
    let (mut plain, mut turned) = (new(), new());
    for _ in 0..3 {
        plain.step(&pulls(plain.vars())).unwrap();
        let mut grads = pulls(turned.vars());
        let weight = &turned.vars()[0];
        let gradient = grads.get(weight).unwrap().t().unwrap().contiguous().unwrap().t().unwrap();
        assert!(!gradient.is_contiguous());
        grads.insert(weight, gradient);
        turned.step(&grads).unwrap();
    }
    assert_eq!(bits(&plain.theta().unwrap()), bits(&turned.theta().unwrap()));
}

#[test]
fn a_map_is_taken_by_name_whatever_its_own_order() {
    let run = || {
        let vars = VarMap::new();
        let builder = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
        for i in 0..6 {
            linear(4, 4, builder.pp(format!("layer{i}"))).unwrap();
        }
        initialise(&vars, InitialWeights::GlorotNormal, 8).unwrap();
        let params =
            ParamsDynamics { seed: 8, ..ParamsDynamics::new(Santa::new(1e-2, 9), data_size()) };
        let mut santa = Dynamics::from_varmap(&vars, params).unwrap();
        for _ in 0..9 {
            santa.step(&pulls(santa.vars())).unwrap();
        }
        santa.theta().unwrap()
    };
    let first = run();
    assert!((0..5).all(|_| bits(&run()) == bits(&first)));
}

#[test]
fn initial_values_have_the_variance_of_their_scheme() {
    for (scheme, variance) in [
        (InitialWeights::HeNormal, 2.0 / 300.0),
        (InitialWeights::GlorotNormal, 2.0 / 500.0),
        (InitialWeights::LecunNormal, 1.0 / 300.0),
    ] {
        let vars = VarMap::new();
        let builder = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
        let layer = linear(300, 200, builder.pp("layer")).unwrap();
        let norm = candle_nn::layer_norm(200, 1e-5, builder.pp("norm")).unwrap();
        initialise(&vars, scheme, 3).unwrap();
        let weights = values(layer.weight());
        let found = weights.iter().map(|x| f64::from(x * x)).sum::<f64>() / weights.len() as f64;
        assert!((found / variance - 1.0).abs() < 0.03, "{found} {variance}");
        assert!(values(layer.bias().unwrap()).iter().all(|x| *x == 0.0));
        assert!(values(norm.weight()).iter().all(|x| *x == 1.0));
    }
}

#[test]
fn a_step_with_a_bad_gradient_can_be_skipped_or_undone() {
    let run = |on_trouble| {
        let params = ParamsDynamics {
            on_trouble,
            ..ParamsDynamics::new(Santa::new(1e-3, 100), data_size())
        };
        let mut santa = Dynamics::from_named(named_vars(), params).unwrap();
        santa.step(&pulls(santa.vars())).unwrap();
        let before = santa.theta().unwrap();
        let mut grads = pulls(santa.vars());
        let bad = Tensor::full(f32::NAN, 13, &Device::Cpu).unwrap();
        grads.insert(&santa.vars()[1], bad);
        let outcome = santa.advance(&grads);
        (outcome, before == santa.theta().unwrap())
    };
    let (outcome, same) = run(OnTrouble::Skip { at_most: 3 });
    assert_eq!((outcome.unwrap(), same), (StepOutcome::Skipped, true));
    let (outcome, same) = run(OnTrouble::RollBack { every: 1, at_most: 3 });
    assert_eq!((outcome.unwrap(), same), (StepOutcome::RolledBack { to: 1 }, true));
    let message = run(OnTrouble::Stop).0.unwrap_err().to_string();
    assert!(message.contains("gradient") && message.contains("a.bias"), "{message}");
}
