//! Paired tests: do two methods differ, seed by seed or example by example, by more than chance?

/// Two-sided p-value of Student's t-test on differences; none for fewer than two of them, or if all
/// are the same.
pub fn paired(differences: &[f64]) -> Option<f64> {
    let moments: santa::stats::Moments = differences.iter().copied().collect();
    let error = moments.standard_error();
    if differences.len() < 2 || error.is_nan() || error == 0.0 {
        return None;
    }
    Some(two_sided(moments.mean() / error, differences.len() - 1))
}

/// Two-sided p-value of the sign test: the chance that of `a + b` fair coins as few or fewer than the
/// smaller number fall on one side, or on the other. One where there are none.
pub fn sign_test(a: usize, b: usize) -> f64 {
    let n = a + b;
    // The logarithm of a share of all outcomes, which may be too small for a number.
    let mut ln_share = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for k in 0..=a.min(b) {
        tail += ln_share.exp();
        ln_share += ((n - k) as f64 / (k + 1) as f64).ln();
    }
    (2.0 * tail).min(1.0)
}

/// The probability that Student's t with `freedom` degrees of freedom is beyond $\pm t$. With
/// $\tan\vartheta = t/\sqrt\nu$ it is 1 less a finite sum of powers of $\cos\vartheta$.
fn two_sided(t: f64, freedom: usize) -> f64 {
    let theta = (t.abs() / (freedom as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    let odd = freedom % 2;
    // The factors are 2/3, 4/5, ... for an odd number of degrees, 1/2, 3/4, ... for an even one.
    let (mut term, mut sum) = (if odd == 1 { cos } else { 1.0 }, 0.0);
    let mut k = 1 + odd;
    while k < freedom {
        sum += term;
        term *= k as f64 / (k + 1) as f64 * cos * cos;
        k += 2;
    }
    let inside = match odd {
        1 => 2.0 / std::f64::consts::PI * (theta + sin * sum),
        _ => sin * sum,
    };
    (1.0 - inside).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles of printed tables.
    #[test]
    fn p_values_are_those_of_the_tables() {
        for (freedom, t) in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262)] {
            assert!((two_sided(t, freedom) - 0.05).abs() < 1e-4, "{freedom}");
        }
        assert!((two_sided(63.657, 1) - 0.01).abs() < 1e-5);
        assert_eq!(two_sided(0.0, 4), 1.0);
    }

    #[test]
    fn coins_that_fall_as_they_should_are_no_evidence() {
        // By hand: 2 (1 + 10) / 2^10.
        assert!((sign_test(9, 1) - 22.0 / 1024.0).abs() < 1e-12);
        assert!((sign_test(0, 6) - 2.0 / 64.0).abs() < 1e-12);
        assert_eq!((sign_test(5, 5), sign_test(0, 0)), (1.0, 1.0));
        assert!((sign_test(4, 5) - 1.0).abs() < 1e-12);
        // Beyond the range in which shares can be counted one by one.
        assert!((sign_test(1_000, 1_100) - 0.0307).abs() < 1e-3);
    }

    #[test]
    fn differences_of_one_sign_are_significant_and_others_are_not() {
        assert!(paired(&[0.1, 0.12, 0.09, 0.11, 0.1]).unwrap() < 1e-3);
        assert!(paired(&[0.1, -0.12, 0.09, -0.11, 0.02]).unwrap() > 0.5);
        assert_eq!(paired(&[0.1]), None);
        assert_eq!(paired(&[0.0, 0.0]), None);
    }
}
