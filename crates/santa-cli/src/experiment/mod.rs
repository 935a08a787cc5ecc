//! What an experiment is: a value that is written in TOML.
//!
//! [`Draft`] reads one from a file, a built-in preset or a run's folder and takes replacements of
//! fields; [`Draft::resolve`] fills in every field, turns durations into steps, and checks it.

mod catalog;
mod draft;
mod duration;
mod optimizer;
mod places;
mod variational;
mod wording;

pub use catalog::{EXPERIMENTS, OPTIMIZERS, Preset};
pub use draft::{Draft, parse_value};
pub use variational::Variational;

use crate::failure::{Failure, Result};
use santa::average::Pooling;
use santa::{Algorithm, Clip, Group, OnTrouble, Prior, Sampling};
use santa_nn::{Architecture, GruInitialisation, Initialiser, Normalisation, Smoothness};
use serde::{Deserialize, Serialize};

/// An experiment with every field filled in. Durations are in steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Names the run's folder.
    pub name: String,
    /// For the reader.
    #[serde(default)]
    pub description: String,
    /// Of initial parameters, noise, dropout and the order of the data.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Passes over the training data.
    pub epochs: u64,
    /// Independent chains, one after the other, with an equal share of the epochs: each begins
    /// anew, with initial parameters, noise and schedules of its own, and one average takes in the
    /// predictions of all.
    #[serde(default = "one_chain", skip_serializing_if = "is_one_chain")]
    pub chains: u32,
    /// Examples of a minibatch; for music, sequences.
    #[serde(default = "default_batch")]
    pub batch: usize,
    /// Of all arithmetic.
    #[serde(default)]
    pub precision: Precision,
    /// Steps between records of the training loss.
    pub log_every: u64,
    /// What to learn from.
    pub data: Data,
    /// What learns.
    pub model: Model,
    /// What is believed beforehand. Weight decay is a Gaussian one: precision = decay * N.
    #[serde(default)]
    pub prior: Prior,
    /// Besides the prior: weights that are alike at neighbouring places of a kernel or an image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub smoothness: Vec<Smoothness>,
    /// A Gaussian for every parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variational: Option<Variational>,
    /// How it learns.
    pub optimizer: Optimizer,
    /// Bound on the gradient.
    #[serde(default)]
    pub clip: Clip,
    /// What to do about a NaN.
    #[serde(default)]
    pub on_trouble: OnTrouble,
    /// Parameters with a learning rate or prior of their own, or frozen.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// When predictions are tried on data.
    pub evaluation: Evaluation,
    /// Which predictions are averaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub averaging: Option<Averaging>,
    /// When to give up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<EarlyStopping>,
    /// When the state is saved.
    pub checkpoints: Checkpoints,
}

fn default_seed() -> u64 {
    42
}
fn one_chain() -> u32 {
    1
}
fn is_one_chain(chains: &u32) -> bool {
    *chains == 1
}
fn default_batch() -> usize {
    100
}

/// Floating-point numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Single precision.
    #[default]
    F32,
    /// Double precision.
    F64,
}

/// A data set and how it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Which one.
    pub set: Set,
    /// Training images set aside for validation. Music comes with validation data of its own.
    #[serde(default)]
    pub validation: usize,
    /// Chooses the images set aside.
    #[serde(default)]
    pub split_seed: u64,
    /// Train on so many images alone: the first ones of what is not set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Pixels, from 0 to 255, are divided by this. (The paper's authors divided by 126.)
    #[serde(default = "default_divisor")]
    pub divisor: f64,
    /// The order in which a step's examples are drawn.
    #[serde(default)]
    pub order: Sampling,
}

fn default_divisor() -> f64 {
    255.0
}

/// A data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Set {
    /// The built-in 10,000 + 2,000 digits.
    MnistSubset,
    /// All 60,000 + 10,000 digits.
    Mnist,
    /// Chorales of J. S. Bach.
    Jsb,
    /// Folk tunes.
    Nottingham,
    /// Orchestral and piano music.
    Musedata,
    /// Classical piano music.
    PianoMidi,
}

impl Set {
    /// All of them, by name.
    pub const ALL: [(&'static str, Set); 6] = [
        ("mnist-subset", Set::MnistSubset),
        ("mnist", Set::Mnist),
        ("jsb", Set::Jsb),
        ("nottingham", Set::Nottingham),
        ("musedata", Set::Musedata),
        ("piano-midi", Set::PianoMidi),
    ];

    /// The set of a name.
    pub fn by_name(name: &str) -> Result<Set> {
        Set::ALL.iter().find(|(n, _)| *n == name).map(|(_, set)| *set).ok_or_else(|| {
            crate::nearest::unknown("data set", name, Set::ALL.map(|(name, _)| name))
        })
    }

    /// Examples or sequences for training and validation by images together; music's for training.
    pub fn training_size(self) -> usize {
        match self {
            Set::MnistSubset => 10_000,
            Set::Mnist => 60_000,
            Set::Jsb => 229,
            Set::Nottingham => 694,
            Set::Musedata => 524,
            Set::PianoMidi => 87,
        }
    }

    /// Sequences, not images.
    pub fn is_music(self) -> bool {
        !matches!(self, Set::MnistSubset | Set::Mnist)
    }
}

impl Data {
    /// Examples or sequences to train on.
    pub fn training_size(&self) -> usize {
        let rest = self.set.training_size().saturating_sub(self.validation);
        self.limit.map_or(rest, |limit| limit.min(rest))
    }
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(clippy::large_enum_variant)]
pub enum Model {
    /// Fully connected layers with ReLU between them.
    Dense {
        /// Units of the hidden layers.
        hidden: Vec<usize>,
        /// Elements dropped while training.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropout: Option<Dropout>,
        /// How the weights begin.
        #[serde(default)]
        initialiser: Initialiser,
    },
    /// The convolutional network of the paper's text.
    CnnPaper {
        /// Elements dropped while training.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropout: Option<Dropout>,
    },
    /// The convolutional network of the authors' code.
    CnnAuthors {
        /// Elements dropped while training.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropout: Option<Dropout>,
    },
    /// Any feed-forward network.
    Network {
        /// Its layers.
        architecture: Architecture,
    },
    /// A gated recurrent unit, for music.
    Gru {
        /// Hidden units.
        hidden: usize,
        /// What the loss is the mean of.
        #[serde(default)]
        normalisation: Normalisation,
        /// How the weights begin.
        #[serde(default)]
        initialisation: GruInitialisation,
    },
}

/// Shares of elements dropped while training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropout {
    /// Of the inputs.
    #[serde(default)]
    pub input: f64,
    /// Of what goes into a fully connected layer that is not the first of all.
    #[serde(default)]
    pub hidden: f64,
}

impl Dropout {
    /// The network with dropout, if any is asked for.
    fn of(this: &Option<Self>, network: Architecture) -> Architecture {
        match this {
            Some(Dropout { input, hidden }) => network.with_dropout(*input, *hidden),
            None => network,
        }
    }
}

impl Model {
    /// The feed-forward network for images of `pixels` among `classes`; none for a GRU.
    pub fn architecture(&self, pixels: usize, classes: usize) -> Option<Architecture> {
        match self {
            Model::Dense { hidden, dropout, initialiser } => {
                let mut sizes = vec![pixels];
                sizes.extend(hidden);
                sizes.push(classes);
                let network = Architecture::dense(&sizes).with_initialiser(*initialiser);
                Some(Dropout::of(dropout, network))
            }
            Model::CnnPaper { dropout } => Some(Dropout::of(dropout, Architecture::paper_cnn())),
            Model::CnnAuthors { dropout } => {
                Some(Dropout::of(dropout, Architecture::authors_cnn()))
            }
            Model::Network { architecture } => Some(architecture.clone()),
            Model::Gru { .. } => None,
        }
    }
}

/// Dynamics with a name for tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Optimizer {
    /// What tables and folders call it.
    pub name: String,
    /// Its settings.
    #[serde(flatten)]
    pub algorithm: Algorithm,
}

/// When predictions are tried on data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// Steps between.
    pub every: u64,
    /// On test data, too.
    #[serde(default = "yes")]
    pub test: bool,
    /// What the best parameters are best at, on validation data.
    #[serde(default)]
    pub best_by: BestBy,
}

fn yes() -> bool {
    true
}

/// A score on validation data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BestBy {
    /// Negative log-likelihood.
    #[default]
    Nll,
    /// Share of wrong classes.
    Error,
}

/// Which predictions are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Averaging {
    /// After this step.
    pub from: u64,
    /// Every so many steps.
    pub every: u64,
    /// What is averaged.
    #[serde(default)]
    pub pooling: Pooling,
}

/// When to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyStopping {
    /// Evaluations without a better score that are put up with.
    pub patience: u64,
    /// Whose score, on validation data.
    #[serde(default, skip_serializing_if = "Judged::is_last")]
    pub by: Judged,
}

/// Which predictions are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// Those of the parameters at the time.
    #[default]
    Last,
    /// Their average so far. Until there is one, nobody loses patience.
    Averaged,
}

impl Judged {
    fn is_last(&self) -> bool {
        *self == Judged::Last
    }
}

/// When the state is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoints {
    /// Steps between.
    pub every: u64,
    /// How many are kept, beside the best.
    #[serde(default = "two")]
    pub keep: usize,
}

fn two() -> usize {
    2
}

impl Experiment {
    /// Batches of an epoch.
    pub fn steps_per_epoch(&self) -> u64 {
        steps_per_epoch(&self.data, self.batch)
    }
    /// Steps of the whole run.
    pub fn steps(&self) -> u64 {
        self.epochs * self.steps_per_epoch()
    }
    /// Steps of each chain.
    pub fn chain_steps(&self) -> u64 {
        self.steps() / u64::from(self.chains)
    }
    /// Epochs made after so many steps.
    pub fn epoch_at(&self, step: u64) -> f64 {
        step as f64 / self.steps_per_epoch() as f64
    }
    /// As TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|e| Failure::usage(format!("writing the experiment: {e}")))
    }

    /// Refuses what cannot be run, by field, value and remedy.
    fn check(&self) -> std::result::Result<(), (&'static str, String)> {
        let data = &self.data;
        let refuse = |field, text: String| Err((field, text));
        let total = data.set.training_size();
        if data.validation > 0 && data.set.is_music() {
            let text = "music comes with validation data of its own; leave it at 0";
            return refuse("data.validation", format!("it is {}: {text}", data.validation));
        }
        if data.validation >= total {
            let text = format!("it is {}, of {total} training images", data.validation);
            return refuse("data.validation", text + ": leave some to train on");
        }
        if let Some(limit) = data.limit {
            if data.set.is_music() {
                let text = format!("it is {limit}, but music is learnt whole; leave it out");
                return refuse("data.limit", text);
            }
            if limit == 0 || limit > total - data.validation {
                let left = total - data.validation;
                let text = format!("it is {limit}, of {left} images to train on");
                return refuse("data.limit", text + ": it must be at least 1 and at most all");
            }
        }
        if data.order != Sampling::Full && self.batch > data.training_size() {
            let text = format!("it is {}, of {} to train on", self.batch, data.training_size());
            return refuse("batch", text + ": it must be at most all of them");
        }
        if !(data.divisor > 0.0 && data.divisor.is_finite()) {
            return refuse("data.divisor", format!("it is {}: it must be positive", data.divisor));
        }
        let has_validation = data.validation > 0 || data.set.is_music();
        if self.early_stopping.is_some() && !has_validation {
            let text = "there are no validation data to stop by; set `data.validation`";
            return refuse("early_stopping", text.into());
        }
        if matches!(self.model, Model::Gru { .. }) != data.set.is_music() {
            let text = "a `gru` is for music, the other models are for images";
            return refuse("model.kind", format!("it does not fit the data set: {text}"));
        }
        if data.set.is_music() && self.evaluation.best_by == BestBy::Error {
            let text = "music has no error; leave it at `nll`";
            return refuse("evaluation.best_by", text.into());
        }
        if !self.smoothness.is_empty() && self.variational.is_some() {
            let text = "`variational.prior` takes its place; leave it out";
            return refuse("smoothness", text.into());
        }
        if data.set.is_music() {
            if !self.smoothness.is_empty() {
                let text = "it is for networks that see images, not for music; leave it out";
                return refuse("smoothness", text.into());
            }
            if data.divisor != default_divisor() {
                let text = format!("it is {}, but music has no pixels to divide", data.divisor);
                return refuse("data.divisor", text + "; leave it out");
            }
            if data.split_seed != 0 {
                let text = format!("it is {}, but nothing is split off music", data.split_seed);
                return refuse("data.split_seed", text + "; leave it out");
            }
        }
        if let Some(variational) = &self.variational {
            variational.check(self)?;
        }
        if let Some(averaging) = self.averaging {
            if averaging.from >= self.chain_steps() {
                let text = format!("it is step {} of {}", averaging.from, self.chain_steps());
                let end = if self.chains == 1 { "of the run" } else { "of each chain" };
                return refuse("averaging.from", format!("{text}: begin before the end {end}"));
            }
            if data.set.is_music() && averaging.pooling != Pooling::Probabilities {
                let text = "it is `log_probabilities`, but of music probabilities alone are averaged; \
                            leave it at `probabilities`";
                return refuse("averaging.pooling", text.into());
            }
        }
        if self.early_stopping.is_some() && self.chains != 1 {
            let text = "it would end the run before its last chain begins; leave out either it or \
                        `chains`";
            return refuse("early_stopping", text.into());
        }
        if self.early_stopping.is_some_and(|rule| rule.patience == 0) {
            let text = "it is 0: put up with at least 1 evaluation that is no better";
            return refuse("early_stopping.patience", text.into());
        }
        let averaged = |rule: EarlyStopping| rule.by == Judged::Averaged;
        if self.early_stopping.is_some_and(averaged) && self.averaging.is_none() {
            let text = "it is `averaged`, but nothing is averaged; set `averaging.from` and \
                        `averaging.every`";
            return refuse("early_stopping.by", text.into());
        }
        if self.checkpoints.keep == 0 {
            return refuse("checkpoints.keep", "it is 0: keep at least 1 to resume from".into());
        }
        if self.name.is_empty() || self.name.contains(['/', '\\']) || self.name.starts_with('.') {
            let text = format!("it is `{}`: it names a folder, so no slashes or dots", self.name);
            return refuse("name", text);
        }
        Ok(())
    }
}

fn steps_per_epoch(data: &Data, batch: usize) -> u64 {
    match data.order {
        Sampling::Full => 1,
        _ => data.training_size().div_ceil(batch.max(1)).max(1) as u64,
    }
}
