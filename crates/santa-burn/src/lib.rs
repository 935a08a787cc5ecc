//! Santa and its samplers as optimizers of Burn.

pub mod config;
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
