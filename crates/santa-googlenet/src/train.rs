//! The loop: steps, log, tests, checkpoints.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::tensor::{Device, Tensor};
use serde::Serialize;

use crate::batches::Batches;
use crate::checkpoint;
use crate::error::{Error, Result};
use crate::images::Data;
use crate::settings::Settings;
use crate::trainer::{Evaluation, Trainer, numbers};

/// Name of the log in the folder of a run.
pub const LOG: &str = "log.jsonl";
/// Name of the folder of checkpoints in the folder of a run.
pub const CHECKPOINTS: &str = "checkpoints";

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Record {
    /// The training loss since the last such line, or since the run was resumed.
    Train {
        /// Steps made.
        iteration: u64,
        /// Epochs seen, with their part.
        epoch: f64,
        /// Main and auxiliary losses together, the mean over these steps.
        loss: f64,
        /// The learning rate of the weights at the last step.
        lr: f64,
        /// Seconds since the program started the loop.
        seconds: f64,
    },
    /// A test on the validation images.
    Test {
        /// Steps made.
        iteration: u64,
        /// Number of images.
        images: usize,
        /// Mean cross-entropy of the main classifier.
        loss: f64,
        /// Share of images whose label is the most probable class.
        top1: f64,
        /// Share of images whose label is among the five most probable classes.
        top5: f64,
        /// Seconds since the program started the loop.
        seconds: f64,
    },
    /// A training image that could not be read, and whose place another one took.
    Broken {
        /// Steps made before.
        iteration: u64,
        /// The file.
        path: PathBuf,
        /// What the decoder says.
        reason: String,
    },
}

/// Where a run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Steps made, over all parts of the run.
    pub iteration: u64,
    /// Whether these are all.
    pub finished: bool,
    /// The last test of this part, if there was one.
    pub test: Option<Evaluation>,
}

/// Trains until the last iteration, or until `stop` is set: then the step at hand is finished and a
/// checkpoint written. Log and checkpoints go into the folder `out`; `report` sees each line of the
/// log, too.
///
/// With `resume` the run goes on from the newest checkpoint in `out`, on the CPU exactly as if it
/// had not been interrupted; lines of the log that are later than the checkpoint are removed.
/// Without it `out` must not hold a run yet.
pub fn train(
    data: &Data,
    settings: Settings,
    devices: &[Device],
    out: &Path,
    resume: bool,
    stop: &AtomicBool,
    mut report: impl FnMut(&Record),
) -> Result<Outcome> {
    let checkpoints = out.join(CHECKPOINTS);
    let log = out.join(LOG);
    let mut trainer = if resume {
        let checkpoint = checkpoint::newest(&checkpoints)?;
        Trainer::resume(settings, &data.train, devices, &checkpoint)?
    } else {
        if log.exists() || checkpoints.exists() {
            let reason = "holds a run already; go on with --resume, or choose another --out";
            return Err(Error::Folder { path: out.into(), reason: reason.into() });
        }
        Trainer::new(settings, &data.train, devices)?
    };
    fs::create_dir_all(out).map_err(Error::io(out))?;
    if resume {
        cut_log(&log, trainer.iteration())?;
    }
    let file = OpenOptions::new().create(true).append(true).open(&log).map_err(Error::io(&log))?;
    let mut record = |record: Record| -> Result<()> {
        let mut line = serde_json::to_string(&record).expect("plain data has a JSON form");
        line.push('\n');
        (&file).write_all(line.as_bytes()).map_err(Error::io(&log))?;
        report(&record);
        Ok(())
    };

    let s = trainer.settings().clone();
    let started = Instant::now();
    let images = Arc::new(data.train.clone());
    let val = data.val.clone().map(Arc::new);
    let mut test = None;
    let mut recent = Recent::default();
    let iterations = trainer.iteration()..s.iterations;
    for batch in Batches::training(images, s.net.size, s.batch, s.seed, iterations) {
        let batch = batch?;
        for (path, reason) in &batch.broken {
            let (path, reason) = (path.clone(), reason.clone());
            record(Record::Broken { iteration: trainer.iteration(), path, reason })?;
        }
        let lr = s.lr_at(trainer.iteration());
        let (next, loss) = trainer.step(&batch);
        trainer = next;
        recent.add(loss);

        let iteration = trainer.iteration();
        let last = iteration == s.iterations;
        let stopping = stop.load(Ordering::Relaxed);
        let now = |every: u64| last || iteration.is_multiple_of(every);
        let (display, testing, saving) =
            (now(s.display), now(s.test_interval), stopping || now(s.snapshot));
        if display || testing || saving {
            recent.check(iteration)?;
        }
        if display && let Some(loss) = recent.take() {
            let epoch = iteration as f64 * s.batch as f64 / data.train.len() as f64;
            let seconds = started.elapsed().as_secs_f64();
            record(Record::Train { iteration, epoch, loss, lr, seconds })?;
        }
        if testing && let Some(val) = &val {
            let found = trainer.evaluate(val)?;
            let Evaluation { images, loss, top1, top5 } = found;
            let seconds = started.elapsed().as_secs_f64();
            record(Record::Test { iteration, images, loss, top1, top5, seconds })?;
            test = Some(found);
        }
        if saving {
            file.sync_all().map_err(Error::io(&log))?;
            trainer.save(&checkpoints)?;
        }
        if stopping {
            break;
        }
    }
    let iteration = trainer.iteration();
    Ok(Outcome { iteration, finished: iteration == s.iterations, test })
}

/// Losses since the last line, summed on the device: reading each would make the device wait.
#[derive(Default)]
struct Recent {
    sum: Option<Tensor<1>>,
    count: u32,
}

impl Recent {
    fn add(&mut self, loss: Tensor<1>) {
        self.sum = Some(match self.sum.take() {
            Some(sum) => sum + loss,
            None => loss,
        });
        self.count += 1;
    }

    fn mean(&self) -> Option<f64> {
        let sum = numbers(self.sum.clone()?)[0];
        Some(f64::from(sum) / f64::from(self.count))
    }

    /// Refuses a loss that is no number, before it is averaged away or saved.
    fn check(&self, iteration: u64) -> Result<()> {
        match self.mean() {
            Some(loss) if !loss.is_finite() => Err(Error::Diverged { iteration, loss }),
            _ => Ok(()),
        }
    }

    fn take(&mut self) -> Option<f64> {
        let mean = self.mean();
        *self = Recent::default();
        mean
    }
}

/// Removes the lines of a log that are later than an iteration, and a line that was cut off.
fn cut_log(log: &Path, iteration: u64) -> Result<()> {
    if !log.exists() {
        return Ok(());
    }
    let text = fs::read_to_string(log).map_err(Error::io(log))?;
    let kept: String = text
        .lines()
        .filter(|line| {
            let line = serde_json::from_str::<serde_json::Value>(line).ok();
            let of = line.and_then(|line| {
                // A broken image is noticed before the step that it belongs to.
                let before = u64::from(line["kind"] == "broken");
                Some(line["iteration"].as_u64()? + before)
            });
            of.is_some_and(|of| of <= iteration)
        })
        .flat_map(|line| [line, "\n"])
        .collect();
    let unfinished = log.with_extension("unfinished");
    let mut file = File::create(&unfinished).map_err(Error::io(&unfinished))?;
    file.write_all(kept.as_bytes()).map_err(Error::io(&unfinished))?;
    file.sync_all().map_err(Error::io(&unfinished))?;
    fs::rename(&unfinished, log).map_err(Error::io(log))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_cut_where_the_checkpoint_was() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join(LOG);
        let lines = [
            r#"{"kind":"train","iteration":40}"#,
            r#"{"kind":"broken","iteration":40}"#,
            r#"{"kind":"test","iteration":40}"#,
            r#"{"kind":"train","iteration":80}"#,
            r#"{"kind":"train","iter"#,
        ];
        fs::write(&log, lines.join("\n")).unwrap();
        cut_log(&log, 40).unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), format!("{}\n{}\n", lines[0], lines[2]));
    }
}
