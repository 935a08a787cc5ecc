//! What a run is doing, measured now and then: sizes, kinetic temperature, frictions.
//!
//! [`Stepper::vitals`] reads theta, the gradient and the state once and changes nothing. The kinetic
//! temperature tells whether the momenta are where they should be, and no more: a thermostat sees to
//! that even when the samples are wrong. The [`Thermometer`](crate::Thermometer) is the instrument
//! for those.

use crate::dynamics::engine::Chunk;
use crate::dynamics::{Algorithm, Stage, Stepper};
use crate::error::Result;
use crate::real::Real;
use crate::reduce::{SquaredDistance, SumOfSquares, each_chunk};
use crate::units::Integrator;
use serde::Serialize;

/// From this friction on Euler's factor of the momentum, $1 - \alpha$, no longer shrinks it.
const EULER_LIMIT: f64 = 2.0;

/// The state of a run after a step, of all moving parameters and of each moving segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Vitals {
    /// Steps made.
    pub step: u64,
    /// What the last step did.
    pub stage: Stage,
    /// The temperature that the last step was to have, $1/\beta_t$; 0 when it refined.
    pub temperature: f64,
    /// All moving parameters.
    pub overall: SegmentVitals,
    /// Each moving segment, in the layout's order.
    pub segments: Vec<SegmentVitals>,
}

/// The vitals of one segment, or of all. "RMS" is the root of the mean square over the parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SegmentVitals {
    /// The segment's name, `overall` for all.
    pub name: String,
    /// Moving parameters.
    pub dim: usize,
    /// RMS of theta.
    pub theta_rms: f64,
    /// RMS of the mean gradient as it was handed over: without the prior, not clipped.
    pub gradient_rms: f64,
    /// RMS of the change of theta, where [`Stepper::vitals_since`] was told what theta was before.
    pub update_rms: Option<f64>,
    /// Mean of $u^2/\eta$, for dynamics with a momentum u. Under the right law its expectation is
    /// the temperature, its relative standard deviation $\sqrt{2/\mathrm{dim}}$.
    pub kinetic_temperature: Option<f64>,
    /// The friction $\alpha$, for dynamics with a momentum u.
    pub friction: Option<FrictionVitals>,
}

/// Where the frictions $\alpha$ are, and how far they moved from $\alpha_0$.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FrictionVitals {
    /// Least.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: f64,
    /// Mean of $|\alpha - \alpha_0| / \alpha_0$.
    pub mean_change: f64,
    /// Largest $|\alpha - \alpha_0| / \alpha_0$.
    pub max_change: f64,
    /// How many have $\alpha \le 0$: momenta that are not damped.
    pub undamped: u64,
    /// How many have $\alpha \ge 2$ under Euler's scheme, which is unstable there. Always 0 for the
    /// splitting, which damps by $e^{-\alpha}$.
    pub overdamped: u64,
}

impl Vitals {
    /// What a person should know of, in sentences; empty when all is well.
    ///
    /// Names numbers that are not finite, and the segments whose frictions left the stable range.
    /// While exploring, a friction below zero is a legitimate excursion of the thermostat; in
    /// refinement it stays there, and its parameter runs away.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for s in &self.segments {
            let mut numbers = vec![("theta", s.theta_rms), ("the gradient", s.gradient_rms)];
            numbers.extend(s.kinetic_temperature.map(|t| ("the momentum", t)));
            numbers.extend(s.friction.map(|f| ("the friction", f.mean)));
            for (what, _) in numbers.iter().filter(|(_, x)| !x.is_finite()) {
                warnings.push(format!(
                    "segment `{}`: {what} has become infinite or NaN; \
                     lower the step size or clip the gradient",
                    s.name
                ));
            }
            let Some(friction) = &s.friction else { continue };
            let share = |count: u64| {
                let percent = 100.0 * count as f64 / s.dim as f64;
                format!("{count} of {} frictions ({percent:.2} %)", s.dim)
            };
            if friction.undamped > 0 {
                let consequence = match self.stage {
                    Stage::Exploring => {
                        "their momenta grow until the thermostat brings them back; if there are \
                         many, raise the friction or the thermostat's mass"
                    }
                    Stage::Refining => {
                        "their momenta are never damped and diverge; set a friction floor"
                    }
                };
                warnings.push(format!(
                    "segment `{}`: {} are at or below 0, the least is {:.3e}: {consequence}",
                    s.name,
                    share(friction.undamped),
                    friction.min
                ));
            }
            if friction.overdamped > 0 {
                warnings.push(format!(
                    "segment `{}`: {} are at or above {EULER_LIMIT}, the largest is {:.3e}: Euler's \
                     scheme is unstable there; lower the step size or the friction, set a friction \
                     ceiling, or use the splitting",
                    s.name,
                    share(friction.overdamped),
                    friction.max
                ));
            }
        }
        warnings
    }
}

impl<F: Real> Stepper<F> {
    /// The vitals after the last step: `theta` as it is now, and the mean gradient last handed over.
    ///
    /// One read of the vectors, about the cost of a step or less; nothing is changed.
    ///
    /// ```
    /// use santa::{DataSize, Layout, Prior, Santa, Target};
    ///
    /// let target = Target::new(Layout::flat(3)?, DataSize::new(1000)?, Prior::gaussian(1.0))?;
    /// let mut santa = Santa::new(1e-2, 1000).init::<f32>(&target, 42)?;
    /// let mut theta = [1.0f32, -2.0, 3.0];
    /// let mean_gradient = theta; // of sum(theta^2) / 2
    /// santa.step(&mut theta, &mean_gradient)?;
    /// let vitals = santa.vitals(&theta, &mean_gradient)?;
    /// assert!(vitals.warnings().is_empty());
    /// println!("{}", serde_json::to_string(&vitals).unwrap());
    /// # Ok::<(), santa::Error>(())
    /// ```
    pub fn vitals(&self, theta: &[F], mean_gradient: &[F]) -> Result<Vitals> {
        self.measure(None, theta, mean_gradient)
    }

    /// The same with the size of the update: how far theta is from `theta_before`, a copy from
    /// before the last step (or before as many steps as are of interest).
    ///
    /// A copy is the one measure that means the same for all dynamics. The momentum u would not do:
    /// a step moves theta by g u, and the metric g is not kept.
    pub fn vitals_since(
        &self,
        theta_before: &[F],
        theta: &[F],
        mean_gradient: &[F],
    ) -> Result<Vitals> {
        self.target().layout().check_len("theta before the step", theta_before.len())?;
        self.measure(Some(theta_before), theta, mean_gradient)
    }

    fn measure(&self, before: Option<&[F]>, theta: &[F], gradient: &[F]) -> Result<Vitals> {
        let target = self.target();
        target.layout().check_len("theta", theta.len())?;
        target.layout().check_len("the gradient", gradient.len())?;
        let momentum = self.state_vector("u");
        let shift = self.state_vector("alpha_shift");
        let euler = self.algorithm().integrator() == Some(Integrator::Euler);

        // What the sums of a segment need to know of it; None of dynamics without a momentum.
        let mut physics = Vec::with_capacity(target.layout().segments().len());
        for segment in 0..target.layout().segments().len() {
            physics.push(self.physics(segment)?);
        }
        let (arch, chunks) = (self.arch(), self.chunks());
        let one = |chunk: &Chunk| {
            let here = chunk.range.clone();
            let mut tally = Tally {
                dim: here.len() as f64,
                theta: arch.dispatch(SumOfSquares(&theta[here.clone()])),
                gradient: arch.dispatch(SumOfSquares(&gradient[here.clone()])),
                ..Tally::default()
            };
            if let Some(before) = before {
                let distance = SquaredDistance(&theta[here.clone()], &before[here.clone()]);
                tally.update = arch.dispatch(distance);
            }
            if let (Some(u), Some(p)) = (momentum, physics[chunk.segment as usize]) {
                tally.kinetic = arch.dispatch(SumOfSquares(&u[here.clone()])) / p.eta;
                let limit = if euler { EULER_LIMIT } else { f64::INFINITY };
                tally.friction = match shift {
                    Some(shift) => {
                        arch.dispatch(Frictions { shift: &shift[here], base: p.alpha0, limit })
                    }
                    // One friction for all: SGHMC's is constant, SGNHT carries it.
                    None => FrictionTally::constant(
                        p.eta.sqrt() * self.carried().unwrap_or(0.0),
                        here.len() as f64,
                        p.alpha0,
                        limit,
                    ),
                };
            }
            tally
        };
        let mut by_chunk = vec![Tally::default(); chunks.len()];
        each_chunk(chunks, &mut by_chunk, one);

        let describe = |name: &str, tally: &Tally| {
            // Nothing moves if every segment is frozen.
            let mean = |sum: f64| sum / tally.dim.max(1.0);
            let momentum = momentum.filter(|_| tally.dim > 0.0);
            let friction = &tally.friction;
            SegmentVitals {
                name: name.into(),
                dim: tally.dim as usize,
                theta_rms: mean(tally.theta).sqrt(),
                gradient_rms: mean(tally.gradient).sqrt(),
                update_rms: before.map(|_| mean(tally.update).sqrt()),
                kinetic_temperature: momentum.map(|_| mean(tally.kinetic)),
                friction: momentum.map(|_| FrictionVitals {
                    min: friction.min,
                    mean: mean(friction.sum),
                    max: friction.max,
                    mean_change: mean(friction.change),
                    max_change: friction.max_change,
                    undamped: friction.undamped as u64,
                    overdamped: friction.overdamped as u64,
                }),
            }
        };
        let mut segments = Vec::new();
        let mut overall = Tally::default();
        for (segment, mine) in target.layout().segments().iter().zip(self.chunks_by_segment()) {
            if mine.is_empty() {
                continue; // frozen
            }
            let mut tally = Tally::default();
            by_chunk[mine.clone()].iter().for_each(|part| tally.add(part));
            overall.add(&tally);
            segments.push(describe(segment.name(), &tally));
        }
        let last = self.steps().max(1);
        Ok(Vitals {
            step: self.steps(),
            stage: self.algorithm().stage(last)?,
            temperature: 1.0 / self.algorithm().beta(last)?,
            overall: describe("overall", &overall),
            segments,
        })
    }
}

impl Algorithm {
    /// The scheme of dynamics with a momentum.
    pub fn integrator(&self) -> Option<Integrator> {
        match self {
            Algorithm::Santa(s) => Some(s.integrator),
            Algorithm::Msgnht(s) => Some(s.integrator),
            Algorithm::Sghmc(_) | Algorithm::Sgnht(_) => Some(Integrator::Euler),
            _ => None,
        }
    }
}

/// Sums over some parameters. Counts are floats, exact below 2^53, to be summed in vector lanes.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    dim: f64,
    theta: f64,
    gradient: f64,
    update: f64,
    /// Already over $\eta$, which differs between segments.
    kinetic: f64,
    friction: FrictionTally,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.dim += other.dim;
        self.theta += other.theta;
        self.gradient += other.gradient;
        self.update += other.update;
        self.kinetic += other.kinetic;
        self.friction.add(&other.friction);
    }
}

#[derive(Clone, Copy, Debug)]
struct FrictionTally {
    min: f64,
    max: f64,
    sum: f64,
    /// Sum and maximum of the relative change.
    change: f64,
    max_change: f64,
    undamped: f64,
    overdamped: f64,
}

impl Default for FrictionTally {
    fn default() -> Self {
        FrictionTally {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: 0.0,
            change: 0.0,
            max_change: 0.0,
            undamped: 0.0,
            overdamped: 0.0,
        }
    }
}

impl FrictionTally {
    /// `dim` elements of the friction `base + shift`.
    fn constant(shift: f64, dim: f64, base: f64, limit: f64) -> Self {
        let alpha = base + shift;
        FrictionTally {
            min: alpha,
            max: alpha,
            sum: dim * alpha,
            change: dim * shift.abs() / base,
            max_change: shift.abs() / base,
            undamped: if alpha <= 0.0 { dim } else { 0.0 },
            overdamped: if alpha >= limit { dim } else { 0.0 },
        }
    }

    fn add(&mut self, other: &FrictionTally) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.change += other.change;
        self.max_change = self.max_change.max(other.max_change);
        self.undamped += other.undamped;
        self.overdamped += other.overdamped;
    }
}

/// The frictions `base + shift` of a chunk; from `limit` on they are unstable.
struct Frictions<'a, F> {
    shift: &'a [F],
    base: f64,
    limit: f64,
}

impl<F: Real> pulp::WithSimd for Frictions<'_, F> {
    type Output = FrictionTally;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> FrictionTally {
        /// Fewer than for plain sums: six accumulators share the registers.
        const LANES: usize = 16;
        let Frictions { shift, base, limit } = self;
        // alpha <= 0 and alpha >= limit, said of the shift.
        let (bottom, top) = (-base, limit - base);
        let mut min = [f64::INFINITY; LANES];
        let mut max = [f64::NEG_INFINITY; LANES];
        let mut sum = [0.0f64; LANES];
        let mut change = [0.0f64; LANES];
        let mut undamped = [0.0f64; LANES];
        let mut overdamped = [0.0f64; LANES];
        let mut take = |part: &[F; LANES], filled: usize| {
            for l in 0..filled {
                let x = part[l].to_f64();
                min[l] = if x < min[l] { x } else { min[l] };
                max[l] = if x > max[l] { x } else { max[l] };
                sum[l] += x;
                change[l] += x.abs();
                undamped[l] += if x <= bottom { 1.0 } else { 0.0 };
                overdamped[l] += if x >= top { 1.0 } else { 0.0 };
            }
        };
        let (whole, rest) = shift.as_chunks::<LANES>();
        for part in whole {
            take(part, LANES);
        }
        let mut last = [F::ZERO; LANES];
        last[..rest.len()].copy_from_slice(rest);
        take(&last, rest.len());

        let least = min.iter().fold(f64::INFINITY, |a, b| a.min(*b));
        let largest = max.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        FrictionTally {
            min: base + least,
            max: base + largest,
            sum: base * shift.len() as f64 + sum.iter().sum::<f64>(),
            change: change.iter().sum::<f64>() / base,
            max_change: largest.abs().max(least.abs()) / base,
            undamped: undamped.iter().sum(),
            overdamped: overdamped.iter().sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::{Exploration, InitialMomentum, Sgd, Sghmc, Sgnht};
    use crate::{DataSize, Group, InverseTemperature, Layout, Prior, Santa, StepSize, Target};

    const ETA: f64 = 0.01;
    const C: f64 = 2.0;

    /// Three parameters in `a`, two in `b` with four times the step, two frozen ones.
    fn target() -> Target {
        let layout = [("a", vec![3]), ("frozen", vec![2]), ("b", vec![2])];
        Target::new(Layout::new(layout).unwrap(), DataSize::new(10).unwrap(), Prior::Flat)
            .unwrap()
            .with_group(Group::new("frozen").frozen())
            .unwrap()
            .with_group(Group::new("b").lr_scale(4.0))
            .unwrap()
    }

    fn santa(exploration: Exploration) -> Santa {
        Santa { step: StepSize::paper(ETA, C), exploration, ..Santa::default() }
    }

    const THETA: [f64; 7] = [1.0, 2.0, 2.0, 100.0, f64::NAN, 3.0, 4.0];
    const GRADIENT: [f64; 7] = [0.0, 3.0, 0.0, 9.0, f64::NAN, 1.0, 1.0];

    fn close(x: f64, y: f64) -> bool {
        (x - y).abs() < 1e-12 * (1.0 + y.abs())
    }

    #[test]
    fn vitals_are_what_their_formulas_say() {
        let mut stepper = santa(Exploration::Always).init::<f64>(&target(), 1).unwrap();
        let u = [0.1, 0.2, -0.1, 7.0, 7.0, 0.2, 0.0];
        stepper.state_vector_mut("u").unwrap().copy_from_slice(&u);
        // alpha_0 is C sqrt(eta): 0.2 in `a`, 0.4 in `b`.
        let shift = [0.1, -0.3, 0.0, -7.0, -7.0, 0.2, 0.4];
        stepper.state_vector_mut("alpha_shift").unwrap().copy_from_slice(&shift);

        let mut before = THETA;
        before[0] += 0.3;
        let vitals = stepper.vitals_since(&before, &THETA, &GRADIENT).unwrap();
        let (all, a, b) = (&vitals.overall, &vitals.segments[0], &vitals.segments[1]);
        assert_eq!((vitals.step, vitals.stage, vitals.temperature), (0, Stage::Exploring, 1.0));
        assert_eq!((a.name.as_str(), b.name.as_str(), vitals.segments.len()), ("a", "b", 2));
        assert_eq!((all.dim, a.dim, b.dim), (5, 3, 2));
        assert!(close(a.theta_rms, 3f64.sqrt()) && close(all.theta_rms, (34.0f64 / 5.0).sqrt()));
        assert!(close(a.gradient_rms, 3f64.sqrt()) && close(b.gradient_rms, 1.0));
        assert!(close(a.update_rms.unwrap(), 0.03f64.sqrt()));
        assert!(b.update_rms == Some(0.0));
        assert!(close(all.update_rms.unwrap(), (0.09f64 / 5.0).sqrt()));
        // Means of u^2 / eta with eta 0.01 and 0.04.
        assert!(close(a.kinetic_temperature.unwrap(), 2.0));
        assert!(close(b.kinetic_temperature.unwrap(), 0.5));
        assert!(close(all.kinetic_temperature.unwrap(), 7.0 / 5.0));

        let (fa, fb, f) = (a.friction.unwrap(), b.friction.unwrap(), all.friction.unwrap());
        assert!(close(fa.min, -0.1) && close(fa.max, 0.3) && close(fa.mean, 0.4 / 3.0));
        assert!(close(fa.mean_change, 2.0 / 3.0) && close(fa.max_change, 1.5));
        assert!(close(fb.min, 0.6) && close(fb.max, 0.8) && close(fb.max_change, 1.0));
        assert!(close(f.min, -0.1) && close(f.max, 0.8) && close(f.mean, 1.8 / 5.0));
        assert!(close(f.mean_change, 3.5 / 5.0) && close(f.max_change, 1.5));
        assert_eq!((fa.undamped, fb.undamped, f.undamped, f.overdamped), (1, 0, 1, 0));

        let warnings = vitals.warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("`a`: 1 of 3 frictions"), "{}", warnings[0]);
        assert!(serde_json::to_string(&vitals).unwrap().contains("\"undamped\":1"));
        assert_eq!(stepper.vitals(&THETA, &GRADIENT).unwrap().segments[0].update_rms, None);
        assert!(stepper.vitals(&THETA[1..], &GRADIENT).is_err());
    }

    #[test]
    fn only_euler_minds_a_friction_of_two() {
        for (settings, overdamped) in
            [(santa(Exploration::Never).euler(), 2), (santa(Exploration::Never), 0)]
        {
            let mut stepper = settings.init::<f32>(&target(), 1).unwrap();
            let theta = [0.0; 7];
            stepper.state_vector_mut("alpha_shift").unwrap()[5..].fill(1.7);
            let vitals = stepper.vitals(&theta, &theta).unwrap();
            assert_eq!(vitals.overall.friction.unwrap().overdamped, overdamped);
            assert_eq!(vitals.stage, Stage::Refining);
            let warnings = vitals.warnings();
            assert_eq!(warnings.len(), usize::from(overdamped > 0));
            assert!(warnings.iter().all(|w| w.contains("`b`: 2 of 2") && w.contains("ceiling")));
        }
    }

    #[test]
    fn one_friction_for_all_is_reported_as_such() {
        let step = StepSize::paper(ETA, C);
        let mut sgnht = Sgnht::new(step.clone()).init::<f64>(&target(), 1).unwrap();
        let theta = [0.0; 7];
        let friction = |s: &Stepper<f64>| s.vitals(&theta, &theta).unwrap().segments[0].friction;
        assert!(close(friction(&sgnht).unwrap().mean, 0.2));
        let mut position = sgnht.position().unwrap();
        position.carried = Some(-3.0);
        position.step = 5;
        sgnht.go_to(position).unwrap();
        let moved = friction(&sgnht).unwrap(); // 0.2 - 3 sqrt(eta)
        assert!(close(moved.min, -0.1) && close(moved.max, -0.1) && close(moved.mean_change, 1.5));
        assert_eq!(moved.undamped, 3);
        let sghmc = Sghmc::new(step).init::<f64>(&target(), 1).unwrap();
        assert!(close(friction(&sghmc).unwrap().max, 0.2));
    }

    #[test]
    fn optimizers_have_sizes_only() {
        let sgd = Sgd::new(0.1).momentum(0.9).init::<f64>(&target(), 1).unwrap();
        let vitals = sgd.vitals(&THETA, &GRADIENT).unwrap();
        assert_eq!(vitals.overall.kinetic_temperature, None);
        assert_eq!(vitals.overall.friction, None);
        assert_eq!((vitals.temperature, vitals.stage), (0.0, Stage::Refining));
    }

    #[test]
    fn a_number_that_is_not_finite_is_named() {
        let stepper = santa(Exploration::Always).init::<f64>(&target(), 1).unwrap();
        let mut theta = [0.0; 7];
        theta[6] = f64::INFINITY;
        let warnings = stepper.vitals(&theta, &[0.0; 7]).unwrap().warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("`b`: theta"), "{warnings:?}");
    }

    #[test]
    fn a_target_that_is_frozen_altogether_has_vitals_of_nothing() {
        let target = target().with_group(Group::new("*").frozen()).unwrap();
        let stepper = santa(Exploration::Always).init::<f64>(&target, 1).unwrap();
        let vitals = stepper.vitals(&THETA, &GRADIENT).unwrap();
        assert!(vitals.segments.is_empty() && vitals.warnings().is_empty());
        assert_eq!((vitals.overall.dim, vitals.overall.theta_rms), (0, 0.0));
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        let target = Target::density(500_001).unwrap();
        let settings = Santa {
            beta: InverseTemperature::fixed(0.5),
            initial_momentum: InitialMomentum::Thermal,
            ..santa(Exploration::Always)
        };
        let stepper = settings.init::<f32>(&target, 1).unwrap();
        let theta = stepper.state_vector("u").unwrap().to_vec();
        let measure = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| stepper.vitals(&theta, &theta).unwrap())
        };
        let one = measure(1);
        assert_eq!(one, measure(2));
        assert_eq!(one, measure(5));
        // Momenta start with the law they are to have: temperature 2.
        let score = (one.overall.kinetic_temperature.unwrap() / 2.0 - 1.0)
            / (2.0 / target.dim() as f64).sqrt();
        assert!(score.abs() < 5.0, "z = {score}");
    }
}
