//! Bayesian linear regression, with its exact posterior.

use super::check_finite;
use super::linear_algebra::{cholesky, inverse, solve};
use crate::error::{Error, Result, check};
use crate::layout::Layout;
use crate::noise::Stream;
use crate::potential::{Batch, Potential, check_lengths};
use crate::real::Real;
use crate::target::{DataSize, Prior, Target};

/// Linear regression with noise of known variance $s^2$ and a Gaussian prior of precision
/// $\lambda$.
///
/// $$ -\log p(y_n \mid \theta) = \frac{(y_n - x_n^\top\theta)^2}{2 s^2} + \tfrac12 \log 2\pi s^2
///    \qquad
///    \theta \mid y \sim \mathcal N(A^{-1} X^\top y / s^2,\ A^{-1}), \quad
///    A = X^\top X / s^2 + \lambda I $$
///
/// ```
/// use santa::noise::{Purpose, Stream};
/// use santa::potential::analytic::LinearRegression;
///
/// let stream = Stream::new(1, 0, Purpose::Data);
/// let (model, truth) = LinearRegression::synthetic(500, 3, 0.25, 1.0, &stream)?;
/// let (mean, covariance) = model.posterior()?;
/// assert!((mean[0] - truth[0]).abs() < 6.0 * covariance[0].sqrt());
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LinearRegression {
    target: Target,
    /// N rows of `dim` features.
    features: Vec<f64>,
    responses: Vec<f64>,
    noise_variance: f64,
    prior_precision: f64,
    /// The gradient before it is rounded.
    sum: Vec<f64>,
}

impl LinearRegression {
    /// From N responses and N rows of features.
    pub fn new(
        features: Vec<f64>,
        responses: Vec<f64>,
        noise_variance: f64,
        prior_precision: f64,
    ) -> Result<Self> {
        check::positive("noise_variance", noise_variance)?;
        check_finite("features", &features)?;
        check_finite("responses", &responses)?;
        let target = regression_target(&features, responses.len(), prior_precision)?;
        let sum = vec![0.0; target.dim()];
        Ok(LinearRegression { target, features, responses, noise_variance, prior_precision, sum })
    }

    /// `n` data with standard normal features, and the parameters that made them: those are drawn
    /// from the prior.
    pub fn synthetic(
        n: usize,
        dim: usize,
        noise_variance: f64,
        prior_precision: f64,
        stream: &Stream,
    ) -> Result<(Self, Vec<f64>)> {
        check::positive("noise_variance", noise_variance)?;
        let (features, theta) = draw_features(n, dim, prior_precision, stream)?;
        let mut responses = vec![0.0; n];
        stream.normals(NOISE, 0, 0, &mut responses);
        for (y, x) in responses.iter_mut().zip(features.chunks_exact(dim)) {
            *y = dot(x, &theta) + noise_variance.sqrt() * *y;
        }
        Ok((Self::new(features, responses, noise_variance, prior_precision)?, theta))
    }

    /// The target: N data, a Gaussian prior.
    pub fn target(&self) -> &Target {
        &self.target
    }
    /// Features of a datum.
    ///
    /// # Panics
    /// If there is no such datum.
    pub fn features(&self, datum: usize) -> &[f64] {
        &self.features[datum * self.target.dim()..(datum + 1) * self.target.dim()]
    }
    /// The responses.
    pub fn responses(&self) -> &[f64] {
        &self.responses
    }

    /// Mean and covariance (row-major) of the exact posterior.
    pub fn posterior(&self) -> Result<(Vec<f64>, Vec<f64>)> {
        let dim = self.target.dim();
        let mut a = vec![0.0; dim * dim];
        let mut mean = vec![0.0; dim];
        for (x, y) in self.features.chunks_exact(dim).zip(&self.responses) {
            for i in 0..dim {
                mean[i] += x[i] * y / self.noise_variance;
                for j in 0..dim {
                    a[i * dim + j] += x[i] * x[j] / self.noise_variance;
                }
            }
        }
        for i in 0..dim {
            a[i * dim + i] += self.prior_precision;
        }
        let factor = cholesky("the posterior precision", &a, dim)?;
        solve(&factor, dim, &mut mean);
        Ok((mean, inverse(&factor, dim)))
    }
}

impl<F: Real> Potential<F> for LinearRegression {
    fn target(&self) -> &Target {
        &self.target
    }

    fn loss_gradient(&mut self, theta: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        check_lengths(&self.target, theta, gradient)?;
        batch.check(self.target.data_size())?;
        let (n, dim) = (self.responses.len(), theta.len());
        let mut squares = 0.0;
        self.sum.fill(0.0);
        for i in batch.iter(n) {
            let x = &self.features[i * dim..(i + 1) * dim];
            let residual = dot(x, theta) - self.responses[i];
            squares += residual * residual;
            for (sum, x) in self.sum.iter_mut().zip(x) {
                *sum += residual * x;
            }
        }
        let weight = 1.0 / (batch.len(n) as f64 * self.noise_variance);
        for (g, sum) in gradient.iter_mut().zip(&self.sum) {
            *g = F::from_f64(sum * weight);
        }
        let normaliser = 0.5 * (std::f64::consts::TAU * self.noise_variance).ln();
        Ok(0.5 * squares * weight + normaliser)
    }
}

/// Draws of the stream behind synthetic data.
const FEATURES: u64 = 0;
const PARAMETERS: u64 = 1;
/// What makes the responses differ from their mean.
pub(super) const NOISE: u64 = 2;

/// Features, row by row, and parameters drawn from the prior.
pub(super) fn draw_features(
    n: usize,
    dim: usize,
    prior_precision: f64,
    stream: &Stream,
) -> Result<(Vec<f64>, Vec<f64>)> {
    check::positive("prior_precision", prior_precision)?;
    let len = n.checked_mul(dim).filter(|len| *len > 0).ok_or_else(|| {
        Error::Structure(format!("{n} data of {dim} features: there must be some of both"))
    })?;
    let mut features = vec![0.0; len];
    stream.normals(FEATURES, 0, 0, &mut features);
    let mut theta = vec![0.0; dim];
    stream.normals(PARAMETERS, 0, 0, &mut theta);
    theta.iter_mut().for_each(|x| *x /= prior_precision.sqrt());
    Ok((features, theta))
}

/// The target of a regression with `n` rows of features.
pub(super) fn regression_target(
    features: &[f64],
    n: usize,
    prior_precision: f64,
) -> Result<Target> {
    let data_size = DataSize::new(n as u64)?;
    if features.is_empty() || !features.len().is_multiple_of(n) {
        return Err(Error::Structure(format!(
            "{} features do not make {n} rows of equal length",
            features.len()
        )));
    }
    Target::new(Layout::flat(features.len() / n)?, data_size, Prior::gaussian(prior_precision))
}

/// $x^\top\theta$
pub(super) fn dot<F: Real>(x: &[f64], theta: &[F]) -> f64 {
    x.iter().zip(theta).map(|(x, t)| x * t.to_f64()).sum()
}

#[cfg(test)]
mod tests {
    use super::super::super::testing;
    use super::*;
    use crate::noise::Purpose;

    fn model() -> (LinearRegression, Vec<f64>) {
        let stream = Stream::new(1, 0, Purpose::Data);
        LinearRegression::synthetic(200, 4, 0.25, 2.0, &stream).unwrap()
    }

    #[test]
    fn the_gradient_is_that_of_the_mean_loss() {
        let mut model = model().0;
        for batch in [Batch::full(), Batch::of(&[3, 141, 59])] {
            testing::gradient_matches_differences(&mut model, &batch);
            testing::precisions_agree(&mut model, &batch);
        }
        testing::wrong_lengths_are_refused(&mut model);
        assert!(model.loss(&[0.0f64; 4], &Batch::of(&[200])).is_err());
        assert!(model.loss(&[0.0f64; 4], &Batch::of(&[])).is_err());
    }

    /// At the posterior's mean the gradient of U vanishes, and U grows from there by the quadratic
    /// form of the covariance's inverse.
    #[test]
    fn the_posterior_is_the_law_of_the_energy() {
        let (mut model, truth) = model();
        let (mean, covariance) = model.posterior().unwrap();
        let mut gradient = vec![0.0; 4];
        model.loss_gradient(&mean, &Batch::full(), &mut gradient).unwrap();
        model.target.full_gradient(&mean, &mut gradient);
        assert!(gradient.iter().all(|g| g.abs() < 1e-9), "{gradient:?}");
        // Moving along column 0 of the covariance: delta^T A delta = covariance[0][0].
        let moved: Vec<f64> = (0..4).map(|i| mean[i] + covariance[i * 4]).collect();
        let rise = model.energy(&moved).unwrap() - model.energy(&mean).unwrap();
        assert!((rise - 0.5 * covariance[0]).abs() < 1e-9, "{rise}");
        for i in 0..4 {
            let score = (truth[i] - mean[i]) / covariance[i * 5].sqrt();
            assert!(score.abs() < 5.0, "{score}");
        }
    }

    #[test]
    fn synthetic_data_follow_the_stream() {
        let (a, b) = (model(), model());
        assert_eq!((a.0.features, a.1), (b.0.features, b.1));
        let other = Stream::new(2, 0, Purpose::Data);
        let c = LinearRegression::synthetic(200, 4, 0.25, 2.0, &other).unwrap();
        assert_ne!(a.0.responses, c.0.responses);
    }

    #[test]
    fn impossible_regressions_are_refused() {
        assert!(LinearRegression::new(vec![1.0; 5], vec![1.0; 2], 1.0, 1.0).is_err());
        assert!(LinearRegression::new(vec![], vec![1.0], 1.0, 1.0).is_err());
        assert!(LinearRegression::new(vec![], vec![], 1.0, 1.0).is_err());
        assert!(LinearRegression::new(vec![1.0], vec![f64::NAN], 1.0, 1.0).is_err());
        assert!(LinearRegression::new(vec![1.0], vec![1.0], 0.0, 1.0).is_err());
        assert!(LinearRegression::new(vec![1.0], vec![1.0], 1.0, -1.0).is_err());
        let stream = Stream::new(1, 0, Purpose::Data);
        assert!(LinearRegression::synthetic(0, 4, 0.25, 2.0, &stream).is_err());
        assert!(LinearRegression::synthetic(4, 0, 0.25, 2.0, &stream).is_err());
    }
}
