//! A run that is interrupted, cut up or spread over threads gives the bits of one that is not.

mod common;

use common::*;
use santa::dynamics::{Corrections, Metric, SeparableMetric};
use santa::{Checkpoint, Clip, Error, OnTrouble, Real, Santa, Stepper, Target};
use std::sync::Arc;

const SEED: u64 = 20_160_509;
const CHAIN: u32 = 3;
const INTERRUPTED_AT: u64 = 17;
const STEPS: u64 = 40;

fn resumes_bit_for_bit<F: Real>() {
    for (name, algorithm) in every_dynamics() {
        let target = target(&algorithm);
        let fresh = || {
            Stepper::<F>::new(algorithm.clone(), &target, SEED, CHAIN)
                .and_then(|s| s.with_clip(Clip::Norm(50.0)))
                .unwrap()
        };

        let mut whole = fresh();
        let mut theta = start::<F>(target.dim());
        run(&mut whole, &mut theta, 0, STEPS);
        let expected = everything(&whole, &theta);

        let mut first = fresh();
        let mut theta = start::<F>(target.dim());
        run(&mut first, &mut theta, 0, INTERRUPTED_AT);
        let mut checkpoint = Checkpoint::new();
        first.save(&theta, &mut checkpoint).unwrap();
        let bytes = checkpoint.to_bytes().unwrap();
        let checkpoint = Checkpoint::from_bytes(&bytes).unwrap();

        let mut second = fresh();
        let mut resumed = vec![F::ZERO; target.dim()];
        second.restore(&mut resumed, &checkpoint).unwrap();
        run(&mut second, &mut resumed, INTERRUPTED_AT, STEPS);
        assert!(everything(&second, &resumed) == expected, "{name}: restored into fresh dynamics");

        let (mut third, mut resumed) = Stepper::<F>::from_checkpoint(&checkpoint).unwrap();
        run(&mut third, &mut resumed, INTERRUPTED_AT, STEPS);
        assert!(everything(&third, &resumed) == expected, "{name}: built from the checkpoint");

        // Negative control: starting afresh at the same theta is another run.
        let mut cold = fresh();
        run(&mut cold, &mut theta, INTERRUPTED_AT, STEPS);
        assert_eq!(bits(&theta) == bits(&resumed), name == PLAIN_SGD, "{name}: cold restart");
    }
}

#[test]
fn a_resumed_run_is_the_uninterrupted_one_in_single_precision() {
    resumes_bit_for_bit::<f32>();
}

#[test]
fn a_resumed_run_is_the_uninterrupted_one_in_double_precision() {
    resumes_bit_for_bit::<f64>();
}

/// $g = 1/\sqrt{1 + \theta^2}$
struct Tame;

impl SeparableMetric<f64> for Tame {
    fn evaluate(&self, _: usize, theta: &[f64], g: &mut [f64], dg: &mut [f64]) {
        for i in 0..theta.len() {
            g[i] = 1.0 / (1.0 + theta[i] * theta[i]).sqrt();
            dg[i] = -theta[i] * g[i].powi(3);
        }
    }
}

#[test]
fn a_given_metric_resumes_through_restore_alone() {
    let settings = Santa {
        metric: Metric::Given,
        corrections: Corrections::On { guard: 0.0 },
        exploration: santa::dynamics::Exploration::Always,
        ..Santa::default()
    };
    let target = target(&settings.clone().into());
    let fresh =
        || Stepper::with_metric(settings.clone(), &target, SEED, CHAIN, Arc::new(Tame)).unwrap();
    let mut whole = fresh();
    let mut theta = start(target.dim());
    run(&mut whole, &mut theta, 0, INTERRUPTED_AT);
    let mut checkpoint = Checkpoint::new();
    whole.save(&theta, &mut checkpoint).unwrap();
    run(&mut whole, &mut theta, INTERRUPTED_AT, STEPS);

    let mut again = fresh();
    let mut resumed = vec![0.0; target.dim()];
    again.restore(&mut resumed, &checkpoint).unwrap();
    run(&mut again, &mut resumed, INTERRUPTED_AT, STEPS);
    assert_eq!(everything(&again, &resumed), everything(&whole, &theta));

    let message = Stepper::<f64>::from_checkpoint(&checkpoint).err().unwrap().to_string();
    assert!(message.contains("with_metric") && message.contains("restore"), "{message}");
}

#[cfg(feature = "parallel")]
fn same_on_any_number_of_threads<F: Real>() {
    const DIM: usize = 300_007;
    let target = Target::density(DIM).unwrap();
    let pools = [1, 2, 3]
        .map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
    for (name, algorithm) in every_dynamics() {
        let results = pools.each_ref().map(|pool| {
            pool.install(|| {
                let mut stepper = Stepper::<F>::new(algorithm.clone(), &target, SEED, CHAIN)
                    .and_then(|s| s.with_clip(Clip::RescaleNorm(5.0)))
                    .unwrap();
                let mut theta = start(DIM);
                run(&mut stepper, &mut theta, 0, 3);
                everything(&stepper, &theta)
            })
        });
        assert!(results[0] == results[1] && results[0] == results[2], "{name}");
    }
}

#[test]
#[cfg(feature = "parallel")]
fn the_number_of_threads_does_not_show_in_single_precision() {
    same_on_any_number_of_threads::<f32>();
}

#[test]
#[cfg(feature = "parallel")]
fn the_number_of_threads_does_not_show_in_double_precision() {
    same_on_any_number_of_threads::<f64>();
}

fn segments_are_the_whole<F: Real>() {
    for (name, algorithm) in every_dynamics() {
        let target = target(&algorithm);
        let fresh = || {
            Stepper::<F>::new(algorithm.clone(), &target, SEED, CHAIN)
                .and_then(|s| s.with_clip(Clip::Norm(20.0)))
                .and_then(|s| s.on_trouble(OnTrouble::RollBack { every: 5, at_most: 1 }))
                .unwrap()
        };
        let mut whole = fresh();
        let mut theta = start::<F>(target.dim());
        run(&mut whole, &mut theta, 0, STEPS);

        let mut pieces = fresh();
        let mut apart = start::<F>(target.dim());
        let mut g = Vec::new();
        for step in 1..=STEPS {
            gradient(&apart, step, &mut g);
            let mut rest = apart.as_mut_slice();
            let mut list = Vec::new();
            for segment in target.layout().segments() {
                let (here, after) = rest.split_at_mut(segment.range().len());
                list.push((here, &g[segment.range()]));
                rest = after;
            }
            pieces.step_segments(&mut list).unwrap();
        }
        assert!(everything(&pieces, &apart) == everything(&whole, &theta), "{name}");
    }
}

#[test]
fn parameters_that_lie_apart_move_as_in_one_piece() {
    segments_are_the_whole::<f32>();
    segments_are_the_whole::<f64>();
}

#[test]
fn a_checkpoint_of_another_run_is_refused_by_name_and_changes_nothing() {
    let settings = Santa::new(1e-3, 100);
    let target = target(&settings.clone().into());
    let fresh = |settings: &Santa, target: &Target, seed, chain| {
        Stepper::<f64>::new(settings.clone(), target, seed, chain).unwrap()
    };
    let mut saved = fresh(&settings, &target, SEED, CHAIN);
    let mut theta = start(target.dim());
    run(&mut saved, &mut theta, 0, 5);
    let mut checkpoint = Checkpoint::new();
    saved.save(&theta, &mut checkpoint).unwrap();

    let wider = Santa { lambda: 1e-3, ..settings.clone() };
    let slower = Santa::new(1e-4, 100);
    let other_target =
        common::target(&santa::dynamics::Adam::new(1.0).with_decoupled_weight_decay(1.0).into());
    let clipped = fresh(&settings, &target, SEED, CHAIN).with_clip(Clip::Norm(1.0)).unwrap();
    let skipping =
        fresh(&settings, &target, SEED, CHAIN).on_trouble(OnTrouble::Skip { at_most: 3 }).unwrap();
    for (mut other, field) in [
        (fresh(&wider, &target, SEED, CHAIN), "algorithm.lambda"),
        (fresh(&slower, &target, SEED, CHAIN), "algorithm.step.lr.value"),
        (fresh(&settings, &other_target, SEED, CHAIN), "target.groups[0].prior.kind"),
        (fresh(&settings, &target, SEED + 1, CHAIN), "seed"),
        (fresh(&settings, &target, SEED, CHAIN + 1), "chain"),
        (clipped, "clip"),
        (skipping, "on_trouble"),
    ] {
        let mut here = start(target.dim());
        run(&mut other, &mut here, 0, 2);
        let before = everything(&other, &here);
        match other.restore(&mut here, &checkpoint).unwrap_err() {
            Error::Mismatch { field: found, .. } => assert_eq!(found, field),
            error => panic!("{field}: {error}"),
        }
        assert_eq!(everything(&other, &here), before, "{field}");
    }
    let mut single = Stepper::<f32>::new(settings.clone(), &target, SEED, CHAIN).unwrap();
    let message = single.restore(&mut start(target.dim()), &checkpoint).unwrap_err().to_string();
    assert_eq!(message, "the checkpoint's element type is f64, here it is f32");

    let mut short = vec![0.0; 3];
    let error = fresh(&settings, &target, SEED, CHAIN).restore(&mut short, &checkpoint);
    assert!(matches!(error, Err(Error::Length { .. })));
    assert!(matches!(saved.save(&short, &mut checkpoint), Err(Error::Length { .. })));
}

#[test]
fn numbers_that_are_not_finite_are_neither_saved_nor_restored() {
    let settings = Santa::new(1e-3, 100);
    let target = target(&settings.clone().into());
    let mut stepper = Stepper::<f32>::new(settings, &target, SEED, CHAIN).unwrap();
    let mut theta = start(target.dim());
    run(&mut stepper, &mut theta, 0, 5);
    let mut checkpoint = Checkpoint::new();
    stepper.save(&theta, &mut checkpoint).unwrap();
    let good = everything(&stepper, &theta);

    let mut broken = checkpoint.clone();
    broken.insert_tensor("state/u/one", &[], &[f32::NAN]).unwrap();
    let message = stepper.restore(&mut theta, &broken).unwrap_err().to_string();
    assert!(message.contains("`state/u/one` is NaN"), "{message}");
    broken = checkpoint.clone();
    broken.insert_tensor("theta/still", &[5], &[0.0, 0.0, f32::INFINITY, 0.0, 0.0]).unwrap();
    let message = stepper.restore(&mut theta, &broken).unwrap_err().to_string();
    assert!(message.contains("`theta/still` is inf at element 2"), "{message}");
    assert_eq!(everything(&stepper, &theta), good);

    let untouched = checkpoint.clone();
    theta[1] = f32::NAN;
    let message = stepper.save(&theta, &mut checkpoint).unwrap_err().to_string();
    assert!(message.contains("below.block"), "{message}");
    assert_eq!(checkpoint, untouched);

    // Stopped half-way, then taken back to the checkpoint.
    let g = vec![0.0; target.dim()];
    assert!(stepper.step(&mut theta, &g).is_err());
    assert!(matches!(stepper.step(&mut theta, &g), Err(Error::Poisoned { step: 6 })));
    assert!(matches!(stepper.save(&theta, &mut checkpoint), Err(Error::Poisoned { .. })));
    stepper.restore(&mut theta, &checkpoint).unwrap();
    assert_eq!(everything(&stepper, &theta), good);
    run(&mut stepper, &mut theta, 5, 8);
}
