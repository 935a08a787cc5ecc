//! TensorBoard's event files, written without TensorFlow.
//!
//! A file is a row of frames (`frame.rs`), each with an event (`event.rs`): first the version of the
//! format, then numbers with a tag and a step. Each start of a run writes a file of its own. One that
//! goes on from a checkpoint says so, and TensorBoard forgets what came after the checkpoint before.

mod event;
mod frame;
#[cfg(test)]
mod tests;

use crate::failure::{Failure, Result};
use crate::run::record::{Evaluation, Layer, QUANTILES, Record, Scores};
use event::{Event, What};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes an event file.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl EventWriter {
    /// A new file in a folder, which is made if need be.
    pub fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(trouble(folder))?;
        let (path, file) = new_file(folder)?;
        let mut writer = EventWriter { path, file: BufWriter::new(file) };
        writer.write(now(), 0, &What::Version)?;
        Ok(writer)
    }

    /// A new file in the folder of a run that goes on after `step` steps. What other files say of
    /// later steps counts no more.
    pub fn resume(folder: &Path, step: u64) -> Result<Self> {
        let mut writer = EventWriter::create(folder)?;
        // It is the steps from that of the event on that are forgotten.
        writer.write(now(), step.saturating_add(1), &What::Start)?;
        Ok(writer)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A number. The wall time is in seconds since 1970; values are stored in single precision.
    pub fn scalar(&mut self, tag: &str, step: u64, wall_time: f64, value: f64) -> Result<()> {
        self.write(wall_time, step, &What::Scalar { tag, value: value as f32 })
    }

    /// The numbers of a record, by the tags of [`scalars`].
    pub fn record(&mut self, record: &Record, wall_time: f64) -> Result<()> {
        let step = record.step();
        scalars(record).iter().try_for_each(|(tag, x)| self.scalar(tag, step, wall_time, *x))
    }

    /// Gives all that was written to the system, so that TensorBoard sees it.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(trouble(&self.path))
    }

    fn write(&mut self, wall_time: f64, step: u64, what: &What<'_>) -> Result<()> {
        let event = Event { wall_time, step, what }.encode();
        self.file.write_all(&frame::encode(&event)).map_err(trouble(&self.path))
    }
}

/// The numbers in a record, with their tags.
///
/// | tag | number |
/// | --- | --- |
/// | `train/loss`, `train/temperature`, `train/epoch` | of [`Training`](crate::run::record::Training) |
/// | `test/error`, `test/nll`, `validation/...` | scores of the present parameters |
/// | `test/error_averaged`, `test/nll_averaged`, ... | scores of the averaged prediction |
/// | `theta_rms/LAYER`, `gradient_rms/LAYER`, `kinetic_temperature/LAYER` | of a layer |
/// | `momentum/LAYER/median`, `.../minimum`, `.../q05`, ... | quantiles of the momentum's weights |
pub fn scalars(record: &Record) -> Vec<(String, f64)> {
    let mut scalars = Vec::new();
    match record {
        Record::Training(r) => {
            scalars.push(("train/loss".into(), r.loss));
            scalars.push(("train/temperature".into(), r.temperature));
            scalars.push(("train/epoch".into(), r.epoch));
        }
        Record::Evaluation(Evaluation { last, averaged, .. }) => {
            scores(&mut scalars, last, "");
            if let Some(averaged) = averaged {
                scores(&mut scalars, &averaged.scores, "_averaged");
            }
        }
        Record::Layers(r) => r.layers.iter().for_each(|layer| of_layer(&mut scalars, layer)),
        // Sentences have no place among numbers.
        Record::Warning(_) => (),
    }
    scalars
}

fn scores(scalars: &mut Vec<(String, f64)>, scores: &Scores, suffix: &str) {
    for (part, score) in [("validation", scores.validation), ("test", scores.test)] {
        let Some(score) = score else { continue };
        scalars.extend(score.error.map(|error| (format!("{part}/error{suffix}"), error)));
        scalars.push((format!("{part}/nll{suffix}"), score.nll));
    }
}

fn of_layer(scalars: &mut Vec<(String, f64)>, layer: &Layer) {
    let name = &layer.name;
    scalars.push((format!("theta_rms/{name}"), layer.theta_rms));
    scalars.push((format!("gradient_rms/{name}"), layer.gradient_rms));
    let temperature = layer.kinetic_temperature;
    scalars.extend(temperature.map(|value| (format!("kinetic_temperature/{name}"), value)));
    for (share, value) in QUANTILES.into_iter().zip(layer.momentum.into_iter().flatten()) {
        scalars.push((format!("momentum/{name}/{}", quantile(share)), value));
    }
}

/// What a quantile is called.
fn quantile(share: f64) -> String {
    match share {
        0.0 => "minimum".into(),
        0.5 => "median".into(),
        1.0 => "maximum".into(),
        _ => format!("q{:02.0}", 100.0 * share),
    }
}

/// A file that is not there yet, named as TensorBoard expects, and last in the order of names, which is
/// the order in which TensorBoard reads.
fn new_file(folder: &Path) -> Result<(PathBuf, File)> {
    const PREFIX: &str = "events.out.tfevents.";
    let mut number = now() as u64;
    for entry in fs::read_dir(folder).map_err(trouble(folder))? {
        let name = entry.map_err(trouble(folder))?.file_name();
        let before = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('.').next());
        if let Some(before) = before.and_then(|before| before.parse::<u64>().ok()) {
            number = number.max(before.saturating_add(1));
        }
    }
    // Seconds since 1970 have ten digits until the year 2286.
    let path = folder.join(format!("{PREFIX}{number:010}.santa"));
    let file = File::options().write(true).create_new(true).open(&path);
    file.map(|file| (path.clone(), file)).map_err(trouble(&path))
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn trouble(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::system(format!("writing {}: {error}", path.display()))
}
