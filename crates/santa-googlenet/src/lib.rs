//! GoogLeNet on ImageNet, trained by Santa or by SGD with momentum: the experiment of the supplement
//! of [Chen et al. (2016)](https://arxiv.org/abs/1512.07962), in [Burn](https://burn.dev).
//!
//! The command `santa-googlenet` runs it; the README says how, and what to expect. The parts can be
//! used by themselves: the network ([`GoogLeNetConfig`]), the loader ([`Data`], [`Batches`]), one
//! step ([`Trainer`]) and the whole loop ([`train`](fn@train)).
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use santa_googlenet::GoogLeNetConfig;
//!
//! let device = Device::default();
//! let network = GoogLeNetConfig { classes: 10, size: 64, narrow: 8 }.init(1, &device)?;
//! let logits = network.forward(Tensor::zeros([2, 3, 64, 64], &device));
//! assert_eq!(logits.dims(), [2, 10]);
//! # Ok::<(), santa_googlenet::Error>(())
//! ```

mod auxiliary;
mod batches;
mod checkpoint;
mod device;
mod dropout;
mod error;
mod filler;
mod images;
mod inception;
mod lrn;
mod model;
mod optimizer;
mod settings;
mod train;
mod trainer;

pub use auxiliary::{AUXILIARY_DROPOUT, AUXILIARY_WEIGHT, Auxiliary};
pub use batches::{Batch, Batches};
pub use device::{device, devices};
pub use dropout::Dropout;
pub use error::{Error, Result};
pub use images::{Data, ImageFolder, View};
pub use inception::{Channels, Inception};
pub use lrn::local_response_norm;
pub use model::{
    GoogLeNet, GoogLeNetConfig, Logits, PUBLISHED_CLASSES, PUBLISHED_SIZE, cross_entropy,
};
pub use settings::{Method, Settings};
pub use train::{CHECKPOINTS, LOG, Outcome, Record, train};
pub use trainer::{Evaluation, Trainer};
