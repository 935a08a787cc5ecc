//! A Gaussian of any covariance.

use super::check_finite;
use super::linear_algebra::{cholesky, inverse};
use crate::error::{Result, check};
use crate::noise::Stream;
use crate::potential::{Batch, Potential, check_lengths};
use crate::real::Real;
use crate::target::Target;

/// A Gaussian with mean $\mu$ and precision $\Lambda = \Sigma^{-1}$.
///
/// $$ U(\theta) = \tfrac12 (\theta - \mu)^\top \Lambda\ (\theta - \mu) $$
///
/// ```
/// use santa::noise::{Purpose, Stream};
/// use santa::potential::analytic::Gaussian;
///
/// let gaussian = Gaussian::from_covariance(vec![0.0, 1.0], &[2.0, 0.9, 0.9, 1.0])?;
/// let mut exact = [0.0f64; 2];
/// gaussian.sample(&Stream::new(1, 0, Purpose::Data), 0, &mut exact)?;
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gaussian {
    target: Target,
    mean: Vec<f64>,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// Standard deviations.
    Diagonal(Vec<f64>),
    /// Row-major; `factor` is the lower Cholesky factor of the covariance.
    Dense { precision: Vec<f64>, covariance: Vec<f64>, factor: Vec<f64> },
}

impl Gaussian {
    /// From the mean and the covariance (row-major, symmetric, positive definite).
    pub fn from_covariance(mean: Vec<f64>, covariance: &[f64]) -> Result<Self> {
        let dim = mean.len();
        let factor = cholesky("the covariance", covariance, dim)?;
        let precision = inverse(&factor, dim);
        Self::build(mean, Form::Dense { precision, covariance: covariance.to_vec(), factor })
    }

    /// From the mean and the precision, the covariance's inverse.
    pub fn from_precision(mean: Vec<f64>, precision: &[f64]) -> Result<Self> {
        let dim = mean.len();
        let covariance = inverse(&cholesky("the precision", precision, dim)?, dim);
        let factor = cholesky("the inverse of the precision", &covariance, dim)?;
        Self::build(mean, Form::Dense { precision: precision.to_vec(), covariance, factor })
    }

    /// Mean 0, independent parameters of these standard deviations. Takes memory in proportion to
    /// the dimension, where the others take its square.
    pub fn diagonal(scales: &[f64]) -> Result<Self> {
        for (i, scale) in scales.iter().enumerate() {
            check::positive(&format!("scales[{i}]"), *scale)?;
        }
        Self::build(vec![0.0; scales.len()], Form::Diagonal(scales.to_vec()))
    }

    fn build(mean: Vec<f64>, form: Form) -> Result<Self> {
        check_finite("mean", &mean)?;
        Ok(Gaussian { target: Target::density(mean.len())?, mean, form })
    }

    /// The target: a density.
    pub fn target(&self) -> &Target {
        &self.target
    }
    /// $\mu$
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }
    /// $\Sigma_{ij}$
    ///
    /// # Panics
    /// If `i` or `j` is not below the dimension.
    pub fn covariance(&self, i: usize, j: usize) -> f64 {
        match &self.form {
            Form::Diagonal(scale) if i == j => scale[i] * scale[i],
            Form::Diagonal(_) => 0.0,
            Form::Dense { covariance, .. } => covariance[i * self.mean.len() + j],
        }
    }

    /// An exact sample; other `draw`s of the stream give independent ones.
    pub fn sample<F: Real>(&self, stream: &Stream, draw: u64, out: &mut [F]) -> Result<()> {
        let dim = self.mean.len();
        self.target.layout().check_len("the sample", out.len())?;
        let mut z = vec![0.0; dim];
        stream.normals(draw, 0, 0, &mut z);
        for (i, x) in out.iter_mut().enumerate() {
            let deviation = match &self.form {
                Form::Diagonal(scale) => scale[i] * z[i],
                Form::Dense { factor, .. } => {
                    factor[i * dim..=i * dim + i].iter().zip(&z).map(|(l, z)| l * z).sum()
                }
            };
            *x = F::from_f64(self.mean[i] + deviation);
        }
        Ok(())
    }
}

impl<F: Real> Potential<F> for Gaussian {
    fn target(&self) -> &Target {
        &self.target
    }

    fn loss_gradient(&mut self, theta: &[F], _: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        check_lengths(&self.target, theta, gradient)?;
        let dim = self.mean.len();
        let offset = |i: usize| theta[i].to_f64() - self.mean[i];
        let mut u = 0.0;
        for i in 0..dim {
            let slope = match &self.form {
                Form::Diagonal(scale) => offset(i) / (scale[i] * scale[i]),
                Form::Dense { precision, .. } => {
                    (0..dim).map(|j| precision[i * dim + j] * offset(j)).sum()
                }
            };
            gradient[i] = F::from_f64(slope);
            u += 0.5 * offset(i) * slope;
        }
        Ok(u)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing;
    use super::*;
    use crate::noise::Purpose;

    const COVARIANCE: [f64; 9] = [4.0, 2.0, -1.0, 2.0, 5.0, 0.5, -1.0, 0.5, 3.0];

    fn dense() -> Gaussian {
        Gaussian::from_covariance(vec![1.0, -2.0, 0.5], &COVARIANCE).unwrap()
    }

    #[test]
    fn the_gradient_is_that_of_the_quadratic_form() {
        for mut gaussian in [dense(), Gaussian::diagonal(&[0.5, 1.0, 3.0]).unwrap()] {
            testing::gradient_matches_differences(&mut gaussian, &Batch::full());
            testing::precisions_agree(&mut gaussian, &Batch::full());
            testing::wrong_lengths_are_refused(&mut gaussian);
        }
    }

    #[test]
    fn a_diagonal_is_the_dense_one_without_correlations() {
        let scales = [0.5, 1.0, 3.0];
        let mut diagonal = Gaussian::diagonal(&scales).unwrap();
        let squares = [0.25, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 9.0];
        let mut full = Gaussian::from_covariance(vec![0.0; 3], &squares).unwrap();
        let theta = [0.3, -1.0, 2.0];
        let energy = diagonal.energy(&theta).unwrap();
        assert!((energy - full.energy(&theta).unwrap()).abs() < 1e-14);
        assert_eq!((diagonal.covariance(2, 2), diagonal.covariance(1, 2)), (9.0, 0.0));
    }

    #[test]
    fn precision_and_covariance_describe_the_same_law() {
        let by_covariance = dense();
        let Form::Dense { precision, .. } = &by_covariance.form else { unreachable!() };
        let mean = by_covariance.mean().to_vec();
        let by_precision = Gaussian::from_precision(mean, precision).unwrap();
        for i in 0..3 {
            for j in 0..3 {
                let (a, b) = (by_covariance.covariance(i, j), by_precision.covariance(i, j));
                assert!((a - b).abs() < 1e-12);
            }
        }
    }

    /// The largest z-score of the sample covariance against `covariance`; the variance of a product
    /// of two centred normals is $\Sigma_{ii}\Sigma_{jj} + \Sigma_{ij}^2$.
    fn worst_score(gaussian: &Gaussian, covariance: impl Fn(usize, usize) -> f64) -> f64 {
        let draws = 20_000;
        let stream = Stream::new(4, 0, Purpose::Data);
        let mut sums = [0.0; 9];
        let mut x = [0.0f64; 3];
        for draw in 0..draws {
            gaussian.sample(&stream, draw, &mut x).unwrap();
            for i in 0..3 {
                for j in 0..3 {
                    sums[i * 3 + j] += (x[i] - gaussian.mean[i]) * (x[j] - gaussian.mean[j]);
                }
            }
        }
        let mut worst: f64 = 0.0;
        for i in 0..3 {
            for j in 0..3 {
                let expected = covariance(i, j);
                let variance = covariance(i, i) * covariance(j, j) + expected * expected;
                let error = sums[i * 3 + j] / draws as f64 - expected;
                worst = worst.max(error.abs() / (variance / draws as f64).sqrt());
            }
        }
        worst
    }

    #[test]
    fn exact_samples_have_the_covariance() {
        let gaussian = dense();
        assert!(worst_score(&gaussian, |i, j| gaussian.covariance(i, j)) < 5.0);
        // Negative control: ten per cent more is noticed.
        assert!(worst_score(&gaussian, |i, j| 1.1 * gaussian.covariance(i, j)) > 5.0);
    }

    #[test]
    fn impossible_gaussians_are_refused() {
        assert!(Gaussian::from_covariance(vec![0.0; 2], &[1.0; 4]).is_err());
        assert!(Gaussian::from_precision(vec![f64::NAN], &[1.0]).is_err());
        assert!(Gaussian::diagonal(&[1.0, 0.0]).is_err());
        assert!(Gaussian::diagonal(&[]).is_err());
        assert!(dense().sample(&Stream::new(0, 0, Purpose::Data), 0, &mut [0.0f32; 2]).is_err());
    }
}
