//! Models that can be simulated: parameters from the prior, data from the parameters.

use crate::error::{Error, Result};
use santa::noise::Stream;
use santa::potential::analytic::{LinearRegression, LogisticRegression};
use santa::potential::{Batch, Potential};
use santa::{Segment, Target};

/// A prior and a likelihood that one can draw from, and the posterior that they make.
///
/// The three must belong together, and that is what the tests of this module test: a posterior
/// with another prior, another N or another noise than the simulator's fails them, as does a
/// sampler that is wrong.
pub trait Model {
    /// The posterior of simulated data.
    type Posterior: Potential<f64>;

    /// Parameters from the prior: draw number `draw` of the stream.
    fn draw_prior(&self, stream: &Stream, draw: u64) -> Result<Vec<f64>>;

    /// The posterior of data that these parameters make. Draws number `draw` of the stream, other
    /// ones than [`Model::draw_prior`] uses.
    fn simulate(&self, theta: &[f64], stream: &Stream, draw: u64) -> Result<Self::Posterior>;
}

/// $\sum_n \log p(x_n \mid \theta)$ over all data.
pub fn log_likelihood(posterior: &mut impl Potential<f64>, theta: &[f64]) -> Result<f64> {
    let n = posterior.target().data_size().as_f64();
    Ok(-n * posterior.loss(theta, &Batch::full())?)
}

/// Names of the parameters of a target, one by one: the segment's name and the place in it.
pub fn parameter_names(target: &Target) -> Vec<String> {
    let of = |segment: &Segment| {
        let name = segment.name().to_string();
        (0..segment.range().len()).map(move |i| format!("{name}[{i}]"))
    };
    target.layout().segments().iter().flat_map(of).collect()
}

/// Segments of a model's stream: one for each kind of number.
const FEATURES: u32 = 0;
const PARAMETERS: u32 = 1;
const RESPONSES: u32 = 2;

/// Standard normal features, and what a regression is made of besides.
#[derive(Clone, Debug)]
struct Design {
    features: Vec<f64>,
    dim: usize,
    prior_precision: f64,
}

impl Design {
    fn new(n: usize, dim: usize, prior_precision: f64, stream: &Stream) -> Result<Self> {
        super::check_count("n", n as u64, 1)?;
        super::check_count("dim", dim as u64, 1)?;
        if !(prior_precision > 0.0 && prior_precision.is_finite()) {
            let allowed = "simulating needs a proper prior: positive and finite";
            return Err(Error::setting("prior_precision", prior_precision, allowed));
        }
        let mut features = vec![0.0; n * dim];
        stream.normals(0, FEATURES, 0, &mut features);
        Ok(Design { features, dim, prior_precision })
    }
    fn n(&self) -> usize {
        self.features.len() / self.dim
    }
    fn draw_prior(&self, stream: &Stream, draw: u64) -> Vec<f64> {
        let mut theta = vec![0.0; self.dim];
        stream.normals(draw, PARAMETERS, 0, &mut theta);
        theta.iter_mut().for_each(|x| *x /= self.prior_precision.sqrt());
        theta
    }
    /// The predictors $x_n^\top\theta$.
    fn predictors(&self, theta: &[f64]) -> Result<Vec<f64>> {
        if theta.len() != self.dim {
            return Err(Error::data(format!(
                "{} parameters where the model has {}",
                theta.len(),
                self.dim
            )));
        }
        let dot = |x: &[f64]| x.iter().zip(theta).map(|(a, b)| a * b).sum();
        Ok(self.features.chunks_exact(self.dim).map(dot).collect())
    }
}

/// Linear regression with noise of known variance and a Gaussian prior; its posterior is exact.
///
/// $$ \theta \sim \mathcal N(0, \lambda^{-1} I), \qquad y_n \mid \theta \sim \mathcal N(x_n^\top\theta, s^2) $$
#[derive(Clone, Debug)]
pub struct LinearModel {
    design: Design,
    noise_variance: f64,
}

impl LinearModel {
    /// `n` data with standard normal features, which are drawn once and stay.
    pub fn new(
        n: usize,
        dim: usize,
        noise_variance: f64,
        prior_precision: f64,
        stream: &Stream,
    ) -> Result<Self> {
        if !(noise_variance > 0.0 && noise_variance.is_finite()) {
            let allowed = "it must be positive and finite";
            return Err(Error::setting("noise_variance", noise_variance, allowed));
        }
        Ok(LinearModel { design: Design::new(n, dim, prior_precision, stream)?, noise_variance })
    }
}

impl Model for LinearModel {
    type Posterior = LinearRegression;

    fn draw_prior(&self, stream: &Stream, draw: u64) -> Result<Vec<f64>> {
        Ok(self.design.draw_prior(stream, draw))
    }

    fn simulate(&self, theta: &[f64], stream: &Stream, draw: u64) -> Result<LinearRegression> {
        let Design { features, prior_precision, .. } = &self.design;
        let mut responses = vec![0.0; self.design.n()];
        stream.normals(draw, RESPONSES, 0, &mut responses);
        for (y, predictor) in responses.iter_mut().zip(self.design.predictors(theta)?) {
            *y = predictor + self.noise_variance.sqrt() * *y;
        }
        let (noise, prior) = (self.noise_variance, *prior_precision);
        Ok(LinearRegression::new(features.clone(), responses, noise, prior)?)
    }
}

/// Logistic regression with a Gaussian prior.
///
/// $$ \theta \sim \mathcal N(0, \lambda^{-1} I), \qquad P(y_n = 1 \mid \theta) = \frac{1}{1 + e^{-x_n^\top\theta}} $$
#[derive(Clone, Debug)]
pub struct LogisticModel {
    design: Design,
}

impl LogisticModel {
    /// `n` data with standard normal features, which are drawn once and stay.
    pub fn new(n: usize, dim: usize, prior_precision: f64, stream: &Stream) -> Result<Self> {
        if u32::try_from(n).is_err() {
            return Err(Error::setting("n", n, "at most 2^32 - 1 data"));
        }
        Ok(LogisticModel { design: Design::new(n, dim, prior_precision, stream)? })
    }
}

impl Model for LogisticModel {
    type Posterior = LogisticRegression;

    fn draw_prior(&self, stream: &Stream, draw: u64) -> Result<Vec<f64>> {
        Ok(self.design.draw_prior(stream, draw))
    }

    fn simulate(&self, theta: &[f64], stream: &Stream, draw: u64) -> Result<LogisticRegression> {
        let labels = self
            .design
            .predictors(theta)?
            .iter()
            .zip(0..)
            .map(|(z, i)| stream.uniform(draw, RESPONSES, i) < 1.0 / (1.0 + (-z).exp()))
            .collect();
        let Design { features, prior_precision, .. } = &self.design;
        Ok(LogisticRegression::new(features.clone(), labels, *prior_precision)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::Purpose;
    use santa::stats::Moments;

    const STREAM: fn(u64) -> Stream = |seed| Stream::new(seed, 0, Purpose::Data);

    /// The score at the parameters that made the data has mean zero, and its mean square is the
    /// information: five standard errors.
    #[test]
    fn simulated_data_belong_to_the_posterior_that_comes_with_them() {
        let linear = LinearModel::new(30, 2, 4.0, 1.0, &STREAM(1)).unwrap();
        let logistic = LogisticModel::new(30, 2, 1.0, &STREAM(1)).unwrap();
        fn scores<M: Model>(model: &M) -> Moments {
            let theta = [0.7, -0.4];
            let score = |draw| {
                let mut posterior = model.simulate(&theta, &STREAM(2), draw).unwrap();
                let mut gradient = [0.0; 2];
                posterior.loss_gradient(&theta, &Batch::full(), &mut gradient).unwrap();
                gradient[0]
            };
            (0..2000).map(score).collect()
        }
        for m in [scores(&linear), scores(&logistic)] {
            assert!(m.mean().abs() < 5.0 * m.standard_error(), "{m:?}");
        }
        // Var(sum over n of x_n e_n / s^2) / N^2 = sum of x_n^2 / (s^2 N^2) for the linear model.
        let squares: f64 = linear.design.features.iter().step_by(2).map(|x| x * x).sum();
        let expected = squares / (4.0 * 900.0);
        let found = scores(&linear).variance();
        // The relative error of a variance of 2000 numbers is sqrt(2 / 2000) = 3 %.
        assert!((found / expected - 1.0).abs() < 0.16, "{found} {expected}");
    }

    #[test]
    fn the_prior_has_its_precision() {
        let model = LogisticModel::new(10, 3, 4.0, &STREAM(1)).unwrap();
        let square = |draw| model.draw_prior(&STREAM(3), draw).unwrap()[1].powi(2);
        let m: Moments = (0..4000).map(square).collect();
        assert!((m.mean() - 0.25).abs() < 5.0 * m.standard_error(), "{m:?}");
    }

    #[test]
    fn models_that_cannot_be_simulated_are_refused() {
        assert!(LinearModel::new(0, 2, 1.0, 1.0, &STREAM(1)).is_err());
        assert!(LinearModel::new(5, 2, 0.0, 1.0, &STREAM(1)).is_err());
        assert!(LogisticModel::new(5, 0, 1.0, &STREAM(1)).is_err());
        let flat = LogisticModel::new(5, 2, 0.0, &STREAM(1)).unwrap_err();
        assert!(flat.to_string().contains("proper prior"));
        let model = LogisticModel::new(5, 2, 1.0, &STREAM(1)).unwrap();
        assert!(model.simulate(&[1.0], &STREAM(1), 0).is_err());
    }

    #[test]
    fn parameters_have_names() {
        let model = LinearModel::new(5, 2, 1.0, 1.0, &STREAM(1)).unwrap();
        let posterior = model.simulate(&[0.0; 2], &STREAM(1), 0).unwrap();
        assert_eq!(parameter_names(posterior.target()).len(), 2);
    }
}
