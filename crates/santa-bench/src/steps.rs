//! A step of every dynamics alone, on given gradients, beside copies of as many bytes.

use crate::clock::{Effort, mean};
use crate::copy::{CopyBytes, Pair};
use santa::dynamics::{
    Adadelta, Adagrad, Adam, Exploration, Gamma, Msgnht, Psgld, RmsProp, Sgd, Sghmc, Sgld, Sgnht,
};
use santa::{
    Algorithm, DataSize, Layout, Prior, Rate, Real, Result, Santa, StepSize, Stepper, Target,
};
use std::time::{Duration, Instant};

/// A dynamics with settings.
#[derive(Clone, Copy, Debug)]
pub struct Dynamics {
    /// As tables show it.
    pub name: &'static str,
    /// The settings.
    pub algorithm: fn() -> Algorithm,
    /// Elements of the state vectors that a step reads and writes, for each parameter.
    pub state: usize,
    /// Floating-point operations of a step for each parameter, where they were counted: every sum,
    /// product, quotient, root and exponential of the equations in the documentation of the
    /// settings, and [`PRIOR`] for the prior. What is the same for all parameters is free, and so is
    /// the drawing of noise.
    pub flops: Option<usize>,
}

/// Elements for each parameter that every step moves: theta, read and written, and the gradient.
const THETA_AND_GRADIENT: usize = 2 + 1;
/// Operations of a Gaussian prior: theta times the precision is added to the gradient.
pub const PRIOR: usize = 2;
/// Operations of Santa's metric: the mean of squares, and the inverse of the root of the root.
const METRIC: usize = 4 + 4;
/// Operations of the splitting without noise: twice A on theta, twice B, the gradient's part of O.
const SPLITTING: usize = 2 * 3 + 2 * 3 + 3;
/// Operations of exploring: twice A on alpha, and the noise's part of O.
const THERMOSTAT: usize = 2 * 4 + 2;

/// So small that the parameters hardly move.
const RATE: f64 = 1e-6;
/// Momentum of those that have one.
const MOMENTUM: f64 = 0.9;

impl Dynamics {
    /// Every dynamics.
    pub const ALL: [Dynamics; 17] = [
        Dynamics::new("santa, refining", || santa(Exploration::Never).into(), 2 + 1 + 2)
            .counted(PRIOR + METRIC + SPLITTING),
        Dynamics::new("santa, exploring", || santa(Exploration::Always).into(), 2 + 2 + 2)
            .counted(PRIOR + METRIC + SPLITTING + THERMOSTAT),
        Dynamics::new("santa-e, refining", || santa(Exploration::Never).euler().into(), 2 + 1 + 2),
        Dynamics::new(
            "santa-e, exploring",
            || santa(Exploration::Always).euler().into(),
            2 + 2 + 2,
        ),
        Dynamics::new("sgd", || Sgd::new(RATE).into(), 0).counted(PRIOR + 2),
        // the momentum, theta
        Dynamics::new("sgd-m", || Sgd::new(RATE).momentum(MOMENTUM).into(), 2)
            .counted(PRIOR + 2 + 2),
        Dynamics::new("nesterov", || Sgd::new(RATE).momentum(MOMENTUM).nesterov().into(), 2),
        Dynamics::new("adagrad", || Adagrad::new(RATE).into(), 2),
        Dynamics::new("adadelta", || Adadelta::new(RATE).into(), 4),
        Dynamics::new("rmsprop", || RmsProp::new(RATE).into(), 2),
        // m, v, the two corrections, theta
        Dynamics::new("adam", || Adam::new(RATE).into(), 4).counted(PRIOR + 3 + 4 + 2 + 5),
        // the gradient's part, the noise's part
        Dynamics::new("sgld", || Sgld::new(Rate::lr(RATE)).into(), 0).counted(PRIOR + 2 + 2),
        Dynamics::new("psgld", || Psgld::new(Rate::lr(RATE)).into(), 2),
        Dynamics::new(
            "psgld, gamma",
            || Psgld { gamma: Gamma::On { guard: 0.1 }, ..Psgld::new(Rate::lr(RATE)) }.into(),
            4,
        ),
        Dynamics::new("sghmc", || Sghmc::new(StepSize::heavy_ball(RATE, MOMENTUM)).into(), 2),
        Dynamics::new("msgnht", || Msgnht::new(StepSize::heavy_ball(RATE, MOMENTUM)).into(), 4),
        Dynamics::new("sgnht", || Sgnht::new(StepSize::heavy_ball(RATE, MOMENTUM)).into(), 2),
    ];

    const fn new(name: &'static str, algorithm: fn() -> Algorithm, state: usize) -> Self {
        Dynamics { name, algorithm, state, flops: None }
    }
    const fn counted(mut self, flops: usize) -> Self {
        self.flops = Some(flops);
        self
    }

    /// Bytes that a step moves, for each parameter.
    pub fn bytes<F: Real>(&self) -> usize {
        (THETA_AND_GRADIENT + self.state) * F::BYTES
    }
}

/// What a round gives, the best of each.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Seconds of a step.
    pub step: f64,
    /// Seconds of the fastest of the copies; infinite if there was none.
    pub copy: f64,
    /// Bytes that either moves.
    pub bytes: usize,
}

/// Rounds at least, however slow they are.
const LEAST_ROUNDS: usize = 15;
/// After this time no more than those.
const LONG_ENOUGH: Duration = Duration::from_secs(2);

/// Measures a step on `n` parameters, in rounds that alternate between the step and each of the
/// copies of as many bytes, so that a machine that slows down slows both. The best round of each
/// counts.
pub fn measure<F: Real>(
    dynamics: &Dynamics,
    n: usize,
    copies: &[CopyBytes],
    effort: Effort,
) -> Result<Times> {
    let data = DataSize::new(60_000)?; // as many as MNIST has
    let target = Target::new(Layout::flat(n)?, data, Prior::gaussian(1.0))?;
    let mut stepper: Stepper<F> = Stepper::new((dynamics.algorithm)(), &target, 1, 0)?;
    let mut theta = vec![F::from_f64(0.1); n];
    let gradient = vec![F::from_f64(0.01); n];
    let bytes = n * dynamics.bytes::<F>();
    let mut memory = Pair::moving(if copies.is_empty() { 0 } else { bytes });
    let (rounds, repeats) = rounds(n, effort);

    let mut times = Times { step: f64::INFINITY, copy: f64::INFINITY, bytes };
    let mut failure = None;
    let start = Instant::now();
    for round in 0..rounds {
        if round >= LEAST_ROUNDS && start.elapsed() > LONG_ENOUGH {
            break;
        }
        let step = mean(repeats, || {
            let moved = stepper.step(&mut theta, &gradient);
            failure = failure.take().or(moved.err());
        });
        times.step = times.step.min(step);
        for copy in copies {
            times.copy = times.copy.min(mean(repeats, || memory.copy(*copy)));
        }
    }
    failure.map_or(Ok(times), Err)
}

/// Rounds, and how often a step is repeated in each.
fn rounds(n: usize, effort: Effort) -> (usize, usize) {
    /// Parameters moved in all: a quarter of a second at 2 ns each.
    const MOVED: usize = 100_000_000;
    const MOST: usize = 1000;
    /// Parameters that a round moves at least, to be far above the clock's resolution.
    const ROUND: usize = 1_000_000;
    match effort {
        Effort::Once => (1, 1),
        Effort::Full => {
            let n = n.max(1);
            ((MOVED / n).clamp(LEAST_ROUNDS, MOST), (ROUND / n).max(1))
        }
    }
}

/// More steps than are made.
fn santa(exploration: Exploration) -> Santa {
    Santa { exploration, ..Santa::new(RATE, 1_000_000_000) }
}
