//! The gamma and the incomplete beta function, which the laws of the other modules are made of.

/// Where Stirling's series is good to the last digits; smaller arguments are shifted.
const STIRLING_FROM: f64 = 12.0;
/// Stirling's series: $B_{2k} / (2k (2k - 1))$ for k = 1 to 7, with the Bernoulli numbers.
const STIRLING: [f64; 7] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1_260.0,
    -1.0 / 1_680.0,
    1.0 / 1_188.0,
    -691.0 / 360_360.0,
    1.0 / 156.0,
];

/// $\log \Gamma(x)$ for positive x.
pub fn ln_gamma(x: f64) -> f64 {
    let (mut z, mut product) = (x, 1.0);
    while z < STIRLING_FROM {
        product *= z;
        z += 1.0;
    }
    let series = STIRLING.iter().rev().fold(0.0, |sum, c| sum / (z * z) + c) / z;
    (z - 0.5) * z.ln() - z + 0.5 * std::f64::consts::TAU.ln() + series - f64::ln(product)
}

/// $I_x(a, b)$, the regularised incomplete beta function. `rest` is $1 - x$, which the caller may know
/// without cancellation.
///
/// By its continued fraction (DLMF 8.17.22) on the side of the mean where that converges fast,
///
/// $$ \frac{x^a (1-x)^b}{a\ B(a, b)} \cdot \cfrac{1}{1 + \cfrac{d_1}{1 + \cfrac{d_2}{1 + \cdots}}} $$
pub fn incomplete_beta(x: f64, rest: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || rest <= 0.0 {
        return x.clamp(0.0, 1.0);
    }
    let ln_front = a * x.ln() + b * rest.ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    let front = ln_front.exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(rest, b, a) / b
    }
}

/// The continued fraction $1/(1 + d_1/(1 + d_2/(1 + \ldots)))$, by Lentz's method.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    /// Takes the place of a zero in a denominator.
    const TINY: f64 = 1e-300;
    /// Far more than the root of the largest parameters, which is about what is needed.
    const MOST_TERMS: u32 = 100_000;
    let guarded = |y: f64| if y.abs() < TINY { TINY } else { y };
    let (mut c, mut d, mut f) = (1.0, 0.0, 1.0);
    for k in 1..MOST_TERMS {
        let m = f64::from(k / 2);
        let pole = a + 2.0 * m;
        let coefficient = if k % 2 == 1 {
            -(a + m) * (a + b + m) * x / (pole * (pole + 1.0))
        } else {
            m * (b - m) * x / ((pole - 1.0) * pole)
        };
        d = 1.0 / guarded(1.0 + coefficient * d);
        c = guarded(1.0 + coefficient / c);
        let change = c * d;
        f *= change;
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    1.0 / f
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gamma_function_is_that_of_factorials_and_halves() {
        let mut factorial = 1.0f64;
        for n in 1..30 {
            let relative = (ln_gamma(f64::from(n)) - factorial.ln()).abs();
            assert!(relative < 1e-14 * factorial.ln().max(1.0), "{n}");
            factorial *= f64::from(n);
        }
        assert!((ln_gamma(0.5) - 0.5 * std::f64::consts::PI.ln()).abs() < 1e-14);
        // Gamma(x) = 1/x - 0.5772 + ... near 0.
        assert!((ln_gamma(1e-9) - 1e9f64.ln()).abs() < 1e-8);
    }

    #[test]
    fn the_incomplete_beta_function_is_a_polynomial_for_whole_numbers() {
        for x in [0.0, 1e-9, 0.2, 0.5, 0.7, 1.0 - 1e-9, 1.0] {
            let rest = 1.0 - x;
            assert!((incomplete_beta(x, rest, 1.0, 1.0) - x).abs() < 1e-14);
            assert!((incomplete_beta(x, rest, 3.0, 1.0) - x.powi(3)).abs() < 1e-14);
            assert!((incomplete_beta(x, rest, 1.0, 5.0) - (1.0 - rest.powi(5))).abs() < 1e-14);
        }
    }
}
