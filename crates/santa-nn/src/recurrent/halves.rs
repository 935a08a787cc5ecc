//! The two halves of the hidden units: their buffers, and the passes of both over a wave.

use super::architecture::GATES;
use super::backward::{Backward, Derivatives};
use super::forward::{Forward, KEPT};
use super::pair;
use super::plan::{Plan, Row};
use super::rolls::PianoRolls;
use super::weights::HalfWeights;
use crate::kernels::{Buffer, Scalar, zeros};
use crate::parallel::spread;
use pulp::{Arch, Simd, WithSimd};

/// Hidden units from which a second core is asked for help. Measured on two cores: nothing gained with
/// 100 units, 1.6 times the speed with 200.
#[cfg(feature = "parallel")]
const WORTH_HELP: usize = 128;

#[derive(Debug)]
pub(super) struct HalfWorkspace<F: Scalar> {
    pub states: Buffer<F>,
    pub kept: Buffer<F>,
    pub gates: Buffer<F>,
    pub d_states: Buffer<F>,
    pub messages: Buffer<F>,
    pub bias: Buffer<F>,
}

impl<F: Scalar> HalfWorkspace<F> {
    /// Empty yet.
    pub fn new() -> Self {
        HalfWorkspace {
            states: zeros(0),
            kept: zeros(0),
            gates: zeros(0),
            d_states: zeros(0),
            messages: zeros(0),
            bias: zeros(0),
        }
    }

    /// Elements of all its buffers.
    pub fn len(&self) -> usize {
        let HalfWorkspace { states, kept, gates, d_states, messages, bias } = self;
        [states, kept, gates, d_states, messages, bias].iter().map(|buffer| buffer.len()).sum()
    }

    /// Makes room for a wave.
    pub fn grow(&mut self, weights: &HalfWeights<F>, plan: &Plan, backward: bool) {
        let (rows, units) = (plan.rows.len(), &weights.units);
        grow(&mut self.states, rows * units.stride);
        if backward {
            grow(&mut self.kept, rows * KEPT * units.stride);
            grow(&mut self.gates, rows * units.gates);
            grow(&mut self.d_states, rows * units.stride);
            grow(&mut self.messages, rows * weights.backward[1].width());
            grow(&mut self.bias, plan.groups.len() * GATES * units.stride);
        }
    }
}

/// Makes room for so many elements, with nothing in particular in them.
pub(super) fn grow<F: Scalar>(buffer: &mut Buffer<F>, len: usize) {
    if buffer.len() < len {
        // Not resized, which would copy what nobody reads.
        *buffer = zeros(len);
    }
}

/// Cuts off the part of a group.
pub(super) fn cut<'a, F>(rest: &mut &'a mut [F], len: usize) -> &'a mut [F] {
    let (now, later) = std::mem::take(rest).split_at_mut(len);
    *rest = later;
    now
}

/// The states of all groups.
pub(super) fn forward<F: Scalar>(
    weights: &[HalfWeights<F>; 2],
    plan: &Plan,
    rolls: &PianoRolls,
    halves: &mut [HalfWorkspace<F>; 2],
    keep: bool,
) {
    let mut rest = halves.each_mut().map(|half| (&mut half.states[..], &mut half.kept[..]));
    let groups = plan.groups.iter().map(|group| {
        let rows = &plan.rows[group.rows.clone()];
        let counts = &plan.counts[group.times.clone()];
        let halves = [0, 1].map(|half| {
            let stride = weights[half].units.stride;
            let kept = if keep { rows.len() * KEPT * stride } else { 0 };
            let (states, all_kept) = &mut rest[half];
            (cut(states, rows.len() * stride), cut(all_kept, kept))
        });
        ForwardGroup { weights, rolls, rows, counts, halves }
    });
    spread(groups.collect(), |group| Arch::new().dispatch(group));
}

struct ForwardGroup<'a, F: Scalar> {
    weights: &'a [HalfWeights<F>; 2],
    rolls: &'a PianoRolls,
    rows: &'a [Row],
    counts: &'a [usize],
    halves: [(&'a mut [F], &'a mut [F]); 2],
}

impl<F: Scalar> WithSimd for ForwardGroup<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ForwardGroup { weights: [a, b], rolls, rows, counts, halves } = self;
        let [in_a, in_b] = halves;
        let mut first = Forward::new(simd, a, rolls, (rows, counts), in_a.0, in_a.1);
        let mut second = Forward::new(simd, b, rolls, (rows, counts), in_b.0, in_b.1);
        run_pair(&mut first, &mut second, counts.len() - 1, a.units.len + b.units.len);
    }
}

/// The derivatives of all groups.
pub(super) fn backward<F: Scalar>(
    weights: &[HalfWeights<F>; 2],
    plan: &Plan,
    halves: &mut [HalfWorkspace<F>; 2],
) {
    let mut rest = halves.each_mut().map(|half| Derivatives {
        states: &half.states,
        kept: &mut half.kept,
        gates: &mut half.gates,
        d_states: &mut half.d_states,
        messages: &mut half.messages,
        bias: &mut half.bias,
    });
    let groups = plan.groups.iter().map(|group| {
        let counts = &plan.counts[group.times.clone()];
        let rows = group.rows.len();
        let derivatives = [0, 1].map(|half| {
            let units = &weights[half].units;
            let other = weights[half].backward[1].width();
            let rest = &mut rest[half];
            let (states, later) = rest.states.split_at(rows * units.stride);
            rest.states = later;
            Derivatives {
                states,
                kept: cut(&mut rest.kept, rows * KEPT * units.stride),
                gates: cut(&mut rest.gates, rows * units.gates),
                d_states: cut(&mut rest.d_states, rows * units.stride),
                messages: cut(&mut rest.messages, rows * other),
                bias: cut(&mut rest.bias, GATES * units.stride),
            }
        });
        BackwardGroup { weights, counts, derivatives }
    });
    spread(groups.collect(), |group| Arch::new().dispatch(group));
}

struct BackwardGroup<'a, F: Scalar> {
    weights: &'a [HalfWeights<F>; 2],
    counts: &'a [usize],
    derivatives: [Derivatives<'a, F>; 2],
}

impl<F: Scalar> WithSimd for BackwardGroup<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let BackwardGroup { weights: [a, b], counts, derivatives: [in_a, in_b] } = self;
        let mut first = Backward::new(simd, a, counts, in_a);
        let mut second = Backward::new(simd, b, counts, in_b);
        run_pair(&mut first, &mut second, counts.len() - 1, a.units.len + b.units.len);
    }
}

/// All steps of two halves, on one core or two.
fn run_pair<'a, F: Scalar, H: pair::Half<'a, F>>(
    first: &mut H,
    second: &mut H,
    steps: usize,
    hidden: usize,
) {
    #[cfg(feature = "parallel")]
    if hidden >= WORTH_HELP && rayon::current_num_threads() > 1 {
        return pair::run_helped(first, second, steps);
    }
    let _ = hidden;
    pair::run(first, second, steps);
}
