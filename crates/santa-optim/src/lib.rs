//! Train by annealed sampling, or sample a posterior at the price of training.
#![doc = "\n"]
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
