//! Replicas in one checkpoint, and back, by any number of members.
//!
//! | entry | contents |
//! | --- | --- |
//! | metadata `tempering`, `tempering_rounds`, `tempering_counts` | settings, rounds made, statistics |
//! | tensors `tempering/probabilities`, `tempering/variances` | sums of the statistics |
//! | `rung/<r>/...` | what [`Chain::checkpoint`] has, by rung |

use super::replicas::agree;
use super::statistics::Counts;
use super::{Replicas, Statistics, Tempering};
use crate::error::Result;
use crate::team::{Number, Team};
use santa::{Checkpoint, Potential};

#[cfg(doc)]
use santa::Chain;

const SETTINGS: &str = "tempering";
const ROUNDS: &str = "tempering_rounds";
const COUNTS: &str = "tempering_counts";
const PROBABILITIES: &str = "tempering/probabilities";
const VARIANCES: &str = "tempering/variances";

fn prefix(rung: usize) -> String {
    format!("rung/{rung}/")
}

/// Copies entries from one checkpoint to another, under the names that `rename` gives; those without one
/// are left out.
fn copy<F: Number>(
    from: &Checkpoint,
    into: &mut Checkpoint,
    rename: impl Fn(&str) -> Option<String>,
) -> santa::Result<()> {
    for name in from.tensor_names() {
        if let Some(new) = rename(name) {
            into.insert_tensor(new, from.shape(name)?, &from.tensor::<F>(name)?)?;
        }
    }
    for key in from.meta_keys() {
        if let Some(new) = rename(key) {
            into.insert_meta(new, &from.meta::<serde_json::Value>(key)?)?;
        }
    }
    Ok(())
}

impl<F: Number, P: Potential<F>, T: Team> Replicas<F, P, T> {
    /// Everything that the next rounds depend on, from all members; the first one gets it, to write.
    /// Collective.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>> {
        let mine = agree(&self.team, self.own_part())?;
        let bytes = agree(&self.team, mine.to_bytes().map_err(Into::into))?;
        let mut messages: Vec<&[u8]> = vec![&[]; self.team.size()];
        messages[0] = &bytes;
        let parts = self.team.exchange(&messages)?;
        if self.team.rank() != 0 {
            return Ok(None);
        }
        let mut whole = mine;
        for part in &parts[1..] {
            copy::<F>(&Checkpoint::from_bytes(part)?, &mut whole, |name| Some(name.into()))?;
        }
        whole.insert_meta(SETTINGS, &self.settings)?;
        whole.insert_meta(ROUNDS, &self.rounds)?;
        let Statistics { counts, probabilities, variances } = &self.statistics;
        whole.insert_meta(COUNTS, counts)?;
        whole.insert_tensor(PROBABILITIES, &[probabilities.len()], probabilities)?;
        whole.insert_tensor(VARIANCES, &[variances.len()], variances)?;
        Ok(Some(whole))
    }

    fn own_part(&self) -> Result<Checkpoint> {
        let mut part = Checkpoint::new();
        for (rung, chain) in self.rungs().zip(&self.chains) {
            let prefix = prefix(rung);
            copy::<F>(&chain.checkpoint()?, &mut part, |name| Some(prefix.clone() + name))?;
        }
        Ok(part)
    }

    /// Takes replicas that were built alike to where a checkpoint was made, which every member hands
    /// over; the rounds that follow are bit for bit those that followed then, also with another number
    /// of members. Collective.
    ///
    /// A difference in settings or models is refused by its name, by all members. Those of the rungs
    /// that were read before it was met have then been restored: build them anew before going on.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let outcome = self.read_own_part(checkpoint);
        agree(&self.team, outcome)
    }

    fn read_own_part(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let settings: Tempering = checkpoint.meta(SETTINGS)?;
        if settings != self.settings {
            return Err(santa::Error::Mismatch {
                field: SETTINGS.into(),
                saved: format!("{settings:?}"),
                present: format!("{:?}", self.settings),
            }
            .into());
        }
        let pairs = self.settings.betas.len() - 1;
        let statistics = Statistics {
            counts: checkpoint.meta(COUNTS)?,
            probabilities: checkpoint.tensor_of_shape(PROBABILITIES, &[pairs])?,
            variances: checkpoint.tensor_of_shape(VARIANCES, &[pairs])?,
        };
        if !statistics.counts.fit(pairs + 1) {
            let reason = format!("its statistics are not those of {} rungs", pairs + 1);
            return Err(santa::Error::Checkpoint { path: None, reason }.into());
        }
        let rounds = checkpoint.meta(ROUNDS)?;
        for (rung, chain) in self.rungs.clone().zip(&mut self.chains) {
            let prefix = prefix(rung);
            let mut part = Checkpoint::new();
            copy::<F>(checkpoint, &mut part, |name| name.strip_prefix(&prefix).map(Into::into))?;
            chain.restore(&part)?;
        }
        (self.statistics, self.rounds) = (statistics, rounds);
        Ok(())
    }
}

impl Counts {
    /// Whether these are numbers about so many rungs.
    fn fit(&self, rungs: usize) -> bool {
        let mut walkers = self.walkers.clone();
        walkers.sort_unstable();
        walkers.into_iter().eq(0..rungs)
            && self.trips.len() == rungs
            && self.last_end.len() == rungs
            && self.attempts.len() + 1 == rungs
            && self.accepted.len() + 1 == rungs
    }
}
