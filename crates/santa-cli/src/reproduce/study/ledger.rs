//! The runs of a cell, one line of JSON each, as they are finished. A run is known by its settings
//! and its seed, so that the ledger tells which ones need not be made again.

use super::curves::Curve;
use super::schema::{Fields, Place};
use crate::experiment::{Checkpoints, Experiment};
use crate::failure::{Failure, Result};
use crate::run::folder::write;
use crate::run::machine::machine;
use crate::run::record::{Machine, QUANTILES, Record, Scores};
use crate::run::stored::StoredRun;
use crate::train::fleet::Outcome;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
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
            best: summary.and_then(|s| s.best).map(|best| best.scores),
            diverged,
            momentum: momentum(&records),
            curve: (role == Role::Run).then(|| Curve::of(&records)),
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
    let digest = Sha256::digest(plain.to_toml()?.as_bytes());
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
            let path = ledgers.path(place);
            if !path.exists() {
                continue;
            }
            let wrong = |e: &dyn std::fmt::Display| {
                Failure::data(format!("{}: {e}", path.display()))
                    .hint("remove the damaged line: its run will be made again")
            };
            let text = std::fs::read_to_string(&path).map_err(|e| wrong(&e))?;
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let entries = lines.map(|line| serde_json::from_str(line).map_err(|e| wrong(&e)));
            ledgers.entries.insert(place.clone(), entries.collect::<Result<_>>()?);
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

    /// Of all finished runs.
    pub fn all(&self) -> impl Iterator<Item = (&Place, &Entry)> {
        self.entries.iter().flat_map(|(place, entries)| entries.iter().map(move |e| (place, e)))
    }

    /// Writes a run down.
    pub fn push(&mut self, place: &Place, entry: Entry) -> Result<()> {
        let path = self.path(place);
        let entries = self.entries.entry(place.clone()).or_default();
        entries.push(entry);
        let mut text = String::new();
        for entry in entries {
            text += &serde_json::to_string(entry).map_err(Failure::system)?;
            text.push('\n');
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|e| Failure::system(format!("making {}: {e}", parent.display())))?;
        }
        write(&path, text.as_bytes())
    }
}
