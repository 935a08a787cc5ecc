//! Feed-forward networks: a chain of layers over flat parameters.

use crate::architecture::{self, Architecture, Shape};
use crate::initialise::Role;
use crate::kernels::{Buffer, Scalar, zeros};
use crate::layers::conv2d::{Conv2d, Image, Window};
use crate::layers::pool::{Pool2d, Pooling};
use crate::layers::{Activation, ActivationKind, Dense, Dropout, Layer, Pass, Record, Sizes};
use crate::loss;
use crate::parallel;
use santa::{Layout, Result};
use std::ops::Range;
use std::sync::Mutex;

/// Most examples of a shard, where shards sum part of the gradient or predict.
const SHARD: usize = 32;
/// Least examples of a shard where their number is free.
const SMALL_SHARD: usize = 16;
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

/// A tensor of the parameters, for its initial values.
#[derive(Debug)]
struct Tensor {
    role: Role,
    fans: [usize; 2],
}

#[derive(Debug)]
struct Planned<F: Scalar> {
    layer: Box<dyn Layer<F>>,
    /// Its place in the parameters.
    parameters: Range<usize>,
    sizes: Sizes,
}

/// A range of the parameters whose gradient is computed at once.
#[derive(Clone, Debug)]
struct Piece {
    layer: usize,
    /// Within the layer.
    range: Range<usize>,
}

/// Whole batches, layer by layer: outputs, what else is kept, derivatives.
#[derive(Debug)]
struct Workspace<F> {
    input: Buffer<F>,
    outputs: Vec<Buffer<F>>,
    kept: Vec<Buffer<F>>,
    d_outputs: Vec<Buffer<F>>,
    partials: Vec<Buffer<F>>,
    scratch: Buffer<F>,
    /// Of each example.
    losses: Vec<f64>,
    gradient: Buffer<F>,
}

/// Input and output of a layer for one shard, its `kept` and its scratch.
#[derive(Debug)]
struct Pair<F> {
    buffers: [Buffer<F>; 2],
    kept: Buffer<F>,
    scratch: Buffer<F>,
}

/// The rows of the workspace that belong to a shard.
struct ShardBuffers<'w, F> {
    /// Its first example within the batch.
    first: usize,
    input: &'w mut [F],
    layers: Vec<LayerBuffers<'w, F>>,
    scratch: &'w mut [F],
    losses: &'w mut [f64],
}

struct LayerBuffers<'w, F> {
    output: &'w mut [F],
    kept: &'w mut [F],
    d_output: &'w mut [F],
    partial: &'w mut [F],
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
        let shapes = architecture.shapes()?;
        let mut builder = Builder::default();
        let mut i = 0;
        while i < architecture.layers.len() {
            let rest = &architecture.layers[i..];
            i += builder.push(rest, shapes[i]);
        }
        let layout = Layout::new(builder.segments)?;
        let mut layers = Vec::new();
        let mut pieces = Vec::new();
        let mut end = 0;
        for layer in builder.layers {
            let sizes = layer.sizes(SHARD);
            let parameters = end..end + sizes.parameters;
            end = parameters.end;
            pieces.extend(
                layer.pieces().into_iter().map(|range| Piece { layer: layers.len(), range }),
            );
            layers.push(Planned { layer, parameters, sizes });
        }
        let shared = layers.iter().map(|planned| zeros(planned.sizes.shared)).collect();
        Ok(Network {
            architecture: architecture.clone(),
            layout,
            tensors: builder.tensors,
            workspace: Workspace::empty(layers.len()),
            layers,
            pieces,
            shared,
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
            self.architecture.initialiser.fill(tensor.role, tensor.fans, place, values);
        }
        theta
    }

    /// Bytes of the buffers that it holds now: activations, derivatives, prepared weights.
    pub fn memory(&self) -> usize {
        let w = &self.workspace;
        let pairs = self.pairs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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
    pub(crate) fn loss_gradient(
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
            this.pairs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(pair);
        });
        results.into_iter().filter_map(|(_, result)| result).collect()
    }

    fn take_pair(&self) -> Pair<F> {
        let free = self.pairs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
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
        let weight = F::from_f64(1.0 / examples.len() as f64);
        let mut shards = self.workspace.shards(layers, range.len(), backward);
        parallel::for_each(&mut shards, |shard| {
            let pass = Pass { first: range.start + shard.first, ..pass };
            let rows = shard.input.len() / layers[0].sizes.input;
            examples.fill(pass.first..pass.first + rows, shard.input);
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
            let labels = (0..rows).map(|row| examples.label(pass.first + row));
            if !backward {
                loss::evaluate(output, labels, classes, shard.losses);
                return;
            }
            loss::cross_entropy(output, labels, classes, weight, d_output, shard.losses);
            for (l, (planned, shared)) in layers.iter().zip(shared).enumerate().rev() {
                let (before, here) = shard.layers.split_at_mut(l);
                let (input, d_input) = match before.last_mut() {
                    Some(below) => (&*below.output, Some(&mut *below.d_output)),
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
        let workspace = &self.workspace;
        let shards = shards_of(&self.layers, examples);
        let mut rest = gradient;
        let mut jobs: Vec<(&Piece, &mut [F])> = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
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

/// Shards of a batch.
///
/// An example's passes are the same bits in any shard. Where the shards sum part of the gradient, the
/// sum depends on how the batch is cut, so that follows from its size alone. Otherwise there is a shard
/// for each thread, and the weights are read as seldom as possible.
fn shards_of<F: Scalar>(layers: &[Planned<F>], examples: usize) -> usize {
    if layers.iter().any(|planned| planned.sizes.partial > 0) {
        examples.div_ceil(SHARD)
    } else {
        examples.div_ceil(SMALL_SHARD).min(parallel::threads())
    }
}

impl<F: Scalar> Workspace<F> {
    fn empty(layers: usize) -> Self {
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
    fn shards(
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

/// Collects layers and the names of their parameters.
struct Builder<F: Scalar> {
    layers: Vec<Box<dyn Layer<F>>>,
    segments: Vec<(String, Vec<usize>)>,
    tensors: Vec<Tensor>,
    dense: usize,
    convolutions: usize,
}

impl<F: Scalar> Default for Builder<F> {
    fn default() -> Self {
        let (layers, segments, tensors) = (Vec::new(), Vec::new(), Vec::new());
        Builder { layers, segments, tensors, dense: 0, convolutions: 0 }
    }
}

impl<F: Scalar> Builder<F> {
    /// Adds the first of the layers, and what can be computed with it; returns how many that were.
    fn push(&mut self, layers: &[architecture::Layer], from: Shape) -> usize {
        use architecture::Layer as L;
        let (first, segment) = (self.layers.is_empty(), self.layers.len() as u32);
        let mut taken = 1;
        let layer: Box<dyn Layer<F>> = match &layers[0] {
            L::Dense(units) => {
                self.dense += 1;
                let name = format!("dense{}", self.dense);
                self.tensors(&name, vec![from.len(), *units], [from.len(), *units]);
                Box::new(Dense::new(from.len(), *units, first))
            }
            L::Conv(architecture::Convolution { channels, kernel, stride, padding }) => {
                let pool = match layers.get(1) {
                    Some(L::MaxPool(pooling)) => Some(window_of(pooling)),
                    _ => None,
                };
                taken += usize::from(pool.is_some());
                self.convolutions += 1;
                let name = format!("conv{}", self.convolutions);
                let [height, width] = *kernel;
                let image = image_of(from);
                let shape = vec![height, width, image.channels, *channels];
                let taps = height * width;
                self.tensors(&name, shape, [taps * image.channels, taps * channels]);
                let window = Window { size: *kernel, stride: *stride, padding: *padding };
                Box::new(Conv2d::new(image, *channels, window, pool).expect(CHECKED))
            }
            L::MaxPool(pooling) => {
                let window = window_of(pooling);
                Box::new(Pool2d::new(image_of(from), window, Pooling::Max).expect(CHECKED))
            }
            L::StochasticPool(pooling) => {
                let (window, pooling) = (window_of(pooling), Pooling::Stochastic { segment });
                Box::new(Pool2d::new(image_of(from), window, pooling).expect(CHECKED))
            }
            L::Relu => Box::new(Activation::new(ActivationKind::Relu, from.len())),
            L::Tanh => Box::new(Activation::new(ActivationKind::Tanh, from.len())),
            L::Sigmoid => Box::new(Activation::new(ActivationKind::Sigmoid, from.len())),
            L::Dropout(rate) => Box::new(Dropout::new(*rate, from.len(), segment)),
            L::Flatten => return taken,
        };
        self.layers.push(layer);
        taken
    }

    /// Names a weight and its bias, whose length is the weight's last axis.
    fn tensors(&mut self, name: &str, shape: Vec<usize>, fans: [usize; 2]) {
        let outputs = shape[shape.len() - 1];
        self.segments.push((format!("{name}.weight"), shape));
        self.segments.push((format!("{name}.bias"), vec![outputs]));
        self.tensors.extend([Role::Weight, Role::Bias].map(|role| Tensor { role, fans }));
    }
}

/// `Architecture::shapes` has been through all sizes.
const CHECKED: &str = "the shapes have been checked";

fn image_of(shape: Shape) -> Image {
    match shape {
        Shape::Image([height, width, channels]) => Image { height, width, channels },
        Shape::Vector(_) => unreachable!("{CHECKED}"),
    }
}

fn window_of(pooling: &architecture::Pooling) -> Window {
    let stride = pooling.stride.unwrap_or(pooling.window);
    Window { size: pooling.window, stride, padding: [0, 0] }
}
