//! Averages that grow with a run: of the parameters, and of predictions.
//!
//! A chain that explores is worth more than its last state. [`PredictionAverage`] keeps the mean
//! prediction of the states it passes through (an ensemble, in the memory of one), and
//! [`IterateAverage`] the mean of the states themselves. Both count in `f64`.

use crate::error::{Error, Result, check};
use crate::real::Real;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// How an [`IterateAverage`] weighs its states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Averaging {
    /// All alike.
    #[default]
    Uniform,
    /// By the weight given with each, usually its step size: $\sum_t w_t \theta_t / \sum_t w_t$.
    StepWeighted,
    /// The recent ones more: the weight of a state falls by `decay` with each that follows.
    Exponential {
        /// In [0, 1).
        decay: f64,
    },
}

/// The mean of the states of a chain.
///
/// ```
/// use santa::average::{Averaging, IterateAverage};
///
/// let mut average = IterateAverage::<f32>::new(2, Averaging::StepWeighted)?;
/// average.push(&[1.0, 0.0], 3.0)?;
/// average.push(&[5.0, 4.0], 1.0)?;
/// assert_eq!(average.mean(), Some(vec![2.0, 1.0]));
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct IterateAverage<F> {
    averaging: Averaging,
    state: AverageState,
    element: PhantomData<F>,
}

/// What a checkpoint keeps of an average.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AverageState {
    /// States taken in.
    pub count: u64,
    /// The weights' sum, as the averaging counts them.
    pub weight: f64,
    /// The mean so far; zeros before the first.
    pub mean: Vec<f64>,
}

impl AverageState {
    fn new(len: usize) -> Self {
        AverageState { count: 0, weight: 0.0, mean: vec![0.0; len] }
    }

    /// The share of the mean that the next values get.
    fn next_share(&mut self, weight: f64, decay: f64) -> f64 {
        self.count += 1;
        self.weight = decay * self.weight + weight;
        weight / self.weight
    }

    fn blend(&mut self, share: f64, values: impl Iterator<Item = f64>) {
        for (mean, value) in self.mean.iter_mut().zip(values) {
            *mean += share * (value - *mean);
        }
    }

    /// Refuses a state that is no average of `len` numbers.
    fn check(&self, what: &str, len: usize) -> Result<()> {
        let refuse = |why: String| {
            Err(Error::Checkpoint { path: None, reason: format!("the {what} {why}") })
        };
        if self.mean.len() != len {
            return refuse(format!("has {} elements, here it has {len}", self.mean.len()));
        }
        if let Some(x) = self.mean.iter().find(|x| !x.is_finite()) {
            return refuse(format!("contains {x}"));
        }
        let begun = self.count > 0;
        if !self.weight.is_finite() || begun != (self.weight > 0.0) {
            return refuse(format!("has weight {} after {} states", self.weight, self.count));
        }
        Ok(())
    }
}

impl<F: Real> IterateAverage<F> {
    /// An average of `dim` parameters, empty yet.
    pub fn new(dim: usize, averaging: Averaging) -> Result<Self> {
        if let Averaging::Exponential { decay } = averaging {
            check::fraction("averaging.decay", decay)?;
        }
        Ok(IterateAverage { averaging, state: AverageState::new(dim), element: PhantomData })
    }

    /// Takes a state in. The weight counts for [`Averaging::StepWeighted`] alone; the others only
    /// ask that it be positive, so that the same loop serves all.
    pub fn push(&mut self, theta: &[F], weight: f64) -> Result<()> {
        check::positive("weight", weight)?;
        let expected = self.state.mean.len();
        if theta.len() != expected {
            return Err(Error::Length { what: "theta", expected, found: theta.len() });
        }
        if let Some(i) = theta.iter().position(|x| !x.is_finite()) {
            return Err(Error::Structure(format!(
                "theta[{i}] is {}, which an average would never get rid of; leave this state out",
                theta[i]
            )));
        }
        let (weight, decay) = match self.averaging {
            Averaging::Uniform => (1.0, 1.0),
            Averaging::StepWeighted => (weight, 1.0),
            Averaging::Exponential { decay } => (1.0 - decay, decay),
        };
        let share = self.state.next_share(weight, decay);
        self.state.blend(share, theta.iter().map(|x| x.to_f64()));
        Ok(())
    }

    /// The mean, once there is one.
    pub fn mean(&self) -> Option<Vec<F>> {
        (self.count() > 0).then(|| self.state.mean.iter().map(|x| F::from_f64(*x)).collect())
    }
    /// States taken in.
    pub fn count(&self) -> u64 {
        self.state.count
    }
    /// How states are weighed.
    pub fn averaging(&self) -> Averaging {
        self.averaging
    }
    /// What a checkpoint must keep.
    pub fn state(&self) -> &AverageState {
        &self.state
    }
    /// Goes on from what a checkpoint kept.
    pub fn restore(&mut self, state: AverageState) -> Result<()> {
        state.check("average of theta", self.state.mean.len())?;
        self.state = state;
        Ok(())
    }
}

/// What is averaged when predictions are pooled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// Probabilities: the posterior predictive.
    #[default]
    Probabilities,
    /// Log-probabilities, normalised afterwards: the geometric mean.
    LogProbabilities,
}

/// The mean of the predictions for `rows` inputs among `classes` classes.
///
/// ```
/// use santa::average::{Pooling, PredictionAverage};
///
/// let mut average = PredictionAverage::new(1, 2)?;
/// average.push(&[0.9f64.ln(), 0.1f64.ln()], 1.0)?;
/// average.push(&[0.5f64.ln(), 0.5f64.ln()], 1.0)?;
/// let p = average.probabilities(Pooling::Probabilities).unwrap();
/// assert!((p[0] - 0.7).abs() < 1e-12);
/// assert_eq!(average.error(&[0u8], Pooling::Probabilities)?, 0.0);
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PredictionAverage {
    rows: usize,
    classes: usize,
    state: PredictionState,
}

/// What a checkpoint keeps of a [`PredictionAverage`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictionState {
    /// Of the probabilities, row by row.
    pub probabilities: AverageState,
    /// Of the log-probabilities, row by row.
    pub log_probabilities: AverageState,
}

/// The logarithm below which a probability counts as this: that of the smallest normal `f64`, so
/// that a probability of zero does not make a mean of logarithms infinite for ever.
const LOG_FLOOR: f64 = -708.396_418_532_264_1;
/// How far a row's sum may be from 1; enough for `f32` and thousands of classes.
const SUM_TOLERANCE: f64 = 1e-2;

impl PredictionAverage {
    /// An average for `rows` inputs, empty yet.
    pub fn new(rows: usize, classes: usize) -> Result<Self> {
        let Some(len) = rows.checked_mul(classes).filter(|len| *len > 0) else {
            return Err(Error::Structure(format!(
                "predictions of {rows} inputs among {classes} classes: there must be some of both"
            )));
        };
        let state = PredictionState {
            probabilities: AverageState::new(len),
            log_probabilities: AverageState::new(len),
        };
        Ok(PredictionAverage { rows, classes, state })
    }

    /// Takes in the log-probabilities of all inputs, row by row (a log-softmax, not raw scores:
    /// rows whose probabilities do not add up to 1 are refused).
    pub fn push<F: Real>(&mut self, log_probabilities: &[F], weight: f64) -> Result<()> {
        self.take(log_probabilities, weight, f64::exp, |log_p| log_p)
    }

    /// The same from probabilities.
    pub fn push_probabilities<F: Real>(&mut self, probabilities: &[F], weight: f64) -> Result<()> {
        self.take(probabilities, weight, |p| p, f64::ln)
    }

    fn take<F: Real>(
        &mut self,
        values: &[F],
        weight: f64,
        p: impl Fn(f64) -> f64,
        log_p: impl Fn(f64) -> f64,
    ) -> Result<()> {
        check::positive("weight", weight)?;
        if values.len() != self.rows * self.classes {
            return Err(Error::Structure(format!(
                "there are {} predictions; {} inputs among {} classes need {}",
                values.len(),
                self.rows,
                self.classes,
                self.rows * self.classes
            )));
        }
        for (i, row) in values.chunks_exact(self.classes).enumerate() {
            let sum: f64 = row.iter().map(|x| p(x.to_f64())).sum();
            let negative = row.iter().any(|x| p(x.to_f64()) < 0.0);
            if negative || sum.is_nan() || (sum - 1.0).abs() > SUM_TOLERANCE {
                return Err(Error::Structure(format!(
                    "the prediction of input {i} is no distribution (its sum is {sum}); \
                     give normalised probabilities, or their logarithms to `push`"
                )));
            }
        }
        let PredictionState { probabilities, log_probabilities } = &mut self.state;
        let share = probabilities.next_share(weight, 1.0);
        probabilities.blend(share, values.iter().map(|x| p(x.to_f64())));
        let share = log_probabilities.next_share(weight, 1.0);
        log_probabilities.blend(share, values.iter().map(|x| log_p(x.to_f64()).max(LOG_FLOOR)));
        Ok(())
    }

    /// The pooled prediction as probabilities, row by row, once there is one.
    pub fn probabilities(&self, pooling: Pooling) -> Option<Vec<f64>> {
        if self.count() == 0 {
            return None;
        }
        Some(match pooling {
            Pooling::Probabilities => self.state.probabilities.mean.clone(),
            Pooling::LogProbabilities => {
                let mut pooled = self.state.log_probabilities.mean.clone();
                for row in pooled.chunks_exact_mut(self.classes) {
                    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    row.iter_mut().for_each(|x| *x = (*x - top).exp());
                    let sum: f64 = row.iter().sum();
                    row.iter_mut().for_each(|x| *x /= sum);
                }
                pooled
            }
        })
    }

    /// The inputs whose likeliest class is not their label, by their places; the first of equals counts.
    pub fn wrong<L: Copy + TryInto<usize>>(
        &self,
        labels: &[L],
        pooling: Pooling,
    ) -> Result<Vec<usize>> {
        let mut wrong = Vec::new();
        self.for_each_input(labels, pooling, |i, row, label| {
            let best = (1..row.len()).fold(0, |best, k| if row[k] > row[best] { k } else { best });
            wrong.extend((best != label).then_some(i));
        })?;
        Ok(wrong)
    }

    /// The share of inputs that are [wrong](PredictionAverage::wrong).
    pub fn error<L: Copy + TryInto<usize>>(&self, labels: &[L], pooling: Pooling) -> Result<f64> {
        Ok(self.wrong(labels, pooling)?.len() as f64 / self.rows as f64)
    }

    /// The mean of minus the logarithm of the label's probability.
    pub fn nll<L: Copy + TryInto<usize>>(&self, labels: &[L], pooling: Pooling) -> Result<f64> {
        let mut sum = 0.0;
        self.for_each_input(labels, pooling, |_, row, label| {
            sum -= row[label].ln().max(LOG_FLOOR);
        })?;
        Ok(sum / self.rows as f64)
    }

    /// Calls with the place of an input, its pooled prediction and its label.
    fn for_each_input<L: Copy + TryInto<usize>>(
        &self,
        labels: &[L],
        pooling: Pooling,
        mut call: impl FnMut(usize, &[f64], usize),
    ) -> Result<()> {
        if labels.len() != self.rows {
            let text = format!("there are {} labels for {} inputs", labels.len(), self.rows);
            return Err(Error::Structure(text));
        }
        let Some(pooled) = self.probabilities(pooling) else {
            return Err(Error::Structure("the average holds no prediction yet; push one".into()));
        };
        for (i, (row, label)) in pooled.chunks_exact(self.classes).zip(labels).enumerate() {
            let label: Option<usize> = (*label).try_into().ok().filter(|k| *k < self.classes);
            let label = label.ok_or_else(|| {
                Error::Structure(format!("label {i} is not among the {} classes", self.classes))
            })?;
            call(i, row, label);
        }
        Ok(())
    }

    /// Classes that it is an average over.
    pub fn classes(&self) -> usize {
        self.classes
    }
    /// Predictions taken in.
    pub fn count(&self) -> u64 {
        self.state.probabilities.count
    }
    /// What a checkpoint must keep.
    pub fn state(&self) -> &PredictionState {
        &self.state
    }
    /// Goes on from what a checkpoint kept.
    pub fn restore(&mut self, state: PredictionState) -> Result<()> {
        let len = self.rows * self.classes;
        state.probabilities.check("average of probabilities", len)?;
        state.log_probabilities.check("average of log-probabilities", len)?;
        if state.probabilities.count != state.log_probabilities.count {
            return Err(Error::Checkpoint {
                path: None,
                reason: "its averages of predictions have different counts".into(),
            });
        }
        self.state = state;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Purpose, Stream};

    const DIM: usize = 5;

    fn theta(t: u64) -> Vec<f64> {
        let mut x = vec![0.0; DIM];
        Stream::new(1, 0, Purpose::Custom(0)).normals(t, 0, 0, &mut x);
        x
    }

    /// The mean by its definition, with the weight of each state at the end.
    fn by_hand(weights: &[f64]) -> Vec<f64> {
        let total: f64 = weights.iter().sum();
        let states = || weights.iter().zip(0..).map(|(w, t)| (w, theta(t)));
        (0..DIM).map(|i| states().map(|(w, x)| w * x[i]).sum::<f64>() / total).collect()
    }

    #[test]
    fn each_averaging_is_its_definition() {
        const STATES: usize = 20;
        let step_size = |t: usize| 1.0 / (1.0 + t as f64);
        let decay = 0.7f64;
        for (averaging, weights) in [
            (Averaging::Uniform, vec![1.0; STATES]),
            (Averaging::StepWeighted, (0..STATES).map(step_size).collect()),
            (
                Averaging::Exponential { decay },
                (0..STATES).map(|t| decay.powi((STATES - 1 - t) as i32)).collect(),
            ),
        ] {
            let mut average = IterateAverage::<f64>::new(DIM, averaging).unwrap();
            assert_eq!(average.mean(), None);
            for t in 0..STATES {
                average.push(&theta(t as u64), step_size(t)).unwrap();
            }
            for (a, b) in average.mean().unwrap().iter().zip(by_hand(&weights)) {
                assert!((a - b).abs() < 1e-14, "{averaging:?}: {a} {b}");
            }
            assert_eq!(average.count(), STATES as u64);
        }
    }

    #[test]
    fn averages_resume_through_a_file_bit_for_bit() {
        let averaging = Averaging::Exponential { decay: 0.9 };
        let mut whole = IterateAverage::<f64>::new(DIM, averaging).unwrap();
        let mut resumed = whole.clone();
        for t in 0..10 {
            whole.push(&theta(t), 1.0).unwrap();
            if t == 4 {
                let text = serde_json::to_string(whole.state()).unwrap();
                resumed.restore(serde_json::from_str(&text).unwrap()).unwrap();
            } else if t > 4 {
                resumed.push(&theta(t), 1.0).unwrap();
            }
        }
        assert_eq!(whole.state(), resumed.state());
    }

    #[test]
    fn bad_states_are_refused_and_leave_the_average_alone() {
        let mut average = IterateAverage::<f64>::new(DIM, Averaging::Uniform).unwrap();
        average.push(&theta(0), 1.0).unwrap();
        let before = average.state().clone();
        assert!(average.push(&[0.0; DIM + 1], 1.0).is_err());
        assert!(average.push(&[f64::NAN; DIM], 1.0).is_err());
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(average.push(&theta(1), weight).is_err());
        }
        let with = |change: &dyn Fn(&mut AverageState)| {
            let mut state = before.clone();
            change(&mut state);
            state
        };
        for state in [
            with(&|s| s.mean.clear()),
            with(&|s| s.mean[0] = f64::NAN),
            with(&|s| s.weight = 0.0),
            with(&|s| s.count = 0),
        ] {
            assert!(average.restore(state).is_err());
        }
        assert_eq!(average.state(), &before);
        let too_slow = Averaging::Exponential { decay: 1.0 };
        assert!(IterateAverage::<f64>::new(DIM, too_slow).is_err());
    }

    #[test]
    fn both_poolings_are_their_definitions() {
        let (a, b) = ([0.9f64, 0.1, 0.2, 0.8], [0.4f64, 0.6, 0.3, 0.7]);
        let mut average = PredictionAverage::new(2, 2).unwrap();
        average.push(&a.map(f64::ln), 3.0).unwrap();
        average.push_probabilities(&b, 1.0).unwrap();
        let arithmetic = average.probabilities(Pooling::Probabilities).unwrap();
        let geometric = average.probabilities(Pooling::LogProbabilities).unwrap();
        for i in 0..4 {
            assert!((arithmetic[i] - (0.75 * a[i] + 0.25 * b[i])).abs() < 1e-15);
            let root = |i: usize| a[i].powf(0.75) * b[i].powf(0.25);
            let expected = root(i) / (root(i) + root(i ^ 1));
            assert!((geometric[i] - expected).abs() < 1e-14);
        }
        assert_eq!(average.error(&[0u8, 1], Pooling::Probabilities).unwrap(), 0.0);
        assert_eq!(average.error(&[1u32, 1], Pooling::LogProbabilities).unwrap(), 0.5);
        assert_eq!(average.wrong(&[1u32, 1], Pooling::LogProbabilities).unwrap(), [0]);
        let nll = average.nll(&[0usize, 1], Pooling::Probabilities).unwrap();
        assert!((nll + 0.5 * (arithmetic[0].ln() + arithmetic[3].ln())).abs() < 1e-15);
    }

    #[test]
    fn an_impossible_class_leaves_every_result_finite() {
        let mut average = PredictionAverage::new(1, 2).unwrap();
        average.push(&[0.0f32, f32::NEG_INFINITY], 1.0).unwrap();
        average.push_probabilities(&[1.0f32, 0.0], 1.0).unwrap();
        for pooling in [Pooling::Probabilities, Pooling::LogProbabilities] {
            assert!(average.nll(&[1u8], pooling).unwrap().is_finite());
            assert_eq!(average.nll(&[0u8], pooling).unwrap(), 0.0);
        }
    }

    #[test]
    fn bad_predictions_are_refused() {
        let mut average = PredictionAverage::new(1, 2).unwrap();
        assert!(average.error(&[0u8], Pooling::Probabilities).is_err());
        assert!(average.push(&[2.0f64, 3.0], 1.0).is_err()); // raw scores
        assert!(average.push(&[f64::NAN, 0.0], 1.0).is_err());
        assert!(average.push(&[0.0f64], 1.0).is_err());
        assert!(average.push(&[0.0, f64::NEG_INFINITY], 0.0).is_err());
        assert!(average.push_probabilities(&[-0.5f64, 1.5], 1.0).is_err());
        assert_eq!(average.count(), 0);
        average.push_probabilities(&[0.5f64, 0.5], 1.0).unwrap();
        assert!(average.error(&[2u8], Pooling::Probabilities).is_err());
        assert!(average.error(&[-1i64], Pooling::Probabilities).is_err());
        assert!(average.error(&[0u8, 0], Pooling::Probabilities).is_err());
        assert!(PredictionAverage::new(0, 2).is_err());
        assert!(PredictionAverage::new(2, 2).unwrap().restore(average.state().clone()).is_err());
        let mut other = PredictionAverage::new(1, 2).unwrap();
        other.restore(average.state().clone()).unwrap();
        assert_eq!(other.state(), average.state());
    }
}
