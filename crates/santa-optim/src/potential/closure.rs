//! Potentials from closures.

use super::{Batch, Potential, check_lengths};
use crate::error::{Error, Result};
use crate::real::Real;
use crate::target::Target;
use std::marker::PhantomData;

/// A density $e^{-U}$ of `dim` parameters: the closure returns U and writes its gradient.
///
/// ```
/// use santa::potential::{from_fn, Potential};
///
/// let mut normal = from_fn(1, |theta: &[f64], gradient: &mut [f64]| {
///     gradient[0] = theta[0];
///     0.5 * theta[0] * theta[0]
/// })?;
/// assert_eq!(normal.energy(&[2.0])?, 2.0);
/// # Ok::<(), santa::Error>(())
/// ```
pub fn from_fn<F, C>(dim: usize, u: C) -> Result<FromFn<F, C>>
where
    F: Real,
    C: FnMut(&[F], &mut [F]) -> f64,
{
    Ok(FromFn { target: Target::density(dim)?, u, element: PhantomData })
}

/// The potential that [`from_fn`] makes.
#[derive(Clone, Debug)]
pub struct FromFn<F, C> {
    target: Target,
    u: C,
    element: PhantomData<F>,
}

impl<F: Real, C: FnMut(&[F], &mut [F]) -> f64> Potential<F> for FromFn<F, C> {
    fn target(&self) -> &Target {
        &self.target
    }
    fn loss_gradient(&mut self, theta: &[F], _: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        check_lengths(&self.target, theta, gradient)?;
        Ok((self.u)(theta, gradient))
    }
}

/// A posterior: the closure returns the mean of $-\log p(x_n\mid\theta)$ over the data of the given
/// indices, and writes the gradient of that mean. The target adds N and the prior.
///
/// ```
/// use santa::potential::{from_data, Potential};
/// use santa::{DataSize, Layout, Prior, Target};
///
/// let data = [1.0, 3.0];
/// let target = Target::new(Layout::flat(1)?, DataSize::new(2)?, Prior::gaussian(1.0))?;
/// let mut location = from_data(target, move |theta: &[f64], indices, gradient| {
///     let residual = |i: &u32| theta[0] - data[*i as usize];
///     gradient[0] = indices.iter().map(residual).sum::<f64>() / indices.len() as f64;
///     indices.iter().map(|i| 0.5 * residual(i).powi(2)).sum::<f64>() / indices.len() as f64
/// });
/// assert_eq!(location.energy(&[1.0])?, 0.5 * 2.0 * 2.0 + 0.5);
/// # Ok::<(), santa::Error>(())
/// ```
pub fn from_data<F, C>(target: Target, mean_loss: C) -> FromData<F, C>
where
    F: Real,
    C: FnMut(&[F], &[u32], &mut [F]) -> f64,
{
    FromData { target, mean_loss, all: Vec::new(), element: PhantomData }
}

/// The potential that [`from_data`] makes.
#[derive(Clone, Debug)]
pub struct FromData<F, C> {
    target: Target,
    mean_loss: C,
    /// Every index, made when the whole data are first asked for.
    all: Vec<u32>,
    element: PhantomData<F>,
}

impl<F: Real, C: FnMut(&[F], &[u32], &mut [F]) -> f64> Potential<F> for FromData<F, C> {
    fn target(&self) -> &Target {
        &self.target
    }
    fn loss_gradient(&mut self, theta: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        check_lengths(&self.target, theta, gradient)?;
        let n = self.target.data_size();
        batch.check(n)?;
        if let Some(indices) = batch.indices() {
            return Ok((self.mean_loss)(theta, indices, gradient));
        }
        if self.all.is_empty() {
            let n = u32::try_from(n.get()).map_err(|_| {
                Error::setting("data_size", n.get(), "indices have 32 bits; use batches of data")
            })?;
            self.all = (0..n).collect();
        }
        Ok((self.mean_loss)(theta, &self.all, gradient))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use crate::{DataSize, Layout, Prior};

    fn location() -> impl Potential<f64> {
        let data = [1.0, 3.0, 8.0];
        let n = DataSize::new(data.len() as u64).unwrap();
        let target = Target::new(Layout::flat(1).unwrap(), n, Prior::Flat).unwrap();
        from_data(target, move |theta: &[f64], indices, gradient| {
            let residual = |i: &u32| theta[0] - data[*i as usize];
            gradient[0] = indices.iter().map(residual).sum::<f64>() / indices.len() as f64;
            indices.iter().map(|i| 0.5 * residual(i).powi(2)).sum::<f64>() / indices.len() as f64
        })
    }

    #[test]
    fn closures_give_gradients_over_some_or_all_data() {
        testing::gradient_matches_differences(&mut location(), &Batch::of(&[0, 2]));
        testing::gradient_matches_differences(&mut location(), &Batch::full());
        testing::wrong_lengths_are_refused(&mut location());
        assert!(location().loss(&[0.0], &Batch::of(&[3])).is_err());
    }

    #[test]
    fn a_density_needs_a_parameter() {
        assert!(from_fn(0, |_: &[f64], _: &mut [f64]| 0.0).is_err());
    }
}
