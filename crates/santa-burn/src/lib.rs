#![doc = include_str!("../README.md")]
//!
//! # Where to find what
//!
//! | | |
//! | --- | --- |
//! | [`SantaConfig`] | Santa in place of `AdamConfig` |
//! | [`DynamicsConfig`] | the same for every dynamics of the library |
//! | [`Dynamics`], [`DynamicsState`] | Burn's optimizer trait, and what a record holds |
//! | [`StepperConfig`], [`ModuleStepper`] | dynamics of a whole module |
//! | [`device`] | every dynamics in tensor operations, for devices that are not the host |
//! | [`memory`] | when a step copies |
//! | [`enum@Error`] | what can go wrong |

pub mod config;
pub mod device;
pub mod dynamics;
pub mod error;
pub mod memory;
pub mod state;
pub mod stepper;
mod walk;

pub use config::{DynamicsConfig, SantaConfig};
pub use dynamics::Dynamics;
pub use error::{Error, Result};
pub use state::DynamicsState;
pub use stepper::{Missing, ModuleStepper, StepperConfig};
