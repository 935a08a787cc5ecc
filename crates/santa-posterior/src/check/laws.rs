//! The laws that the tests' thresholds come from: Student's and the normal's.

use santa::stats::normal_cdf;

/// $\log\Gamma(x)$ for x > 0, by Stirling's series after the argument has been raised.
fn ln_gamma(x: f64) -> f64 {
    /// Where the four terms below are exact to 1e-15.
    const LARGE: f64 = 15.0;
    let mut x = x;
    let mut product = 1.0;
    while x < LARGE {
        product *= x;
        x += 1.0;
    }
    // The coefficients B_2k / (2k (2k - 1)) of the series, B the Bernoulli numbers.
    let y = 1.0 / (x * x);
    let series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - product.ln()
}

/// The regularised incomplete beta function $I_x(a, b)$, by its continued fraction (Lentz).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast below the mean; beyond it the symmetry helps.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    const TINY: f64 = 1e-300;
    const MOST_TERMS: u32 = 10_000;
    let ln_front = a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    let (mut c, mut d) = (1.0, 1.0 - (a + b) * x / (a + 1.0));
    d = 1.0 / if d.abs() < TINY { TINY } else { d };
    let mut fraction = d;
    for m in 1..MOST_TERMS {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 + term * d;
            d = 1.0 / if d.abs() < TINY { TINY } else { d };
            c = 1.0 + term / c;
            c = if c.abs() < TINY { TINY } else { c };
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0_f64).abs() < f64::EPSILON {
            break;
        }
    }
    ln_front.exp() * fraction / a
}

/// The chance that Student's t with `freedom` degrees of freedom is further from 0 than `t`.
pub(super) fn student_two_sided(t: f64, freedom: f64) -> f64 {
    if t.is_nan() {
        return f64::NAN;
    }
    incomplete_beta(freedom / (freedom + t * t), 0.5 * freedom, 0.5)
}

/// The t that is exceeded, in either direction, with this chance.
pub(super) fn student_threshold(chance: f64, freedom: f64) -> f64 {
    falling_root(|t| student_two_sided(t, freedom) - chance)
}

/// The z that a standard normal exceeds, in either direction, with this chance.
pub(super) fn normal_threshold(chance: f64) -> f64 {
    falling_root(|z| 2.0 * normal_cdf(-z) - chance)
}

/// Where a falling function on the positive numbers vanishes, by doubling and bisection.
fn falling_root(f: impl Fn(f64) -> f64) -> f64 {
    const BISECTIONS: u32 = 200;
    let (mut low, mut high) = (0.0, 1.0);
    while f(high) > 0.0 && high < f64::MAX / 2.0 {
        high *= 2.0;
    }
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (low + high);
        if f(middle) > 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_law_has_its_known_values() {
        // One degree is Cauchy's law, two have a closed form, many are the normal law.
        for t in [0.1, 1.0, 3.0, 40.0] {
            let cauchy = 1.0 - 2.0 * f64::atan(t) / std::f64::consts::PI;
            assert!((student_two_sided(t, 1.0) - cauchy).abs() < 1e-13);
            let two = 1.0 - t / (2.0 + t * t).sqrt();
            assert!((student_two_sided(t, 2.0) - two).abs() < 1e-13);
            let normal = 2.0 * normal_cdf(-t);
            assert!((student_two_sided(t, 1e6) - normal).abs() < 1e-5);
        }
        // The 97.5 % point for ten degrees, from any table.
        assert!((student_threshold(0.05, 10.0) - 2.228_138_85).abs() < 1e-8);
        assert!((normal_threshold(0.05) - 1.959_963_985).abs() < 1e-8);
    }

    #[test]
    fn the_gamma_function_interpolates_the_factorials() {
        let mut ln_factorial = 0.0;
        for n in 1..40 {
            assert!((ln_gamma(f64::from(n)) - ln_factorial).abs() < 1e-12 * (1.0 + ln_factorial));
            ln_factorial += f64::from(n).ln();
        }
        assert!((ln_gamma(0.5) - 0.5 * std::f64::consts::PI.ln()).abs() < 1e-12);
    }
}
