//! The models and samplers of the tests of correctness: right ones, and wrong ones that must be
//! noticed.
//!
//! Steps are in the posterior's own units, where its standard deviation and the mass are 1: `h` is
//! the share of $1/\sqrt\kappa$ that a step takes, $\kappa$ the mean precision. The minibatches'
//! noise then acts like a diffusion $B = h V / (2\kappa)$; with these data and batches $V/\kappa$
//! is 3 to 4, so B = 0.2 at [`STEP`], an eighth of the friction: what is not accounted for would
//! make the standard deviations 7 % too large there, and 30 % at [`LARGE_STEP`].
#![allow(dead_code)] // each test file uses a part

use santa::dynamics::{
    Metric, Msgnht, NoiseEstimate, Santa, SecondMomentStart, Sghmc, ThermostatMass,
};
use santa::noise::{Purpose, Stream};
use santa::potential::{Batch, Potential};
use santa::{Algorithm, InverseTemperature, Prior, Result, Sampling, StepSize, Target};
use santa_posterior::check::{LinearModel, LogisticModel, Model, Walk, gradient_variance};

pub const N: usize = 50;
pub const DIM: usize = 3;
pub const BATCH: usize = 10;
/// Noise that leaves the prior a say: the data's precision is about twice the prior's.
pub const NOISE_VARIANCE: f64 = 25.0;
pub const LINEAR_PRIOR: f64 = 1.0;
pub const LOGISTIC_PRIOR: f64 = 4.0;

pub const STEP: f64 = 0.12;
pub const LARGE_STEP: f64 = 0.4;
/// Below the critical friction of 2, which would forget most quickly.
const FRICTION: f64 = 1.5;
/// In this time a chain forgets all but a few percent.
pub const FORGETTING: f64 = 4.0;
/// Steps after which Santa's metric is frozen.
pub const FREEZE: u64 = 300;

pub fn linear() -> LinearModel {
    LinearModel::new(N, DIM, NOISE_VARIANCE, LINEAR_PRIOR, &Stream::new(1, 0, Purpose::Data))
        .unwrap()
}
pub fn logistic() -> LogisticModel {
    LogisticModel::new(N, DIM, LOGISTIC_PRIOR, &Stream::new(1, 0, Purpose::Data)).unwrap()
}

/// What sets the scales of a model's posteriors.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// $\kappa$, the mean precision of a parameter.
    pub precision: f64,
    /// V, the variance of the stochastic gradient of U.
    pub variance: f64,
}

impl Units {
    /// Averages over simulated data. The score's variance is the information of the data
    /// (Fisher), $V b / N$.
    pub fn of(model: &impl Model, prior_precision: f64) -> Self {
        const SIMULATIONS: u64 = 50;
        let stream = Stream::new(2, 0, Purpose::Data);
        let mean: f64 = (0..SIMULATIONS)
            .map(|s| {
                let theta = model.draw_prior(&stream, s).unwrap();
                let mut posterior = model.simulate(&theta, &stream, s).unwrap();
                gradient_variance(&mut posterior, &theta, BATCH).unwrap() / SIMULATIONS as f64
            })
            .sum();
        Units { precision: mean * BATCH as f64 / N as f64 + prior_precision, variance: mean }
    }
    fn step(&self, h: f64) -> StepSize {
        StepSize::paper(h * h / self.precision, FRICTION * self.precision.sqrt())
    }

    /// Santa without a preconditioner, by midpoint splitting.
    pub fn santa(&self, h: f64) -> Santa {
        Santa {
            metric: Metric::Identity,
            thermostat_mass: ThermostatMass::Mass(1.0 / self.precision),
            ..Santa::sampler(self.step(h), 1)
        }
    }
    /// Santa with its metric, frozen after a warm-up.
    pub fn santa_with_metric(&self, h: f64) -> Santa {
        // g = v^(-1/4), v the mean square of the mean gradient.
        let g = (self.variance.sqrt() / N as f64).sqrt().recip();
        let stretched = Units { precision: self.precision * g * g, ..*self };
        Santa {
            second_moment_start: SecondMomentStart::FirstSquaredGradient,
            thermostat_mass: ThermostatMass::Mass(1.0 / stretched.precision),
            ..Santa::sampler(stretched.step(h), FREEZE)
        }
    }
    /// mSGNHT as published: Euler.
    pub fn msgnht(&self, h: f64) -> Msgnht {
        let thermostat_mass = 1.0 / self.precision;
        Msgnht { thermostat_mass, ..Msgnht::new(self.step(h)).euler() }
    }
    /// SGHMC that knows the minibatches' noise.
    pub fn sghmc(&self, h: f64) -> Sghmc {
        Sghmc::new(self.step(h)).b_hat(NoiseEstimate::GradientVariance(self.variance))
    }
    /// The right ones, with their steps; the Euler thermostat is of first order in h.
    pub fn right(&self) -> Vec<(&'static str, Algorithm, f64)> {
        const EULER: f64 = 0.25 * STEP;
        vec![
            ("Santa", self.santa(STEP).into(), STEP),
            ("Santa, metric frozen", self.santa_with_metric(STEP).into(), STEP),
            ("mSGNHT, Euler", self.msgnht(EULER).into(), EULER),
            ("SGHMC, noise known", self.sghmc(STEP).into(), STEP),
        ]
    }
}

/// Minibatches whose noises are independent: the theory's, and harder than shuffled epochs.
pub fn walk(algorithm: impl Into<Algorithm>) -> Walk {
    Walk::new(algorithm, Sampling::WithReplacement, BATCH)
}

/// At twice the temperature: noise that is too strong by the square root of two.
pub fn hot() -> InverseTemperature {
    InverseTemperature::fixed(0.5)
}

/// A posterior gone wrong: with another prior, or with a likelihood that counts more than once.
pub struct Wrong<P> {
    inner: P,
    target: Target,
    counted: f64,
}

impl<P: Potential<f64>> Wrong<P> {
    pub fn new(inner: P, prior_precision: f64, counted: f64) -> Self {
        let (layout, n) = (inner.target().layout().clone(), inner.target().data_size());
        let target = Target::new(layout, n, Prior::gaussian(prior_precision)).unwrap();
        Wrong { inner, target, counted }
    }
}

impl<P: Potential<f64>> Potential<f64> for Wrong<P> {
    fn target(&self) -> &Target {
        &self.target
    }
    fn loss_gradient(&mut self, theta: &[f64], batch: &Batch<'_>, g: &mut [f64]) -> Result<f64> {
        let loss = self.inner.loss_gradient(theta, batch, g)?;
        g.iter_mut().for_each(|g| *g *= self.counted);
        Ok(self.counted * loss)
    }
}
