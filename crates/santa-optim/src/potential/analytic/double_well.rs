//! The paper's double well.

use super::separable;
use crate::error::Result;
use crate::potential::{Batch, Potential};
use crate::real::Real;
use crate::target::Target;

/// The double well of section 4.1, in `dim` independent copies, so that many chains run as one
/// vector.
///
/// $$ U(\theta) = \sum_i \tfrac{1}{14} (\theta_i + 4)(\theta_i + 1)(\theta_i - 1)(\theta_i - 3)
///    {} + \tfrac12 $$
///
/// ```
/// use santa::potential::analytic::DoubleWell;
///
/// assert!(DoubleWell::u(DoubleWell::GLOBAL) < DoubleWell::u(DoubleWell::LOCAL));
/// assert!(DoubleWell::du(DoubleWell::BARRIER).abs() < 1e-12);
/// ```
#[derive(Clone, Debug)]
pub struct DoubleWell {
    target: Target,
}

impl DoubleWell {
    /// The global minimum, of depth -2.9377.
    pub const GLOBAL: f64 = -2.935_362_600_564_425_6;
    /// The local minimum, of depth -0.8614.
    pub const LOCAL: f64 = 2.223_663_518_364_088_3;
    /// The maximum between them, of height 1.3585.
    pub const BARRIER: f64 = -0.038_300_917_799_662_74;
    /// What the quartic is divided by.
    const DIVISOR: f64 = 14.0;

    /// `dim` copies.
    pub fn new(dim: usize) -> Result<Self> {
        Ok(DoubleWell { target: Target::density(dim)? })
    }
    /// The target: a density.
    pub fn target(&self) -> &Target {
        &self.target
    }
    /// U of one copy.
    pub fn u(x: f64) -> f64 {
        (x + 4.0) * (x + 1.0) * (x - 1.0) * (x - 3.0) / Self::DIVISOR + 0.5
    }
    /// Its slope, $(4x^3 + 3x^2 - 26x - 1)/14$.
    pub fn du(x: f64) -> f64 {
        (((4.0 * x + 3.0) * x - 26.0) * x - 1.0) / Self::DIVISOR
    }
}

impl<F: Real> Potential<F> for DoubleWell {
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
    fn the_slope_is_that_of_the_well() {
        let mut well = DoubleWell::new(4).unwrap();
        testing::gradient_matches_differences(&mut well, &Batch::full());
        testing::precisions_agree(&mut well, &Batch::full());
        testing::wrong_lengths_are_refused(&mut well);
    }

    #[test]
    fn the_stationary_points_are_where_the_constants_say() {
        for x in [DoubleWell::GLOBAL, DoubleWell::LOCAL, DoubleWell::BARRIER] {
            assert!(DoubleWell::du(x).abs() < 1e-14, "{x}: {}", DoubleWell::du(x));
        }
        // Values that the paper's figure shows.
        assert!((DoubleWell::u(DoubleWell::GLOBAL) + 2.94).abs() < 0.01);
        assert!((DoubleWell::u(DoubleWell::LOCAL) + 0.86).abs() < 0.01);
        let climb = DoubleWell::u(DoubleWell::BARRIER) - DoubleWell::u(DoubleWell::LOCAL);
        assert!((climb - 2.22).abs() < 0.01);
    }
}
