//! The metric of a sampler: what the posterior's scales are thought to be.

use crate::error::{Error, Result};
use pulp::{Arch, Simd, WithSimd};
use santa::Real;
use serde::{Deserialize, Serialize};

/// Which scales the warm-up finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// None: the parameters' own. Slow where these are far from the posterior's width: the step then has to be
    /// short beside 1, and friction that suits a width of 1 does not suit the posterior.
    Identity,
    /// One for each parameter.
    Diagonal,
    /// Correlations too: a triangular matrix. For up to a few hundred parameters.
    Dense,
    /// Dense up to [`Metric::DENSE_UP_TO`] parameters, else diagonal.
    #[default]
    Auto,
}

impl Metric {
    /// The most parameters for which [`Metric::Auto`] is dense: a product with the triangle then
    /// costs about what a minibatch does.
    pub const DENSE_UP_TO: usize = 128;

    /// What it comes to for a number of parameters.
    pub(crate) fn is_dense(self, dim: usize) -> bool {
        self == Metric::Dense || self == Metric::Auto && dim <= Metric::DENSE_UP_TO
    }
}

/// A linear map from coordinates in which the posterior is round to the parameters:
/// $\theta = c + L z$.
#[derive(Clone, Debug, PartialEq)]
pub enum Scales<F> {
    /// $\theta = z$
    Identity,
    /// A centre, and L diagonal.
    Diagonal {
        /// c
        centre: Vec<F>,
        /// The diagonal of L.
        scales: Vec<F>,
    },
    /// A centre, and L lower triangular.
    Dense {
        /// c
        centre: Vec<F>,
        /// The rows of L one after the other, each up to its diagonal.
        rows: Vec<F>,
    },
}

impl<F: Real> Scales<F> {
    /// A diagonal map.
    pub fn diagonal(centre: &[f64], scales: &[f64]) -> Result<Self> {
        check_same_length(centre, scales.len())?;
        if let Some(i) = scales.iter().position(|s| !(s.is_finite() && *s >= 0.0)) {
            let allowed = "a scale must be finite and not negative";
            return Err(Error::setting(format!("scales[{i}]"), scales[i], allowed));
        }
        Ok(Scales::Diagonal { centre: rounded(centre), scales: rounded(scales) })
    }

    /// A triangular map from a covariance (row by row): its Cholesky factor.
    pub fn dense(centre: &[f64], covariance: &[f64]) -> Result<Self> {
        let dim = centre.len();
        check_same_length(covariance, dim * dim)?;
        let rows = cholesky(covariance, dim).ok_or_else(|| {
            Error::data(
                "the covariance of the warm-up is not positive definite; \
                 warm up for longer, or use a diagonal metric",
            )
        })?;
        Ok(Scales::Dense { centre: rounded(centre), rows: rounded(&rows) })
    }

    /// $\theta = c + L z$
    pub fn to_theta(&self, z: &[F], theta: &mut [F]) {
        match self {
            Scales::Identity => theta.copy_from_slice(z),
            Scales::Diagonal { centre, scales } => {
                for (((theta, z), c), s) in theta.iter_mut().zip(z).zip(centre).zip(scales) {
                    *theta = *c + *s * *z;
                }
            }
            Scales::Dense { centre, rows } => {
                Arch::new().dispatch(Forward { centre, rows, z, theta });
            }
        }
    }

    /// Solves $\theta = c + L z$. A parameter of scale zero has z = 0.
    pub fn to_z(&self, theta: &[F]) -> Vec<F> {
        match self {
            Scales::Identity => theta.to_vec(),
            Scales::Diagonal { centre, scales } => theta
                .iter()
                .zip(centre)
                .zip(scales)
                .map(|((x, c), s)| if *s == F::ZERO { F::ZERO } else { (*x - *c) / *s })
                .collect(),
            Scales::Dense { centre, rows } => {
                let mut z: Vec<F> = Vec::with_capacity(theta.len());
                let mut rest = rows.as_slice();
                for i in 0..theta.len() {
                    let (row, after) = rest.split_at(i + 1);
                    let known = row.iter().zip(&z).fold(F::ZERO, |sum, (l, z)| sum + *l * *z);
                    z.push((theta[i] - centre[i] - known) / row[i]);
                    rest = after;
                }
                z
            }
        }
    }

    /// $L^\top g$, in place: the gradient with respect to z.
    pub fn pull_back(&self, gradient: &mut [F]) {
        match self {
            Scales::Identity => {}
            Scales::Diagonal { scales, .. } => {
                gradient.iter_mut().zip(scales).for_each(|(g, s)| *g *= *s);
            }
            Scales::Dense { rows, .. } => Arch::new().dispatch(PullBack { rows, gradient }),
        }
    }
}

/// $\theta = c + L z$ for a triangle.
struct Forward<'a, F> {
    centre: &'a [F],
    rows: &'a [F],
    z: &'a [F],
    theta: &'a mut [F],
}

impl<F: Real> WithSimd for Forward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let mut rest = self.rows;
        for i in 0..self.theta.len() {
            let (row, after) = rest.split_at(i + 1);
            self.theta[i] = self.centre[i] + dot(row, &self.z[..=i]);
            rest = after;
        }
    }
}

/// $L^\top g$ for a triangle.
struct PullBack<'a, F> {
    rows: &'a [F],
    gradient: &'a mut [F],
}

impl<F: Real> WithSimd for PullBack<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        // Row i of L touches the elements up to i; taken from the first row on, an element is
        // overwritten just when its own row begins.
        let mut rest = self.rows;
        for i in 0..self.gradient.len() {
            let (row, after) = rest.split_at(i + 1);
            let g = self.gradient[i];
            self.gradient[i] = F::ZERO;
            for (sum, l) in self.gradient[..=i].iter_mut().zip(row) {
                *sum = l.fma(g, *sum);
            }
            rest = after;
        }
    }
}

/// Several sums side by side, which the compiler makes one vector of.
#[inline(always)]
fn dot<F: Real>(a: &[F], b: &[F]) -> F {
    const WIDTH: usize = 16;
    let mut sums = [F::ZERO; WIDTH];
    let (a_parts, b_parts) = (a.chunks_exact(WIDTH), b.chunks_exact(WIDTH));
    let tail: F = a_parts
        .remainder()
        .iter()
        .zip(b_parts.remainder())
        .fold(F::ZERO, |sum, (x, y)| x.fma(*y, sum));
    for (x, y) in a_parts.zip(b_parts) {
        for k in 0..WIDTH {
            sums[k] = x[k].fma(y[k], sums[k]);
        }
    }
    sums.iter().fold(tail, |sum, x| sum + *x)
}

fn rounded<F: Real>(values: &[f64]) -> Vec<F> {
    values.iter().map(|x| F::from_f64(*x)).collect()
}

fn check_same_length(values: &[f64], expected: usize) -> Result<()> {
    if values.len() == expected {
        return Ok(());
    }
    Err(Error::data(format!("scales of {} numbers where {expected} are needed", values.len())))
}

/// The lower Cholesky factor of a symmetric matrix, as rows up to the diagonal.
fn cholesky(matrix: &[f64], dim: usize) -> Option<Vec<f64>> {
    let at = |i: usize, j: usize| i * (i + 1) / 2 + j;
    let mut l = vec![0.0; dim * (dim + 1) / 2];
    for i in 0..dim {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| l[at(i, k)] * l[at(j, k)]).sum();
            let rest = matrix[i * dim + j] - sum;
            if i != j {
                l[at(i, j)] = rest / l[at(j, j)];
            } else if rest > 0.0 && rest.is_finite() {
                l[at(i, i)] = rest.sqrt();
            } else {
                return None;
            }
        }
    }
    Some(l)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CENTRE: [f64; 3] = [1.0, -2.0, 0.5];
    const COVARIANCE: [f64; 9] = [4.0, 2.0, 0.6, 2.0, 5.0, 1.0, 0.6, 1.0, 3.0];

    fn maps() -> [Scales<f64>; 3] {
        [
            Scales::Identity,
            Scales::diagonal(&CENTRE, &[2.0, 0.1, 3.0]).unwrap(),
            Scales::dense(&CENTRE, &COVARIANCE).unwrap(),
        ]
    }

    #[test]
    fn there_and_back() {
        for map in maps() {
            let z = [0.3, -1.2, 2.0];
            let mut theta = [0.0; 3];
            map.to_theta(&z, &mut theta);
            for (a, b) in map.to_z(&theta).iter().zip(z) {
                assert!((a - b).abs() < 1e-12, "{map:?}");
            }
        }
    }

    #[test]
    fn the_gradient_is_pulled_back_by_the_transpose() {
        // (L z') . g = z' . (L^T g) for every z'.
        for map in maps() {
            let g = [1.0, 2.0, -0.5];
            let mut pulled = g;
            map.pull_back(&mut pulled);
            for k in 0..3 {
                let (mut one, mut zero) = ([0.0; 3], [0.0; 3]);
                let mut z = [0.0; 3];
                map.to_theta(&z, &mut zero);
                z[k] = 1.0;
                map.to_theta(&z, &mut one);
                let expected: f64 = (0..3).map(|i| (one[i] - zero[i]) * g[i]).sum();
                assert!((pulled[k] - expected).abs() < 1e-12, "{map:?}");
            }
        }
    }

    #[test]
    fn the_factor_gives_the_covariance_back() {
        let l = cholesky(&COVARIANCE, 3).unwrap();
        let row = |i: usize| {
            let mut full = [0.0; 3];
            full[..=i].copy_from_slice(&l[i * (i + 1) / 2..][..=i]);
            full
        };
        for i in 0..3 {
            for j in 0..3 {
                let sum: f64 = (0..3).map(|k| row(i)[k] * row(j)[k]).sum();
                assert!((sum - COVARIANCE[i * 3 + j]).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn what_is_no_scale_is_refused() {
        assert!(Scales::<f64>::dense(&[0.0; 2], &[1.0, 2.0, 2.0, 1.0]).is_err());
        assert!(Scales::<f64>::diagonal(&[0.0], &[f64::NAN]).is_err());
        assert!(Scales::<f64>::diagonal(&[0.0; 2], &[1.0]).is_err());
    }
}
