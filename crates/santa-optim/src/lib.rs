//! Train by annealed sampling, or sample a posterior at the price of training.
//!
//! There is a potential $U(\theta)$, known through minibatch gradients, and there are dynamics that
//! move $\theta$. Everything else in this crate feeds the one or watches the other:
//!
//! ```text
//!           minibatch                 mean gradient                 theta, state
//!  data ───────────────►  Potential  ───────────────►  Dynamics  ───────────────►  observers
//!       Minibatches     (from_fn, from_data,      (Santa, Sghmc, Adam, ...        (averages,
//!                        your own)                 at work in a Stepper)           checkpoints)
//!                            ▲                            ▲
//!                            └──────── Target ────────────┘
//!                              layout, N, prior, groups
//! ```
//!
//! $$ U(\theta) = -\log p(\theta) - \sum_{n=1}^N \log p(x_n \mid \theta) $$
//!
//! [`Santa`] (Chen, Carlson, Gan, Li, Carin, AISTATS 2016) *explores* at a temperature
//! $1/\beta_t$ that falls, as a sampler with a thermostat for each parameter, and then *refines*, as
//! an optimizer that has learned a momentum for each parameter. At a constant $\beta$, exploring for
//! ever, it samples $e^{-\beta U}$. Its relatives (SGLD, pSGLD, SGHMC, SGNHT, mSGNHT) and the classic
//! optimizers (SGD, Adagrad, Adadelta, RMSprop, Adam) run on the same engine.
//!
//! # First steps
//!
//! With a loop of your own, a [`Stepper`] takes the place of an optimizer. It is handed the *mean*
//! gradient over the minibatch, *without* the prior: N and the prior are the [`Target`]'s.
//!
//! ```
//! use santa::{DataSize, Layout, Prior, Santa, Target};
//!
//! let layout = Layout::new([("weight", vec![2, 3]), ("bias", vec![2])])?;
//! let target = Target::new(layout, DataSize::new(60_000)?, Prior::gaussian(1.0))?;
//! let mut santa = Santa::new(1e-3, 10_000).init::<f32>(&target, 42)?;
//!
//! let mut theta = vec![0.1f32; target.dim()];
//! let mean_gradient = vec![0.01f32; target.dim()]; // from your model, at this theta
//! santa.step(&mut theta, &mean_gradient)?;
//! # Ok::<(), santa::Error>(())
//! ```
//!
//! A [`Chain`] is the loop, for potentials that are closures or types of yours:
//!
//! ```
//! use santa::potential::from_fn;
//! use santa::{Chain, Potential, Sampling, Santa, StepSize};
//!
//! // A standard normal: U and its gradient.
//! let normal = from_fn(1, |theta: &[f64], gradient: &mut [f64]| {
//!     gradient[0] = theta[0];
//!     theta[0] * theta[0] / 2.0
//! })?;
//! let sampler = Santa::sampler(StepSize::paper(0.01, 1.0), 1_000).init(normal.target(), 42)?;
//! let mut chain = Chain::new(normal, sampler, vec![3.0], Sampling::Full, 1)?;
//! chain.advance(5_000)?;
//! assert!(chain.theta()[0].abs() < 6.0);
//! # Ok::<(), santa::Error>(())
//! ```
//!
//! # Where things are
//!
//! | module | what is there |
//! | --- | --- |
//! | [`dynamics`] | the algorithms with their equations, one file each; [`Stepper`], which makes the steps |
//! | [`target`], [`layout`] | N, the prior, names and shapes of the parameters, groups |
//! | [`units`], [`schedule`] | step sizes in two kinds of units; values that change with the step; the temperature |
//! | [`potential`] | the trait for models, closures as models, control variates, test problems with known answers |
//! | [`chain`], [`minibatch`] | the loop, and which data each step sees |
//! | [`average`] | running averages of parameters and of predictions |
//! | [`clip`], [`health`] | bounds on the gradient; what to do about a NaN |
//! | [`vitals`], [`thermometer`] | frictions, update sizes, the kinetic and the decisive configurational temperature |
//! | [`checkpoint`] | exact saving and resuming, crash-safe |
//! | [`noise`] | counter-based random numbers |
//! | [`stats`], [`error`] | small helpers; what can go wrong |
//! | [`guide`], [`paper_map`] | choosing settings and trusting samples; where each equation of the paper is, and its errata |
//!
//! # Guarantees
//!
//! - **Same seed, same bits**, for any number of threads, across a checkpoint and resume, and on
//!   every instruction set the kernels are compiled for. A change of these numbers is a breaking
//!   change.
//! - **No silent NaN.** A step reports [`StepOutcome::Applied`] only if every number it wrote is
//!   finite; otherwise [`OnTrouble`] says what happens.
//! - **No panic on bad input.** Settings are checked by `init`; an [`enum@Error`] names the setting,
//!   its value and what is allowed.
//! - **One pass, no allocation** per step, on the rayon pool of the caller (feature `parallel`, on by
//!   default).
//! - No `unsafe` code.

pub mod average;
pub mod chain;
pub mod checkpoint;
pub mod clip;
pub mod dynamics;
pub mod error;
pub mod health;
pub mod layout;
pub mod minibatch;
pub mod noise;
pub mod potential;
mod real;
mod reduce;
pub mod schedule;
pub mod stats;
pub mod target;
pub mod thermometer;
pub mod units;
pub mod vitals;

pub use chain::{Chain, Progress};
pub use checkpoint::Checkpoint;
pub use clip::Clip;
pub use dynamics::{Algorithm, Santa, Stage, StepOutcome, Stepper};
pub use error::{Error, Result};
pub use health::OnTrouble;
pub use layout::{Layout, Segment};
pub use minibatch::{Minibatches, Sampling};
pub use potential::{Batch, Potential};
pub use real::{BLOCK, Real};
pub use schedule::{InverseTemperature, Schedule};
pub use target::{DataSize, Group, Prior, Target};
pub use thermometer::{Reading, Thermometer};
pub use units::{Integrator, Rate, StepSize};
pub use vitals::{FrictionVitals, SegmentVitals, Vitals};

/// The chapters of the guide that are about this library.
///
/// | chapter | what it answers |
/// | --- | --- |
/// | [`choosing_settings`](guide::choosing_settings) | what to set first, what the settings mean, what to change by symptom |
/// | [`sampling`](guide::sampling) | how to sample a posterior, and when samples can be trusted |
/// | [`checkpoints`](guide::checkpoints) | how to save and resume, and what is promised |
///
/// The [whole guide](https://github.com/santa-rs/santa/blob/main/docs/src/SUMMARY.md) begins with the
/// concepts and has the command `santa`, experiments as files, models of your own, and frequently met
/// problems besides.
pub mod guide {
    #[doc = include_str!("../docs/choosing-settings.md")]
    pub mod choosing_settings {}

    #[doc = include_str!("../docs/sampling.md")]
    pub mod sampling {}

    #[doc = include_str!("../docs/checkpoints.md")]
    pub mod checkpoints {}
}

#[doc = include_str!("../docs/paper-map.md")]
pub mod paper_map {}

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
