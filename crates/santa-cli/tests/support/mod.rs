//! Folders of runs that nobody has run, but that look like it.

// Each test file uses a part of it.
#![allow(dead_code)]

pub mod workshop;

use santa::Stage;
use santa::noise::{Purpose, Stream};
use santa_cli::run::record::{
    Averaged, Best, Bin, Calibration, Evaluation, Layer, Layers, Machine, Provenance, Record,
    Score, Scores, Status, Summary, Training, Warning,
};
use santa_cli::run::stored::{StoredRun, file};
use std::path::{Path, PathBuf};

/// The optimizers of a comparison: name, rate of learning, error in the end.
const OPTIMIZERS: [(&str, f64, f64); 6] = [
    ("adam", 0.9, 0.0162),
    ("rmsprop", 0.8, 0.0168),
    ("santa", 0.55, 0.0118),
    ("sgd", 0.25, 0.0205),
    ("sgd-momentum", 0.45, 0.0171),
    ("sgld", 0.3, 0.0187),
];
const STEPS_PER_EPOCH: u64 = 60;
const STEPS_PER_RECORD: u64 = 10;

/// A run to be made up.
#[derive(Clone, Debug)]
pub struct FakeRun {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the optimizer; one that is not among the six learns like the first.
    pub optimizer: String,
    /// The seed.
    pub seed: u64,
    /// Examples in a batch.
    pub batch: u64,
    /// Epochs that were asked for.
    pub epochs: u64,
    /// Epochs that were made; less than asked for leaves the run unfinished.
    pub made: u64,
    /// Whether it is about music, which has no classes.
    pub music: bool,
    /// A warning.
    pub warning: Option<String>,
}

impl FakeRun {
    /// A finished run on digits.
    pub fn new(optimizer: &str, seed: u64) -> Self {
        FakeRun {
            experiment: "digits".into(),
            optimizer: optimizer.into(),
            seed,
            batch: 100,
            epochs: 20,
            made: 20,
            music: false,
            warning: None,
        }
    }

    /// Makes its folder below another.
    pub fn write(&self, root: &Path) -> PathBuf {
        let name = format!("{}-{}-seed-{}", self.optimizer, self.batch, self.seed);
        // Names are as wild as users want, folders are not.
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let folder = root.join(name.chars().map(safe).collect::<String>());
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
        write(file::EXPERIMENT, toml::to_string_pretty(&self.experiment()).unwrap());
        write(file::PROVENANCE, serde_json::to_string(&self.provenance()).unwrap());
        let records = self.records();
        let lines = records.iter().map(|r| serde_json::to_string(r).unwrap() + "\n");
        write(file::METRICS, lines.collect());
        if self.made == self.epochs {
            write(file::SUMMARY, serde_json::to_string(&self.summary(&records)).unwrap());
        }
        folder
    }

    /// The run as it would be read back.
    pub fn stored(&self) -> StoredRun {
        let folder = tempfile::tempdir().unwrap();
        StoredRun::read(&self.write(folder.path())).unwrap()
    }

    fn is_santa(&self) -> bool {
        self.optimizer == "santa"
    }

    fn experiment(&self) -> toml::Table {
        let (data, model) = if self.music { ("jsb", "gru") } else { ("mnist-subset", "fnn") };
        let mut experiment: toml::Table = toml::toml! {
            [optimizer]
            [optimizer.step]
            lr = 0.001
        };
        let mut put = |key: &str, value: toml::Value| experiment.insert(key.into(), value);
        put("name", self.experiment.clone().into());
        put("data", data.into());
        put("seed", (self.seed as i64).into());
        put("epochs", (self.epochs as i64).into());
        put("batch", (self.batch as i64).into());
        put("model", toml::Table::from_iter([("kind".into(), model.into())]).into());
        let optimizer = experiment["optimizer"].as_table_mut().unwrap();
        optimizer.insert("name".into(), self.optimizer.clone().into());
        if self.is_santa() {
            optimizer.insert("burn_in".into(), 0.5.into());
        }
        experiment
    }

    fn provenance(&self) -> Provenance {
        let command = ["santa", "train", "digits", "--set"].map(String::from).to_vec();
        Provenance {
            version: "0.1.0".into(),
            command: [command, vec![format!("optimizer={}", self.optimizer)]].concat(),
            started: format!("2026-01-02T03:0{}:00Z", self.seed % 10),
            machine: Machine {
                os: "linux".into(),
                arch: "x86_64".into(),
                cpu: "An Imagined Processor".into(),
                threads: 2,
            },
        }
    }

    /// A number about 0, the same whenever it is asked for.
    fn jitter(&self, step: u64, index: u32) -> f64 {
        let named = self
            .optimizer
            .bytes()
            .fold(0, |sum, b| u32::wrapping_add(u32::wrapping_mul(sum, 31), b.into()));
        Stream::new(self.seed, named, Purpose::Custom(1)).uniform(step, 0, index) - 0.5
    }

    fn score(&self, epoch: f64, step: u64, lag: f64) -> Score {
        let known = OPTIMIZERS.iter().find(|o| o.0 == self.optimizer).unwrap_or(&OPTIMIZERS[0]);
        let &(_, rate, end) = known;
        let noise = 1.0 + 0.08 * self.jitter(step, 1);
        let error = (end + 0.9 * (-rate * (epoch - lag).max(0.0) * 1.4).exp()) * noise;
        let nll = if self.music { 8.0 + 20.0 * error } else { 3.1 * error + 0.004 };
        Score { nll, error: (!self.music).then_some(error) }
    }

    fn scores(&self, epoch: f64, step: u64, lag: f64) -> Scores {
        Scores {
            validation: Some(self.score(epoch, step + 1, lag)),
            test: Some(self.score(epoch, step, lag)),
        }
    }

    fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        let half = self.epochs as f64 / 2.0;
        for at in 1..=self.made * STEPS_PER_EPOCH / STEPS_PER_RECORD {
            let step = at * STEPS_PER_RECORD;
            let epoch = step as f64 / STEPS_PER_EPOCH as f64;
            let explores = matches!(&*self.optimizer, "santa" | "sgld") && epoch <= half
                || self.optimizer == "sgld";
            let temperature = match (explores, self.is_santa()) {
                (true, true) => 1.0 / (epoch * 100.0).powi(2),
                (true, false) => 1.0,
                _ => 0.0,
            };
            let stage = if explores { Stage::Exploring } else { Stage::Refining };
            let seconds = 0.05 * step as f64 * (1.0 + 0.1 * self.jitter(0, 3));
            let loss = self.score(epoch, step, 0.0).nll * (1.0 + 0.5 * self.jitter(step, 2));
            records.push(Record::Training(Training {
                step,
                epoch,
                loss,
                temperature,
                stage,
                seconds,
            }));
            if step.is_multiple_of(STEPS_PER_EPOCH) {
                let averages = matches!(&*self.optimizer, "santa" | "sgld") && epoch >= 2.0;
                records.push(Record::Evaluation(Evaluation {
                    step,
                    epoch,
                    last: self.scores(epoch, step, 0.0),
                    averaged: averages.then(|| Averaged {
                        count: step / STEPS_PER_EPOCH,
                        scores: self.scores(epoch, step + 2, 1.0),
                    }),
                    seconds,
                }));
                if self.is_santa() {
                    records.push(self.layers(step, epoch));
                }
            }
        }
        records.extend(
            self.warning.clone().map(|message| Record::Warning(Warning { step: 7, message })),
        );
        records
    }

    fn layers(&self, step: u64, epoch: f64) -> Record {
        let names = [
            "hidden1.weight",
            "hidden1.bias",
            "hidden2.weight",
            "hidden2.bias",
            "out.weight",
            "out.bias",
        ];
        let layer = |(i, name): (usize, &&str)| {
            let centre = 0.9 - 0.5 * (-epoch / (3.0 + i as f64)).exp();
            let spread = [-0.35, -0.12, -0.04, 0.0, 0.03, 0.06, 0.09];
            Layer {
                name: (*name).into(),
                theta_rms: 0.1,
                gradient_rms: 0.01,
                kinetic_temperature: Some(1.0),
                momentum: Some(spread.map(|d| centre + d * (0.4 + epoch / 30.0))),
            }
        };
        Record::Layers(Layers {
            step,
            epoch,
            layers: names.iter().enumerate().map(layer).collect(),
        })
    }

    fn summary(&self, records: &[Record]) -> Summary {
        let last = records.iter().rev().find_map(|r| match r {
            Record::Evaluation(e) => Some(e.clone()),
            _ => None,
        });
        let last = last.expect("a run of at least one epoch");
        let best = Best {
            step: last.step,
            epoch: last.epoch,
            scores: self.scores(last.epoch, last.step + 5, 0.0),
        };
        Summary {
            name: self.experiment.clone(),
            optimizer: self.optimizer.clone(),
            seed: self.seed,
            status: Status::Finished,
            steps: last.step,
            epochs: last.epoch,
            parameters: 478_410,
            seconds: last.seconds,
            last: last.last,
            averaged: last.averaged,
            best: Some(best),
            best_averaged: None,
            calibration_last: (!self.music).then(|| self.calibration(0.05)),
            calibration_averaged: last
                .averaged
                .filter(|_| !self.music)
                .map(|_| self.calibration(0.015)),
            wrong_averaged: None,
        }
    }

    fn calibration(&self, excess: f64) -> Calibration {
        let bin = |i: u32| {
            let confidence = (f64::from(i) + 0.5) / 15.0;
            // The first of ten classes has a probability of at least a tenth.
            let count = if i < 2 { 0 } else { 4 << (i / 2) };
            let accuracy =
                confidence - excess * (1.0 - confidence) * 4.0 + 0.05 * self.jitter(9, i);
            Bin { count, confidence, accuracy: accuracy.clamp(0.0, 1.0) }
        };
        Calibration {
            expected_error: excess * 0.4 * (1.0 + self.jitter(3, 3) * 0.2),
            bins: (0..15).map(bin).collect(),
        }
    }
}

/// Six optimizers with two seeds each.
pub fn comparison() -> Vec<FakeRun> {
    let seeds = |name| [1, 2].map(|seed| FakeRun::new(name, seed));
    OPTIMIZERS.iter().flat_map(|o| seeds(o.0)).collect()
}
