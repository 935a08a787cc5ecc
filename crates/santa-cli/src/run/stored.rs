//! Reading a run back from its folder.

use super::record::{Provenance, Record, Summary};
use crate::failure::{Failure, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// File names in the folder of a run.
pub mod file {
    /// The experiment.
    pub const EXPERIMENT: &str = "experiment.toml";
    /// What made it.
    pub const PROVENANCE: &str = "run.json";
    /// The records.
    pub const METRICS: &str = "metrics.jsonl";
    /// The result.
    pub const SUMMARY: &str = "summary.json";
    /// Where the time of each process went, if asked for.
    pub const TIMING: &str = "timing.json";
    /// Why there is none.
    pub const FAILURE: &str = "failure.json";
    /// Checkpoints.
    pub const CHECKPOINTS: &str = "checkpoints";
    /// The parameters that were best on validation data, among the checkpoints.
    pub const BEST: &str = "best.safetensors";
    /// Event files.
    pub const TENSORBOARD: &str = "tensorboard";
    /// Held while a process works in the folder.
    pub const LOCK: &str = "lock";
}

/// A run as it is on disk, done or not.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// Its folder.
    pub folder: PathBuf,
    /// The resolved experiment.
    pub experiment: toml::Table,
    /// What made it.
    pub provenance: Provenance,
    /// What happened, in order.
    pub records: Vec<Record>,
    /// The result, if the run is done.
    pub summary: Option<Summary>,
    /// Why there will be none, if it diverged.
    pub failure: Option<Divergence>,
}

/// `failure.json`: why a run did not end well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divergence {
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Divergence {
    /// Where it happened, without the reasons: `at step 2 (epoch 0.11)`.
    pub fn place(&self) -> &str {
        let clause = self.message.split(": ").next().unwrap_or_default();
        clause.strip_prefix("the run diverged ").unwrap_or(clause)
    }
}

impl StoredRun {
    /// Reads the run in a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let experiment = read_text(&folder.join(file::EXPERIMENT))?;
        let experiment =
            experiment.parse().map_err(|e| damaged(&folder.join(file::EXPERIMENT), e))?;
        let (summary, failure) = (folder.join(file::SUMMARY), folder.join(file::FAILURE));
        let (done, failed) = (summary.exists(), failure.exists());
        Ok(StoredRun {
            folder: folder.to_path_buf(),
            experiment,
            provenance: read_json(&folder.join(file::PROVENANCE))?,
            records: read_records(&folder.join(file::METRICS))?,
            summary: if done { Some(read_json(&summary)?) } else { None },
            failure: if failed && !done { Some(read_json(&failure)?) } else { None },
        })
    }

    /// Whether a folder is that of a run.
    pub fn is_run(folder: &Path) -> bool {
        folder.join(file::EXPERIMENT).is_file()
    }

    /// The runs in a folder or below it, in the order of their paths.
    pub fn find(folder: &Path) -> Result<Vec<PathBuf>> {
        if StoredRun::is_run(folder) {
            return Ok(vec![folder.to_path_buf()]);
        }
        let entries = std::fs::read_dir(folder)
            .map_err(|e| Failure::data(format!("{}: {e}", folder.display())))?;
        let mut folders = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| Failure::data(format!("{}: {e}", folder.display())))?;
            // Links are not followed, so that a circle of them does no harm.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
        folders.sort();
        let mut runs = Vec::new();
        for folder in folders {
            runs.extend(StoredRun::find(&folder)?);
        }
        Ok(runs)
    }

    /// The name that tables show.
    pub fn optimizer(&self) -> &str {
        match &self.summary {
            Some(summary) => &summary.optimizer,
            None => self.experiment.get("optimizer").and_then(name_of).unwrap_or("?"),
        }
    }
}

fn name_of(optimizer: &toml::Value) -> Option<&str> {
    optimizer.get("name").or_else(|| optimizer.get("algorithm"))?.as_str()
}

fn damaged(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::data(format!("{}: {error}", path.display()))
}

fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| damaged(path, e))
}

/// Reads a JSON file.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_str(&read_text(path)?).map_err(|e| damaged(path, e))
}

/// The records of a file, without a last line that was cut off. A missing file has none.
pub fn read_records(path: &Path) -> Result<Vec<Record>> {
    read_lines(path)?.into_iter().collect()
}

/// The same line by line: a record, or why it is none.
pub fn read_lines(path: &Path) -> Result<Vec<Result<Record>>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let bytes = std::fs::read(path).map_err(|e| damaged(path, e))?;
    let text = String::from_utf8_lossy(&bytes);
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().enumerate().filter(|(_, line)| !line.is_empty());
    let record = |(i, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|e| Failure::data(format!("{}, line {}: {e}", path.display(), i + 1)))
    };
    Ok(lines.map(record).collect())
}
