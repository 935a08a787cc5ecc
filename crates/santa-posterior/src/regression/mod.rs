//! Regression models as fast potentials.
//!
//! A [`Table`] from a CSV file (or slices of your own) gives a [`Design`]; a [`Design`], a response
//! and a [`Family`] give a [`Regression`], which is a [`santa::Potential`] for [`santa::Chain`].
//!
//! | to have | use |
//! | --- | --- |
//! | linear regression with unknown or known noise | [`Family::Gaussian`] |
//! | logistic regression | [`Family::Bernoulli`] |
//! | linear regression that outliers do not pull along | [`Family::StudentT`] |
//! | minibatch gradients with little noise | [`Regression::with_anchor`] |
//! | the mode and the curvature there | [`Regression::laplace`] |
//! | all modes, where outliers allow several | [`Regression::modes`] |
//! | chains for a [`Sampler`](crate::sampler::Sampler), with all of it | [`Regression::prepare`] |
//! | half the memory traffic | `Regression<f32>` |

mod cholesky;
mod csv;
mod design;
mod family;
mod kernel;
mod laplace;
mod lines;
mod modes;
mod pass;
mod potential;
mod prepared;

pub use csv::Table;
pub use design::{Design, INTERCEPT, Scaling};
pub use family::{DEGREES, Family, Sigma};
pub use laplace::Laplace;
pub use lines::Arithmetic;
pub use potential::{COEFFICIENTS, LOG_SIGMA, Regression, SIGMA};
pub use prepared::Prepared;

#[cfg(test)]
mod tests;
