//! Has it converged, and how much do the draws know?
//!
//! | question | answer |
//! | --- | --- |
//! | Do the chains agree? | [`r_hat`], rank-normalised and split |
//! | How many independent draws are these worth? | [`ess_bulk`], [`ess_tail`], [`ess_mean`], [`ess_sd`], [`ess_quantile`] |
//! | How far off may an estimate be? | [`mcse_mean`], [`mcse_sd`], [`mcse_quantile`] |
//! | How long does a chain remember? | [`autocorrelation`], [`integrated_time`] |
//! | Are these draws of *this* posterior? | [`stein_discrepancy`], and with a threshold [`stein_test`] |
//! | All of it, and in words? | [`Summary`], [`Verdict`] |
//!
//! The first four compare chains with each other and cannot notice what all chains miss; the Stein
//! discrepancy compares the draws with the gradient of the potential.
//!
//! # Conventions
//!
//! A quantity is given as its chains, `&[Vec<f64>]`, $M$ chains of $N$ draws $\theta_{mn}$;
//! [`Draws::quantity`](crate::Draws::quantity) has that form. Where nothing can be said the answer is
//! NaN: no chain, chains of different lengths, fewer than four draws, a NaN or an infinity among
//! them, and for [`r_hat`] fewer than two chains.
//!
//! The values are those of ArviZ (0.23), which follows Vehtari, Gelman, Simpson, Carpenter and
//! Bürkner, *Rank-normalization, folding, and localization: an improved R-hat* (Bayesian Analysis 16,
//! 2021); the tests compare them to a relative 1e-10. Three rare cases differ. ArviZ takes draws for
//! constant if their range is below 1e-15, in whatever unit, here they must be equal. A quantile
//! between two equal draws is that value, where ArviZ may be a rounding error below it and count the
//! draws on its other side. And ArviZ ranks infinities.
//!
//! ```
//! use santa::noise::{Purpose, Stream};
//! use santa_posterior::diagnostics::{ess_bulk, r_hat};
//!
//! let chains: Vec<Vec<f64>> = (0..4)
//!     .map(|chain| {
//!         let mut draws = vec![0.0; 500];
//!         Stream::new(42, chain, Purpose::Custom(0)).normals(0, 0, 0, &mut draws);
//!         draws
//!     })
//!     .collect();
//! assert!(r_hat(&chains) < 1.01);
//! assert!(ess_bulk(&chains) > 1_000.0);
//! ```

mod autocorrelation;
mod chains;
mod ess;
mod fft;
mod mcse;
mod quantile;
mod rank;
mod rhat;
mod special;
mod stein;
mod stein_test;
mod summary;
mod verdict;

pub use autocorrelation::{autocorrelation, autocovariance};
pub use ess::{ess_bulk, ess_mean, ess_quantile, ess_sd, ess_tail, integrated_time};
pub use mcse::{mcse_mean, mcse_quantile, mcse_sd};
pub use quantile::quantile;
pub use rank::rank_normalised;
pub use rhat::r_hat;
pub use stein::{Scale, Stein, SteinSettings, stein_discrepancy};
pub use stein_test::{FalseAlarms, SteinTest, stein_test};
pub use summary::{Row, Summary};
pub use verdict::{Trouble, Verdict};
