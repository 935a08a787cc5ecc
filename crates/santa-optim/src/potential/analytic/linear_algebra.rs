//! The little linear algebra that exact answers need: row-major matrices of moderate size.

use crate::error::{Error, Result};

/// The lower factor L of a symmetric positive definite A = L L^T.
pub(super) fn cholesky(what: &str, a: &[f64], dim: usize) -> Result<Vec<f64>> {
    /// Asymmetry that rounding explains, relative to the diagonal.
    const ROUNDING: f64 = 1e-9;
    if Some(a.len()) != dim.checked_mul(dim) {
        let text = format!("{what} has {} elements, {dim} x {dim} are needed", a.len());
        return Err(Error::Structure(text));
    }
    let mut lower = vec![0.0; a.len()];
    for i in 0..dim {
        for j in 0..=i {
            let scale = (a[i * dim + i] * a[j * dim + j]).abs().sqrt();
            let asymmetry = (a[i * dim + j] - a[j * dim + i]).abs();
            if asymmetry.is_nan() || asymmetry > ROUNDING * scale {
                return Err(Error::Structure(format!("{what} is not symmetric at ({i}, {j})")));
            }
            let dot: f64 = (0..j).map(|k| lower[i * dim + k] * lower[j * dim + k]).sum();
            let rest = a[i * dim + j] - dot;
            if i != j {
                lower[i * dim + j] = rest / lower[j * dim + j];
            } else if rest > 0.0 && rest.is_finite() {
                lower[i * dim + i] = rest.sqrt();
            } else {
                let text = format!("{what} is not positive definite (pivot {i} is {rest})");
                return Err(Error::Structure(text));
            }
        }
    }
    Ok(lower)
}

/// Solves L L^T x = b in place.
pub(super) fn solve(lower: &[f64], dim: usize, b: &mut [f64]) {
    for i in 0..dim {
        let dot: f64 = (0..i).map(|k| lower[i * dim + k] * b[k]).sum();
        b[i] = (b[i] - dot) / lower[i * dim + i];
    }
    for i in (0..dim).rev() {
        let dot: f64 = (i + 1..dim).map(|k| lower[k * dim + i] * b[k]).sum();
        b[i] = (b[i] - dot) / lower[i * dim + i];
    }
}

/// The inverse of L L^T, symmetric to the last bit.
pub(super) fn inverse(lower: &[f64], dim: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; dim * dim];
    let mut column = vec![0.0; dim];
    for j in 0..dim {
        column.fill(0.0);
        column[j] = 1.0;
        solve(lower, dim, &mut column);
        for i in j..dim {
            inverse[i * dim + j] = column[i];
            inverse[j * dim + i] = column[i];
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [f64; 9] = [4.0, 2.0, -1.0, 2.0, 5.0, 0.5, -1.0, 0.5, 3.0];

    #[test]
    fn the_factor_and_the_inverse_give_the_matrix_back() {
        let lower = cholesky("A", &A, 3).unwrap();
        let inverse = inverse(&lower, 3);
        for i in 0..3 {
            for j in 0..3 {
                let back: f64 = (0..3).map(|k| lower[i * 3 + k] * lower[j * 3 + k]).sum();
                assert!((back - A[i * 3 + j]).abs() < 1e-14);
                let unit: f64 = (0..3).map(|k| A[i * 3 + k] * inverse[k * 3 + j]).sum();
                assert!((unit - f64::from(u8::from(i == j))).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn matrices_without_a_factor_are_refused_by_name() {
        for (matrix, dim, word) in [
            (vec![1.0, 2.0, 2.0, 1.0], 2, "positive definite"),
            (vec![1.0, 0.5, 0.4, 1.0], 2, "symmetric"),
            (vec![1.0, 2.0, 3.0], 2, "2 x 2"),
            (vec![f64::NAN], 1, "not"),
        ] {
            let message = cholesky("the covariance", &matrix, dim).unwrap_err().to_string();
            assert!(message.contains("the covariance") && message.contains(word), "{message}");
        }
    }
}
