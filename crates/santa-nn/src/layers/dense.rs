//! Fully connected layers.
//!
//! $$ y = x W + b, \qquad \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y} W^T, \qquad
//! \frac{\partial L}{\partial W} = x^T \frac{\partial L}{\partial y} $$

use super::{Layer, Pass, Record, Sizes};
use crate::kernels::{Scalar, Start, View, multiply};
use std::ops::Range;

/// Multiply-adds of a piece of the weights' gradient, at a batch of a hundred examples: a fraction of
/// a millisecond.
const PIECE: usize = 1 << 15;

/// Most examples whose derivatives go back at a time.
const BLOCK: usize = 128;
/// Elements of a register on the widest processor.
const LANES: usize = 16;

/// W (inputs x outputs, row by row), then b.
#[derive(Debug)]
pub(crate) struct Dense {
    inputs: usize,
    outputs: usize,
    /// The first layer with parameters sees data, which may be mostly zeros, and has no use for the
    /// derivatives by its input.
    first: bool,
}

impl Dense {
    pub fn new(inputs: usize, outputs: usize, first: bool) -> Self {
        Dense { inputs, outputs, first }
    }
}

impl<F: Scalar> Layer<F> for Dense {
    fn sizes(&self, _examples: usize) -> Sizes {
        let weights = self.inputs * self.outputs;
        Sizes {
            input: self.inputs,
            output: self.outputs,
            parameters: weights + self.outputs,
            scratch: if self.first { 0 } else { (self.inputs + self.outputs) * BLOCK },
            ..Sizes::default()
        }
    }

    fn forward(
        &self,
        _pass: &Pass,
        parameters: &[F],
        _shared: &[F],
        input: &[F],
        output: &mut [F],
        _kept: &mut [F],
        _scratch: &mut [F],
    ) {
        let (w, b) = parameters.split_at(self.inputs * self.outputs);
        let size = [input.len() / self.inputs, self.outputs, self.inputs];
        let sparse = self.first && mostly_zero(input);
        multiply(size, View::rows(input, self.inputs), w, Start::Row(b), output, sparse);
    }

    /// Computes the transpose, W dy^T: W is then read row by row, as it lies in memory, and only the
    /// small matrices are transposed.
    fn backward(
        &self,
        _pass: &Pass,
        parameters: &[F],
        _shared: &[F],
        _input: &[F],
        _output: &[F],
        _kept: &[F],
        d_output: &mut [F],
        d_input: Option<&mut [F]>,
        _partial: &mut [F],
        scratch: &mut [F],
    ) {
        let Some(d_input) = d_input else { return };
        let w = View::rows(&parameters[..self.inputs * self.outputs], self.outputs);
        let (dy_t, dx_t) = scratch.split_at_mut(self.outputs * BLOCK);
        let blocks =
            d_output.chunks(BLOCK * self.outputs).zip(d_input.chunks_mut(BLOCK * self.inputs));
        for (dy, dx) in blocks {
            let n = (dy.len() / self.outputs).next_multiple_of(LANES);
            let (dy_t, dx_t) = (&mut dy_t[..self.outputs * n], &mut dx_t[..self.inputs * n]);
            // Beyond the examples, rows keep old values, which nobody reads.
            F::transpose(dy, self.outputs, dy_t, n);
            multiply([self.inputs, n, self.outputs], w, dy_t, Start::Zero, dx_t, false);
            F::transpose(dx_t, n, dx, self.inputs);
        }
    }

    /// Some rows of W each, then b.
    fn pieces(&self) -> Vec<Range<usize>> {
        let rows = (PIECE / self.outputs).clamp(1, self.inputs);
        let weights = self.inputs * self.outputs;
        let starts = (0..weights).step_by(rows * self.outputs);
        let mut pieces: Vec<_> =
            starts.map(|start| start..weights.min(start + rows * self.outputs)).collect();
        pieces.push(weights..weights + self.outputs);
        pieces
    }

    fn gradient(&self, piece: Range<usize>, batch: &Record<'_, F>, gradient: &mut [F]) {
        let weights = self.inputs * self.outputs;
        if piece.start < weights {
            let size = [piece.len() / self.outputs, self.outputs, batch.examples];
            let input = View::columns(&batch.input[piece.start / self.outputs..], self.inputs);
            multiply(size, input, batch.d_output, Start::Zero, gradient, self.first);
        } else {
            gradient.fill(F::ZERO);
            for row in batch.d_output.chunks_exact(self.outputs) {
                for (sum, d) in gradient.iter_mut().zip(row) {
                    *sum += *d;
                }
            }
        }
    }
}

/// Whether leaving out zeros is worth the search for them.
fn mostly_zero<F: Scalar>(input: &[F]) -> bool {
    input.iter().filter(|x| **x == F::ZERO).count() > input.len() / 2
}
