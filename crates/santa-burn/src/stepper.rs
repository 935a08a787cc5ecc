//! Dynamics of a whole module, which know every parameter's path and the global step.

use crate::error::{Error, Result};
use crate::memory;
use crate::walk::{self, Gathered, Taken};
use burn::config::Config;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::TensorData;
use santa::{
    Algorithm, Checkpoint, Clip, DataSize, Group, Layout, OnTrouble, Prior, StepOutcome, Stepper,
    Target, Vitals,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a parameter without a gradient is taken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// A mistake.
    #[default]
    Refuse,
    /// A parameter that this step's loss does not depend on: prior and noise move it.
    Zero,
}

/// Settings of a [`ModuleStepper`].
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::Device;
/// use santa::{Clip, Group, Prior, Santa};
/// use santa_burn::StepperConfig;
///
/// let model = LinearConfig::new(784, 10).init(&Device::flex().autodiff());
/// let stepper = StepperConfig::new(Santa::new(1e-3, 10_000))
///     .with_data_size(60_000)
///     .with_prior(Prior::gaussian(1.0))
///     .with_group(Group::new("*bias").prior(Prior::Flat))
///     .with_clip(Clip::Norm(5.0))
///     .with_seed(42)
///     .init(&model)?;
/// assert_eq!(stepper.stepper().target().layout().segments()[0].name(), "weight");
/// # Ok::<(), santa_burn::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepperConfig {
    /// The dynamics, with their learning rate and its schedule.
    pub algorithm: Algorithm,
    /// N, the number of training data.
    pub data_size: u64,
    /// The prior.
    pub prior: Prior,
    /// What is different for some paths.
    pub groups: Vec<Group>,
    /// Clipping of the whole gradient.
    pub clip: Clip,
    /// What to do about a NaN.
    pub on_trouble: OnTrouble,
    /// What to do about a gradient that is not there.
    pub missing: Missing,
    /// Chooses the noise.
    pub seed: u64,
    /// Chooses the noise among those of a seed, for several chains.
    pub chain: u32,
}

impl Config for StepperConfig {}

impl StepperConfig {
    /// N = 1 and no prior until told otherwise.
    pub fn new(algorithm: impl Into<Algorithm>) -> Self {
        StepperConfig {
            algorithm: algorithm.into(),
            data_size: 1,
            prior: Prior::Flat,
            groups: Vec::new(),
            clip: Clip::Off,
            on_trouble: OnTrouble::Stop,
            missing: Missing::Refuse,
            seed: 0,
            chain: 0,
        }
    }
    /// Sets N.
    pub fn with_data_size(mut self, n: u64) -> Self {
        self.data_size = n;
        self
    }
    /// Sets the prior; [`Prior::from_weight_decay`] makes one of a weight decay.
    pub fn with_prior(mut self, prior: Prior) -> Self {
        self.prior = prior;
        self
    }
    /// Adds a group of parameters by their paths, such as `conv1.weight`. Later groups win.
    pub fn with_group(mut self, group: Group) -> Self {
        self.groups.push(group);
        self
    }
    /// Sets the clipping, of the gradient of all moving parameters together.
    pub fn with_clip(mut self, clip: Clip) -> Self {
        self.clip = clip;
        self
    }
    /// Sets what is done about a NaN.
    pub fn with_on_trouble(mut self, policy: OnTrouble) -> Self {
        self.on_trouble = policy;
        self
    }
    /// Sets what is done about a missing gradient.
    pub fn with_missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }
    /// Sets the seed.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
    /// Sets the chain.
    pub fn with_chain(mut self, chain: u32) -> Self {
        self.chain = chain;
        self
    }

    /// The dynamics of a module. Parameters that do not require a gradient are frozen.
    pub fn init<M: Module>(&self, module: &M) -> Result<ModuleStepper> {
        let described = walk::describe(module);
        if !described.iter().any(|p| p.requires_grad) {
            return Err(Error::Module(
                "no parameter of the module requires a gradient; make it on a device with \
                 autodiff: Device::flex().autodiff()"
                    .into(),
            ));
        }
        let layout = Layout::new(described.iter().map(|p| (p.path.clone(), p.shape.clone())))?;
        let mut target = Target::new(layout, DataSize::new(self.data_size)?, self.prior)?;
        for group in &self.groups {
            target = target.with_group(group.clone())?;
        }
        for parameter in described.iter().filter(|p| !p.requires_grad) {
            target = target.with_group(Group::new(parameter.path.clone()).frozen())?;
        }
        let stepper = Stepper::new(self.algorithm.clone(), &target, self.seed, self.chain)?
            .with_clip(self.clip)?
            .on_trouble(self.on_trouble)?;
        let still: Vec<_> = (target.layout().segments().iter().enumerate())
            .filter(|(i, _)| target.settings(*i).frozen)
            .map(|(_, segment)| segment.range().len())
            .collect();
        Ok(ModuleStepper {
            stepper,
            missing: self.missing,
            still_theta: vec![0.0; still.iter().sum()],
            still_gradient: vec![0.0; still.iter().copied().max().unwrap_or(0)],
        })
    }
}

/// Dynamics of a whole module: a native [`Stepper`] whose segments are the module's parameters, by
/// their paths.
///
/// Built by [`StepperConfig::init`]. Compared with a
/// [`ModuleOptimizer`](burn::optim::ModuleOptimizer) of [`Dynamics`](crate::Dynamics): errors are
/// returned, a norm is clipped over all parameters, [`OnTrouble::RollBack`] takes all of them back,
/// SGNHT has its one thermostat, and on the same values the steps are bit for bit the native ones.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::GradientsParams;
/// use burn::tensor::{Device, Tensor};
/// use santa::Santa;
/// use santa_burn::StepperConfig;
///
/// let device = Device::flex().autodiff();
/// let mut model = LinearConfig::new(3, 1).init(&device);
/// let mut stepper =
///     StepperConfig::new(Santa::new(1e-2, 100)).with_data_size(50).init(&model)?;
/// for _ in 0..10 {
///     let x = Tensor::<2>::ones([4, 3], &device);
///     let loss = (model.forward(x) - 1.0).square().mean();
///     let grads = GradientsParams::from_grads(loss.backward(), &model);
///     stepper.step(&mut model, grads)?;
/// }
/// assert_eq!(stepper.stepper().steps(), 10);
/// # Ok::<(), santa_burn::Error>(())
/// ```
///
/// On the flex backend the kernel works on the parameters' own memory. On other devices parameters
/// and gradients travel to the host and back with every step.
#[derive(Clone)]
pub struct ModuleStepper {
    stepper: Stepper<f32>,
    missing: Missing,
    /// Stand for the frozen parameters, which the kernel does not touch.
    still_theta: Vec<f32>,
    still_gradient: Vec<f32>,
}

impl ModuleStepper {
    /// Moves the module's parameters by one step. `grads` are those of the mean loss over the batch,
    /// without the prior.
    ///
    /// The module is whole afterwards, with or without an error. A refused module or gradient has
    /// changed nothing; after a NaN the parameters are as [`OnTrouble`] says.
    pub fn step<M: Module>(
        &mut self,
        module: &mut M,
        grads: GradientsParams,
    ) -> Result<StepOutcome> {
        let target = self.stepper.target();
        let missing_is_zero = self.missing == Missing::Zero;
        let Gathered { gradients, remote } =
            walk::gather(module, target, grads, missing_is_zero)?;
        let mut taken = walk::take(module, target, remote);
        let outcome = self.advance(&mut taken, &gradients);
        walk::put(module, taken);
        outcome
    }

    fn advance(
        &mut self,
        taken: &mut Taken,
        gradients: &[Option<TensorData>],
    ) -> Result<StepOutcome> {
        let ModuleStepper { stepper, still_theta, still_gradient, .. } = self;
        let mut still = still_theta.as_mut_slice();
        let mut list: Vec<(&mut [f32], &[f32])> = Vec::with_capacity(gradients.len());
        let parameters = taken.theta.iter_mut().zip(gradients);
        for ((theta, gradient), segment) in parameters.zip(stepper.target().layout().segments()) {
            let name = || format!("`{}`", segment.name());
            list.push(match (theta, gradient) {
                (Some(theta), Some(gradient)) => {
                    (memory::numbers_mut(theta, name)?, memory::numbers(gradient, name)?)
                }
                _ => {
                    let len = segment.range().len();
                    let (mine, rest) = still.split_at_mut(len);
                    still = rest;
                    (mine, &still_gradient[..len])
                }
            });
        }
        Ok(stepper.step_segments(&mut list)?)
    }

    /// Multiplies the learning rate of the settings from the next step on, for a scheduler of Burn.
    /// With a learning rate of 1 in the settings ([`Algorithm::with_lr`]) this *is* the learning rate.
    pub fn set_lr_factor(&mut self, factor: f64) -> Result<()> {
        Ok(self.stepper.set_lr_factor(factor)?)
    }

    /// The native dynamics: steps made, stage, temperature, state vectors, target.
    pub fn stepper(&self) -> &Stepper<f32> {
        &self.stepper
    }

    /// All parameters of the module as one vector in the layout's order.
    pub fn theta<M: Module>(&self, module: &M) -> Result<Vec<f32>> {
        let theta = walk::flatten(module)?;
        if theta.len() != self.stepper.target().dim() {
            return Err(Error::Module(format!(
                "the module has {} numbers, these dynamics were built for {}; build them for this \
                 module",
                theta.len(),
                self.stepper.target().dim()
            )));
        }
        Ok(theta)
    }

    /// What the run is doing, for a look now and then: frictions, kinetic temperature, sizes. Copies
    /// parameters and gradients.
    pub fn vitals<M: Module>(&self, module: &M, grads: &GradientsParams) -> Result<Vitals> {
        let target = self.stepper.target();
        let gathered = walk::gather(module, target, grads, self.missing == Missing::Zero)?;
        let mut gradient = vec![0.0; target.dim()];
        for (data, segment) in gathered.gradients.iter().zip(target.layout().segments()) {
            if let Some(data) = data {
                let numbers = memory::numbers(data, || format!("`{}`", segment.name()))?;
                gradient[segment.range()].copy_from_slice(numbers);
            }
        }
        Ok(self.stepper.vitals(&self.theta(module)?, &gradient)?)
    }

    /// Everything that the next steps depend on, parameters included, in the library's own format: a
    /// native [`Stepper`] can go on from it.
    pub fn checkpoint<M: Module>(&self, module: &M) -> Result<Checkpoint> {
        let mut checkpoint = Checkpoint::new();
        self.stepper.save(&self.theta(module)?, &mut checkpoint)?;
        Ok(checkpoint)
    }

    /// Takes these dynamics and the module to where a checkpoint was made; the steps that follow are
    /// bit for bit those that followed then. On an error nothing has changed.
    pub fn restore<M: Module>(&mut self, module: &mut M, checkpoint: &Checkpoint) -> Result<()> {
        let mut theta = self.theta(module)?;
        self.stepper.restore(&mut theta, checkpoint)?;
        walk::fill(module, &theta);
        Ok(())
    }

    /// Writes a checkpoint to a file, whole or not at all.
    pub fn save<M: Module>(&self, module: &M, path: impl AsRef<Path>) -> Result<()> {
        Ok(self.checkpoint(module)?.write(path)?)
    }

    /// Goes on from a file that [`ModuleStepper::save`] wrote.
    pub fn load<M: Module>(&mut self, module: &mut M, path: impl AsRef<Path>) -> Result<()> {
        self.restore(module, &Checkpoint::read(path)?)
    }
}
