//! The parameters as the recurrence reads them.
//!
//! The hidden units are cut in two halves, which two cores can work on at once. The cut depends on
//! the number of units only. A half keeps its gates side by side, r then z then candidate, in rows
//! of whole cache lines.

use super::architecture::{GATES, GruArchitecture, Parameters};
use super::panels::{Panels, padded};
use crate::kernels::{Buffer, Scalar, zeros};
use std::ops::Range;

/// The hidden units of one half.
#[derive(Clone, Debug)]
pub(super) struct Units {
    /// Which ones.
    pub range: Range<usize>,
    /// Their number.
    pub len: usize,
    /// From one row of the half's states to the next.
    pub stride: usize,
    /// From one row of the half's gates to the next.
    pub gates: usize,
}

impl Units {
    fn new<F: Scalar>(range: Range<usize>) -> Self {
        let len = range.len();
        Units { range, len, stride: padded::<F>(len), gates: padded::<F>(GATES * len) }
    }

    /// Both halves.
    pub fn halves<F: Scalar>(hidden: usize) -> [Self; 2] {
        let middle = hidden.div_ceil(2);
        [0..middle, middle..hidden].map(Units::new::<F>)
    }

    /// Room for a row of gates that loops run over in whole lines, each gate from its own place.
    pub fn scratch(&self) -> usize {
        self.gates.max((GATES - 1) * self.len + self.stride)
    }

    /// Calls `copy(columns in the half, columns of the parameters)` for each gate, within the
    /// columns `from..to` of the half.
    pub fn columns(
        &self,
        hidden: usize,
        from: usize,
        to: usize,
        mut copy: impl FnMut(Range<usize>, Range<usize>),
    ) {
        for gate in 0..GATES {
            let (begin, end) = ((gate * self.len).max(from), ((gate + 1) * self.len).min(to));
            if begin < end {
                let there = gate * hidden + self.range.start + begin - gate * self.len;
                copy(begin..end, there..there + end - begin);
            }
        }
    }
}

/// What one half needs.
#[derive(Debug)]
pub(super) struct HalfWeights<F: Scalar> {
    pub units: Units,
    /// From a key to the half's gates.
    pub input: Buffer<F>,
    /// Biases of the half's gates.
    pub bias: Buffer<F>,
    /// From the half's units and from the other half's to the half's gates.
    pub forward: [Panels<F>; 2],
    /// From the half's gates back to the half's units and to the other half's.
    pub backward: [Panels<F>; 2],
    /// From the half's units to the keys, in whole lines.
    pub output: Buffer<F>,
    /// From a key back to the half's units: the transpose of the output weights.
    pub output_backward: Buffer<F>,
    /// The state before the first step.
    pub initial: Buffer<F>,
}

impl<F: Scalar> HalfWeights<F> {
    /// Elements of all its buffers.
    pub fn len(&self) -> usize {
        let panels = self.forward.iter().chain(&self.backward);
        let buffers = [&self.input, &self.bias, &self.output, &self.output_backward];
        panels.map(Panels::len).sum::<usize>()
            + buffers.iter().map(|buffer| buffer.len()).sum::<usize>()
    }

    pub fn new(architecture: GruArchitecture) -> [Self; 2] {
        let keys = architecture.keys;
        let [a, b] = Units::halves::<F>(architecture.hidden);
        [(&a, &b), (&b, &a)].map(|(own, other)| HalfWeights {
            units: own.clone(),
            input: zeros(keys * own.gates),
            bias: zeros(own.gates),
            forward: [own, other].map(|from| Panels::new(from.len, GATES * own.len)),
            backward: [own, other].map(|to| Panels::new(GATES * own.len, to.len)),
            output: zeros(own.len * padded::<F>(keys)),
            output_backward: zeros(keys * own.stride),
            initial: zeros(own.stride),
        })
    }

    /// Packs the parameters that a forward pass reads.
    pub fn prepare(&mut self, other: &Range<usize>, parameters: &Parameters<'_, F>) {
        let (hidden, units) = (parameters.hidden, &self.units);
        let row = GATES * hidden;
        let input = self.input.chunks_exact_mut(units.gates.max(1));
        for (to, from) in input.zip(parameters.input.chunks_exact(row)) {
            units.columns(hidden, 0, units.gates, |half, whole| {
                to[half].copy_from_slice(&from[whole]);
            });
        }
        units.columns(hidden, 0, units.gates, |half, whole| {
            self.bias[half].copy_from_slice(&parameters.bias[whole]);
        });
        for (panels, from) in self.forward.iter_mut().zip([&units.range, other]) {
            panels.pack_rows(|k, first, to| {
                let from = &parameters.recurrent[(from.start + k) * row..][..row];
                units.columns(hidden, first, first + to.len(), |half, whole| {
                    to[half.start - first..half.end - first].copy_from_slice(&from[whole]);
                });
            });
        }
        let (keys, width) = (parameters.keys, padded::<F>(parameters.keys));
        let output = &parameters.output[units.range.start * keys..units.range.end * keys];
        for (to, from) in self.output.chunks_exact_mut(width).zip(output.chunks_exact(keys)) {
            to[..keys].copy_from_slice(from);
        }
        for (to, from) in self.initial.iter_mut().zip(&parameters.initial[units.range.clone()]) {
            *to = crate::kernels::tanh(*from);
        }
    }

    /// Packs the parameters that only the backward pass reads.
    pub fn prepare_backward(&mut self, other: &Range<usize>, parameters: &Parameters<'_, F>) {
        let (hidden, units) = (parameters.hidden, &self.units);
        let row = GATES * hidden;
        for (panels, to) in self.backward.iter_mut().zip([&units.range, other]) {
            panels.pack_columns(to.len(), |unit| {
                let from = &parameters.recurrent[(to.start + unit) * row..][..row];
                [0, 1, 2].map(|gate| &from[gate * hidden..][units.range.clone()])
            });
        }
        let keys = parameters.keys;
        let output = &parameters.output[units.range.start * keys..units.range.end * keys];
        for (unit, from) in output.chunks_exact(keys).enumerate() {
            let to = self.output_backward.chunks_exact_mut(units.stride);
            to.zip(from).for_each(|(to, x)| to[unit] = *x);
        }
    }
}
