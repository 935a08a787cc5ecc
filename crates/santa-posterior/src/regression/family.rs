//! What the response is, given its linear predictor: losses, their slopes and curvatures.

use super::lines::Arithmetic;
use crate::error::{Error, Result};
use pulp::{Simd, WithSimd};
use santa::Real;
use serde::{Deserialize, Serialize};

/// Degrees of freedom of [`Family::robust`]: heavy tails, and still a variance.
pub const DEGREES: f64 = 4.0;

/// The law of a response y around its linear predictor $z = x^\top\theta$.
///
/// With $r = z - y$, the loss of a datum is, up to constants,
///
/// $$ \ell_{\text{Gaussian}} = \log\sigma + \frac{r^2}{2\sigma^2}, \qquad
///    \ell_{\text{Bernoulli}} = \log(1 + e^z) - y z, \qquad
///    \ell_{\text{Student}} = \log\sigma
///    {} + \frac{\nu + 1}{2} \log\left(1 + \frac{r^2}{\nu\sigma^2}\right). $$
///
/// An unknown $\sigma$ is the last parameter, as $\log\sigma$; see [`Sigma`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Family {
    /// A number with Gaussian noise: linear regression.
    Gaussian {
        /// The noise's standard deviation.
        sigma: Sigma,
    },
    /// 0 or 1: logistic regression.
    Bernoulli,
    /// A number with Student's t noise, for which an outlier is no surprise: robust regression.
    StudentT {
        /// Degrees of freedom $\nu$.
        degrees: f64,
        /// The noise's scale.
        sigma: Sigma,
    },
}

/// The scale of the noise: known, or unknown with a prior.
///
/// The sampler moves $s = \log\sigma$. A prior $p(\sigma)$ and the change of variables give
/// $-\log p(\sigma) - s$, which belongs to U once, not once a datum: it enters the mean loss divided
/// by N, for [`santa::Target`] has no prior of this form.
///
/// $$ \text{half-normal: } \frac{\sigma^2}{2\tau^2} - s, \qquad
///    \text{half-Cauchy: } \log\left(1 + \frac{\sigma^2}{\tau^2}\right) - s. $$
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Sigma {
    /// Known, in the response's units.
    Fixed {
        /// Its value.
        value: f64,
    },
    /// Half-normal, on the scale of the fit (see [`Scaling`](super::Scaling)).
    HalfNormal {
        /// $\tau$
        scale: f64,
    },
    /// Half-Cauchy, on the scale of the fit.
    HalfCauchy {
        /// $\tau$
        scale: f64,
    },
}

impl Default for Sigma {
    /// Half-normal of scale 1: the noise is no wider than the response itself.
    fn default() -> Self {
        Sigma::HalfNormal { scale: 1.0 }
    }
}

impl Sigma {
    /// Whether it is a parameter.
    pub fn is_unknown(&self) -> bool {
        !matches!(self, Sigma::Fixed { .. })
    }

    fn check(&self) -> Result<()> {
        let (field, value) = match *self {
            Sigma::Fixed { value } => ("sigma.value", value),
            Sigma::HalfNormal { scale } | Sigma::HalfCauchy { scale } => ("sigma.scale", scale),
        };
        positive(field, value)
    }

    /// $-\log p(s)$ and its first two derivatives in $s = \log\sigma$.
    pub(super) fn energy(&self, s: f64) -> [f64; 3] {
        match *self {
            Sigma::Fixed { .. } => [0.0; 3],
            Sigma::HalfNormal { scale } => {
                let square = exp(2.0 * (s - Real::ln(scale)));
                [0.5 * square - s, square - 1.0, 2.0 * square]
            }
            Sigma::HalfCauchy { scale } => {
                let square = exp(2.0 * (s - Real::ln(scale)));
                let share = 1.0 / (1.0 + 1.0 / square); // without overflow for a large square
                [Real::ln(1.0 + square) - s, 2.0 * share - 1.0, 4.0 * share * (1.0 - share)]
            }
        }
    }
}

impl Family {
    /// Linear regression with an unknown noise.
    pub fn linear() -> Self {
        Family::Gaussian { sigma: Sigma::default() }
    }
    /// Logistic regression.
    pub fn logistic() -> Self {
        Family::Bernoulli
    }
    /// Robust regression: Student's t of [`DEGREES`] degrees of freedom and unknown scale.
    pub fn robust() -> Self {
        Family::StudentT { degrees: DEGREES, sigma: Sigma::default() }
    }
    /// The noise's scale, where there is one.
    pub fn sigma(&self) -> Option<Sigma> {
        match *self {
            Family::Bernoulli => None,
            Family::Gaussian { sigma } | Family::StudentT { sigma, .. } => Some(sigma),
        }
    }
    /// Whether $\log\sigma$ is a parameter.
    pub fn has_unknown_sigma(&self) -> bool {
        self.sigma().is_some_and(|sigma| sigma.is_unknown())
    }

    pub(super) fn check(&self) -> Result<()> {
        if let Family::StudentT { degrees, .. } = *self {
            positive("degrees", degrees)?;
        }
        self.sigma().map_or(Ok(()), |sigma| sigma.check())
    }

    /// The family at a given $\log\sigma$.
    pub(super) fn at<X: Real>(&self, log_sigma: f64) -> Terms<X> {
        let variance = exp(2.0 * log_sigma);
        match *self {
            Family::Bernoulli => Terms::Bernoulli,
            Family::Gaussian { .. } => Terms::Gaussian { precision: X::from_f64(1.0 / variance) },
            Family::StudentT { degrees, .. } => Terms::StudentT {
                precision: X::from_f64(1.0 / (degrees * variance)),
                more: X::from_f64(degrees + 1.0),
                variance: X::from_f64(variance * degrees),
            },
        }
    }

    /// Second derivatives of a datum's loss: in z, in z and s, in s. `expected` asks for their means
    /// under the model, which are never negative.
    pub(super) fn curvature(&self, z: f64, y: f64, log_sigma: f64, expected: bool) -> [f64; 3] {
        let precision = exp(-2.0 * log_sigma);
        let u2 = (z - y) * (z - y) * precision;
        match *self {
            Family::Bernoulli => {
                let e = exp(-z.abs());
                [e / ((1.0 + e) * (1.0 + e)), 0.0, 0.0]
            }
            Family::Gaussian { .. } if expected => [precision, 0.0, 2.0],
            Family::Gaussian { .. } => [precision, -2.0 * (z - y) * precision, 2.0 * u2],
            Family::StudentT { degrees, .. } if expected => {
                let more = degrees + 3.0; // the Fisher information of Student's t
                [(degrees + 1.0) / more * precision, 0.0, 2.0 * degrees / more]
            }
            Family::StudentT { degrees, .. } => {
                let q = degrees + u2;
                let common = (degrees + 1.0) / (q * q);
                let cross = -2.0 * degrees * common * (z - y) * precision;
                [common * (degrees - u2) * precision, cross, 2.0 * degrees * common * u2]
            }
        }
    }
}

/// The same bits on every machine, unlike the standard library's.
fn exp(x: f64) -> f64 {
    Real::exp(x)
}

pub(super) fn positive(field: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::setting(field, value, "it must be positive and finite"))
}

/// A family with its scalars at hand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Terms<X> {
    Gaussian {
        precision: X,
    },
    Bernoulli,
    StudentT {
        /// $1 / \nu\sigma^2$
        precision: X,
        /// $\nu + 1$
        more: X,
        /// $\nu\sigma^2$
        variance: X,
    },
}

/// Rows of a tile at most.
pub(super) const TILE: usize = 64;

/// What is computed for each datum of a tile.
///
/// A loss is a sum of `part` and a multiple of the logarithm of `factor`: the factors of many data
/// are multiplied before one logarithm is taken.
#[derive(Clone, Debug)]
pub(super) struct Tile<X> {
    pub rows: [u32; TILE],
    pub z: [X; TILE],
    pub y: [X; TILE],
    /// Derivative of the loss in z.
    pub slope: [X; TILE],
    /// Derivative of the loss in $\log\sigma$.
    pub scale: [X; TILE],
    pub part: [X; TILE],
    pub factor: [X; TILE],
}

impl<X: Real> Tile<X> {
    pub fn new() -> Self {
        let zeros = [X::ZERO; TILE];
        Tile {
            rows: [0; TILE],
            z: zeros,
            y: zeros,
            slope: zeros,
            scale: zeros,
            part: zeros,
            factor: zeros,
        }
    }

    /// The sum of the losses of the first `len` data, without $\log\sigma$, and of their derivatives
    /// in $\log\sigma$.
    #[inline(always)]
    fn sums(&self, terms: &Terms<X>, len: usize) -> (f64, f64) {
        match terms {
            Terms::Bernoulli => (add(&self.part[..len]) + logarithms(&self.factor[..len]), 0.0),
            Terms::Gaussian { .. } => (add(&self.part[..len]), add(&self.scale[..len])),
            Terms::StudentT { more, .. } => {
                let logarithms = logarithms(&self.factor[..len]);
                (0.5 * more.to_f64() * logarithms, add(&self.scale[..len]))
            }
        }
    }
}

/// Sums that are made side by side.
const LANES: usize = 8;

/// The sum of the values. (A function and no closure, which would be compiled for no instruction set.)
#[inline(always)]
fn add<X: Real>(values: &[X]) -> f64 {
    let mut sums = [0.0; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for values in whole {
        for l in 0..LANES {
            sums[l] += values[l].to_f64();
        }
    }
    rest.iter().zip(&mut sums).for_each(|(x, sum)| *sum += x.to_f64());
    sums.iter().sum::<f64>()
}

/// The sum of the factors' logarithms: a few logarithms of their products.
#[inline(always)]
fn logarithms<X: Real>(factors: &[X]) -> f64 {
    let mut products = [1.0f64; LANES];
    let (whole, rest) = factors.as_chunks::<LANES>();
    for factors in whole {
        for l in 0..LANES {
            products[l] *= factors[l].to_f64();
        }
    }
    rest.iter().zip(&mut products).for_each(|(x, p)| *p *= x.to_f64());
    let mut sum = 0.0;
    for p in products {
        // `Real::ln` is for finite numbers.
        sum += if p.is_finite() { Real::ln(p) } else { p };
    }
    sum
}

/// Fills in slopes and losses of the first `len` data of a tile, and gives the sum of the losses,
/// without $\log\sigma$, and of their derivatives in $\log\sigma$.
pub(super) struct Evaluate<'a, X> {
    pub terms: Terms<X>,
    pub tile: &'a mut Tile<X>,
    pub len: usize,
}

impl<X: Arithmetic> WithSimd for Evaluate<'_, X> {
    type Output = (f64, f64);
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (f64, f64) {
        let Evaluate { terms, tile, len } = self;
        let Tile { z, y, slope, scale, part, factor, .. } = &mut *tile;
        let (z, y) = (&z[..len], &y[..len]);
        let (slope, scale) = (&mut slope[..len], &mut scale[..len]);
        let (part, factor) = (&mut part[..len], &mut factor[..len]);
        match terms {
            Terms::Gaussian { precision } => {
                for i in 0..len {
                    let r = z[i] - y[i];
                    slope[i] = precision * r;
                    let square = slope[i] * r;
                    scale[i] = X::ONE - square;
                    part[i] = X::HALF * square;
                }
            }
            Terms::Bernoulli => {
                for i in 0..len {
                    let e = (-z[i].abs()).exp();
                    let whole = X::ONE + e;
                    // The larger of the two probabilities has the 1 above the fraction's line.
                    let top = if z[i] > X::ZERO { X::ONE } else { e };
                    let positive = if z[i] > X::ZERO { z[i] } else { X::ZERO };
                    slope[i] = top / whole - y[i];
                    part[i] = positive - y[i] * z[i];
                    factor[i] = whole;
                }
            }
            Terms::StudentT { precision, more, variance } => {
                for i in 0..len {
                    let r = z[i] - y[i];
                    slope[i] = more * r / r.fma(r, variance);
                    scale[i] = X::ONE - slope[i] * r;
                    factor[i] = (r * r).fma(precision, X::ONE);
                }
            }
        }
        tile.sums(&terms, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate<X: Arithmetic>(family: &Family, z: X, y: X, log_sigma: f64) -> [f64; 3] {
        let mut tile = Tile::new();
        (tile.z[0], tile.y[0]) = (z, y);
        let terms = family.at::<X>(log_sigma);
        let (loss, _) = pulp::Arch::new().dispatch(Evaluate { terms, tile: &mut tile, len: 1 });
        let extra = if family.sigma().is_some() { log_sigma } else { 0.0 };
        [loss + extra, tile.slope[0].to_f64(), tile.scale[0].to_f64()]
    }

    #[test]
    fn losses_slopes_and_curvatures_belong_together() {
        const STEP: f64 = 1e-5;
        const TOLERANCE: f64 = 1e-8;
        for family in [Family::linear(), Family::logistic(), Family::robust()] {
            for (z, y, s) in [(0.3, 1.0, 0.2), (-4.0, 0.0, -0.7), (9.0, 0.0, 0.0), (0.0, 1.0, 1.0)]
            {
                let at = |dz: f64, ds: f64| evaluate(&family, z + dz, y, s + ds);
                let differ =
                    |k: usize, dz: f64, ds: f64| (at(dz, ds)[k] - at(-dz, -ds)[k]) / (2.0 * STEP);
                let [_, slope, scale] = at(0.0, 0.0);
                let [zz, zs, ss] = family.curvature(z, y, s, false);
                let mut pairs = vec![(differ(0, STEP, 0.0), slope), (differ(1, STEP, 0.0), zz)];
                if family.sigma().is_some() {
                    pairs.push((differ(0, 0.0, STEP), scale));
                    pairs.push((differ(1, 0.0, STEP), zs));
                    pairs.push((differ(2, 0.0, STEP), ss));
                }
                for (i, (a, b)) in pairs.into_iter().enumerate() {
                    assert!(
                        (a - b).abs() < TOLERANCE * (1.0 + b.abs()) * 100.0,
                        "{family:?} {i}: {a} {b}"
                    );
                }
            }
        }
        for sigma in [Sigma::HalfNormal { scale: 0.7 }, Sigma::HalfCauchy { scale: 2.0 }] {
            let at = |s: f64| sigma.energy(s);
            for k in 0..2 {
                let slope = (at(0.4 + STEP)[k] - at(0.4 - STEP)[k]) / (2.0 * STEP);
                assert!((slope - at(0.4)[k + 1]).abs() < TOLERANCE);
            }
        }
    }

    /// Against the standard library's functions, and where a plain formula would overflow.
    #[test]
    fn the_logistic_slope_is_exact_to_rounding_and_never_overflows() {
        let family = Family::logistic();
        for i in -400..=400 {
            let z = 0.1 * f64::from(i);
            let [loss, slope, _] = evaluate(&family, z, 0.0, 0.0);
            let expected = 1.0 / (1.0 + (-z).exp());
            assert!((slope - expected).abs() <= 2e-15 * expected, "{z}");
            let expected = z.max(0.0) + (-z.abs()).exp().ln_1p();
            assert!((loss - expected).abs() <= 4e-16 * (1.0 + expected), "{z}");
            let [_, narrow, _] = evaluate(&family, z as f32, 0.0, 0.0);
            assert!((narrow - slope).abs() <= 1e-5 * slope, "{z}");
        }
        assert_eq!(evaluate(&family, -1e4, 1.0, 0.0)[..2], [1e4, -1.0]);
        assert_eq!(evaluate(&family, 1e4, 1.0, 0.0)[..2], [0.0, 0.0]);
        assert_eq!(evaluate(&family, -1e4f32, 1.0, 0.0)[..2], [1e4, -1.0]);
    }

    #[test]
    fn impossible_scales_are_refused_by_name() {
        let wrong = Family::Gaussian { sigma: Sigma::HalfNormal { scale: 0.0 } };
        assert!(wrong.check().unwrap_err().to_string().contains("sigma.scale"));
        let wrong = Family::StudentT { degrees: f64::NAN, sigma: Sigma::default() };
        assert!(wrong.check().unwrap_err().to_string().contains("degrees"));
    }
}
