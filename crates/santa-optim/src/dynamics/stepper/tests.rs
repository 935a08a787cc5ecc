//! Promises of the step that hold for all dynamics, and those of its policies.

use super::*;
use crate::dynamics::*;
use crate::layout::Layout;
use crate::target::{DataSize, Prior};
use crate::units::{Integrator, Rate, StepSize};
use crate::{InverseTemperature, Schedule};

fn target(dim: usize) -> Target {
    let n = DataSize::new(50).unwrap();
    Target::new(Layout::flat(dim).unwrap(), n, Prior::gaussian(2.0)).unwrap()
}

fn algorithms() -> Vec<Algorithm> {
    let step = StepSize::heavy_ball(1e-2, 0.9);
    vec![
        Santa::new(1e-2, 20).into(),
        Santa::new(1e-2, 20).euler().into(),
        Santa { gradient_at: GradientAt::Start, smoothing: 0.4, ..Santa::new(1e-2, 20) }.into(),
        Santa::sampler(step.clone(), 5).into(),
        Santa { corrections: Corrections::On { guard: 0.1 }, ..Santa::sampler(step.clone(), 9) }
            .into(),
        Sgld::new(Rate::lr(1e-2)).into(),
        Psgld { gamma: Gamma::On { guard: 0.1 }, ..Psgld::new(Rate::lr(1e-2)) }.into(),
        Sghmc::new(step.clone()).into(),
        Sgnht::new(step.clone()).into(),
        Msgnht::new(step).into(),
        Sgd::new(1e-2).momentum(0.9).nesterov().into(),
        Adagrad::new(1e-2).into(),
        Adadelta::new(1.0).into(),
        RmsProp { momentum: 0.5, ..RmsProp::new(1e-2) }.into(),
        Adam::new(1e-2).into(),
    ]
}

fn run<F: Real>(algorithm: &Algorithm, arch: pulp::Arch) -> Vec<F> {
    const DIM: usize = 700;
    let mut stepper: Stepper<F> = Stepper::new(algorithm.clone(), &target(DIM), 3, 0)
        .unwrap()
        .with_clip(Clip::Norm(5.0))
        .unwrap()
        .with_arch(arch);
    // The first step clips, the others run on the single loop where there is one.
    let mut theta: Vec<F> = (0..DIM).map(|i| F::from_f64((i as f64).sin() * 3.0)).collect();
    for _ in 0..20 {
        let gradient = theta.clone();
        stepper.step(&mut theta, &gradient).unwrap();
    }
    theta
}

/// Noise has this test of its own; here it is the arithmetic of every kernel and the norm.
#[test]
fn every_dynamics_has_the_same_bits_on_every_instruction_set() {
    for algorithm in algorithms() {
        let best =
            (run::<f32>(&algorithm, pulp::Arch::new()), run::<f64>(&algorithm, pulp::Arch::new()));
        let mut others = vec![pulp::Arch::Scalar];
        #[cfg(target_arch = "x86_64")]
        others.extend(pulp::x86::V3::try_new().map(pulp::Arch::V3));
        for arch in others {
            let other = (run::<f32>(&algorithm, arch), run::<f64>(&algorithm, arch));
            assert!(best == other, "{} on {arch:?}", algorithm.name());
        }
    }
}

/// Where the data are silent the prior shrinks a parameter for ever; numbers that are slow to
/// compute with must not come of it. Without a bound, RMSprop's v ends at the least of all numbers,
/// which no factor above a half makes smaller.
#[test]
fn what_decays_ends_at_zero_and_not_among_the_subnormal_numbers() {
    const STEPS: usize = 20_000;
    for algorithm in algorithms() {
        let mut stepper: Stepper<f32> = Stepper::new(algorithm, &target(200), 3, 0).unwrap();
        let mut theta: Vec<f32> = (0..200).map(|i| (i as f32).sin() * 1e-3).collect();
        let silence = vec![0.0; theta.len()];
        for _ in 0..STEPS {
            stepper.step(&mut theta, &silence).unwrap();
        }
        let name = stepper.algorithm().name();
        let slow = |values: &[f32]| values.iter().filter(|x| x.is_subnormal()).count();
        assert_eq!(slow(&theta), 0, "{name}: theta");
        for (slot, values) in stepper.state() {
            assert_eq!(slow(values), 0, "{name}: {slot}");
        }
    }
    assert_eq!(f32::from_bits(1) * 0.9, f32::from_bits(1));
}

/// A table of exactly as many entries as there are parameters, over several segments.
#[test]
fn a_metric_sees_the_parameters_it_is_asked_about_and_no_others() {
    struct Table(Vec<f64>);
    impl SeparableMetric<f64> for Table {
        fn evaluate(&self, first: usize, theta: &[f64], g: &mut [f64], dg: &mut [f64]) {
            assert_eq!((g.len(), dg.len()), (theta.len(), theta.len()));
            g.copy_from_slice(&self.0[first..first + theta.len()]);
            dg.fill(0.0);
        }
    }
    let layout = Layout::new([("a", vec![5]), ("b", vec![130]), ("c", vec![1])]).unwrap();
    let target = Target::new(layout, DataSize::ONE, Prior::Flat).unwrap();
    let table: Vec<f64> = (0..136).map(|i| 1.0 + i as f64).collect();
    let descent =
        Santa { metric: Metric::Given, step: StepSize::heavy_ball(1e-3, 1e-9), ..Santa::default() };
    let given = Psgld { metric: PsgldMetric::Given, noiseless: true, ..Psgld::default() };
    for (algorithm, power) in [(Algorithm::from(descent), 2), (given.into(), 1)] {
        let metric = Arc::new(Table(table.clone()));
        let mut stepper = Stepper::with_metric(algorithm, &target, 1, 0, metric).unwrap();
        let mut theta = vec![0.0; 136];
        stepper.step(&mut theta, &[-1.0; 136]).unwrap();
        for (i, x) in theta.iter().enumerate() {
            let expected = table[i].powi(power) * 1e-3;
            assert!((x / expected - 1.0).abs() < 1e-6, "{i}: {x}");
        }
    }
}

/// A skipped gradient leaves no trace: the run is the one that never saw it.
#[test]
fn a_skipped_step_has_not_happened() {
    let settings = || Santa {
        step: StepSize::paper(Schedule::power(1e-3, 0.0, -0.6), 2.0),
        beta: InverseTemperature::posterior(),
        ..Santa::new(1e-2, 40)
    };
    for bad_at in [0, 5] {
        let policy = OnTrouble::Skip { at_most: 3 };
        let build = || settings().init::<f64>(&target(150), 1).unwrap().on_trouble(policy).unwrap();
        let (mut clean, mut spoiled) = (build(), build());
        let (mut a, mut b) = (vec![1.0; 150], vec![1.0; 150]);
        for t in 0..30 {
            if t == bad_at {
                let outcome = spoiled.step(&mut b, &[f64::NAN; 150]).unwrap();
                assert_eq!(outcome, StepOutcome::Skipped);
            }
            let gradient = a.clone();
            clean.step(&mut a, &gradient).unwrap();
            let gradient = b.clone();
            spoiled.step(&mut b, &gradient).unwrap();
            assert_eq!(a, b);
        }
        assert_eq!(clean.steps(), spoiled.steps());
    }
}

/// After a roll-back everything is as it was, the step's number included, but the noise is new;
/// and a failure that comes back every time ends the run.
#[test]
fn a_roll_back_goes_back_in_time_with_new_noise() {
    let policy = OnTrouble::RollBack { every: 4, at_most: 2 };
    let new = Santa::new(Schedule::cosine(1e-2, 1e-3, 40), 40);
    let mut stepper: Stepper<f64> = new.init(&target(150), 1).unwrap().on_trouble(policy).unwrap();
    let mut theta = vec![1.0; 150];
    let mut after = Vec::new();
    let walk = |stepper: &mut Stepper<f64>, theta: &mut Vec<f64>, n: u64| {
        for _ in 0..n {
            let gradient = theta.clone();
            stepper.step(theta, &gradient).unwrap();
        }
        theta.clone()
    };
    let at_four = walk(&mut stepper, &mut theta, 4);
    after.push(walk(&mut stepper, &mut theta, 2));
    for _ in 0..2 {
        let outcome = stepper.step(&mut theta, &[f64::NAN; 150]).unwrap();
        assert_eq!(outcome, StepOutcome::RolledBack { to: 4 });
        assert_eq!((&theta, stepper.steps()), (&at_four, 4));
        after.push(walk(&mut stepper, &mut theta, 2));
    }
    assert!(after[0] != after[1] && after[1] != after[2] && after[0] != after[2]);
    let error = stepper.step(&mut theta, &[f64::NAN; 150]).unwrap_err();
    assert!(matches!(error, Error::GaveUp { failures: 3, .. }), "{error}");
}

#[test]
fn clipping_by_value_does_not_hide_an_infinity() {
    let sgd = Sgd::new(1e-2).init::<f32>(&target(70), 1).unwrap();
    let mut stepper = sgd.with_clip(Clip::Value(1.0)).unwrap();
    let mut gradient = vec![5.0; 70];
    let mut theta = vec![0.0f32; 70];
    stepper.step(&mut theta, &gradient).unwrap();
    assert!(theta.iter().all(|x| *x == -1e-2), "clipped");
    gradient[69] = f32::NEG_INFINITY;
    let message = stepper.step(&mut theta, &gradient).unwrap_err().to_string();
    assert!(message.contains("the gradient is -inf"), "{message}");
}

/// What the friction and the vitals show in refinement is the friction that acts.
#[test]
fn a_friction_below_its_floor_is_raised_for_good_when_refinement_begins() {
    let settings = Santa {
        friction_floor: Some(1.0),
        integrator: Integrator::Splitting,
        exploration: Exploration::Steps(1),
        ..Santa::new(1e-2, 10)
    };
    let settings = Santa { bounds_while_exploring: false, ..settings };
    let mut stepper: Stepper<f64> = settings.init(&target(150), 1).unwrap();
    let mut theta = vec![1.0; 150];
    stepper.step(&mut theta, &[0.1; 150]).unwrap();
    stepper.state_vector_mut("alpha_shift").unwrap().fill(-9.0);
    stepper.step(&mut theta, &[0.1; 150]).unwrap();
    let alpha0 = stepper.physics(0).unwrap().unwrap().alpha0;
    assert!(stepper.friction().unwrap().unwrap().iter().all(|a| *a == alpha0));
    assert!(stepper.vitals(&theta, &[0.1; 150]).unwrap().warnings().is_empty());
}

/// A framework hands over one tensor at a time, and the learning rate with it.
#[test]
fn parts_with_a_rate_from_outside_move_as_the_whole_with_the_rate_in_its_settings() {
    const RATE: f64 = 1e-2;
    let n = DataSize::new(50).unwrap();
    let shapes = [("a", vec![130]), ("b", vec![70])];
    let layout = Layout::new(shapes.clone()).unwrap();
    let whole = Target::new(layout, n, Prior::gaussian(2.0)).unwrap();
    for algorithm in algorithms() {
        if algorithm.name() == "sgnht" {
            continue; // one thermostat for the whole, or one for each part
        }
        let algorithm = algorithm.with_lr(RATE);
        let mut together: Stepper<f32> = Stepper::new(algorithm.clone(), &whole, 3, 1).unwrap();
        let mut theta: Vec<f32> = (0..200).map(|i| (i as f32).sin()).collect();
        let mut apart = theta.clone();
        let mut parts: Vec<Stepper<f32>> = Vec::new();
        for (i, shape) in shapes.iter().enumerate() {
            let layout = Layout::new([shape.clone()]).unwrap();
            let target = Target::new(layout, n, Prior::gaussian(2.0)).unwrap();
            let unit = algorithm.clone().with_lr(1.0);
            let mut part = Stepper::of_part(unit, &target, 3, 1, i as u32).unwrap();
            part.set_lr_factor(RATE).unwrap();
            parts.push(part);
        }
        for t in 0..30 {
            let gradient = theta.clone();
            together.step(&mut theta, &gradient).unwrap();
            let gradient = apart.clone();
            let (a, b) = apart.split_at_mut(130);
            parts[0].step(a, &gradient[..130]).unwrap();
            parts[1].step(b, &gradient[130..]).unwrap();
            assert_eq!(theta, apart, "{} at {t}", together.algorithm().name());
            if t == 10 {
                parts = parts.clone();
            }
            if t == 20 {
                let position = parts[1].position().unwrap();
                parts[1].set_lr_factor(7.0).unwrap();
                if let Some(u) = parts[1].state_vector_mut("u") {
                    u.fill(0.5);
                }
                parts[1].go_to(position).unwrap();
            }
        }
    }
}

#[test]
fn a_rate_that_falls_outside_is_followed_as_one_that_falls_in_the_settings() {
    let falling = Schedule::BlockDecay { start: 1e-2, factor: 0.5, every: 10 };
    for algorithm in algorithms() {
        let (mut a, mut b) = (vec![1.0f64; 150], vec![1.0f64; 150]);
        let inside = algorithm.clone().with_lr(falling.clone());
        let mut inside: Stepper<f64> = Stepper::new(inside, &target(150), 3, 0).unwrap();
        let mut outside: Stepper<f64> =
            Stepper::new(algorithm.with_lr(1.0), &target(150), 3, 0).unwrap();
        for t in 1..=40 {
            outside.set_lr_factor(falling.at(t)).unwrap();
            let gradient = a.clone();
            inside.step(&mut a, &gradient).unwrap();
            let gradient = b.clone();
            outside.step(&mut b, &gradient).unwrap();
        }
        for (x, y) in a.iter().zip(&b) {
            assert!((x - y).abs() < 1e-10, "{}: {x} {y}", inside.algorithm().name());
        }
    }
}

#[test]
fn a_rate_from_outside_is_refused_where_it_would_change_the_friction() {
    let paper = Santa { step: StepSize::paper(1e-4, 1.0), ..Santa::default() };
    let mut stepper: Stepper<f32> = paper.init(&target(3), 1).unwrap();
    assert!(stepper.set_lr_factor(1.0).is_ok());
    let message = stepper.set_lr_factor(0.5).unwrap_err().to_string();
    assert!(message.contains("lr_factor") && message.contains("practical"), "{message}");
    assert!(Adam::new(1e-3).init::<f32>(&target(3), 1).unwrap().set_lr_factor(0.0).is_err());
}
