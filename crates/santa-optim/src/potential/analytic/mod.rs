//! Potentials with known answers, to test and compare dynamics on.
//!
//! | type | U | known |
//! | --- | --- | --- |
//! | [`Gaussian`] | quadratic, any covariance | exact samples, mean, covariance |
//! | [`DoubleWell`] | the paper's quartic with two minima | the minima and the barrier |
//! | [`Wavy`] | a sine on a parabola | expectations by quadrature |
//! | [`Rosenbrock`] | the curved valley | the minimum |
//! | [`Mixture`] | several modes | exact samples |
//! | [`LinearRegression`] | a posterior over N data | mean and covariance |
//! | [`LogisticRegression`] | a posterior over N data | the parameters that made the data |
//!
//! All of them compute in `f64` and round the gradient to the parameters' type.

mod double_well;
mod gaussian;
mod linear_algebra;
mod linear_regression;
mod logistic_regression;
mod mixture;
mod rosenbrock;
mod wavy;

pub use double_well::DoubleWell;
pub use gaussian::Gaussian;
pub use linear_regression::LinearRegression;
pub use logistic_regression::LogisticRegression;
pub use mixture::Mixture;
pub use rosenbrock::Rosenbrock;
pub use wavy::Wavy;

use super::check_lengths;
use crate::error::{Error, Result};
use crate::real::Real;
use crate::target::Target;

/// Adds up `u` over the parameters and writes `du`: a sum of one-dimensional potentials.
fn separable<F: Real>(
    target: &Target,
    theta: &[F],
    gradient: &mut [F],
    u: impl Fn(f64) -> f64,
    du: impl Fn(f64) -> f64,
) -> Result<f64> {
    check_lengths(target, theta, gradient)?;
    let mut sum = 0.0;
    for (x, g) in theta.iter().zip(gradient) {
        let x = x.to_f64();
        sum += u(x);
        *g = F::from_f64(du(x));
    }
    Ok(sum)
}

/// Refuses a NaN or an infinity among the numbers that define a potential.
fn check_finite(field: &str, values: &[f64]) -> Result<()> {
    match values.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(i) => Err(Error::setting(format!("{field}[{i}]"), values[i], "it must be finite")),
    }
}
