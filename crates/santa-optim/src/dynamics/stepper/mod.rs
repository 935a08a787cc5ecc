//! A dynamics at work: its settings, its state vectors, and the step.

mod parameters;
mod rule;
mod start;
#[cfg(test)]
mod tests;

pub(crate) use rule::{Rule, Typed};

use parameters::Parameters;
use rule::{Common, Moment};
use start::Start;

use super::engine::{Chunk, Lanes, MAX_SLOTS, Outcome, Preparation, chunks};
use super::saved::Position;
use super::{Algorithm, Physics, SeparableMetric, Stage};
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
