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
//! | [`patches`] | everything else |

mod geometry;
mod patches;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use geometry::{Image, Window};

use super::pool::Map;
use super::{Layer, Pass, Shards, Sizes};
use crate::kernels::Scalar;
use patches::Patches;
use std::ops::Range;

/// Buffers within a scratch begin on a cache line.
const LINE: usize = 16;
/// Parameters of a piece of the gradient.
const PIECE: usize = 1 << 13;

/// A convolution, with or without a maximum pooling.
#[derive(Clone, Debug)]
pub(crate) struct Conv2d {
    input: Image,
    output: Image,
    weights: usize,
    filters: usize,
    tail: Tail,
    path: Path,
}

#[derive(Clone, Copy, Debug)]
enum Path {
    Patches(Patches),
}

impl Conv2d {
    /// A layer on images of this size; `None` if no window fits, or if the pooling's is padded.
    pub fn new(input: Image, filters: usize, window: Window, pool: Option<Window>) -> Option<Self> {
        let map = window.output(input, filters).filter(|_| filters > 0 && input.channels > 0)?;
        let path = Path::Patches(Patches { input, window, output: map });
        let pool = match pool {
            Some(window) if window.padding != [0, 0] => return None,
            Some(window) => {
                Some(Map { image: window.output(map, filters)?, window, row: map.row() })
            }
            None => None,
        };
        let tail = Tail { map, pool };
        let weights = window.size[0] * window.size[1] * input.channels * filters;
        Some(Conv2d { input, output: tail.output(), weights, filters, tail, path })
    }

    /// The size of the resulting image.
    pub fn output(&self) -> Image {
        self.output
    }
}

/// From a map to the layer's output.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// The map as the convolution computes it.
    map: Image,
    pool: Option<Map>,
}

impl Tail {
    fn output(&self) -> Image {
        self.pool.map_or(self.map, |pool| pool.image)
    }
    /// Elements of a map that has to be kept while it is pooled.
    fn scratch(&self) -> usize {
        if self.pool.is_some() { self.map.len().next_multiple_of(LINE) } else { 0 }
    }
}

impl<F: Scalar> Layer<F> for Conv2d {
    fn sizes(&self, _: usize) -> Sizes {
        let Path::Patches(patches) = self.path;
        let parameters = self.weights + self.filters;
        let output = self.output.len();
        Sizes {
            input: self.input.len(),
            output,
            kept: if self.tail.pool.is_some() { output } else { 0 },
            parameters,
            shared: patches.shared(),
            partial: parameters,
            scratch: self.tail.scratch() + patches.scratch(),
        }
    }

    fn prepare(&self, parameters: &[F], shared: &mut [F]) {
        let Path::Patches(patches) = self.path;
        patches.prepare(&parameters[..self.weights], shared);
    }

    fn forward(
        &self,
        _: &Pass,
        parameters: &[F],
        _shared: &[F],
        input: &[F],
        output: &mut [F],
        kept: &mut [F],
        scratch: &mut [F],
    ) {
        let Path::Patches(patches) = self.path;
        let parameters = parameters.split_at(self.weights);
        let (map, scratch) = scratch.split_at_mut(self.tail.scratch());
        let images = input.chunks_exact(self.input.len());
        let outputs = output.chunks_exact_mut(self.output.len());
        for (example, (image, output)) in images.zip(outputs).enumerate() {
            match self.tail.pool {
                None => patches.forward(parameters, image, output, scratch),
                Some(pool) => {
                    patches.forward(parameters, image, map, scratch);
                    let kept = &mut kept[example * self.output.len()..][..self.output.len()];
                    pool.pool(map, output, kept);
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
        let Path::Patches(patches) = self.path;
        let (d_map, scratch) = scratch.split_at_mut(self.tail.scratch());
        let (d_weights, d_bias) = partial.split_at_mut(self.weights);
        sum_rows(d_output, d_bias);
        for (example, image) in input.chunks_exact(self.input.len()).enumerate() {
            let of = example * self.output.len()..(example + 1) * self.output.len();
            let d_map = match self.tail.pool {
                None => &d_output[of],
                Some(pool) => {
                    d_map.fill(F::ZERO);
                    pool.spread(&kept[of.clone()], &d_output[of], d_map);
                    &*d_map
                }
            };
            patches.backward_weights(image, d_map, example == 0, d_weights, scratch);
            if let Some(d_input) = &mut d_input {
                let d_image = &mut d_input[example * image.len()..][..image.len()];
                patches.backward_image(shared, d_map, d_image, scratch);
            }
        }
    }

    fn pieces(&self) -> Vec<Range<usize>> {
        let parameters = self.weights + self.filters;
        (0..parameters).step_by(PIECE).map(|from| from..parameters.min(from + PIECE)).collect()
    }

    fn gradient(&self, piece: Range<usize>, shards: &dyn Shards<F>, gradient: &mut [F]) {
        gradient.fill(F::ZERO);
        let mut index = 0;
        while let Some(shard) = shards.shard(index) {
            let partial = &shard.partial[piece.clone()];
            gradient.iter_mut().zip(partial).for_each(|(sum, part)| *sum += *part);
            index += 1;
        }
    }
}

/// The derivatives by the bias: it is added at every pixel, and each pooled element has one.
fn sum_rows<F: Scalar>(rows: &[F], sums: &mut [F]) {
    sums.fill(F::ZERO);
    for row in rows.chunks_exact(sums.len()) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x);
    }
}
