//! One fused pass over the parameters, whatever the dynamics.
//!
//! A pass walks the flat buffers once. Noise is drawn for [`BLOCK`] elements at a time. Then, [`LANE`]
//! elements at a time, buffers are read into registers, the gradient is clipped and completed by the
//! prior, the dynamics' [`Kernel`] does its update, and the result is written back. The loops are
//! compiled for every instruction set and chosen at run time; chunks are spread over threads. Chunks
//! are fixed by the layout alone, and what they sum is added in their order: the number of threads
//! never shows in the result.
//!
//! Numbers that are next to nothing count as zero, see [`Least`].

use crate::error::Result;
use crate::layout::Layout;
use crate::noise::Stream;
use crate::real::{BLOCK, Real};
use crate::target::Target;
use crate::units::LrScale;
use std::ops::Range;

/// Elements of a chunk, the unit of parallel work.
const CHUNK: usize = 128 * BLOCK;
/// Below this many elements a second thread costs more than it brings.
#[cfg(feature = "parallel")]
const PARALLEL_FROM: usize = 4 * CHUNK;
/// No dynamics keeps more state vectors than this.
pub(crate) const MAX_SLOTS: usize = 4;

/// Elements of a lane: two vector registers of AVX-512, so that all lanes of an update stay in
/// registers.
pub(crate) const LANE: usize = 64;

/// One vector of the elements that a kernel works on. On a cache line of its own: a vector access
/// that crosses a line costs two.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Lane<F>(pub [F; LANE]);

impl<F: Real> Lane<F> {
    #[inline(always)]
    pub fn splat(x: F) -> Self {
        Lane([x; LANE])
    }
}

impl<F> std::ops::Index<usize> for Lane<F> {
    type Output = F;
    #[inline(always)]
    fn index(&self, i: usize) -> &F {
        &self.0[i]
    }
}

impl<F> std::ops::IndexMut<usize> for Lane<F> {
    #[inline(always)]
    fn index_mut(&mut self, i: usize) -> &mut F {
        &mut self.0[i]
    }
}

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
    /// How many of the lanes' elements are parameters; what is beyond is padding.
    pub filled: usize,
}

/// What is smaller than this counts as zero.
///
/// Processors are a hundred times slower with subnormal numbers, and such numbers come of themselves:
/// where the data say nothing about a parameter (a pixel that is always black), its prior lets it decay
/// for ever, and so do averages of its gradients, until the last bit that no factor can shrink.
#[derive(Clone, Copy, Debug)]
pub struct Least<F> {
    /// Of an element of the gradient, whose square is to be a normal number, and a thousandth of it.
    pub gradient: F,
    /// Of an element of the state, which is to be one after a factor of a tenth.
    pub state: F,
}

impl<F: Real> Least<F> {
    /// For the element type.
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        /// Room for the factors of a step.
        const ROOM: f64 = 100.0;
        Least {
            gradient: F::from_f64(ROOM * F::LEAST_NORMAL.sqrt()),
            state: F::from_f64(ROOM * F::LEAST_NORMAL),
        }
    }
}

/// A block of [`BLOCK`] elements where it lies in memory. The gradient is the raw one; of the
/// preparation only the factors of theta are left to do.
pub(crate) struct WholeBlock<'a, F> {
    pub theta: &'a mut [F; BLOCK],
    pub gradient: &'a [F; BLOCK],
    /// Coefficient of theta from a Gaussian prior.
    pub ridge: F,
    pub zeta: &'a [F; BLOCK],
    pub least: Least<F>,
    /// Unused slots are empty.
    pub state: [&'a mut [F]; MAX_SLOTS],
}

/// What one kernel needs to know of the step and the segment.
pub(crate) struct Context<'a> {
    pub t: u64,
    pub target: &'a Target,
    pub lr: LrScale,
    /// The factor from outside, divided by the one of the step before.
    pub lr_ratio: f64,
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

    /// Whether [`Kernel::update_whole`] serves these settings.
    fn has_whole(_: &Self::Scalars) -> bool {
        false
    }

    /// The same update for a whole block as a single loop, which keeps everything in registers and
    /// runs at the speed of memory; for the settings that matter most. Adds `0 * x` of what it
    /// writes to `health`.
    #[inline(always)]
    fn update_whole(_: &Self::Scalars, _: WholeBlock<'_, F>, _health: &mut [F; BLOCK]) {}

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

impl<F: Real> Preparation<F> {
    /// Nothing to do but the Gaussian prior.
    fn is_plain(&self) -> bool {
        self.scale == F::ONE && self.clip.is_none() && self.lasso == F::ZERO
    }
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
    /// The number of segment 0 in the noise.
    pub first_segment: u32,
    /// Which noise of the stream: the step, and how often it was rolled back.
    pub draw: u64,
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
        let Vectorised { pass, chunk, mut lanes } = self;
        let scalars = &pass.scalars[chunk.segment as usize];
        let preparation = &pass.preparation[chunk.segment as usize];
        let noisy = K::noisy(scalars);
        let writes = K::writes(scalars);
        let counter = pass.stream.counter(pass.draw, pass.first_segment + chunk.segment);
        let len = chunk.range.len();
        let least = Least::<F>::new();

        // Stays at zero as long as every number is finite: 0 * x is NaN for the others.
        let mut health = Lane::splat(F::ZERO);
        let mut partial = 0.0;
        let mut block = Block {
            theta: Lane::splat(F::ZERO),
            f: Lane::splat(F::ZERO),
            zeta: Lane::splat(F::ZERO),
            state: [Lane::splat(F::ZERO); S],
            first: 0,
            filled: 0,
        };
        let mut zeta = Aligned([F::ZERO; BLOCK]);

        let mut done = 0;
        if K::has_whole(scalars) && preparation.is_plain() {
            let mut health_of_whole = Aligned([F::ZERO; BLOCK]);
            while done + BLOCK <= len {
                if noisy {
                    let index = (chunk.within + done) / BLOCK;
                    zeta.0 = F::normal_block(pass.stream.key, index as u32, counter);
                }
                let here = done..done + BLOCK;
                let (Some(theta), Some(gradient)) = (
                    lanes.theta[here.clone()].first_chunk_mut::<BLOCK>(),
                    lanes.gradient[here.clone()].first_chunk::<BLOCK>(),
                ) else {
                    break;
                };
                let state = lanes.state.each_mut().map(|slot| {
                    if slot.is_empty() { Default::default() } else { &mut slot[here.clone()] }
                });
                let ridge = preparation.ridge;
                let block = WholeBlock { theta, gradient, ridge, zeta: &zeta.0, least, state };
                K::update_whole(scalars, block, &mut health_of_whole.0);
                done += BLOCK;
            }
            for i in 0..BLOCK {
                health[i % LANE] += health_of_whole.0[i];
            }
        }

        for from in (done..len).step_by(LANE) {
            let filled = LANE.min(len - from);
            let here = from..from + filled;
            block.first = chunk.range.start + from;
            block.filled = filled;
            load(&mut block.theta, &lanes.theta[here.clone()]);
            load(&mut block.f, &lanes.gradient[here.clone()]);
            for k in 0..S {
                if !lanes.state[k].is_empty() {
                    load(&mut block.state[k], &lanes.state[k][here.clone()]);
                    clean(&mut block.state[k], least.state);
                }
            }
            if noisy {
                let within = from % BLOCK;
                if within == 0 {
                    let index = (chunk.within + from) / BLOCK;
                    zeta.0 = F::normal_block(pass.stream.key, index as u32, counter);
                }
                load(&mut block.zeta, &zeta.0[within..within + LANE]);
            }
            prepare(preparation, &block.theta, &mut block.f);
            clean(&mut block.f, least.gradient);
            pass.kernel.update(scalars, &mut block);

            // What pads the last lane is nobody's number.
            for i in 0..if filled == LANE { LANE } else { filled } {
                let mut check = block.theta[i] * F::ZERO;
                for k in 0..S {
                    check += block.state[k][i] * F::ZERO;
                }
                health[i] += check;
            }
            partial += K::partial(scalars, &block, filled);
            store(&mut lanes.theta[here.clone()], &block.theta);
            for k in 0..S {
                if writes[k] && !lanes.state[k].is_empty() {
                    store(&mut lanes.state[k][here.clone()], &block.state[k]);
                }
            }
        }
        Outcome { broken: health.0.iter().any(|h| *h != F::ZERO), partial }
    }
}

/// On a cache line of its own.
#[repr(align(64))]
struct Aligned<T>(T);

/// Up to [`LANE`] elements; of a shorter piece the rest stays as it is.
#[inline(always)]
fn load<F: Real>(lane: &mut Lane<F>, from: &[F]) {
    match from.first_chunk::<LANE>() {
        Some(whole) => lane.0 = *whole,
        None => lane.0[..from.len()].copy_from_slice(from),
    }
}

/// The reverse of [`load`].
#[inline(always)]
fn store<F: Real>(to: &mut [F], lane: &Lane<F>) {
    match to.first_chunk_mut::<LANE>() {
        Some(whole) => *whole = lane.0,
        None => {
            let len = to.len();
            to.copy_from_slice(&lane.0[..len]);
        }
    }
}

/// Makes zeros of what counts as zero.
#[inline(always)]
fn clean<F: Real>(lane: &mut Lane<F>, least: F) {
    for i in 0..LANE {
        lane[i] = lane[i].or_zero_below(least);
    }
}

/// Clips the raw mean gradient and adds the prior's part.
#[inline(always)]
fn prepare<F: Real>(p: &Preparation<F>, theta: &Lane<F>, f: &mut Lane<F>) {
    if p.scale != F::ONE {
        for i in 0..LANE {
            f[i] *= p.scale;
        }
    }
    if let Some(limit) = p.clip {
        for i in 0..LANE {
            let x = if f[i] > limit { limit } else { f[i] };
            let x = if x < -limit { -limit } else { x };
            // A NaN stays one and an infinity becomes one, to be noticed.
            f[i] = f[i].fma(F::ZERO, x);
        }
    }
    if p.ridge != F::ZERO {
        for i in 0..LANE {
            f[i] += p.ridge * theta[i];
        }
    }
    if p.lasso != F::ZERO {
        for i in 0..LANE {
            f[i] += p.lasso * theta[i].sign();
        }
    }
}
