//! The states of a group of sequences, from the first to the last, one half of the units.

use super::pair::Half;
use super::plan::{LOCKSTEP, Row};
use super::rolls::PianoRolls;
use super::weights::{HalfWeights, Units};
use crate::kernels::{Buffer, Scalar, sigmoid, tanh, zeros};
use pulp::Simd;

/// Vectors that a step keeps for the backward pass: r, z, candidate, and what r multiplies.
pub(super) const KEPT: usize = 4;

/// One half of a forward pass.
pub(super) struct Forward<'a, F: Scalar, S> {
    simd: S,
    weights: &'a HalfWeights<F>,
    rolls: &'a PianoRolls,
    /// The group's rows, and the number of them at each time.
    rows: &'a [Row],
    counts: &'a [usize],
    /// First row of the present time.
    row: usize,
    /// The present states, and those to come.
    states: &'a [F],
    ahead: &'a mut [F],
    /// What the backward pass needs; empty if there is none.
    kept: &'a mut [F],
    scratch: Scratch<F>,
}

struct Scratch<F: Scalar> {
    /// Each row's input and bias.
    input: Buffer<F>,
    /// Each row's products with the states.
    sums: Buffer<F>,
    /// States of the other half, in this core's cache.
    other: Buffer<F>,
    /// What would be kept.
    kept: Buffer<F>,
}

impl<'a, F: Scalar, S: Simd> Forward<'a, F, S> {
    /// `states` holds the group's rows; those of the first time are set here. `kept` is as long as
    /// the rows need, or empty.
    pub fn new(
        simd: S,
        weights: &'a HalfWeights<F>,
        rolls: &'a PianoRolls,
        (rows, counts): (&'a [Row], &'a [usize]),
        states: &'a mut [F],
        kept: &'a mut [F],
    ) -> Self {
        let units = &weights.units;
        let (first, ahead) = states.split_at_mut(counts[0] * units.stride);
        for i in 0..counts[0] {
            first[i * units.stride..][..units.stride].copy_from_slice(&weights.initial);
        }
        let other = weights.backward[1].width();
        let scratch = Scratch {
            input: zeros(LOCKSTEP * units.scratch()),
            sums: zeros(LOCKSTEP * units.scratch()),
            other: zeros(LOCKSTEP * other),
            kept: zeros(KEPT * units.stride),
        };
        Forward { simd, weights, rolls, rows, counts, row: 0, states: first, ahead, kept, scratch }
    }
}

impl<'a, F: Scalar, S: Simd> Half<'a, F> for Forward<'a, F, S> {
    fn give(&mut self, _step: usize) -> &'a [F] {
        self.states
    }

    fn work(&mut self, step: usize) {
        let HalfWeights { units, input, bias, forward, .. } = self.weights;
        let count = self.counts[step + 1];
        let stride = units.scratch();
        for i in 0..count {
            let down = self.rolls.down(self.rows[self.row + i].step);
            let sum = &mut self.scratch.input[i * stride..][..units.gates];
            add_rows(self.simd, bias, input, down, sum);
        }
        let sums = (&mut self.scratch.sums[..], stride);
        forward[0].multiply(self.simd, count, (self.states, units.stride), false, sums);
    }

    fn take(&mut self, step: usize, message: &[F]) {
        let HalfWeights { units, forward, backward, .. } = self.weights;
        let (present, count) = (self.counts[step], self.counts[step + 1]);
        let (stride, other) = (units.scratch(), backward[1].width());
        let Scratch { input, sums, other: message_here, kept: discarded } = &mut self.scratch;
        message_here[..count * other].copy_from_slice(&message[..count * other]);
        forward[1].multiply(self.simd, count, (message_here, other), true, (sums, stride));
        let (next, ahead) = std::mem::take(&mut self.ahead).split_at_mut(count * units.stride);
        for i in 0..count {
            let kept = KEPT * units.stride;
            let kept = if self.kept.is_empty() {
                &mut discarded[..]
            } else {
                &mut self.kept[(self.row + i) * kept..][..kept]
            };
            let states = &self.states[i * units.stride..][..units.stride];
            let next = &mut next[i * units.stride..][..units.stride];
            let (input, sums) = (&input[i * stride..], &sums[i * stride..]);
            gates(self.simd, units, input, sums, states, next, kept);
        }
        (self.states, self.ahead) = (next, ahead);
        self.row += present;
    }
}

/// `sum = start + rows[down[0]] + rows[down[1]] + ...`
#[inline(never)]
fn add_rows<F: Scalar, S: Simd>(simd: S, start: &[F], rows: &[F], down: &[u32], sum: &mut [F]) {
    simd.vectorize(
        #[inline(always)]
        || {
            let width = sum.len();
            sum.copy_from_slice(start);
            for key in down {
                let row = &rows[*key as usize * width..][..width];
                for j in 0..width {
                    sum[j] += row[j];
                }
            }
        },
    );
}

/// $$ r, z = \sigma(x + s), \quad c = \tanh(r \odot s_c + x_c), \quad h' = z \odot h + (1 - z) \odot c $$
///
/// Each gate in whole lines from its own place: what follows the half's units is of no consequence.
#[inline(never)]
fn gates<F: Scalar, S: Simd>(
    simd: S,
    units: &Units,
    input: &[F],
    sums: &[F],
    states: &[F],
    next: &mut [F],
    kept: &mut [F],
) {
    simd.vectorize(
        #[inline(always)]
        || match size_of::<F>() {
            4 => gates_by_lines::<F, 16>(units, input, sums, states, next, kept),
            _ => gates_by_lines::<F, 8>(units, input, sums, states, next, kept),
        },
    );
}

/// A line of N elements at a time, in arrays that the compiler knows to be apart.
#[inline(always)]
fn gates_by_lines<F: Scalar, const N: usize>(
    units: &Units,
    input: &[F],
    sums: &[F],
    states: &[F],
    next: &mut [F],
    kept: &mut [F],
) {
    let (len, width) = (units.len, units.stride);
    let [x_r, x_z, x_c] = [0, 1, 2].map(|gate| input[gate * len..][..width].as_chunks::<N>().0);
    let [s_r, s_z, s_c] = [0, 1, 2].map(|gate| sums[gate * len..][..width].as_chunks::<N>().0);
    let states = states[..width].as_chunks::<N>().0;
    let next = next[..width].as_chunks_mut::<N>().0;
    let kept = kept[..KEPT * width].as_chunks_mut::<N>().0;
    for line in 0..width / N {
        let (x_r, x_z, x_c) = (x_r[line], x_z[line], x_c[line]);
        let (s_r, s_z, s_c, h) = (s_r[line], s_z[line], s_c[line], states[line]);
        let [mut r, mut z, mut c, mut after] = [[F::ZERO; N]; 4];
        for j in 0..N {
            r[j] = sigmoid(x_r[j] + s_r[j]);
            z[j] = sigmoid(x_z[j] + s_z[j]);
            c[j] = tanh(r[j].fma(s_c[j], x_c[j]));
            after[j] = z[j].fma(h[j] - c[j], c[j]);
        }
        next[line] = after;
        for (vector, values) in [r, z, c, s_c].into_iter().enumerate() {
            kept[vector * (width / N) + line] = values;
        }
    }
}
