//! What a run writes down: a line of `metrics.jsonl` for each event, and `summary.json` at its end.
//! Names of fields are part of the interface.

pub use santa_posterior::predict::Bin;

use santa::Stage;
use serde::{Deserialize, Deserializer, Serialize};

/// A line of `metrics.jsonl`, told apart by its field `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// Some steps of training.
    Training(Training),
    /// Predictions were tried on data.
    Evaluation(Evaluation),
    /// The parameters and their momenta, layer by layer.
    Layers(Layers),
    /// Something that a person should know.
    Warning(Warning),
}

impl Record {
    /// The step after which it was written.
    pub fn step(&self) -> u64 {
        match self {
            Record::Training(r) => r.step,
            Record::Evaluation(r) => r.step,
            Record::Layers(r) => r.step,
            Record::Warning(r) => r.step,
        }
    }
}

/// The steps since the last such record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Steps made.
    pub step: u64,
    /// Passes over the training data made, with their fraction.
    pub epoch: f64,
    /// Mean of the batches' losses since the last record.
    #[serde(deserialize_with = "null_is_nan")]
    pub loss: f64,
    /// $1/\beta_t$ of the last step; 0 when it refined.
    #[serde(deserialize_with = "null_is_nan")]
    pub temperature: f64,
    /// What the last step did.
    pub stage: Stage,
    /// Seconds of training and evaluation so far, over all resumes.
    pub seconds: f64,
}

/// JSON has no NaN and no infinity: both are written as null.
fn null_is_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// The same for a number that is left out if there is none.
fn null_is_some_nan<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    null_is_nan(from).map(Some)
}

/// The same for some numbers that may be missing altogether.
fn nulls_are_nan<'de, D: Deserializer<'de>, const N: usize>(
    from: D,
) -> Result<Option<[f64; N]>, D::Error>
where
    [Option<f64>; N]: Deserialize<'de>,
{
    let numbers: Option<[Option<f64>; N]> = Option::deserialize(from)?;
    Ok(numbers.map(|numbers| numbers.map(|x| x.unwrap_or(f64::NAN))))
}

/// How good predictions are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Mean negative log-likelihood: per example, or per time step of music.
    #[serde(deserialize_with = "null_is_nan")]
    pub nll: f64,
    /// Share of wrong classes; none for music.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
}

/// Scores on the parts of the data that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// On data held out of training, for choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Score>,
    /// On test data, for reporting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Score>,
}

/// Scores of an averaged prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Averaged {
    /// Predictions in the average.
    pub count: u64,
    /// Its scores.
    #[serde(flatten)]
    pub scores: Scores,
}

/// Predictions tried on data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Steps made.
    pub step: u64,
    /// Passes over the training data made, with their fraction.
    pub epoch: f64,
    /// The present parameters.
    pub last: Scores,
    /// The average of predictions so far, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub averaged: Option<Averaged>,
    /// Seconds of training and evaluation so far, over all resumes.
    pub seconds: f64,
}

/// Where the quantiles of [`Layer::momentum`] lie.
pub const QUANTILES: [f64; 7] = [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0];

/// The parameters and their momenta.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layers {
    /// Steps made.
    pub step: u64,
    /// Passes over the training data made, with their fraction.
    pub epoch: f64,
    /// One for each tensor that moves.
    pub layers: Vec<Layer>,
}

/// One tensor of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Its name in the layout.
    pub name: String,
    /// Root mean square of the parameters.
    #[serde(deserialize_with = "null_is_nan")]
    pub theta_rms: f64,
    /// Root mean square of the last batch's gradient.
    #[serde(deserialize_with = "null_is_nan")]
    pub gradient_rms: f64,
    /// Mean of u²/η, for dynamics with a momentum: the temperature, if all is well.
    #[serde(
        default,
        deserialize_with = "null_is_some_nan",
        skip_serializing_if = "Option::is_none"
    )]
    pub kinetic_temperature: Option<f64>,
    /// Quantiles of the share of the momentum that survives a step, at [`QUANTILES`]: e^-alpha for
    /// the splitting, 1 - alpha for Euler. For dynamics with a friction alone.
    #[serde(default, deserialize_with = "nulls_are_nan", skip_serializing_if = "Option::is_none")]
    pub momentum: Option<[f64; 7]>,
}

/// Something that a person should know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// Steps made.
    pub step: u64,
    /// In a sentence.
    pub message: String,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All epochs.
    Finished,
    /// No progress on validation data for as long as was allowed.
    StoppedEarly,
}

/// What was best on validation data: parameters, or the average of predictions as it then was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Steps made by then.
    pub step: u64,
    /// Passes over the training data made by then.
    pub epoch: f64,
    /// Their scores.
    #[serde(flatten)]
    pub scores: Scores,
}

/// How often predictions of some confidence come true, on test data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Mean of |accuracy - confidence|, weighted by count: the expected calibration error.
    #[serde(deserialize_with = "null_is_nan")]
    pub expected_error: f64,
    /// Equal intervals of confidence from 0 to 1; empty ones are there with a count of 0.
    pub bins: Vec<Bin>,
}

/// `summary.json`: written when a run is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the experiment.
    pub name: String,
    /// Name of the optimizer.
    pub optimizer: String,
    /// The seed.
    pub seed: u64,
    /// How it ended.
    pub status: Status,
    /// Steps made.
    pub steps: u64,
    /// Passes over the training data made.
    pub epochs: f64,
    /// Parameters of the model.
    pub parameters: u64,
    /// Seconds of training and evaluation, over all resumes.
    pub seconds: f64,
    /// The last parameters.
    pub last: Scores,
    /// The averaged prediction, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub averaged: Option<Averaged>,
    /// The parameters that were best on validation data, if there are such data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// The averaged prediction as it was when it was best on validation data, if there are such data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_averaged: Option<Best>,
    /// Of the last parameters; classifiers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration_last: Option<Calibration>,
    /// Of the averaged prediction; classifiers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration_averaged: Option<Calibration>,
    /// Test examples that the averaged prediction takes for something else, by their places in the test
    /// set; classifiers alone, and unless they are more than [`MOST_WRONG`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong_averaged: Option<Vec<u32>>,
}

/// Wrong examples are listed up to this number.
pub const MOST_WRONG: usize = 1_000;

/// `run.json`: what made the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of `santa`.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// When it began, in UTC.
    pub started: String,
    /// On what.
    pub machine: Machine,
}

/// A computer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system.
    pub os: String,
    /// Architecture.
    pub arch: String,
    /// Name of the processor, where it can be found.
    pub cpu: String,
    /// Threads that the run used.
    pub threads: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_can_be_read_back() {
        let nan = f64::NAN;
        let layer = Layer {
            name: "dense1.weight".into(),
            theta_rms: nan,
            gradient_rms: f64::INFINITY,
            kinetic_temperature: Some(nan),
            momentum: Some([0.0, 1.0, nan, 3.0, 4.0, 5.0, f64::INFINITY]),
        };
        let training =
            Training { step: 1, epoch: 0.5, loss: nan, temperature: f64::INFINITY, ..training() };
        for record in [
            Record::Layers(Layers { step: 1, epoch: 0.5, layers: vec![layer] }),
            Record::Training(training),
        ] {
            let text = serde_json::to_string(&record).unwrap();
            let again: Record = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&again).unwrap(), text);
            let Record::Layers(Layers { layers, .. }) = again else { continue };
            let momentum = layers[0].momentum.unwrap();
            assert!(momentum[2].is_nan() && momentum[3] == 3.0);
        }
        let bare = r#"{"name": "a", "theta_rms": 1.0, "gradient_rms": 1.0}"#;
        assert_eq!(serde_json::from_str::<Layer>(bare).unwrap().momentum, None);
    }

    fn training() -> Training {
        let stage = Stage::Refining;
        Training { step: 0, epoch: 0.0, loss: 0.0, temperature: 0.0, stage, seconds: 0.0 }
    }
}
