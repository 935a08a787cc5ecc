//! The classic optimizers against PyTorch, number by number.
//!
//! `golden/optimizers.json` holds the trajectories, `golden/generate.py` made them and says how.

use santa::dynamics::Adam;
use santa::{Algorithm, DataSize, Layout, Prior, Real, Stepper, Target};
use serde::Deserialize;
use std::collections::BTreeMap;

/// N of the target: weight decay on the mean gradient must not depend on it.
const N: u64 = 1000;
/// Relative errors that rounding explains after 20 steps.
const TOLERANCE_F64: f64 = 1e-12;
const TOLERANCE_F32: f64 = 2e-5;

#[derive(Deserialize)]
struct Golden {
    curvature: Vec<f64>,
    centre: Vec<f64>,
    bump: f64,
    theta_0: Vec<f64>,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    name: String,
    weight_decay: f64,
    settings: Algorithm,
    /// theta after some of the steps.
    theta: BTreeMap<u64, Vec<f64>>,
}

impl Golden {
    fn load() -> Self {
        serde_json::from_str(include_str!("golden/optimizers.json")).unwrap()
    }

    /// Mean gradient of the loss, without the prior.
    fn gradient(&self, i: usize, theta: f64) -> f64 {
        self.curvature[i] * (theta - self.centre[i]) + self.bump * theta.sin()
    }

    /// Largest relative error of a run whose weight decay enters as the given one. An `extra` decay
    /// is added to the gradient behind the target's back.
    fn error<F: Real>(&self, run: &Run, weight_decay: f64, extra: f64) -> f64 {
        let n = DataSize::new(N).unwrap();
        let layout = Layout::flat(self.theta_0.len()).unwrap();
        let prior = Prior::from_weight_decay(weight_decay, n);
        let target = Target::new(layout, n, prior).unwrap();
        let mut stepper = Stepper::<F>::new(run.settings.clone(), &target, 0, 0).unwrap();
        let mut theta: Vec<F> = self.theta_0.iter().map(|x| F::from_f64(*x)).collect();
        let mut worst = 0.0f64;
        for t in 1..=*run.theta.keys().last().unwrap() {
            let gradient: Vec<F> = theta
                .iter()
                .enumerate()
                .map(|(i, x)| F::from_f64(self.gradient(i, x.to_f64()) + extra * x.to_f64()))
                .collect();
            stepper.step(&mut theta, &gradient).unwrap();
            for (x, expected) in theta.iter().zip(run.theta.get(&t).into_iter().flatten()) {
                worst = worst.max((x.to_f64() / expected - 1.0).abs());
            }
        }
        worst
    }
}

#[test]
fn every_optimizer_follows_pytorch() {
    let golden = Golden::load();
    let mut seen: Vec<_> = golden.runs.iter().map(|run| run.settings.name()).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, ["adadelta", "adagrad", "adam", "rmsprop", "sgd"]);
    for run in &golden.runs {
        let wide = golden.error::<f64>(run, run.weight_decay, 0.0);
        let narrow = golden.error::<f32>(run, run.weight_decay, 0.0);
        println!("{}, weight decay {}: {wide:.1e} {narrow:.1e}", run.name, run.weight_decay);
        assert!(wide < TOLERANCE_F64, "{} in f64: {wide}", run.name);
        assert!(narrow < TOLERANCE_F32, "{} in f32: {narrow}", run.name);
    }
}

#[test]
fn weight_decay_forgotten_or_applied_twice_fails_the_same_comparison() {
    let golden = Golden::load();
    for run in golden.runs.iter().filter(|run| run.weight_decay > 0.0) {
        for (prior, extra) in
            [(0.0, 0.0), (run.weight_decay, run.weight_decay), (2.0 * run.weight_decay, 0.0)]
        {
            let wide = golden.error::<f64>(run, prior, extra);
            let narrow = golden.error::<f32>(run, prior, extra);
            assert!(wide > TOLERANCE_F64 && narrow > TOLERANCE_F32, "{}: {wide}", run.name);
        }
        // Applied by hand instead of by the prior, once, it is the same.
        let by_hand = golden.error::<f64>(run, 0.0, run.weight_decay);
        assert!(by_hand < TOLERANCE_F64, "{}: {by_hand}", run.name);
    }
}

#[test]
fn decoupled_weight_decay_is_refused_beside_a_prior() {
    let n = DataSize::new(N).unwrap();
    let layout = Layout::flat(2).unwrap();
    let adamw = || Adam::new(1e-3).with_decoupled_weight_decay(0.01);
    let with_prior = Target::new(layout.clone(), n, Prior::from_weight_decay(0.01, n)).unwrap();
    let message = adamw().init::<f32>(&with_prior, 0).err().unwrap().to_string();
    assert!(message.contains("decoupled_weight_decay") && message.contains("prior"), "{message}");
    let flat = Target::new(layout, n, Prior::Flat).unwrap();
    assert!(adamw().init::<f32>(&flat, 0).is_ok());
    assert!(Adam::new(1e-3).init::<f32>(&with_prior, 0).is_ok());
}
