//! Student's distribution function.

use crate::special::{incomplete_beta, ln_gamma};
use santa::stats::normal_cdf;

/// Degrees of freedom from which on Student's law is taken for the normal one: their distribution
/// functions differ by less than 0.2 over this.
const NORMAL_FROM: f64 = 1e6;

/// The logarithm of Student's density at 0, with `nu` degrees of freedom.
pub(super) fn student_log_peak(nu: f64) -> f64 {
    if nu >= NORMAL_FROM {
        // The ratio of the gamma functions is sqrt(nu / 2) (1 - 1 / (4 nu) + ...).
        return -0.5 * std::f64::consts::TAU.ln() - 0.25 / nu;
    }
    ln_gamma(0.5 * (nu + 1.0)) - ln_gamma(0.5 * nu) - 0.5 * (std::f64::consts::PI * nu).ln()
}

/// Student's distribution function with `nu` degrees of freedom: to about 1e-12 up to a thousand of
/// them, and to 1e-6 however many.
///
/// $$ P(T \le -t) = \tfrac12 I_x(\nu/2, 1/2), \qquad x = \nu / (\nu + t^2), \quad t \ge 0 $$
pub(super) fn student_cdf(t: f64, nu: f64) -> f64 {
    if nu >= NORMAL_FROM {
        return normal_cdf(t);
    }
    // Both shares, each without cancellation, for any size of t.
    let ratio = t * (t / nu);
    let (x, rest) =
        if ratio.is_finite() { (1.0 / (1.0 + ratio), ratio / (1.0 + ratio)) } else { (0.0, 1.0) };
    let tail = 0.5 * incomplete_beta(x, rest, 0.5 * nu, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_law_is_that_of_the_closed_forms() {
        for t in [-30.0, -3.0, -1.0, -0.3, -1e-9, 0.0, 1e-3, 0.5, 1.0, 2.0, 7.0, 1e4] {
            let t: f64 = t;
            let cauchy = 0.5 + t.atan() / std::f64::consts::PI;
            let two = 0.5 + 0.5 * t / (2.0 + t * t).sqrt();
            let three = {
                let angle = (t / 3.0f64.sqrt()).atan();
                0.5 + (angle + angle.sin() * angle.cos()) / std::f64::consts::PI
            };
            for (nu, expected) in [(1.0, cauchy), (2.0, two), (3.0, three)] {
                let found = student_cdf(t, nu);
                assert!((found - expected).abs() < 2e-15, "{nu} {t}: {found} {expected}");
            }
        }
        assert_eq!(student_cdf(f64::INFINITY, 3.0), 1.0);
        assert_eq!(student_cdf(f64::NEG_INFINITY, 3.0), 0.0);
        let peak = |nu: f64| student_log_peak(nu).exp();
        assert!((peak(1.0) - 1.0 / std::f64::consts::PI).abs() < 1e-15);
        assert!((peak(2.0) - 0.125f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn the_distribution_function_is_the_integral_of_the_density() {
        for nu in [0.4, 5.5, 40.0, 3_000.0] {
            let density =
                |t: f64| (student_log_peak(nu) - 0.5 * (nu + 1.0) * (t * t / nu).ln_1p()).exp();
            const PIECES: usize = 2_000;
            for (from, to) in [(-2.0, -0.5), (-0.5, 1.0), (1.0, 4.0)] {
                // Simpson's rule.
                let width = (to - from) / PIECES as f64;
                let weight =
                    |i| if i == 0 || i == PIECES { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
                let sum: f64 =
                    (0..=PIECES).map(|i| weight(i) * density(from + i as f64 * width)).sum();
                let difference = student_cdf(to, nu) - student_cdf(from, nu);
                assert!((difference - sum * width / 3.0).abs() < 1e-11, "{nu}");
            }
        }
    }

    #[test]
    fn many_degrees_of_freedom_meet_the_normal_law_without_a_step() {
        for t in [-4.0, -1.0, 0.7, 2.5] {
            let below = student_cdf(t, 0.999 * NORMAL_FROM);
            assert!((below - normal_cdf(t)).abs() < 0.2 / NORMAL_FROM);
        }
        let gap = student_log_peak(0.999_999 * NORMAL_FROM) - student_log_peak(NORMAL_FROM);
        assert!(gap.abs() < 1e-8);
    }
}
