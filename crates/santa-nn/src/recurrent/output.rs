//! Outputs, their loss, and its derivatives by the states: a stretch of rows at a time, which are
//! independent of each other.

use super::panels::padded;
use super::plan::Row;
use super::rolls::PianoRolls;
use super::weights::HalfWeights;
use crate::kernels::{Scalar, Start, View, multiply, multiply_parts, sigmoid, softplus};
use pulp::{Arch, Simd, WithSimd};

/// Rows that a thread works on at a time.
pub(super) const STRETCH: usize = 64;

/// A logit of no consequence, for the places after the last key.
const NEVER: f64 = -1e4;

/// What the outputs depend on.
#[derive(Clone, Copy)]
pub(super) struct Outputs<'a, F: Scalar> {
    pub keys: usize,
    pub halves: &'a [HalfWeights<F>; 2],
    pub rolls: &'a PianoRolls,
    /// Biases, filled up by [`Outputs::fill_up`].
    pub bias: &'a [F],
}

impl<F: Scalar> Outputs<'_, F> {
    /// From one row of logits to the next.
    pub fn width(keys: usize) -> usize {
        padded::<F>(keys)
    }
    /// Biases for whole lines.
    pub fn fill_up(bias: &[F], to: &mut [F]) {
        to.fill(F::from_f64(NEVER));
        to[..bias.len()].copy_from_slice(bias);
    }

    /// Writes the logits of some rows, with the signs of keys that are down reversed, and each row's
    /// loss:
    ///
    /// $$ \sum_k \log(1 + e^{l_k}) - x_k l_k = \sum_k \log(1 + e^{\pm l_k}) $$
    pub fn losses(&self, rows: &[Row], states: [&[F]; 2], logits: &mut [F], losses: &mut [f64]) {
        let width = Self::width(self.keys);
        let parts = |part: usize| {
            let HalfWeights { units, output, .. } = self.halves.get(part)?;
            Some((units.len, View::rows(states[part], units.stride), &output[..]))
        };
        multiply_parts([rows.len(), width], parts, Start::Row(self.bias), logits, false);
        for ((row, logits), loss) in rows.iter().zip(logits.chunks_exact_mut(width)).zip(losses) {
            self.reverse(row, logits);
            *loss = Arch::new().dispatch(Loss(logits));
        }
    }

    /// From the logits that [`Outputs::losses`] left to the derivatives of the weighted losses, by the
    /// logits and by the states:
    ///
    /// $$ w (\sigma(l_k) - x_k) = \pm w \sigma(\pm l_k) $$
    pub fn derivatives(
        &self,
        rows: &[Row],
        weights: &[F],
        logits: &mut [F],
        d_states: [&mut [F]; 2],
    ) {
        let width = Self::width(self.keys);
        for (row, logits) in rows.iter().zip(logits.chunks_exact_mut(width)) {
            Arch::new().dispatch(Sigmoids { weight: weights[row.place], logits });
            self.reverse(row, logits);
            logits[self.keys..].fill(F::ZERO);
        }
        for (d_states, half) in d_states.into_iter().zip(self.halves) {
            let size = [rows.len(), half.units.stride, self.keys];
            let logits = View::rows(logits, width);
            multiply(size, logits, &half.output_backward, Start::Zero, d_states, false);
        }
    }

    /// From the logits that [`Outputs::losses`] left to the probabilities that keys are down.
    pub fn probabilities(&self, rows: &[Row], logits: &mut [F]) {
        let width = Self::width(self.keys);
        for (row, logits) in rows.iter().zip(logits.chunks_exact_mut(width)) {
            self.reverse(row, logits);
            Arch::new().dispatch(Sigmoids { weight: F::ONE, logits });
        }
    }

    fn reverse(&self, row: &Row, logits: &mut [F]) {
        for key in self.rolls.down(row.step) {
            let logit = &mut logits[*key as usize];
            *logit = -*logit;
        }
    }
}

struct Loss<'a, F>(&'a [F]);

impl<F: Scalar> WithSimd for Loss<'_, F> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        /// Sums that run side by side: one order on every instruction set. Whole lines are multiples.
        const LANES: usize = 8;
        /// Terms at a time.
        const BLOCK: usize = 64;
        let (mut sums, mut terms) = ([0.0; LANES], [F::ZERO; BLOCK]);
        for logits in self.0.chunks(BLOCK) {
            // In a loop of its own, or the compiler would make one number at a time of it.
            for (term, logit) in terms.iter_mut().zip(logits) {
                *term = softplus(*logit);
            }
            for terms in terms[..logits.len()].as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    sums[lane] += terms[lane].to_f64();
                }
            }
        }
        sums.iter().sum()
    }
}

/// The sigmoids of logits, times a weight.
struct Sigmoids<'a, F> {
    weight: F,
    logits: &'a mut [F],
}

impl<F: Scalar> WithSimd for Sigmoids<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for logit in self.logits {
            *logit = self.weight * sigmoid(*logit);
        }
    }
}
