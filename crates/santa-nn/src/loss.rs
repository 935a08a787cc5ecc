//! Softmax cross-entropy.
//!
//! $$ L = -\frac{1}{n} \sum_i \log p_{i, y_i}, \qquad p_{ij} = \frac{e^{z_{ij}}}{\sum_k e^{z_{ik}}},
//! \qquad \frac{\partial L}{\partial z_{ij}} = \frac{p_{ij} - [j = y_i]}{n} $$

use crate::kernels::{Scalar, vectorised};
use pulp::Arch;

/// A probability this much above the least normal number is as good as zero: 1e-30 in `f32`.
const NEGLIGIBLE: f64 = 1e8;

/// Turns logits into log probabilities, row by row.
pub(crate) fn log_softmax<F: Scalar>(logits: &mut [F], classes: usize) {
    vectorised(
        #[inline(always)]
        || {
            for row in logits.chunks_exact_mut(classes) {
                let (largest, sum) = shifted_sum(row);
                let log = F::from_f64(largest.to_f64() + sum.ln());
                row.iter_mut().for_each(|z| *z -= log);
            }
        },
    );
}

/// $-\log p_{i, y_i}$ for each row; the derivatives of their sum times `weight` go to `d`.
pub(crate) fn cross_entropy<F: Scalar>(
    logits: &[F],
    labels: impl Iterator<Item = usize>,
    classes: usize,
    weight: F,
    d: &mut [F],
    losses: &mut [f64],
) {
    // Products of less than this would be subnormal, and a hundred times slower.
    let tiny = F::from_f64(F::LEAST_NORMAL * NEGLIGIBLE);
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let rows = logits.chunks_exact(classes).zip(d.chunks_exact_mut(classes));
            for (((z, d), label), loss) in rows.zip(labels).zip(losses) {
                let (largest, sum) = shifted_sum(z);
                *loss = sum.ln() - (z[label] - largest).to_f64();
                let scale = weight / F::from_f64(sum);
                for (d, z) in d.iter_mut().zip(z) {
                    let e = (*z - largest).exp();
                    *d = if e < tiny { F::ZERO } else { e * scale };
                }
                d[label] -= weight;
            }
        },
    );
}

/// $-\log p_{i, y_i}$ for each row, and the number of rows whose largest logit is not their label's.
pub(crate) fn evaluate<F: Scalar>(
    logits: &[F],
    labels: impl Iterator<Item = usize>,
    classes: usize,
    losses: &mut [f64],
) -> usize {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut wrong = 0;
            for ((z, label), loss) in logits.chunks_exact(classes).zip(labels).zip(losses) {
                let (largest, sum) = shifted_sum(z);
                *loss = sum.ln() - (z[label] - largest).to_f64();
                // A NaN is wrong; of several that are largest, the first counts.
                let found = z.iter().position(|z| *z == largest);
                wrong += usize::from(found != Some(label) || !sum.is_finite());
            }
            wrong
        },
    )
}

/// The largest element, and $\sum_k e^{z_k - \max}$. A NaN shows in the sum.
#[inline(always)]
fn shifted_sum<F: Scalar>(row: &[F]) -> (F, f64) {
    let largest = row[1..].iter().fold(row[0], |a, b| if *b > a { *b } else { a });
    let sum = row.iter().map(|z| (*z - largest).exp()).fold(F::ZERO, |a, b| a + b);
    (largest, sum.to_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_logits_do_not_overflow() {
        let mut logits = [1000.0f32, 998.0, -1000.0];
        let mut d = [0.0; 3];
        let mut loss = [0.0];
        cross_entropy(&logits, [1].into_iter(), 3, 1.0, &mut d, &mut loss);
        let [loss] = loss;
        let expected = 2.0 + (-2.0f64).exp().ln_1p();
        assert!((loss - expected).abs() < 1e-6 && (d.iter().sum::<f32>()).abs() < 1e-6);
        log_softmax(&mut logits, 3);
        assert!((f64::from(logits[1]) + expected).abs() < 1e-4 && logits[2] < -1999.0);
    }

    #[test]
    fn a_nan_is_an_error_and_shows_in_the_loss() {
        for logits in [[f64::NAN, 1.0], [1.0, f64::NAN]] {
            for label in [0, 1] {
                let mut loss = [0.0];
                assert_eq!(evaluate(&logits, [label].into_iter(), 2, &mut loss), 1);
                assert!(loss[0].is_nan());
            }
        }
    }

    #[test]
    fn the_first_of_equal_logits_is_the_prediction() {
        assert_eq!(evaluate(&[1.0f32, 1.0], [0].into_iter(), 2, &mut [0.0]), 0);
        assert_eq!(evaluate(&[1.0f32, 1.0], [1].into_iter(), 2, &mut [0.0]), 1);
    }
}
