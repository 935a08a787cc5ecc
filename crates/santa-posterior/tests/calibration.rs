//! Simulation-based calibration of the samplers with minibatches of 10 of 50 data.
//!
//! All tests have the same threshold: a right sampler fails one of them with a chance below
//! [`FALSE_ALARM_RATE`](santa_posterior::check::FALSE_ALARM_RATE). With [`SIMULATIONS`] simulations
//! they notice a shift of 0.15 posterior standard deviations, or standard deviations that are 12 %
//! off. The samplers' bias is far below that at the steps chosen; the wrong ones are above it.

mod samplers;

use samplers::{
    BATCH, DIM, FORGETTING, FREEZE, LARGE_STEP, LINEAR_PRIOR, LOGISTIC_PRIOR, STEP, Units, Wrong,
    hot, linear, logistic, walk,
};
use santa::Algorithm;
use santa::dynamics::{NoiseEstimate, Santa, Sghmc};
use santa::potential::Potential;
use santa_posterior::check::{Calibration, CalibrationReport, Hmc, Model};
use santa_posterior::sampler::{Member, Parameters, Sampler};

const SIMULATIONS: u32 = 600;
const DRAWS: usize = 31;

/// Calibrates an algorithm with step h; `spoil` may put a wrong posterior in the right one's place.
fn calibrate<M: Model + Sync, P: Potential<f64>>(
    model: &M,
    algorithm: impl Into<Algorithm>,
    h: f64,
    spoil: impl Fn(&mut M::Posterior) -> P + Sync,
) -> CalibrationReport
where
    M::Posterior: Clone,
{
    let walk = walk(algorithm);
    let every = (FORGETTING / h) as u64;
    // Ten times what it takes to forget, after the metric is frozen.
    let warm_up = FREEZE + 10 * every;
    let report = Calibration::new(SIMULATIONS, DRAWS)
        .run(model, |posterior, s| {
            let start = vec![0.0; DIM];
            walk.draws(spoil(&mut posterior.clone()), start, (warm_up, every, DRAWS), (7, s))
        })
        .unwrap();
    println!("{report}");
    report
}

fn right<M: Model + Sync>(model: &M, prior: f64)
where
    M::Posterior: Clone,
{
    for (name, algorithm, h) in Units::of(model, prior).right() {
        println!("{name}");
        let report = calibrate(model, algorithm, h, |p| p.clone());
        assert!(report.passes(), "{name}: {report}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn the_samplers_are_calibrated_on_linear_regression() {
    right(&linear(), LINEAR_PRIOR);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn the_samplers_are_calibrated_on_logistic_regression() {
    right(&logistic(), LOGISTIC_PRIOR);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn the_reference_is_calibrated_on_logistic_regression() {
    let report = Calibration::new(SIMULATIONS, DRAWS)
        .run(&logistic(), |posterior, s| {
            let hmc =
                Hmc { warm_up: 150, draws: DRAWS, every: 3, seed: s.into(), ..Hmc::default() };
            let run = hmc.run(posterior, &[vec![0.0; DIM]])?;
            Ok((0..DRAWS).map(|i| run.draws.draw(0, i).to_vec()).collect())
        })
        .unwrap();
    assert!(report.passes(), "{report}");
}

/// The whole way of [`Sampler`]: descent, scales, step, and draws far enough apart to be independent.
/// The regressions of `santa sample`, which know their mode and scales, are in `regressions.rs`.
fn calibrate_tuned(beta: f64) -> CalibrationReport {
    /// Its draws are one friction time apart; ranks want them independent.
    const APART: usize = 4;
    let report = Calibration::new(SIMULATIONS, DRAWS)
        .run(&logistic(), |posterior, s| {
            let sampler = Sampler {
                chains: 1,
                draws: (DRAWS * APART) as u64,
                warm_up: 100,
                batch_size: BATCH,
                descent: 300,
                beta,
                ..Sampler::seeded(u64::from(s))
            };
            let names = Parameters::of(Potential::<f64>::target(posterior));
            let start = vec![0.5; DIM];
            let members =
                sampler.members(|_| Member::new(posterior.clone(), names.clone(), start.clone()));
            let draws = sampler.run(members)?.draws;
            Ok((0..DRAWS).map(|i| draws.draw(0, i * APART + APART - 1).to_vec()).collect())
        })
        .unwrap();
    println!("{report}");
    report
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn the_tuned_sampler_is_calibrated_with_minibatches() {
    let report = calibrate_tuned(1.0);
    assert!(report.passes(), "{report}");
}

/// Standard deviations that are 22 % too large.
#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn a_tuned_sampler_at_another_temperature_is_noticed() {
    assert!(!calibrate_tuned(1.0 / 1.5).passes());
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn noise_off_by_the_square_root_of_two_is_noticed() {
    let model = linear();
    let units = Units::of(&model, LINEAR_PRIOR);
    let santa = Santa { beta: hot(), ..units.santa(STEP) };
    assert!(!calibrate(&model, santa, STEP, |p| p.clone()).passes());
    let sghmc = Sghmc { beta: hot(), b_hat: NoiseEstimate::Zero, ..units.sghmc(STEP) };
    assert!(!calibrate(&model, sghmc, STEP, |p| p.clone()).passes());
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn a_prior_counted_twice_is_noticed() {
    let model = linear();
    let santa = Units::of(&model, LINEAR_PRIOR).santa(STEP);
    let twice = calibrate(&model, santa, STEP, |p| Wrong::new(p.clone(), 2.0 * LINEAR_PRIOR, 1.0));
    assert!(!twice.passes());
    let model = logistic();
    let santa = Units::of(&model, LOGISTIC_PRIOR).santa(STEP);
    let twice =
        calibrate(&model, santa, STEP, |p| Wrong::new(p.clone(), 2.0 * LOGISTIC_PRIOR, 1.0));
    assert!(!twice.passes());
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn a_number_of_data_wrong_by_two_is_noticed() {
    let model = linear();
    let santa = Units::of(&model, LINEAR_PRIOR).santa(STEP);
    for counted in [2.0, 0.5] {
        let spoil = |p: &mut _| Wrong::new(Clone::clone(p), LINEAR_PRIOR, counted);
        assert!(!calibrate(&model, santa.clone(), STEP, spoil).passes(), "{counted}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn minibatch_noise_that_is_not_accounted_for_is_noticed_at_a_large_step() {
    let model = linear();
    let units = Units::of(&model, LINEAR_PRIOR);
    let blind = Sghmc { b_hat: NoiseEstimate::Zero, ..units.sghmc(LARGE_STEP) };
    assert!(!calibrate(&model, blind, LARGE_STEP, |p| p.clone()).passes());
    // The same step with the noise accounted for, and by a thermostat, is fine: it is the noise.
    for (name, algorithm) in
        [("known", units.sghmc(LARGE_STEP).into()), ("found", units.santa(LARGE_STEP).into())]
    {
        let algorithm: Algorithm = algorithm;
        let report = calibrate(&model, algorithm, LARGE_STEP, |p| p.clone());
        assert!(report.passes(), "{name}: {report}");
    }
}
