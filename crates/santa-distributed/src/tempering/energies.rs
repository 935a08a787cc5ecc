//! The energies that decide about a swap.

use super::Tempering;
#[cfg(doc)]
use super::penalty;
use crate::error::Result;
use crate::team::Number;
use santa::noise::{Purpose, Stream};
use santa::{Batch, Chain, Potential};
use serde::{Deserialize, Serialize};

/// The data that energies are estimated from.
const DATA: Purpose = Purpose::Custom(71);

/// How the energies of a swap are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Energies {
    /// Over all data, exactly.
    #[default]
    Full,
    /// Estimated from independent minibatches, drawn with replacement, the same for both replicas of
    /// a pair. N times the mean loss of a batch must be an unbiased estimate of the whole, as it is
    /// where every datum counts alike.
    Minibatches {
        /// Data in each.
        size: usize,
        /// K, how many of them; their spread tells the error of their mean.
        batches: usize,
        /// What is done about that error.
        #[serde(default)]
        correction: Correction,
    },
}

/// What is done about the error of an estimated energy difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Correction {
    /// Swaps are made rarer by [`penalty`].
    #[default]
    Penalty,
    /// Nothing, which is biased: to see by how much.
    Off,
}

impl Energies {
    /// Estimates from `batches` minibatches of `size`, with the penalty.
    pub fn minibatches(size: usize, batches: usize) -> Self {
        Energies::Minibatches { size, batches, correction: Correction::Penalty }
    }
}

/// Appends the energies of a chain for a pair's decision: those of the other replica of the pair are
/// taken on the same data.
pub(super) fn estimate<F: Number, P: Potential<F>>(
    settings: &Tempering,
    round: u64,
    pair: usize,
    chain: &mut Chain<F, P>,
    energies: &mut Vec<f64>,
) -> Result<()> {
    let Energies::Minibatches { size, batches, .. } = settings.energies else {
        energies.push(chain.energy()?);
        return Ok(());
    };
    let (theta, potential) = chain.theta_and_potential();
    let target = potential.target();
    let (n, prior) = (target.data_size(), target.prior_energy(theta));
    let stream = Stream::new(settings.seed, pair as u32, DATA);
    let mut indices = vec![0; size];
    for k in 0..batches as u32 {
        stream.fill_below(round, k, n.get() as u32, &mut indices);
        // What a model draws for itself is also the same for both, and new for each batch.
        let batch = Batch::of(&indices)
            .seeded(settings.seed, pair as u32)
            .at_step(round * batches as u64 + u64::from(k) + 1);
        energies.push(n.as_f64() * potential.loss(theta, &batch)? + prior);
    }
    Ok(())
}
