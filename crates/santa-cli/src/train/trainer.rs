//! The loop of a run: steps, and what is due between them.

use super::Ended;
use super::average::Average;
use super::layers::{Warned, layers};
use super::log::{Log, rewind};
use super::model::Model;
use super::rollback::Rollback;
use super::trial::parts;
use super::trouble::{Pulse, diverged};
use super::watch::Watch;
use crate::args::Part;
use crate::experiment::{Averaging, Experiment};
use crate::failure::{Failure, Kind, Result};
use crate::run::folder::RunFolder;
use crate::run::record::{Best, Layers, Record, Training, Warning};
use santa::{Chain, Checkpoint, StepOutcome, Stepper, Target};
use santa_nn::Scalar;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A run at work.
pub struct Trainer<'a, F: Scalar, M: Model<F>> {
    pub(super) experiment: &'a Experiment,
    pub(super) chain: Chain<F, M>,
    dynamics: Box<Dynamics<'a, F>>,
    pub(super) averages: Vec<(Part, Average)>,
    pub(super) state: State,
    rollback: Option<Rollback>,
    is_interrupted: Box<dyn Fn() -> bool>,
    started: Instant,
}

/// Makes the dynamics of a chain, by its number.
type Dynamics<'a, F> = dyn Fn(&Target, u32) -> Result<Stepper<F>> + 'a;

/// What a run remembers beside its chain and its averages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    /// Sum and number of the losses since the last record.
    loss_sum: f64,
    loss_count: u64,
    /// Chains that are finished.
    chains: u32,
    pulse: Pulse,
    pub(super) best: Option<Best>,
    /// The average when it was best on validation data.
    pub(super) best_averaged: Option<Best>,
    /// Predictions in the average when it was last judged.
    pub(super) judged: u64,
    /// Evaluations since the best.
    pub(super) stale: u64,
    warned: Warned,
    /// Seconds of earlier processes.
    seconds: f64,
}

/// Why a walk ended before its time.
enum Pause {
    /// Somebody pressed Ctrl-C.
    Interrupted,
    /// The loss has exploded; in words.
    Exploded(String),
    /// A step was not made.
    Skipped,
    /// Steps were undone.
    RolledBack { to: u64 },
}

/// Where the trainer's state is in a checkpoint.
const STATE: &str = "trainer";

impl<'a, F: Scalar, M: Model<F>> Trainer<'a, F, M> {
    /// A run at its beginning.
    pub fn new(
        experiment: &'a Experiment,
        model: M,
        dynamics: impl Fn(&Target, u32) -> Result<Stepper<F>> + 'a,
    ) -> Result<Self> {
        let (stepper, theta) = (dynamics(model.target(), 0)?, model.initial(experiment.seed, 0)?);
        let mut averages = Vec::new();
        if experiment.averaging.is_some() {
            for part in parts(experiment, &model) {
                averages.push((part, model.average(part)?));
            }
        }
        let is_interrupted = model.interruption();
        let chain = Chain::new(model, stepper, theta, experiment.data.order, experiment.batch)?;
        let (state, rollback) = (State::default(), Rollback::new(experiment.on_trouble));
        let (dynamics, started) = (Box::new(dynamics), Instant::now());
        Ok(Trainer {
            experiment,
            chain,
            dynamics,
            averages,
            state,
            rollback,
            is_interrupted,
            started,
        })
    }

    /// Steps made, by all chains.
    pub fn steps(&self) -> u64 {
        self.run_step(self.chain.steps())
    }

    /// The step of the run that a step of the present chain is.
    fn run_step(&self, step: u64) -> u64 {
        u64::from(self.state.chains) * self.experiment.chain_steps() + step
    }

    /// Puts the chain that comes after those that are finished at its beginning.
    fn begin_chain(&mut self) -> Result<()> {
        let (seed, number) = (self.experiment.seed, self.state.chains);
        let model = self.chain.potential();
        let theta = model.initial(seed, number)?;
        let stepper = (self.dynamics)(model.target(), number)?;
        self.chain.restart(stepper, theta)?;
        // There is no way back into the chain before.
        self.rollback = Rollback::new(self.experiment.on_trouble);
        Ok(())
    }

    /// Goes to the newest checkpoint that can be read, and drops the records after it; returns its file.
    pub fn resume(
        &mut self,
        folder: &mut RunFolder,
        watch: &mut dyn Watch,
    ) -> Result<Option<PathBuf>> {
        let mut checkpoints = folder.checkpoints()?;
        while let Some((_, path)) = checkpoints.pop() {
            match self.restore(&path) {
                Ok(()) => {
                    rewind(folder, self.steps(), watch)?;
                    return Ok(Some(path));
                }
                // One that is damaged leaves those before it.
                Err(failure) if failure.kind == Kind::Data && !checkpoints.is_empty() => {
                    watch.warn(&format!("{failure}; going back to an earlier one"));
                }
                Err(failure) if failure.kind == Kind::Data => {
                    return Err(failure.hint(
                        "no checkpoint is left to go back to: remove them to begin again, or \
                         choose another folder with `--out`",
                    ));
                }
                Err(failure) => return Err(failure),
            }
        }
        // It ended before its first checkpoint: all of it is made again.
        rewind(folder, 0, watch)?;
        Ok(None)
    }

    fn restore(&mut self, path: &Path) -> Result<()> {
        let checkpoint = Checkpoint::read(path)?;
        self.go_to(&checkpoint).map_err(|failure| failure.within(path.display()))
    }

    /// Goes to a checkpoint.
    pub fn go_to(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let chains = self.state.chains;
        self.recall(checkpoint)?;
        if self.state.chains != chains {
            self.begin_chain()?;
        }
        Ok(self.chain.restore(checkpoint)?)
    }

    /// The model.
    pub fn model(&self) -> &M {
        self.chain.potential()
    }

    fn checkpoint(&self) -> Result<Checkpoint> {
        let mut checkpoint = self.chain.checkpoint()?;
        self.remember(&mut checkpoint)?;
        Ok(checkpoint)
    }

    /// Puts all that the chain does not know into a checkpoint.
    fn remember(&self, checkpoint: &mut Checkpoint) -> Result<()> {
        let state = State { seconds: self.seconds(), ..self.state.clone() };
        checkpoint.insert_meta(STATE, &state)?;
        self.averages.iter().try_for_each(|(part, average)| average.save(name(*part), checkpoint))
    }

    /// Takes it back.
    fn recall(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let state = checkpoint.meta(STATE)?;
        for (part, average) in &mut self.averages {
            average.restore(name(*part), checkpoint)?;
        }
        self.state = state;
        Ok(())
    }

    /// Keeps what is known at a step that the dynamics can be rolled back to.
    fn keep(&mut self, log: &Log<'_>) -> Result<()> {
        // The dynamics count the steps of their chain.
        let step = self.chain.steps();
        if self.rollback.as_ref().is_none_or(|rollback| !rollback.is_due(step)) {
            return Ok(());
        }
        let mut memory = Checkpoint::new();
        self.remember(&mut memory)?;
        let best = self.state.best;
        self.rollback.as_mut().map_or(Ok(()), |r| r.keep(step, memory, best, log.folder))
    }

    /// Follows the dynamics back to a step of their chain: nothing is left of those after it but a
    /// warning.
    fn roll_back(
        &mut self,
        failed_at: u64,
        to: u64,
        log: &mut Log<'_>,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let best = self.state.best;
        let memory = match &mut self.rollback {
            Some(rollback) => rollback.recall(failed_at, to, best, log.folder)?.cloned(),
            None => None,
        };
        let memory = memory.ok_or_else(|| {
            Failure::system(format!("nothing is known of step {to}, which was rolled back to"))
        })?;
        let seconds = self.state.seconds;
        self.recall(&memory)?;
        // Time does not go back.
        self.state.seconds = seconds;
        let (failed_at, to) = (self.run_step(failed_at), self.run_step(to));
        log.folder.roll_back(&self.checkpoint()?, to)?;
        log.rewind(to, watch)?;
        self.warn(format!("step {failed_at} failed; rolled back to step {to}"), log, watch)
    }

    pub(super) fn seconds(&self) -> f64 {
        self.state.seconds + self.started.elapsed().as_secs_f64()
    }

    fn stopped_early(&self) -> bool {
        self.experiment.early_stopping.is_some_and(|rule| self.state.stale >= rule.patience)
    }

    /// Makes all steps that are left.
    pub fn run(&mut self, log: &mut Log<'_>, watch: &mut dyn Watch) -> Result<Ended> {
        self.started = Instant::now();
        watch.begin(self.experiment, self.steps());
        let total = self.experiment.steps();
        while self.steps() < total && !self.stopped_early() {
            if self.chain.steps() == self.experiment.chain_steps() {
                self.state.chains += 1;
                // The losses of the chain before say nothing of this one's.
                self.state.pulse = Pulse::default();
                self.begin_chain()?;
            }
            let next = self.next_event();
            self.walk(next, log, watch)?;
            let step = self.steps();
            if step == next {
                let happened = self.happen(step, log, watch);
                happened.map_err(|failure| self.told(failure, log, watch))?;
            }
            if (self.is_interrupted)() && step < total {
                self.save(log)?;
                watch.end(None);
                return Ok(Ended::Interrupted { step });
            }
        }
        let summary = self.finish().map_err(|failure| self.told(failure, log, watch))?;
        log.folder.finish(&summary)?;
        watch.end(Some(&summary));
        Ok(Ended::Done(Box::new(summary)))
    }

    /// The next step after which something is due; the chain's last one at the latest.
    fn next_event(&self) -> u64 {
        let step = self.steps();
        let after = |from: u64, every: u64| {
            let past = step.saturating_sub(from) / every;
            from + (past + 1) * every
        };
        let Experiment { log_every, evaluation, checkpoints, averaging, .. } = self.experiment;
        let mut next = self.run_step(self.experiment.chain_steps());
        next = next.min(after(0, *log_every));
        next = next.min(after(0, evaluation.every)).min(after(0, checkpoints.every));
        if let Some(rollback) = &self.rollback {
            next = next.min(after(self.run_step(0), rollback.every()));
        }
        let kept = |averaging: &Averaging| after(self.run_step(averaging.from), averaging.every);
        averaging.as_ref().map_or(next, |averaging| next.min(kept(averaging)))
    }

    /// Makes steps until `next`, or until somebody interrupts.
    fn walk(&mut self, next: u64, log: &mut Log<'_>, watch: &mut dyn Watch) -> Result<()> {
        self.keep(log)?;
        let before = self.run_step(0);
        let State { loss_sum, loss_count, pulse, .. } = &mut self.state;
        let mut made = self.chain.steps();
        let steps = next - before - made;
        let walked = self.chain.advance_with(steps, |progress| {
            let mut exploded = None;
            // The loss of a step that was not made may be no number, which a checkpoint cannot keep.
            if matches!(progress.outcome, StepOutcome::Applied) {
                *loss_sum += progress.loss;
                *loss_count += 1;
                exploded = pulse.feel(progress.loss);
                made = progress.step;
            }
            let loss = *loss_sum / (*loss_count).max(1) as f64;
            watch.step(before + progress.step, loss, progress.stage, progress.temperature);
            ControlFlow::Break(match (progress.outcome, exploded) {
                (StepOutcome::Applied, Some(what)) => Pause::Exploded(what),
                (StepOutcome::Applied, None) if (self.is_interrupted)() => Pause::Interrupted,
                (StepOutcome::Applied, None) => return ControlFlow::Continue(()),
                (StepOutcome::Skipped, _) => Pause::Skipped,
                (StepOutcome::RolledBack { to }, _) => Pause::RolledBack { to },
            })
        });
        match walked {
            Ok(ControlFlow::Continue(()) | ControlFlow::Break(Pause::Interrupted)) => Ok(()),
            Ok(ControlFlow::Break(Pause::Exploded(what))) => {
                let record = self.training()?;
                log.record(&Record::Training(record))?;
                Err(self.failed(self.steps(), &what, log, watch))
            }
            Ok(ControlFlow::Break(Pause::Skipped)) => {
                self.warn("a step with a bad gradient was skipped".into(), log, watch)
            }
            Ok(ControlFlow::Break(Pause::RolledBack { to })) => {
                self.roll_back(made + 1, to, log, watch)
            }
            Err(error) => {
                let what = match &error {
                    santa::Error::NotFinite { what, value, segment, index, .. } => {
                        let place = match segment.as_str() {
                            "all" => String::new(),
                            name => format!(" in `{name}`[{index}]"),
                        };
                        format!("{what} is {value}{place}")
                    }
                    other => other.to_string(),
                };
                match Failure::from(error) {
                    failure if failure.kind == Kind::Numerical => {
                        // The step that failed was not made.
                        Err(self.failed(self.steps() + 1, &what, log, watch))
                    }
                    failure => Err(failure),
                }
            }
        }
    }

    /// A failure between two steps; written down if it is one of numbers.
    fn told(&self, failure: Failure, log: &mut Log<'_>, watch: &mut dyn Watch) -> Failure {
        match failure.kind {
            Kind::Numerical => self.failed(self.steps(), &failure.message, log, watch),
            _ => failure,
        }
    }

    fn warn(&self, message: String, log: &mut Log<'_>, watch: &mut dyn Watch) -> Result<()> {
        watch.warn(&message);
        log.record(&Record::Warning(Warning { step: self.steps(), message }))
    }

    fn failed(&self, step: u64, what: &str, log: &mut Log<'_>, watch: &mut dyn Watch) -> Failure {
        let layout = self.chain.stepper().target().layout();
        let failure = diverged(self.experiment, layout, self.chain.theta(), step, what);
        let message = failure.message.clone();
        // The failure is what matters, whether or not it can be written down.
        let _ = log.folder.fail(&failure);
        let _ = log.record(&Record::Warning(Warning { step: self.steps(), message }));
        watch.end(None);
        failure
    }

    /// Does what is due after a step.
    fn happen(&mut self, step: u64, log: &mut Log<'_>, watch: &mut dyn Watch) -> Result<()> {
        let Experiment { log_every, evaluation, checkpoints, averaging, .. } = self.experiment;
        let last = self.chain.steps() == self.experiment.chain_steps();
        if let Some(averaging) = averaging {
            let since = self.chain.steps().saturating_sub(averaging.from);
            if since > 0 && since.is_multiple_of(averaging.every) {
                let (theta, model) = self.chain.theta_and_potential();
                for (part, average) in &mut self.averages {
                    model.add_kept(theta, step, *part, average)?;
                }
            }
        }
        if step.is_multiple_of(*log_every) || last {
            let record = self.training()?;
            log.record(&Record::Training(record))?;
        }
        if step.is_multiple_of(evaluation.every) || last {
            let evaluation = self.evaluate()?;
            log.record(&Record::Evaluation(evaluation.clone()))?;
            self.refuse_hopeless(&evaluation)?;
            self.choose(&evaluation, log)?;
            watch.evaluated(&evaluation);
            let (stepper, gradient) = (self.chain.stepper(), self.chain.gradient());
            let vitals = stepper.vitals(self.chain.theta(), gradient)?;
            let layers = layers(stepper, &vitals)?;
            log.record(&Record::Layers(Layers { step, epoch: evaluation.epoch, layers }))?;
            for message in self.state.warned.news(vitals.warnings()) {
                watch.warn(&message);
                log.record(&Record::Warning(Warning { step, message }))?;
            }
        }
        if step.is_multiple_of(checkpoints.every) || last || self.stopped_early() {
            self.save(log)?;
        }
        Ok(())
    }

    fn save(&self, log: &mut Log<'_>) -> Result<()> {
        log.flush()?;
        let keep = self.experiment.checkpoints.keep;
        log.folder.save(&self.checkpoint()?, self.steps(), keep)
    }

    fn training(&mut self) -> Result<Training> {
        let State { loss_sum, loss_count, .. } = &mut self.state;
        let loss = *loss_sum / (*loss_count).max(1) as f64;
        (*loss_sum, *loss_count) = (0.0, 0);
        let algorithm = self.chain.stepper().algorithm();
        let (step, of_chain) = (self.steps(), self.chain.steps());
        Ok(Training {
            step,
            epoch: self.experiment.epoch_at(step),
            loss,
            temperature: 1.0 / algorithm.beta(of_chain)?,
            stage: algorithm.stage(of_chain)?,
            seconds: self.seconds(),
        })
    }
}

/// Names a part in checkpoints and messages.
pub(super) fn name(part: Part) -> &'static str {
    match part {
        Part::Train => "train",
        Part::Validation => "validation",
        Part::Test => "test",
    }
}
