//! The paper's networks as fast native potentials on flat buffers.
#![doc = ""]

pub mod kernels;
mod layers;
pub mod recurrent;

pub use recurrent::{Gru, GruArchitecture, GruInitialisation, Nll, Normalisation, PianoRolls};
