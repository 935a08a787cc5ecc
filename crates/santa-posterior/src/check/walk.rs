//! The samplers under test: any dynamics on minibatches, as a source of draws and as a transition.

use super::check_count;
use crate::error::{Error, Result};
use santa::potential::{Batch, Potential};
use santa::{Algorithm, Chain, Minibatches, Sampling, Stepper};

/// Dynamics, and which data each of their steps sees.
///
/// ```
/// use santa::dynamics::Msgnht;
/// use santa::noise::{Purpose, Stream};
/// use santa::potential::analytic::LinearRegression;
/// use santa::{Sampling, StepSize};
/// use santa_posterior::check::Walk;
///
/// let stream = Stream::new(1, 0, Purpose::Data);
/// let (mut posterior, _) = LinearRegression::synthetic(50, 2, 25.0, 1.0, &stream)?;
/// let walk = Walk::new(Msgnht::new(StepSize::paper(0.01, 2.0)), Sampling::WithReplacement, 10);
/// let draws = walk.draws(&mut posterior, vec![0.0; 2], (200, 20, 5), (42, 0))?;
/// assert_eq!(draws.len(), 5);
/// # Ok::<(), santa_posterior::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    /// The dynamics.
    pub algorithm: Algorithm,
    /// How the batches are drawn.
    pub sampling: Sampling,
    /// Data in a batch.
    pub batch_size: usize,
}

impl Walk {
    /// Any dynamics, on batches of this size.
    pub fn new(algorithm: impl Into<Algorithm>, sampling: Sampling, batch_size: usize) -> Self {
        Walk { algorithm: algorithm.into(), sampling, batch_size }
    }

    /// The chain of a seed and a number.
    pub fn chain<P: Potential<f64>>(
        &self,
        posterior: P,
        theta0: Vec<f64>,
        (seed, chain): (u64, u32),
    ) -> Result<Chain<f64, P>> {
        let stepper = Stepper::new(self.algorithm.clone(), posterior.target(), seed, chain)?;
        Ok(Chain::new(posterior, stepper, theta0, self.sampling, self.batch_size)?)
    }

    /// Draws for a [`Calibration`](super::Calibration): after `warm_up` steps every `every`-th
    /// one, `count` in all. They should be as good as independent.
    pub fn draws<P: Potential<f64>>(
        &self,
        posterior: P,
        theta0: Vec<f64>,
        (warm_up, every, count): (u64, u64, usize),
        (seed, chain): (u64, u32),
    ) -> Result<Vec<Vec<f64>>> {
        check_count("every", every, 1)?;
        let mut chain = self.chain(posterior, theta0, (seed, chain))?;
        chain.advance(warm_up)?;
        (0..count)
            .map(|_| {
                chain.advance(every)?;
                Ok(chain.theta().to_vec())
            })
            .collect()
    }

    /// A transition for a [`JointTest`](super::JointTest): `steps` steps on whatever posterior is
    /// handed over. Momenta and thermostats go on from one posterior to the next: their law does
    /// not depend on the data, but for what a thermostat has learned of the minibatches' noise.
    pub fn transition<P: Potential<f64>>(
        &self,
        steps: u64,
        (seed, chain): (u64, u32),
    ) -> impl FnMut(&mut P, &mut Vec<f64>) -> Result<()> + use<P> {
        let Walk { algorithm, sampling, batch_size } = self.clone();
        let mut stepper: Option<Stepper<f64>> = None;
        let mut position = 0;
        move |posterior, theta| {
            let moving = match stepper.take() {
                Some(stepper) => stepper,
                None => Stepper::new(algorithm.clone(), posterior.target(), seed, chain)?,
            };
            let n = posterior.target().data_size();
            let mut batches = Minibatches::new(n, batch_size, sampling, seed, chain)?;
            batches.seek(position);
            let theta0 = std::mem::take(theta);
            let mut chain = Chain::with_minibatches(posterior, moving, theta0, batches)?;
            chain.advance(steps)?;
            position = chain.minibatches().position();
            let (_, moved, end) = chain.into_parts();
            (stepper, *theta) = (Some(moved), end);
            Ok(())
        }
    }
}

/// The variance V of the stochastic gradient of U at `theta`, averaged over the parameters, for
/// batches drawn with replacement:
///
/// $$ V = \frac{N^2}{b} \cdot \frac1d \sum_i \mathrm{Var}_n \left( \partial_i \log p(x_n \mid \theta) \right) $$
///
/// What [`NoiseEstimate::GradientVariance`](santa::dynamics::NoiseEstimate::GradientVariance) asks
/// for. One gradient for each datum.
pub fn gradient_variance(
    posterior: &mut impl Potential<f64>,
    theta: &[f64],
    batch_size: usize,
) -> Result<f64> {
    check_count("batch_size", batch_size as u64, 1)?;
    let n = posterior.target().data_size().get();
    let Ok(count) = u32::try_from(n) else {
        return Err(Error::setting("data_size", n, "at most 2^32 - 1 data"));
    };
    let dim = theta.len();
    let (mut mean, mut gradient) = (vec![0.0; dim], vec![0.0; dim]);
    posterior.loss_gradient(theta, &Batch::full(), &mut mean)?;
    let mut squares = 0.0;
    for datum in 0..count {
        posterior.loss_gradient(theta, &Batch::of(&[datum]), &mut gradient)?;
        squares += gradient.iter().zip(&mean).map(|(g, m)| (g - m).powi(2)).sum::<f64>();
    }
    let n = n as f64;
    Ok(n * n / batch_size as f64 * squares / (n * dim as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::StepSize;
    use santa::dynamics::Msgnht;
    use santa::noise::{Purpose, Stream};
    use santa::potential::analytic::LinearRegression;
    use santa::stats::Moments;

    fn posterior() -> LinearRegression {
        let stream = Stream::new(1, 0, Purpose::Data);
        LinearRegression::synthetic(50, 2, 25.0, 1.0, &stream).unwrap().0
    }
    fn walk() -> Walk {
        Walk::new(Msgnht::new(StepSize::paper(0.01, 2.0)), Sampling::ShuffledEpochs, 10)
    }

    #[test]
    fn a_transition_made_in_pieces_is_the_chain_in_one() {
        let mut chain = walk().chain(posterior(), vec![0.5; 2], (3, 1)).unwrap();
        chain.advance(21).unwrap();
        let mut theta = vec![0.5; 2];
        let mut transition = walk().transition(7, (3, 1));
        for _ in 0..3 {
            transition(&mut posterior(), &mut theta).unwrap();
        }
        assert_eq!(theta, chain.theta());
    }

    /// V against the spread of the gradients of batches that were really drawn.
    #[test]
    fn the_gradients_of_batches_vary_as_estimated() {
        let mut model = posterior();
        let theta = [0.3, -0.2];
        let v = gradient_variance(&mut model, &theta, 10).unwrap();
        let n = model.target().data_size();
        let mut batches = Minibatches::new(n, 10, Sampling::WithReplacement, 1, 0).unwrap();
        let mut gradient = [0.0; 2];
        let mut spread = [Moments::default(); 2];
        for _ in 0..20_000 {
            model.loss_gradient(&theta, &Batch::of(batches.next()), &mut gradient).unwrap();
            (0..2).for_each(|i| spread[i].push(50.0 * gradient[i]));
        }
        let found = (spread[0].variance() + spread[1].variance()) / 2.0;
        // The relative error of a variance of 20,000 numbers is 1 %.
        assert!((found / v - 1.0).abs() < 0.05, "{found} {v}");
    }

    #[test]
    fn impossible_walks_are_refused() {
        let wide = Walk { batch_size: 51, ..walk() };
        assert!(wide.chain(posterior(), vec![0.0; 2], (1, 0)).is_err());
        assert!(walk().draws(posterior(), vec![0.0; 2], (0, 0, 1), (1, 0)).is_err());
        assert!(gradient_variance(&mut posterior(), &[0.0; 2], 0).is_err());
    }
}
