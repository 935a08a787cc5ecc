//! What the integration tests of saving, threads and bad input share.
#![allow(dead_code)] // each test file uses a part of it

use santa::dynamics::*;
use santa::noise::{Purpose, Stream};
use santa::{
    Algorithm, DataSize, Group, InverseTemperature, Layout, Prior, Rate, Real, Schedule, StepSize,
    Stepper, Target,
};

/// Settings of every dynamics, with its options; the names say what is special.
pub fn every_dynamics() -> Vec<(&'static str, Algorithm)> {
    // Twenty steps of exploration, a changing rate and a changing temperature.
    let santa = || Santa {
        step: StepSize::practical(Schedule::power(1e-3, 5.0, -0.3), 0.9),
        beta: InverseTemperature::annealed(Schedule::power(1.0, 0.0, 0.5)),
        exploration: Exploration::Steps(20),
        ..Santa::default()
    };
    let sampler = || Santa { exploration: Exploration::Always, ..santa() };
    let refiner = || Santa { exploration: Exploration::Steps(9), ..santa() };
    let step = || StepSize::heavy_ball(Schedule::cyclical(1e-2, 1e-3, 13), 0.9);
    let rate = || Rate::lr(Schedule::block_decay(1e-2, 0.5, 7));
    let lr = || Schedule::cosine(1e-2, 1e-3, 30);
    vec![
        ("santa, midpoint", santa().into()),
        ("santa, start", Santa { gradient_at: GradientAt::Start, ..santa() }.into()),
        ("santa, euler", Santa { integrator: santa::Integrator::Euler, ..santa() }.into()),
        ("santa, without exploration", Santa::default().into()),
        ("santa, as printed", Santa::paper(1e-6, 50.0, 0.5, Exploration::Steps(20)).into()),
        (
            "santa, moving alpha with temperature",
            Santa { alpha_in_refinement: AlphaInRefinement::WithTemperature, ..refiner() }.into(),
        ),
        (
            "santa, accumulating alpha, with a ceiling",
            Santa {
                alpha_in_refinement: AlphaInRefinement::Accumulating,
                friction_ceiling: Some(3.0),
                integrator: santa::Integrator::Euler,
                ..refiner()
            }
            .into(),
        ),
        ("santa, smoothing", Santa { smoothing: 0.4, ..santa() }.into()),
        (
            "santa, corrections",
            Santa {
                corrections: Corrections::On { guard: 0.5 },
                diffusion: Diffusion::SameAsMetric,
                ..sampler()
            }
            .into(),
        ),
        (
            "santa, halves",
            Santa { push: Push::Halves, gradient_at: GradientAt::Start, ..santa() }.into(),
        ),
        (
            "santa, adagrad metric",
            Santa {
                metric: Metric::Adagrad,
                second_moment_start: SecondMomentStart::Zero,
                ..santa()
            }
            .into(),
        ),
        ("santa, frozen metric", Santa { freeze_metric_after: Some(11), ..sampler() }.into()),
        (
            "santa, paper units, rescaled",
            Santa {
                step: StepSize::paper(Schedule::block_decay(1e-5, 0.5, 6), 30.0),
                lambda_refining: Some(1e-4),
                ..santa()
            }
            .into(),
        ),
        (
            "santa, not rescaled, thermostat mass",
            Santa { rescale: false, thermostat_mass: ThermostatMass::Mass(0.1), ..sampler() }
                .into(),
        ),
        (
            "santa, noise of the second moment",
            Santa {
                noise_scale: NoiseScale::SecondMoment { divisor: 10.0 },
                initial_momentum: InitialMomentum::Zero,
                ..santa()
            }
            .into(),
        ),
        (
            "santa, main text's noise, identity, constant diffusion",
            Santa {
                noise_scale: NoiseScale::MainText,
                metric: Metric::Identity,
                diffusion: Diffusion::Constant(2.0),
                ..santa()
            }
            .into(),
        ),
        ("santa, adam form", Santa { adam_form: true, ..Santa::default() }.into()),
        ("sgld", Sgld::new(rate()).into()),
        ("psgld", Psgld::new(rate()).into()),
        ("psgld, gamma", Psgld { gamma: Gamma::On { guard: 0.5 }, ..Psgld::new(rate()) }.into()),
        ("psgld, frozen", Psgld { freeze_metric_after: Some(11), ..Psgld::new(rate()) }.into()),
        ("psgld, noiseless", Psgld { noiseless: true, ..Psgld::new(rate()) }.into()),
        ("sghmc", Sghmc::new(step()).into()),
        ("sghmc, estimate", Sghmc::new(step()).b_hat(NoiseEstimate::GradientVariance(0.1)).into()),
        ("sghmc, noiseless", Sghmc { noiseless: true, ..Sghmc::new(step()) }.into()),
        ("sgnht", Sgnht::new(step()).into()),
        ("sgnht, mass", Sgnht { thermostat_mass: 10.0, ..Sgnht::new(step()) }.into()),
        ("msgnht", Msgnht::new(step()).into()),
        ("msgnht, euler", Msgnht::new(step()).euler().into()),
        (PLAIN_SGD, Sgd::new(1e-2).into()),
        ("sgd, schedule", Sgd::new(lr()).into()),
        ("sgd, momentum", Sgd::new(lr()).momentum(0.9).into()),
        ("sgd, nesterov", Sgd::new(lr()).momentum(0.9).nesterov().into()),
        ("adagrad", Adagrad { initial_v: 0.1, ..Adagrad::new(lr()) }.into()),
        ("adadelta", Adadelta::new(1.0).into()),
        ("rmsprop", RmsProp::new(lr()).into()),
        (
            "rmsprop, momentum, epsilon inside",
            RmsProp { momentum: 0.9, epsilon_inside_root: true, ..RmsProp::new(lr()) }.into(),
        ),
        ("adam", Adam::new(lr().with_warm_up(10)).into()),
        (
            "adam, without correction",
            Adam { bias_correction: BiasCorrection::Off, ..Adam::new(lr()) }.into(),
        ),
        (
            "adam, swapped rates",
            Adam { bias_correction: BiasCorrection::SwappedRates, ..Adam::new(lr()) }.into(),
        ),
        ("adamw", Adam::new(lr()).with_decoupled_weight_decay(0.1).into()),
    ]
}

/// The one set without state, noise or schedule: it has nothing to remember.
pub const PLAIN_SGD: &str = "sgd, plain";

/// Segments of odd lengths, of which one is frozen and two have their own prior and rate.
/// AdamW takes no prior.
pub fn target(algorithm: &Algorithm) -> Target {
    let layout = Layout::new([
        ("one", vec![]),
        ("below.block", vec![127]),
        ("above.block", vec![3, 43]),
        ("still", vec![5]),
        ("many", vec![1000, 3]),
    ])
    .unwrap();
    let flat = matches!(algorithm, Algorithm::Adam(a) if a.decoupled_weight_decay > 0.0);
    let (prior, other) = match flat {
        true => (Prior::Flat, Prior::Flat),
        false => (Prior::gaussian(2.0), Prior::laplace(0.5)),
    };
    Target::new(layout, DataSize::new(100).unwrap(), prior)
        .unwrap()
        .with_group(Group::new("*.block").lr_scale(0.7).prior(other))
        .unwrap()
        .with_group(Group::new("still").frozen())
        .unwrap()
}

pub fn start<F: Real>(dim: usize) -> Vec<F> {
    let mut theta = vec![F::ZERO; dim];
    Stream::new(1, 0, Purpose::Custom(1)).normals(0, 0, 0, &mut theta);
    theta
}

/// A noisy mean gradient of a quadratic, a pure function of theta and the step.
pub fn gradient<F: Real>(theta: &[F], step: u64, out: &mut Vec<F>) {
    out.resize(theta.len(), F::ZERO);
    Stream::new(2, 0, Purpose::Custom(2)).normals(step, 0, 0, out);
    let noise = F::from_f64(0.1);
    out.iter_mut().zip(theta).for_each(|(g, x)| *g = noise * *g + *x);
}

/// Makes the steps `from + 1 ..= to`, counted over the whole run.
pub fn run<F: Real>(stepper: &mut Stepper<F>, theta: &mut [F], from: u64, to: u64) {
    let mut g = Vec::new();
    for step in from + 1..=to {
        gradient(theta, step, &mut g);
        assert_eq!(stepper.step(theta, &g).unwrap(), StepOutcome::Applied);
    }
}

pub fn bits<F: Real>(values: &[F]) -> Vec<u64> {
    values.iter().map(|x| x.to_f64().to_bits()).collect()
}

/// theta, every state vector and the carried number.
pub fn everything<F: Real>(stepper: &Stepper<F>, theta: &[F]) -> Vec<u64> {
    let mut all = bits(theta);
    stepper.state().for_each(|(_, vector)| all.extend(bits(vector)));
    all.extend(stepper.carried().map(f64::to_bits));
    all.push(stepper.steps());
    all
}
