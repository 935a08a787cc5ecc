//! The derivatives by the states of a group of sequences, from the last to the first, one half of
//! the units.

use super::architecture::GATES;
use super::forward::KEPT;
use super::pair::Half;
use super::plan::LOCKSTEP;
use super::weights::{HalfWeights, Units};
use crate::kernels::{Buffer, Scalar, zeros};
use pulp::Simd;

/// One half of a backward pass. Step 0 is the last in time that leads to another state.
pub(super) struct Backward<'a, F: Scalar, S> {
    simd: S,
    weights: &'a HalfWeights<F>,
    counts: &'a [usize],
    /// First row of the present time, and of the next.
    rows: [usize; 2],
    states: &'a [F],
    /// In: what the forward pass kept. Out: the last vector is the derivative by the candidate's
    /// argument.
    kept: &'a mut [F],
    /// Out: derivatives by the products of states and recurrent weights.
    gates: &'a mut [F],
    /// In: derivatives of the outputs' loss by the states. Out: of the whole loss.
    d_states: &'a mut [F],
    /// Room for the messages to come.
    messages: &'a mut [F],
    /// Derivatives by the biases: r, z and candidate, each in whole lines.
    bias: &'a mut [F],
    /// A row's gates, each in whole lines.
    row: Buffer<F>,
    /// What the half's gates mean for its own states.
    own: Buffer<F>,
}

/// What a backward pass of a half works on.
pub(super) struct Derivatives<'a, F> {
    pub states: &'a [F],
    pub kept: &'a mut [F],
    pub gates: &'a mut [F],
    pub d_states: &'a mut [F],
    pub messages: &'a mut [F],
    pub bias: &'a mut [F],
}

impl<'a, F: Scalar, S: Simd> Backward<'a, F, S> {
    /// All buffers hold the group's rows; `bias` is overwritten by the group's sums.
    pub fn new(
        simd: S,
        weights: &'a HalfWeights<F>,
        counts: &'a [usize],
        derivatives: Derivatives<'a, F>,
    ) -> Self {
        let Derivatives { states, kept, gates, d_states, messages, bias } = derivatives;
        let units = &weights.units;
        bias.fill(F::ZERO);
        let end: usize = counts.iter().sum();
        let last = counts[counts.len() - 1];
        // Nothing follows the last time.
        clear(units, end - last..end, gates, kept);
        let (row, own) = (zeros(GATES * units.stride), zeros(LOCKSTEP * units.stride));
        let rows = [end - last, end];
        Backward {
            simd,
            weights,
            counts,
            rows,
            states,
            kept,
            gates,
            d_states,
            messages,
            bias,
            row,
            own,
        }
    }

    /// How many sequences go on after the present time.
    fn count(&self, step: usize) -> usize {
        self.counts[self.counts.len() - 1 - step]
    }
}

/// Rows that no state follows.
fn clear<F: Scalar>(units: &Units, rows: std::ops::Range<usize>, gates: &mut [F], kept: &mut [F]) {
    gates[rows.start * units.gates..rows.end * units.gates].fill(F::ZERO);
    for row in rows {
        kept[row * KEPT * units.stride..][..KEPT * units.stride].fill(F::ZERO);
    }
}

impl<'a, F: Scalar, S: Simd> Half<'a, F> for Backward<'a, F, S> {
    fn give(&mut self, step: usize) -> &'a [F] {
        let HalfWeights { units, backward, .. } = self.weights;
        let (stride, count) = (units.stride, self.count(step));
        let present = self.counts[self.counts.len() - 2 - step];
        let next = self.rows[0];
        let row = next - present;
        self.rows = [row, next];
        clear(units, row + count..next, self.gates, self.kept);
        for i in 0..count {
            let (before, after) = self.d_states.split_at_mut((next + i) * stride);
            derivatives(
                self.simd,
                stride,
                &self.states[(row + i) * stride..],
                &after[..stride],
                &mut before[(row + i) * stride..],
                &mut self.kept[(row + i) * KEPT * stride..],
                &mut self.row,
                self.bias,
            );
            let gates = &mut self.gates[(row + i) * units.gates..][..units.gates];
            for gate in 0..GATES {
                gates[gate * units.len..][..units.len]
                    .copy_from_slice(&self.row[gate * stride..][..units.len]);
            }
        }
        let other = backward[1].width();
        let (message, rest) = std::mem::take(&mut self.messages).split_at_mut(count * other);
        self.messages = rest;
        let gates = (&self.gates[row * units.gates..], units.gates);
        backward[1].multiply(self.simd, count, gates, false, (message, other));
        message
    }

    fn work(&mut self, step: usize) {
        let HalfWeights { units, backward, .. } = self.weights;
        let gates = (&self.gates[self.rows[0] * units.gates..], units.gates);
        let count = self.count(step);
        let own = (&mut self.own[..], units.stride);
        backward[0].multiply(self.simd, count, gates, false, own);
    }

    fn take(&mut self, step: usize, message: &[F]) {
        let stride = self.weights.units.stride;
        let len = self.count(step) * stride;
        let d_states = &mut self.d_states[self.rows[0] * stride..][..len];
        add_both(self.simd, &self.own[..len], &message[..len], d_states);
    }
}

/// From the derivative by the next state to those by the gates (in `row`), the candidate's argument
/// (in `kept`), the biases, and, where the state goes through, by the present state.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn derivatives<F: Scalar, S: Simd>(
    simd: S,
    width: usize,
    states: &[F],
    d_next: &[F],
    d_states: &mut [F],
    kept: &mut [F],
    row: &mut [F],
    bias: &mut [F],
) {
    simd.vectorize(
        #[inline(always)]
        || match size_of::<F>() {
            4 => by_lines::<F, 16>(width, states, d_next, d_states, kept, row, bias),
            _ => by_lines::<F, 8>(width, states, d_next, d_states, kept, row, bias),
        },
    );
}

/// A line of N elements at a time, in arrays that the compiler knows to be apart.
#[inline(always)]
fn by_lines<F: Scalar, const N: usize>(
    width: usize,
    states: &[F],
    d_next: &[F],
    d_states: &mut [F],
    kept: &mut [F],
    row: &mut [F],
    bias: &mut [F],
) {
    let lines = width / N;
    let (states, d_next) = (states[..width].as_chunks().0, d_next[..width].as_chunks().0);
    let d_states = d_states[..width].as_chunks_mut::<N>().0;
    let kept = kept[..KEPT * width].as_chunks_mut::<N>().0;
    let row = row[..GATES * width].as_chunks_mut::<N>().0;
    let bias = bias[..GATES * width].as_chunks_mut::<N>().0;
    for line in 0..lines {
        let [r, z, c, a] = [0, 1, 2, 3].map(|vector| kept[vector * lines + line]);
        let (h, d_h): ([F; N], [F; N]) = (states[line], d_next[line]);
        let [mut by_r, mut by_z, mut by_a, mut by_c] = [[F::ZERO; N]; 4];
        for j in 0..N {
            d_states[line][j] = d_h[j].fma(z[j], d_states[line][j]);
            // By the arguments of tanh and of the sigmoids.
            by_c[j] = d_h[j] * (F::ONE - z[j]) * (F::ONE - c[j] * c[j]);
            by_z[j] = d_h[j] * (h[j] - c[j]) * (z[j] * (F::ONE - z[j]));
            by_r[j] = by_c[j] * a[j] * (r[j] * (F::ONE - r[j]));
            by_a[j] = by_c[j] * r[j];
        }
        for (gate, by) in [by_r, by_z, by_c].into_iter().enumerate() {
            let sum = &mut bias[gate * lines + line];
            for j in 0..N {
                sum[j] += by[j];
            }
        }
        for (gate, by) in [by_r, by_z, by_a].into_iter().enumerate() {
            row[gate * lines + line] = by;
        }
        kept[(KEPT - 1) * lines + line] = by_c;
    }
}

/// `sum += a + b`
#[inline(never)]
fn add_both<F: Scalar, S: Simd>(simd: S, a: &[F], b: &[F], sum: &mut [F]) {
    simd.vectorize(
        #[inline(always)]
        || {
            for j in 0..sum.len() {
                sum[j] += a[j] + b[j];
            }
        },
    );
}
