//! A parabola with waves, to measure an integrator's order on.

use super::separable;
use crate::error::Result;
use crate::potential::{Batch, Potential};
use crate::real::Real;
use crate::target::Target;

/// A sine on a parabola, in `dim` independent copies. Not quadratic, not symmetric: the errors of an
/// integrator do not cancel on it as they may on a Gaussian.
///
/// $$ U(\theta) = \sum_i \tfrac12 \theta_i^2 + \sin(1.5\ \theta_i) $$
///
/// ```
/// use santa::potential::analytic::Wavy;
/// use santa::stats::expectation;
///
/// // E[U] at temperature 1, by quadrature.
/// let mean = expectation((-12.0, 12.0), Wavy::u, Wavy::u);
/// assert!(mean.is_finite());
/// ```
#[derive(Clone, Debug)]
pub struct Wavy {
    target: Target,
}

impl Wavy {
    /// The waves' angular frequency.
    pub const FREQUENCY: f64 = 1.5;

    /// `dim` copies.
    pub fn new(dim: usize) -> Result<Self> {
        Ok(Wavy { target: Target::density(dim)? })
    }
    /// The target: a density.
    pub fn target(&self) -> &Target {
        &self.target
    }
    /// U of one copy.
    pub fn u(x: f64) -> f64 {
        0.5 * x * x + (Self::FREQUENCY * x).sin()
    }
    /// Its slope.
    pub fn du(x: f64) -> f64 {
        x + Self::FREQUENCY * (Self::FREQUENCY * x).cos()
    }
}

impl<F: Real> Potential<F> for Wavy {
    fn target(&self) -> &Target {
        &self.target
    }
    fn loss_gradient(&mut self, theta: &[F], _: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        separable(&self.target, theta, gradient, Self::u, Self::du)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing;
    use super::*;

    #[test]
    fn the_slope_is_that_of_the_waves() {
        let mut wavy = Wavy::new(4).unwrap();
        testing::gradient_matches_differences(&mut wavy, &Batch::full());
        testing::precisions_agree(&mut wavy, &Batch::full());
        testing::wrong_lengths_are_refused(&mut wavy);
    }
}
