//! Functions of one number, for loops that the compiler vectorises.
//!
//! They are built on [`Real::exp`] and operations that IEEE 754 defines exactly, so they have the
//! same bits on every instruction set. Infinities give limits (zero is approached to the least number that
//! the exponential gives), NaN gives NaN.

use santa::Real;

/// $1 / (1 + e^{-x})$, to a few units in the last place. It does not fall below the least normal number:
/// arithmetic with smaller ones takes a hundred times as long.
#[inline(always)]
pub fn sigmoid<F: Real>(x: F) -> F {
    let least = F::from_f64(if F::BYTES > size_of::<f32>() { -708.0 } else { -87.0 });
    let x = if x < least { least } else { x };
    F::ONE / (F::ONE + (-x).exp())
}

/// Hyperbolic tangent, to a few units in the last place, also near zero.
///
/// $$ \tanh |x| = \frac{1 - e^{-2|x|}}{1 + e^{-2|x|}} $$
///
/// loses digits below 1/2; there the seventh convergent of Lambert's continued fraction
/// $x / (1 + x^2 / (3 + x^2 / (5 + \dots)))$ is exact to 2e-16.
#[inline(always)]
pub fn tanh<F: Real>(x: F) -> F {
    let coefficient = F::from_f64;
    let e = (-(x.abs() + x.abs())).exp();
    let far = if x < F::ZERO { e - F::ONE } else { F::ONE - e };
    let s = x * x;
    let p = (s + coefficient(378.0)).fma(s, coefficient(17_325.0)).fma(s, coefficient(135_135.0));
    let q = coefficient(28.0).fma(s, coefficient(3_150.0)).fma(s, coefficient(62_370.0));
    let q = q.fma(s, coefficient(135_135.0));
    let near = x.abs() < F::HALF;
    let numerator = if near { x * p } else { far };
    let denominator = if near { q } else { F::ONE + e };
    numerator / denominator
}

/// $\log(1 + e^x)$, to a few units in the last place: the loss of a Bernoulli variable with logit
/// `x` that turns out zero; `softplus(x) - x` that of a one.
///
/// $$ \log(1 + e^x) = \max(x, 0) + 2 \operatorname{artanh} \frac{u}{2 + u},
///    \quad u = e^{-|x|} $$
///
/// by the series of the area tangent, whose argument is at most 1/3. No number on the way is subnormal.
#[inline(always)]
pub fn softplus<F: Real>(x: F) -> F {
    /// Of the area tangent of less, the first term is all.
    const SMALL: f64 = 1e-15;
    let u = (-x.abs()).exp();
    // Twice the argument, which may be half of the least normal number.
    let twice = (u + u) / (F::ONE + F::ONE + u);
    let s = F::HALF * if twice < F::from_f64(SMALL) { F::from_f64(SMALL) } else { twice };
    let z = s * s;
    let mut series = F::ZERO;
    // Terms 2 z^n / (2n + 1), one line each: a loop would not be vectorised.
    macro_rules! terms {
        ($($n:literal)*) => {
            $(series = series.fma(z, F::from_f64(2.0 / (2.0 * $n + 1.0)));)*
        };
    }
    // The first one left out is below half a unit in the last place: z is at most 1/9.
    if F::BYTES > size_of::<f32>() {
        terms!(16.0 15.0 14.0 13.0 12.0 11.0 10.0 9.0 8.0);
    }
    terms!(7.0 6.0 5.0 4.0 3.0 2.0 1.0);
    let log = (F::HALF * series * z).fma(twice, twice);
    let ramp = if x < F::ZERO { F::ZERO } else { x };
    ramp + log
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest error in units of the last place (of the result, but at least `floor`).
    fn worst<F: Real>(
        unit: f64,
        floor: f64,
        f: impl Fn(F) -> F,
        exact: impl Fn(f64) -> f64,
    ) -> f64 {
        const POINTS: i32 = 200_000;
        const REACH: f64 = 80.0;
        let error = |x: f64| {
            let x = F::from_f64(x);
            let expected = exact(x.to_f64());
            (f(x).to_f64() - expected).abs() / (unit * expected.abs().max(floor))
        };
        (-POINTS..=POINTS)
            .map(|i| f64::from(i) / f64::from(POINTS))
            // Dense near zero, where the formulas change.
            .flat_map(|x| [x * REACH, x * x * x * 2.0])
            .map(error)
            .fold(0.0, f64::max)
    }

    fn exact_sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }
    fn exact_softplus(x: f64) -> f64 {
        x.max(0.0) + (-x.abs()).exp().ln_1p()
    }

    #[test]
    fn functions_are_accurate_to_a_few_units_in_the_last_place() {
        const FEW: f64 = 4.0;
        let (narrow, wide) = (f64::from(f32::EPSILON), f64::EPSILON);
        for (name, error) in [
            ("f32 sigmoid", worst::<f32>(narrow, 0.0, sigmoid, exact_sigmoid)),
            ("f64 sigmoid", worst::<f64>(wide, 0.0, sigmoid, exact_sigmoid)),
            ("f32 tanh", worst::<f32>(narrow, 1e-30, tanh, f64::tanh)),
            ("f64 tanh", worst::<f64>(wide, 1e-300, tanh, f64::tanh)),
            ("f32 softplus", worst::<f32>(narrow, 0.0, softplus, exact_softplus)),
            ("f64 softplus", worst::<f64>(wide, 0.0, softplus, exact_softplus)),
        ] {
            println!("{name}: {error:.2}");
            assert!(error < FEW, "{name} is off by {error} units");
        }
    }

    fn limits<F: Real>() {
        let huge = F::from_f64(f64::INFINITY);
        assert_eq!((sigmoid(huge), tanh(huge), tanh(-huge)), (F::ONE, F::ONE, -F::ONE));
        assert_eq!((softplus(huge), tanh(F::ZERO)), (huge, F::ZERO));
        assert!(sigmoid(-huge) < F::from_f64(1e-37) && sigmoid(-huge) > F::ZERO);
        assert!(softplus(-huge) < F::from_f64(1e-37) && softplus(-huge) > F::ZERO);
        let nan = F::from_f64(f64::NAN);
        for result in [sigmoid(nan), tanh(nan), softplus(nan)] {
            assert!(!result.is_finite());
        }
    }

    #[test]
    fn infinities_give_limits_and_nan_gives_nan() {
        limits::<f32>();
        limits::<f64>();
    }
}
