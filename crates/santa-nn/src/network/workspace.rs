//! The buffers of training passes, whole batches at a time, and how they are cut into shards.

use super::build::Planned;
use crate::kernels::{Buffer, Scalar, zeros};
use crate::layers::Sizes;

/// Most examples of a shard, where shards sum part of the gradient or predict.
pub(super) const SHARD: usize = 32;
/// Most examples of a shard of other networks: more, so that weights are read less often.
const LARGE_SHARD: usize = 50;

/// Whole batches, layer by layer: outputs, what else is kept, derivatives.
#[derive(Debug)]
pub(super) struct Workspace<F> {
    pub input: Buffer<F>,
    pub outputs: Vec<Buffer<F>>,
    pub kept: Vec<Buffer<F>>,
    pub d_outputs: Vec<Buffer<F>>,
    pub partials: Vec<Buffer<F>>,
    pub scratch: Buffer<F>,
    /// Of each example.
    pub losses: Vec<f64>,
    pub gradient: Buffer<F>,
}

/// The rows of the workspace that belong to a shard.
pub(super) struct ShardBuffers<'w, F> {
    /// Its first example within the batch.
    pub first: usize,
    pub input: &'w mut [F],
    pub layers: Vec<LayerBuffers<'w, F>>,
    pub scratch: &'w mut [F],
    pub losses: &'w mut [f64],
}

pub(super) struct LayerBuffers<'w, F> {
    pub output: &'w mut [F],
    pub kept: &'w mut [F],
    pub d_output: &'w mut [F],
    pub partial: &'w mut [F],
}

/// Shards of a batch: a matter of its size, whatever the number of threads.
pub(super) fn shards_of<F: Scalar>(layers: &[Planned<F>], examples: usize) -> usize {
    let sums = layers.iter().any(|planned| planned.sizes.partial > 0);
    examples.div_ceil(if sums { SHARD } else { LARGE_SHARD })
}

impl<F: Scalar> Workspace<F> {
    /// No buffers yet.
    pub fn empty(layers: usize) -> Self {
        let buffers = || (0..layers).map(|_| zeros(0)).collect::<Vec<_>>();
        Workspace {
            input: zeros(0),
            outputs: buffers(),
            kept: buffers(),
            d_outputs: buffers(),
            partials: buffers(),
            scratch: zeros(0),
            losses: Vec::new(),
            gradient: zeros(0),
        }
    }

    /// Hands out the rows of every shard. Grows to the largest batch seen.
    pub fn shards(
        &mut self,
        layers: &[Planned<F>],
        examples: usize,
        backward: bool,
    ) -> Vec<ShardBuffers<'_, F>> {
        let shards = shards_of(layers, examples);
        let scratch = layers.iter().map(|planned| planned.sizes.scratch).max().unwrap_or(0);
        let grow = |buffer: &mut Buffer<F>, len: usize| {
            if buffer.len() < len {
                buffer.resize(len, F::ZERO);
            }
        };
        grow(&mut self.input, examples * layers[0].sizes.input);
        grow(&mut self.scratch, shards * scratch);
        if self.losses.len() < examples {
            self.losses.resize(examples, 0.0);
        }
        for (l, planned) in layers.iter().enumerate() {
            let sizes = planned.sizes;
            grow(&mut self.outputs[l], examples * sizes.output);
            grow(&mut self.kept[l], examples * sizes.kept);
            if backward {
                grow(&mut self.d_outputs[l], examples * sizes.output);
                grow(&mut self.partials[l], shards * sizes.partial);
            }
        }
        let edge = |shard: usize| shard * examples / shards;
        let mut input = Cutter(&mut self.input);
        let mut scratches = Cutter(&mut self.scratch);
        let mut losses = Cutter(&mut self.losses);
        let mut cutters: Vec<_> = self
            .outputs
            .iter_mut()
            .zip(&mut self.kept)
            .zip(self.d_outputs.iter_mut().zip(&mut self.partials))
            .map(|((a, b), (c, d))| [Cutter(a), Cutter(b), Cutter(c), Cutter(d)])
            .collect();
        (0..shards)
            .map(|shard| {
                let rows = edge(shard + 1) - edge(shard);
                let layers_here = layers.iter().zip(&mut cutters).map(|(planned, cutters)| {
                    let [output, kept, d_output, partial] = cutters;
                    let Sizes { output: width, kept: more, partial: sums, .. } = planned.sizes;
                    LayerBuffers {
                        output: output.cut(rows * width),
                        kept: kept.cut(rows * more),
                        d_output: d_output.cut(if backward { rows * width } else { 0 }),
                        partial: partial.cut(if backward { sums } else { 0 }),
                    }
                });
                ShardBuffers {
                    first: edge(shard),
                    input: input.cut(rows * layers[0].sizes.input),
                    layers: layers_here.collect(),
                    scratch: scratches.cut(scratch),
                    losses: losses.cut(rows),
                }
            })
            .collect()
    }
}

/// Cuts a buffer from its front.
struct Cutter<'w, F>(&'w mut [F]);

impl<'w, F> Cutter<'w, F> {
    fn cut(&mut self, len: usize) -> &'w mut [F] {
        let (front, rest) = std::mem::take(&mut self.0).split_at_mut(len);
        self.0 = rest;
        front
    }
}
