#![doc = include_str!("../README.md")]
//!
//! # Where to find what
//!
//! | module | what is there |
//! | --- | --- |
//! | [`sampler`] | many chains, a warm-up that finds scales and step size, draws |
//! | [`draws`], [`store`] | the draws of several chains, by name, in memory or on disk |
//! | [`diagnostics`] | split R-hat, effective sample sizes, Monte Carlo errors, Stein discrepancy, the summary table |
//! | [`regression`] | linear, logistic and robust regression as fast potentials, from a CSV file or from slices |
//! | [`predict`] | posterior predictive probabilities, calibration, and how sure a prediction is |
//! | [`check`] | simulation-based calibration, the joint-distribution test, an exact reference sampler |
//! | [`arviz`] | draws as a Zarr store that ArviZ opens |
//! | [`error`] | what can go wrong |

pub mod arviz;
pub mod check;
pub mod diagnostics;
pub mod draws;
pub mod error;
mod parallel;
pub mod predict;
pub mod regression;
pub mod sampler;
mod special;
pub mod store;

pub use draws::Draws;
pub use error::{Error, Result};
pub use sampler::{Posterior, Sampler};
pub use store::Store;
