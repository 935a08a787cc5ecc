//! The dynamics that move theta: Santa, the samplers and the optimizers, one file each.
//!
//! | file | dynamics | kind |
//! | --- | --- | --- |
//! | `santa/` | [`Santa`], Santa-E, Santa-r | annealed sampler, optimizer, or sampler |
//! | `sgld.rs` | [`Sgld`] | sampler, first order |
//! | `psgld.rs` | [`Psgld`] | sampler, first order, preconditioned |
//! | `sghmc.rs` | [`Sghmc`] | sampler, second order |
//! | `sgnht.rs` | [`Sgnht`] | sampler, second order, one thermostat |
//! | `msgnht.rs` | [`Msgnht`] | sampler, second order, a thermostat per parameter |
//! | `sgd.rs` | [`Sgd`], with momentum (heavy ball, Nesterov) | optimizer |
//! | `adagrad.rs` | [`Adagrad`] | optimizer |
//! | `adadelta.rs` | [`Adadelta`] | optimizer |
//! | `rmsprop.rs` | [`RmsProp`] | optimizer |
//! | `adam.rs` | [`Adam`], AdamW | optimizer |
//!
//! Each settings struct is plain data. `init` checks it against a [`Target`] and
//! gives a [`Stepper`], which owns the state vectors and makes the steps.

mod adadelta;
mod adagrad;
mod adam;
pub(crate) mod engine;
mod msgnht;
mod psgld;
mod rmsprop;
mod santa;
pub(crate) mod saved;
mod sgd;
mod sghmc;
mod sgld;
mod sgnht;
mod stepper;
#[cfg(test)]
pub(crate) mod testing;

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::{Adam, BiasCorrection};
pub use engine::Least;
pub use msgnht::Msgnht;
pub use psgld::{Gamma, Psgld, PsgldMetric};
pub use rmsprop::RmsProp;
pub use santa::{
    AlphaInRefinement, AuthorsRun, Corrections, Diffusion, Exploration, GradientAt,
    InitialMomentum, Metric, NoiseScale, Push, Santa, SecondMomentStart, SeparableMetric,
    ThermostatMass, ThermostatReads,
};
pub use saved::Position;
pub use sgd::Sgd;
pub use sghmc::{NoiseEstimate, Sghmc};
pub use sgld::Sgld;
pub use sgnht::Sgnht;
pub(crate) use stepper::{Buffer, zeros};
pub use stepper::{ROLLBACKS, StepOutcome, Stepper};

use crate::error::{Error, Result};
use crate::real::Real;
use crate::schedule::Schedule;
use crate::target::{DataSize, Target};
use crate::units::{LrScale, StepSize};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
pub(crate) use stepper::Rule;
use stepper::Typed;

/// What the dynamics are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Sampling at a temperature.
    Exploring,
    /// Descending without noise.
    Refining,
}

/// Step size, temperature and friction of second-order dynamics at one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Physics {
    /// Exploring or refining.
    pub stage: Stage,
    /// $\eta$
    pub eta: f64,
    /// $\beta$
    pub beta: f64,
    /// $\alpha_0$, what the stored friction is counted from.
    pub alpha0: f64,
    /// Factor of u and $\alpha - \alpha_0$ before the step.
    pub rescale: f64,
    /// $\mu$
    pub mass: f64,
}

/// How a state vector starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Initial {
    Zero,
    Value(f64),
    Normal { sd: f64 },
}

/// Settings of any dynamics, as one serialisable value.
///
/// ```
/// use santa::Algorithm;
///
/// let algorithm: Algorithm = toml::from_str(r#"
///     algorithm = "sgd"
///     lr = { kind = "block_decay", start = 0.1, factor = 0.5, every = 1000 }
///     momentum = 0.9
/// "#).unwrap();
/// assert_eq!(algorithm.name(), "sgd");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "algorithm", rename_all = "snake_case")]
#[non_exhaustive]
#[allow(clippy::large_enum_variant)]
pub enum Algorithm {
    /// [`Santa`]
    Santa(Santa),
    /// [`Sgld`]
    Sgld(Sgld),
    /// [`Psgld`]
    Psgld(Psgld),
    /// [`Sghmc`]
    Sghmc(Sghmc),
    /// [`Sgnht`]
    Sgnht(Sgnht),
    /// [`Msgnht`]
    Msgnht(Msgnht),
    /// [`Sgd`]
    Sgd(Sgd),
    /// [`Adagrad`]
    Adagrad(Adagrad),
    /// [`Adadelta`]
    Adadelta(Adadelta),
    /// [`RmsProp`]
    #[serde(rename = "rmsprop")]
    RmsProp(RmsProp),
    /// [`Adam`]
    Adam(Adam),
}

macro_rules! settings_into_algorithm {
    ($($settings:ident),*) => {$(
        impl From<$settings> for Algorithm {
            fn from(settings: $settings) -> Self {
                Algorithm::$settings(settings)
            }
        }
        impl $settings {
            /// Checks the settings against a target and builds the dynamics, for chain 0 of `seed`.
            pub fn init<F: Real>(self, target: &Target, seed: u64) -> Result<Stepper<F>> {
                Stepper::new(self, target, seed, 0)
            }
        }
    )*};
}
settings_into_algorithm!(
    Santa, Sgld, Psgld, Sghmc, Sgnht, Msgnht, Sgd, Adagrad, Adadelta, RmsProp, Adam
);

impl Algorithm {
    /// The name used in settings files and checkpoints.
    pub fn name(&self) -> &'static str {
        match self {
            Algorithm::Santa(_) => "santa",
            Algorithm::Sgld(_) => "sgld",
            Algorithm::Psgld(_) => "psgld",
            Algorithm::Sghmc(_) => "sghmc",
            Algorithm::Sgnht(_) => "sgnht",
            Algorithm::Msgnht(_) => "msgnht",
            Algorithm::Sgd(_) => "sgd",
            Algorithm::Adagrad(_) => "adagrad",
            Algorithm::Adadelta(_) => "adadelta",
            Algorithm::RmsProp(_) => "rmsprop",
            Algorithm::Adam(_) => "adam",
        }
    }

    /// The same with another learning rate, in the units that it has: $\eta$ where it is $\eta$. With 1,
    /// [`Stepper::set_lr_factor`] sets the rate itself.
    pub fn with_lr(mut self, lr: impl Into<Schedule>) -> Self {
        let lr = lr.into();
        let here = match &mut self {
            Algorithm::Santa(Santa { step, .. })
            | Algorithm::Sghmc(Sghmc { step, .. })
            | Algorithm::Sgnht(Sgnht { step, .. })
            | Algorithm::Msgnht(Msgnht { step, .. }) => step.rate_mut(),
            Algorithm::Sgld(Sgld { rate, .. }) | Algorithm::Psgld(Psgld { rate, .. }) => {
                rate.rate_mut()
            }
            Algorithm::Sgd(Sgd { lr, .. })
            | Algorithm::Adagrad(Adagrad { lr, .. })
            | Algorithm::Adadelta(Adadelta { lr, .. })
            | Algorithm::RmsProp(RmsProp { lr, .. })
            | Algorithm::Adam(Adam { lr, .. }) => lr,
        };
        *here = lr;
        self
    }

    /// Step size and friction, for dynamics that have a momentum.
    pub fn step_size(&self) -> Option<&StepSize> {
        match self {
            Algorithm::Santa(Santa { step, .. })
            | Algorithm::Sghmc(Sghmc { step, .. })
            | Algorithm::Sgnht(Sgnht { step, .. })
            | Algorithm::Msgnht(Msgnht { step, .. }) => Some(step),
            _ => None,
        }
    }

    /// Refuses settings that cannot work on a target.
    pub fn check(&self, target: &Target) -> Result<()> {
        match self {
            Algorithm::Santa(s) => s.check(target),
            Algorithm::Sgld(s) => s.check(),
            Algorithm::Psgld(s) => s.check(),
            Algorithm::Sghmc(s) => s.check(target),
            Algorithm::Sgnht(s) => s.check(),
            Algorithm::Msgnht(s) => {
                crate::error::check::positive("thermostat_mass", s.thermostat_mass)?;
                s.as_santa().check(target)
            }
            Algorithm::Sgd(s) => s.check(),
            Algorithm::Adagrad(s) => s.check(),
            Algorithm::Adadelta(s) => s.check(),
            Algorithm::RmsProp(s) => s.check(),
            Algorithm::Adam(s) => s.check(target),
        }
    }

    /// Step size, temperature and friction at step t, for dynamics that have a momentum.
    pub fn physics(&self, t: u64, n: DataSize, lr: LrScale) -> Result<Option<Physics>> {
        Ok(match self {
            Algorithm::Santa(s) => Some(s.physics(t, n, lr)?),
            Algorithm::Msgnht(s) => Some(s.as_santa().physics(t, n, lr)?),
            Algorithm::Sghmc(s) => Some(s.physics(t, n, lr)?),
            Algorithm::Sgnht(s) => Some(s.physics(t, n, lr)?),
            _ => None,
        })
    }

    /// One over the temperature at step t; infinite for optimizers and in refinement.
    pub fn beta(&self, t: u64) -> Result<f64> {
        let cold = |noiseless: bool, beta: f64| if noiseless { f64::INFINITY } else { beta };
        Ok(match self {
            Algorithm::Santa(s) => cold(s.stage(t) == Stage::Refining, s.beta.at(t)?),
            Algorithm::Msgnht(s) => s.beta.at(t)?,
            Algorithm::Sghmc(s) => cold(s.noiseless, s.beta.at(t)?),
            Algorithm::Sgnht(s) => s.beta.at(t)?,
            Algorithm::Sgld(s) => s.beta.at(t)?,
            Algorithm::Psgld(s) => cold(s.noiseless, s.beta.at(t)?),
            _ => f64::INFINITY,
        })
    }

    /// Exploring, or refining as every optimizer does.
    pub fn stage(&self, t: u64) -> Result<Stage> {
        Ok(if self.beta(t)?.is_finite() { Stage::Exploring } else { Stage::Refining })
    }

    /// Names of the state vectors in the kernel's order; empty names are not kept.
    pub(crate) fn slots(&self) -> Vec<&'static str> {
        match self {
            Algorithm::Santa(s) => s.slots().to_vec(),
            Algorithm::Msgnht(s) => s.as_santa().slots().to_vec(),
            Algorithm::Sgld(_) => vec![],
            Algorithm::Psgld(s) => s.slots().to_vec(),
            Algorithm::Sghmc(s) => s.slots().to_vec(),
            Algorithm::Sgnht(s) => s.slots().to_vec(),
            Algorithm::Sgd(s) => s.slots().to_vec(),
            Algorithm::Adagrad(s) => s.slots().to_vec(),
            Algorithm::Adadelta(s) => s.slots().to_vec(),
            Algorithm::RmsProp(s) => s.slots().to_vec(),
            Algorithm::Adam(s) => s.slots().to_vec(),
        }
    }

    /// How a state vector starts in a segment.
    pub(crate) fn initial(&self, slot: &str, n: DataSize, lr: LrScale) -> Result<Initial> {
        let physics = self.physics(1, n, lr)?;
        Ok(match (self, physics) {
            (Algorithm::Santa(s), Some(p)) => s.initial(slot, &p),
            (Algorithm::Msgnht(s), Some(p)) => s.as_santa().initial(slot, &p),
            (Algorithm::Sghmc(s), Some(p)) => s.initial(&p),
            (Algorithm::Sgnht(s), Some(p)) => s.initial(&p),
            (Algorithm::Adagrad(s), _) => Initial::Value(s.initial_v),
            _ => Initial::Zero,
        })
    }

    fn wants_given_metric(&self) -> bool {
        match self {
            Algorithm::Santa(s) => s.metric == Metric::Given,
            Algorithm::Psgld(s) => s.metric == PsgldMetric::Given,
            _ => false,
        }
    }

    /// The kernel of these settings; called through the element type, so that it is compiled here.
    pub(crate) fn rule<F: Real>(
        &self,
        target: &Target,
        given: Option<Arc<dyn SeparableMetric<F>>>,
    ) -> Result<Box<dyn Rule<F>>> {
        if self.wants_given_metric() && given.is_none() {
            let allowed = "hand the function over with Stepper::with_metric";
            return Err(Error::setting("metric", "given", allowed));
        }
        if !self.wants_given_metric() && given.is_some() {
            let allowed = "a function was handed over; set it to `given`";
            return Err(Error::setting("metric", "not given", allowed));
        }
        Ok(match self.clone() {
            Algorithm::Santa(settings) => {
                Box::new(Typed::new(santa::SantaKernel { settings, given }))
            }
            Algorithm::Msgnht(s) => {
                Box::new(Typed::new(santa::SantaKernel { settings: s.as_santa(), given: None }))
            }
            Algorithm::Sgld(s) => Box::new(Typed::<F, _, 0>::new(s)),
            Algorithm::Psgld(settings) => {
                Box::new(Typed::new(psgld::PsgldKernel { settings, given }))
            }
            Algorithm::Sghmc(s) => Box::new(Typed::<F, _, 1>::new(s)),
            Algorithm::Sgnht(settings) => {
                let moving = target.layout().segments().iter().enumerate();
                let n = moving
                    .map(|(i, s)| (target.settings(i), s.range().len() as f64))
                    .filter(|(settings, _)| !settings.frozen)
                    .map(|(settings, len)| len * settings.lr_scale.sqrt())
                    .sum();
                Box::new(Typed::<F, _, 1>::new(sgnht::SgnhtKernel { settings, n, shift: 0.0 }))
            }
            Algorithm::Sgd(s) => Box::new(Typed::<F, _, 1>::new(s)),
            Algorithm::Adagrad(s) => Box::new(Typed::<F, _, 1>::new(s)),
            Algorithm::Adadelta(s) => Box::new(Typed::<F, _, 2>::new(s)),
            Algorithm::RmsProp(s) => Box::new(Typed::<F, _, 2>::new(s)),
            Algorithm::Adam(s) => Box::new(Typed::<F, _, 2>::new(s)),
        })
    }
}
