//! A chain: a potential, dynamics, and the parameters they move.

mod saved;

use crate::dynamics::{Buffer, Stage, StepOutcome, Stepper, zeros};
use crate::error::{Error, Result};
use crate::health::OnTrouble;
use crate::minibatch::{Minibatches, Sampling};
use crate::potential::{Batch, Potential};
use crate::real::Real;
use crate::target::{DataSize, Target};
use crate::thermometer::Thermometer;
use std::ops::ControlFlow;

/// A run in one piece: draws a batch, computes the gradient, makes the step.
///
/// Sampling a density takes a function and a few lines:
///
/// ```
/// use santa::dynamics::Sgld;
/// use santa::potential::from_fn;
/// use santa::{Chain, Potential, Rate, Sampling};
///
/// let normal = from_fn(1, |theta: &[f64], gradient: &mut [f64]| {
///     gradient[0] = theta[0];
///     0.5 * theta[0] * theta[0]
/// })?;
/// let stepper = Sgld::new(Rate::eta(0.1)).init(normal.target(), 42)?;
/// let mut chain = Chain::new(normal, stepper, vec![3.0], Sampling::Full, 1)?;
/// chain.advance(1_000)?;
/// assert!(chain.theta()[0].abs() < 6.0);
/// # Ok::<(), santa::Error>(())
/// ```
///
/// The stepper's seed and chain also choose the batches and whatever the potential draws, so a run
/// is a function of its settings and its seed. A step allocates nothing, unless the potential does.
pub struct Chain<F: Real, P: Potential<F>> {
    potential: P,
    stepper: Stepper<F>,
    theta: Buffer<F>,
    gradient: Buffer<F>,
    minibatches: Minibatches,
    last_loss: Option<f64>,
}

/// What an observer sees after a step.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a, F> {
    /// The step just made, counted from 1.
    pub step: u64,
    /// What became of it.
    pub outcome: StepOutcome,
    /// Mean loss over the batch, at the parameters before the step, without the prior.
    pub loss: f64,
    /// Exploring or refining in this step.
    pub stage: Stage,
    /// The temperature of this step; 0 when it refined.
    pub temperature: f64,
    /// The epoch of the next batch, from 0.
    pub epoch: u64,
    /// The parameters after the step.
    pub theta: &'a [F],
}

impl<F: Real, P: Potential<F>> Chain<F, P> {
    /// A chain from `theta0`, with batches of `batch_size`. A potential that is no sum over data
    /// (N = 1) is always evaluated in full.
    pub fn new(
        potential: P,
        stepper: Stepper<F>,
        theta0: Vec<F>,
        sampling: Sampling,
        batch_size: usize,
    ) -> Result<Self> {
        let n = potential.target().data_size();
        let sampling = if n == DataSize::ONE { Sampling::Full } else { sampling };
        let (seed, chain) = (stepper.seed(), stepper.chain());
        let minibatches = Minibatches::new(n, batch_size, sampling, seed, chain)?;
        Self::with_minibatches(potential, stepper, theta0, minibatches)
    }

    /// The same with batches of your own making (another seed, or `drop_last`).
    pub fn with_minibatches(
        potential: P,
        stepper: Stepper<F>,
        theta0: Vec<F>,
        minibatches: Minibatches,
    ) -> Result<Self> {
        let target = potential.target();
        check_start(target, &stepper, &theta0)?;
        if minibatches.data_size() != target.data_size() {
            return Err(Error::setting(
                "minibatches.data_size",
                minibatches.data_size().get(),
                format!("the potential has N = {}", target.data_size().get()),
            ));
        }
        let gradient = zeros(theta0.len());
        let mut theta = zeros(theta0.len());
        theta.copy_from_slice(&theta0);
        Ok(Chain { potential, stepper, theta, gradient, minibatches, last_loss: None })
    }

    /// Begins another chain on the same potential: other dynamics, from step 0 and other parameters,
    /// with batches that the seed and the chain of `stepper` choose, as [`Chain::new`] makes them. What
    /// does not fit is refused, and the chain goes on as it was.
    ///
    /// Some chains one after the other explore more of a posterior than a long one does: each has
    /// starting values of its own.
    ///
    /// ```
    /// use santa::potential::analytic::DoubleWell;
    /// use santa::{Chain, Potential, Sampling, Santa, StepSize, Stepper};
    ///
    /// let well = DoubleWell::new(1)?;
    /// let santa = Santa::sampler(StepSize::paper(0.01, 1.0), 100);
    /// let stepper = |chain| Stepper::new(santa.clone(), DoubleWell::new(1)?.target(), 7, chain);
    /// let mut chain = Chain::new(well, stepper(0)?, vec![2.0f64], Sampling::Full, 1)?;
    /// chain.advance(300)?;
    /// chain.restart(stepper(1)?, vec![-3.0])?;
    /// assert_eq!((chain.steps(), chain.theta()), (0, &[-3.0][..]));
    /// # Ok::<(), santa::Error>(())
    /// ```
    pub fn restart(&mut self, stepper: Stepper<F>, theta0: Vec<F>) -> Result<()> {
        let target = self.potential.target();
        check_start(target, &stepper, &theta0)?;
        let (batch_size, sampling) = (self.minibatches.batch_size(), self.minibatches.sampling());
        let (seed, chain) = (stepper.seed(), stepper.chain());
        let n = target.data_size();
        self.minibatches = Minibatches::new(n, batch_size, sampling, seed, chain)?;
        self.stepper = stepper;
        self.theta.copy_from_slice(&theta0);
        self.gradient.fill(F::ZERO);
        self.last_loss = None;
        Ok(())
    }

    /// Makes `steps` steps.
    pub fn advance(&mut self, steps: u64) -> Result<()> {
        (0..steps).try_for_each(|_| self.step().map(|_| ()))
    }

    /// Makes `steps` steps and shows each to `observer`, which may end the walk early by
    /// [`ControlFlow::Break`].
    ///
    /// ```
    /// # use santa::{Chain, Sampling, dynamics::Sgd, potential::analytic::DoubleWell};
    /// use std::ops::ControlFlow;
    ///
    /// # let well = DoubleWell::new(1)?;
    /// # let stepper = Sgd::new(0.1).init(well.target(), 0)?;
    /// # let mut chain = Chain::new(well, stepper, vec![4.0f64], Sampling::Full, 1)?;
    /// let flow = chain.advance_with(10_000, |progress| match progress.loss < -0.86 {
    ///     true => ControlFlow::Break(progress.step),
    ///     false => ControlFlow::Continue(()),
    /// })?;
    /// assert!(matches!(flow, ControlFlow::Break(step) if step < 100));
    /// # Ok::<(), santa::Error>(())
    /// ```
    pub fn advance_with<B>(
        &mut self,
        steps: u64,
        mut observer: impl FnMut(&Progress<'_, F>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>> {
        for _ in 0..steps {
            let stage = self.stepper.stage()?;
            let temperature = self.stepper.temperature()?;
            let (outcome, loss) = self.step()?;
            let progress = Progress {
                step: self.stepper.steps(),
                outcome,
                loss,
                stage,
                temperature,
                epoch: self.minibatches.epoch(),
                theta: &self.theta,
            };
            if let ControlFlow::Break(value) = observer(&progress) {
                return Ok(ControlFlow::Break(value));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Makes `steps` steps and lets the thermometer observe every `every`-th of them: the parameters
    /// and their gradient as they go into the step, at no extra gradient.
    pub fn advance_measuring(
        &mut self,
        steps: u64,
        every: u64,
        thermometer: &mut Thermometer<F>,
    ) -> Result<()> {
        if every == 0 {
            return Err(Error::setting("every", every, "it must be at least 1"));
        }
        for _ in 0..steps {
            let due = (self.stepper.steps() + 1).is_multiple_of(every);
            // What the thermometer refuses is the business of the stepper's policy, if it has one.
            let lenient = self.stepper.trouble_policy() != OnTrouble::Stop;
            self.step_observed(|theta, gradient| {
                match due.then(|| thermometer.observe(theta, gradient)) {
                    None => Ok(()),
                    Some(Err(_)) if lenient => Ok(()),
                    Some(outcome) => outcome,
                }
            })?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(StepOutcome, f64)> {
        self.step_observed(|_, _| Ok(()))
    }

    /// A step whose parameters and gradient are shown before it is made.
    fn step_observed(
        &mut self,
        show: impl FnOnce(&[F], &[F]) -> Result<()>,
    ) -> Result<(StepOutcome, f64)> {
        let position = self.minibatches.position();
        let result = self.try_step(show);
        if result.is_err() {
            // The batch has not been used.
            self.minibatches.seek(position);
        }
        result
    }

    fn try_step(
        &mut self,
        show: impl FnOnce(&[F], &[F]) -> Result<()>,
    ) -> Result<(StepOutcome, f64)> {
        let everything = self.minibatches.sampling() == Sampling::Full;
        let indices = self.minibatches.next();
        let batch = if everything { Batch::full() } else { Batch::of(indices) }
            .seeded(self.stepper.seed(), self.stepper.chain())
            .at_step(self.stepper.steps() + 1);
        let loss = self.potential.loss_gradient(&self.theta, &batch, &mut self.gradient)?;
        if !loss.is_finite() {
            if self.stepper.trouble_policy() == OnTrouble::Stop {
                let (what, segment) = ("the loss".into(), "all".into());
                let step = self.stepper.steps() + 1;
                return Err(Error::NotFinite { what, segment, index: 0, value: loss, step });
            }
            // Such a loss has no gradient, whatever was computed; the policy is the stepper's.
            self.gradient.fill(F::from_f64(f64::NAN));
        }
        self.last_loss = Some(loss);
        show(&self.theta, &self.gradient)?;
        let outcome = self.stepper.step(&mut self.theta, &self.gradient)?;
        Ok((outcome, loss))
    }

    /// The parameters.
    pub fn theta(&self) -> &[F] {
        &self.theta
    }
    /// The parameters, to change: for exact starts and for experiments.
    pub fn theta_mut(&mut self) -> &mut [F] {
        &mut self.theta
    }
    /// The mean gradient of the last step's batch, without the prior; zeros before the first, and
    /// NaN where the loss was not finite.
    pub fn gradient(&self) -> &[F] {
        &self.gradient
    }
    /// The mean loss of the last step's batch, once there is one.
    pub fn last_loss(&self) -> Option<f64> {
        self.last_loss
    }
    /// Steps made so far.
    pub fn steps(&self) -> u64 {
        self.stepper.steps()
    }
    /// The dynamics.
    pub fn stepper(&self) -> &Stepper<F> {
        &self.stepper
    }
    /// The dynamics, to change.
    pub fn stepper_mut(&mut self) -> &mut Stepper<F> {
        &mut self.stepper
    }
    /// The potential.
    pub fn potential(&self) -> &P {
        &self.potential
    }
    /// The potential, to change or to evaluate elsewhere.
    pub fn potential_mut(&mut self) -> &mut P {
        &mut self.potential
    }
    /// The present parameters and the potential, to evaluate the one with the other.
    pub fn theta_and_potential(&mut self) -> (&[F], &mut P) {
        (&self.theta, &mut self.potential)
    }
    /// The batches.
    pub fn minibatches(&self) -> &Minibatches {
        &self.minibatches
    }
    /// U at the present parameters, over all data and with the prior.
    pub fn energy(&mut self) -> Result<f64> {
        self.potential.energy(&self.theta)
    }
    /// Takes the chain apart: the potential, the dynamics and the parameters.
    pub fn into_parts(self) -> (P, Stepper<F>, Vec<F>) {
        let theta = self.theta.to_vec();
        (self.potential, self.stepper, theta)
    }
}

/// Refuses dynamics and parameters that are not those of a target.
fn check_start<F: Real>(target: &Target, stepper: &Stepper<F>, theta0: &[F]) -> Result<()> {
    if target != stepper.target() {
        return Err(Error::Structure(
            "the stepper was built for another target than the potential's; \
             hand `potential.target()` to its `init`"
                .into(),
        ));
    }
    target.layout().check_len("theta", theta0.len())?;
    match theta0.iter().position(|x| !x.is_finite()) {
        Some(i) => Err(Error::setting(format!("theta0[{i}]"), theta0[i], "it must be finite")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::{Sgd, Sgld};
    use crate::noise::{Purpose, Stream};
    use crate::potential::ControlVariate;
    use crate::potential::analytic::{Gaussian, LinearRegression};
    use crate::stats::Moments;
    use crate::units::Rate;

    const N: usize = 100;
    const DIM: usize = 3;

    fn model() -> LinearRegression {
        let stream = Stream::new(7, 0, Purpose::Data);
        LinearRegression::synthetic(N, DIM, 1.0, 1.0, &stream).unwrap().0
    }

    fn chain<P: Potential<f64>>(potential: P, chain: u32) -> Chain<f64, P> {
        let stepper = Stepper::new(Sgld::new(Rate::eta(1e-3)), potential.target(), 5, chain);
        let theta0 = vec![0.0; DIM];
        Chain::new(potential, stepper.unwrap(), theta0, Sampling::ShuffledEpochs, 10).unwrap()
    }

    #[test]
    fn a_chain_is_batches_gradients_and_steps_by_hand() {
        let mut chain = chain(model(), 2);
        chain.advance(25).unwrap();

        let mut model = model();
        let algorithm = Sgld::new(Rate::eta(1e-3));
        let mut stepper = Stepper::<f64>::new(algorithm, model.target(), 5, 2).unwrap();
        let n = model.target().data_size();
        let mut batches = Minibatches::new(n, 10, Sampling::ShuffledEpochs, 5, 2).unwrap();
        let (mut theta, mut gradient) = ([0.0; DIM], [0.0; DIM]);
        let mut loss = 0.0;
        for _ in 0..25 {
            let batch = Batch::of(batches.next());
            loss = model.loss_gradient(&theta, &batch, &mut gradient).unwrap();
            stepper.step(&mut theta, &gradient).unwrap();
        }
        assert_eq!(chain.theta(), theta);
        assert_eq!(chain.gradient(), gradient);
        assert_eq!(chain.last_loss(), Some(loss));
        assert_eq!((chain.steps(), chain.minibatches().position()), (25, 25));
        assert_eq!(chain.theta().as_ptr() as usize % 64, 0);
    }

    /// Gradient descent on all data ends at the posterior's mean, which is its mode.
    #[test]
    fn descent_finds_the_posterior_mean() {
        let model = model();
        let (mean, _) = model.posterior().unwrap();
        let stepper = Sgd::new(0.5).init(model.target(), 0).unwrap();
        let mut chain = Chain::new(model, stepper, vec![0.0f64; DIM], Sampling::Full, N).unwrap();
        chain.advance(200).unwrap();
        for (x, m) in chain.theta().iter().zip(mean) {
            assert!((x - m).abs() < 1e-9, "{x} {m}");
        }
    }

    /// SGLD's variance on $U = x^2 / 2$ is exactly $1/(1 - \eta/2)$; one vector holds many chains.
    #[test]
    fn a_chain_samples_a_density() {
        const COPIES: usize = 20_000;
        let eta = 0.2;
        let gaussian = Gaussian::diagonal(&[1.0; COPIES]).unwrap();
        let stepper = Sgld::new(Rate::eta(eta)).init::<f32>(gaussian.target(), 3).unwrap();
        let mut chain =
            Chain::new(gaussian, stepper, vec![0.0; COPIES], Sampling::ShuffledEpochs, 1).unwrap();
        chain.advance(100).unwrap();
        let moments: Moments = chain.theta().iter().map(|x| f64::from(*x)).collect();
        let score = |variance: f64| {
            (moments.variance() - variance) / (variance * (2.0 / COPIES as f64).sqrt())
        };
        assert!(score(1.0 / (1.0 - eta / 2.0)).abs() < 5.0, "{}", moments.variance());
        // Negative control: without the discretisation's error it would be 1.
        assert!(score(1.0).abs() > 5.0);
    }

    #[test]
    fn a_chain_that_began_anew_is_one_of_its_own() {
        let mut long = chain(model(), 0);
        long.advance(13).unwrap();
        let target = model().target().clone();
        let stepper =
            |target: &Target| Stepper::new(Sgld::new(Rate::eta(1e-3)), target, 5, 1).unwrap();
        // What does not fit changes nothing.
        let other = Target::density(DIM).unwrap();
        assert!(long.restart(stepper(&other), vec![0.0; DIM]).is_err());
        assert!(long.restart(stepper(&target), vec![0.0; DIM + 1]).is_err());
        assert!(long.restart(stepper(&target), vec![f64::NAN; DIM]).is_err());
        assert_eq!(long.steps(), 13);

        long.restart(stepper(&target), vec![0.0; DIM]).unwrap();
        assert_eq!((long.steps(), long.last_loss()), (0, None));
        assert_eq!(long.gradient(), [0.0; DIM]);
        let mut own = chain(model(), 1);
        long.advance(25).unwrap();
        own.advance(25).unwrap();
        assert_eq!(long.theta(), own.theta());
        assert_eq!(long.minibatches().position(), 25);
        // Negative control: another chain has other noise and other batches.
        let mut first = chain(model(), 0);
        first.advance(25).unwrap();
        assert_ne!(long.theta(), first.theta());
    }

    #[test]
    fn an_observer_sees_every_step_and_may_stop() {
        let mut watched = chain(model(), 0);
        let mut plain = chain(model(), 0);
        plain.advance(13).unwrap();
        let mut seen = Vec::new();
        let flow = watched
            .advance_with(100, |p| {
                seen.push((p.step, p.epoch));
                assert!(p.loss.is_finite() && p.temperature == 1.0);
                assert_eq!((p.stage, p.outcome), (Stage::Exploring, StepOutcome::Applied));
                if p.step == 13 {
                    ControlFlow::Break(p.theta.to_vec())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        assert_eq!(flow, ControlFlow::Break(plain.theta().to_vec()));
        assert_eq!(seen.len(), 13);
        assert_eq!((seen[0], seen[12]), ((1, 0), (13, 1)));
    }

    #[test]
    fn measuring_shows_what_goes_into_the_step_and_changes_nothing() {
        let (mut measured, mut plain) = (chain(model(), 0), chain(model(), 0));
        let target = model().target().clone();
        let mut thermometer = Thermometer::new(&target, &[0.5; DIM]).unwrap();
        let mut by_hand = thermometer.clone();
        measured.advance_measuring(25, 10, &mut thermometer).unwrap();
        for _ in 0..2 {
            plain.advance(9).unwrap();
            let before = plain.theta().to_vec();
            plain.advance(1).unwrap();
            by_hand.observe(&before, plain.gradient()).unwrap();
        }
        plain.advance(5).unwrap();
        assert_eq!(measured.theta(), plain.theta());
        assert_eq!(thermometer.observations(), 2);
        assert_eq!(thermometer.temperature(), by_hand.temperature());
        assert!(measured.advance_measuring(1, 0, &mut thermometer).is_err());
    }

    #[test]
    fn a_control_variate_follows_the_steps_of_the_chain() {
        let mut chain = chain(ControlVariate::new(model(), 10).unwrap(), 0);
        chain.advance(10).unwrap();
        assert_eq!(chain.potential().anchor().unwrap(), [0.0; DIM]);
        chain.advance(1).unwrap();
        assert_ne!(chain.potential().anchor().unwrap(), [0.0; DIM]);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let build = |target: &Target, theta0: Vec<f64>, batch: usize| {
            let stepper = Sgd::new(0.1).init(target, 0).unwrap();
            Chain::new(model(), stepper, theta0, Sampling::ShuffledEpochs, batch)
                .map(|_| ())
                .map_err(|e| e.to_string())
        };
        let target = model().target().clone();
        assert!(build(&target, vec![0.0; DIM], 10).is_ok());
        let other = Target::density(DIM).unwrap();
        assert!(build(&other, vec![0.0; DIM], 10).unwrap_err().contains("another target"));
        assert!(build(&target, vec![0.0; DIM + 1], 10).unwrap_err().contains("theta"));
        assert!(build(&target, vec![f64::NAN; DIM], 10).unwrap_err().contains("theta0[0]"));
        assert!(build(&target, vec![0.0; DIM], 0).unwrap_err().contains("batch_size"));
        let model = model();
        let stepper = Sgd::new(0.1).init::<f64>(&target, 0).unwrap();
        let n = DataSize::new(7).unwrap();
        let batches = Minibatches::new(n, 7, Sampling::Full, 0, 0).unwrap();
        assert!(Chain::with_minibatches(model, stepper, vec![0.0; DIM], batches).is_err());
    }

    /// Its loss is not finite at some calls of it, and its gradient always is.
    struct Flawed {
        inner: LinearRegression,
        calls: u64,
        bad: fn(u64) -> bool,
    }

    impl Potential<f64> for Flawed {
        fn target(&self) -> &Target {
            self.inner.target()
        }
        fn loss_gradient(
            &mut self,
            theta: &[f64],
            batch: &Batch<'_>,
            gradient: &mut [f64],
        ) -> Result<f64> {
            self.calls += 1;
            let loss = self.inner.loss_gradient(theta, batch, gradient)?;
            Ok(if (self.bad)(self.calls) { f64::INFINITY } else { loss })
        }
    }

    fn flawed(policy: OnTrouble, bad: fn(u64) -> bool) -> Chain<f64, Flawed> {
        let flawed = Flawed { inner: model(), calls: 0, bad };
        let stepper = Sgld::new(Rate::eta(1e-3)).init(flawed.target(), 5).unwrap();
        let stepper = stepper.on_trouble(policy).unwrap();
        Chain::new(flawed, stepper, vec![0.0; DIM], Sampling::ShuffledEpochs, 10).unwrap()
    }

    fn outcomes(chain: &mut Chain<f64, Flawed>, steps: u64) -> Vec<StepOutcome> {
        let mut seen = Vec::new();
        let flow: ControlFlow<()> = chain
            .advance_with(steps, |progress| {
                seen.push(progress.outcome);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(flow.is_continue());
        seen
    }

    #[test]
    fn a_loss_that_is_not_finite_is_trouble_whatever_its_gradient() {
        use StepOutcome::{Applied, RolledBack, Skipped};
        let third = |call| call == 3;
        let error = flawed(OnTrouble::Stop, third).advance(3).unwrap_err().to_string();
        assert!(error.contains("the loss is inf") && error.contains("step 3"), "{error}");

        let mut skipping = flawed(OnTrouble::Skip { at_most: 1 }, third);
        assert_eq!(outcomes(&mut skipping, 5), [Applied, Applied, Skipped, Applied, Applied]);
        assert_eq!((skipping.steps(), skipping.minibatches().position()), (4, 5));
        let mut back = flawed(OnTrouble::RollBack { every: 2, at_most: 1 }, |call| call == 4);
        let expected = [Applied, Applied, Applied, RolledBack { to: 2 }, Applied];
        assert_eq!(outcomes(&mut back, 5), expected);
        assert_eq!(back.steps(), 3);

        let mut hopeless = flawed(OnTrouble::Skip { at_most: 2 }, |call| call > 1);
        let error = hopeless.advance(9).unwrap_err();
        assert!(matches!(error, Error::GaveUp { failures: 3, .. }), "{error}");
        assert_eq!(hopeless.steps(), 1);
        assert!(hopeless.theta().iter().all(|x| x.is_finite()));
    }

    #[test]
    fn a_failed_gradient_leaves_the_chain_where_it_was() {
        let target = model().target().clone();
        struct Moody(LinearRegression, bool);
        impl Potential<f64> for Moody {
            fn target(&self) -> &Target {
                self.0.target()
            }
            fn loss_gradient(
                &mut self,
                theta: &[f64],
                batch: &Batch<'_>,
                gradient: &mut [f64],
            ) -> Result<f64> {
                if self.1 {
                    return Err(Error::Structure("not today".into()));
                }
                self.0.loss_gradient(theta, batch, gradient)
            }
        }
        let stepper = Stepper::new(Sgld::new(Rate::eta(1e-3)), &target, 5, 0).unwrap();
        let (moody, sampling) = (Moody(model(), false), Sampling::ShuffledEpochs);
        let mut broken = Chain::new(moody, stepper, vec![0.0; DIM], sampling, 10).unwrap();
        broken.advance(4).unwrap();
        broken.potential_mut().1 = true;
        assert!(broken.advance(1).is_err());
        broken.potential_mut().1 = false;
        broken.advance(4).unwrap();
        let mut whole = chain(model(), 0);
        whole.advance(8).unwrap();
        assert_eq!(broken.theta(), whole.theta());
    }
}
