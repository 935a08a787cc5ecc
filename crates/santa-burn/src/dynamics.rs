//! Any dynamics as Burn's optimizer of one tensor.

use crate::device::DeviceDynamics;
use crate::error::{Error, Result};
use crate::memory;
use crate::state::{At, DynamicsState, in_order};
use burn::optim::{LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use santa::dynamics::Position;
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
/// # Devices
///
/// On the flex backend the library's fused kernel works on the tensor's own memory
/// ([`memory`]). Elsewhere the same update is made in tensor operations, and the state
/// lives on the device ([`device`](crate::device)).
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
    /// Whether the fused kernels work where they can.
    kernels: bool,
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
        let kernels = true;
        let dynamics =
            Dynamics { algorithm, data_size, prior, seed, chain, on_trouble, segments, kernels };
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
        Ok(Dynamics { segments: self.segments.clone(), kernels: self.kernels, ..other })
    }

    /// The settings.
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// The same in tensor operations also where the fused kernel could work: to compare the two.
    pub fn in_tensor_operations(self) -> Self {
        Dynamics { kernels: false, ..self }
    }

    /// What the dynamics of one tensor are for.
    fn target(&self, shape: Vec<usize>, segment: u32) -> Result<Target> {
        let layout = Layout::new([(format!("parameter {segment}"), shape)])?;
        Ok(Target::new(layout, self.data_size, self.prior)?)
    }

    /// The dynamics of one tensor on the host.
    fn stepper(&self, shape: Vec<usize>, segment: u32) -> Result<Stepper<f32>> {
        let target = self.target(shape, segment)?;
        let stepper =
            Stepper::of_part(self.algorithm.clone(), &target, self.seed, self.chain, segment)?;
        Ok(stepper.on_trouble(self.on_trouble)?)
    }

    /// Where a state is that is to go on elsewhere, and which noise it has.
    fn origin<const D: usize>(
        &self,
        state: Option<DynamicsState<D>>,
    ) -> Result<(Option<Position<f32>>, u32)> {
        let Some(state) = state else {
            return Ok((None, self.segments.fetch_add(1, Ordering::Relaxed)));
        };
        let segment = state.segment;
        let handed_out = state.segments.load(Ordering::Relaxed).max(segment + 1);
        self.segments.fetch_max(handed_out, Ordering::Relaxed);
        Ok((Some(state.position()?), segment))
    }

    /// The state at work on the host: new, from a record, or from a device.
    fn on_host<const D: usize>(
        &self,
        state: Option<DynamicsState<D>>,
        shape: &[usize],
    ) -> Result<(Box<Stepper<f32>>, u32)> {
        if let Some(DynamicsState { at: At::Host(stepper), segment, .. }) = state {
            return Ok((stepper, segment));
        }
        let (position, segment) = self.origin(state)?;
        let mut stepper = self.stepper(shape.to_vec(), segment)?;
        if let Some(position) = position {
            let names: Vec<_> = stepper.state().map(|(name, _)| name).collect();
            stepper.go_to(in_order(position, &names))?;
        }
        Ok((Box::new(stepper), segment))
    }

    /// The state at work on a device: new, from a record, from the host, or from another device.
    fn on_device<const D: usize>(
        &self,
        state: Option<DynamicsState<D>>,
        shape: &[usize],
        device: &Device,
    ) -> Result<(Box<DeviceDynamics<D>>, u32)> {
        if let OnTrouble::Skip { .. } = self.on_trouble {
            return Err(Error::Santa(santa::Error::Setting {
                field: "on_trouble".into(),
                value: "skip".into(),
                allowed: "on a device a NaN is noticed only after the step; use `stop`".into(),
            }));
        }
        let state = match state {
            Some(DynamicsState { at: At::Device(dynamics), segment, .. })
                if dynamics.device() == device =>
            {
                return Ok((dynamics, segment));
            }
            other => other,
        };
        let (position, segment) = self.origin(state)?;
        let target = self.target(shape.to_vec(), segment)?;
        let (algorithm, seed, chain) = (self.algorithm.clone(), self.seed, self.chain);
        let mut dynamics = DeviceDynamics::new(algorithm, &target, seed, chain, segment, device)?;
        if let Some(position) = position {
            let names: Vec<_> = dynamics.state_names().collect();
            let position = in_order(position, &names);
            dynamics.go_to(position)?;
        }
        Ok((Box::new(dynamics), segment))
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
        if gradient.dims() != tensor.dims() {
            let parameter = format!("a parameter of the shape {shape:?}");
            let gradient = gradient.dims().to_vec();
            return Err(Error::Shape { parameter, shape, gradient });
        }
        let (tensor, at, segment) = if self.kernels && memory::is_host(&device) {
            let (mut stepper, segment) = self.on_host(state, &shape)?;
            let name = || format!("parameter {segment} (of the shape {shape:?})");
            stepper.set_lr_factor(lr)?;
            let gradient = memory::take_gradient(gradient, name)?;
            let mut theta = memory::take_parameter(tensor, name)?;
            let numbers = memory::numbers_mut(&mut theta, name)?;
            stepper.step(numbers, memory::numbers(&gradient, name)?)?;
            (memory::give_back(theta, &device), At::Host(stepper), segment)
        } else {
            let inner = device.clone().inner();
            let (mut dynamics, segment) = self.on_device(state, &shape, &inner)?;
            dynamics.set_lr_factor(lr)?;
            (dynamics.step(tensor, gradient)?, At::Device(dynamics), segment)
        };
        let segments = self.segments.clone();
        Ok((tensor, Some(DynamicsState { at, segment, segments })))
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

    /// The state goes where its tensor is when it is next needed.
    fn to_device<const D: usize>(state: Self::State<D>, _: &Device) -> Self::State<D> {
        state
    }
}
