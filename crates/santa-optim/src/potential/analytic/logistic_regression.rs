//! Bayesian logistic regression.

use super::check_finite;
use super::linear_regression::{NOISE, dot, draw_features, regression_target};
use crate::error::{Error, Result};
use crate::noise::Stream;
use crate::potential::{Batch, Potential, check_lengths};
use crate::real::Real;
use crate::target::Target;

/// Logistic regression of labels $y_n \in \lbrace 0, 1 \rbrace$ with a Gaussian prior.
///
/// $$ -\log p(y_n \mid \theta) = \log(1 + e^{-z_n}), \qquad z_n = \pm x_n^\top\theta
///    \ \text{ for } y_n = 1, 0 $$
///
/// ```
/// use santa::noise::{Purpose, Stream};
/// use santa::potential::analytic::LogisticRegression;
///
/// let stream = Stream::new(1, 0, Purpose::Data);
/// let (model, truth) = LogisticRegression::synthetic(1_000, 5, 1.0, &stream)?;
/// assert_eq!((model.labels().len(), truth.len()), (1_000, 5));
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LogisticRegression {
    target: Target,
    /// N rows of `dim` features.
    features: Vec<f64>,
    labels: Vec<bool>,
    /// The gradient before it is rounded.
    sum: Vec<f64>,
}

impl LogisticRegression {
    /// From N labels and N rows of features.
    pub fn new(features: Vec<f64>, labels: Vec<bool>, prior_precision: f64) -> Result<Self> {
        check_finite("features", &features)?;
        let target = regression_target(&features, labels.len(), prior_precision)?;
        let sum = vec![0.0; target.dim()];
        Ok(LogisticRegression { target, features, labels, sum })
    }

    /// `n` data with standard normal features, and the parameters that made them: those are drawn
    /// from the prior.
    pub fn synthetic(
        n: usize,
        dim: usize,
        prior_precision: f64,
        stream: &Stream,
    ) -> Result<(Self, Vec<f64>)> {
        if u32::try_from(n).is_err() {
            return Err(Error::setting("n", n, "at most 2^32 - 1 data"));
        }
        let (features, theta) = draw_features(n, dim, prior_precision, stream)?;
        let labels = features
            .chunks_exact(dim)
            .enumerate()
            .map(|(i, x)| stream.uniform(NOISE, 0, i as u32) < sigmoid(dot(x, &theta)))
            .collect();
        Ok((Self::new(features, labels, prior_precision)?, theta))
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
    /// The labels.
    pub fn labels(&self) -> &[bool] {
        &self.labels
    }
    /// The probability of label 1 for a row of features.
    pub fn probability<F: Real>(features: &[f64], theta: &[F]) -> f64 {
        sigmoid(dot(features, theta))
    }
}

impl<F: Real> Potential<F> for LogisticRegression {
    fn target(&self) -> &Target {
        &self.target
    }

    fn loss_gradient(&mut self, theta: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        check_lengths(&self.target, theta, gradient)?;
        batch.check(self.target.data_size())?;
        let (n, dim) = (self.labels.len(), theta.len());
        let mut loss = 0.0;
        self.sum.fill(0.0);
        for i in batch.iter(n) {
            let x = &self.features[i * dim..(i + 1) * dim];
            let sign = if self.labels[i] { 1.0 } else { -1.0 };
            let z = sign * dot(x, theta);
            // log(1 + e^-z), without overflow for a large negative z.
            loss += (-z).max(0.0) + (-z.abs()).exp().ln_1p();
            let slope = -sign * sigmoid(-z);
            for (sum, x) in self.sum.iter_mut().zip(x) {
                *sum += slope * x;
            }
        }
        let weight = 1.0 / batch.len(n) as f64;
        for (g, sum) in gradient.iter_mut().zip(&self.sum) {
            *g = F::from_f64(sum * weight);
        }
        Ok(loss * weight)
    }
}

/// $1 / (1 + e^{-z})$, which an overflow of the exponential takes to 0 as it should.
fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

#[cfg(test)]
mod tests {
    use super::super::super::testing;
    use super::*;
    use crate::noise::Purpose;

    fn model(n: usize) -> (LogisticRegression, Vec<f64>) {
        LogisticRegression::synthetic(n, 4, 1.0, &Stream::new(1, 0, Purpose::Data)).unwrap()
    }

    #[test]
    fn the_gradient_is_that_of_the_mean_loss() {
        let mut model = model(200).0;
        for batch in [Batch::full(), Batch::of(&[3, 141, 59])] {
            testing::gradient_matches_differences(&mut model, &batch);
            testing::precisions_agree(&mut model, &batch);
        }
        testing::wrong_lengths_are_refused(&mut model);
        assert!(model.loss(&[0.0f64; 4], &Batch::of(&[200])).is_err());
    }

    #[test]
    fn a_hopeless_prediction_has_a_finite_loss() {
        let mut model = LogisticRegression::new(vec![1.0], vec![true], 1.0).unwrap();
        let mut gradient = [0.0f64];
        let loss = model.loss_gradient(&[-1e4], &Batch::full(), &mut gradient).unwrap();
        assert_eq!((loss, gradient[0]), (1e4, -1.0));
    }

    /// The score at the true parameters has mean zero and covariance X^T diag(p (1 - p)) X.
    #[test]
    fn synthetic_labels_follow_the_parameters() {
        let score = |scale: f64| {
            let (mut model, truth) = model(20_000);
            let theta: Vec<f64> = truth.iter().map(|x| scale * x).collect();
            let mut gradient = vec![0.0; 4];
            model.loss_gradient(&theta, &Batch::full(), &mut gradient).unwrap();
            let n = model.labels.len() as f64;
            (0..4)
                .map(|i| {
                    let information: f64 = model
                        .features
                        .chunks_exact(4)
                        .map(|x| {
                            let p = LogisticRegression::probability(x, &theta);
                            p * (1.0 - p) * x[i] * x[i]
                        })
                        .sum();
                    (gradient[i] * n / information.sqrt()).abs()
                })
                .fold(0.0, f64::max)
        };
        assert!(score(1.0) < 5.0);
        // Negative control.
        assert!(score(0.5) > 5.0);
    }

    #[test]
    fn impossible_regressions_are_refused() {
        assert!(LogisticRegression::new(vec![1.0; 3], vec![true; 2], 1.0).is_err());
        assert!(LogisticRegression::new(vec![f64::INFINITY], vec![true], 1.0).is_err());
        assert!(LogisticRegression::new(vec![1.0], vec![true], 0.0).is_err());
    }
}
