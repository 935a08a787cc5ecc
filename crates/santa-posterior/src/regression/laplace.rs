//! The mode of a regression's posterior and the curvature there.

use super::cholesky::{factor, inverse_diagonal, solve};
use super::family::{Family, TILE};
use super::lines::Arithmetic;
use super::potential::Regression;
use crate::error::{Error, Result};
use crate::parallel;
use pulp::{Simd, WithSimd};
use santa::{Batch, Potential, Prior};

/// Coefficients beyond which the Hessian, a square, is too much.
const MOST_PARAMETERS: usize = 4096;
/// Steps of Newton's method; from a standardised start it takes about ten.
const MOST_STEPS: usize = 100;
/// Halvings of a step.
const MOST_HALVINGS: usize = 40;
/// The squared distance to the mode, in posterior standard deviations, at which a last step is made.
const CLOSE: f64 = 1e-8;
/// The distance at which a step that does not go down is blamed on rounding.
const ROUNDING: f64 = 1e-3;
/// The same with features in single precision, whose sums over many data are that uncertain.
const ROUNDING_F32: f64 = 0.05;
/// The share of the predicted decrease that a step must achieve (Armijo).
const DECREASE: f64 = 1e-4;

/// The Gaussian that fits a posterior at its mode: mean $\hat\theta$, covariance $H^{-1}$,
/// $H = \nabla^2 U(\hat\theta)$. For an anchor, for the start of a warm-up, and as a first answer.
///
/// All on the scale of the fit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Laplace {
    /// $\hat\theta$
    pub mode: Vec<f64>,
    /// $U(\hat\theta)$, up to a constant.
    pub energy: f64,
    /// The lower factor L of $H = L L^\top$, row by row.
    pub factor: Vec<f64>,
    /// The diagonal of $H^{-1}$.
    pub variances: Vec<f64>,
    /// Steps of Newton's method that it took.
    pub steps: usize,
}

impl Laplace {
    /// The logarithm of the mass of the Gaussian, $-U(\hat\theta) - \tfrac12 \log \det H$, up to the
    /// constant of the energy: the difference of two modes of one posterior is that of their shares.
    pub fn log_mass(&self) -> f64 {
        let dim = self.mode.len();
        let half_log_det: f64 = (0..dim).map(|i| self.factor[i * dim + i].ln()).sum();
        -self.energy - half_log_det
    }

    /// Whether a point is within a standard deviation of the mode.
    pub(super) fn is_at(&self, theta: &[f64]) -> bool {
        let dim = self.mode.len();
        let away: Vec<f64> = theta.iter().zip(&self.mode).map(|(x, mode)| x - mode).collect();
        // |L^T (theta - mode)|^2
        let square: f64 = (0..dim)
            .map(|j| (j..dim).map(|i| self.factor[i * dim + j] * away[i]).sum::<f64>().powi(2))
            .sum();
        square < 1.0
    }

    /// $H^{-1}$, row by row.
    pub fn covariance(&self) -> Vec<f64> {
        let dim = self.mode.len();
        let mut covariance = vec![0.0; dim * dim];
        let mut columns: Vec<&mut [f64]> = covariance.chunks_exact_mut(dim.max(1)).collect();
        let solved = parallel::each(&mut columns, |k, column| {
            // L L^T x = e_k, forwards and backwards. Above k the first of them is zero.
            for i in k..dim {
                let row = &self.factor[i * dim..(i + 1) * dim];
                let known: f64 = row[k..i].iter().zip(&column[k..]).map(|(l, x)| l * x).sum();
                let unit = f64::from(u8::from(i == k));
                column[i] = (unit - known) / row[i];
            }
            for i in (0..dim).rev() {
                column[i] /= self.factor[i * dim + i];
                let x = column[i];
                let row = &self.factor[i * dim..i * dim + i];
                column.iter_mut().zip(row).for_each(|(rest, l)| *rest -= l * x);
            }
            Ok(())
        });
        solved.expect("solving a triangle does not fail");
        covariance
    }

    /// $\hat\theta + L^{-\top} \xi$: a draw of the Gaussian, for standard normal $\xi$.
    ///
    /// # Panics
    /// If `xi` has another length than the mode.
    pub fn draw(&self, xi: &[f64]) -> Vec<f64> {
        let dim = self.mode.len();
        assert_eq!(xi.len(), dim, "as many normals as parameters");
        let mut x = xi.to_vec();
        for i in (0..dim).rev() {
            x[i] /= self.factor[i * dim + i];
            for j in 0..i {
                x[j] -= self.factor[i * dim + j] * x[i];
            }
        }
        x.iter_mut().zip(&self.mode).for_each(|(x, mode)| *x += mode);
        x
    }
}

impl<X: Arithmetic> Regression<X> {
    /// Finds the mode by Newton's method, with halved steps where a whole one does not go down.
    ///
    /// Where the Hessian is not positive definite on the way, which it may be while $\sigma$ is
    /// unknown, its mean under the model takes its place. A Laplace prior counts as the Gaussian of
    /// the same variance: its own mode has a kink, and no curvature.
    pub fn laplace(&self) -> Result<Laplace> {
        self.laplace_from(vec![0.0; self.target().dim()])
    }

    /// The same from a given start.
    pub(super) fn laplace_from(&self, mut theta: Vec<f64>) -> Result<Laplace> {
        let mut model = self.clone();
        let dim = self.target().dim();
        if dim > MOST_PARAMETERS {
            return Err(Error::data(format!(
                "{dim} parameters; the Hessian of more than {MOST_PARAMETERS} is too large: choose fewer \
                 features"
            )));
        }
        let rounding = if X::BYTES == size_of::<f32>() { ROUNDING_F32 } else { ROUNDING };
        let precisions = precisions(self);
        let mut gradient = vec![0.0; dim];
        let mut energy = model.slope(&theta, &precisions, &mut gradient)?;
        for steps in 1..=MOST_STEPS {
            let z = model.predictors(&theta);
            let mut done = None;
            for expected in [false, true] {
                let hessian = model.hessian(&theta, &z, &precisions, expected);
                let Some(lower) = factor(&hessian, dim) else { continue };
                let mut step = gradient.clone();
                solve(&lower, dim, &mut step);
                let square: f64 = step.iter().zip(&gradient).map(|(s, g)| s * g).sum();
                let mut length = 1.0;
                for _ in 0..MOST_HALVINGS {
                    let moved: Vec<f64> =
                        theta.iter().zip(&step).map(|(t, s)| t - length * s).collect();
                    let mut slope = vec![0.0; dim];
                    let there = model.slope(&moved, &precisions, &mut slope)?;
                    if there <= energy - DECREASE * length * square {
                        done = Some((moved, there, slope, square));
                        break;
                    }
                    length /= 2.0;
                }
                if done.is_none() && square.sqrt() < rounding && !expected {
                    done = Some((theta.clone(), energy, gradient.clone(), 0.0));
                }
                if done.is_some() {
                    break;
                }
            }
            let Some((moved, there, slope, square)) = done else { break };
            (theta, energy, gradient) = (moved, there, slope);
            if square < CLOSE {
                let z = model.predictors(&theta);
                if precisions.iter().all(|p| *p == 0.0) && model.separates(&z) {
                    break;
                }
                let hessian = model.hessian(&theta, &z, &precisions, false);
                let Some(lower) = factor(&hessian, dim) else { break };
                let variances = inverse_diagonal(&lower, dim);
                return Ok(Laplace { mode: theta, energy, factor: lower, variances, steps });
            }
        }
        /// In units of the response's own spread, the noise of a fit that is too good to be true.
        const NO_NOISE: f64 = -7.0;
        if self.family().has_unknown_sigma() && self.log_sigma(&theta) < NO_NOISE {
            return Err(Error::data(match self.family() {
                Family::StudentT { degrees, .. } => format!(
                    "the noise `sigma` goes to zero: the features explain so many of the responses exactly \
                     that noise with {degrees} degrees of freedom forgives the others; use more degrees, \
                     leave features out, or give `sigma` a fixed value"
                ),
                _ => "the features explain the response exactly, so that its noise `sigma` goes to zero: \
                      leave features out, or give `sigma` a fixed value"
                    .into(),
            }));
        }
        Err(Error::data(
            "the posterior has no mode that Newton's method can find: features may be copies or \
             sums of one another, or separate the classes; give the coefficients a Gaussian prior, \
             or leave features out",
        ))
    }

    /// U and its gradient.
    fn slope(&mut self, theta: &[f64], precisions: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let n = Regression::target(self).data_size().as_f64();
        let mut energy = n * self.loss_gradient(theta, &Batch::full(), gradient)?;
        for ((g, x), precision) in gradient.iter_mut().zip(theta).zip(precisions) {
            *g = n * *g + precision * x;
            energy += 0.5 * precision * x * x;
        }
        Ok(energy)
    }

    /// Whether every response is predicted: a flat prior then prefers ever larger coefficients.
    fn separates(&self, z: &[f64]) -> bool {
        let y = &self.data().response;
        *self.family() == Family::Bernoulli
            && z.iter().zip(y).all(|(z, y)| if y.to_f64() > 0.0 { *z > 0.0 } else { *z < 0.0 })
    }

    /// $\nabla^2 U$, its lower triangle, at a theta with linear predictors z.
    fn hessian(&self, theta: &[f64], z: &[f64], precisions: &[f64], expected: bool) -> Vec<f64> {
        let data = self.data();
        let (columns, dim) = (data.columns, theta.len());
        let log_sigma = self.log_sigma(theta);
        let curvatures: Vec<[f64; 3]> = z
            .iter()
            .zip(&data.response)
            .map(|(z, y)| self.family().curvature(*z, y.to_f64(), log_sigma, expected))
            .collect();
        let mut square = Square::new(columns);
        let mut cross = vec![0.0; dim];
        for (tile, curvatures) in curvatures.chunks(TILE).enumerate() {
            square.clear();
            for (r, [zz, zs, ss]) in curvatures.iter().enumerate() {
                let row = data.features.row(tile * TILE + r);
                let numbers = row.iter().flat_map(|line| X::numbers(line)).take(columns);
                for (i, x) in numbers.enumerate() {
                    square.put(r, i, x.to_f64(), *zz);
                    cross[i] += zs * x.to_f64();
                }
                if dim > columns {
                    cross[columns] += ss;
                }
            }
            square.add(curvatures.len());
        }
        let mut hessian = vec![0.0; dim * dim];
        for i in 0..columns {
            hessian[i * dim..i * dim + i + 1].copy_from_slice(&square.row(i)[..=i]);
        }
        if dim > columns {
            hessian[columns * dim..].copy_from_slice(&cross);
            let sigma = self.family().sigma().map_or([0.0; 3], |s| s.energy(log_sigma));
            hessian[dim * dim - 1] += sigma[2];
        }
        for (i, precision) in precisions.iter().enumerate() {
            hessian[i * dim + i] += precision;
        }
        hessian
    }
}

/// Of each parameter's prior.
fn precisions<X: Arithmetic>(model: &Regression<X>) -> Vec<f64> {
    let target = model.target();
    let mut precisions = vec![0.0; target.dim()];
    for (i, segment) in target.layout().segments().iter().enumerate() {
        precisions[segment.range()].fill(match target.settings(i).prior {
            Prior::Gaussian { precision } => precision,
            Prior::Laplace { scale } => 1.0 / (2.0 * scale * scale), // the variance is 2 scale^2
            _ => 0.0,
        });
    }
    precisions
}

/// Rows of the matrix that are worked on at a time.
const BLOCK: usize = 4;
/// Columns that are worth more threads than one.
#[cfg(feature = "parallel")]
const PARALLEL: usize = 256;
const LINE: usize = <f64 as Arithmetic>::LINE;

/// $\sum_n w_n x_n x_n^\top$, the lower triangle, a tile of rows at a time.
struct Square {
    lines: usize,
    x: Vec<<f64 as Arithmetic>::Line>,
    /// $w_n x_n$
    weighted: Vec<f64>,
    sum: Vec<<f64 as Arithmetic>::Line>,
}

impl Square {
    fn new(columns: usize) -> Self {
        let lines = columns.div_ceil(LINE);
        let rows = lines * LINE;
        Square {
            lines,
            x: vec![f64::NO_LINE; TILE * lines],
            weighted: vec![0.0; TILE * rows],
            sum: vec![f64::NO_LINE; rows * lines],
        }
    }
    fn clear(&mut self) {
        self.x.fill(f64::NO_LINE);
        self.weighted.fill(0.0);
    }
    fn put(&mut self, row: usize, column: usize, x: f64, weight: f64) {
        f64::numbers_mut(&mut self.x[row * self.lines + column / LINE])[column % LINE] = x;
        self.weighted[row * self.lines * LINE + column] = weight * x;
    }
    /// Adds the tile's first `rows` rows.
    fn add(&mut self, rows: usize) {
        let Square { lines, x, weighted, sum } = self;
        let (arch, lines) = (pulp::Arch::new(), *lines);
        let one = |(i, sum): (usize, &mut [<f64 as Arithmetic>::Line])| {
            arch.dispatch(Outer { first: i * BLOCK, lines, rows, x, weighted, sum });
        };
        #[cfg(feature = "parallel")]
        if lines * LINE >= PARALLEL {
            use rayon::prelude::*;
            sum.par_chunks_mut(BLOCK * lines).enumerate().for_each(one);
            return;
        }
        sum.chunks_mut(BLOCK * lines).enumerate().for_each(one);
    }
    fn row(&self, i: usize) -> Vec<f64> {
        let row = &self.sum[i * self.lines..(i + 1) * self.lines];
        row.iter().flat_map(f64::numbers).copied().collect()
    }
}

/// Adds a tile to [`BLOCK`] rows of the sum, up to the diagonal.
struct Outer<'a> {
    first: usize,
    lines: usize,
    rows: usize,
    x: &'a [<f64 as Arithmetic>::Line],
    weighted: &'a [f64],
    sum: &'a mut [<f64 as Arithmetic>::Line],
}

impl WithSimd for Outer<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Outer { first, lines, rows, x, weighted, sum } = self;
        let vectors = f64::vectors_in_line::<S>();
        for j in 0..=(first + BLOCK - 1) / LINE {
            for k in 0..vectors {
                let mut sums = [simd.splat_f64s(0.0); BLOCK];
                for r in 0..rows {
                    let x = f64::vectors::<S>(&x[r * lines + j])[k];
                    let at = r * lines * LINE + first;
                    let weights = &weighted[at..at + BLOCK];
                    for b in 0..BLOCK {
                        sums[b] = simd.mul_add_f64s(simd.splat_f64s(weights[b]), x, sums[b]);
                    }
                }
                for b in 0..BLOCK {
                    let here = &mut f64::vectors_mut::<S>(&mut sum[b * lines + j])[k];
                    *here = simd.add_f64s(*here, sums[b]);
                }
            }
        }
    }
}
