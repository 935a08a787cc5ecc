//! The potential U, known through minibatches.
//!
//! $$ U(\theta) = -\log p(\theta) - \sum_{n=1}^N \log p(x_n \mid \theta) $$
//!
//! A [`Potential`] gives the likelihood's part only, as a *mean* over a [`Batch`]; N and the prior
//! come from its [`Target`]. Neither can then be forgotten, nor counted twice.
//!
//! | to have | use |
//! | --- | --- |
//! | a density from a function of theta | [`from_fn`] |
//! | a posterior from a function of theta and data indices | [`from_data`] |
//! | a model with buffers of its own | an implementation of [`Potential`] |
//! | less minibatch noise | [`ControlVariate`] around any of them |
//! | a law with known answers, to test with | [`analytic`] |

pub mod analytic;
mod closure;
mod control_variate;

pub use closure::{FromData, FromFn, from_data, from_fn};
pub use control_variate::ControlVariate;

use crate::error::{Error, Result};
use crate::noise::{Purpose, Stream};
use crate::real::Real;
use crate::target::{DataSize, Target};

/// The likelihood's part of U, through minibatches, and the [`Target`] with the rest.
///
/// ```
/// use santa::potential::{Batch, Potential};
/// use santa::{DataSize, Layout, Prior, Target};
///
/// /// The mean of data with unit variance.
/// struct Location {
///     target: Target,
///     data: Vec<f64>,
/// }
///
/// impl Potential<f64> for Location {
///     fn target(&self) -> &Target {
///         &self.target
///     }
///     fn loss_gradient(
///         &mut self,
///         theta: &[f64],
///         batch: &Batch<'_>,
///         gradient: &mut [f64],
///     ) -> santa::Result<f64> {
///         let n = batch.len(self.data.len());
///         let (mut loss, mut slope) = (0.0, 0.0);
///         for i in batch.iter(self.data.len()) {
///             let residual = theta[0] - self.data[i];
///             loss += 0.5 * residual * residual / n as f64;
///             slope += residual / n as f64;
///         }
///         gradient[0] = slope;
///         Ok(loss)
///     }
/// }
///
/// let target = Target::new(Layout::flat(1)?, DataSize::new(2)?, Prior::gaussian(1.0))?;
/// let mut potential = Location { target, data: vec![1.0, 3.0] };
/// assert_eq!(potential.energy(&[1.0])?, 0.5 * 2.0 * 2.0 + 0.5);
/// # Ok::<(), santa::Error>(())
/// ```
pub trait Potential<F: Real> {
    /// Layout, N, prior and groups.
    fn target(&self) -> &Target;

    /// The mean of $-\log p(x_n \mid \theta)$ over the batch; its gradient goes to `gradient`,
    /// whatever was there before.
    fn loss_gradient(&mut self, theta: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64>;

    /// The mean loss alone. Override it where the gradient can be saved; the default computes one
    /// and throws it away.
    fn loss(&mut self, theta: &[F], batch: &Batch<'_>) -> Result<f64> {
        let mut gradient = vec![F::ZERO; self.target().dim()];
        self.loss_gradient(theta, batch, &mut gradient)
    }

    /// The same as [`Potential::loss_gradient`], for somebody who begins to use parts of the gradient
    /// while others are still being computed: `ready` is given each piece that is complete, with its
    /// first element, from the last piece to the first and without gaps. By default it is all one piece.
    fn loss_gradient_pieces<'g>(
        &mut self,
        theta: &[F],
        batch: &Batch<'_>,
        gradient: &'g mut [F],
        ready: &mut dyn FnMut(usize, &'g mut [F]),
    ) -> Result<f64> {
        let loss = self.loss_gradient(theta, batch, gradient)?;
        ready(0, gradient);
        Ok(loss)
    }

    /// How much a batch counts beside others: the loss of two batches together is the mean of theirs,
    /// weighted so. By default the number of its data.
    fn weight(&self, batch: &Batch<'_>) -> f64 {
        batch.len(self.target().data_size().get() as usize) as f64
    }

    /// $U(\theta)$ over all data, prior included, up to the constants that both leave out.
    fn energy(&mut self, theta: &[F]) -> Result<f64> {
        self.target().layout().check_len("theta", theta.len())?;
        let mean = self.loss(theta, &Batch::full())?;
        let target = self.target();
        Ok(target.data_size().as_f64() * mean + target.prior_energy(theta))
    }

    /// Named vectors that a checkpoint must keep for this potential to go on as if nothing had
    /// happened. Most potentials have none.
    fn state(&self) -> Vec<(&'static str, Vec<F>)> {
        Vec::new()
    }

    /// Takes back what [`Potential::state`] gave.
    fn restore(&mut self, state: &[(String, Vec<F>)]) -> Result<()> {
        match state.first() {
            None => Ok(()),
            Some((name, _)) => Err(Error::Mismatch {
                field: "potential's state".into(),
                saved: format!("`{name}` and {} more", state.len() - 1),
                present: "none; build the potential as it was when saved".into(),
            }),
        }
    }
}

macro_rules! forward_potential {
    ($($pointer:ty),*) => {$(
        impl<F: Real, P: Potential<F> + ?Sized> Potential<F> for $pointer {
            fn target(&self) -> &Target {
                (**self).target()
            }
            fn loss_gradient(&mut self, theta: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
                (**self).loss_gradient(theta, batch, gradient)
            }
            fn loss_gradient_pieces<'g>(
                &mut self,
                theta: &[F],
                batch: &Batch<'_>,
                gradient: &'g mut [F],
                ready: &mut dyn FnMut(usize, &'g mut [F]),
            ) -> Result<f64> {
                (**self).loss_gradient_pieces(theta, batch, gradient, ready)
            }
            fn weight(&self, batch: &Batch<'_>) -> f64 {
                (**self).weight(batch)
            }
            fn loss(&mut self, theta: &[F], batch: &Batch<'_>) -> Result<f64> {
                (**self).loss(theta, batch)
            }
            fn energy(&mut self, theta: &[F]) -> Result<f64> {
                (**self).energy(theta)
            }
            fn state(&self) -> Vec<(&'static str, Vec<F>)> {
                (**self).state()
            }
            fn restore(&mut self, state: &[(String, Vec<F>)]) -> Result<()> {
                (**self).restore(state)
            }
        }
    )*};
}
forward_potential!(Box<P>, &mut P);

/// Which data to average over, and the coordinates of the random numbers a model may need
/// (dropout masks, variational weights): seed, chain and step.
///
/// ```
/// use santa::noise::Purpose;
/// use santa::potential::Batch;
///
/// let batch = Batch::of(&[3, 1, 4]).seeded(42, 0).at_step(7);
/// assert_eq!(batch.len(60_000), 3);
/// // The same mask whenever step 7 is computed again.
/// let keep = batch.stream(Purpose::Dropout).uniform(batch.step(), 0, 0) < 0.5;
/// # let _ = keep;
/// assert_eq!(Batch::full().len(60_000), 60_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    indices: Option<&'a [u32]>,
    first: usize,
    step: u64,
    seed: u64,
    chain: u32,
}

impl<'a> Batch<'a> {
    /// All data.
    pub fn full() -> Self {
        Batch { indices: None, first: 0, step: 0, seed: 0, chain: 0 }
    }
    /// The data of these indices; one that occurs twice counts twice.
    pub fn of(indices: &'a [u32]) -> Self {
        Batch { indices: Some(indices), ..Batch::full() }
    }
    /// At a step of a run, counted from 1.
    pub fn at_step(mut self, step: u64) -> Self {
        self.step = step;
        self
    }
    /// With the seed and chain of a run.
    pub fn seeded(mut self, seed: u64, chain: u32) -> Self {
        (self.seed, self.chain) = (seed, chain);
        self
    }
    /// As a part of a larger batch, in which its first datum has this position: what is drawn for each
    /// datum is then drawn as in the larger one.
    pub fn beginning_at(mut self, first: usize) -> Self {
        self.first = first;
        self
    }
    /// The same step and seed, with all data.
    pub fn widened(self) -> Batch<'static> {
        Batch { indices: None, first: 0, step: self.step, seed: self.seed, chain: self.chain }
    }
    /// The same step and seed, with other data.
    pub fn with_indices<'b>(self, indices: &'b [u32]) -> Batch<'b> {
        Batch { indices: Some(indices), ..self.widened() }
    }

    /// The indices, or `None` for all data.
    pub fn indices(&self) -> Option<&'a [u32]> {
        self.indices
    }
    /// The position of the first datum in the batch that this one is a part of; 0 if it is whole.
    pub fn first(&self) -> usize {
        self.first
    }
    /// How many data there are in the batch, of `n` in all.
    pub fn len(&self, n: usize) -> usize {
        self.indices.map_or(n, <[u32]>::len)
    }
    /// True if there are none, of `n` in all.
    pub fn is_empty(&self, n: usize) -> bool {
        self.len(n) == 0
    }
    /// The indices one by one, of `n` data in all.
    pub fn iter(&self, n: usize) -> impl Iterator<Item = usize> + use<'a> {
        let list = self.indices.unwrap_or_default();
        let all = if self.indices.is_none() { 0..n } else { 0..0 };
        list.iter().map(|i| *i as usize).chain(all)
    }
    /// The step of the run that this batch is for; 0 outside a run.
    pub fn step(&self) -> u64 {
        self.step
    }
    /// Random numbers of the run, to be drawn at [`Batch::step`].
    pub fn stream(&self, purpose: Purpose) -> Stream {
        Stream::new(self.seed, self.chain, purpose)
    }

    /// Refuses an empty batch and indices beyond the data.
    pub fn check(&self, n: DataSize) -> Result<()> {
        let Some(indices) = self.indices else { return Ok(()) };
        if indices.is_empty() {
            return Err(Error::Structure("the batch is empty; it needs at least one datum".into()));
        }
        match indices.iter().find(|i| u64::from(**i) >= n.get()) {
            None => Ok(()),
            Some(i) => Err(Error::Structure(format!(
                "the batch asks for datum {i}, but there are {}: indices count from 0",
                n.get()
            ))),
        }
    }
}

/// Refuses theta or a gradient of another length than the layout's.
fn check_lengths<F>(target: &Target, theta: &[F], gradient: &[F]) -> Result<()> {
    target.layout().check_len("theta", theta.len())?;
    target.layout().check_len("the gradient", gradient.len())
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Compares the gradient with central differences of the loss, at random points.
    ///
    /// `step` balances the truncation (about step^2) against the rounding (about 1e-16 / step).
    pub fn gradient_matches_differences(potential: &mut impl Potential<f64>, batch: &Batch<'_>) {
        const POINTS: u64 = 5;
        const STEP: f64 = 1e-5;
        const TOLERANCE: f64 = 1e-6;
        let dim = potential.target().dim();
        let stream = Stream::new(1, 0, Purpose::Custom(1));
        let mut theta = vec![0.0; dim];
        let mut gradient = vec![f64::NAN; dim];
        for point in 0..POINTS {
            stream.normals(point, 0, 0, &mut theta);
            let loss = potential.loss_gradient(&theta, batch, &mut gradient).unwrap();
            assert!((loss - potential.loss(&theta, batch).unwrap()).abs() <= 1e-12 * loss.abs());
            for i in 0..dim {
                let mut at = |x: f64| {
                    let mut moved = theta.clone();
                    moved[i] = x;
                    potential.loss(&moved, batch).unwrap()
                };
                let slope = (at(theta[i] + STEP) - at(theta[i] - STEP)) / (2.0 * STEP);
                let allowed = TOLERANCE * (1.0 + loss.abs() + slope.abs());
                assert!((slope - gradient[i]).abs() < allowed, "{i}: {slope} {}", gradient[i]);
            }
        }
    }

    /// Single precision gives what double precision gives, rounded.
    pub fn precisions_agree<P: Potential<f32> + Potential<f64>>(
        potential: &mut P,
        batch: &Batch<'_>,
    ) {
        const TOLERANCE: f64 = 1e-5;
        let dim = Potential::<f64>::target(potential).dim();
        let mut single = vec![0.0f32; dim];
        Stream::new(2, 0, Purpose::Custom(1)).normals(0, 0, 0, &mut single);
        let double: Vec<f64> = single.iter().map(|x| f64::from(*x)).collect();
        let (mut g32, mut g64) = (vec![0.0f32; dim], vec![0.0f64; dim]);
        let a = potential.loss_gradient(&single, batch, &mut g32).unwrap();
        let b = potential.loss_gradient(&double, batch, &mut g64).unwrap();
        assert!((a - b).abs() <= TOLERANCE * (1.0 + b.abs()));
        for (x, y) in g32.iter().zip(&g64) {
            assert!((f64::from(*x) - y).abs() <= TOLERANCE * (1.0 + y.abs()), "{x} {y}");
        }
    }

    /// Buffers of a wrong length are refused, not indexed.
    pub fn wrong_lengths_are_refused(potential: &mut impl Potential<f64>) {
        let dim = potential.target().dim();
        let mut long = vec![0.0; dim + 1];
        let theta = vec![0.0; dim];
        assert!(
            potential.loss_gradient(&long.clone(), &Batch::full(), &mut vec![0.0; dim]).is_err()
        );
        assert!(potential.loss_gradient(&theta, &Batch::full(), &mut long).is_err());
        assert!(potential.energy(&long).is_err());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_knows_its_data() {
        let batch = Batch::of(&[2, 0, 2]);
        assert_eq!(batch.iter(3).collect::<Vec<_>>(), [2, 0, 2]);
        assert_eq!(Batch::full().iter(3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((batch.len(9), batch.is_empty(9), Batch::full().is_empty(0)), (3, false, true));
        let n = DataSize::new(3).unwrap();
        assert!(batch.check(n).is_ok() && Batch::full().check(n).is_ok());
        assert!(Batch::of(&[3]).check(n).unwrap_err().to_string().contains("datum 3"));
        assert!(Batch::of(&[]).check(n).unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn a_batch_gives_the_streams_of_its_run() {
        let batch = Batch::of(&[0]).seeded(5, 6).at_step(7);
        assert_eq!(batch.stream(Purpose::Dropout), Stream::new(5, 6, Purpose::Dropout));
        assert_eq!(batch.widened(), Batch::full().seeded(5, 6).at_step(7));
    }

    #[test]
    fn a_potential_without_state_refuses_someone_elses() {
        let mut potential = from_fn(1, |_: &[f64], _: &mut [f64]| 0.0).unwrap();
        assert!(potential.restore(&[]).is_ok());
        let error = potential.restore(&[("anchor".into(), vec![1.0])]).unwrap_err();
        assert!(error.to_string().contains("`anchor`"));
    }

    #[test]
    fn a_boxed_potential_is_a_potential() {
        let inner = from_fn(1, |theta: &[f64], g: &mut [f64]| {
            g[0] = theta[0];
            0.5 * theta[0] * theta[0]
        });
        let mut boxed: Box<dyn Potential<f64>> = Box::new(inner.unwrap());
        assert_eq!(boxed.energy(&[3.0]).unwrap(), 4.5);
    }
}
