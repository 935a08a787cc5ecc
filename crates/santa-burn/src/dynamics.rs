//! Any dynamics as Burn's optimizer of one tensor.

use crate::error::{Error, Result};
use crate::memory;
use crate::state::{At, DynamicsState, in_order};
use burn::optim::{LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use santa::{Algorithm, DataSize, Layout, OnTrouble, Prior, StepSize, Stepper, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Santa, a sampler or an optimizer behind Burn's per-tensor
/// [`Optimizer`] trait, for a
/// [`ModuleOptimizer`](burn::optim::ModuleOptimizer) to apply to a module.
///
/// Built by [`SantaConfig::build`](crate::SantaConfig::build) and
/// [`DynamicsConfig::build`](crate::DynamicsConfig::build).
///
/// # The learning rate
///
/// is the one that Burn hands over with each step, constant or from a scheduler; the one in the
/// settings is not used. With 0 no step is made. Settings in the paper's units
/// ([`StepSize::Paper`]) keep their own $\eta$, on which their friction hangs, and want a learning
/// rate of 1 from Burn.
///
/// # The noise
///
/// The trait tells neither a parameter's path nor the global step, and a `ParamId` is random. So a
/// parameter gets the next free number when it makes its first step: for a
/// [`ModuleOptimizer`](burn::optim::ModuleOptimizer) that is the order of the module's fields. Two
/// runs from one seed have the same noise, and if every parameter has a gradient in the first step,
/// it is the noise of a [`ModuleStepper`](crate::ModuleStepper) and of a native
/// [`Stepper`]. Clones share the count, which is what groups of one
/// optimizer need; two models need two of these.
///
/// # A tensor at a time
///
/// Each parameter counts its own steps, and has what is global elsewhere for itself: SGNHT one
/// thermostat per tensor, gradient clipping one norm per tensor, [`OnTrouble::Skip`] skips one tensor.
///
/// # Panics
///
/// The trait's step returns no error. What the [`ModuleStepper`](crate::ModuleStepper) would return, a
/// NaN above all, is a panic here, with the same message.
#[derive(Clone, Debug)]
pub struct Dynamics {
    algorithm: Algorithm,
    data_size: DataSize,
    prior: Prior,
    seed: u64,
    chain: u32,
    on_trouble: OnTrouble,
    /// The next free number in the noise.
    segments: Arc<AtomicU32>,
}

impl Dynamics {
    pub(crate) fn new(
        algorithm: Algorithm,
        data_size: DataSize,
        prior: Prior,
        (seed, chain): (u64, u32),
        on_trouble: OnTrouble,
    ) -> Result<Self> {
        if let OnTrouble::RollBack { .. } = on_trouble {
            return Err(Error::Santa(santa::Error::Setting {
                field: "on_trouble".into(),
                value: "roll_back".into(),
                allowed: "an optimizer of single tensors cannot take them all back; use `stop`, \
                          `skip`, or a ModuleStepper"
                    .into(),
            }));
        }
        let algorithm = match algorithm.step_size() {
            Some(StepSize::Paper { .. }) => algorithm,
            _ => algorithm.with_lr(1.0),
        };
        let segments = Arc::new(AtomicU32::new(0));
        let dynamics =
            Dynamics { algorithm, data_size, prior, seed, chain, on_trouble, segments };
        // What cannot work is refused now, not at the first step.
        dynamics.stepper(vec![1], 0)?;
        Ok(dynamics)
    }

    /// The same for another group of the same model: another prior, the noise from the same count.
    ///
    /// ```
    /// use burn::module::ParamGroup;
    /// use burn::optim::ModuleOptimizer;
    /// use santa::Prior;
    /// use santa_burn::SantaConfig;
    ///
    /// let santa = SantaConfig::new().with_weight_decay(Some(1e-4)).build();
    /// let biases = santa.with_prior(Prior::Flat)?;
    /// let optimizer = ModuleOptimizer::from(santa)
    ///     .with_group(ParamGroup::from_predicate("bias"), biases, None);
    /// # let _ = optimizer;
    /// # Ok::<(), santa_burn::Error>(())
    /// ```
    pub fn with_prior(&self, prior: Prior) -> Result<Self> {
        let dynamics = Dynamics { prior, ..self.clone() };
        dynamics.stepper(vec![1], 0)?;
        Ok(dynamics)
    }

    /// The same for another group of the same model: other dynamics, the noise from the same count.
    pub fn with_algorithm(&self, algorithm: impl Into<Algorithm>) -> Result<Self> {
        let noise = (self.seed, self.chain);
        let other =
            Dynamics::new(algorithm.into(), self.data_size, self.prior, noise, self.on_trouble)?;
        Ok(Dynamics { segments: self.segments.clone(), ..other })
    }

    /// The settings.
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// The dynamics of one tensor.
    fn stepper(&self, shape: Vec<usize>, segment: u32) -> Result<Stepper<f32>> {
        let layout = Layout::new([(format!("parameter {segment}"), shape)])?;
        let target = Target::new(layout, self.data_size, self.prior)?;
        let stepper =
            Stepper::of_part(self.algorithm.clone(), &target, self.seed, self.chain, segment)?;
        Ok(stepper.on_trouble(self.on_trouble)?)
    }

    /// The state at work: new, or from a record.
    fn awake<const D: usize>(
        &self,
        state: Option<DynamicsState<D>>,
        shape: Vec<usize>,
    ) -> Result<(Box<Stepper<f32>>, u32)> {
        match state {
            Some(DynamicsState { at: At::Host(stepper), segment, .. }) => Ok((stepper, segment)),
            Some(DynamicsState { at: At::Loaded(position, _), segment, segments }) => {
                let handed_out = segments.load(Ordering::Relaxed).max(segment + 1);
                self.segments.fetch_max(handed_out, Ordering::Relaxed);
                let mut stepper = self.stepper(shape, segment)?;
                let position = in_order(position, &stepper);
                stepper.go_to(position)?;
                Ok((Box::new(stepper), segment))
            }
            None => {
                let segment = self.segments.fetch_add(1, Ordering::Relaxed);
                Ok((Box::new(self.stepper(shape, segment)?), segment))
            }
        }
    }

    /// [`Optimizer::step`] with errors instead of panics.
    pub fn try_step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<DynamicsState<D>>,
    ) -> Result<(Tensor<D>, Option<DynamicsState<D>>)> {
        if lr == 0.0 {
            return Ok((tensor, state));
        }
        let (device, shape) = (tensor.device(), tensor.dims().to_vec());
        let (mut stepper, segment) = self.awake(state, shape.clone())?;
        let name = || format!("parameter {segment} (of the shape {shape:?})");
        if gradient.dims() != tensor.dims() {
            let (parameter, gradient) = (name(), gradient.dims().to_vec());
            return Err(Error::Shape { parameter, shape, gradient });
        }
        stepper.set_lr_factor(lr)?;
        let gradient = memory::take_gradient(gradient, name)?;
        let mut theta = memory::take_parameter(tensor, name)?;
        stepper.step(memory::numbers_mut(&mut theta, name)?, memory::numbers(&gradient, name)?)?;
        let tensor = memory::give_back(theta, &device);
        let segments = self.segments.clone();
        Ok((tensor, Some(DynamicsState { at: At::Host(stepper), segment, segments })))
    }
}

impl Optimizer for Dynamics {
    type State<const D: usize> = DynamicsState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        self.try_step(lr, tensor, grad, state).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The state stays on the host.
    fn to_device<const D: usize>(state: Self::State<D>, _: &Device) -> Self::State<D> {
        state
    }
}
