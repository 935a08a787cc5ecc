//! Checkpoints: a folder each, complete or not there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::optim::{ModuleOptimizer, OptimizerRecord};
use burn::store::ModuleRecord;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::GoogLeNet;
use crate::settings::Settings;

const MODEL: &str = "model.bpk";
const OPTIMIZER: &str = "optimizer.bpk";
const RUN: &str = "run.json";
/// What a checkpoint is called while it is written.
const UNFINISHED: &str = "unfinished";
/// Raised when the meaning of a checkpoint's files changes.
const FORMAT: u32 = 1;
/// Checkpoints that are kept; older ones are removed.
const KEPT: usize = 2;

/// Where a run stands; with the settings it decides the position in the data, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub format: u32,
    /// Steps made.
    pub iteration: u64,
    /// Number of training images.
    pub images: u64,
    pub classes: Vec<String>,
    pub settings: Settings,
}

impl Run {
    pub(crate) fn new(
        iteration: u64,
        images: u64,
        classes: Vec<String>,
        settings: Settings,
    ) -> Self {
        Run { format: FORMAT, iteration, images, classes, settings }
    }
}

/// Writes a checkpoint into a folder of checkpoints: under another name first, to disk, and then
/// renamed. Whatever interrupts it, the older ones are whole.
pub(crate) fn save(
    folder: &Path,
    run: &Run,
    model: GoogLeNet,
    optimizer: &ModuleOptimizer,
) -> Result<PathBuf> {
    let unfinished = folder.join(UNFINISHED);
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(Error::io(&unfinished))?;
    }
    fs::create_dir_all(&unfinished).map_err(Error::io(&unfinished))?;
    let wrong = |error: burn::store::RecordError| Error::Checkpoint {
        path: unfinished.clone(),
        reason: error.to_string(),
    };
    model.into_record().save(unfinished.join(MODEL)).map_err(wrong)?;
    optimizer.to_record().save(unfinished.join(OPTIMIZER)).map_err(wrong)?;
    let text = serde_json::to_string_pretty(run).expect("plain data has a JSON form");
    let path = unfinished.join(RUN);
    fs::write(&path, text).map_err(Error::io(&path))?;
    for name in [MODEL, OPTIMIZER, RUN] {
        let path = unfinished.join(name);
        File::open(&path).and_then(|file| file.sync_all()).map_err(Error::io(&path))?;
    }

    let finished = folder.join(format!("{:010}", run.iteration));
    if finished.exists() {
        fs::remove_dir_all(&finished).map_err(Error::io(&finished))?;
    }
    fs::rename(&unfinished, &finished).map_err(Error::io(&finished))?;
    for old in all(folder)?.into_iter().rev().skip(KEPT) {
        fs::remove_dir_all(&old).map_err(Error::io(&old))?;
    }
    Ok(finished)
}

/// The newest checkpoint of a folder of checkpoints.
pub(crate) fn newest(folder: &Path) -> Result<PathBuf> {
    let found = if folder.is_dir() { all(folder)?.pop() } else { None };
    found.ok_or_else(|| Error::Checkpoint {
        path: folder.into(),
        reason: "there is none to resume from; start without --resume".into(),
    })
}

/// Where a checkpoint stands.
pub(crate) fn read(path: &Path) -> Result<Run> {
    let file = path.join(RUN);
    let text = fs::read_to_string(&file).map_err(Error::io(&file))?;
    let wrong = |reason: String| Error::Checkpoint { path: path.into(), reason };
    let run: Run = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if run.format != FORMAT {
        let reason = format!("its format is {}, this version reads {FORMAT}", run.format);
        return Err(wrong(reason));
    }
    Ok(run)
}

/// Puts a checkpoint's values into a network and an optimizer of the same settings.
pub(crate) fn load(
    path: &Path,
    model: GoogLeNet,
    optimizer: ModuleOptimizer,
) -> Result<(GoogLeNet, ModuleOptimizer)> {
    let wrong = |error: burn::store::RecordError| Error::Checkpoint {
        path: path.into(),
        reason: error.to_string(),
    };
    let record = ModuleRecord::load(path.join(MODEL)).map_err(wrong)?;
    let model = model.try_load_record(record).map_err(wrong)?;
    let record = OptimizerRecord::load(path.join(OPTIMIZER)).map_err(wrong)?;
    Ok((model, optimizer.load_record(record)))
}

/// The finished checkpoints, oldest first.
fn all(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(Error::io(folder))?;
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io(folder))?;
        if entry.file_name().to_string_lossy().parse::<u64>().is_ok() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}
