//! Models with the data that they are tried on.

use super::average::Average;
use super::calibration::calibrate;
use crate::args::Part;
use crate::data::Divided;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::run::record::{Calibration, Score};
use santa::average::Pooling;
use santa::{Batch, Potential, Target};
use santa_nn::{Classifier, Examples, PianoRolls, Scalar, SequenceModel};
use std::ops::Range;
use std::sync::Arc;

/// A potential whose predictions can be tried on data.
pub trait Model<F: Scalar>: Potential<F> {
    /// The parameters that a chain of the run begins with.
    fn initial(&self, seed: u64, chain: u32) -> Result<Vec<F>>;
    /// Whether there are data of a part.
    fn has(&self, part: Part) -> bool;
    /// How good the predictions of some parameters are.
    fn score(&mut self, theta: &[F], part: Part) -> Result<Score>;
    /// The negative log-likelihood of predictions that know nothing.
    fn ignorance(&self) -> f64;
    /// An average of predictions, empty yet.
    fn average(&self, part: Part) -> Result<Average>;
    /// Takes the predictions of some parameters into an average.
    fn add(&mut self, theta: &[F], part: Part, average: &mut Average) -> Result<()>;
    /// The same for the parameters of a step of the run. A model whose predictions are random takes
    /// in one that is a function of the step.
    fn add_kept(
        &mut self,
        theta: &[F],
        _step: u64,
        part: Part,
        average: &mut Average,
    ) -> Result<()> {
        self.add(theta, part, average)
    }
    /// The logarithms of the classes' probabilities, example by example; none for music.
    fn log_probabilities(&mut self, _theta: &[F], _part: Part) -> Result<Option<Vec<F>>> {
        Ok(None)
    }
    /// The right classes; none for music.
    fn labels(&self, _part: Part) -> Result<Option<Vec<usize>>> {
        Ok(None)
    }
    /// How good an averaged prediction is.
    fn score_average(&self, average: &Average, part: Part, pooling: Pooling) -> Result<Score>;
    /// How well the confidence of an averaged prediction is earned; none for music.
    fn calibration(&self, average: &Average, part: Part, pooling: Pooling) -> Option<Calibration>;

    /// What tells whether the run should end after its step: somebody pressed Ctrl-C.
    fn interruption(&self) -> Box<dyn Fn() -> bool> {
        Box::new(interrupt::requested)
    }
    /// The predictions for a share of a part, in the order of the part; none if they cannot be made in
    /// shares.
    fn predictions(&mut self, _theta: &[F], _part: Part, _share: Share) -> Result<Option<Vec<F>>> {
        Ok(None)
    }
    /// The sum of negative log-likelihoods over a share, and its number of steps, where that says more
    /// than rounded predictions do.
    fn nll_of_share(
        &mut self,
        _theta: &[F],
        _part: Part,
        _share: Share,
    ) -> Result<Option<[f64; 2]>> {
        Ok(None)
    }
    /// Takes the predictions of all shares into an average.
    fn push(&self, _predictions: &[F], _average: &mut Average) -> Result<()> {
        Err(mixed_up())
    }
}

/// The part of the data that one of several processes predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which process.
    pub rank: usize,
    /// Of how many.
    pub size: usize,
}

/// A model with the data that it is tried on. (It has its training data itself.)
pub struct WithData<M, T> {
    model: M,
    validation: Option<Arc<T>>,
    test: Arc<T>,
    /// Shares that were asked for.
    shares: Vec<(Part, Share, Arc<T>)>,
}

impl<M, T> WithData<M, T> {
    /// A model and the rest of the data that it is trained on.
    pub fn new(model: M, (validation, test): Rest<T>) -> Self {
        let validation = validation.map(Arc::new);
        WithData { model, validation, test: Arc::new(test), shares: Vec::new() }
    }

    fn has_data(&self, part: Part) -> bool {
        part != Part::Validation || self.validation.is_some()
    }

    fn data(&self, part: Part, train: impl Fn(&M) -> T) -> Result<Arc<T>> {
        match part {
            Part::Train => Ok(Arc::new(train(&self.model))),
            Part::Validation => self.validation.clone().ok_or_else(|| {
                Failure::usage("there are no validation data")
                    .hint("set `data.validation` to their number")
            }),
            Part::Test => Ok(self.test.clone()),
        }
    }

    /// A share of some data, cut out once.
    fn share(
        &mut self,
        data: &T,
        part: Part,
        share: Share,
        len: usize,
        cut: impl Fn(&T, Range<usize>) -> santa::Result<T>,
    ) -> Result<Option<Arc<T>>> {
        let range = santa_distributed::ordered::share(len, share.rank, share.size);
        if range.is_empty() {
            return Ok(None);
        }
        let known = self.shares.iter().find(|(p, s, _)| (*p, *s) == (part, share));
        if let Some((.., data)) = known {
            return Ok(Some(data.clone()));
        }
        let data = Arc::new(cut(data, range)?);
        self.shares.push((part, share, data.clone()));
        Ok(Some(data))
    }
}

impl<F: Scalar, M: Potential<F>, T> Potential<F> for WithData<M, T> {
    fn target(&self) -> &Target {
        self.model.target()
    }
    fn loss_gradient(
        &mut self,
        theta: &[F],
        batch: &Batch<'_>,
        gradient: &mut [F],
    ) -> santa::Result<f64> {
        self.model.loss_gradient(theta, batch, gradient)
    }
    fn loss(&mut self, theta: &[F], batch: &Batch<'_>) -> santa::Result<f64> {
        self.model.loss(theta, batch)
    }
    fn loss_gradient_pieces<'g>(
        &mut self,
        theta: &[F],
        batch: &Batch<'_>,
        gradient: &'g mut [F],
        ready: &mut dyn FnMut(usize, &'g mut [F]),
    ) -> santa::Result<f64> {
        self.model.loss_gradient_pieces(theta, batch, gradient, ready)
    }
    fn weight(&self, batch: &Batch<'_>) -> f64 {
        self.model.weight(batch)
    }
    fn energy(&mut self, theta: &[F]) -> santa::Result<f64> {
        self.model.energy(theta)
    }
    fn state(&self) -> Vec<(&'static str, Vec<F>)> {
        self.model.state()
    }
    fn restore(&mut self, state: &[(String, Vec<F>)]) -> santa::Result<()> {
        self.model.restore(state)
    }
}

/// A classifier and its data.
pub type ImageModel<F> = WithData<Classifier<F>, Examples>;

impl<F: Scalar> ImageModel<F> {
    fn examples(&self, part: Part) -> Result<Arc<Examples>> {
        self.data(part, |model| model.examples().clone())
    }
}

impl<F: Scalar> Model<F> for ImageModel<F> {
    fn initial(&self, seed: u64, chain: u32) -> Result<Vec<F>> {
        Ok(self.model.initial(seed, chain).to_vec())
    }
    fn has(&self, part: Part) -> bool {
        self.has_data(part)
    }
    fn score(&mut self, theta: &[F], part: Part) -> Result<Score> {
        let examples = self.examples(part)?;
        let evaluation = self.model.evaluate(theta, &examples)?;
        Ok(Score { nll: evaluation.nll, error: Some(evaluation.error) })
    }
    fn ignorance(&self) -> f64 {
        (self.model.network().classes() as f64).ln()
    }
    fn average(&self, part: Part) -> Result<Average> {
        Average::classes(self.examples(part)?.len(), self.model.network().classes())
    }
    fn add(&mut self, theta: &[F], part: Part, average: &mut Average) -> Result<()> {
        let examples = self.examples(part)?;
        average.push_log(&self.model.log_probabilities(theta, &examples)?)
    }
    fn log_probabilities(&mut self, theta: &[F], part: Part) -> Result<Option<Vec<F>>> {
        let examples = self.examples(part)?;
        Ok(Some(self.model.log_probabilities(theta, &examples)?))
    }
    fn labels(&self, part: Part) -> Result<Option<Vec<usize>>> {
        Ok(Some(self.examples(part)?.labels().collect()))
    }
    fn score_average(&self, average: &Average, part: Part, pooling: Pooling) -> Result<Score> {
        let Average::Classes(average) = average else { return Err(mixed_up()) };
        let labels: Vec<usize> = self.examples(part)?.labels().collect();
        let nll = average.nll(&labels, pooling)?;
        Ok(Score { nll, error: Some(average.error(&labels, pooling)?) })
    }
    fn calibration(&self, average: &Average, part: Part, pooling: Pooling) -> Option<Calibration> {
        let Average::Classes(average) = average else { return None };
        let examples = self.examples(part).ok()?;
        calibrate(&average.probabilities(pooling)?, examples.labels())
    }
    fn predictions(&mut self, theta: &[F], part: Part, share: Share) -> Result<Option<Vec<F>>> {
        let all = self.examples(part)?;
        let select = |all: &Examples, range: Range<usize>| {
            all.select(&(range.start as u32..range.end as u32).collect::<Vec<_>>())
        };
        match self.share(&all, part, share, all.len(), select)? {
            Some(examples) => Ok(Some(self.model.log_probabilities(theta, &examples)?)),
            None => Ok(Some(Vec::new())),
        }
    }
    fn push(&self, predictions: &[F], average: &mut Average) -> Result<()> {
        average.push_log(predictions)
    }
}

fn mixed_up() -> Failure {
    Failure::data("an average of other predictions")
}

/// A recurrent network and its data.
pub type MusicModel<F> = WithData<SequenceModel<F>, PianoRolls>;

impl<F: Scalar> MusicModel<F> {
    fn rolls(&self, part: Part) -> Result<Arc<PianoRolls>> {
        self.data(part, |model| model.rolls().clone())
    }
}

impl<F: Scalar> Model<F> for MusicModel<F> {
    fn initial(&self, seed: u64, chain: u32) -> Result<Vec<F>> {
        Ok(self.model.initial(seed, chain).to_vec())
    }
    fn has(&self, part: Part) -> bool {
        self.has_data(part)
    }
    fn score(&mut self, theta: &[F], part: Part) -> Result<Score> {
        let rolls = self.rolls(part)?;
        Ok(Score { nll: self.model.nll(theta, &rolls)?.per_step(), error: None })
    }
    fn ignorance(&self) -> f64 {
        self.model.rolls().keys() as f64 * std::f64::consts::LN_2
    }
    fn average(&self, part: Part) -> Result<Average> {
        let rolls = self.rolls(part)?;
        Average::keys(rolls.steps() * rolls.keys())
    }
    fn add(&mut self, theta: &[F], part: Part, average: &mut Average) -> Result<()> {
        let rolls = self.rolls(part)?;
        average.push(&self.model.probabilities(theta, &rolls)?)
    }
    fn score_average(&self, average: &Average, part: Part, _: Pooling) -> Result<Score> {
        let Average::Keys(average) = average else { return Err(mixed_up()) };
        let mean = average.mean().ok_or_else(mixed_up)?;
        let nll = self.rolls(part)?.nll_of_probabilities(&mean)?;
        Ok(Score { nll: nll.per_step(), error: None })
    }
    fn calibration(&self, _: &Average, _: Part, _: Pooling) -> Option<Calibration> {
        None
    }
    fn predictions(&mut self, theta: &[F], part: Part, share: Share) -> Result<Option<Vec<F>>> {
        let all = self.rolls(part)?;
        match self.share(&all, part, share, all.len(), PianoRolls::select)? {
            Some(rolls) => Ok(Some(self.model.probabilities(theta, &rolls)?)),
            None => Ok(Some(Vec::new())),
        }
    }
    fn nll_of_share(&mut self, theta: &[F], part: Part, share: Share) -> Result<Option<[f64; 2]>> {
        let all = self.rolls(part)?;
        let Some(rolls) = self.share(&all, part, share, all.len(), PianoRolls::select)? else {
            return Ok(Some([0.0; 2]));
        };
        Ok(Some([self.model.nll(theta, &rolls)?.sum, rolls.steps() as f64]))
    }
    fn push(&self, predictions: &[F], average: &mut Average) -> Result<()> {
        average.push(predictions)
    }
}

/// What is left of a data set once its training part has gone into a model.
pub type Rest<T> = (Option<T>, T);

impl<T> Divided<T> {
    /// The training part, and the rest.
    pub fn take_apart(self) -> (T, Rest<T>) {
        (self.train, (self.validation, self.test))
    }
}
