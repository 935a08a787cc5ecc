//! What the chains of a window have found, and what follows from all of it.
//!
//! Everything here is computed by all members of a team from what all chains have found, in the chains'
//! order: they come to the same bits, whatever the number of members.

use super::noise::GradientNoise;
use super::posterior::batch_means;
use super::scales::{Metric, Scales};
use crate::error::Result;
use santa::Real;

/// What one chain has found in a window.
pub struct Found {
    /// The noise of its gradients, in the coordinates of the window.
    pub noise: GradientNoise,
    /// Mean and deviations of its draws.
    pub moments: Moments,
    /// The configurational temperature at each of them.
    pub temperatures: Vec<f64>,
}

impl Found {
    /// As plain numbers, for the other members of a team.
    pub fn to_numbers(&self) -> Vec<f64> {
        let Moments { count, mean, squares, .. } = &self.moments;
        let GradientNoise { variance, unevenness } = self.noise;
        let head = [variance, unevenness, *count];
        [&head, mean.as_slice(), squares, &self.temperatures].concat()
    }

    /// Takes back what [`Found::to_numbers`] gave, for moments of the same kind as `like`.
    pub fn from_numbers(numbers: &[f64], like: &Moments) -> Self {
        let (head, rest) = numbers.split_at(3);
        let (mean, rest) = rest.split_at(like.mean.len());
        let (squares, temperatures) = rest.split_at(like.squares.len());
        let moments = Moments {
            count: head[2],
            mean: mean.to_vec(),
            squares: squares.to_vec(),
            ..like.clone()
        };
        let noise = GradientNoise { variance: head[0], unevenness: head[1] };
        Found { noise, moments, temperatures: temperatures.to_vec() }
    }
}

/// The mean configurational temperature times $\beta$, and its standard error: from the means of
/// batches of consecutive draws, within chains.
pub fn temperature(found: &[Found], beta: f64) -> (f64, f64) {
    let chains: Vec<&[f64]> = found.iter().map(|f| f.temperatures.as_slice()).collect();
    let (mean, error) = batch_means(&chains);
    (beta * mean, beta * error)
}

/// The mean over chains, in their order.
pub fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// The mean noise over chains.
pub fn mean_noise(chains: &[GradientNoise]) -> GradientNoise {
    GradientNoise {
        variance: mean(chains.iter().map(|noise| noise.variance)),
        unevenness: mean(chains.iter().map(|noise| noise.unevenness)),
    }
}

/// New scales: the covariance within chains, pooled, times $\beta$. A law at another temperature is
/// narrower or wider, and its frequencies are the same: in coordinates of its own width the chains of a
/// cold one would be slow.
pub fn pooled<F: Real>(
    metric: Metric,
    beta: f64,
    found: &[Found],
    present: &Scales<F>,
) -> Result<Scales<F>> {
    /// Draws that the present scales count for.
    const PRESENT: f64 = 5.0;
    if metric == Metric::Identity {
        return Ok(present.clone());
    }
    let moments: Vec<&Moments> = found.iter().map(|f| &f.moments).collect();
    let dim = moments[0].mean.len();
    let centre: Vec<f64> = (0..dim).map(|i| mean(moments.iter().map(|m| m.mean[i]))).collect();
    let count: f64 = moments.iter().map(|m| m.count).sum();
    let freedom = (count - moments.len() as f64).max(1.0);
    let weight = freedom / (freedom + PRESENT);
    let sum = |k: usize| beta * moments.iter().map(|m| m.squares[k]).sum::<f64>();
    let before = present_variances(present, dim);
    let blend = |found: f64, i: usize| weight * found + (1.0 - weight) * before[i];
    if !moments[0].dense {
        let scales: Vec<f64> = (0..dim).map(|i| blend(sum(i) / freedom, i).sqrt()).collect();
        return Scales::diagonal(&centre, &scales);
    }
    // Correlations from few draws are mostly chance.
    let trust = freedom / (freedom + dim as f64);
    let mut covariance = vec![0.0; dim * dim];
    for i in 0..dim {
        for j in 0..=i {
            let found = sum(i * (i + 1) / 2 + j) / freedom;
            let value = if i == j { blend(found, i) } else { weight * trust * found };
            covariance[i * dim + j] = value;
            covariance[j * dim + i] = value;
        }
    }
    Scales::dense(&centre, &covariance)
}

/// The variances that some scales stand for.
fn present_variances<F: Real>(scales: &Scales<F>, dim: usize) -> Vec<f64> {
    match scales {
        Scales::Identity => vec![1.0; dim],
        Scales::Diagonal { scales, .. } => scales.iter().map(|s| s.to_f64().powi(2)).collect(),
        Scales::Dense { rows, .. } => {
            let row = |i: usize| &rows[i * (i + 1) / 2..][..=i];
            (0..dim).map(|i| row(i).iter().map(|l| l.to_f64().powi(2)).sum()).collect()
        }
    }
}

/// Mean, and sums of squared deviations from it, as draws come (Welford).
#[derive(Clone)]
pub struct Moments {
    count: f64,
    mean: Vec<f64>,
    /// Of each parameter, or of each pair: rows up to the diagonal.
    squares: Vec<f64>,
    dense: bool,
    deviation: Vec<f64>,
}

impl Moments {
    pub fn new(dim: usize, dense: bool) -> Self {
        let squares = vec![0.0; if dense { dim * (dim + 1) / 2 } else { dim }];
        Moments { count: 0.0, mean: vec![0.0; dim], squares, dense, deviation: vec![0.0; dim] }
    }

    pub fn push<F: Real>(&mut self, theta: &[F]) {
        self.count += 1.0;
        for ((d, x), m) in self.deviation.iter_mut().zip(theta).zip(&mut self.mean) {
            *d = x.to_f64() - *m;
            *m += *d / self.count;
        }
        let factor = (self.count - 1.0) / self.count;
        if !self.dense {
            for (square, d) in self.squares.iter_mut().zip(&self.deviation) {
                *square += factor * d * d;
            }
            return;
        }
        let mut rest = self.squares.as_mut_slice();
        for i in 0..self.deviation.len() {
            let (row, after) = rest.split_at_mut(i + 1);
            let d = factor * self.deviation[i];
            row.iter_mut().zip(&self.deviation).for_each(|(s, e)| *s += d * e);
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_draws() {
        let draws = [[1.0, 2.0], [3.0, -1.0], [0.0, 0.5], [2.0, 2.5]];
        let mut moments = Moments::new(2, true);
        draws.iter().for_each(|d| moments.push(d));
        let mean = [1.5, 1.0];
        let sum = |i: usize, j: usize| -> f64 {
            draws.iter().map(|d| (d[i] - mean[i]) * (d[j] - mean[j])).sum()
        };
        assert_eq!(moments.mean, mean);
        for (found, expected) in moments.squares.iter().zip([sum(0, 0), sum(1, 0), sum(1, 1)]) {
            assert!((found - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn what_was_found_survives_being_told() {
        for dense in [false, true] {
            let mut moments = Moments::new(2, dense);
            [[1.0, 2.0], [3.0, -1.0]].iter().for_each(|draw| moments.push(draw));
            let noise = GradientNoise { variance: 0.3, unevenness: 0.1 };
            let found = Found { noise, moments, temperatures: vec![0.9, f64::INFINITY] };
            let told = Found::from_numbers(&found.to_numbers(), &Moments::new(2, dense));
            assert_eq!(told.to_numbers(), found.to_numbers());
            assert_eq!((told.moments.squares, told.noise), (found.moments.squares, noise));
            assert_eq!(told.temperatures, found.temperatures);
        }
    }
}
