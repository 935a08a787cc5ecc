//! A dynamics at work: its settings, its state vectors, and the step.

use super::engine::{Chunk, Context, Kernel, Lanes, MAX_SLOTS, Outcome, Pass, Preparation, chunks};
use super::saved::Position;
use super::{Algorithm, Initial, Physics, SeparableMetric, Stage};
use crate::clip::{Clip, gradient_norm};
use crate::error::{Error, Result, check};
use crate::health::{OnTrouble, first_not_finite};
use crate::noise::{MAX_CHAINS, MAX_SEGMENTS, MAX_STEPS, Purpose, Stream};
use crate::real::Real;
use crate::target::Target;
use crate::units::{LrScale, StepSize};
use aligned_vec::{AVec, ConstAlign};
use std::ops::Range;
use std::sync::Arc;

/// State vectors begin on a cache line.
pub(crate) type Buffer<F> = AVec<F, ConstAlign<64>>;

/// Bits of the noise's step that count steps; those above count rollbacks.
const STEP_BITS: u32 = MAX_STEPS.trailing_zeros();
/// Rollbacks with noise of their own; their number, modulo this, is in the bits of the noise's step
/// above those of [`MAX_STEPS`].
pub const ROLLBACKS: u32 = 1 << 8;

pub(crate) fn zeros<F: Real>(len: usize) -> Buffer<F> {
    Buffer::from_iter(64, std::iter::repeat_n(F::ZERO, len))
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepOutcome {
    /// Made.
    Applied,
    /// Not made, because the gradient was not finite.
    Skipped,
    /// Undone, with everything since the last good state: parameters, state and step are those of
    /// then. The noise of the steps that are made again is new.
    RolledBack {
        /// The step after which that state was kept.
        to: u64,
    },
}

/// Dynamics at work: owns the state vectors, moves a theta that you own.
///
/// Build one with `init` of a settings struct ([`Santa::init`](super::Santa::init), ...) or with
/// [`Stepper::new`]. The gradient to hand over is the *mean* over the minibatch, without the prior;
/// the [`Target`] supplies N and the prior.
///
/// A step allocates nothing. It runs on the rayon pool it is called from, and gives the same bits
/// whatever the number of threads.
pub struct Stepper<F: Real> {
    algorithm: Algorithm,
    target: Target,
    seed: u64,
    chain: u32,
    stream: Stream,
    /// The number of the first segment in the noise.
    first_segment: u32,
    t: u64,
    /// From outside, for the next step and for the one before it.
    lr_factor: f64,
    lr_factor_before: f64,
    rule: Box<dyn Rule<F>>,
    names: Vec<&'static str>,
    /// One for each name; empty where the name is.
    state: Vec<Buffer<F>>,
    chunks: Vec<Chunk>,
    /// The chunks of each segment.
    by_segment: Vec<Range<usize>>,
    outcomes: Vec<Outcome>,
    preparation: Vec<Preparation<F>>,
    arch: pulp::Arch,
    clip: Clip,
    on_trouble: OnTrouble,
    failures: u32,
    /// The step of the last failure: failures are forgotten once it is behind.
    failed_at: u64,
    /// How often the state was rolled back; the noise of steps made again is new.
    rollbacks: u32,
    poisoned: Option<u64>,
    snapshot: Option<Snapshot<F>>,
}

/// The last good state, for rolling back.
#[derive(Clone)]
struct Snapshot<F: Real> {
    t: u64,
    theta: Buffer<F>,
    state: Vec<Buffer<F>>,
    carried: Option<f64>,
    lr_factor: f64,
}

/// theta and its gradient, in one piece or by segment.
enum Parameters<'a, 'b, F> {
    Flat(&'a mut [F], &'a [F]),
    Segments(&'a mut [(&'b mut [F], &'b [F])]),
}

impl<F: Real> Clone for Stepper<F> {
    fn clone(&self) -> Self {
        Stepper {
            algorithm: self.algorithm.clone(),
            target: self.target.clone(),
            rule: self.rule.duplicate(),
            names: self.names.clone(),
            state: self.state.clone(),
            chunks: self.chunks.clone(),
            by_segment: self.by_segment.clone(),
            outcomes: self.outcomes.clone(),
            preparation: self.preparation.clone(),
            snapshot: self.snapshot.clone(),
            ..*self
        }
    }
}

impl<F: Real> Stepper<F> {
    /// Checks the settings against the target and sets up the state. `seed` and `chain` choose the
    /// noise: chains of one seed are independent.
    pub fn new(
        algorithm: impl Into<Algorithm>,
        target: &Target,
        seed: u64,
        chain: u32,
    ) -> Result<Self> {
        Self::build(algorithm.into(), target, seed, chain, 0, None)
    }

    /// Dynamics of a part of a model: its segments have the noise that segments `first_segment ..` of
    /// the whole would have. For frameworks that hand over one tensor at a time.
    pub fn of_part(
        algorithm: impl Into<Algorithm>,
        target: &Target,
        seed: u64,
        chain: u32,
        first_segment: u32,
    ) -> Result<Self> {
        Self::build(algorithm.into(), target, seed, chain, first_segment, None)
    }

    /// The same with a metric that is a function of theta (`Metric::Given`).
    pub fn with_metric(
        algorithm: impl Into<Algorithm>,
        target: &Target,
        seed: u64,
        chain: u32,
        metric: Arc<dyn SeparableMetric<F>>,
    ) -> Result<Self> {
        Self::build(algorithm.into(), target, seed, chain, 0, Some(metric))
    }

    fn build(
        algorithm: Algorithm,
        target: &Target,
        seed: u64,
        chain: u32,
        first_segment: u32,
        metric: Option<Arc<dyn SeparableMetric<F>>>,
    ) -> Result<Self> {
        algorithm.check(target)?;
        let segments = target.layout().segments().len();
        if first_segment as usize + segments > MAX_SEGMENTS {
            let allowed = format!("with {segments} segments at most {}", MAX_SEGMENTS - segments);
            return Err(Error::setting("first_segment", first_segment, allowed));
        }
        if chain >= MAX_CHAINS {
            return Err(Error::setting("chain", chain, format!("below {MAX_CHAINS}")));
        }
        let names = algorithm.slots();
        debug_assert!(names.len() <= MAX_SLOTS);
        let start = Start { algorithm: &algorithm, target, seed, chain, first_segment };
        let state = start.vectors(&names, 1.0)?;
        let chunks = chunks(target);
        let by_segment = (0..target.layout().segments().len() as u32)
            .map(|i| {
                chunks.partition_point(|c| c.segment < i)
                    ..chunks.partition_point(|c| c.segment <= i)
            })
            .collect();
        let preparation = (0..target.layout().segments().len())
            .map(|i| {
                let (ridge, lasso) = target.settings(i).prior.mean_gradient(target.data_size());
                Preparation {
                    scale: F::ONE,
                    clip: None,
                    ridge: F::from_f64(ridge),
                    lasso: F::from_f64(lasso),
                }
            })
            .collect();
        let mut rule = F::rule(&algorithm, target, metric)?.0;
        rule.prepare(&Moment { t: 1, target, lr_factor: 1.0, lr_ratio: 1.0 })?; // also sizes its buffers, once
        Ok(Stepper {
            rule,
            stream: Stream::new(seed, chain, Purpose::Dynamics),
            outcomes: vec![Outcome::default(); chunks.len()],
            target: target.clone(),
            algorithm,
            seed,
            chain,
            first_segment,
            t: 0,
            lr_factor: 1.0,
            lr_factor_before: 1.0,
            names,
            state,
            chunks,
            by_segment,
            preparation,
            arch: pulp::Arch::new(),
            clip: Clip::Off,
            on_trouble: OnTrouble::default(),
            failures: 0,
            failed_at: 0,
            rollbacks: 0,
            poisoned: None,
            snapshot: None,
        })
    }

    /// Another instruction set than the best one found, for tests.
    #[cfg(test)]
    pub(crate) fn with_arch(mut self, arch: pulp::Arch) -> Self {
        self.arch = arch;
        self
    }

    /// Clips or rescales every gradient before the prior is added.
    pub fn with_clip(mut self, clip: Clip) -> Result<Self> {
        clip.check()?;
        self.clip = clip;
        let limit = match clip {
            Clip::Value(limit) => Some(F::from_f64(limit)),
            _ => None,
        };
        self.preparation.iter_mut().for_each(|p| p.clip = limit);
        Ok(self)
    }

    /// What to do about a NaN or an infinity.
    pub fn on_trouble(mut self, policy: OnTrouble) -> Result<Self> {
        policy.check()?;
        self.on_trouble = policy;
        Ok(self)
    }

    /// Multiplies the learning rate of the settings from the next step on: for a schedule that lives
    /// outside. With a learning rate of 1 in the settings ([`Algorithm::with_lr`]) the factor *is* the
    /// learning rate.
    ///
    /// Santa's momentum and thermostat follow as they follow a schedule of the settings. A factor that
    /// is set before the first step also sets the scale of the momentum that the dynamics start with.
    /// The paper's units ([`StepSize::Paper`]) are refused: there the friction hangs on $\eta$ too.
    pub fn set_lr_factor(&mut self, factor: f64) -> Result<()> {
        check::positive("lr_factor", factor)?;
        if factor != 1.0 && matches!(self.algorithm.step_size(), Some(StepSize::Paper { .. })) {
            let allowed = "the settings are in the paper's units, where a learning rate from outside \
                           would change the friction; use StepSize::practical or heavy_ball";
            return Err(Error::setting("lr_factor", factor, allowed));
        }
        if self.t == 0 && factor != self.lr_factor {
            let Stepper { algorithm, target, seed, chain, first_segment, names, .. } = &*self;
            let (seed, chain, first_segment) = (*seed, *chain, *first_segment);
            let start = Start { algorithm, target, seed, chain, first_segment };
            self.state = start.vectors(names, factor)?;
            self.lr_factor_before = factor;
        }
        self.lr_factor = factor;
        Ok(())
    }

    /// What multiplies the learning rate of the settings; 1 unless set.
    pub fn lr_factor(&self) -> f64 {
        self.lr_factor
    }

    /// Moves `theta` by one step. `mean_gradient` is the mean over the minibatch, at this `theta`,
    /// without the prior.
    pub fn step(&mut self, theta: &mut [F], mean_gradient: &[F]) -> Result<StepOutcome> {
        self.target.layout().check_len("theta", theta.len())?;
        self.target.layout().check_len("the gradient", mean_gradient.len())?;
        self.advance(Parameters::Flat(theta, mean_gradient))
    }

    /// The same for parameters that lie apart: `(theta, mean gradient)` of each segment in the
    /// layout's order. Same numbers as [`Stepper::step`].
    pub fn step_segments<'a>(
        &mut self,
        segments: &mut [(&'a mut [F], &'a [F])],
    ) -> Result<StepOutcome> {
        let layout = self.target.layout();
        if segments.len() != layout.segments().len() {
            let what = "the list of segments";
            let expected = layout.segments().len();
            return Err(Error::Length { what, expected, found: segments.len() });
        }
        for ((theta, gradient), segment) in segments.iter().zip(layout.segments()) {
            let expected = segment.range().len();
            if theta.len() != expected || gradient.len() != expected {
                return Err(Error::Structure(format!(
                    "segment `{}` has {expected} elements, but theta has {} and the gradient {}",
                    segment.name(),
                    theta.len(),
                    gradient.len()
                )));
            }
        }
        self.advance(Parameters::Segments(segments))
    }

    fn advance(&mut self, mut parameters: Parameters<'_, '_, F>) -> Result<StepOutcome> {
        if let Some(step) = self.poisoned {
            return Err(Error::Poisoned { step });
        }
        let t = self.t + 1;
        if t >= MAX_STEPS {
            return Err(Error::setting(
                "step",
                t,
                "the noise repeats from here on; change the seed",
            ));
        }
        let lr_ratio = self.lr_factor / self.lr_factor_before;
        let moment = Moment { t, target: &self.target, lr_factor: self.lr_factor, lr_ratio };
        self.rule.prepare(&moment)?;
        if let OnTrouble::RollBack { every, .. } = self.on_trouble {
            let due = self.t.is_multiple_of(every) || self.snapshot.is_none();
            if self.failures == 0 && due {
                self.keep(&parameters);
            }
        }

        if self.clip.needs_norm() || self.on_trouble != OnTrouble::Stop {
            let norm = gradient_norm(self.arch, &self.chunks, &mut self.outcomes, |chunk| {
                parameters.gradient(chunk, &self.target)
            });
            if !norm.is_finite() {
                let trouble = self.find_bad_gradient(&parameters, t);
                // A norm may overflow although every element is finite.
                return self.handle(trouble, t, &mut parameters);
            }
            let scale = F::from_f64(self.clip.factor(norm));
            self.preparation.iter_mut().for_each(|p| p.scale = scale);
        }

        self.run(&mut parameters, t);
        if self.outcomes.iter().any(|o| o.broken) {
            let trouble = self.find_trouble(&parameters, t);
            return self.handle(trouble, t, &mut parameters);
        }
        let total = self.outcomes.iter().map(|o| o.partial).sum();
        let moment = Moment { t, target: &self.target, lr_factor: self.lr_factor, lr_ratio };
        if let Err(error) = self.rule.finish(&moment, total) {
            self.poisoned = Some(t);
            return Err(error);
        }
        if let Some(value) = self.rule.carried().filter(|x| !x.is_finite()) {
            let (what, segment) = ("the carried number".into(), "all".into());
            let trouble = Error::NotFinite { what, segment, index: 0, value, step: t };
            return self.handle(trouble, t, &mut parameters);
        }
        self.t = t;
        self.lr_factor_before = self.lr_factor;
        if t >= self.failed_at {
            self.failures = 0;
        }
        Ok(StepOutcome::Applied)
    }

    /// The pass itself.
    fn run(&mut self, parameters: &mut Parameters<'_, '_, F>, t: u64) {
        let Stepper { rule, state, chunks, by_segment, outcomes, preparation, .. } = self;
        let draw = t | u64::from(self.rollbacks % ROLLBACKS) << STEP_BITS;
        let (stream, first_segment) = (self.stream, self.first_segment);
        let common = Common { preparation, stream, first_segment, draw, arch: self.arch };
        match parameters {
            Parameters::Flat(theta, gradient) => {
                let mut slots: [&mut [F]; MAX_SLOTS] = Default::default();
                for (slot, vector) in slots.iter_mut().zip(state.iter_mut()) {
                    *slot = vector.as_mut_slice();
                }
                let lanes = Lanes { theta, gradient, state: slots };
                rule.run(&common, chunks, 0, lanes, outcomes);
            }
            Parameters::Segments(list) => {
                let segments = self.target.layout().segments();
                for (i, (theta, gradient)) in list.iter_mut().enumerate() {
                    let range = segments[i].range();
                    let mut slots: [&mut [F]; MAX_SLOTS] = Default::default();
                    for (slot, vector) in slots.iter_mut().zip(state.iter_mut()) {
                        if !vector.is_empty() {
                            *slot = &mut vector[range.clone()];
                        }
                    }
                    let lanes = Lanes { theta, gradient, state: slots };
                    let mine = by_segment[i].clone();
                    let out = &mut outcomes[mine.clone()];
                    rule.run(&common, &chunks[mine], range.start, lanes, out);
                }
            }
        }
    }

    /// Applies the policy to a step that failed.
    fn handle(
        &mut self,
        trouble: Error,
        t: u64,
        parameters: &mut Parameters<'_, '_, F>,
    ) -> Result<StepOutcome> {
        self.failures += 1;
        self.failed_at = self.failed_at.max(t);
        let in_gradient =
            matches!(&trouble, Error::NotFinite { what, .. } if what == "the gradient");
        match self.on_trouble {
            OnTrouble::Stop => {
                // A clipped norm is noticed before anything moved.
                if !(in_gradient && self.clip.needs_norm()) {
                    self.poisoned = Some(t);
                }
                Err(trouble)
            }
            OnTrouble::Skip { at_most } if in_gradient => {
                if self.failures > at_most {
                    return Err(Error::GaveUp { failures: self.failures, last: trouble.into() });
                }
                // The step has not been made: its number and its noise are for the next gradient.
                Ok(StepOutcome::Skipped)
            }
            OnTrouble::Skip { .. } => {
                self.poisoned = Some(t);
                Err(trouble)
            }
            OnTrouble::RollBack { at_most, .. } => {
                if self.failures > at_most {
                    self.poisoned = Some(t);
                    return Err(Error::GaveUp { failures: self.failures, last: trouble.into() });
                }
                let Some(good) = &self.snapshot else {
                    self.poisoned = Some(t);
                    return Err(trouble);
                };
                parameters.restore(&good.theta, &self.target);
                for (vector, kept) in self.state.iter_mut().zip(&good.state) {
                    vector.copy_from_slice(kept);
                }
                if let Some(value) = good.carried {
                    self.rule.carry(value);
                }
                // Time goes back as well, or schedules and state would part; the noise does not.
                self.t = good.t;
                self.lr_factor_before = good.lr_factor;
                self.rollbacks += 1;
                Ok(StepOutcome::RolledBack { to: good.t })
            }
        }
    }

    /// Keeps the present state as the last good one.
    fn keep(&mut self, parameters: &Parameters<'_, '_, F>) {
        let dim = self.target.dim();
        let snapshot = self.snapshot.get_or_insert_with(|| Snapshot {
            t: 0,
            theta: zeros(dim),
            state: self.state.iter().map(|v| zeros(v.len())).collect(),
            carried: None,
            lr_factor: 1.0,
        });
        snapshot.t = self.t;
        snapshot.lr_factor = self.lr_factor_before;
        snapshot.carried = self.rule.carried();
        parameters.save(&mut snapshot.theta, &self.target);
        for (kept, vector) in snapshot.state.iter_mut().zip(&self.state) {
            kept.copy_from_slice(vector);
        }
    }

    fn find_bad_gradient(&self, parameters: &Parameters<'_, '_, F>, t: u64) -> Error {
        let found = first_not_finite(&self.target, |range, i| parameters.gradient_at(range, i));
        match found {
            Some((segment, index, value)) => {
                Error::NotFinite { what: "the gradient".into(), segment, index, value, step: t }
            }
            None => Error::NotFinite {
                what: "the norm of the gradient".into(),
                segment: "all".into(),
                index: 0,
                value: f64::INFINITY,
                step: t,
            },
        }
    }

    /// Names the first number that is not finite: the gradient first, it is usually the cause.
    fn find_trouble(&self, parameters: &Parameters<'_, '_, F>, t: u64) -> Error {
        let gradient = first_not_finite(&self.target, |r, i| parameters.gradient_at(r, i));
        let mut found = gradient.map(|f| ("the gradient".to_string(), f));
        for (name, vector) in self.names.iter().zip(&self.state) {
            if found.is_none() && !vector.is_empty() {
                found = first_not_finite(&self.target, |range, i| (vector[range][i]).to_f64())
                    .map(|f| (format!("state `{name}`"), f));
            }
        }
        if found.is_none() {
            found = first_not_finite(&self.target, |r, i| parameters.theta_at(r, i))
                .map(|f| ("theta".to_string(), f));
        }
        let (what, (segment, index, value)) =
            found.unwrap_or(("an intermediate value".into(), ("unknown".into(), 0, f64::NAN)));
        Error::NotFinite { what, segment, index, value, step: t }
    }

    /// Steps made so far; skipped and undone ones do not count.
    pub fn steps(&self) -> u64 {
        self.t
    }
    /// The settings.
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }
    /// The target.
    pub fn target(&self) -> &Target {
        &self.target
    }
    /// The seed of the noise.
    pub fn seed(&self) -> u64 {
        self.seed
    }
    /// The chain, which chooses the noise among those of a seed.
    pub fn chain(&self) -> u32 {
        self.chain
    }
    /// What the next step will do.
    pub fn stage(&self) -> Result<Stage> {
        self.algorithm.stage(self.t + 1)
    }
    /// The temperature of the next step; 0 when it refines.
    pub fn temperature(&self) -> Result<f64> {
        Ok(1.0 / self.algorithm.beta(self.t + 1)?)
    }
    /// Step size, temperature and base friction of the last step made, for a segment.
    pub fn physics(&self, segment: usize) -> Result<Option<Physics>> {
        let group = self.target.settings(segment).lr_scale;
        let lr = LrScale { group, outside: self.lr_factor_before };
        self.algorithm.physics(self.t.max(1), self.target.data_size(), lr)
    }

    /// Names and contents of the state vectors.
    pub fn state(&self) -> impl Iterator<Item = (&'static str, &[F])> {
        self.names
            .iter()
            .zip(&self.state)
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, vector)| (*name, vector.as_slice()))
    }

    /// A state vector by its name.
    pub fn state_vector(&self, name: &str) -> Option<&[F]> {
        self.state().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// A state vector by its name, to change: for exact starts and for experiments.
    pub fn state_vector_mut(&mut self, name: &str) -> Option<&mut [F]> {
        let k = self.names.iter().position(|n| !n.is_empty() && *n == name)?;
        Some(self.state[k].as_mut_slice())
    }

    /// The friction $\alpha$ of each parameter, for dynamics with a thermostat of their own each.
    pub fn friction(&self) -> Result<Option<Vec<f64>>> {
        let Some(shift) = self.state_vector("alpha_shift") else { return Ok(None) };
        let mut alpha = Vec::with_capacity(shift.len());
        for (i, segment) in self.target.layout().segments().iter().enumerate() {
            let base = self.physics(i)?.map_or(0.0, |p| p.alpha0);
            alpha.extend(shift[segment.range()].iter().map(|x| base + x.to_f64()));
        }
        Ok(Some(alpha))
    }

    /// The number that the dynamics carry besides their vectors (SGNHT: $\xi - A$).
    pub fn carried(&self) -> Option<f64> {
        self.rule.carried()
    }

    /// What is done to every gradient before the prior is added.
    pub fn clip(&self) -> Clip {
        self.clip
    }
    /// What is done about a NaN or an infinity.
    pub fn trouble_policy(&self) -> OnTrouble {
        self.on_trouble
    }

    /// The number of segment 0 in the noise; 0 unless these are dynamics [of a part](Self::of_part).
    pub fn first_segment(&self) -> u32 {
        self.first_segment
    }

    /// For the next step, and of the last one.
    pub(crate) fn lr_factors(&self) -> [f64; 2] {
        [self.lr_factor, self.lr_factor_before]
    }

    pub(crate) fn rollbacks(&self) -> u32 {
        self.rollbacks
    }

    pub(crate) fn is_poisoned(&self) -> Option<u64> {
        self.poisoned
    }

    /// The moving parameters, in the units of parallel work.
    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }
    /// Which of them belong to each segment.
    pub(crate) fn chunks_by_segment(&self) -> &[Range<usize>] {
        &self.by_segment
    }
    /// The instruction set found.
    pub(crate) fn arch(&self) -> pulp::Arch {
        self.arch
    }

    pub(crate) fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Puts everything back as a checkpoint had it; it has been checked.
    pub(crate) fn put_back(&mut self, position: Position<F>) {
        self.t = position.step;
        self.rollbacks = position.rollbacks;
        [self.lr_factor, self.lr_factor_before] = position.lr_factors;
        self.poisoned = None;
        self.failures = 0;
        self.failed_at = 0;
        self.snapshot = None;
        if let Some(value) = position.carried {
            self.rule.carry(value);
        }
        for (name, saved) in position.state {
            if let Some(vector) = self.state_vector_mut(&name) {
                vector.copy_from_slice(&saved);
            }
        }
    }
}

impl<F: Real> Parameters<'_, '_, F> {
    fn gradient(&self, chunk: &Chunk, target: &Target) -> &[F] {
        match self {
            Parameters::Flat(_, gradient) => &gradient[chunk.range.clone()],
            Parameters::Segments(list) => {
                let segment = chunk.segment as usize;
                let start = target.layout().segments()[segment].range().start;
                &list[segment].1[chunk.range.start - start..chunk.range.end - start]
            }
        }
    }
    fn gradient_at(&self, range: Range<usize>, i: usize) -> f64 {
        self.element(range, i, |p| p.1)
    }
    fn theta_at(&self, range: Range<usize>, i: usize) -> f64 {
        self.element(range, i, |p| p.0)
    }
    fn element<'s>(
        &'s self,
        range: Range<usize>,
        i: usize,
        pick: impl for<'p> Fn((&'p [F], &'p [F])) -> &'p [F],
    ) -> f64 {
        match self {
            Parameters::Flat(theta, gradient) => pick((theta, gradient))[range.start + i].to_f64(),
            Parameters::Segments(list) => {
                // Segments follow each other without gaps.
                let mut start = 0;
                for (theta, gradient) in list.iter() {
                    if start == range.start {
                        return pick((theta, gradient))[i].to_f64();
                    }
                    start += theta.len();
                }
                f64::NAN
            }
        }
    }
    fn save(&self, into: &mut [F], target: &Target) {
        match self {
            Parameters::Flat(theta, _) => into.copy_from_slice(theta),
            Parameters::Segments(list) => {
                for ((theta, _), segment) in list.iter().zip(target.layout().segments()) {
                    into[segment.range()].copy_from_slice(theta);
                }
            }
        }
    }
    fn restore(&mut self, from: &[F], target: &Target) {
        match self {
            Parameters::Flat(theta, _) => theta.copy_from_slice(from),
            Parameters::Segments(list) => {
                for ((theta, _), segment) in list.iter_mut().zip(target.layout().segments()) {
                    theta.copy_from_slice(&from[segment.range()]);
                }
            }
        }
    }
}

/// A step in the making.
pub(crate) struct Moment<'a> {
    t: u64,
    target: &'a Target,
    /// From outside, and by how much it changed since the step before.
    lr_factor: f64,
    lr_ratio: f64,
}

impl Moment<'_> {
    fn of_segment(&self, i: usize) -> Context<'_> {
        let group = self.target.settings(i).lr_scale;
        let lr = LrScale { group, outside: self.lr_factor };
        Context { t: self.t, target: self.target, lr, lr_ratio: self.lr_ratio }
    }
}

/// Dynamics before their first step.
struct Start<'a> {
    algorithm: &'a Algorithm,
    target: &'a Target,
    seed: u64,
    chain: u32,
    first_segment: u32,
}

impl Start<'_> {
    /// The state vectors; those without a name are empty.
    fn vectors<F: Real>(&self, names: &[&str], lr_factor: f64) -> Result<Vec<Buffer<F>>> {
        let Start { algorithm, target, .. } = *self;
        let start = Stream::new(self.seed, self.chain, Purpose::Momenta);
        let mut state = Vec::with_capacity(names.len());
        for (k, name) in names.iter().enumerate() {
            if name.is_empty() {
                state.push(zeros(0));
                continue;
            }
            let mut vector: Buffer<F> = zeros(target.dim());
            for (i, segment) in target.layout().segments().iter().enumerate() {
                let group = target.settings(i).lr_scale;
                let lr = LrScale { group, outside: lr_factor };
                let part = &mut vector[segment.range()];
                match algorithm.initial(name, target.data_size(), lr)? {
                    Initial::Zero => {}
                    Initial::Value(x) => part.fill(F::from_f64(x)),
                    Initial::Normal { sd } => {
                        start.normals(k as u64, self.first_segment + i as u32, 0, part);
                        let sd = F::from_f64(sd);
                        part.iter_mut().for_each(|x| *x *= sd);
                    }
                }
                if let Some(x) = part.iter().find(|x| !x.is_finite()) {
                    let allowed = format!(
                        "the settings overflow {} at the start of segment `{}`",
                        F::NAME,
                        segment.name()
                    );
                    return Err(Error::setting(format!("state `{name}`"), x, allowed));
                }
            }
            state.push(vector);
        }
        Ok(state)
    }
}

/// What every kernel gets in a pass.
pub(crate) struct Common<'a, F> {
    preparation: &'a [Preparation<F>],
    stream: Stream,
    first_segment: u32,
    /// Which noise.
    draw: u64,
    arch: pulp::Arch,
}

/// A kernel behind one face, whatever its scalars and number of state vectors.
pub(crate) trait Rule<F: Real>: Send + Sync {
    /// Computes the scalars of step t for every segment.
    fn prepare(&mut self, moment: &Moment<'_>) -> Result<()>;
    fn run(
        &self,
        common: &Common<'_, F>,
        chunks: &[Chunk],
        base: usize,
        lanes: Lanes<'_, F>,
        outcomes: &mut [Outcome],
    );
    fn finish(&mut self, moment: &Moment<'_>, total: f64) -> Result<()>;
    fn carried(&self) -> Option<f64>;
    fn carry(&mut self, value: f64);
    fn duplicate(&self) -> Box<dyn Rule<F>>;
}

/// A kernel with the scalars of the present step, by segment.
pub(crate) struct Typed<F: Real, K: Kernel<F, S>, const S: usize> {
    kernel: K,
    scalars: Vec<K::Scalars>,
}

impl<F: Real, K: Kernel<F, S>, const S: usize> Typed<F, K, S> {
    pub fn new(kernel: K) -> Self {
        Typed { kernel, scalars: Vec::new() }
    }
}

impl<F, K, const S: usize> Rule<F> for Typed<F, K, S>
where
    F: Real,
    K: Kernel<F, S> + Clone + 'static,
    K::Scalars: 'static,
{
    fn prepare(&mut self, moment: &Moment<'_>) -> Result<()> {
        self.scalars.clear();
        for i in 0..moment.target.layout().segments().len() {
            self.scalars.push(self.kernel.scalars(&moment.of_segment(i))?);
        }
        Ok(())
    }

    fn run(
        &self,
        common: &Common<'_, F>,
        chunks: &[Chunk],
        base: usize,
        lanes: Lanes<'_, F>,
        outcomes: &mut [Outcome],
    ) {
        let pass = Pass {
            kernel: &self.kernel,
            scalars: &self.scalars,
            preparation: common.preparation,
            stream: common.stream,
            first_segment: common.first_segment,
            draw: common.draw,
            arch: common.arch,
        };
        pass.run(chunks, base, lanes, outcomes);
    }

    fn finish(&mut self, moment: &Moment<'_>, total: f64) -> Result<()> {
        self.kernel.finish(total, &moment.of_segment(0))
    }
    fn carried(&self) -> Option<f64> {
        self.kernel.carried()
    }
    fn carry(&mut self, value: f64) {
        self.kernel.carry(value);
    }
    fn duplicate(&self) -> Box<dyn Rule<F>> {
        Box::new(Typed { kernel: self.kernel.clone(), scalars: self.scalars.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::*;
    use crate::layout::Layout;
    use crate::target::{DataSize, Prior};
    use crate::units::{Integrator, Rate, StepSize};
    use crate::{InverseTemperature, Schedule};

    fn target(dim: usize) -> Target {
        let n = DataSize::new(50).unwrap();
        Target::new(Layout::flat(dim).unwrap(), n, Prior::gaussian(2.0)).unwrap()
    }

    fn algorithms() -> Vec<Algorithm> {
        let step = StepSize::heavy_ball(1e-2, 0.9);
        vec![
            Santa::new(1e-2, 20).into(),
            Santa::new(1e-2, 20).euler().into(),
            Santa { gradient_at: GradientAt::Start, smoothing: 0.4, ..Santa::new(1e-2, 20) }.into(),
            Santa::sampler(step.clone(), 5).into(),
            Santa {
                corrections: Corrections::On { guard: 0.1 },
                ..Santa::sampler(step.clone(), 9)
            }
            .into(),
            Sgld::new(Rate::lr(1e-2)).into(),
            Psgld { gamma: Gamma::On { guard: 0.1 }, ..Psgld::new(Rate::lr(1e-2)) }.into(),
            Sghmc::new(step.clone()).into(),
            Sgnht::new(step.clone()).into(),
            Msgnht::new(step).into(),
            Sgd::new(1e-2).momentum(0.9).nesterov().into(),
            Adagrad::new(1e-2).into(),
            Adadelta::new(1.0).into(),
            RmsProp { momentum: 0.5, ..RmsProp::new(1e-2) }.into(),
            Adam::new(1e-2).into(),
        ]
    }

    fn run<F: Real>(algorithm: &Algorithm, arch: pulp::Arch) -> Vec<F> {
        const DIM: usize = 700;
        let mut stepper: Stepper<F> = Stepper::new(algorithm.clone(), &target(DIM), 3, 0)
            .unwrap()
            .with_clip(Clip::Norm(5.0))
            .unwrap()
            .with_arch(arch);
        // The first step clips, the others run on the single loop where there is one.
        let mut theta: Vec<F> = (0..DIM).map(|i| F::from_f64((i as f64).sin() * 3.0)).collect();
        for _ in 0..20 {
            let gradient = theta.clone();
            stepper.step(&mut theta, &gradient).unwrap();
        }
        theta
    }

    /// Noise has this test of its own; here it is the arithmetic of every kernel and the norm.
    #[test]
    fn every_dynamics_has_the_same_bits_on_every_instruction_set() {
        for algorithm in algorithms() {
            let best = (
                run::<f32>(&algorithm, pulp::Arch::new()),
                run::<f64>(&algorithm, pulp::Arch::new()),
            );
            let mut others = vec![pulp::Arch::Scalar];
            #[cfg(target_arch = "x86_64")]
            others.extend(pulp::x86::V3::try_new().map(pulp::Arch::V3));
            for arch in others {
                let other = (run::<f32>(&algorithm, arch), run::<f64>(&algorithm, arch));
                assert!(best == other, "{} on {arch:?}", algorithm.name());
            }
        }
    }

    /// Where the data are silent the prior shrinks a parameter for ever; numbers that are slow to
    /// compute with must not come of it. Without a bound, RMSprop's v ends at the least of all numbers,
    /// which no factor above a half makes smaller.
    #[test]
    fn what_decays_ends_at_zero_and_not_among_the_subnormal_numbers() {
        const STEPS: usize = 20_000;
        for algorithm in algorithms() {
            let mut stepper: Stepper<f32> = Stepper::new(algorithm, &target(200), 3, 0).unwrap();
            let mut theta: Vec<f32> = (0..200).map(|i| (i as f32).sin() * 1e-3).collect();
            let silence = vec![0.0; theta.len()];
            for _ in 0..STEPS {
                stepper.step(&mut theta, &silence).unwrap();
            }
            let name = stepper.algorithm().name();
            let slow = |values: &[f32]| values.iter().filter(|x| x.is_subnormal()).count();
            assert_eq!(slow(&theta), 0, "{name}: theta");
            for (slot, values) in stepper.state() {
                assert_eq!(slow(values), 0, "{name}: {slot}");
            }
        }
        assert_eq!(f32::from_bits(1) * 0.9, f32::from_bits(1));
    }

    /// A table of exactly as many entries as there are parameters, over several segments.
    #[test]
    fn a_metric_sees_the_parameters_it_is_asked_about_and_no_others() {
        struct Table(Vec<f64>);
        impl SeparableMetric<f64> for Table {
            fn evaluate(&self, first: usize, theta: &[f64], g: &mut [f64], dg: &mut [f64]) {
                assert_eq!((g.len(), dg.len()), (theta.len(), theta.len()));
                g.copy_from_slice(&self.0[first..first + theta.len()]);
                dg.fill(0.0);
            }
        }
        let layout = Layout::new([("a", vec![5]), ("b", vec![130]), ("c", vec![1])]).unwrap();
        let target = Target::new(layout, DataSize::ONE, Prior::Flat).unwrap();
        let table: Vec<f64> = (0..136).map(|i| 1.0 + i as f64).collect();
        let descent = Santa {
            metric: Metric::Given,
            step: StepSize::heavy_ball(1e-3, 1e-9),
            ..Santa::default()
        };
        let given = Psgld { metric: PsgldMetric::Given, noiseless: true, ..Psgld::default() };
        for (algorithm, power) in [(Algorithm::from(descent), 2), (given.into(), 1)] {
            let metric = Arc::new(Table(table.clone()));
            let mut stepper = Stepper::with_metric(algorithm, &target, 1, 0, metric).unwrap();
            let mut theta = vec![0.0; 136];
            stepper.step(&mut theta, &[-1.0; 136]).unwrap();
            for (i, x) in theta.iter().enumerate() {
                let expected = table[i].powi(power) * 1e-3;
                assert!((x / expected - 1.0).abs() < 1e-6, "{i}: {x}");
            }
        }
    }

    /// A skipped gradient leaves no trace: the run is the one that never saw it.
    #[test]
    fn a_skipped_step_has_not_happened() {
        let settings = || Santa {
            step: StepSize::paper(Schedule::power(1e-3, 0.0, -0.6), 2.0),
            beta: InverseTemperature::posterior(),
            ..Santa::new(1e-2, 40)
        };
        for bad_at in [0, 5] {
            let policy = OnTrouble::Skip { at_most: 3 };
            let build =
                || settings().init::<f64>(&target(150), 1).unwrap().on_trouble(policy).unwrap();
            let (mut clean, mut spoiled) = (build(), build());
            let (mut a, mut b) = (vec![1.0; 150], vec![1.0; 150]);
            for t in 0..30 {
                if t == bad_at {
                    let outcome = spoiled.step(&mut b, &[f64::NAN; 150]).unwrap();
                    assert_eq!(outcome, StepOutcome::Skipped);
                }
                let gradient = a.clone();
                clean.step(&mut a, &gradient).unwrap();
                let gradient = b.clone();
                spoiled.step(&mut b, &gradient).unwrap();
                assert_eq!(a, b);
            }
            assert_eq!(clean.steps(), spoiled.steps());
        }
    }

    /// After a roll-back everything is as it was, the step's number included, but the noise is new;
    /// and a failure that comes back every time ends the run.
    #[test]
    fn a_roll_back_goes_back_in_time_with_new_noise() {
        let policy = OnTrouble::RollBack { every: 4, at_most: 2 };
        let new = Santa::new(Schedule::cosine(1e-2, 1e-3, 40), 40);
        let mut stepper: Stepper<f64> =
            new.init(&target(150), 1).unwrap().on_trouble(policy).unwrap();
        let mut theta = vec![1.0; 150];
        let mut after = Vec::new();
        let walk = |stepper: &mut Stepper<f64>, theta: &mut Vec<f64>, n: u64| {
            for _ in 0..n {
                let gradient = theta.clone();
                stepper.step(theta, &gradient).unwrap();
            }
            theta.clone()
        };
        let at_four = walk(&mut stepper, &mut theta, 4);
        after.push(walk(&mut stepper, &mut theta, 2));
        for _ in 0..2 {
            let outcome = stepper.step(&mut theta, &[f64::NAN; 150]).unwrap();
            assert_eq!(outcome, StepOutcome::RolledBack { to: 4 });
            assert_eq!((&theta, stepper.steps()), (&at_four, 4));
            after.push(walk(&mut stepper, &mut theta, 2));
        }
        assert!(after[0] != after[1] && after[1] != after[2] && after[0] != after[2]);
        let error = stepper.step(&mut theta, &[f64::NAN; 150]).unwrap_err();
        assert!(matches!(error, Error::GaveUp { failures: 3, .. }), "{error}");
    }

    #[test]
    fn clipping_by_value_does_not_hide_an_infinity() {
        let sgd = Sgd::new(1e-2).init::<f32>(&target(70), 1).unwrap();
        let mut stepper = sgd.with_clip(Clip::Value(1.0)).unwrap();
        let mut gradient = vec![5.0; 70];
        let mut theta = vec![0.0f32; 70];
        stepper.step(&mut theta, &gradient).unwrap();
        assert!(theta.iter().all(|x| *x == -1e-2), "clipped");
        gradient[69] = f32::NEG_INFINITY;
        let message = stepper.step(&mut theta, &gradient).unwrap_err().to_string();
        assert!(message.contains("the gradient is -inf"), "{message}");
    }

    /// What the friction and the vitals show in refinement is the friction that acts.
    #[test]
    fn a_friction_below_its_floor_is_raised_for_good_when_refinement_begins() {
        let settings = Santa {
            friction_floor: Some(1.0),
            integrator: Integrator::Splitting,
            exploration: Exploration::Steps(1),
            ..Santa::new(1e-2, 10)
        };
        let settings = Santa { bounds_while_exploring: false, ..settings };
        let mut stepper: Stepper<f64> = settings.init(&target(150), 1).unwrap();
        let mut theta = vec![1.0; 150];
        stepper.step(&mut theta, &[0.1; 150]).unwrap();
        stepper.state_vector_mut("alpha_shift").unwrap().fill(-9.0);
        stepper.step(&mut theta, &[0.1; 150]).unwrap();
        let alpha0 = stepper.physics(0).unwrap().unwrap().alpha0;
        assert!(stepper.friction().unwrap().unwrap().iter().all(|a| *a == alpha0));
        assert!(stepper.vitals(&theta, &[0.1; 150]).unwrap().warnings().is_empty());
    }

    /// A framework hands over one tensor at a time, and the learning rate with it.
    #[test]
    fn parts_with_a_rate_from_outside_move_as_the_whole_with_the_rate_in_its_settings() {
        const RATE: f64 = 1e-2;
        let n = DataSize::new(50).unwrap();
        let shapes = [("a", vec![130]), ("b", vec![70])];
        let layout = Layout::new(shapes.clone()).unwrap();
        let whole = Target::new(layout, n, Prior::gaussian(2.0)).unwrap();
        for algorithm in algorithms() {
            if algorithm.name() == "sgnht" {
                continue; // one thermostat for the whole, or one for each part
            }
            let algorithm = algorithm.with_lr(RATE);
            let mut together: Stepper<f32> = Stepper::new(algorithm.clone(), &whole, 3, 1).unwrap();
            let mut theta: Vec<f32> = (0..200).map(|i| (i as f32).sin()).collect();
            let mut apart = theta.clone();
            let mut parts: Vec<Stepper<f32>> = Vec::new();
            for (i, shape) in shapes.iter().enumerate() {
                let layout = Layout::new([shape.clone()]).unwrap();
                let target = Target::new(layout, n, Prior::gaussian(2.0)).unwrap();
                let unit = algorithm.clone().with_lr(1.0);
                let mut part = Stepper::of_part(unit, &target, 3, 1, i as u32).unwrap();
                part.set_lr_factor(RATE).unwrap();
                parts.push(part);
            }
            for t in 0..30 {
                let gradient = theta.clone();
                together.step(&mut theta, &gradient).unwrap();
                let gradient = apart.clone();
                let (a, b) = apart.split_at_mut(130);
                parts[0].step(a, &gradient[..130]).unwrap();
                parts[1].step(b, &gradient[130..]).unwrap();
                assert_eq!(theta, apart, "{} at {t}", together.algorithm().name());
                if t == 10 {
                    parts = parts.clone();
                }
                if t == 20 {
                    let position = parts[1].position().unwrap();
                    parts[1].set_lr_factor(7.0).unwrap();
                    if let Some(u) = parts[1].state_vector_mut("u") {
                        u.fill(0.5);
                    }
                    parts[1].go_to(position).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_rate_that_falls_outside_is_followed_as_one_that_falls_in_the_settings() {
        let falling = Schedule::BlockDecay { start: 1e-2, factor: 0.5, every: 10 };
        for algorithm in algorithms() {
            let (mut a, mut b) = (vec![1.0f64; 150], vec![1.0f64; 150]);
            let inside = algorithm.clone().with_lr(falling.clone());
            let mut inside: Stepper<f64> = Stepper::new(inside, &target(150), 3, 0).unwrap();
            let mut outside: Stepper<f64> =
                Stepper::new(algorithm.with_lr(1.0), &target(150), 3, 0).unwrap();
            for t in 1..=40 {
                outside.set_lr_factor(falling.at(t)).unwrap();
                let gradient = a.clone();
                inside.step(&mut a, &gradient).unwrap();
                let gradient = b.clone();
                outside.step(&mut b, &gradient).unwrap();
            }
            for (x, y) in a.iter().zip(&b) {
                assert!((x - y).abs() < 1e-10, "{}: {x} {y}", inside.algorithm().name());
            }
        }
    }

    #[test]
    fn a_rate_from_outside_is_refused_where_it_would_change_the_friction() {
        let paper = Santa { step: StepSize::paper(1e-4, 1.0), ..Santa::default() };
        let mut stepper: Stepper<f32> = paper.init(&target(3), 1).unwrap();
        assert!(stepper.set_lr_factor(1.0).is_ok());
        let message = stepper.set_lr_factor(0.5).unwrap_err().to_string();
        assert!(message.contains("lr_factor") && message.contains("practical"), "{message}");
        assert!(Adam::new(1e-3).init::<f32>(&target(3), 1).unwrap().set_lr_factor(0.0).is_err());
    }
}
