//! Dynamics in tensor operations beside the library's kernels, on the CPU.

#![cfg(feature = "flex")]

mod twins;

use burn::tensor::{Device, FloatDType, Tensor};
use santa::dynamics::{Corrections, Metric, Psgld, PsgldMetric, Sgd, Sgnht};
use santa::{Algorithm, Error, Group, Prior, Santa, StepSize};
use santa_burn::device::{CHECK_EVERY, DeviceDynamics};
use twins::*;

fn device() -> Device {
    Device::flex()
}

const PRIORS: [Prior; 3] =
    [Prior::Flat, Prior::Gaussian { precision: 2.0 }, Prior::Laplace { scale: 0.5 }];

#[test]
fn every_dynamics_gives_the_numbers_of_the_kernel() {
    for algorithm in algorithms() {
        for prior in PRIORS {
            let Found { off, what, steps } =
                run_both(&algorithm, prior, Compare::Trajectories, &device());
            assert!(off < TOLERANCE, "{what} is off by {off:e}: {prior:?}, {algorithm:#?}");
            assert_eq!(steps, STEPS);
        }
    }
}

#[test]
fn santa_gives_the_numbers_of_the_kernel_under_every_option() {
    const CASES: u32 = 600;
    let mut steps = 0;
    for case in 0..CASES {
        let santa = santa(case);
        let (compare, tolerance) = match santa.corrections {
            Corrections::Off => (Compare::Trajectories, TOLERANCE),
            Corrections::On { .. } => (Compare::Steps, TOLERANCE_OF_CORRECTIONS),
        };
        let prior = PRIORS[case as usize % PRIORS.len()];
        let found = run_both(&santa.clone().into(), prior, compare, &device());
        let Found { off, what, .. } = found;
        assert!(off < tolerance, "case {case}: {what} is off by {off:e}: {santa:#?}");
        steps += found.steps;
    }
    // Few of them diverge.
    assert!(steps > u64::from(CASES) * STEPS * 9 / 10, "only {steps} steps were compared");
}

/// The comparison must show a mistake of a thousandth, or it proves nothing.
#[test]
fn a_learning_rate_that_is_off_by_a_thousandth_shows() {
    let device = device();
    let target = target(Prior::gaussian(2.0));
    for algorithm in algorithms() {
        let mut host = Host::new(&algorithm, &target);
        let mut guest = Guest::new(&algorithm, &target, SEGMENT, &device);
        guest.dynamics.set_lr_factor(1.001).unwrap();
        for _ in 0..STEPS {
            host.step();
            guest.step();
        }
        let off = apart(&host.theta, &guest.theta());
        assert!(off > 3.0 * TOLERANCE, "{}: off by {off:e}", algorithm.name());
    }
}

#[test]
fn a_wrong_segment_number_gives_another_trajectory() {
    let device = device();
    let target = target(Prior::Flat);
    for algorithm in algorithms() {
        let mut host = Host::new(&algorithm, &target);
        let mut guest = Guest::new(&algorithm, &target, SEGMENT + 1, &device);
        for _ in 0..STEPS {
            host.step();
            guest.step();
        }
        let (_, off) = difference(&host, &guest);
        let noisy = algorithm.beta(1).unwrap().is_finite();
        assert_eq!(off > 100.0 * TOLERANCE, noisy, "{}: off by {off:e}", algorithm.name());
    }
}

#[test]
fn a_position_goes_on_from_host_to_device_and_back() {
    let device = device();
    let target = target(Prior::gaussian(1.0));
    for algorithm in algorithms() {
        let mut host = Host::new(&algorithm, &target);
        let mut guest = Guest::new(&algorithm, &target, SEGMENT, &device);
        for _ in 0..10 {
            host.step();
        }
        guest.dynamics.go_to(host.dynamics.position().unwrap()).unwrap();
        guest.theta = tensor(&host.theta, &device);
        assert_eq!(difference(&host, &guest).1, 0.0);
        for _ in 0..15 {
            host.step();
            guest.step();
        }
        let (what, off) = difference(&host, &guest);
        assert!(off < TOLERANCE, "{}: {what} is off by {off:e}", algorithm.name());

        host.dynamics.go_to(guest.dynamics.position().unwrap()).unwrap();
        host.theta = guest.theta();
        assert_eq!(difference(&host, &guest).1, 0.0);
        for _ in 0..15 {
            host.step();
            guest.step();
        }
        let (what, off) = difference(&host, &guest);
        assert!(off < TOLERANCE, "{}: {what} is off by {off:e}", algorithm.name());
    }
}

#[test]
fn steps_made_again_after_a_rollback_have_the_same_new_noise() {
    let device = device();
    let target = target(Prior::Flat);
    let santa: Algorithm = Santa::new(1e-2, 20).into();
    let mut host = Host::new(&santa, &target);
    host.step();
    let mut position = host.dynamics.position().unwrap();
    position.rollbacks = 1;
    let mut guest = Guest::new(&santa, &target, SEGMENT, &device);
    guest.theta = tensor(&host.theta, &device);
    guest.dynamics.go_to(position.clone()).unwrap();

    let mut first_try = host.clone();
    first_try.step();
    host.dynamics.go_to(position).unwrap();
    host.step();
    guest.step();
    assert!(difference(&host, &guest).1 < TOLERANCE);
    assert!(difference(&first_try, &guest).1 > 100.0 * TOLERANCE);
}

#[test]
fn a_clone_goes_on_as_its_original() {
    let mut one = Guest::new(&Santa::new(1e-2, 20).into(), &target(Prior::Flat), 0, &device());
    one.step();
    let mut two = one.clone();
    two.dynamics = two.dynamics.to_device(&device());
    for _ in 0..3 {
        one.step();
        two.step();
    }
    assert_eq!(one.theta(), two.theta());
    assert_eq!(one.dynamics.position().unwrap(), two.dynamics.position().unwrap());
}

#[test]
fn a_frozen_tensor_stays_while_its_steps_are_counted() {
    let frozen = target(Prior::gaussian(1.0)).with_group(Group::new("*").frozen()).unwrap();
    let mut guest = Guest::new(&Santa::new(1e-2, 20).into(), &frozen, 0, &device());
    let start = guest.dynamics.position().unwrap();
    guest.step();
    assert_eq!(guest.theta(), twins::start());
    assert_eq!(guest.dynamics.steps(), 1);
    assert_eq!(guest.dynamics.position().unwrap().state, start.state);
}

#[test]
fn half_precision_stays_half_precision() {
    let device = device();
    let sgd: Algorithm = Sgd::new(0.5).into();
    let target = target(Prior::Flat);
    let mut dynamics = DeviceDynamics::<2>::new(sgd, &target, SEED, 0, 0, &device).unwrap();
    let theta: Tensor<2> = tensor(&start(), &device).cast(FloatDType::F16);
    let moved = dynamics.step(theta.clone(), theta.clone().cast(FloatDType::F32)).unwrap();
    assert_eq!(moved.dtype(), theta.dtype());
    let expected = theta * (1.0 - 0.5 * 0.7); // the group's factor is 0.7
    let off = (moved - expected).abs().max().into_scalar::<f32>();
    assert!(off < 2e-3, "{off}");
}

#[test]
fn a_nan_is_noticed_at_the_next_look_and_names_the_tensor() {
    let device = device();
    let target = target(Prior::Flat);
    let santa: Algorithm = Santa::new(1e-2, 20).into();
    let mut dynamics = DeviceDynamics::<2>::new(santa, &target, SEED, 0, 0, &device).unwrap();
    let good = dynamics.position().unwrap();
    let mut theta = tensor(&start(), &device);
    let fine = theta.zeros_like();
    let mut bad = vec![0.0; fine.dims().iter().product()];
    bad[5] = f32::NAN;
    theta = dynamics.step(theta, tensor(&bad, &device)).unwrap();

    let message = dynamics.position().unwrap_err().to_string();
    assert!(message.contains("layer.weight") && message.contains("element 5"), "{message}");
    for _ in 2..CHECK_EVERY {
        theta = dynamics.step(theta, fine.clone()).unwrap();
    }
    let error = dynamics.step(theta.clone(), fine.clone()).unwrap_err();
    let Error::NotFinite { segment, index: 5, step: CHECK_EVERY, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(segment, "layer.weight");
    let again = dynamics.step(theta, fine.clone());
    assert!(matches!(again, Err(Error::Poisoned { step: CHECK_EVERY })));
    assert!(matches!(dynamics.position(), Err(Error::Poisoned { .. })));
    dynamics.go_to(good).unwrap();
    dynamics.step(tensor(&start(), &device), fine).unwrap();
}

#[test]
fn the_friction_of_sgnht_is_watched_at_every_step() {
    let device = device();
    let sgnht: Algorithm = Sgnht::new(StepSize::heavy_ball(1e-2, 0.9)).into();
    let target = target(Prior::Flat);
    let mut dynamics = DeviceDynamics::<2>::new(sgnht, &target, SEED, 0, 0, &device).unwrap();
    let infinite = tensor(&start(), &device) * f32::INFINITY;
    let error = dynamics.step(tensor(&start(), &device), infinite).unwrap_err();
    assert!(matches!(error, Error::NotFinite { step: 1, .. }), "{error}");
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    let device = device();
    let target = target(Prior::Flat);
    let refusal = |algorithm: Algorithm| {
        DeviceDynamics::<2>::new(algorithm, &target, SEED, 0, 0, &device)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let message = refusal(Santa { metric: Metric::Given, ..Santa::default() }.into());
    assert!(message.contains("metric") && message.contains("with_metric"), "{message}");
    let message = refusal(Psgld { metric: PsgldMetric::Given, ..Psgld::default() }.into());
    assert!(message.contains("metric"), "{message}");
    let message = refusal(Sgd::new(-1.0).into());
    assert!(message.contains("lr"), "{message}");

    let sgd: Algorithm = Sgd::new(0.1).into();
    let flat = DeviceDynamics::<1>::new(sgd.clone(), &target, SEED, 0, 0, &device);
    assert!(flat.map(|_| ()).unwrap_err().to_string().contains("dimensions"));
    let mut dynamics = DeviceDynamics::<2>::new(sgd, &target, SEED, 0, 0, &device).unwrap();
    assert!(dynamics.set_lr_factor(0.0).is_err());
    assert_eq!(dynamics.lr_factor(), 1.0);
    let theta = tensor(&start(), &device);
    let message = dynamics.step(theta.clone(), theta.clone().transpose()).unwrap_err().to_string();
    assert!(message.contains("shape"), "{message}");
    let double = theta.cast(FloatDType::F64);
    let message = dynamics.step(double.clone(), double).unwrap_err().to_string();
    assert!(message.contains("precision"), "{message}");
    assert_eq!(dynamics.steps(), 0);
}
