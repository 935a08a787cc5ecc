//! The joint-distribution test of the samplers with minibatches of 10 of 50 data.
//!
//! All tests have the same threshold: a right sampler fails one of them with a chance below
//! [`FALSE_ALARM_RATE`](santa_posterior::check::FALSE_ALARM_RATE). The report printed has the
//! resolution of each function; an error of the posterior adds up from sweep to sweep, here about
//! threefold, so what is noticed in the posterior is finer by that factor.

mod samplers;

use samplers::{
    FORGETTING, LARGE_STEP, LINEAR_PRIOR, LOGISTIC_PRIOR, N, NOISE_VARIANCE, STEP, Units, Wrong,
    hot, linear, logistic, walk,
};
use santa::Algorithm;
use santa::dynamics::{NoiseEstimate, Santa, Sghmc};
use santa::noise::Stream;
use santa::potential::Potential;
use santa::potential::analytic::LinearRegression;
use santa_posterior::check::{JointReport, JointTest, LinearModel, Model};

const RUNS: u32 = 100;
const SWEEPS: u32 = 200;

/// Tests an algorithm with step h; `spoil` may put a wrong posterior in the right one's place.
fn joint<M: Model + Sync, P: Potential<f64>>(
    model: &M,
    algorithm: impl Into<Algorithm>,
    h: f64,
    spoil: impl Fn(&M::Posterior) -> P + Sync,
) -> JointReport {
    let walk = walk(algorithm);
    let steps = (FORGETTING / h) as u64;
    let test = JointTest::new(RUNS, SWEEPS);
    let sampler = |run| {
        let mut transition = walk.transition::<P>(steps, (9, run));
        let spoil = &spoil;
        move |posterior: &mut M::Posterior, theta: &mut Vec<f64>| {
            transition(&mut spoil(posterior), theta)
        }
    };
    let report = test.run(model, sampler).unwrap();
    println!("{report}");
    report
}

fn right<M: Model + Sync>(model: &M, prior: f64)
where
    M::Posterior: Clone,
{
    for (name, algorithm, h) in Units::of(model, prior).right() {
        println!("{name}");
        let report = joint(model, algorithm, h, |p| p.clone());
        assert!(report.passes(), "{name}: {report}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn the_samplers_leave_the_joint_law_of_linear_regression_alone() {
    right(&linear(), LINEAR_PRIOR);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn the_samplers_leave_the_joint_law_of_logistic_regression_alone() {
    right(&logistic(), LOGISTIC_PRIOR);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn noise_off_by_the_square_root_of_two_is_noticed() {
    let model = linear();
    let units = Units::of(&model, LINEAR_PRIOR);
    let santa = Santa { beta: hot(), ..units.santa(STEP) };
    assert!(!joint(&model, santa, STEP, |p| p.clone()).passes());
    let sghmc = Sghmc { beta: hot(), b_hat: NoiseEstimate::Zero, ..units.sghmc(STEP) };
    assert!(!joint(&model, sghmc, STEP, |p| p.clone()).passes());
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn a_prior_counted_twice_and_a_wrong_number_of_data_are_noticed() {
    let model = linear();
    let santa = Units::of(&model, LINEAR_PRIOR).santa(STEP);
    for (prior, counted) in [(2.0 * LINEAR_PRIOR, 1.0), (LINEAR_PRIOR, 2.0), (LINEAR_PRIOR, 0.5)] {
        let spoil = |p: &LinearRegression| Wrong::new(p.clone(), prior, counted);
        assert!(!joint(&model, santa.clone(), STEP, spoil).passes(), "{prior} {counted}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn minibatch_noise_that_is_not_accounted_for_is_noticed_at_a_large_step() {
    let model = linear();
    let units = Units::of(&model, LINEAR_PRIOR);
    let blind = Sghmc { b_hat: NoiseEstimate::Zero, ..units.sghmc(LARGE_STEP) };
    assert!(!joint(&model, blind, LARGE_STEP, |p| p.clone()).passes());
}

/// Data with twice the noise variance that their posterior believes in.
struct Louder(LinearModel);

impl Model for Louder {
    type Posterior = LinearRegression;
    fn draw_prior(&self, stream: &Stream, draw: u64) -> santa_posterior::Result<Vec<f64>> {
        self.0.draw_prior(stream, draw)
    }
    fn simulate(
        &self,
        theta: &[f64],
        stream: &Stream,
        draw: u64,
    ) -> santa_posterior::Result<LinearRegression> {
        let posterior = self.0.simulate(theta, stream, draw)?;
        let dot = |x: &[f64]| x.iter().zip(theta).map(|(a, b)| a * b).sum::<f64>();
        let louder = |(i, y): (usize, &f64)| {
            let predictor = dot(posterior.features(i));
            predictor + 2f64.sqrt() * (y - predictor)
        };
        let responses = posterior.responses().iter().enumerate().map(louder).collect();
        let features = (0..N).flat_map(|i| posterior.features(i).to_vec()).collect();
        Ok(LinearRegression::new(features, responses, NOISE_VARIANCE, LINEAR_PRIOR)?)
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn a_simulator_that_is_not_the_posteriors_is_noticed() {
    let model = linear();
    let santa = Units::of(&model, LINEAR_PRIOR).santa(STEP);
    assert!(!joint(&Louder(model), santa, STEP, |p| p.clone()).passes());
}
