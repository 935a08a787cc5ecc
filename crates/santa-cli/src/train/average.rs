//! Averages of predictions: of classes, or of keys.

use crate::failure::{Failure, Result};
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

    /// Takes log-probabilities in.
    pub fn push_log<F: Real>(&mut self, values: &[F]) -> Result<()> {
        match self {
            Average::Classes(average) => Ok(average.push(values, 1.0)?),
            Average::Keys(average) => {
                let values: Vec<f64> = values.iter().map(|x| x.to_f64().exp()).collect();
                Ok(average.push(&values, 1.0)?)
            }
        }
    }
    /// Takes probabilities in.
    pub fn push<F: Real>(&mut self, values: &[F]) -> Result<()> {
        match self {
            Average::Classes(average) => Ok(average.push_probabilities(values, 1.0)?),
            Average::Keys(average) => {
                let values: Vec<f64> = values.iter().map(|x| x.to_f64()).collect();
                Ok(average.push(&values, 1.0)?)
            }
        }
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
