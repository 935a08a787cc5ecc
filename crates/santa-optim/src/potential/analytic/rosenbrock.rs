//! Rosenbrock's curved valley.

use crate::error::{Error, Result, check};
use crate::potential::{Batch, Potential, check_lengths};
use crate::real::Real;
use crate::target::Target;

/// Rosenbrock's valley in two dimensions or more, its least value 0 at $(1, \dots, 1)$.
///
/// $$ U(\theta) = \frac{1}{T} \sum_{i=1}^{d-1} 100\ (\theta_{i+1} - \theta_i^2)^2 + (1 - \theta_i)^2 $$
///
/// T widens the law $e^{-U}$ along the valley without moving it; 20 is a usual choice.
///
/// ```
/// use santa::potential::analytic::Rosenbrock;
///
/// let valley = Rosenbrock::new(5, 1.0)?;
/// assert_eq!(valley.u(&[1.0; 5]), 0.0);
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rosenbrock {
    target: Target,
    temperature: f64,
}

impl Rosenbrock {
    /// How much steeper the walls are than the valley's floor.
    pub const STEEPNESS: f64 = 100.0;

    /// In `dim` dimensions (at least 2), divided by `temperature`.
    pub fn new(dim: usize, temperature: f64) -> Result<Self> {
        if dim < 2 {
            return Err(Error::setting("rosenbrock.dim", dim, "the valley needs at least 2"));
        }
        check::positive("rosenbrock.temperature", temperature)?;
        Ok(Rosenbrock { target: Target::density(dim)?, temperature })
    }
    /// The target: a density.
    pub fn target(&self) -> &Target {
        &self.target
    }
    /// U.
    pub fn u(&self, theta: &[f64]) -> f64 {
        let term = |w: &[f64]| {
            let (wall, floor) = (w[1] - w[0] * w[0], 1.0 - w[0]);
            Self::STEEPNESS * wall * wall + floor * floor
        };
        theta.windows(2).map(term).sum::<f64>() / self.temperature
    }
}

impl<F: Real> Potential<F> for Rosenbrock {
    fn target(&self) -> &Target {
        &self.target
    }

    fn loss_gradient(&mut self, theta: &[F], _: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        check_lengths(&self.target, theta, gradient)?;
        let mut u = 0.0;
        // What the term of i gives to the slope of i + 1.
        let mut passed_on = 0.0;
        for i in 0..theta.len() - 1 {
            let (x, next) = (theta[i].to_f64(), theta[i + 1].to_f64());
            let (wall, floor) = (next - x * x, 1.0 - x);
            u += Self::STEEPNESS * wall * wall + floor * floor;
            let slope = passed_on - 2.0 * (2.0 * Self::STEEPNESS * wall * x + floor);
            gradient[i] = F::from_f64(slope / self.temperature);
            passed_on = 2.0 * Self::STEEPNESS * wall;
        }
        gradient[theta.len() - 1] = F::from_f64(passed_on / self.temperature);
        Ok(u / self.temperature)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing;
    use super::*;

    #[test]
    fn the_gradient_is_that_of_the_valley() {
        for (dim, temperature) in [(2, 1.0), (5, 20.0)] {
            let mut valley = Rosenbrock::new(dim, temperature).unwrap();
            testing::gradient_matches_differences(&mut valley, &Batch::full());
            testing::precisions_agree(&mut valley, &Batch::full());
            testing::wrong_lengths_are_refused(&mut valley);
            let theta = vec![0.3; dim];
            assert!((valley.u(&theta) - valley.energy(&theta).unwrap()).abs() < 1e-12);
        }
    }

    #[test]
    fn impossible_valleys_are_refused() {
        assert!(Rosenbrock::new(1, 1.0).is_err());
        assert!(Rosenbrock::new(2, 0.0).is_err());
        assert!(Rosenbrock::new(2, f64::NAN).is_err());
    }
}
