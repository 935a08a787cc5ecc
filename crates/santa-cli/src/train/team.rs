//! A model that several processes train together.
//!
//! Every process runs the same [`Trainer`](super::trainer::Trainer) and makes the same steps: gradients
//! are summed over the processes, predictions are made in shares and gathered, so that all know the same
//! numbers and come to the same decisions. One of them, rank 0, reads and writes the folder of the run.

use super::average::Average;
use super::model::{Model, Share};
use crate::args::Part;
use crate::commands::table::Table;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::run::record::{Calibration, Score};
use santa::average::Pooling;
use santa_distributed::{Error, Number, Shared, Summing, Team, Timing};
use santa_nn::Scalar;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How a run is divided among processes.
#[derive(Clone, Copy)]
pub struct Together<'t> {
    /// The processes.
    pub team: &'t dyn Team,
    /// How their gradients become one.
    pub summing: Summing,
    /// Whether to tell where the time of each goes.
    pub timing: bool,
}

impl Together<'_> {
    /// One process.
    pub fn alone() -> Self {
        let summing = Summing::Once;
        Together { team: &santa_distributed::Solo, summing, timing: false }
    }
}

impl Together<'_> {
    /// Whether this process reads and writes.
    pub fn leads(&self) -> bool {
        self.team.rank() == 0
    }

    /// What rank 0 finds out, in the place of everybody.
    pub fn told<T: Serialize + DeserializeOwned>(
        &self,
        find: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if self.team.size() == 1 {
            return find();
        }
        let found = if self.leads() { Some(find()) } else { None };
        let mut message = Vec::new();
        if let Some(found) = &found {
            message = serde_json::to_vec(found).map_err(Failure::system)?;
        }
        self.team.broadcast(0, &mut message)?;
        match found {
            Some(found) => found,
            None => serde_json::from_slice::<Result<T>>(&message).map_err(Failure::system)?,
        }
    }

    /// What everybody does for itself; if one fails, all do, with its words.
    pub fn agreed<T>(&self, outcome: Result<T>) -> Result<T> {
        if self.team.size() == 1 {
            return outcome;
        }
        let mine = outcome.as_ref().err();
        let message = serde_json::to_vec(&mine).map_err(Failure::system)?;
        for (rank, message) in self.team.gather(&message)?.iter().enumerate() {
            let failure: Option<Failure> =
                serde_json::from_slice(message).map_err(Failure::system)?;
            if let Some(failure) = failure {
                return Err(if rank == 0 {
                    failure
                } else {
                    failure.within(format!("rank {rank}"))
                });
            }
        }
        outcome
    }

    /// Refuses something that is not the same for all.
    pub fn same(&self, what: &str, value: &[u8], remedy: &str) -> Result<()> {
        let all = self.team.gather(value)?;
        match all.iter().position(|other| *other != all[0]) {
            None => Ok(()),
            Some(rank) => {
                Err(Error::Apart { rank, what: what.into(), remedy: remedy.into() }.into())
            }
        }
    }
}

/// Where the time of a process went, in seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankTime {
    /// Which process.
    pub rank: usize,
    /// The machine that it ran on.
    pub host: String,
    /// Gradients since it was started.
    pub steps: u64,
    /// Computing its part of them.
    pub compute: f64,
    /// Waiting for the slowest.
    pub wait: f64,
    /// Summing.
    pub communicate: f64,
}

impl Together<'_> {
    /// Everybody's times, by rank.
    pub fn times(&self, timing: &Timing) -> Result<Vec<RankTime>> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let mine = RankTime {
            rank: self.team.rank(),
            host: host.trim().into(),
            steps: timing.steps,
            compute: timing.compute.as_secs_f64(),
            wait: timing.wait.as_secs_f64(),
            communicate: timing.communicate.as_secs_f64(),
        };
        let all = self.team.gather(&serde_json::to_vec(&mine).map_err(Failure::system)?)?;
        all.iter().map(|one| serde_json::from_slice(one).map_err(Failure::system)).collect()
    }

    /// Milliseconds of a step, process by process, as a table.
    pub fn table(&self, times: &[RankTime]) -> String {
        let columns = ["rank", "host", "steps", "compute ms", "wait ms", "communicate ms"];
        let mut text = Table::new(columns.map(String::from));
        for time in times {
            let a_step = |seconds: f64| format!("{:.3}", 1e3 * seconds / time.steps.max(1) as f64);
            text.row([
                time.rank.to_string(),
                time.host.clone(),
                time.steps.to_string(),
                a_step(time.compute),
                // Only where all wait for each other before they sum.
                if self.summing == Summing::Once { a_step(time.wait) } else { "-".into() },
                a_step(time.communicate),
            ]);
        }
        text.to_string()
    }
}

/// A number that depends on every bit of the parameters (FNV-1a).
fn fingerprint<F: Number>(theta: &[F]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    theta.iter().fold(BASIS, |hash, x| (hash ^ x.to_f64().to_bits()).wrapping_mul(PRIME))
}

/// What all processes know, for the parts that they compute together.
fn together<'t, F: Scalar + Number, M: Model<F>>(
    shared: &Shared<F, M, &'t dyn Team>,
) -> (Together<'t>, Share) {
    let team = *shared.team();
    let share = Share { rank: team.rank(), size: team.size() };
    (Together { team, ..Together::alone() }, share)
}

/// The predictions of all processes, made in shares; none if the model cannot.
fn gathered<F: Scalar + Number, M: Model<F>>(
    shared: &mut Shared<F, M, &dyn Team>,
    theta: &[F],
    part: Part,
) -> Result<Option<Vec<F>>> {
    let (together, share) = together(shared);
    let mine = together.agreed(shared.potential_mut().predictions(theta, part, share))?;
    let Some(mine) = mine else { return Ok(None) };
    let all = together.team.gather(bytemuck::cast_slice(&mine))?;
    Ok(Some(bytemuck::pod_collect_to_vec(&all.concat())))
}

impl<F: Scalar + Number, M: Model<F>> Model<F> for Shared<F, M, &dyn Team> {
    fn initial(&self, seed: u64, chain: u32) -> Result<Vec<F>> {
        self.potential().initial(seed, chain)
    }
    fn has(&self, part: Part) -> bool {
        self.potential().has(part)
    }
    fn score(&mut self, theta: &[F], part: Part) -> Result<Score> {
        if self.is_alone() {
            return self.potential_mut().score(theta, part);
        }
        let (together, share) = together(self);
        let remedy =
            "a fault of a machine, or programs that are not the same: use one build on all of them";
        together.same("set of parameters", &fingerprint(theta).to_le_bytes(), remedy)?;
        let nll = self.potential_mut().nll_of_share(theta, part, share);
        if let Some(mut sums) = together.agreed(nll)? {
            together.team.sum_f64(&mut sums)?;
            return Ok(Score { nll: sums[0] / sums[1], error: None });
        }
        // From everybody's predictions, so that it does not depend on how they were divided.
        let Some(predictions) = gathered(self, theta, part)? else {
            return self.potential_mut().score(theta, part);
        };
        let mut single = self.potential().average(part)?;
        self.potential().push(&predictions, &mut single)?;
        self.potential().score_average(&single, part, Pooling::default())
    }
    fn ignorance(&self) -> f64 {
        self.potential().ignorance()
    }
    fn average(&self, part: Part) -> Result<Average> {
        self.potential().average(part)
    }
    fn add(&mut self, theta: &[F], part: Part, average: &mut Average) -> Result<()> {
        if !self.is_alone()
            && let Some(predictions) = gathered(self, theta, part)?
        {
            return self.potential().push(&predictions, average);
        }
        self.potential_mut().add(theta, part, average)
    }
    fn add_kept(
        &mut self,
        theta: &[F],
        step: u64,
        part: Part,
        average: &mut Average,
    ) -> Result<()> {
        if !self.is_alone()
            && let Some(predictions) = gathered(self, theta, part)?
        {
            return self.potential().push(&predictions, average);
        }
        self.potential_mut().add_kept(theta, step, part, average)
    }
    fn log_probabilities(&mut self, theta: &[F], part: Part) -> Result<Option<Vec<F>>> {
        self.potential_mut().log_probabilities(theta, part)
    }
    fn labels(&self, part: Part) -> Result<Option<Vec<usize>>> {
        self.potential().labels(part)
    }
    fn score_average(&self, average: &Average, part: Part, pooling: Pooling) -> Result<Score> {
        self.potential().score_average(average, part, pooling)
    }
    fn calibration(&self, average: &Average, part: Part, pooling: Pooling) -> Option<Calibration> {
        self.potential().calibration(average, part, pooling)
    }
    fn interruption(&self) -> Box<dyn Fn() -> bool> {
        if self.team().size() == 1 {
            return Box::new(interrupt::requested);
        }
        // All processes stop after the same step.
        let flag = self.stop_flag();
        Box::new(move || flag.get())
    }
}
