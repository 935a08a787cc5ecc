//! Outputs, their loss, and its derivatives by the states: a stretch of rows at a time, which are
//! independent of each other.

use super::architecture::Parameters;
use super::plan::Row;
use super::rolls::PianoRolls;
use super::weights::{HalfWeights, Units};
use crate::kernels::{Scalar, Start, View, multiply, multiply_parts, sigmoid, softplus};
use pulp::{Arch, Simd, WithSimd};

/// Rows that a thread works on at a time.
pub(super) const STRETCH: usize = 64;

/// What the outputs of a stretch depend on.
#[derive(Clone, Copy)]
pub(super) struct Outputs<'a, F: Scalar> {
    pub parameters: Parameters<'a, F>,
    pub halves: &'a [HalfWeights<F>; 2],
    pub rolls: &'a PianoRolls,
}

impl<F: Scalar> Outputs<'_, F> {
    /// Writes the logits of all rows, and each row's loss.
    pub fn losses(&self, rows: &[Row], states: [&[F]; 2], logits: &mut [F], losses: &mut [f64]) {
        let Outputs { parameters, halves, rolls } = *self;
        let keys = parameters.keys;
        let parts = |part: usize| {
            let Units { range, len, stride, .. } = &halves.get(part)?.units;
            let weights = &parameters.output[range.start * keys..range.end * keys];
            Some((*len, View::rows(states[part], *stride), weights))
        };
        multiply_parts(
            [rows.len(), keys],
            parts,
            Start::Row(parameters.output_bias),
            logits,
            false,
        );
        for ((row, logits), loss) in rows.iter().zip(logits.chunks_exact(keys)).zip(losses) {
            *loss = Arch::new().dispatch(Loss { logits, values: rolls.step(row.step) });
        }
    }

    /// Replaces the logits by the derivatives of the weighted losses, and writes those by the states.
    pub fn derivatives(
        &self,
        rows: &[Row],
        weights: &[F],
        logits: &mut [F],
        d_states: [&mut [F]; 2],
    ) {
        let keys = self.parameters.keys;
        for (row, logits) in rows.iter().zip(logits.chunks_exact_mut(keys)) {
            let values = self.rolls.step(row.step);
            Arch::new().dispatch(Derivative { weight: weights[row.place], values, logits });
        }
        for (d_states, half) in d_states.into_iter().zip(self.halves) {
            let size = [rows.len(), half.units.stride, keys];
            multiply(size, View::rows(logits, keys), &half.output, Start::Zero, d_states, false);
        }
    }
}

/// $$ \sum_k \log(1 + e^{l_k}) - x_k l_k $$
struct Loss<'a, F> {
    logits: &'a [F],
    values: &'a [u8],
}

impl<F: Scalar> WithSimd for Loss<'_, F> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        /// Sums that run side by side: one order on every instruction set.
        const LANES: usize = 16;
        let term = |logit: F, value: u8| {
            let logit_if_down = if value == 0 { F::ZERO } else { logit };
            softplus(logit) - logit_if_down
        };
        let mut sums = [0.0; LANES];
        let (logits, values) = (self.logits.as_chunks(), self.values.as_chunks());
        for (logits, values) in logits.0.iter().zip(values.0) {
            let _: (&[F; LANES], &[u8; LANES]) = (logits, values);
            for lane in 0..LANES {
                sums[lane] += term(logits[lane], values[lane]).to_f64();
            }
        }
        for (lane, (logit, value)) in logits.1.iter().zip(values.1).enumerate() {
            sums[lane] += term(*logit, *value).to_f64();
        }
        sums.iter().sum()
    }
}

/// $$ l_k \leftarrow w (\sigma(l_k) - x_k) $$
struct Derivative<'a, F> {
    weight: F,
    values: &'a [u8],
    logits: &'a mut [F],
}

impl<F: Scalar> WithSimd for Derivative<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Derivative { weight, values, logits } = self;
        let values = &values[..logits.len()];
        for k in 0..logits.len() {
            let value = if values[k] == 0 { F::ZERO } else { F::ONE };
            logits[k] = weight * (sigmoid(logits[k]) - value);
        }
    }
}
