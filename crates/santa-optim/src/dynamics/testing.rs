//! What the tests of the dynamics share: cases to run, and the comparison of a fused kernel with a
//! reference that is written plainly, one element at a time.
//!
//! A [`Reference`] keeps theta and state in `f64`. [`follow`] runs a [`Stepper`] beside it: every
//! raw gradient is taken at the *stepper's* theta and given to both, so that rounding errors do not
//! feed back through the gradient, and both draw the same noise. The reference gets the mean gradient
//! of U as the kernels see it, clipped and completed by the prior, by arithmetic of this file's own.

use super::engine::MAX_SLOTS;
use super::{Algorithm, Stepper};
use crate::clip::Clip;
use crate::layout::Layout;
use crate::noise::{Purpose, Stream};
use crate::real::{BLOCK, Real};
use crate::schedule::Schedule;
use crate::target::{DataSize, Group, Prior, Target};
use crate::units::{Integrator, StepSize};

/// What rounding explains over the steps of a case, relative to the size of a vector's elements.
const TOLERANCE_F64: f64 = 1e-12;
const TOLERANCE_F32: f64 = 1e-5;

/// Something to run dynamics on.
pub(crate) struct Case {
    pub target: Target,
    pub clip: Clip,
    pub seed: u64,
    pub chain: u32,
    pub theta0: Vec<f64>,
    /// Mean gradient of the loss, without the prior: of step t, element i, at theta.
    pub gradient: fn(u64, usize, f64) -> f64,
    pub steps: u64,
}

/// One moving parameter at one step.
pub(crate) struct Element {
    /// Its place in the flat vector.
    pub i: usize,
    /// Factor of the learning rate.
    pub lr_scale: f64,
    /// Mean gradient of U: clipped, with the prior.
    pub f: f64,
    /// Its standard normal deviate.
    pub zeta: f64,
}

/// A plain implementation of some dynamics.
pub(crate) trait Reference {
    /// Makes step t.
    fn step(&mut self, t: u64, theta: &mut [f64], elements: &[Element]);
    /// A state vector by the stepper's name for it.
    fn state(&self, name: &str) -> Option<&[f64]>;
    /// The number that the stepper carries besides.
    fn carried(&self) -> Option<f64> {
        None
    }
}

/// What a reference starts from.
pub(crate) struct Start<'a> {
    pub case: &'a Case,
    /// Standard normal deviates for the state vectors that start with some, by slot.
    pub normals: Vec<Vec<f64>>,
}

impl Start<'_> {
    /// A state vector of zeros.
    pub fn zeros(&self) -> Vec<f64> {
        vec![0.0; self.case.theta0.len()]
    }
    /// N.
    pub fn n(&self) -> f64 {
        self.case.target.data_size().as_f64()
    }
    /// A state vector of normal deviates with a standard deviation for each learning-rate factor.
    pub fn normal(&self, slot: usize, sd: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut vector = self.normals[slot].clone();
        for (k, segment) in self.case.target.layout().segments().iter().enumerate() {
            let sd = sd(self.case.target.settings(k).lr_scale);
            vector[segment.range()].iter_mut().for_each(|x| *x *= sd);
        }
        vector
    }
}

/// Random settings, the same in every run.
pub(crate) struct Draw {
    stream: Stream,
    drawn: u32,
}

impl Draw {
    pub fn new(seed: u64) -> Self {
        Draw { stream: Stream::new(seed, 0, Purpose::Custom(0)), drawn: 0 }
    }
    /// Between two numbers.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        self.drawn += 1;
        low + (high - low) * self.stream.uniform(0, 0, self.drawn)
    }
    /// Between two positive numbers, evenly in the logarithm.
    pub fn log_between(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }
    /// One of a list.
    pub fn one_of<T: Clone>(&mut self, list: &[T]) -> T {
        self.drawn += 1;
        list[self.stream.below(0, 0, self.drawn, list.len() as u64) as usize].clone()
    }
    /// A value that changes with time or not.
    pub fn schedule(&mut self, low: f64, high: f64) -> Schedule {
        let start = self.log_between(low, high);
        self.one_of(&[Schedule::constant(start), Schedule::block_decay(start, 0.5, 2)])
    }
    /// Any kind of step size, small enough for the N of all [`cases`].
    pub fn step_size(&mut self) -> StepSize {
        let lr = self.schedule(1e-3, 1e-1);
        let eta = self.schedule(1e-5, 1e-3);
        let momentum = self.between(0.3, 0.95);
        let c = self.between(0.5, 5.0);
        self.one_of(&[
            StepSize::Practical { lr: lr.clone(), momentum },
            StepSize::HeavyBall { lr, momentum },
            StepSize::Paper { eta, c },
        ])
    }
}

/// $\eta$ and $\alpha_0$ of a step size, from the table in [`crate::units`].
pub(crate) fn eta_and_alpha0(
    step: &StepSize,
    integrator: Integrator,
    t: u64,
    n: f64,
    lr_scale: f64,
) -> (f64, f64) {
    let splitting = integrator == Integrator::Splitting;
    match step {
        StepSize::Paper { eta, c } => {
            let eta = lr_scale * eta.at(t);
            (eta, c * eta.sqrt())
        }
        StepSize::Practical { lr, momentum } => {
            let alpha0 = if splitting { (1.0 / momentum).ln() } else { 1.0 - momentum };
            // e^(a/2) - e^(-a/2)
            let k = if splitting { (1.0 - momentum) / momentum.sqrt() } else { 1.0 - momentum };
            (lr_scale * lr.at(t) * k / n, alpha0)
        }
        StepSize::HeavyBall { lr, momentum } => {
            let alpha0 = if splitting { (1.0 / momentum).ln() } else { 1.0 - momentum };
            let k = if splitting { 1.0 / momentum.sqrt() } else { 1.0 };
            (lr_scale * lr.at(t) * k / n, alpha0)
        }
    }
}

/// A gradient that is neither linear nor the same for two elements or steps, and that starts well
/// away from zero.
fn bumpy(t: u64, i: usize, theta: f64) -> f64 {
    let phase = i as f64;
    let curvature = 1.0 + 0.5 * phase.sin();
    curvature * theta + 0.4 * (2.0 * theta + phase).sin() + 0.2 * (phase + 3.0 * t as f64).cos()
}

/// Cases for every kernel: lengths round the size of a block, N of one and more, every clip; each
/// with a Gaussian and a Laplace prior, a learning-rate factor and a frozen segment.
pub(crate) fn cases() -> Vec<Case> {
    const FROZEN: usize = 3;
    const STEPS: u64 = 6;
    let mut list = Vec::new();
    for len in [1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 1000] {
        for clip in [Clip::Off, Clip::Value(0.7), Clip::Norm(0.8), Clip::RescaleNorm(5.0)] {
            let seed = list.len() as u64;
            let mut draw = Draw::new(seed);
            let n = DataSize::new(draw.one_of(&[1, 50])).unwrap();
            let layout =
                Layout::new([("w", vec![len]), ("still", vec![FROZEN]), ("b", vec![len])]).unwrap();
            let ridge = Prior::gaussian(draw.between(0.05, 0.5) * n.as_f64());
            let lasso = Prior::laplace(draw.between(2.0, 9.0) / n.as_f64());
            let target = Target::new(layout, n, ridge)
                .unwrap()
                .with_group(Group::new("b").prior(lasso).lr_scale(1.7))
                .unwrap()
                .with_group(Group::new("still").frozen())
                .unwrap();
            let theta0 = (0..target.dim())
                .map(|_| draw.between(0.5, 2.0) * draw.one_of(&[-1.0, 1.0]))
                .collect();
            let chain = seed as u32 % 2;
            list.push(Case { target, clip, seed, chain, theta0, gradient: bumpy, steps: STEPS });
        }
    }
    list
}

impl Case {
    fn start<F: Real>(&self) -> Start<'_> {
        let stream = Stream::new(self.seed, self.chain, Purpose::Momenta);
        let normals = (0..MAX_SLOTS).map(|slot| self.normals::<F>(&stream, slot as u64)).collect();
        Start { case: self, normals }
    }

    fn normals<F: Real>(&self, stream: &Stream, step: u64) -> Vec<f64> {
        let mut all = Vec::with_capacity(self.theta0.len());
        for (k, segment) in self.target.layout().segments().iter().enumerate() {
            let mut part = vec![F::ZERO; segment.range().len()];
            stream.normals(step, k as u32, 0, &mut part);
            all.extend(part.into_iter().map(F::to_f64));
        }
        all
    }

    /// The moving parameters of a step, from the raw gradient at theta.
    fn elements<F: Real>(&self, t: u64, theta: &[F], raw: &[F]) -> Vec<Element> {
        let zeta = self.normals::<F>(&Stream::new(self.seed, self.chain, Purpose::Dynamics), t);
        let mut elements = Vec::new();
        for (k, segment) in self.target.layout().segments().iter().enumerate() {
            let settings = self.target.settings(k);
            if settings.frozen {
                continue;
            }
            for i in segment.range() {
                let (f, lr_scale) = (raw[i].to_f64(), settings.lr_scale);
                elements.push((Element { i, lr_scale, f, zeta: zeta[i] }, settings.prior));
            }
        }
        let norm = elements.iter().map(|(e, _)| e.f * e.f).sum::<f64>().sqrt();
        let n = self.target.data_size().as_f64();
        let finish = |(mut e, prior): (Element, Prior)| {
            e.f = match self.clip {
                Clip::Off => e.f,
                Clip::Value(limit) => e.f.clamp(-limit, limit),
                Clip::Norm(limit) => e.f * (limit / norm).min(1.0),
                Clip::RescaleNorm(length) => e.f * length / norm,
            };
            let x = theta[e.i].to_f64();
            e.f += match prior {
                Prior::Flat => 0.0,
                Prior::Gaussian { precision } => precision * x / n,
                Prior::Laplace { scale } => x.signum() / scale / n,
            };
            e
        };
        elements.into_iter().map(finish).collect()
    }

    fn label(&self) -> String {
        format!("{} parameters, clip {:?}", self.theta0.len(), self.clip)
    }
}

/// Runs a stepper beside a reference; an error names the first number in which they part.
pub(crate) fn follow<F: Real>(
    case: &Case,
    stepper: Stepper<F>,
    reference: impl FnOnce(&Start<'_>) -> Box<dyn Reference>,
) -> Result<(), String> {
    let tolerance = if size_of::<F>() == size_of::<f64>() { TOLERANCE_F64 } else { TOLERANCE_F32 };
    let mut stepper = stepper.with_clip(case.clip).unwrap();
    let mut reference = reference(&case.start::<F>());
    let mut theta: Vec<F> = case.theta0.iter().map(|x| F::from_f64(*x)).collect();
    let start = theta.clone();
    let mut expected: Vec<f64> = theta.iter().map(|x| x.to_f64()).collect();
    let moving: Vec<usize> = case.elements(1, &theta, &theta).iter().map(|e| e.i).collect();
    // Elements may pass through zero: errors are counted from the largest size seen.
    let mut sizes = [0.0f64; MAX_SLOTS + 1];
    let mut compare = |k: usize, what: &str, t: u64, found: &[F], expected: &[f64]| {
        let square = moving.iter().map(|i| expected[*i].powi(2)).sum::<f64>();
        sizes[k] = sizes[k].max((square / moving.len() as f64).sqrt());
        for &i in &moving {
            let (x, y) = (found[i].to_f64(), expected[i]);
            let error = (x - y).abs() / y.abs().max(sizes[k]).max(f64::MIN_POSITIVE);
            if error.is_nan() || error > tolerance {
                return Err(format!("{}: {what}[{i}] at step {t}: {x}, not {y}", case.label()));
            }
        }
        Ok(())
    };
    for t in 1..=case.steps {
        let raw: Vec<F> = theta
            .iter()
            .enumerate()
            .map(|(i, x)| F::from_f64((case.gradient)(t, i, x.to_f64())))
            .collect();
        let elements = case.elements(t, &theta, &raw);
        stepper.step(&mut theta, &raw).unwrap();
        reference.step(t, &mut expected, &elements);
        compare(0, "theta", t, &theta, &expected)?;
        for (k, (name, vector)) in stepper.state().enumerate() {
            let Some(expected) = reference.state(name) else {
                return Err(format!("the reference has no state `{name}`"));
            };
            compare(k + 1, name, t, vector, expected)?;
        }
        if let Some(x) = stepper.carried() {
            let y = reference.carried().unwrap_or(f64::NAN);
            let error = (x - y).abs() / y.abs().max(1.0);
            if error.is_nan() || error > tolerance {
                return Err(format!("{}: carried at step {t}: {x}, not {y}", case.label()));
            }
        }
        for i in (0..theta.len()).filter(|i| !moving.contains(i)) {
            assert!(theta[i] == start[i], "a frozen parameter moved at step {t}");
        }
    }
    Ok(())
}

/// Whether dynamics with random settings follow their reference on all [`cases`], in both
/// precisions.
pub(crate) fn follows<A, R>(
    settings: impl Fn(&mut Draw) -> A,
    reference: impl Fn(&A, &Start<'_>) -> R,
) -> Result<(), String>
where
    A: Into<Algorithm> + Clone + std::fmt::Debug,
    R: Reference + 'static,
{
    /// Settings drawn for each case.
    const DRAWS: u64 = 4;
    fn one<F: Real, R: Reference + 'static>(
        case: &Case,
        algorithm: Algorithm,
        reference: impl Fn(&Start<'_>) -> R,
    ) -> Result<(), String> {
        let stepper = Stepper::<F>::new(algorithm, &case.target, case.seed, case.chain).unwrap();
        follow(case, stepper, |start| Box::new(reference(start)))
            .map_err(|e| format!("{}: {e}", std::any::type_name::<F>()))
    }
    for case in cases() {
        for k in 0..DRAWS {
            let settings = settings(&mut Draw::new(1000 + DRAWS * case.seed + k));
            let reference = |start: &Start<'_>| reference(&settings, start);
            one::<f64, R>(&case, settings.clone().into(), reference)
                .and_then(|()| one::<f32, R>(&case, settings.clone().into(), reference))
                .map_err(|e| format!("{settings:?}: {e}"))?;
        }
    }
    Ok(())
}
