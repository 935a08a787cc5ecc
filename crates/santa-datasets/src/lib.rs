//! Data for training: readers that distrust their files, and a checked download.
//!
//! ```
//! use santa_datasets::{Mnist, Split};
//!
//! let mnist = Mnist::embedded(); // 10,000 + 2,000 digits, built in
//! let split = Split::by_seed(mnist.train.len(), 1_000, 42)?;
//! let validation = mnist.train.subset(&split.validation)?;
//! assert_eq!(validation.image(0).len(), 28 * 28);
//! # Ok::<(), santa_datasets::Error>(())
//! ```
//!
//! | data | from | gives |
//! | --- | --- | --- |
//! | [`Mnist`] | built in (a subset), or IDX files, plain or gzip'd | [`Images`] |
//! | [`Polyphonic`] | cell arrays in MATLAB 5 files | [`Sequences`] |
//! | [`image_folder`] | JPEG and PNG files in a folder for each class | batches, decoded ahead |
//! | [`npz`] | archives of NumPy arrays, such as trained weights | arrays by name |
//!
//! Bytes stay bytes: a model scales them where it gathers a minibatch, so nothing is copied before.
//! Which images a minibatch has is the affair of `santa::Minibatches`; see [`Images`] for the loop.
//!
//! # Where files are
//!
//! A [`Store`] is a data folder: the one given, else the one that the environment variable
//! `SANTA_DATA` names, else `santa` in the user's cache folder. [`catalog`] has its tree. A missing
//! file is fetched from public mirrors, with a bar on the terminal, taken up again if it was
//! interrupted, and checked against its SHA-256. Without a network, the error says what to put where.
//!
//! # What can be relied on
//!
//! - **Bad files are errors, never panics.** Truncated, corrupt and hostile files are refused with
//!   the name of the file and the place in it.
//! - **A promise allocates nothing.** What a header claims is compared with the length of the file
//!   (for deflate, 1032 times that) and with a limit, [`MAX_INFLATED`] unless told otherwise, and
//!   memory grows with what really arrives. A file costs a small multiple of what it holds at most.
//! - **Same seed, same data.** Splits and augmentation draw from `santa::noise`, which is all that
//!   this crate needs of `santa-optim`: what comes out is a function of seed, epoch and index, for
//!   any number of threads.
//! - No `unsafe` code.
//!
//! # Features
//!
//! All are on by default.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `download` | missing files are fetched |
//! | `progress` | a bar on the terminal meanwhile |
//! | `images` | the module [`image_folder`] |

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
#[cfg(feature = "images")]
pub use image_folder::ImageFolder;
pub use images::Images;
pub use mnist::Mnist;
pub use polyphonic::{Music, Polyphonic};
pub use sequences::Sequences;
pub use split::Split;
pub use store::Store;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
