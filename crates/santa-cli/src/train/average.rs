//! Averages of predictions: of classes, or of keys.

use crate::failure::{Failure, Kind, Result};
use santa::Checkpoint;
use santa::Real;
use santa::average::{AverageState, Averaging, IterateAverage, PredictionAverage, PredictionState};

/// An average of predictions.
pub enum Average {
    /// One class of several, for each example.
    Classes(PredictionAverage),
    /// Each key by itself, for each step of music.
    Keys(IterateAverage<f64>),
}

impl Average {
    /// Of classes, for `rows` examples.
    pub fn classes(rows: usize, classes: usize) -> Result<Self> {
        Ok(Average::Classes(PredictionAverage::new(rows, classes)?))
    }
    /// Of `count` keys.
    pub fn keys(count: usize) -> Result<Self> {
        Ok(Average::Keys(IterateAverage::new(count, Averaging::Uniform)?))
    }

    /// Takes log-probabilities in. Those of a model that are no distribution are its divergence.
    pub fn push_log<F: Real>(&mut self, values: &[F]) -> Result<()> {
        match self {
            Average::Classes(average) => average.push(values, 1.0),
            Average::Keys(average) => {
                let values: Vec<f64> = values.iter().map(|x| x.to_f64().exp()).collect();
                average.push(&values, 1.0)
            }
        }
        .map_err(|error| no_prediction(error, values, |x| x.to_f64().exp().is_finite()))
    }
    /// Takes probabilities in. Those of a model that are no distribution are its divergence.
    pub fn push<F: Real>(&mut self, values: &[F]) -> Result<()> {
        match self {
            Average::Classes(average) => average.push_probabilities(values, 1.0),
            Average::Keys(average) => {
                let values: Vec<f64> = values.iter().map(|x| x.to_f64()).collect();
                average.push(&values, 1.0)
            }
        }
        .map_err(|error| no_prediction(error, values, |x| x.is_finite()))
    }
    /// Predictions taken in.
    pub fn count(&self) -> u64 {
        match self {
            Average::Classes(average) => average.count(),
            Average::Keys(average) => average.count(),
        }
    }

    /// Puts the average into a checkpoint.
    pub fn save(&self, name: &str, checkpoint: &mut Checkpoint) -> Result<()> {
        let mut put = |part: &str, state: &AverageState| -> Result<()> {
            let name = format!("average/{name}/{part}");
            checkpoint.insert_meta(&name, &(state.count, state.weight))?;
            checkpoint.insert_tensor(name, &[state.mean.len()], &state.mean)?;
            Ok(())
        };
        match self {
            Average::Classes(average) => {
                put("probabilities", &average.state().probabilities)?;
                put("log_probabilities", &average.state().log_probabilities)
            }
            Average::Keys(average) => put("keys", average.state()),
        }
    }

    /// Goes on from what a checkpoint kept.
    pub fn restore(&mut self, name: &str, checkpoint: &Checkpoint) -> Result<()> {
        let get = |part: &str| -> Result<AverageState> {
            let name = format!("average/{name}/{part}");
            let (count, weight) = checkpoint.meta(&name)?;
            Ok(AverageState { count, weight, mean: checkpoint.tensor(&name)? })
        };
        match self {
            Average::Classes(average) => average
                .restore(PredictionState {
                    probabilities: get("probabilities")?,
                    log_probabilities: get("log_probabilities")?,
                })
                .map_err(Failure::from),
            Average::Keys(average) => Ok(average.restore(get("keys")?)?),
        }
    }
}

/// Predictions that were refused: because they are not finite, or for another reason.
fn no_prediction<F: Real>(
    error: santa::Error,
    values: &[F],
    is_finite: impl Fn(&F) -> bool,
) -> Failure {
    let Some(bad) = values.iter().find(|x| !is_finite(x)) else { return error.into() };
    Failure::new(Kind::Numerical, format!("a prediction is {bad}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_that_are_not_finite_are_the_run_s_divergence() {
        let nan = f32::NAN;
        let kind = |result: Result<()>| result.unwrap_err().kind;
        let mut classes = Average::classes(1, 2).unwrap();
        assert_eq!(kind(classes.push_log(&[nan, nan])), Kind::Numerical);
        assert_eq!(kind(classes.push(&[0.5, nan])), Kind::Numerical);
        // A mistake of the program is none of the run's.
        assert_eq!(kind(classes.push(&[0.5f32])), Kind::Usage);
        let mut keys = Average::keys(2).unwrap();
        assert_eq!(kind(keys.push(&[nan, 0.5])), Kind::Numerical);
        assert_eq!((classes.count(), keys.count()), (0, 0));
        // An impossible class is one.
        classes.push_log(&[0.0, f32::NEG_INFINITY]).unwrap();
    }
}
