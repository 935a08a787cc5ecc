//! A paired test: do two methods differ, seed by seed, by more than chance?

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
    fn differences_of_one_sign_are_significant_and_others_are_not() {
        assert!(paired(&[0.1, 0.12, 0.09, 0.11, 0.1]).unwrap() < 1e-3);
        assert!(paired(&[0.1, -0.12, 0.09, -0.11, 0.02]).unwrap() > 0.5);
        assert_eq!(paired(&[0.1]), None);
        assert_eq!(paired(&[0.0, 0.0]), None);
    }
}
