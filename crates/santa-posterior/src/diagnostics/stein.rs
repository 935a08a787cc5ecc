//! Are these draws of this posterior?

use crate::error::{Error, Result};
use serde::Serialize;

/// The length scale $c$ of the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// The median of the distances between the points.
    Median,
    /// This one, in the unit of the points.
    Given(f64),
}

/// How to compute a Stein discrepancy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteinSettings {
    /// Length scale of the kernel.
    pub scale: Scale,
    /// Inverse temperature $\beta$ of the law $e^{-\beta U}$.
    pub beta: f64,
    /// Points to use at most, evenly spaced ones of all: the work grows with their square.
    pub max_points: usize,
}

impl Default for SteinSettings {
    /// The median, $\beta = 1$, and at most 1000 points.
    fn default() -> Self {
        SteinSettings { scale: Scale::Median, beta: 1.0, max_points: 1_000 }
    }
}

/// A kernel Stein discrepancy, and what it was computed with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stein {
    /// The root of the V-statistic: never negative, falls as $n^{-1/2}$ for independent draws of the
    /// right law, and as far as a positive limit for those of another one. NaN or infinite for points
    /// so far out that its numbers overflow.
    pub discrepancy: f64,
    /// The U-statistic, an unbiased estimate of the squared discrepancy; negative at times.
    pub unbiased_square: f64,
    /// Length scale $c$ of the kernel.
    pub scale: f64,
    /// Number of points used.
    pub points: usize,
}

/// Kernel Stein discrepancy between points and the law $e^{-\beta U}$, of which only the gradient is
/// needed (Gorham and Mackey, *Measuring sample quality with kernels*, ICML 2017).
///
/// With the score $s(x) = -\beta \nabla U(x)$ and the inverse multiquadric kernel
/// $k(x, y) = (c^2 + |x - y|^2)^{-1/2}$, which notices escaping mass where a Gaussian kernel does not,
///
/// $$ k_0(x, y) = s(x) \cdot s(y)\ k + s(x) \cdot \nabla_y k + s(y) \cdot \nabla_x k
/// \ +\ \nabla_x \cdot \nabla_y k $$
///
/// has the mean zero under the law, in each argument. In terms of $q = c^2 + |x - y|^2$ and the
/// dimension $d$,
///
/// $$ k_0 = \frac{s(x) \cdot s(y)}{q^{1/2}}
/// \ +\ \frac{(s(x) - s(y)) \cdot (x - y) + d}{q^{3/2}} - \frac{3 |x - y|^2}{q^{5/2}} $$
///
/// The V-statistic is the mean of $k_0$ over all pairs, the U-statistic that over pairs of different
/// points.
///
/// `points` and `gradients` (of $U$, at the points) are one point after the other, `dim` numbers each.
/// Draws of several chains are best put one chain after the other.
///
/// The value has no unit and no threshold of its own: [`stein_test`](super::stein_test) finds one. It
/// grows with the dimension, and, as any kernel, sees only faintly what happens far from the points,
/// such as a second mode that no chain has found.
///
/// ```
/// use santa::noise::{Purpose, Stream};
/// use santa_posterior::diagnostics::{SteinSettings, stein_discrepancy};
///
/// let mut normal = vec![0.0; 500];
/// Stream::new(1, 0, Purpose::Custom(0)).normals(0, 0, 0, &mut normal);
/// let wide: Vec<f64> = normal.iter().map(|x| 1.5 * x).collect();
/// // Of the standard normal law, U(x) = x^2 / 2, the gradient at x is x.
/// let settings = SteinSettings::default();
/// let right = stein_discrepancy(&normal, &normal, 1, &settings)?;
/// let wrong = stein_discrepancy(&wide, &wide, 1, &settings)?;
/// assert!(wrong.discrepancy > 2.0 * right.discrepancy);
/// # Ok::<(), santa_posterior::Error>(())
/// ```
pub fn stein_discrepancy(
    points: &[f64],
    gradients: &[f64],
    dim: usize,
    settings: &SteinSettings,
) -> Result<Stein> {
    let kernel = SteinKernel::new(points, gradients, dim, settings)?;
    let used = kernel.points();
    let same: f64 = (0..used).map(|i| kernel.at(i, i)).sum();
    let different: f64 =
        (0..used).map(|i| (0..i).map(|j| 2.0 * kernel.at(i, j)).sum::<f64>()).sum();
    Ok(kernel.stein(same, different))
}

/// $k_0$ between the points that are used.
pub(super) struct SteinKernel {
    /// The points and their scores, one after the other.
    x: Vec<f64>,
    score: Vec<f64>,
    dim: usize,
    /// c
    scale: f64,
}

impl SteinKernel {
    pub(super) fn new(
        points: &[f64],
        gradients: &[f64],
        dim: usize,
        settings: &SteinSettings,
    ) -> Result<Self> {
        let all = check(points, gradients, dim, settings)?;
        let used = all.min(settings.max_points);
        let picked = |numbers: &[f64]| -> Vec<f64> {
            // Point i of the used ones is the one in the middle of its share of all.
            let place = |i: usize| (2 * i + 1) * all / (2 * used);
            (0..used).flat_map(|i| numbers[place(i) * dim..][..dim].iter().copied()).collect()
        };
        let x = picked(points);
        let score: Vec<f64> = picked(gradients).iter().map(|g| -settings.beta * g).collect();
        let scale = match settings.scale {
            Scale::Given(c) => c,
            Scale::Median => median_distance(&x, dim)?,
        };
        Ok(SteinKernel { x, score, dim, scale })
    }

    /// How many points are used.
    pub(super) fn points(&self) -> usize {
        self.x.len() / self.dim
    }

    /// $k_0$ of two of them.
    pub(super) fn at(&self, i: usize, j: usize) -> f64 {
        let SteinKernel { x, score, dim, scale } = self;
        let (xi, xj) = (&x[i * dim..][..*dim], &x[j * dim..][..*dim]);
        let (si, sj) = (&score[i * dim..][..*dim], &score[j * dim..][..*dim]);
        let (mut scores, mut mixed, mut square) = (0.0, 0.0, 0.0);
        for k in 0..*dim {
            let difference = xi[k] - xj[k];
            scores += si[k] * sj[k];
            mixed += (si[k] - sj[k]) * difference;
            square += difference * difference;
        }
        let q = scale * scale + square;
        let root = q.sqrt();
        scores / root + (mixed + *dim as f64 - 3.0 * square / q) / (q * root)
    }

    /// The discrepancy, from the sums of $k_0$ over pairs of the same point and of different ones.
    pub(super) fn stein(&self, same: f64, different: f64) -> Stein {
        let n = self.points() as f64;
        Stein {
            discrepancy: root((same + different) / (n * n)),
            unbiased_square: different / (n * (n - 1.0)),
            scale: self.scale,
            points: self.points(),
        }
    }
}

/// Of a V-statistic, which is positive but for rounding. Spelt out since `max` would make nothing of a
/// NaN.
pub(super) fn root(square: f64) -> f64 {
    if square < 0.0 { 0.0 } else { square.sqrt() }
}

/// The number of points.
fn check(points: &[f64], gradients: &[f64], dim: usize, settings: &SteinSettings) -> Result<usize> {
    if dim == 0 {
        return Err(Error::setting("dim", dim, "it must be at least 1"));
    }
    if points.len() != gradients.len() || !points.len().is_multiple_of(dim) {
        return Err(Error::data(format!(
            "{} numbers of points and {} of gradients, where both should be the same multiple of the \
             dimension {dim}",
            points.len(),
            gradients.len()
        )));
    }
    let n = points.len() / dim;
    if n < 2 {
        return Err(Error::data(format!(
            "a Stein discrepancy of {n} points; it takes at least two"
        )));
    }
    if settings.max_points < 2 {
        return Err(Error::setting("max_points", settings.max_points, "it must be at least 2"));
    }
    let positive = |x: f64| x > 0.0 && x.is_finite();
    if !positive(settings.beta) {
        return Err(Error::setting("beta", settings.beta, "it must be positive and finite"));
    }
    if let Scale::Given(c) = settings.scale
        && !positive(c)
    {
        return Err(Error::setting("scale", c, "it must be positive and finite"));
    }
    for (what, numbers) in [("point", points), ("gradient", gradients)] {
        if let Some(place) = numbers.iter().position(|x| !x.is_finite()) {
            return Err(Error::data(format!(
                "{what} {} has the element {} = {}; leave such points out",
                place / dim,
                place % dim,
                numbers[place]
            )));
        }
    }
    Ok(n)
}

fn median_distance(x: &[f64], dim: usize) -> Result<f64> {
    let n = x.len() / dim;
    let mut squares = Vec::with_capacity(n * (n - 1) / 2);
    for (i, a) in x.chunks_exact(dim).enumerate() {
        for b in x.chunks_exact(dim).take(i) {
            squares.push(a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>());
        }
    }
    let half = squares.len() / 2;
    let (below, above, _) = squares.select_nth_unstable_by(half, f64::total_cmp);
    let above = above.sqrt();
    let median = if n * (n - 1) / 2 % 2 == 1 {
        above
    } else {
        let below = below.iter().copied().fold(0.0, f64::max);
        0.5 * (below.sqrt() + above)
    };
    if median > 0.0 {
        Ok(median)
    } else {
        Err(Error::data(
            "more than half of the distances between the points are zero, so that their median is no \
             length scale; the chains hardly move, or give a scale",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    const DIM: usize = 3;

    fn normals(n: usize) -> Vec<f64> {
        let mut x = vec![0.0; n * DIM];
        Stream::new(9, 0, Purpose::Custom(0)).normals(0, 0, 0, &mut x);
        x
    }
    fn of(points: &[f64], settings: &SteinSettings) -> Stein {
        // Against the standard normal law, whose gradient at x is x.
        stein_discrepancy(points, points, DIM, settings).unwrap()
    }

    #[test]
    fn points_that_overflow_do_not_have_the_discrepancy_zero() {
        let far = [1e200, -1e200, 3e200];
        for scale in [Scale::Median, Scale::Given(1.0)] {
            let settings = SteinSettings { scale, ..SteinSettings::default() };
            let stein = stein_discrepancy(&far, &far, 1, &settings);
            assert!(!stein.is_ok_and(|stein| stein.discrepancy.is_finite()), "{scale:?}");
        }
    }

    #[test]
    fn draws_of_the_right_law_are_told_from_wider_and_from_shifted_ones() {
        let settings = SteinSettings { max_points: 400, ..SteinSettings::default() };
        let right = normals(400);
        let wide: Vec<f64> = right.iter().map(|x| x * 1.5f64.sqrt()).collect();
        let shifted: Vec<f64> = right.iter().map(|x| x + 0.3).collect();
        let small = of(&right, &settings);
        assert!(small.unbiased_square.abs() < 0.003, "{small:?}");
        for wrong in [wide, shifted] {
            let large = of(&wrong, &settings);
            assert!(large.discrepancy > 1.5 * small.discrepancy, "{large:?}, {small:?}");
            assert!(large.unbiased_square > 0.006, "{large:?}");
        }
    }

    #[test]
    fn the_inverse_temperature_belongs_to_the_law() {
        // Draws of variance 1/4 are those of exp(-4 x^2 / 2).
        let cold: Vec<f64> = normals(300).iter().map(|x| x / 2.0).collect();
        let settings = SteinSettings { beta: 4.0, scale: Scale::Given(1.0), max_points: 300 };
        let right = of(&cold, &settings);
        let wrong = of(&cold, &SteinSettings { beta: 1.0, ..settings });
        assert!(right.unbiased_square.abs() < 0.1 * wrong.unbiased_square, "{right:?} {wrong:?}");
    }

    #[test]
    fn thinning_takes_evenly_spaced_points() {
        let x = normals(9);
        let settings = SteinSettings { max_points: 3, ..SteinSettings::default() };
        let thinned: Vec<f64> =
            [1, 4, 7].iter().flat_map(|i| x[i * DIM..][..DIM].to_vec()).collect();
        assert_eq!(of(&x, &settings), of(&thinned, &SteinSettings::default()));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let settings = SteinSettings::default();
        let refused = |points: &[f64], gradients: &[f64], dim, settings: &SteinSettings| {
            stein_discrepancy(points, gradients, dim, settings).unwrap_err().to_string()
        };
        let two = [0.0, 1.0];
        assert!(refused(&two, &two, 0, &settings).contains("`dim`"));
        assert!(refused(&two, &two[..1], 1, &settings).contains("2 numbers of points and 1"));
        assert!(refused(&two[..1], &two[..1], 1, &settings).contains("at least two"));
        assert!(refused(&two, &[0.0, f64::NAN], 1, &settings).contains("gradient 1"));
        assert!(refused(&[0.0; 4], &[0.0; 4], 1, &settings).contains("give a scale"));
        let negative = SteinSettings { scale: Scale::Given(-1.0), ..settings };
        assert!(refused(&two, &two, 1, &negative).contains("`scale` is -1"));
        let hot = SteinSettings { beta: 0.0, ..settings };
        assert!(refused(&two, &two, 1, &hot).contains("`beta`"));
        let none = SteinSettings { max_points: 1, ..settings };
        assert!(refused(&two, &two, 1, &none).contains("`max_points`"));
    }
}
