#![doc = include_str!("../README.md")]
//!
//! # Where to find what
//!
//! | | |
//! | --- | --- |
//! | [`Architecture`], [`Layer`], [`Initialiser`] | what a network is made of |
//! | [`Network`] | a network that has been built: layout, initial values, prediction |
//! | [`Examples`], [`Classifier`], [`Evaluation`] | labelled data, and a network on it as a potential |
//! | [`Smoothness`] | a prior under which the weights of neighbouring places are alike |
//! | [`recurrent`]: [`GruArchitecture`], [`PianoRolls`], [`SequenceModel`] | the GRU and its equations |
//! | [`Variational`], [`ScaleMixture`], [`KlWeight`] | Bayes by Backprop and its equations |
//! | [`kernels`] | the products that all of them use |

mod architecture;
mod classifier;
mod compiled;
mod examples;
mod initialise;
pub mod kernels;
mod layers;
mod loss;
mod network;
mod parallel;
pub mod recurrent;
mod smoothness;
mod target;
mod variational;

pub use architecture::{Architecture, Convolution, Layer, Pooling};
pub use classifier::{Classifier, Evaluation};
pub use examples::Examples;
pub use initialise::Initialiser;
pub use kernels::{Buffer, Scalar, zeros};
pub use network::Network;
pub use recurrent::{
    Gru, GruArchitecture, GruInitialisation, Nll, Normalisation, PianoRolls, SequenceModel, Tensor,
};
pub use smoothness::Smoothness;
pub use variational::{KlWeight, ScaleMixture, Variational};
