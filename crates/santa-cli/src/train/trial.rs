//! Trying what a run has learnt: on data, against the best so far, and at its end.

use super::average::Average;
use super::log::Log;
use super::model::Model;
use super::trainer::{Trainer, name};
use super::trouble::hopeless;
use crate::args::Part;
use crate::experiment::{BestBy, Experiment, Judged};
use crate::failure::{Failure, Kind, Result};
use crate::run::record::{
    Averaged, Best, Calibration, Evaluation, MOST_WRONG, Score, Scores, Status, Summary,
};
use santa::average::Pooling;
use santa_nn::Scalar;

impl<F: Scalar, M: Model<F>> Trainer<'_, F, M> {
    /// Tries the present parameters and the averages on the data.
    pub(super) fn evaluate(&mut self) -> Result<Evaluation> {
        let mut last = Scores::default();
        let (theta, model) = self.chain.theta_and_potential();
        for part in parts(self.experiment, model) {
            *slot(&mut last, part) = Some(model.score(theta, part)?);
        }
        let mut averaged = None;
        let pooling = self.pooling();
        for (part, average) in self.averages.iter().filter(|(_, average)| average.count() > 0) {
            let Averaged { scores, .. } = averaged
                .get_or_insert(Averaged { count: average.count(), scores: Scores::default() });
            let model = self.chain.potential();
            *slot(scores, *part) = Some(model.score_average(average, *part, pooling)?);
        }
        let step = self.steps();
        let (epoch, seconds) = (self.experiment.epoch_at(step), self.seconds());
        Ok(Evaluation { step, epoch, last, averaged, seconds })
    }

    pub(super) fn refuse_hopeless(&self, evaluation: &Evaluation) -> Result<()> {
        let ignorance = self.chain.potential().ignorance();
        let Scores { validation, test } = &evaluation.last;
        for (part, score) in [(Part::Validation, validation), (Part::Test, test)] {
            let Some(score) = score else { continue };
            if let Some(what) = hopeless(name(part), score.nll, ignorance) {
                return Err(Failure::new(Kind::Numerical, what));
            }
        }
        Ok(())
    }

    fn pooling(&self) -> Pooling {
        self.experiment.averaging.map(|averaging| averaging.pooling).unwrap_or_default()
    }

    /// Keeps the parameters, and notes the average, if they are the best on validation data so far.
    pub(super) fn choose(&mut self, evaluation: &Evaluation, log: &mut Log<'_>) -> Result<()> {
        let by = |score: &Score| {
            let value = match self.experiment.evaluation.best_by {
                BestBy::Error => score.error.unwrap_or(score.nll),
                BestBy::Nll => score.nll,
            };
            // What is no number is worse than any.
            if value.is_finite() { value } else { f64::INFINITY }
        };
        let is_better = |now: &Score, before: Option<Best>| {
            let before = before.and_then(|best| best.scores.validation);
            before.is_none_or(|before| by(now) < by(&before))
        };
        let Some(now) = &evaluation.last.validation else { return Ok(()) };
        let better = is_better(now, self.state.best);
        let rule = self.experiment.early_stopping.map(|rule| rule.by).unwrap_or_default();
        if rule == Judged::Last {
            self.lose_patience(!better);
        }
        let Evaluation { step, epoch, last, averaged, .. } = *evaluation;
        // An average that has taken nothing in since it was judged is not judged again.
        let average = averaged.filter(|average| average.count > self.state.judged);
        if let Some((Averaged { count, scores }, now)) =
            average.and_then(|average| Some((average, average.scores.validation?)))
        {
            let better = is_better(&now, self.state.best_averaged);
            if rule == Judged::Averaged {
                self.lose_patience(!better);
            }
            if better {
                self.state.best_averaged = Some(Best { step, epoch, scores });
            }
            self.state.judged = count;
        }
        if better {
            self.state.best = Some(Best { step, epoch, scores: last });
            log.folder.save_best(&self.chain.checkpoint()?)?;
        }
        Ok(())
    }

    fn lose_patience(&mut self, stale: bool) {
        self.state.stale = if stale { self.state.stale + 1 } else { 0 };
    }

    pub(super) fn finish(&mut self) -> Result<Summary> {
        let evaluation = self.evaluate()?;
        let calibrations = self.calibrations()?;
        let Evaluation { step, epoch, last, averaged, seconds } = evaluation;
        Ok(Summary {
            name: self.experiment.name.clone(),
            optimizer: self.experiment.optimizer.name.clone(),
            seed: self.experiment.seed,
            status: match step < self.experiment.steps() {
                true => Status::StoppedEarly,
                false => Status::Finished,
            },
            steps: step,
            epochs: epoch,
            parameters: self.chain.theta().len() as u64,
            seconds,
            last,
            averaged,
            best: self.state.best,
            best_averaged: self.state.best_averaged,
            calibration_last: calibrations.0,
            calibration_averaged: calibrations.1,
            wrong_averaged: self.wrong_averaged()?,
        })
    }

    /// Of the last parameters and of the average, on test data.
    fn calibrations(&mut self) -> Result<(Option<Calibration>, Option<Calibration>)> {
        if !self.experiment.evaluation.test || self.experiment.data.set.is_music() {
            return Ok((None, None));
        }
        let pooling = self.pooling();
        let (theta, model) = self.chain.theta_and_potential();
        let mut last = model.average(Part::Test)?;
        model.add(theta, Part::Test, &mut last)?;
        let last = model.calibration(&last, Part::Test, pooling);
        let mut averages = self.averages.iter();
        let average = averages.find(|(part, a)| *part == Part::Test && a.count() > 0);
        let average = average.and_then(|(part, a)| model.calibration(a, *part, pooling));
        Ok((last, average))
    }
    /// The test examples that the average gets wrong, if there are few.
    fn wrong_averaged(&self) -> Result<Option<Vec<u32>>> {
        let average = self.averages.iter().find(|(part, a)| *part == Part::Test && a.count() > 0);
        let Some((_, Average::Classes(average))) = average else { return Ok(None) };
        let Some(labels) = self.chain.potential().labels(Part::Test)? else { return Ok(None) };
        let wrong = average.wrong(&labels, self.pooling())?;
        Ok((wrong.len() <= MOST_WRONG).then(|| wrong.into_iter().map(|i| i as u32).collect()))
    }
}

/// The parts of the data that are looked at.
pub(super) fn parts<F: Scalar>(experiment: &Experiment, model: &impl Model<F>) -> Vec<Part> {
    let wanted = |part: &Part| match part {
        Part::Train => false,
        Part::Validation => model.has(*part),
        Part::Test => experiment.evaluation.test,
    };
    [Part::Validation, Part::Test].into_iter().filter(wanted).collect()
}

fn slot(scores: &mut Scores, part: Part) -> &mut Option<Score> {
    match part {
        Part::Validation => &mut scores.validation,
        Part::Train | Part::Test => &mut scores.test,
    }
}
