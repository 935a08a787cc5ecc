//! Symmetric matrices of moderate size, row by row.

/// Partial sums of a product.
const LANES: usize = 8;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for l in 0..LANES {
            sums[l] += a[l] * b[l];
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

/// The lower factor L of $A = L L^\top$, of which only the lower triangle is read; none if A is not
/// positive definite.
pub(super) fn factor(a: &[f64], dim: usize) -> Option<Vec<f64>> {
    let mut lower = vec![0.0; dim * dim];
    for i in 0..dim {
        let (above, row) = lower.split_at_mut(i * dim);
        for j in 0..=i {
            if j < i {
                let other = &above[j * dim..(j + 1) * dim];
                row[j] = (a[i * dim + j] - dot(&row[..j], &other[..j])) / other[j];
            } else {
                let rest = a[i * dim + i] - dot(&row[..i], &row[..i]);
                // Of a singular matrix, rounding leaves some of the diagonal.
                let rounding = f64::EPSILON * dim as f64 * a[i * dim + i];
                if !(rest > rounding && rest.is_finite()) {
                    return None;
                }
                row[i] = rest.sqrt();
            }
        }
    }
    Some(lower)
}

/// Solves $L L^\top x = b$ in place.
pub(super) fn solve(lower: &[f64], dim: usize, b: &mut [f64]) {
    for i in 0..dim {
        b[i] = (b[i] - dot(&lower[i * dim..i * dim + i], &b[..i])) / lower[i * dim + i];
    }
    for i in (0..dim).rev() {
        let x = b[i] / lower[i * dim + i];
        b[i] = x;
        for (b, l) in b[..i].iter_mut().zip(&lower[i * dim..i * dim + i]) {
            *b -= l * x;
        }
    }
}

/// The diagonal of $(L L^\top)^{-1}$: squared lengths of the columns of $L^{-1}$.
pub(super) fn inverse_diagonal(lower: &[f64], dim: usize) -> Vec<f64> {
    // Row j of the transposed inverse: M_jj = 1 / L_jj, M_ji = -sum_k L_ik M_jk / L_ii.
    let mut row = vec![0.0; dim];
    (0..dim)
        .map(|j| {
            row[j] = 1.0 / lower[j * dim + j];
            for i in j + 1..dim {
                row[i] = -dot(&lower[i * dim + j..i * dim + i], &row[j..i]) / lower[i * dim + i];
            }
            row[j..].iter().map(|x| x * x).sum()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [f64; 9] = [4.0, 2.0, -1.0, 2.0, 5.0, 0.5, -1.0, 0.5, 3.0];

    #[test]
    fn a_factor_solves_and_inverts() {
        let lower = factor(&A, 3).unwrap();
        let variances = inverse_diagonal(&lower, 3);
        for j in 0..3 {
            let mut x = [0.0; 3];
            x[j] = 1.0;
            solve(&lower, 3, &mut x);
            assert!((x[j] - variances[j]).abs() < 1e-15);
            for i in 0..3 {
                let back: f64 = (0..3).map(|k| A[i * 3 + k] * x[k]).sum();
                assert!((back - f64::from(u8::from(i == j))).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn what_is_not_positive_definite_has_no_factor() {
        assert!(factor(&[1.0, 2.0, 2.0, 1.0], 2).is_none());
        assert!(factor(&[1.0, 1.0, 1.0, 1.0], 2).is_none());
        assert!(factor(&[f64::NAN], 1).is_none());
    }
}
