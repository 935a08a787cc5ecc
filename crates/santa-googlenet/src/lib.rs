//! GoogLeNet on ImageNet, trained by Santa or by SGD with momentum.

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
