//! Online logistic regression: examples in order, their losses, and the best point in hindsight.

use crate::failure::{Failure, Kind, Result};
use santa::noise::{Purpose, Stream};

/// Examples that a logistic model made.
pub struct Examples {
    dim: usize,
    /// Features times the label, which is 1 or -1, example after example.
    signed: Vec<f64>,
}

impl Examples {
    /// Draws `rounds` examples: features uniform with mean 0 and variance 1, true weights normal with
    /// standard deviation `weights`.
    pub fn draw(dim: usize, rounds: usize, weights: f64, seed: u64, problem: u32) -> Self {
        /// Half the width of a uniform law of variance 1.
        const HALF_WIDTH: f64 = 1.732_050_807_568_877_2;
        let stream = Stream::new(seed, problem, Purpose::Data);
        let mut truth = vec![0.0; dim];
        stream.normals(0, 0, 0, &mut truth);
        truth.iter_mut().for_each(|w| *w *= weights);
        let mut signed = Vec::with_capacity(dim * rounds);
        for t in 1..=rounds as u64 {
            let row = signed.len();
            let draw = |i: usize| HALF_WIDTH * (2.0 * stream.uniform(t, 0, i as u32) - 1.0);
            signed.extend((0..dim).map(draw));
            let probability = logistic(dot(&truth, &signed[row..]));
            if stream.uniform(t, 1, 0) >= probability {
                signed[row..].iter_mut().for_each(|x| *x = -*x);
            }
        }
        Examples { dim, signed }
    }

    /// The features of round t, counted from 0, times the label.
    pub fn row(&self, t: usize) -> &[f64] {
        &self.signed[t * self.dim..(t + 1) * self.dim]
    }

    /// The loss of a round at a point; its gradient goes to `gradient`.
    pub fn loss(&self, t: usize, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let row = self.row(t);
        let margin = dot(theta, row);
        let share = logistic(-margin);
        gradient.iter_mut().zip(row).for_each(|(g, x)| *g = -share * x);
        softplus(-margin)
    }

    /// The sum of the losses of the first rounds at a point.
    pub fn total(&self, rounds: usize, theta: &[f64]) -> f64 {
        (0..rounds).map(|t| softplus(-dot(theta, self.row(t)))).sum()
    }

    /// The point in the cube of half width `radius` where that sum is least, by Newton's method from
    /// `theta`.
    pub fn best(&self, rounds: usize, radius: f64, mut theta: Vec<f64>) -> Result<Vec<f64>> {
        const ITERATIONS: usize = 50;
        const DONE: f64 = 1e-10;
        let failed = |what: &str| {
            Failure::new(Kind::Numerical, format!("best point of {rounds} rounds: {what}"))
                .hint("begin to look at the regret later, with more rounds than weights")
        };
        for _ in 0..ITERATIONS {
            let mut slope = vec![0.0; self.dim];
            let mut curvature = vec![vec![0.0; self.dim]; self.dim];
            for t in 0..rounds {
                let row = self.row(t);
                let share = logistic(-dot(&theta, row));
                let weight = share * (1.0 - share);
                for i in 0..self.dim {
                    slope[i] -= share * row[i];
                    for j in 0..self.dim {
                        curvature[i][j] += weight * row[i] * row[j];
                    }
                }
            }
            let step = solve(curvature, slope).ok_or_else(|| failed("no curvature"))?;
            theta.iter_mut().zip(&step).for_each(|(w, s)| *w -= s);
            if theta.iter().any(|w| w.is_nan() || w.abs() > radius) {
                return Err(failed("it is not inside the cube"));
            }
            if step.iter().all(|s| s.abs() < DONE) {
                return Ok(theta);
            }
        }
        Err(failed("Newton's method did not end"))
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// ln(1 + exp(x)) without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// Solves a x = b for a positive definite matrix, by elimination.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Option<Vec<f64>> {
    let n = b.len();
    for k in 0..n {
        if a[k][k].is_nan() || a[k][k] <= 0.0 {
            return None;
        }
        for i in k + 1..n {
            let factor = a[i][k] / a[k][k];
            for j in k..n {
                a[i][j] -= factor * a[k][j];
            }
            b[i] -= factor * b[k];
        }
    }
    for k in (0..n).rev() {
        let rest: f64 = (k + 1..n).map(|j| a[k][j] * b[j]).sum();
        b[k] = (b[k] - rest) / a[k][k];
    }
    Some(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_point_has_no_slope_and_no_neighbour_is_better() {
        let examples = Examples::draw(3, 500, 0.5, 1, 0);
        let best = examples.best(400, 10.0, vec![0.0; 3]).unwrap();
        let least = examples.total(400, &best);
        let mut slope = [0.0; 3];
        for t in 0..400 {
            let mut gradient = [0.0; 3];
            examples.loss(t, &best, &mut gradient);
            slope.iter_mut().zip(gradient).for_each(|(s, g)| *s += g);
        }
        assert!(slope.iter().all(|s| s.abs() < 1e-6), "{slope:?}");
        for i in 0..3 {
            for move_by in [-0.01, 0.01] {
                let mut other = best.clone();
                other[i] += move_by;
                assert!(examples.total(400, &other) > least);
            }
        }
    }

    #[test]
    fn a_best_point_at_infinity_is_refused() {
        // One example: the larger the weight the better.
        let examples = Examples::draw(1, 1, 0.5, 1, 0);
        let failure = examples.best(1, 10.0, vec![0.0]).unwrap_err();
        assert!(failure.message.contains("cube"), "{failure}");
    }
}
