//! Any dynamics as Burn's optimizer of one tensor.

use crate::device::DeviceDynamics;
use crate::error::{Error, Result};
use crate::memory;
use crate::state::{At, DynamicsState, in_order};
use burn::optim::{LearningRate, Optimizer};
use burn::tensor::{DType, Device, Tensor};
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
/// On the flex backend the library's kernel works on the tensor's memory. On other devices the same
/// dynamics run in tensor operations: [`device`](crate::device) says what travels and when a NaN is
/// noticed.
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
    tensor_operations: bool,
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
            let allowed = "an optimizer of single tensors cannot take them all back; use `stop`, \
                           `skip`, or a ModuleStepper";
            return Err(refused("roll_back", allowed));
        }
        let algorithm = match algorithm.step_size() {
            Some(StepSize::Paper { .. }) => algorithm,
            _ => algorithm.with_lr(1.0),
        };
        let segments = Arc::new(AtomicU32::new(0));
        let dynamics = Dynamics {
            algorithm,
            data_size,
            prior,
            seed,
            chain,
            on_trouble,
            segments,
            tensor_operations: false,
        };
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
        let tensor_operations = self.tensor_operations;
        Ok(Dynamics { segments: self.segments.clone(), tensor_operations, ..other })
    }

    /// The same in tensor operations on the host, too, as on every other device: the same numbers up to
    /// rounding, several times slower. For comparison.
    pub fn in_tensor_operations(mut self) -> Self {
        self.tensor_operations = true;
        self
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

    /// The state at work: as it was, from a record or another device, or new.
    fn awake<const D: usize>(
        &self,
        state: Option<DynamicsState<D>>,
        shape: Vec<usize>,
        device: &Device,
    ) -> Result<(At<D>, u32)> {
        let on_host = memory::is_host(device) && !self.tensor_operations;
        let (position, segment) = match state {
            Some(DynamicsState { at: at @ At::Host(_), segment, .. }) if on_host => {
                return Ok((at, segment));
            }
            Some(DynamicsState { at: At::Device(dynamics), segment, .. })
                if !on_host && *dynamics.device() == *device =>
            {
                return Ok((At::Device(dynamics), segment));
            }
            Some(state) => {
                let handed_out = state.segments.load(Ordering::Relaxed).max(state.segment + 1);
                self.segments.fetch_max(handed_out, Ordering::Relaxed);
                (Some(state.position()?), state.segment)
            }
            None => (None, self.segments.fetch_add(1, Ordering::Relaxed)),
        };
        let mut stepper = self.stepper(shape, segment)?;
        if let Some(position) = position {
            let position = in_order(position, &stepper);
            stepper.go_to(position)?;
        }
        if on_host {
            return Ok((At::Host(Box::new(stepper)), segment));
        }
        if self.on_trouble != OnTrouble::Stop {
            let allowed = "a device is not asked after each step whether all went well; use `stop`";
            return Err(refused("skip", allowed));
        }
        let (algorithm, target) = (self.algorithm.clone(), stepper.target());
        let (seed, chain) = (self.seed, self.chain);
        let mut dynamics = DeviceDynamics::new(algorithm, target, seed, chain, segment, device)?;
        dynamics.go_to(stepper.position()?)?;
        Ok((At::Device(Box::new(dynamics)), segment))
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
        let (mut at, segment) = self.awake(state, shape.clone(), &device)?;
        let name = || format!("parameter {segment} (of the shape {shape:?})");
        if tensor.dtype() != DType::F32 {
            return Err(Error::DType { parameter: name(), dtype: tensor.dtype() });
        }
        if gradient.dims() != tensor.dims() {
            let (parameter, gradient) = (name(), gradient.dims().to_vec());
            return Err(Error::Shape { parameter, shape, gradient });
        }
        let tensor = match &mut at {
            At::Device(dynamics) => {
                dynamics.set_lr_factor(lr)?;
                dynamics.step(tensor, gradient)?
            }
            At::Host(stepper) => {
                stepper.set_lr_factor(lr)?;
                let gradient = memory::take_gradient(gradient, name)?;
                let mut theta = memory::take_parameter(tensor, name)?;
                let numbers = memory::numbers_mut(&mut theta, name)?;
                stepper.step(numbers, memory::numbers(&gradient, name)?)?;
                memory::give_back(theta, &device)
            }
            At::Loaded(..) => unreachable!("a state that is awake is at work"),
        };
        Ok((tensor, Some(DynamicsState { at, segment, segments: self.segments.clone() })))
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

    /// Between devices the state moves at once, to the host and from it with the next step.
    fn to_device<const D: usize>(mut state: Self::State<D>, device: &Device) -> Self::State<D> {
        if let At::Device(dynamics) = state.at {
            state.at = At::Device(Box::new(dynamics.to_device(device)));
        }
        state
    }
}

fn refused(policy: &str, allowed: &str) -> Error {
    let (field, value) = ("on_trouble".into(), policy.into());
    Error::Santa(santa::Error::Setting { field, value, allowed: allowed.into() })
}
