//! Settings of a run: Caffe's "quick" solver, and Santa's counterpart.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::GoogLeNetConfig;

/// Caffe's `quick_solver.prototxt` of `bvlc_googlenet`.
mod caffe {
    pub const LR: f64 = 0.01;
    pub const MOMENTUM: f64 = 0.9;
    pub const WEIGHT_DECAY: f64 = 2e-4;
    pub const POWER: f64 = 0.5;
    pub const ITERATIONS: u64 = 2_400_000;
    /// Of the training phase in `train_val.prototxt`.
    pub const BATCH: usize = 32;
    pub const DISPLAY: u64 = 40;
    pub const TEST_INTERVAL: u64 = 4000;
    pub const SNAPSHOT: u64 = 40_000;
}

/// Santa's learning rate is one of Adam's kind: a step of about this size for each parameter. A
/// third of Adam's usual 0.001, for a deep network without batch normalisation.
const SANTA_LR: f64 = 3e-4;

/// What updates the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Santa: explores in the first half of the run, refines in the second.
    Santa,
    /// Stochastic gradient descent with momentum.
    SgdM,
}

/// All that decides the numbers of a run, and how often it reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Sizes of the network.
    pub net: GoogLeNetConfig,
    /// What updates the parameters.
    pub optimizer: Method,
    /// The learning rate at the start; biases have twice as much.
    pub lr: f64,
    /// The learning rate at iteration t of T is the first one times (1 - t / T) to this power.
    pub power: f64,
    /// The share of the velocity that survives a step.
    pub momentum: f64,
    /// Decay of the weights; biases have none. For Santa it is the precision of a Gaussian prior
    /// over the number of images.
    pub weight_decay: f64,
    /// Santa's inverse temperature at the first step; it rises with the square root of the steps.
    /// The noise of exploring is that of a posterior: with a few images instead of a million it is
    /// large, unless this is large.
    pub beta: f64,
    /// Steps of the whole run. The decay of the learning rate and Santa's annealing depend on it.
    pub iterations: u64,
    /// Images of a step.
    pub batch: usize,
    /// Chooses initial values, order of the images, crops, dropout and Santa's noise.
    pub seed: u64,
    /// Iterations between lines of the training loss, which is averaged over them.
    pub display: u64,
    /// Iterations between tests on the validation images.
    pub test_interval: u64,
    /// Iterations between checkpoints.
    pub snapshot: u64,
}

impl Settings {
    /// Caffe's default for SGD with momentum; for Santa the same with a learning rate of its own.
    pub fn caffe(optimizer: Method) -> Self {
        Settings {
            net: GoogLeNetConfig::default(),
            optimizer,
            lr: match optimizer {
                Method::Santa => SANTA_LR,
                Method::SgdM => caffe::LR,
            },
            power: caffe::POWER,
            momentum: caffe::MOMENTUM,
            weight_decay: caffe::WEIGHT_DECAY,
            beta: 1.0,
            iterations: caffe::ITERATIONS,
            batch: caffe::BATCH,
            seed: 1,
            display: caffe::DISPLAY,
            test_interval: caffe::TEST_INTERVAL,
            snapshot: caffe::SNAPSHOT,
        }
    }

    /// The learning rate of the weights at an iteration, counted from 0.
    pub fn lr_at(&self, iteration: u64) -> f64 {
        let done = iteration as f64 / self.iterations as f64;
        self.lr * (1.0 - done).powf(self.power)
    }

    /// Refuses what cannot work.
    pub fn check(&self) -> Result<()> {
        self.net.check()?;
        let refuse = |field, value: String, allowed: &str| {
            Err(Error::Setting { field, value, allowed: allowed.into() })
        };
        for (field, value) in [("lr", self.lr), ("beta", self.beta)] {
            if !(value > 0.0 && value.is_finite()) {
                return refuse(field, value.to_string(), "a positive number");
            }
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return refuse("momentum", self.momentum.to_string(), "at least 0 and below 1");
        }
        for (field, value) in [("weight_decay", self.weight_decay), ("power", self.power)] {
            if !(value >= 0.0 && value.is_finite()) {
                return refuse(field, value.to_string(), "0 or more");
            }
        }
        if self.batch == 0 {
            return refuse("batch", self.batch.to_string(), "one image or more");
        }
        for (field, value) in [
            ("iterations", self.iterations),
            ("display", self.display),
            ("test_interval", self.test_interval),
            ("snapshot", self.snapshot),
        ] {
            if value == 0 {
                return refuse(field, value.to_string(), "1 or more");
            }
        }
        Ok(())
    }

    /// The first setting that would change a run's numbers and differs, with both values. How often
    /// a run reports may differ.
    pub(crate) fn difference(&self, other: &Settings) -> Option<(String, String, String)> {
        let reports = |settings: &Settings| Settings {
            display: self.display,
            test_interval: self.test_interval,
            snapshot: self.snapshot,
            ..settings.clone()
        };
        let [ours, theirs] = [self, other].map(|settings| {
            serde_json::to_value(reports(settings)).expect("plain data has a JSON form")
        });
        let ours = ours.as_object().expect("a structure is an object").clone();
        ours.into_iter().find_map(|(key, value)| {
            let other = &theirs[&key];
            (value != *other).then(|| (key, value.to_string(), other.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learning_rate_decays_as_caffes_poly_policy() {
        let settings = Settings::caffe(Method::SgdM);
        assert_eq!(settings.lr_at(0), 0.01);
        // base_lr (1 - iter / max_iter) ^ power
        assert!((settings.lr_at(1_800_000) - 0.005).abs() < 1e-15);
        assert!(settings.lr_at(2_399_999) > 0.0);
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let good = Settings::caffe(Method::Santa);
        good.check().unwrap();
        for (bad, name) in [
            (Settings { lr: -1.0, ..good.clone() }, "`lr` is -1"),
            (Settings { lr: f64::NAN, ..good.clone() }, "`lr` is NaN"),
            (Settings { beta: 0.0, ..good.clone() }, "`beta` is 0"),
            (Settings { momentum: 1.0, ..good.clone() }, "`momentum` is 1"),
            (Settings { weight_decay: -0.1, ..good.clone() }, "`weight_decay` is -0.1"),
            (Settings { batch: 0, ..good.clone() }, "`batch` is 0"),
            (Settings { iterations: 0, ..good.clone() }, "`iterations` is 0"),
        ] {
            let message = bad.check().unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
    }

    #[test]
    fn a_difference_is_named_but_reports_may_differ() {
        let settings = Settings::caffe(Method::Santa);
        let other = Settings { display: 1, snapshot: 7, ..settings.clone() };
        assert_eq!(settings.difference(&other), None);
        let other = Settings { batch: 64, ..settings.clone() };
        let expected = ("batch".to_owned(), "32".to_owned(), "64".to_owned());
        assert_eq!(settings.difference(&other), Some(expected));
    }
}
