//! GoogLeNet on ImageNet, trained by Santa or by SGD with momentum.

mod auxiliary;
mod dropout;
mod error;
mod filler;
mod inception;
mod lrn;
mod model;

pub use auxiliary::{AUXILIARY_DROPOUT, AUXILIARY_WEIGHT, Auxiliary};
pub use dropout::Dropout;
pub use error::{Error, Result};
pub use inception::{Channels, Inception};
pub use lrn::local_response_norm;
pub use model::{
    GoogLeNet, GoogLeNetConfig, Logits, PUBLISHED_CLASSES, PUBLISHED_SIZE, cross_entropy,
};
