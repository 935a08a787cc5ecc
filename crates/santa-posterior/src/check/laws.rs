//! The laws that the tests' thresholds come from: Student's and the normal's.

use crate::special::incomplete_beta;
use santa::stats::normal_cdf;

/// The chance that Student's t with `freedom` degrees of freedom is further from 0 than `t`.
pub(super) fn student_two_sided(t: f64, freedom: f64) -> f64 {
    if t.is_nan() {
        return f64::NAN;
    }
    let total = freedom + t * t;
    if total.is_infinite() {
        return 0.0;
    }
    incomplete_beta(freedom / total, t * t / total, 0.5 * freedom, 0.5)
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
}
