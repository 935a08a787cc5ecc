//! Settings as Burn has them: a `Config` with `init()`.

use crate::dynamics::Dynamics;
use crate::error::Result;
use burn::config::Config;
use burn::grad_clipping::GradientClippingConfig;
use burn::optim::ModuleOptimizer;
use santa::dynamics::{Exploration, Metric};
use santa::{
    Algorithm, DataSize, Error, Integrator, InverseTemperature, OnTrouble, Prior, Santa, StepSize,
};
use serde::{Deserialize, Serialize};

/// Santa in place of Burn's `AdamConfig`. The learning rate comes with each step, from you, the
/// `Learner` or a scheduler, and means what it means for Adam.
///
/// Exploring needs to know two things that Adam does not: over how many data the loss is a mean,
/// and how long the run is.
///
/// | given | what Santa does |
/// | --- | --- |
/// | `data_size` and `steps` | explores at $\beta_t = \sqrt t$ for the first half of the steps, then refines: [`Santa::new`] |
/// | neither | refines from the first step, without noise: [`Santa::default`] |
/// | `steps` alone | refused: the temperature of the noise would be a guess |
///
/// ```
/// use santa_burn::SantaConfig;
///
/// let (data, batch, epochs) = (60_000, 128, 10);
/// let optimizer = SantaConfig::new()
///     .with_data_size(Some(data))
///     .with_steps(Some(data / batch * epochs))
///     .with_weight_decay(Some(1e-4))
///     .with_seed(42)
///     .init();
/// # let _ = optimizer;
/// ```
///
/// For every other setting of Santa, and for the other dynamics, there is [`DynamicsConfig`].
#[derive(Config, Debug)]
pub struct SantaConfig {
    /// N, the number of training data, not of a batch.
    pub data_size: Option<u64>,
    /// Optimizer steps of the whole run.
    pub steps: Option<u64>,
    /// The share of the steps that explores.
    #[config(default = 0.5)]
    pub exploring: f64,
    /// The share of the velocity that survives a step, Adam's `beta_1`.
    #[config(default = 0.9)]
    pub momentum: f64,
    /// The memory of the second moment, Adam's `beta_2`.
    #[config(default = 0.99)]
    pub sigma: f64,
    /// $\lambda$, Adam's `epsilon`.
    #[config(default = 1e-5)]
    pub lambda: f64,
    /// A Gaussian prior by its precision. Needs `data_size`.
    pub prior_precision: Option<f64>,
    /// The same as other optimizers say it: the precision over N.
    pub weight_decay: Option<f64>,
    /// $\beta_t$ while exploring; $\sqrt t$ if not given.
    pub beta: Option<InverseTemperature>,
    /// Euler's scheme in place of the splitting.
    #[config(default = false)]
    pub euler: bool,
    /// Chooses the noise.
    #[config(default = 0)]
    pub seed: u64,
    /// Chooses the noise among those of a seed, for several chains.
    #[config(default = 0)]
    pub chain: u32,
    /// What to do about a NaN: stop, or skip the tensor's step.
    #[config(default = "OnTrouble::Stop")]
    pub on_trouble: OnTrouble,
    /// Clipping of each tensor's gradient.
    pub grad_clipping: Option<GradientClippingConfig>,
}

impl SantaConfig {
    /// The same as settings of the library, to be changed further.
    pub fn to_dynamics(&self) -> Result<DynamicsConfig> {
        let one = || Ok(DataSize::ONE);
        let n = self.data_size.map_or_else(one, DataSize::new)?;
        let exploration = match (self.steps, self.data_size) {
            (Some(_), None) => {
                let allowed = "exploring needs N: set data_size to the number of training data";
                return Err(refused("data_size", "missing", allowed));
            }
            (Some(_), _) if !(0.0..=1.0).contains(&self.exploring) => {
                return Err(refused("exploring", self.exploring, "a share between 0 and 1"));
            }
            (Some(steps), Some(_)) => (steps as f64 * self.exploring) as u64,
            (None, _) => 0,
        };
        let prior = match (self.prior_precision, self.weight_decay) {
            (Some(_), Some(decay)) => {
                let allowed = "the prior is given twice; set prior_precision or weight_decay";
                return Err(refused("weight_decay", decay, allowed));
            }
            (Some(precision), None) if self.data_size.is_none() => {
                let allowed = "a precision needs N: set data_size, or use weight_decay";
                return Err(refused("prior_precision", precision, allowed));
            }
            (Some(precision), None) => Prior::gaussian(precision),
            (None, Some(decay)) => Prior::from_weight_decay(decay, n),
            (None, None) => Prior::Flat,
        };
        let preset = match exploration {
            0 => Santa::default(),
            // The preset halves what it is told; the share is ours.
            steps => Santa { exploration: Exploration::Steps(steps), ..Santa::new(1.0, steps) },
        };
        let santa = Santa {
            step: StepSize::practical(1.0, self.momentum),
            metric: Metric::RmsProp { sigma: self.sigma },
            lambda: self.lambda,
            beta: self.beta.clone().unwrap_or(preset.beta.clone()),
            integrator: if self.euler { Integrator::Euler } else { Integrator::Splitting },
            ..preset
        };
        Ok(DynamicsConfig {
            data_size: n.get(),
            prior,
            seed: self.seed,
            chain: self.chain,
            on_trouble: self.on_trouble,
            grad_clipping: self.grad_clipping.clone(),
            ..DynamicsConfig::new(santa)
        })
    }

    /// The bare optimizer, for
    /// [`ModuleOptimizer::with_group`]; without the gradient
    /// clipping. An error names the setting that cannot work.
    pub fn try_build(&self) -> Result<Dynamics> {
        self.to_dynamics()?.try_build()
    }

    /// [`SantaConfig::try_build`] for settings that are known to work.
    ///
    /// # Panics
    ///
    /// Otherwise, with the same message.
    pub fn build(&self) -> Dynamics {
        self.try_build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The optimizer of a module. An error names the setting that cannot work.
    pub fn try_init(&self) -> Result<ModuleOptimizer> {
        self.to_dynamics()?.try_init()
    }

    /// The optimizer of a module, as `AdamConfig::init` gives it.
    ///
    /// # Panics
    ///
    /// If a setting cannot work, with the message of [`SantaConfig::try_init`].
    pub fn init(&self) -> ModuleOptimizer {
        self.try_init().unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Any dynamics of the library as an optimizer of Burn.
///
/// ```
/// use santa::StepSize;
/// use santa::dynamics::Sghmc;
/// use santa_burn::DynamicsConfig;
///
/// let sampler = Sghmc::new(StepSize::heavy_ball(1.0, 0.9)); // the learning rate is Burn's
/// let optimizer = DynamicsConfig::new(sampler).with_data_size(60_000).with_seed(7).init();
/// # let _ = optimizer;
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DynamicsConfig {
    /// The dynamics. Their learning rate is not used: [`Dynamics`] says what is.
    pub algorithm: Algorithm,
    /// N, the number of training data.
    #[serde(default = "one")]
    pub data_size: u64,
    /// The prior.
    #[serde(default)]
    pub prior: Prior,
    /// Chooses the noise.
    #[serde(default)]
    pub seed: u64,
    /// Chooses the noise among those of a seed, for several chains.
    #[serde(default)]
    pub chain: u32,
    /// What to do about a NaN: stop, or skip the tensor's step.
    #[serde(default)]
    pub on_trouble: OnTrouble,
    /// Clipping of each tensor's gradient.
    #[serde(default)]
    pub grad_clipping: Option<GradientClippingConfig>,
}

impl Config for DynamicsConfig {}

fn one() -> u64 {
    1
}

impl DynamicsConfig {
    /// N = 1 and no prior until told otherwise: right for optimizers, which know neither; a sampler
    /// needs N.
    pub fn new(algorithm: impl Into<Algorithm>) -> Self {
        DynamicsConfig {
            algorithm: algorithm.into(),
            data_size: one(),
            prior: Prior::Flat,
            seed: 0,
            chain: 0,
            on_trouble: OnTrouble::Stop,
            grad_clipping: None,
        }
    }
    /// Sets N.
    pub fn with_data_size(mut self, n: u64) -> Self {
        self.data_size = n;
        self
    }
    /// Sets the prior. For a weight decay set N first and use
    /// [`DynamicsConfig::with_weight_decay`].
    pub fn with_prior(mut self, prior: Prior) -> Self {
        self.prior = prior;
        self
    }
    /// Sets the Gaussian prior of a weight decay, with the N set so far.
    pub fn with_weight_decay(mut self, decay: f64) -> Self {
        self.prior = match DataSize::new(self.data_size) {
            Ok(n) => Prior::from_weight_decay(decay, n),
            Err(_) => Prior::Flat, // N = 0 is refused when the dynamics are built
        };
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
    /// Sets what is done about a NaN.
    pub fn with_on_trouble(mut self, policy: OnTrouble) -> Self {
        self.on_trouble = policy;
        self
    }
    /// Sets the clipping of each tensor's gradient.
    pub fn with_grad_clipping(mut self, clipping: Option<GradientClippingConfig>) -> Self {
        self.grad_clipping = clipping;
        self
    }

    /// The bare optimizer, for
    /// [`ModuleOptimizer::with_group`]; without the gradient
    /// clipping. An error names the setting that cannot work.
    pub fn try_build(&self) -> Result<Dynamics> {
        let n = DataSize::new(self.data_size)?;
        let noise = (self.seed, self.chain);
        Dynamics::new(self.algorithm.clone(), n, self.prior, noise, self.on_trouble)
    }

    /// [`DynamicsConfig::try_build`] for settings that are known to work.
    ///
    /// # Panics
    ///
    /// Otherwise, with the same message.
    pub fn build(&self) -> Dynamics {
        self.try_build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The optimizer of a module. An error names the setting that cannot work.
    pub fn try_init(&self) -> Result<ModuleOptimizer> {
        let optimizer = ModuleOptimizer::from(self.try_build()?);
        Ok(match &self.grad_clipping {
            Some(clipping) => optimizer.with_grad_clipping(clipping.init()),
            None => optimizer,
        })
    }

    /// The optimizer of a module.
    ///
    /// # Panics
    ///
    /// If a setting cannot work, with the message of [`DynamicsConfig::try_init`].
    pub fn init(&self) -> ModuleOptimizer {
        self.try_init().unwrap_or_else(|error| panic!("{error}"))
    }
}

fn refused(field: &str, value: impl ToString, allowed: &str) -> crate::Error {
    let (field, allowed) = (field.into(), allowed.into());
    Error::Setting { field, value: value.to_string(), allowed }.into()
}
