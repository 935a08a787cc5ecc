//! The cases of `santa bench`.

use crate::clock::Effort;
use crate::copy::{self, PLAIN};
use crate::models::Model;
use crate::steps::{self, Dynamics};
use santa::Result;
use serde::Serialize;

/// Models of the paper; variants of them are for the benchmarks of `santa-nn`.
const MODELS: [&str; 5] = ["fnn-400", "fnn-800", "cnn-paper", "cnn-authors", "gru-200"];
/// Dynamics, and what their cases are called.
const DYNAMICS: [(&str, &str); 5] = [
    ("santa, exploring", "santa-exploring"),
    ("santa, refining", "santa-refining"),
    ("adam", "adam"),
    ("sgld", "sgld"),
    ("sgd-m", "sgd-m"),
];
/// Numbers of parameters: as many as a small network has, and more than caches hold.
const SIZES: [(&str, usize); 2] = [("1e6", 1_000_000), ("2e7", 20_000_000)];
/// The model steps explore.
const OPTIMIZER_OF_MODELS: &str = "santa, exploring";
/// Bytes that the case `copy` moves, half of them read and half written: more than caches hold.
const COPY: usize = 1 << 28;

/// Something that can be measured, by name.
#[derive(Clone, Debug)]
pub struct Case {
    name: String,
    about: String,
    work: Work,
}

#[derive(Clone, Debug)]
enum Work {
    Copy,
    Model(Model),
    Step(Dynamics, usize),
}

/// What a case gives. Times are the best of many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// Milliseconds of a step: of training for a model, of the optimizer alone, of a copy.
    pub ms_per_step: f64,
    /// Arithmetic of the plain definition in 1e9 operations a second: [`Model::flops`],
    /// [`Dynamics::flops`]. None for the copy.
    pub gflops: Option<f64>,
    /// Bytes of parameters, gradient and state that the optimizer moves, over the time of the
    /// optimizer's part of the step.
    pub bytes_per_second: f64,
    /// The same for a plain copy that moves as many bytes on as many threads.
    pub copy_bytes_per_second: f64,
}

impl Case {
    /// All of them: the copy, the models, the optimizers.
    pub fn all() -> Vec<Case> {
        let copy = Case {
            name: "copy".into(),
            about: format!("a copy of {0} MiB: {0} MiB read, {0} MiB written", (COPY / 2) >> 20),
            work: Work::Copy,
        };
        let wanted = |model: &Model| MODELS.contains(&model.name());
        let models = Model::all().into_iter().filter(wanted).map(|model| Case {
            name: model.name().into(),
            about: "a training step, Santa exploring".into(),
            work: Work::Model(model),
        });
        let steps = SIZES.iter().flat_map(|(size, n)| {
            DYNAMICS.iter().filter_map(move |(dynamics, name)| {
                Some(Case {
                    name: format!("{name}-{size}"),
                    about: format!("a step of the optimizer, {size} parameters"),
                    work: Work::Step(find(dynamics)?, *n),
                })
            })
        });
        std::iter::once(copy).chain(models).chain(steps).collect()
    }

    /// Its name, which is part of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it measures, in a few words.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Measures it.
    pub fn measure(&self, effort: Effort) -> Result<Measurement> {
        const GIGA: f64 = 1e9;
        const MILLI: f64 = 1e3;
        match &self.work {
            Work::Copy => {
                let seconds = copy::seconds(effort, COPY);
                let rate = COPY as f64 / seconds;
                Ok(Measurement {
                    ms_per_step: seconds * MILLI,
                    gflops: None,
                    bytes_per_second: rate,
                    copy_bytes_per_second: rate,
                })
            }
            Work::Model(model) => {
                let (times, _) = model.measure(effort)?;
                let per_parameter =
                    find(OPTIMIZER_OF_MODELS).map_or(0, |dynamics| dynamics.bytes::<f32>());
                let bytes = times.parameters * per_parameter;
                Ok(Measurement {
                    ms_per_step: times.total * MILLI,
                    gflops: Some(model.flops() / times.total / GIGA),
                    bytes_per_second: bytes as f64 / times.optimizer,
                    copy_bytes_per_second: bytes as f64 / copy::seconds(effort, bytes),
                })
            }
            Work::Step(dynamics, n) => {
                let times = steps::measure::<f32>(dynamics, *n, &[PLAIN], effort)?;
                let flops = dynamics.flops.map(|flops| (flops * n) as f64);
                Ok(Measurement {
                    ms_per_step: times.step * MILLI,
                    gflops: flops.map(|flops| flops / times.step / GIGA),
                    bytes_per_second: times.bytes as f64 / times.step,
                    copy_bytes_per_second: times.bytes as f64 / times.copy,
                })
            }
        }
    }
}

fn find(name: &str) -> Option<Dynamics> {
    Dynamics::ALL.into_iter().find(|dynamics| dynamics.name == name)
}
