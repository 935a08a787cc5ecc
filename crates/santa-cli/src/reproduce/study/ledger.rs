//! The runs of a cell, one line of JSON each, as they are finished. A run is known by its settings
//! and its seed, so that the ledger tells which ones need not be made again.

use super::curves::Curve;
use super::schema::{Fields, Place};
use crate::experiment::{Checkpoints, Experiment};
use crate::failure::{Failure, Result};
use crate::run::machine::machine;
use crate::run::record::{Machine, QUANTILES, Record, Scores};
use crate::run::stored::StoredRun;
use crate::train::fleet::Outcome;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A finished run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Settings and seed, as a number.
    pub key: String,
    /// What it was made for.
    pub role: Role,
    /// The seed.
    pub seed: u64,
    /// The fields that were tried or chosen.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub chosen: serde_json::Map<String, serde_json::Value>,
    /// Passes over the training data made.
    pub epochs: f64,
    /// Seconds of training and evaluation.
    pub seconds: f64,
    /// The last parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Scores>,
    /// The averaged prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub averaged: Option<Scores>,
    /// The averaged prediction as it was when it was best on validation data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_averaged: Option<Scores>,
    /// The parameters that were best on validation data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Scores>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged: Option<String>,
    /// Median share of the momentum that survives a step, at the first and at the last look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub momentum: Option<(f64, f64)>,
    /// How it learnt; of runs that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<Curve>,
    /// Test examples that the averaged prediction gets wrong, by their places; of runs that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<Vec<u32>>,
    /// Version of `santa`.
    pub version: String,
    /// On what.
    pub machine: Machine,
}

/// What a run was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// To choose settings.
    Trial,
    /// To choose among the best of the trials.
    Final,
    /// For the table.
    Run,
}

impl Entry {
    /// What became of a run in a folder.
    pub fn new(
        experiment: &Experiment,
        role: Role,
        fields: &Fields,
        folder: &Path,
        outcome: &Outcome,
    ) -> Result<Self> {
        let summary = outcome.summary();
        let diverged = match outcome {
            Outcome::Diverged(message) => Some(message.clone()),
            Outcome::Done(_) => None,
        };
        let records = StoredRun::read(folder)?.records;
        let json = |value: &toml::Value| serde_json::to_value(value).map_err(Failure::system);
        let chosen = fields.iter().map(|(key, value)| Ok((key.clone(), json(value)?)));
        Ok(Entry {
            key: key_of(experiment)?,
            role,
            seed: experiment.seed,
            chosen: chosen.collect::<Result<_>>()?,
            epochs: summary.map_or(0.0, |summary| summary.epochs),
            seconds: summary.map_or(0.0, |summary| summary.seconds),
            last: summary.map(|summary| summary.last),
            averaged: summary.and_then(|s| s.averaged).map(|averaged| averaged.scores),
            best_averaged: summary.and_then(|s| s.best_averaged).map(|best| best.scores),
            best: summary.and_then(|s| s.best).map(|best| best.scores),
            diverged,
            momentum: momentum(&records),
            curve: (role == Role::Run).then(|| Curve::of(&records)),
            wrong: summary.and_then(|s| s.wrong_averaged.clone()).filter(|_| role == Role::Run),
            version: env!("CARGO_PKG_VERSION").into(),
            machine: machine(),
        })
    }
}

/// Median over the layers of the median momentum, at the first and at the last look.
fn momentum(records: &[Record]) -> Option<(f64, f64)> {
    const MIDDLE: usize = QUANTILES.len() / 2;
    let median = |record: &Record| {
        let Record::Layers(layers) = record else { return None };
        let all = layers.layers.iter().filter_map(|layer| layer.momentum);
        let mut all: Vec<f64> = all.map(|quantiles| quantiles[MIDDLE]).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    };
    Some((records.iter().find_map(median)?, records.iter().rev().find_map(median)?))
}

/// What an experiment computes, as a number: how it is called and how often it is saved do not count.
pub fn key_of(experiment: &Experiment) -> Result<String> {
    let mut plain = experiment.clone();
    (plain.name, plain.description, plain.log_every) = Default::default();
    plain.optimizer.name.clear();
    plain.checkpoints = Checkpoints { every: 1, keep: 1 };
    digest(&plain)
}

/// The same of all that is written in its folder.
pub fn digest(experiment: &Experiment) -> Result<String> {
    let digest = Sha256::digest(experiment.to_toml()?.as_bytes());
    Ok(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// The ledgers of a study.
pub struct Ledgers {
    folder: PathBuf,
    entries: HashMap<Place, Vec<Entry>>,
}

impl Ledgers {
    /// Reads those that there are, in a folder.
    pub fn read(folder: &Path, places: &[Place]) -> Result<Self> {
        let mut ledgers = Ledgers { folder: folder.into(), entries: HashMap::new() };
        for place in places {
            let entries = entries(&ledgers.path(place))?;
            ledgers.entries.insert(place.clone(), entries);
        }
        Ok(ledgers)
    }

    fn path(&self, place: &Place) -> PathBuf {
        let Place { protocol, column, row } = place;
        self.folder.join(protocol).join(column).join(format!("{row}.jsonl"))
    }

    /// The run of an experiment, if it is finished.
    pub fn find(&self, place: &Place, role: Role, key: &str) -> Option<&Entry> {
        let entries = self.entries.get(place)?.iter();
        entries.rev().find(|entry| entry.key == key && entry.role == role)
    }

    /// The finished runs of a cell, trials included, in the order in which they were finished.
    pub fn of(&self, place: &Place) -> &[Entry] {
        self.entries.get(place).map_or(&[], Vec::as_slice)
    }

    /// Of all finished runs.
    pub fn all(&self) -> impl Iterator<Item = (&Place, &Entry)> {
        self.entries.iter().flat_map(|(place, entries)| entries.iter().map(move |e| (place, e)))
    }

    /// The seeds of a cell's runs, in order; some may be of settings that are no longer chosen.
    pub fn seeds(&self, place: &Place) -> Vec<u64> {
        let runs = self.entries.get(place).into_iter().flatten();
        let runs = runs.filter(|entry| entry.role == Role::Run);
        let mut seeds: Vec<u64> = runs.map(|entry| entry.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds
    }

    /// Writes a run down, at the end of its file: another process may write there as well.
    pub fn push(&mut self, place: &Place, entry: Entry) -> Result<()> {
        let path = self.path(place);
        let failed =
            |e: std::io::Error| Failure::system(format!("writing {}: {e}", path.display()));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        let mut line = serde_json::to_string(&entry).map_err(Failure::system)?;
        line.push('\n');
        // A line that was cut off is closed, so that it does no harm to this one.
        if std::fs::read(&path).is_ok_and(|bytes| bytes.last().is_some_and(|b| *b != b'\n')) {
            line.insert(0, '\n');
        }
        let mut file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
        file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).map_err(failed)?;
        self.entries.entry(place.clone()).or_default().push(entry);
        Ok(())
    }
}

/// The entries of a file; of one that is not there, none. A last line that was cut off is left out.
fn entries(path: &Path) -> Result<Vec<Entry>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let wrong = |e: String| {
        Failure::data(format!("{}{e}", path.display()))
            .hint("remove the damaged line: its run will be made again")
    };
    let text = std::fs::read_to_string(path).map_err(|e| wrong(format!(": {e}")))?;
    let mut entries = Vec::new();
    for (i, line) in text.split_inclusive('\n').enumerate() {
        match serde_json::from_str(line) {
            Ok(entry) => entries.push(entry),
            Err(_) if line.trim().is_empty() || !line.ends_with('\n') => (),
            Err(error) => return Err(wrong(format!(", line {}: {error}", i + 1))),
        }
    }
    Ok(entries)
}
