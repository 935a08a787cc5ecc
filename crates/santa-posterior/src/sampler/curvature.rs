//! First scales, and the stiffest direction, from differences of gradients.

use crate::error::Result;
use santa::noise::{Purpose, Stream};
use santa::{Batch, Potential, Real};

/// Rounds, each with steps in proportion to the scales of the one before.
const ROUNDS: u64 = 3;
/// Random directions per round.
const PROBES: u64 = 8;
/// The first displacement, relative to the parameter or to 1.
const FIRST: f64 = 1e-2;
/// A displacement as a share of the scale.
const SHARE: f64 = 0.1;
/// By how much a round may change a scale.
const LARGEST_CHANGE: f64 = 100.0;
/// Up to so many data are used; more of them say little more about a scale.
const MOST_DATA: u64 = 10_000;

/// Estimates $s_i = 1/\sqrt{|H_{ii}|}$, H being the Hessian of U at theta: the scales at $\beta = 1$.
///
/// $$ H_{ii} \approx \mathbb{E}\left[ \frac{v_i\ (\nabla U(\theta + v) - \nabla U(\theta - v))_i}{2 v_i^2} \right],
///    \qquad v_i = \pm\ 0.1\ s_i \text{ at random} $$
///
/// (Hutchinson's estimator of a diagonal). Over the data, or over 10,000 of them.
pub fn first_scales<F: Real, P: Potential<F>>(
    potential: &mut P,
    theta: &[F],
    seed: u64,
    chain: u32,
) -> Result<Vec<f64>> {
    let dim = theta.len();
    let stream = Stream::new(seed, chain, Purpose::Custom(PURPOSE));
    let n = potential.target().data_size().get();
    let some = subset(n, &stream);
    let batch = some.as_deref().map_or(Batch::full(), Batch::of);
    let mut scales: Vec<f64> =
        theta.iter().map(|x| FIRST * x.to_f64().abs().max(1.0) / SHARE).collect();
    let (mut moved, mut up, mut down) = (theta.to_vec(), theta.to_vec(), theta.to_vec());
    for round in 0..ROUNDS {
        let mut diagonal = vec![0.0; dim];
        for probe in 0..PROBES {
            let step = 1 + round * PROBES + probe;
            let shift = |i: usize| {
                let sign = if stream.uniform(step, 0, i as u32) < 0.5 { -1.0 } else { 1.0 };
                sign * SHARE * scales[i]
            };
            for (side, gradient) in [(1.0, &mut up), (-1.0, &mut down)] {
                for i in 0..dim {
                    moved[i] = F::from_f64(theta[i].to_f64() + side * shift(i));
                }
                potential.loss_gradient(&moved, &batch, gradient)?;
                potential.target().full_gradient(&moved, gradient);
            }
            for i in 0..dim {
                let v = shift(i);
                let slope = (up[i].to_f64() - down[i].to_f64()) / (2.0 * v);
                if slope.is_finite() {
                    diagonal[i] += slope / PROBES as f64;
                }
            }
        }
        for (scale, curvature) in scales.iter_mut().zip(diagonal) {
            let found = 1.0 / curvature.abs().sqrt();
            *scale = found.clamp(*scale / LARGEST_CHANGE, *scale * LARGEST_CHANGE);
        }
    }
    Ok(scales)
}

/// Some of the data; `None` where there are few enough to take all of them.
fn subset(n: u64, stream: &Stream) -> Option<Vec<u32>> {
    let some = || (0..MOST_DATA).map(|i| stream.below(0, SUBSET, i as u32, n) as u32).collect();
    (n > MOST_DATA).then(some)
}

/// Rounds of the power iteration.
const POWERS: u64 = 12;

/// The largest frequency, $\omega = \sqrt{\lambda_{\max}(H)}$, H being the Hessian of U at z; 0 where
/// there is no direction that curves upwards. By power iteration, over the data or 10,000 of them.
pub fn largest_frequency<F: Real, P: Potential<F>>(
    potential: &mut P,
    z: &[F],
    seed: u64,
    chain: u32,
) -> Result<f64> {
    let stream = Stream::new(seed, chain, Purpose::Custom(PURPOSE));
    let some = subset(potential.target().data_size().get(), &stream);
    let batch = some.as_deref().map_or(Batch::full(), Batch::of);
    let mut direction = vec![0.0; z.len()];
    stream.normals(0, DIRECTION, 0, &mut direction);
    let (mut moved, mut up, mut down) = (z.to_vec(), z.to_vec(), z.to_vec());
    let mut curvature = 0.0;
    for _ in 0..POWERS {
        let length = direction.iter().map(|v| v * v).sum::<f64>().sqrt();
        if !(length.is_finite() && length > 0.0) {
            return Ok(0.0);
        }
        direction.iter_mut().for_each(|v| *v /= length);
        for (side, gradient) in [(SHARE, &mut up), (-SHARE, &mut down)] {
            for ((moved, z), v) in moved.iter_mut().zip(z).zip(&direction) {
                *moved = F::from_f64(z.to_f64() + side * v);
            }
            potential.loss_gradient(&moved, &batch, gradient)?;
            potential.target().full_gradient(&moved, gradient);
        }
        curvature = 0.0;
        for ((v, up), down) in direction.iter_mut().zip(&up).zip(&down) {
            let slope = (up.to_f64() - down.to_f64()) / (2.0 * SHARE);
            curvature += *v * slope;
            *v = slope;
        }
    }
    Ok(if curvature.is_finite() { curvature.max(0.0).sqrt() } else { 0.0 })
}

/// Numbers the stream of this module among those of the crate.
const PURPOSE: u8 = 60;
/// The segment that the subset of the data is drawn with.
const SUBSET: u32 = 1;
/// The segment that the first direction is drawn with.
const DIRECTION: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use santa::potential::from_fn;

    #[test]
    fn scales_of_a_gaussian_are_its_standard_deviations() {
        let sds = [1e-4, 1.0, 300.0];
        let mut gaussian = from_fn(3, move |theta: &[f64], g: &mut [f64]| {
            for i in 0..3 {
                g[i] = theta[i] / (sds[i] * sds[i]);
            }
            (0..3).map(|i| 0.5 * theta[i] * g[i]).sum()
        })
        .unwrap();
        let found = first_scales(&mut gaussian, &[0.0, 0.5, 2.0], 1, 0).unwrap();
        for (found, sd) in found.iter().zip(sds) {
            assert!((found / sd - 1.0).abs() < 1e-6, "{found} {sd}");
        }
    }

    #[test]
    fn the_stiffest_direction_is_found_where_there_is_one() {
        // Curvatures 0.5 and 9.5, along the diagonals.
        let mut oblique = from_fn(2, |z: &[f64], g: &mut [f64]| {
            (g[0], g[1]) = (5.0 * z[0] - 4.5 * z[1], 5.0 * z[1] - 4.5 * z[0]);
            0.5 * (z[0] * g[0] + z[1] * g[1])
        })
        .unwrap();
        let found = largest_frequency(&mut oblique, &[0.3, -0.2], 1, 0).unwrap();
        assert!((found / 9.5f64.sqrt() - 1.0).abs() < 1e-6, "{found}");
        let mut hill = from_fn(2, |z: &[f64], g: &mut [f64]| {
            (g[0], g[1]) = (-z[0], -2.0 * z[1]);
            -0.5 * z[0] * z[0] - z[1] * z[1]
        })
        .unwrap();
        assert_eq!(largest_frequency(&mut hill, &[0.3, -0.2], 1, 0).unwrap(), 0.0);
    }
}
