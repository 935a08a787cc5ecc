//! The noise of minibatch gradients: how much, and how evenly over the directions.

use crate::error::Result;
use santa::Real;

/// The noise of the minibatch gradient of U, in whitened coordinates, of covariance $\Sigma$.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradientNoise {
    /// $V = \mathrm{tr}\ \Sigma / d$
    pub variance: f64,
    /// $\sqrt{d\ \mathrm{tr}\ \Sigma^2 / (\mathrm{tr}\ \Sigma)^2 - 1}$: by how much the noise of
    /// different directions differs, relative to its mean; 0 if it is the same for all.
    pub unevenness: f64,
}

/// Minibatches that V is estimated from.
const BATCHES: usize = 24;
/// The same for the unevenness as well.
const BATCHES_UNEVEN: usize = 64;

impl GradientNoise {
    /// Of gradients with all data.
    pub const NONE: GradientNoise = GradientNoise { variance: 0.0, unevenness: 0.0 };

    /// From independent gradients, of `dim` elements of which `moving` count. Where a variance is not
    /// finite, the element and its variance.
    ///
    /// Halved differences of pairs have the covariance $\Sigma$ and no mean. With $D_k$ of them,
    /// $\mathbb{E}|D_k|^2 = \mathrm{tr}\ \Sigma$ and
    /// $\mathbb{E}(D_k \cdot D_l)^2 = \mathrm{tr}\ \Sigma^2$.
    pub fn estimate<F: Real>(
        dim: usize,
        moving: usize,
        how_even: bool,
        mut draw: impl FnMut(&mut [F]) -> Result<()>,
    ) -> Result<std::result::Result<Self, (usize, f64)>> {
        let batches = if how_even { BATCHES_UNEVEN } else { BATCHES };
        let pairs = batches / 2;
        let (mut one, mut other) = (vec![F::ZERO; dim], vec![F::ZERO; dim]);
        let mut differences: Vec<Vec<F>> = Vec::new();
        let mut squares = vec![0.0; dim];
        for _ in 0..pairs {
            draw(&mut one)?;
            draw(&mut other)?;
            let root = F::from_f64(0.5f64.sqrt());
            for ((a, b), square) in one.iter_mut().zip(&other).zip(&mut squares) {
                *a = root * (*a - *b);
                *square += a.to_f64() * a.to_f64() / pairs as f64;
            }
            if how_even {
                differences.push(one.clone());
            }
        }
        let trace: f64 = squares.iter().sum();
        if !trace.is_finite() {
            let largest = |a: &usize, b: &usize| squares[*a].total_cmp(&squares[*b]);
            let place = (0..dim).find(|i| !squares[*i].is_finite());
            let place = place.or((0..dim).max_by(largest)).unwrap_or(0);
            return Ok(Err((place, squares[place])));
        }
        let mut unevenness = 0.0;
        if how_even && trace > 0.0 {
            let (mut sum, mut count) = (0.0, 0.0);
            for (k, a) in differences.iter().enumerate() {
                for b in &differences[..k] {
                    let product: f64 = a.iter().zip(b).map(|(x, y)| x.to_f64() * y.to_f64()).sum();
                    sum += product * product;
                    count += 1.0;
                }
            }
            unevenness = (moving as f64 * sum / count / (trace * trace) - 1.0).max(0.0).sqrt();
        }
        Ok(Ok(GradientNoise { variance: trace / moving as f64, unevenness }))
    }

    /// The share of the friction that this noise may add, at most `largest`.
    ///
    /// A thermostat for each coordinate holds the mean over the directions. With noise that adds the
    /// share s to the friction, a direction whose noise is $V_k$ has the temperature
    /// $(1 + s V_k/V)/(1 + s)$ times the one that was asked for; its spread over the directions is
    /// kept below [`SPREAD`].
    pub fn share(&self, largest: f64) -> f64 {
        let even = SPREAD / self.unevenness;
        if even < largest { even } else { largest }
    }
}

/// The largest spread of temperatures over the directions that uneven noise may cause: 2.5 % in the
/// standard deviations.
const SPREAD: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    /// Of gradients with the standard deviations `sds`.
    fn noise(sds: &[f64]) -> GradientNoise {
        let stream = Stream::new(3, 0, Purpose::Custom(1));
        let mut t = 0;
        let draw = |gradient: &mut [f64]| {
            t += 1;
            stream.normals(t, 0, 0, gradient);
            gradient.iter_mut().zip(sds).for_each(|(g, sd)| *g = 5.0 + sd * *g);
            Ok(())
        };
        GradientNoise::estimate(sds.len(), sds.len(), true, draw).unwrap().unwrap()
    }

    #[test]
    fn even_noise_is_told_from_uneven_noise() {
        let even = noise(&[2.0; 100]);
        assert!((even.variance - 4.0).abs() < 0.3 && even.unevenness < 0.4, "{even:?}");
        // Half of the directions have all of it: V = 2, d tr S^2 / (tr S)^2 = 2.
        let sds: Vec<f64> = (0..100).map(|i| if i % 2 == 0 { 2.0 } else { 0.0 }).collect();
        let uneven = noise(&sds);
        assert!((uneven.variance - 2.0).abs() < 0.3, "{uneven:?}");
        assert!((uneven.unevenness - 1.0).abs() < 0.3, "{uneven:?}");
        assert!(uneven.share(0.5) < 0.1 && GradientNoise::NONE.share(0.5) == 0.5);
    }
}
