//! Layers: explicit forward and backward passes over buffers that somebody else owns.
//!
//! A step of a network has three phases (see `network.rs`):
//!
//! 1. [`Layer::prepare`]: what depends on the parameters alone, once for the whole batch.
//! 2. The batch is cut into fixed shards of examples. Each shard runs [`Layer::forward`] through all
//!    layers and [`Layer::backward`] through all layers, on a workspace of its own and without
//!    waiting for the others.
//! 3. [`Layer::gradient`]: the gradient of the parameters, piece by piece, from all shards in their
//!    order.
//!
//! Shards and pieces depend on the sizes only, never on the number of threads: the same bits with
//! any number of them.

mod activation;
pub(crate) mod conv2d;
mod dense;
mod dropout;
pub(crate) mod pool;

pub(crate) use activation::{Activation, Kind as ActivationKind};
pub(crate) use dense::Dense;
pub(crate) use dropout::Dropout;

use crate::kernels::Scalar;
use santa::noise::{Purpose, Stream};
use std::fmt::Debug;
use std::ops::Range;

/// Lengths of the buffers that a layer works on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Elements of an example's input.
    pub input: usize,
    /// Elements of an example's output.
    pub output: usize,
    /// Elements that an example's forward pass keeps for the backward pass, besides input and output.
    pub kept: usize,
    /// Parameters.
    pub parameters: usize,
    /// Elements that [`Layer::prepare`] computes from the parameters.
    pub shared: usize,
    /// Elements that a shard's backward pass sums for [`Layer::gradient`].
    pub partial: usize,
    /// Elements that a shard needs during a call, of unspecified content before and after.
    pub scratch: usize,
}

/// What a pass is for, and the coordinates of its random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// Training, with dropout and stochastic pooling at random; otherwise prediction.
    pub training: bool,
    /// The stream of all masks ([`Purpose::Dropout`]).
    pub stream: Stream,
    /// The step of the run.
    pub step: u64,
    /// The first example of the shard within the batch: element e of example i of the shard draws
    /// number `(first + i) * width + e` of the layer's segment.
    pub first: usize,
}

impl Pass {
    /// A pass that draws nothing.
    pub fn prediction() -> Self {
        Pass { training: false, stream: Stream::new(0, 0, Purpose::Dropout), step: 0, first: 0 }
    }
}

/// What the passes of all shards through a layer leave behind.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a, F> {
    /// Examples of the whole batch.
    pub examples: usize,
    /// The layer's input, example by example.
    pub input: &'a [F],
    /// The derivatives of the loss by the layer's output.
    pub d_output: &'a [F],
    /// What the backward passes summed, shard by shard.
    pub partials: &'a [F],
}

/// A differentiable function of an input and parameters.
///
/// All buffers hold examples one after the other and are exactly as long as [`Layer::sizes`] says,
/// times the number of examples where that is per example.
pub(crate) trait Layer<F: Scalar>: Debug + Send + Sync {
    /// Lengths of all buffers, for at most `examples` examples in a shard.
    fn sizes(&self, examples: usize) -> Sizes;

    /// Computes from the parameters what every shard needs: for a forward pass, and if `training`,
    /// for a backward pass as well.
    fn prepare(&self, _parameters: &[F], _training: bool, _shared: &mut [F]) {}

    /// `output = f(input)`; whatever was in `output`, `kept` and `scratch` before.
    #[allow(clippy::too_many_arguments)]
    fn forward(
        &self,
        pass: &Pass,
        parameters: &[F],
        shared: &[F],
        input: &[F],
        output: &mut [F],
        kept: &mut [F],
        scratch: &mut [F],
    );

    /// From the derivatives by the output to those by the input (unless `d_input` is `None`: nobody
    /// asks for those of the data), and to `partial`, which the call overwrites.
    ///
    /// `d_output` may be changed, as long as [`Layer::gradient`] understands it.
    #[allow(clippy::too_many_arguments)]
    fn backward(
        &self,
        pass: &Pass,
        parameters: &[F],
        shared: &[F],
        input: &[F],
        output: &[F],
        kept: &[F],
        d_output: &mut [F],
        d_input: Option<&mut [F]>,
        partial: &mut [F],
        scratch: &mut [F],
    );

    /// Ranges of the layer's parameters whose gradients can be computed independently: without gaps,
    /// in order.
    fn pieces(&self) -> Vec<Range<usize>> {
        Vec::new()
    }

    /// Overwrites `gradient` by that of a piece of the parameters, summed over the batch in its
    /// order.
    fn gradient(&self, _piece: Range<usize>, _batch: &Record<'_, F>, _gradient: &mut [F]) {}
}
