//! Both optimizers as Burn's, with Caffe's treatment of the biases.

use burn::module::ParamGroup;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::lr_scheduler::module_lr_scheduler::{ModuleLearningRate, ModuleLrScheduler};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{ModuleOptimizer, SgdConfig};
use santa::{InverseTemperature, OnTrouble, Prior, Schedule};
use santa_burn::SantaConfig;

use crate::error::{Error, Result};
use crate::settings::{Method, Settings};

/// Caffe's `lr_mult` of the biases; their `decay_mult` is 0.
const BIAS_LR: f64 = 2.0;

/// The optimizer of a run on `images` training images.
pub(crate) fn build(settings: &Settings, images: u64) -> Result<ModuleOptimizer> {
    let s = settings;
    Ok(match s.optimizer {
        Method::SgdM => {
            // Without dampening: v = momentum v + g. Caffe has the learning rate inside v, which is
            // the same as long as it hardly changes within 1 / (1 - momentum) steps.
            let momentum = MomentumConfig::new().with_momentum(s.momentum).with_dampening(0.0);
            let biases = SgdConfig::new().with_momentum(Some(momentum));
            let decay = WeightDecayConfig::new(s.weight_decay as f32);
            let weights = biases.clone().with_weight_decay(Some(decay));
            ModuleOptimizer::from(weights.build()).with_group(bias_group(), biases.build(), None)
        }
        Method::Santa => {
            let santa = SantaConfig::new()
                .with_data_size(Some(images))
                .with_steps(Some(s.iterations))
                .with_momentum(s.momentum)
                .with_weight_decay(Some(s.weight_decay))
                .with_beta(Some(InverseTemperature::annealed(Schedule::power(s.beta, 0.0, 0.5))))
                .with_seed(s.seed)
                // A divergence shows in the loss, which stops the run with a message.
                .with_on_trouble(OnTrouble::Skip { at_most: u32::MAX });
            let refused = |error: santa_burn::Error| Error::Optimizer(error.to_string());
            let weights = santa.try_build().map_err(refused)?;
            let biases = weights.with_prior(Prior::Flat).map_err(refused)?;
            ModuleOptimizer::from(weights).with_group(bias_group(), biases, None)
        }
    })
}

/// The learning rates of weights and biases at an iteration.
pub(crate) fn learning_rate(settings: &Settings, iteration: u64) -> ModuleLearningRate {
    let lr = settings.lr_at(iteration);
    ModuleLrScheduler::new(lr).with_group(bias_group(), BIAS_LR * lr).step()
}

fn bias_group() -> ParamGroup {
    ParamGroup::from_regex(r"\.bias$").expect("a constant pattern")
}
