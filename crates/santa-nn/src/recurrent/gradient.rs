//! The gradient of the parameters from the derivatives of all rows of a wave.
//!
//! Every matrix is one product over all rows; the input matrix, whose inputs are zeros and ones, is a
//! sum of rows for each key. The work is cut along the rows of the matrices, so that every element is
//! one sum in the order of rows, whatever the number of threads.

use super::architecture::{GATES, Gradient, GruArchitecture};
use super::forward::KEPT;
use super::panels::padded;
use super::plan::Plan;
use super::weights::{HalfWeights, Units};
use crate::kernels::{Buffer, Scalar, Start, View, multiply, zeros};
use crate::parallel::spread;
use pulp::{Arch, Simd, WithSimd};

/// Hidden units that a thread works on at a time.
const UNITS: usize = 25;
/// Keys that a thread works on at a time.
const KEYS: usize = 4;

/// What a backward pass leaves behind, for one half.
#[derive(Clone, Copy)]
pub(super) struct HalfRows<'a, F: Scalar> {
    pub weights: &'a HalfWeights<F>,
    pub states: &'a [F],
    pub kept: &'a [F],
    pub gates: &'a [F],
    pub d_states: &'a [F],
    /// Group after group.
    pub bias: &'a [F],
}

/// The same for the whole network.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, F: Scalar> {
    pub architecture: GruArchitecture,
    pub plan: &'a Plan,
    pub halves: [HalfRows<'a, F>; 2],
    /// Derivatives by the logits.
    pub logits: &'a [F],
    /// There was no wave before this one.
    pub first: bool,
}

/// Independent pieces of the gradient.
enum Piece<'g, F> {
    /// Some units of a half: their rows of the recurrent and of the output matrix.
    Units {
        half: usize,
        /// First one within the half, and how many.
        first: usize,
        count: usize,
        recurrent: &'g mut [F],
        output: &'g mut [F],
        /// The same in whole lines: the recurrent rows, each half's gates for themselves, and the
        /// output's.
        blocks: [&'g mut [F]; 3],
    },
    /// Some keys: their rows of the input matrix.
    Keys { first: usize, input: &'g mut [F] },
    /// All biases.
    Biases { gates: &'g mut [F], initial: &'g mut [F], output: &'g mut [F] },
}

impl<F: Scalar> Rows<'_, F> {
    /// Adds the wave to the gradient, or overwrites it by the first wave. `blocks` holds the
    /// recurrent and the output matrix from wave to wave.
    pub fn gradient(&self, gradient: Gradient<'_, F>, blocks: &mut [Buffer<F>; 3]) {
        let GruArchitecture { keys, hidden } = self.architecture;
        let Gradient { input, mut recurrent, bias, initial, mut output, output_bias } = gradient;
        let mut pieces = Vec::new();
        let mut rest = blocks.each_mut().map(|block| &mut block[..]);
        for half in 0..2 {
            let len = self.halves[half].weights.units.len;
            for first in (0..len).step_by(UNITS) {
                let count = UNITS.min(len - first);
                let widths = self.widths();
                let blocks = [0, 1, 2].map(|i| take(&mut rest[i], count * widths[i]));
                let recurrent = take(&mut recurrent, count * GATES * hidden);
                let output = take(&mut output, count * keys);
                pieces.push(Piece::Units { half, first, count, recurrent, output, blocks });
            }
        }
        for (i, input) in input.chunks_mut(KEYS * GATES * hidden).enumerate() {
            pieces.push(Piece::Keys { first: i * KEYS, input });
        }
        pieces.push(Piece::Biases { gates: bias, initial, output: output_bias });
        spread(pieces, |piece| self.piece(piece));
    }

    /// Widths of the blocks.
    pub fn widths(&self) -> [usize; 3] {
        let [a, b] = self.halves.map(|half| half.weights.units.gates);
        [a, b, self.width()]
    }

    /// From one row of logits to the next.
    fn width(&self) -> usize {
        padded::<F>(self.architecture.keys)
    }

    fn piece(&self, piece: Piece<'_, F>) {
        let GruArchitecture { keys, hidden } = self.architecture;
        let row = GATES * hidden;
        match piece {
            Piece::Units { half, first, count, recurrent, output, blocks } => {
                let start = || if self.first { Start::Zero } else { Start::Present };
                let HalfRows { weights, states, .. } = self.halves[half];
                let states = View::columns(&states[first..], weights.units.stride);
                let depth = self.plan.rows.len();
                let [a, b, block] = blocks;
                multiply([count, self.width(), depth], states, self.logits, start(), block, false);
                let rows = block.chunks_exact(self.width());
                for (to, from) in output.chunks_exact_mut(keys).zip(rows) {
                    to.copy_from_slice(&from[..keys]);
                }
                for (block, half) in [a, b].into_iter().zip(&self.halves) {
                    let units = &half.weights.units;
                    let size = [count, units.gates, depth];
                    multiply(size, states, half.gates, start(), block, false);
                    for i in 0..count {
                        let (to, from) = (&mut recurrent[i * row..], &block[i * units.gates..]);
                        units.columns(hidden, 0, units.gates, |half, whole| {
                            to[whole].copy_from_slice(&from[half]);
                        });
                    }
                }
            }
            Piece::Keys { first, input } => {
                for (i, input) in input.chunks_exact_mut(row).enumerate() {
                    let offsets = &self.plan.down_offsets[first + i..];
                    let down = &self.plan.down[offsets[0]..offsets[1]];
                    if self.first {
                        input.fill(F::ZERO);
                    }
                    for HalfRows { weights, kept, gates, .. } in self.halves {
                        let units = &weights.units;
                        let mut sums = (zeros(units.gates), zeros(units.stride));
                        Arch::new().dispatch(SumRows {
                            units,
                            down,
                            gates,
                            kept,
                            sums: (&mut sums.0, &mut sums.1),
                        });
                        let recurrent = (GATES - 1) * units.len;
                        units.columns(hidden, 0, recurrent, |half, whole| {
                            add(&sums.0[half], &mut input[whole]);
                        });
                        units.columns(hidden, recurrent, units.gates, |half, whole| {
                            add(&sums.1[..half.len()], &mut input[whole]);
                        });
                    }
                }
            }
            Piece::Biases { gates, initial, output } => {
                if self.first {
                    gates.fill(F::ZERO);
                    initial.fill(F::ZERO);
                    output.fill(F::ZERO);
                }
                for HalfRows { weights, d_states, bias, .. } in self.halves {
                    let Units { range, len, stride, .. } = &weights.units;
                    for (i, group) in self.plan.groups.iter().enumerate() {
                        for gate in 0..GATES {
                            let from = &bias[(i * GATES + gate) * stride..][..*len];
                            add(from, &mut gates[gate * hidden..][range.clone()]);
                        }
                        for first in 0..self.plan.counts[group.times.start] {
                            let from = &d_states[(group.rows.start + first) * stride..][..*len];
                            let to = &mut initial[range.clone()];
                            for j in 0..*len {
                                let h = weights.initial[j];
                                to[j] += from[j] * (F::ONE - h * h);
                            }
                        }
                    }
                }
                let logits = self.logits.chunks_exact(self.width());
                logits.for_each(|logits| add(logits, output));
            }
        }
    }
}

/// Cuts the first elements off a slice.
fn take<'g, F>(rest: &mut &'g mut [F], count: usize) -> &'g mut [F] {
    let (first, last) = std::mem::take(rest).split_at_mut(count);
    *rest = last;
    first
}

fn add<F: Scalar>(from: &[F], to: &mut [F]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
}

/// The sum of some rows: of the gates, and of the derivatives by the candidate's argument.
struct SumRows<'a, F> {
    units: &'a Units,
    down: &'a [u32],
    gates: &'a [F],
    kept: &'a [F],
    sums: (&'a mut [F], &'a mut [F]),
}

impl<F: Scalar> WithSimd for SumRows<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let SumRows { units, down, gates, kept, sums } = self;
        let stride = units.stride;
        for row in down {
            let row = *row as usize;
            let gates = &gates[row * units.gates..][..units.gates];
            let candidate = &kept[((row + 1) * KEPT - 1) * stride..][..stride];
            add(gates, sums.0);
            add(candidate, sums.1);
        }
    }
}
