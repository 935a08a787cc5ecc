//! The paper's networks as fast native potentials on flat buffers.

mod architecture;
mod classifier;
mod examples;
mod initialise;
pub mod kernels;
mod layers;
mod loss;
mod network;
mod parallel;
pub mod recurrent;
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
pub use variational::{KlWeight, ScaleMixture, Variational};
