//! Data.

mod bounded;
pub mod catalog;
mod checksum;
#[cfg(feature = "download")]
mod download;
pub mod error;
pub mod idx;
#[cfg(feature = "images")]
pub mod image_folder;
pub mod images;
pub mod matlab;
pub mod mnist;
pub mod npz;
pub mod polyphonic;
pub mod progress;
pub mod sequences;
pub mod split;
pub mod store;

pub use bounded::MAX_INFLATED;
pub use catalog::Resource;
pub use error::{Error, Result};
pub use images::Images;
pub use mnist::Mnist;
pub use polyphonic::{Music, Polyphonic};
pub use sequences::Sequences;
pub use split::Split;
pub use store::Store;
