//! The folder of a run, at work: one process at a time, and nothing in it ever half written.

use super::machine::provenance;
use super::record::{Record, Summary};
use super::stored::{Divergence, file, read_json, read_lines};
use crate::experiment::Experiment;
use crate::failure::{Failure, Kind, Result};
use santa::Checkpoint;
use serde::Serialize;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder of a run that this process works in.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// None if another process writes.
    metrics: Option<File>,
    /// Locked as long as it is open.
    _lock: Option<File>,
}

/// What a folder holds.
#[derive(Debug)]
pub enum Found {
    /// Nothing of ours.
    Nothing,
    /// A run that is not done.
    Unfinished,
    /// A run that is done.
    Done(Box<Summary>),
    /// A run that diverged. The same settings and seed would diverge again.
    Diverged(Failure),
}

impl RunFolder {
    /// Looks into a folder. A run of another experiment is refused by the field that differs.
    pub fn look(path: &Path, experiment: &Experiment) -> Result<Found> {
        let stored = path.join(file::EXPERIMENT);
        if !stored.is_file() {
            if has_other_content(path) {
                return Err(Failure::usage(format!("{} is not empty and no run", path.display()))
                    .hint("choose another folder with `--out`"));
            }
            return Ok(Found::Nothing);
        }
        let text = read(&stored)?;
        let table = |text: &str| text.parse::<toml::Table>();
        let there =
            table(&text).map_err(|e| Failure::data(format!("{}: {e}", stored.display())))?;
        let here = table(&experiment.to_toml()?).map_err(Failure::system)?;
        let mut found = Vec::new();
        differences("", &there.into(), &here.into(), &mut found);
        if !found.is_empty() {
            let more = match found.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            found.truncate(NAMED);
            let text = format!("{} holds another run: {}{more}", path.display(), found.join("; "));
            return Err(Failure::usage(text)
                .hint("choose another folder with `--out`, or the same settings"));
        }
        let summary = path.join(file::SUMMARY);
        if summary.is_file() {
            return Ok(Found::Done(Box::new(read_json(&summary)?)));
        }
        let failure = path.join(file::FAILURE);
        if failure.is_file() {
            let Divergence { message, hint } = read_json(&failure)?;
            return Ok(Found::Diverged(Failure { kind: Kind::Numerical, message, hint }));
        }
        Ok(Found::Unfinished)
    }

    /// Makes the folder of a new run.
    pub fn create(path: &Path, experiment: &Experiment) -> Result<Self> {
        let checkpoints = path.join(file::CHECKPOINTS);
        fs::create_dir_all(&checkpoints).map_err(|e| failed("making", &checkpoints, e))?;
        let lock = lock(path)?;
        // Between the look and the lock another process may have been here.
        if path.join(file::EXPERIMENT).exists() {
            return Err(overtaken(path));
        }
        let metrics = path.join(file::METRICS);
        write(&metrics, b"")?;
        write_json(&path.join(file::PROVENANCE), &provenance())?;
        // Last of all: from here on it is a run.
        write(&path.join(file::EXPERIMENT), experiment.to_toml()?.as_bytes())?;
        RunFolder::open(path, lock)
    }

    /// Takes the folder of a run that is to go on.
    pub fn resume(path: &Path) -> Result<Self> {
        let lock = lock(path)?;
        if path.join(file::SUMMARY).exists() {
            return Err(overtaken(path));
        }
        remove_torn(&path.join(file::CHECKPOINTS));
        RunFolder::open(path, lock)
    }

    fn open(path: &Path, lock: File) -> Result<Self> {
        let metrics = path.join(file::METRICS);
        let opened = OpenOptions::new().append(true).create(true).open(&metrics);
        let metrics = opened.map_err(|e| failed("opening", &metrics, e))?;
        Ok(RunFolder { path: path.to_path_buf(), metrics: Some(metrics), _lock: Some(lock) })
    }

    /// The folder of a run that another process writes: here it is neither read nor written.
    pub fn of_another(path: &Path) -> Self {
        RunFolder { path: path.to_path_buf(), metrics: None, _lock: None }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a record down.
    pub fn record(&mut self, record: &Record) -> Result<()> {
        let Some(metrics) = &mut self.metrics else { return Ok(()) };
        let mut line = serde_json::to_string(record).map_err(Failure::system)?;
        line.push('\n');
        let path = self.path.join(file::METRICS);
        metrics.write_all(line.as_bytes()).map_err(|e| failed("writing", &path, e))
    }

    /// Drops the records after a step: those of a run that ended after its last checkpoint. Lines
    /// that cannot be read are dropped as well, and told.
    pub fn rewind(&mut self, step: u64) -> Result<Vec<Failure>> {
        if self.metrics.is_none() {
            return Ok(Vec::new());
        }
        let path = self.path.join(file::METRICS);
        let (mut kept, mut unreadable) = (Vec::new(), Vec::new());
        for line in read_lines(&path)? {
            match line {
                Ok(record) if record.step() <= step => {
                    serde_json::to_writer(&mut kept, &record).map_err(Failure::system)?;
                    kept.push(b'\n');
                }
                Ok(_) => (),
                Err(failure) => unreadable.push(failure),
            }
        }
        write(&path, &kept)?;
        let opened = OpenOptions::new().append(true).open(&path);
        self.metrics = Some(opened.map_err(|e| failed("opening", &path, e))?);
        Ok(unreadable)
    }

    /// Writes a checkpoint after `step`, and removes all but the newest `keep`.
    pub fn save(&mut self, checkpoint: &Checkpoint, step: u64, keep: usize) -> Result<()> {
        // The records must not be behind a checkpoint, whatever happens to the machine.
        if !self.sync()? {
            return Ok(());
        }
        checkpoint.write(self.path.join(file::CHECKPOINTS).join(name_of(step))).map_err(disk)?;
        let mut all = self.checkpoints()?;
        while all.len() > keep {
            let (_, oldest) = all.remove(0);
            // One that stays does no harm.
            let _ = fs::remove_file(oldest);
        }
        Ok(())
    }

    /// Gives the records to the disk; false if another process writes.
    fn sync(&self) -> Result<bool> {
        let Some(metrics) = &self.metrics else { return Ok(false) };
        let path = self.path.join(file::METRICS);
        metrics.sync_data().map_err(|e| failed("writing", &path, e))?;
        Ok(true)
    }

    /// Writes the parameters that are the best so far.
    pub fn save_best(&self, checkpoint: &Checkpoint) -> Result<()> {
        if self.metrics.is_none() {
            return Ok(());
        }
        checkpoint.write(self.path.join(file::CHECKPOINTS).join(file::BEST)).map_err(disk)
    }

    /// The file that [`RunFolder::save_best`] wrote last, if there is one.
    pub fn best(&self) -> Result<Option<Vec<u8>>> {
        if self.metrics.is_none() {
            return Ok(None);
        }
        let path = self.path.join(file::CHECKPOINTS).join(file::BEST);
        match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(|e| failed("reading", &path, e)),
        }
    }

    /// Makes what [`RunFolder::best`] gave the best again; none is none.
    pub fn put_best_back(&self, content: Option<&[u8]>) -> Result<()> {
        if self.metrics.is_none() {
            return Ok(());
        }
        let path = self.path.join(file::CHECKPOINTS).join(file::BEST);
        match content {
            Some(content) => write(&path, content),
            None if path.exists() => {
                fs::remove_file(&path).map_err(|e| failed("removing", &path, e))
            }
            None => Ok(()),
        }
    }

    /// Writes a checkpoint after `step`, and then removes all later ones.
    pub fn roll_back(&mut self, checkpoint: &Checkpoint, step: u64) -> Result<()> {
        if self.metrics.is_none() {
            return Ok(());
        }
        checkpoint.write(self.path.join(file::CHECKPOINTS).join(name_of(step))).map_err(disk)?;
        for (_, path) in self.checkpoints()?.iter().filter(|(later, _)| *later > step) {
            fs::remove_file(path).map_err(|e| failed("removing", path, e))?;
        }
        Ok(())
    }

    /// Checkpoints with their steps, the newest last.
    pub fn checkpoints(&self) -> Result<Vec<(u64, PathBuf)>> {
        if self.metrics.is_none() {
            return Ok(Vec::new());
        }
        checkpoints(&self.path)
    }

    /// Writes the result: the run is done.
    pub fn finish(&mut self, summary: &Summary) -> Result<()> {
        match self.sync()? {
            true => write_json(&self.path.join(file::SUMMARY), summary),
            false => Ok(()),
        }
    }

    /// Writes down that the run diverged.
    pub fn fail(&self, failure: &Failure) -> Result<()> {
        if self.metrics.is_none() {
            return Ok(());
        }
        let Failure { message, hint, .. } = failure;
        let diverged = Divergence { message: message.clone(), hint: hint.clone() };
        write_json(&self.path.join(file::FAILURE), &diverged)
    }
}

/// Whether there is something in a folder that [`RunFolder::create`] would not have made before it
/// was killed.
fn has_other_content(path: &Path) -> bool {
    let ours = [file::LOCK, file::METRICS, file::PROVENANCE, file::EXPERIMENT];
    let Ok(mut entries) = fs::read_dir(path) else { return false };
    entries.any(|entry| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            match name == file::CHECKPOINTS {
                true => fs::read_dir(entry.path()).is_ok_and(|mut inner| inner.next().is_some()),
                false => !ours.contains(&name.strip_suffix(BESIDE).unwrap_or(&name)),
            }
        })
    })
}

/// Checkpoints of a run with their steps, the newest last.
pub fn checkpoints(run: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let folder = run.join(file::CHECKPOINTS);
    let entries = fs::read_dir(&folder).map_err(|e| failed("reading", &folder, e))?;
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?;
            let step = name.strip_prefix("step-")?.strip_suffix(".safetensors")?;
            Some((step.parse().ok()?, path))
        })
        .collect();
    found.sort();
    Ok(found)
}

/// Removes checkpoints that a process was killed over: hidden files that end with `.tmp`.
fn remove_torn(checkpoints: &Path) {
    for entry in fs::read_dir(checkpoints).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with(".tmp") {
            // One that stays does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn name_of(step: u64) -> String {
    format!("step-{step:010}.safetensors")
}

fn overtaken(path: &Path) -> Failure {
    Failure::usage(format!("another process has just worked in {}", path.display()))
        .hint("look at what it did, and try again")
}

fn lock(path: &Path) -> Result<File> {
    let name = path.join(file::LOCK);
    let opened = OpenOptions::new().create(true).append(true).open(&name);
    let lock = opened.map_err(|e| failed("opening", &name, e))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            let text = format!("another process is working in {}", path.display());
            Err(Failure::usage(text).hint("wait for it, or choose another folder with `--out`"))
        }
        Err(TryLockError::Error(error)) => Err(failed("locking", &name, error)),
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| failed("reading", path, e))
}

/// What a person can do about a write that failed.
const DISK: &str =
    "earlier checkpoints are whole: make room or give access, then go on with `--resume`";

fn failed(action: &str, path: &Path, error: std::io::Error) -> Failure {
    let failure = Failure::system(format!("{action} {}: {error}", path.display()));
    if action == "writing" { failure.hint(DISK) } else { failure }
}

fn disk(error: santa::Error) -> Failure {
    Failure::from(error).hint(DISK)
}

/// Ends the name of a file that is not whole yet.
const BESIDE: &str = ".new";

/// Writes a file beside the old one and puts it in its place.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(BESIDE);
    let beside = path.with_file_name(name);
    let put = || -> std::io::Result<()> {
        let mut file = File::create(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    put().map_err(|e| {
        let _ = fs::remove_file(&beside);
        failed("writing", path, e)
    })
}

/// Writes a value as JSON for people and programs.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).map_err(Failure::system)?;
    text.push('\n');
    write(path, text.as_bytes())
}

/// Differences between two experiments that a message names.
const NAMED: usize = 3;

/// The fields in which two values differ, in words.
fn differences(path: &str, there: &toml::Value, here: &toml::Value, found: &mut Vec<String>) {
    use toml::Value::Table;
    let (Table(a), Table(b)) = (there, here) else {
        if there != here {
            found.push(format!("`{path}` is {there} there, {here} here"));
        }
        return;
    };
    for key in b.keys().chain(a.keys().filter(|key| !b.contains_key(*key))) {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match (a.get(key), b.get(key)) {
            // What is said for the reader does not matter.
            _ if path == "description" => (),
            (Some(a), Some(b)) => differences(&path, a, b, found),
            (Some(a), None) => found.push(format!("`{path}` is {a} there, not set here")),
            (None, Some(b)) => found.push(format!("`{path}` is {b} here, not set there")),
            (None, None) => (),
        }
    }
}
