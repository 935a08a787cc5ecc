//! One fused pass over the parameters, whatever the dynamics.
//!
//! A pass walks the flat buffers once. Each block of [`BLOCK`] elements is read into the first-level
//! cache, its gradient is clipped and completed by the prior, its noise is drawn, the dynamics'
//! [`Kernel`] updates it, and it is written back. Blocks are compiled for the instruction set found
//! at run time; chunks of blocks are spread over threads. Chunks are fixed by the layout alone, and
//! what they sum is added in their order: the number of threads never shows in the result.

use crate::error::Result;
use crate::layout::Layout;
use crate::noise::Stream;
use crate::real::{BLOCK, Real};
use crate::target::{SegmentSettings, Target};
use std::ops::Range;

/// Elements of a chunk, the unit of parallel work.
const CHUNK: usize = 128 * BLOCK;
/// Below this many elements a second thread costs more than it brings.
#[cfg(feature = "parallel")]
const PARALLEL_FROM: usize = 4 * CHUNK;
/// No dynamics keeps more state vectors than this.
pub(crate) const MAX_SLOTS: usize = 4;

/// One vector of a block.
pub(crate) type Lane<F> = [F; BLOCK];

/// The elements a kernel works on.
pub(crate) struct Block<F, const S: usize> {
    /// Parameters.
    pub theta: Lane<F>,
    /// Mean gradient of U: clipped, with the prior.
    pub f: Lane<F>,
    /// Standard normal deviates, if the kernel asked for them.
    pub zeta: Lane<F>,
    /// State vectors, in the order of [`Kernel::slots`].
    pub state: [Lane<F>; S],
    /// Index of the first element in the flat vector.
    pub first: usize,
}

/// What one kernel needs to know of the step and the segment.
pub(crate) struct Context<'a> {
    pub t: u64,
    pub target: &'a Target,
    pub segment: &'a SegmentSettings,
}

/// The update of one algorithm: scalars once per step and segment, then a block at a time.
pub(crate) trait Kernel<F: Real, const S: usize>: Send + Sync {
    /// What a step needs besides the vectors.
    type Scalars: Copy + Send + Sync;

    /// Scalars of step `t` for a segment.
    fn scalars(&self, context: &Context<'_>) -> Result<Self::Scalars>;

    /// Which state vectors the step writes; the others are only read.
    fn writes(_: &Self::Scalars) -> [bool; S] {
        [true; S]
    }

    /// Whether the step draws noise.
    fn noisy(_: &Self::Scalars) -> bool {
        false
    }

    /// Updates a block. Must be inlined, to be compiled for each instruction set.
    fn update(&self, s: &Self::Scalars, block: &mut Block<F, S>);

    /// A sum over all moving elements that the dynamics need after the step, for one block.
    #[inline(always)]
    fn partial(_: &Self::Scalars, _: &Block<F, S>, _filled: usize) -> f64 {
        0.0
    }

    /// Takes the sum of all [`Kernel::partial`] at the end of a step.
    fn finish(&mut self, _total: f64, _: &Context<'_>) -> Result<()> {
        Ok(())
    }

    /// A number that the kernel carries from step to step.
    fn carried(&self) -> Option<f64> {
        None
    }
    /// Restores [`Kernel::carried`].
    fn carry(&mut self, _value: f64) {}
}

/// A run of blocks inside one segment.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub segment: u32,
    /// In the flat vector.
    pub range: Range<usize>,
    /// First element, counted within the segment.
    pub within: usize,
}

/// The moving segments of a layout, cut into chunks.
pub(crate) fn chunks(target: &Target) -> Vec<Chunk> {
    let layout: &Layout = target.layout();
    let mut list = Vec::new();
    for (i, segment) in layout.segments().iter().enumerate() {
        if target.settings(i).frozen {
            continue;
        }
        let Range { start, end } = segment.range();
        for first in (start..end).step_by(CHUNK) {
            list.push(Chunk {
                segment: i as u32,
                range: first..end.min(first + CHUNK),
                within: first - start,
            });
        }
    }
    list
}

/// How the raw gradient becomes the mean gradient of U.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preparation<F> {
    /// Factor from clipping or rescaling the norm.
    pub scale: F,
    /// Largest magnitude of an element after that.
    pub clip: Option<F>,
    /// Coefficients of theta and sign(theta).
    pub ridge: F,
    pub lasso: F,
}

/// The buffers of a pass, from the same element on.
pub(crate) struct Lanes<'a, F> {
    pub theta: &'a mut [F],
    pub gradient: &'a [F],
    /// Unused slots are empty.
    pub state: [&'a mut [F]; MAX_SLOTS],
}

impl<'a, F> Lanes<'a, F> {
    fn split_at(self, mid: usize) -> (Self, Self) {
        let (theta, theta_rest) = self.theta.split_at_mut(mid);
        let (gradient, gradient_rest) = self.gradient.split_at(mid);
        let mut rest: [&'a mut [F]; MAX_SLOTS] = Default::default();
        let mut k = 0;
        let state = self.state.map(|slot| {
            let (left, right) =
                if slot.is_empty() { (slot, Default::default()) } else { slot.split_at_mut(mid) };
            rest[k] = right;
            k += 1;
            left
        });
        (
            Lanes { theta, gradient, state },
            Lanes { theta: theta_rest, gradient: gradient_rest, state: rest },
        )
    }
}

/// What a chunk reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// A parameter or a state element is NaN or infinite.
    pub broken: bool,
    /// Sum of [`Kernel::partial`].
    pub partial: f64,
}

/// A pass over `chunks`, whose buffers begin at flat element `base`.
pub(crate) struct Pass<'a, F, K, const S: usize>
where
    F: Real,
    K: Kernel<F, S>,
{
    pub kernel: &'a K,
    /// By segment.
    pub scalars: &'a [K::Scalars],
    /// By segment.
    pub preparation: &'a [Preparation<F>],
    pub stream: Stream,
    pub t: u64,
    pub arch: pulp::Arch,
}

impl<F: Real, K: Kernel<F, S>, const S: usize> Pass<'_, F, K, S> {
    /// Runs the chunks, on the current thread pool if they are worth it.
    pub fn run(
        &self,
        chunks: &[Chunk],
        base: usize,
        lanes: Lanes<'_, F>,
        outcomes: &mut [Outcome],
    ) {
        #[cfg(feature = "parallel")]
        {
            let elements = chunks.last().map_or(0, |c| c.range.end)
                - chunks.first().map_or(0, |c| c.range.start);
            if chunks.len() > 1 && elements >= PARALLEL_FROM && rayon::current_num_threads() > 1 {
                return self.halve(chunks, base, lanes, outcomes, rayon::current_num_threads());
            }
        }
        self.walk(chunks, base, lanes, outcomes);
    }

    /// Splits in halves until there are a few pieces for each thread.
    #[cfg(feature = "parallel")]
    fn halve(
        &self,
        chunks: &[Chunk],
        base: usize,
        lanes: Lanes<'_, F>,
        outcomes: &mut [Outcome],
        threads: usize,
    ) {
        /// Pieces per thread: enough to even out a thread that is late.
        const PIECES: usize = 8;
        fn go<F: Real, K: Kernel<F, S>, const S: usize>(
            pass: &Pass<'_, F, K, S>,
            chunks: &[Chunk],
            base: usize,
            lanes: Lanes<'_, F>,
            outcomes: &mut [Outcome],
            grain: usize,
        ) {
            if chunks.len() <= grain {
                return pass.walk(chunks, base, lanes, outcomes);
            }
            let mid = chunks.len() / 2;
            let border = chunks[mid].range.start;
            let (left, right) = lanes.split_at(border - base);
            let (chunks_left, chunks_right) = chunks.split_at(mid);
            let (out_left, out_right) = outcomes.split_at_mut(mid);
            rayon::join(
                || go(pass, chunks_left, base, left, out_left, grain),
                || go(pass, chunks_right, border, right, out_right, grain),
            );
        }
        let grain = chunks.len().div_ceil(PIECES * threads).max(1);
        go(self, chunks, base, lanes, outcomes, grain);
    }

    fn walk(
        &self,
        chunks: &[Chunk],
        mut base: usize,
        mut lanes: Lanes<'_, F>,
        outcomes: &mut [Outcome],
    ) {
        for (chunk, outcome) in chunks.iter().zip(outcomes) {
            let (_, rest) = lanes.split_at(chunk.range.start - base);
            let (here, rest) = rest.split_at(chunk.range.len());
            lanes = rest;
            base = chunk.range.end;
            *outcome = self.arch.dispatch(Vectorised { pass: self, chunk, lanes: here });
        }
    }
}

/// A chunk on its way to the instruction set.
struct Vectorised<'a, 'b, F: Real, K: Kernel<F, S>, const S: usize> {
    pass: &'a Pass<'a, F, K, S>,
    chunk: &'a Chunk,
    lanes: Lanes<'b, F>,
}

impl<F: Real, K: Kernel<F, S>, const S: usize> pulp::WithSimd for Vectorised<'_, '_, F, K, S> {
    type Output = Outcome;

    #[inline(always)]
    fn with_simd<V: pulp::Simd>(self, _: V) -> Outcome {
        let Vectorised { pass, chunk, lanes } = self;
        let scalars = &pass.scalars[chunk.segment as usize];
        let preparation = &pass.preparation[chunk.segment as usize];
        let noisy = K::noisy(scalars);
        let writes = K::writes(scalars);
        let counter = pass.stream.counter(pass.t, chunk.segment);
        let len = chunk.range.len();

        let mut block = Block {
            theta: [F::ZERO; BLOCK],
            f: [F::ZERO; BLOCK],
            zeta: [F::ZERO; BLOCK],
            state: [[F::ZERO; BLOCK]; S],
            first: 0,
        };
        // Stays at zero as long as every number is finite: 0 * x is NaN for the others.
        let mut health = [F::ZERO; BLOCK];
        let mut partial = 0.0;
        for from in (0..len).step_by(BLOCK) {
            let filled = BLOCK.min(len - from);
            let here = from..from + filled;
            block.first = chunk.range.start + from;
            block.theta[..filled].copy_from_slice(&lanes.theta[here.clone()]);
            block.f[..filled].copy_from_slice(&lanes.gradient[here.clone()]);
            for k in 0..S {
                if !lanes.state[k].is_empty() {
                    block.state[k][..filled].copy_from_slice(&lanes.state[k][here.clone()]);
                }
            }
            prepare(preparation, &block.theta, &mut block.f);
            if noisy {
                let index = (chunk.within + from) / BLOCK;
                block.zeta = F::normal_block(pass.stream.key, index as u32, counter);
            }
            pass.kernel.update(scalars, &mut block);
            if filled == BLOCK {
                for i in 0..BLOCK {
                    health[i] += block.theta[i] * F::ZERO;
                }
                for k in 0..S {
                    if writes[k] {
                        for i in 0..BLOCK {
                            health[i] += block.state[k][i] * F::ZERO;
                        }
                    }
                }
            } else {
                for i in 0..filled {
                    health[i] += block.theta[i] * F::ZERO;
                    for state in &block.state {
                        health[i] += state[i] * F::ZERO;
                    }
                }
            }
            partial += K::partial(scalars, &block, filled);
            lanes.theta[here.clone()].copy_from_slice(&block.theta[..filled]);
            for k in 0..S {
                if writes[k] && !lanes.state[k].is_empty() {
                    lanes.state[k][here.clone()].copy_from_slice(&block.state[k][..filled]);
                }
            }
        }
        Outcome { broken: health.iter().any(|h| *h != F::ZERO), partial }
    }
}

/// Clips the raw mean gradient and adds the prior's part.
#[inline(always)]
fn prepare<F: Real>(p: &Preparation<F>, theta: &Lane<F>, f: &mut Lane<F>) {
    if p.scale != F::ONE {
        for i in 0..BLOCK {
            f[i] *= p.scale;
        }
    }
    if let Some(limit) = p.clip {
        for i in 0..BLOCK {
            // Written so that a NaN stays one.
            let x = f[i];
            let x = if x > limit { limit } else { x };
            f[i] = if x < -limit { -limit } else { x };
        }
    }
    if p.ridge != F::ZERO {
        for i in 0..BLOCK {
            f[i] += p.ridge * theta[i];
        }
    }
    if p.lasso != F::ZERO {
        for i in 0..BLOCK {
            f[i] += p.lasso * theta[i].sign();
        }
    }
}
