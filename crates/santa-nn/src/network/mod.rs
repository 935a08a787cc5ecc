//! Feed-forward networks: a chain of layers over flat parameters.

mod build;
mod workspace;

use crate::architecture::Architecture;
use crate::kernels::{Buffer, Scalar, zeros};
use crate::layers::{Pass, Record, Sizes};
use crate::{loss, parallel};
pub(crate) use build::Plan;
use build::{Planned, Tensor};
use santa::{Layout, Result};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use workspace::{LayerBuffers, SHARD, Workspace, shards_of};

/// Examples whose passes are kept in memory at a time; larger batches go piece by piece.
const AT_ONCE: usize = 1024;

/// A network that has been built: layers, parameters' layout, and buffers that are used again and
/// again.
#[derive(Debug)]
pub struct Network<F: Scalar> {
    architecture: Architecture,
    layout: Layout,
    tensors: Vec<Tensor>,
    layers: Vec<Planned<F>>,
    pieces: Vec<Piece>,
    /// What each layer prepares from the parameters.
    shared: Vec<Buffer<F>>,
    workspace: Workspace<F>,
    /// Buffers for prediction, one pair for every thread that has predicted.
    pairs: Mutex<Vec<Pair<F>>>,
}

/// Elements of a piece of the gradient that is worth a message of its own.
const LEAST_PIECE: usize = 1 << 14;

/// A range of the parameters whose gradient is computed at once.
#[derive(Clone, Debug)]
struct Piece {
    layer: usize,
    /// Within the layer.
    range: Range<usize>,
}

/// Input and output of a layer for one shard, its `kept` and its scratch.
#[derive(Debug)]
struct Pair<F> {
    buffers: [Buffer<F>; 2],
    kept: Buffer<F>,
    scratch: Buffer<F>,
}

/// A labelled batch: what a pass reads.
pub(crate) trait Source<F>: Sync {
    /// How many there are.
    fn len(&self) -> usize;
    /// Writes the inputs of some of them, one after the other.
    fn fill(&self, range: Range<usize>, to: &mut [F]);
    /// The class of one.
    fn label(&self, index: usize) -> usize;
}

impl<F: Scalar> Network<F> {
    /// Builds a network.
    pub fn new(architecture: &Architecture) -> Result<Self> {
        let Plan { layers, segments, tensors } = F::layers(architecture)?.0;
        let layout = Layout::new(segments)?;
        let pieces_of = |(layer, planned): (usize, &Planned<F>)| {
            let pieces = planned.layer.pieces();
            pieces.into_iter().map(move |range| Piece { layer, range })
        };
        Ok(Network {
            architecture: architecture.clone(),
            layout,
            tensors,
            workspace: Workspace::empty(layers.len()),
            pieces: layers.iter().enumerate().flat_map(pieces_of).collect(),
            shared: layers.iter().map(|planned| zeros(planned.sizes.shared)).collect(),
            layers,
            pairs: Mutex::new(Vec::new()),
        })
    }

    /// The description it was built from.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }
    /// Names and shapes of the parameters: `conv1.weight`, `dense1.bias`, ...
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// Elements of an example.
    pub fn input_len(&self) -> usize {
        self.layers[0].sizes.input
    }
    /// Classes: the length of a row of logits.
    pub fn classes(&self) -> usize {
        self.layers[self.layers.len() - 1].sizes.output
    }

    /// Initial parameters, by the architecture's initialiser. A function of the seed and the chain.
    pub fn initial(&self, seed: u64, chain: u32) -> Buffer<F> {
        let mut theta = zeros(self.layout.dim());
        for (i, (segment, tensor)) in self.layout.segments().iter().zip(&self.tensors).enumerate() {
            let place = (seed, chain, i as u32);
            let values = &mut theta[segment.range()];
            let columns = segment.shape().last().copied().unwrap_or(1);
            self.architecture.initialiser.fill(tensor.role, tensor.fans, columns, place, values);
        }
        theta
    }

    /// Height and width of the grid that a segment's weights lie on, if there is one; see
    /// [`Smoothness`](crate::Smoothness).
    pub(crate) fn grid(&self, segment: usize) -> Option<[usize; 2]> {
        self.tensors[segment].grid
    }

    /// Bytes of the buffers that it holds now: activations, derivatives, prepared weights.
    pub fn memory(&self) -> usize {
        let w = &self.workspace;
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let of_pair =
            |p: &Pair<F>| p.buffers[0].len() + p.buffers[1].len() + p.kept.len() + p.scratch.len();
        let lists = [&w.outputs, &w.kept, &w.d_outputs, &w.partials, &self.shared];
        let elements = w.input.len()
            + w.scratch.len()
            + w.gradient.len()
            + lists.into_iter().flatten().map(|buffer| buffer.len()).sum::<usize>()
            + pairs.iter().map(of_pair).sum::<usize>();
        elements * F::BYTES
    }

    /// The mean loss over the examples, and its gradient.
    pub(crate) fn gradient_of(
        &mut self,
        theta: &[F],
        examples: &impl Source<F>,
        pass: Pass,
        gradient: &mut [F],
    ) -> f64 {
        self.prepare(theta, true);
        let total = examples.len();
        let mut loss = 0.0;
        for start in (0..total).step_by(AT_ONCE) {
            let range = start..total.min(start + AT_ONCE);
            loss += self.passes(theta, examples, range.clone(), pass, true);
            if start == 0 {
                self.gradient(range.len(), gradient);
            } else {
                let mut sum = std::mem::replace(&mut self.workspace.gradient, zeros(0));
                sum.resize(gradient.len(), F::ZERO);
                self.gradient(range.len(), &mut sum);
                gradient.iter_mut().zip(sum.iter()).for_each(|(g, s)| *g += *s);
                self.workspace.gradient = sum;
            }
        }
        loss / total as f64
    }

    /// The same, with the gradient handed over in pieces from the last layer to the first: each as soon as
    /// it is known, and none much smaller than [`LEAST_PIECE`]. They are the same for any number of
    /// examples.
    pub(crate) fn gradient_in_pieces<'g>(
        &mut self,
        theta: &[F],
        examples: &impl Source<F>,
        pass: Pass,
        gradient: &'g mut [F],
        ready: &mut dyn FnMut(usize, &'g mut [F]),
    ) -> f64 {
        let total = examples.len();
        // More are summed in the whole gradient, group by group, before the first piece is complete.
        let early = total <= AT_ONCE;
        let loss = match early {
            true => {
                self.prepare(theta, true);
                self.passes(theta, examples, 0..total, pass, true) / total as f64
            }
            false => self.gradient_of(theta, examples, pass, gradient),
        };
        let (mut rest, mut end) = (gradient, self.layers.len());
        for layer in (0..self.layers.len()).rev() {
            let first = self.layers[layer].parameters.start;
            let long = rest.len() - first >= LEAST_PIECE && first >= LEAST_PIECE;
            if layer == 0 || long {
                let first = if layer == 0 { 0 } else { first };
                let (before, piece) = rest.split_at_mut(first);
                if early {
                    self.gradient_of_layers(layer..end, total, piece);
                }
                ready(first, piece);
                (rest, end) = (before, layer);
            }
        }
        loss
    }

    /// The mean loss over the examples as a training pass sees it (with dropout), without a gradient.
    pub(crate) fn training_loss(
        &mut self,
        theta: &[F],
        examples: &impl Source<F>,
        pass: Pass,
    ) -> f64 {
        self.prepare(theta, false);
        let total = examples.len();
        let starts = (0..total).step_by(AT_ONCE);
        let losses = starts.map(|start| {
            let range = start..total.min(start + AT_ONCE);
            self.passes(theta, examples, range, pass, false)
        });
        losses.sum::<f64>() / total as f64
    }

    /// Logits of the examples in `range`, by a prediction pass, for `each` shard of rows: its first
    /// example and its logits.
    ///
    /// Needs two buffers for a shard and a thread, none of the backward pass's.
    pub(crate) fn predict<T: Send>(
        &mut self,
        theta: &[F],
        examples: &impl Source<F>,
        each: impl Fn(usize, &mut [F]) -> T + Sync + Send,
    ) -> Vec<T> {
        self.prepare(theta, false);
        let total = examples.len();
        let mut results: Vec<(usize, Option<T>)> =
            (0..total).step_by(SHARD).map(|first| (first, None)).collect();
        let (this, pass) = (&*self, Pass::prediction());
        parallel::for_each(&mut results, |(first, result)| {
            let rows = SHARD.min(total - *first);
            let mut pair = this.take_pair();
            examples.fill(*first..*first + rows, &mut pair.buffers[0][..rows * this.input_len()]);
            let Pair { buffers, kept, scratch } = &mut pair;
            for (planned, shared) in this.layers.iter().zip(&this.shared) {
                let sizes = planned.sizes;
                let [input, output] = buffers;
                planned.layer.forward(
                    &pass,
                    &theta[planned.parameters.clone()],
                    shared,
                    &input[..rows * sizes.input],
                    &mut output[..rows * sizes.output],
                    &mut kept[..rows * sizes.kept],
                    &mut scratch[..sizes.scratch],
                );
                buffers.swap(0, 1);
            }
            *result = Some(each(*first, &mut buffers[0][..rows * this.classes()]));
            this.pairs.lock().unwrap_or_else(PoisonError::into_inner).push(pair);
        });
        results.into_iter().filter_map(|(_, result)| result).collect()
    }

    fn take_pair(&self) -> Pair<F> {
        let free = self.pairs.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| {
            let most = |of: fn(&Sizes) -> usize| {
                self.layers.iter().map(|planned| of(&planned.sizes)).max().unwrap_or(0)
            };
            let widest = SHARD * most(|sizes| sizes.input.max(sizes.output));
            Pair {
                buffers: [zeros(widest), zeros(widest)],
                kept: zeros(SHARD * most(|sizes| sizes.kept)),
                scratch: zeros(most(|sizes| sizes.scratch)),
            }
        })
    }

    fn prepare(&mut self, theta: &[F], training: bool) {
        for (planned, shared) in self.layers.iter().zip(&mut self.shared) {
            planned.layer.prepare(&theta[planned.parameters.clone()], training, shared);
        }
    }

    /// Forward passes of all shards, and backward passes if asked for; the sum of the losses.
    fn passes(
        &mut self,
        theta: &[F],
        examples: &impl Source<F>,
        range: Range<usize>,
        pass: Pass,
        backward: bool,
    ) -> f64 {
        let (layers, shared, classes) = (&self.layers, &self.shared, self.classes());
        // Below the first parameters nobody needs a derivative.
        let lowest = layers.iter().take_while(|planned| planned.parameters.is_empty()).count();
        let weight = F::from_f64(1.0 / examples.len() as f64);
        let mut shards = self.workspace.shards(layers, range.len(), backward);
        parallel::for_each(&mut shards, |shard| {
            let first = range.start + shard.first;
            let pass = Pass { first: pass.first + first, ..pass };
            let rows = shard.input.len() / layers[0].sizes.input;
            examples.fill(first..first + rows, shard.input);
            for (l, (planned, shared)) in layers.iter().zip(shared).enumerate() {
                let (before, here) = shard.layers.split_at_mut(l);
                let input = before.last().map_or(&*shard.input, |below| &*below.output);
                planned.layer.forward(
                    &pass,
                    &theta[planned.parameters.clone()],
                    shared,
                    input,
                    here[0].output,
                    here[0].kept,
                    &mut shard.scratch[..planned.sizes.scratch],
                );
            }
            let top = shard.layers.len() - 1;
            let LayerBuffers { output, d_output, .. } = &mut shard.layers[top];
            let labels = (0..rows).map(|row| examples.label(first + row));
            if !backward {
                loss::evaluate(output, labels, classes, shard.losses);
                return;
            }
            loss::cross_entropy(output, labels, classes, weight, d_output, shard.losses);
            for (l, (planned, shared)) in layers.iter().zip(shared).enumerate().skip(lowest).rev() {
                let (before, here) = shard.layers.split_at_mut(l);
                let (input, d_input) = match before.last_mut() {
                    Some(below) => (&*below.output, (l > lowest).then_some(&mut *below.d_output)),
                    None => (&*shard.input, None),
                };
                let LayerBuffers { output, kept, d_output, partial } = &mut here[0];
                planned.layer.backward(
                    &pass,
                    &theta[planned.parameters.clone()],
                    shared,
                    input,
                    output,
                    kept,
                    d_output,
                    d_input,
                    partial,
                    &mut shard.scratch[..planned.sizes.scratch],
                );
            }
        });
        self.workspace.losses[..range.len()].iter().sum()
    }

    /// The parameters' gradient from the last passes.
    fn gradient(&self, examples: usize, gradient: &mut [F]) {
        self.gradient_of_layers(0..self.layers.len(), examples, gradient);
    }

    /// The gradient of some layers' parameters from the last passes.
    fn gradient_of_layers(&self, layers: Range<usize>, examples: usize, gradient: &mut [F]) {
        let workspace = &self.workspace;
        let shards = shards_of(&self.layers, examples);
        let mut rest = gradient;
        let mut jobs: Vec<(&Piece, &mut [F])> = Vec::with_capacity(self.pieces.len());
        for piece in self.pieces.iter().filter(|piece| layers.contains(&piece.layer)) {
            let (here, after) = rest.split_at_mut(piece.range.len());
            jobs.push((piece, here));
            rest = after;
        }
        parallel::for_each(&mut jobs, |(piece, gradient)| {
            let planned = &self.layers[piece.layer];
            let (sizes, l) = (planned.sizes, piece.layer);
            let input = if l == 0 { &workspace.input } else { &workspace.outputs[l - 1] };
            let record = Record {
                examples,
                input: &input[..examples * sizes.input],
                d_output: &workspace.d_outputs[l][..examples * sizes.output],
                partials: &workspace.partials[l][..shards * sizes.partial],
            };
            planned.layer.gradient(piece.range.clone(), &record, gradient);
        });
    }
}
