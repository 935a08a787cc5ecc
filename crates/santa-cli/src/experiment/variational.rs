//! The section for Bayes by Backprop.

use super::Experiment;
use santa::Prior;
use santa_nn::{KlWeight, ScaleMixture};
use serde::{Deserialize, Serialize};

/// Bayes by Backprop: a Gaussian for every parameter, of which mean and scale are learnt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Variational {
    /// Initial scale: the standard deviation is log(1 + e^rho).
    pub rho: f64,
    /// What is believed of a weight beforehand.
    pub prior: ScaleMixture,
    /// How much of the divergence from the prior a minibatch bears.
    pub kl_weight: KlWeight,
}

impl Default for Variational {
    /// Narrow Gaussians, so that training begins much as that of the means alone would.
    fn default() -> Self {
        let (prior, kl_weight) = (ScaleMixture::default(), KlWeight::default());
        Variational { rho: -5.0, prior, kl_weight }
    }
}

impl Variational {
    /// Refuses an experiment that it does not go with, by field, value and remedy.
    pub(super) fn check(&self, experiment: &Experiment) -> Result<(), (&'static str, String)> {
        let Experiment { data, prior, groups, .. } = experiment;
        if data.set.is_music() {
            let text = "it is for classifiers of images, not for music; leave the section out";
            return Err(("variational", text.into()));
        }
        if *prior != Prior::Flat {
            let text = "`variational.prior` takes its place: leave the section out, or set \
                        `prior.kind` to `flat`";
            return Err(("prior", text.into()));
        }
        if let Some(group) = groups.iter().find(|group| group.prior.is_some()) {
            let text = format!("`{}` has a prior, but `variational.prior` is that", group.pattern);
            return Err(("groups", text + " of all weights; leave it out"));
        }
        Ok(())
    }
}
