#![doc = include_str!("../README.md")]
//!
//! ## Where things are
//!
//! | | |
//! | --- | --- |
//! | [`Dynamics`] | the optimizer; saving and loading |
//! | [`ParamsDynamics`], [`MissingGradient`] | its settings |
//! | [`initialise`], [`InitialWeights`] | seeded initial values |
//! | [`enum@Error`] | what can go wrong |
//! | [`santa`] | the library: algorithms, priors, groups, schedules, noise |

mod error;
mod gradient;
mod initial;
mod inplace;
mod optimizer;
mod params;
mod rate;
mod saved;

pub use error::{Error, Result};
pub use initial::{InitialWeights, initialise};
pub use optimizer::Dynamics;
pub use params::{MissingGradient, ParamsDynamics};
pub use santa;
