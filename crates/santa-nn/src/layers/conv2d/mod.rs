//! Two-dimensional convolution (cross-correlation, as everywhere in machine learning):
//!
//! $$ Y_{yxo} = b_o + \sum_{ijc} X_{y s_0 + i - p_0,\ x s_1 + j - p_1,\ c}\ W_{ijco} $$
//!
//! with zeros outside of the image. Images are NHWC: channels are the axis of the vector registers.
//! The parameters are W, then b.
//!
//! A maximum pooling that follows can be part of the layer: the unpooled map then never leaves the
//! scratch of one image, and only the position of each maximum is kept for the backward pass.
//!
//! How it is computed depends on the sizes alone:
//!
//! | path | for |
//! | --- | --- |
//! | [`direct`] | images of one channel at horizontal stride 1, multiples of 16 filters |
//! | [`winograd`] | kernels of 5 x 5 at stride 1, multiples of 16 channels in and out |
//! | [`patches`] | everything else |

mod direct;
mod geometry;
mod patches;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
mod winograd;

pub(crate) use geometry::{Image, Window};

use super::pool::Map;
use super::{Layer, Pass, Record, Sizes};
use crate::kernels::{Scalar, vectorised};
use direct::Direct;
use patches::Patches;
use std::ops::Range;
use winograd::Winograd;

/// Buffers within a scratch begin on a cache line.
const LINE: usize = 16;
/// The fast paths want channels in multiples of this: full registers on every processor.
const CHANNELS: usize = 16;
/// Parameters of a piece of the gradient.
const PIECE: usize = 1 << 13;

/// A convolution, with or without a maximum pooling.
#[derive(Clone, Debug)]
pub(crate) struct Conv2d {
    input: Image,
    weights: usize,
    filters: usize,
    tail: Tail,
    path: Path,
}

#[derive(Clone, Copy, Debug)]
enum Path {
    /// The other one is for the derivatives by the input, which a first layer is not asked for.
    Direct(Direct, Patches),
    Winograd(Winograd),
    Patches(Patches),
}

impl Path {
    fn new(input: Image, window: Window, map: Image) -> Self {
        let full = |channels: usize| channels.is_multiple_of(CHANNELS);
        let patches = Patches { input, window, output: map };
        if input.channels == 1 && window.stride[1] == 1 && full(map.channels) {
            Path::Direct(Direct { input, window, map }, patches)
        } else if window.size == Winograd::SIZE
            && window.stride == [1, 1]
            && full(input.channels)
            && full(map.channels)
        {
            Path::Winograd(Winograd::new(input, window.padding, map))
        } else {
            Path::Patches(patches)
        }
    }
}

impl Conv2d {
    /// A layer on images of this size; `None` if no window fits, or if the pooling's is padded.
    pub fn new(input: Image, filters: usize, window: Window, pool: Option<Window>) -> Option<Self> {
        let map = window.output(input, filters).filter(|_| filters > 0 && input.channels > 0)?;
        let path = Path::new(input, window, map);
        Self::on_path(path, input, map, window, pool)
    }

    fn on_path(
        path: Path,
        input: Image,
        map: Image,
        window: Window,
        pool: Option<Window>,
    ) -> Option<Self> {
        let output = match pool {
            Some(pool) if pool.padding != [0, 0] => return None,
            Some(pool) => pool.output(map, map.channels)?,
            None => map,
        };
        let computed = match path {
            Path::Winograd(winograd) => winograd.map(),
            _ => map,
        };
        let weights = window.size[0] * window.size[1] * input.channels * map.channels;
        let tail = Tail { map: computed, pool, output };
        Some(Conv2d { input, weights, filters: map.channels, tail, path })
    }

    /// The size of the resulting image.
    #[cfg(test)]
    pub fn output(&self) -> Image {
        self.tail.output
    }
}

/// From the map of an image to the layer's output: pooled, or cut to its size, or as it is.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// As the convolution computes it: the output at its upper left.
    map: Image,
    pool: Option<Window>,
    output: Image,
}

impl Tail {
    /// Elements of a map that is not the output itself.
    fn scratch(&self) -> usize {
        if self.map == self.output { 0 } else { self.map.len().next_multiple_of(LINE) }
    }

    fn finish<F: Scalar>(&self, map: &[F], output: &mut [F], kept: &mut [F]) {
        if let Some(window) = self.pool {
            Map { image: self.output, window, row: self.map.row() }.pool(map, output, kept);
        } else {
            let rows = map.chunks_exact(self.map.row());
            for (to, from) in output.chunks_exact_mut(self.output.row()).zip(rows) {
                to.copy_from_slice(&from[..to.len()]);
            }
        }
    }

    fn spread<F: Scalar>(&self, kept: &[F], d_output: &[F], d_map: &mut [F]) {
        d_map.fill(F::ZERO);
        if let Some(window) = self.pool {
            Map { image: self.output, window, row: self.map.row() }.spread(kept, d_output, d_map);
        } else {
            let rows = d_map.chunks_exact_mut(self.map.row());
            for (from, to) in d_output.chunks_exact(self.output.row()).zip(rows) {
                to[..from.len()].copy_from_slice(from);
            }
        }
    }
}

impl<F: Scalar> Layer<F> for Conv2d {
    fn sizes(&self, _: usize) -> Sizes {
        let (shared, scratch) = match &self.path {
            Path::Direct(path, other) => {
                (other.shared(), path.scratch(&self.tail).max(other.scratch()))
            }
            Path::Winograd(path) => (path.shared(), path.scratch()),
            Path::Patches(path) => (path.shared(), path.scratch()),
        };
        let parameters = self.weights + self.filters;
        let output = self.tail.output.len();
        Sizes {
            input: self.input.len(),
            output,
            kept: if self.tail.pool.is_some() { output } else { 0 },
            parameters,
            shared,
            partial: parameters,
            scratch: self.tail.scratch() + scratch,
        }
    }

    fn prepare(&self, parameters: &[F], training: bool, shared: &mut [F]) {
        let weights = &parameters[..self.weights];
        match &self.path {
            Path::Winograd(path) => path.prepare(weights, training, shared),
            Path::Direct(_, path) | Path::Patches(path) if training => {
                path.prepare(weights, shared)
            }
            _ => (),
        }
    }

    fn forward(
        &self,
        _: &Pass,
        parameters: &[F],
        shared: &[F],
        input: &[F],
        output: &mut [F],
        kept: &mut [F],
        scratch: &mut [F],
    ) {
        let (weights, bias) = parameters.split_at(self.weights);
        let (map, scratch) = scratch.split_at_mut(self.tail.scratch());
        match &self.path {
            Path::Direct(path, _) => {
                path.forward(&self.tail, (weights, bias), input, (output, kept), scratch);
            }
            Path::Winograd(path) => {
                path.forward(&self.tail, bias, shared, input, (output, kept, map), scratch);
            }
            Path::Patches(path) => {
                let len = self.tail.output.len();
                for (example, image) in input.chunks_exact(self.input.len()).enumerate() {
                    let of = example * len..(example + 1) * len;
                    let output = &mut output[of.clone()];
                    if map.is_empty() {
                        path.forward((weights, bias), image, output, scratch);
                    } else {
                        path.forward((weights, bias), image, map, scratch);
                        self.tail.finish(map, output, kept.get_mut(of).unwrap_or_default());
                    }
                }
            }
        }
    }

    fn backward(
        &self,
        _: &Pass,
        _: &[F],
        shared: &[F],
        input: &[F],
        _: &[F],
        kept: &[F],
        d_output: &mut [F],
        mut d_input: Option<&mut [F]>,
        partial: &mut [F],
        scratch: &mut [F],
    ) {
        let (d_map, scratch) = scratch.split_at_mut(self.tail.scratch());
        let (d_weights, d_bias) = partial.split_at_mut(self.weights);
        sum_rows(d_output, d_bias);
        let path = match &self.path {
            Path::Direct(path, _) if d_input.is_none() => {
                return path.backward(&self.tail, input, (kept, d_output), d_weights, scratch);
            }
            Path::Winograd(path) => {
                let results = (d_input, d_weights, d_map);
                return path.backward(
                    &self.tail,
                    shared,
                    input,
                    (kept, d_output),
                    results,
                    scratch,
                );
            }
            Path::Direct(_, path) | Path::Patches(path) => path,
        };
        let len = self.tail.output.len();
        for (example, image) in input.chunks_exact(self.input.len()).enumerate() {
            let of = example * len..(example + 1) * len;
            let d_map = if d_map.is_empty() {
                &d_output[of]
            } else {
                self.tail.spread(kept.get(of.clone()).unwrap_or_default(), &d_output[of], d_map);
                &*d_map
            };
            path.backward_weights(image, d_map, example == 0, d_weights, scratch);
            if let Some(d_input) = &mut d_input {
                let d_image = &mut d_input[example * image.len()..][..image.len()];
                path.backward_image(shared, d_map, d_image, scratch);
            }
        }
    }

    fn pieces(&self) -> Vec<Range<usize>> {
        let parameters = self.weights + self.filters;
        (0..parameters).step_by(PIECE).map(|from| from..parameters.min(from + PIECE)).collect()
    }

    fn gradient(&self, piece: Range<usize>, batch: &Record<'_, F>, gradient: &mut [F]) {
        gradient.fill(F::ZERO);
        for partial in batch.partials.chunks_exact(self.weights + self.filters) {
            let partial = &partial[piece.clone()];
            gradient.iter_mut().zip(partial).for_each(|(sum, part)| *sum += *part);
        }
    }
}

/// The derivatives by the bias: it is added at every pixel, and each pooled element has one.
fn sum_rows<F: Scalar>(rows: &[F], sums: &mut [F]) {
    sums.fill(F::ZERO);
    vectorised(
        #[inline(always)]
        || {
            for row in rows.chunks_exact(sums.len()) {
                sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x);
            }
        },
    );
}
