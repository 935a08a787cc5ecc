//! Draws on disk, as they come.
//!
//! A store is a folder:
//!
//! ```text
//! posterior/
//!   settings.json             the sampler's settings and the names of the quantities
//!   warm-up.safetensors       how far a warm-up is that takes long; gone once it is done
//!   tuning.safetensors        what the warm-up found; there once it is done
//!   chain-0/
//!     warm-up-3.safetensors       the chain in the warm-up, before its third window
//!     draws-000000000.parquet     the first draws, or .safetensors
//!     draws-000000500.parquet     those from number 500 on; parts may be of any length
//!     checkpoint.safetensors      the chain after the last of them
//!   chain-1/ ...
//! ```
//!
//! A team of processes that share the chains ([`Sampler::run_in_team`]) has one store, in a folder that
//! all of them see: each writes the files of its own chains, rank 0 alone the others. Which chain
//! was whose is not kept, and a run may go on with another number of processes.
//!
//! Every file is written beside its place, flushed and renamed, so that it is whole or not there; a
//! part is written before the checkpoint that counts its draws. A part has 500 draws at most, and is
//! written after a minute even if it has fewer ([`Store::writing_every`]); what the draws are does not
//! depend on it. Whatever is interrupted, and however, what is there can be read, and a run that goes on
//! makes the very draws it would have made. A warm-up is written about once a minute too, between its
//! windows; with dynamics of your own, at any step.
//!
//! Parquet parts have a column per quantity, `chain`, `draw`, and the statistics of the draw in
//! columns that begin with `stat.`. All parts of a chain together are one table. The folder holds the
//! chain's checkpoint too, so readers are given the parts by name: polars and DuckDB take the pattern
//! `posterior/chain-0/*.parquet`, and pandas a list of the files,
//! `pandas.read_parquet(sorted(glob.glob("posterior/chain-0/*.parquet")))`. Safetensors parts hold two tensors, `draws` and `statistics`, one row per
//! draw: for many quantities, such as all weights of a network.

mod parquet;
mod safetensors;

use crate::Draws;
use crate::error::{Error, Result};
use crate::sampler::{Figures, STATISTICS, Sampler};
use santa::Checkpoint;
use santa::checkpoint::write_whole;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How parts are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Columns by name.
    #[default]
    Parquet,
    /// Tensors, in double precision.
    Safetensors,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Safetensors => "safetensors",
        }
    }
}

/// A folder of draws; see the [module](self).
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    format: Format,
    model: Value,
    every: Duration,
}

/// Time between two writes, if nothing else is said. Draws of a network may be minutes apart, and a
/// crash must not cost hours.
const EVERY: Duration = Duration::from_secs(60);

/// What a store says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The format of its parts.
    pub format: Format,
    /// The quantities.
    pub names: Vec<String>,
    /// The settings that they were drawn with.
    pub sampler: Sampler,
    /// What the caller says about the model; a run goes on only with the same.
    #[serde(default)]
    pub model: Value,
}

/// Consecutive draws of a chain in memory: their quantities and statistics.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) quantities: Vec<f64>,
    pub(crate) statistics: Vec<f64>,
}

impl Store {
    /// A store in a folder, new or not.
    pub fn new(folder: impl Into<PathBuf>, format: Format) -> Self {
        Store { folder: folder.into(), format, model: Value::Null, every: EVERY }
    }

    /// What is sampled, in words or figures of the caller's: a run goes on only with the same.
    pub fn describing(mut self, model: Value) -> Self {
        self.model = model;
        self
    }

    /// The numbers that the warm-up found; none before it is done.
    pub fn figures(&self) -> Result<Option<Figures>> {
        match self.is_begun() {
            true => Ok(Some(Figures::read(&Checkpoint::read(self.tuning_path())?)?)),
            false => Ok(None),
        }
    }

    /// Time between two writes of a chain, at most, if no draw takes longer: a minute if nothing is said.
    pub fn writing_every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Opens a store that is there.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let description = read_description(&folder.join(SETTINGS))?;
        Ok(Store { folder, format: description.format, model: description.model, every: EVERY })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    /// Whether a warm-up was finished here: there may be draws to go on with.
    pub fn is_begun(&self) -> bool {
        self.tuning_path().exists()
    }
    /// Whether a warm-up is there that is not finished, and that a run would go on with.
    pub fn is_warming_up(&self) -> bool {
        !self.is_begun() && self.warm_up_files().is_ok_and(|files| !files.is_empty())
    }
    /// Removes such a warm-up: the next run begins it anew.
    pub fn forget_warm_up(&self) -> Result<()> {
        for path in self.warm_up_files()? {
            fs::remove_file(&path).map_err(Error::io("removing", &path))?;
        }
        Ok(())
    }
    /// What is being sampled, and how.
    pub fn description(&self) -> Result<Description> {
        read_description(&self.folder.join(SETTINGS))
    }
    /// All draws, and the statistics of each.
    pub fn read(&self) -> Result<(Draws, Draws)> {
        let description = self.description()?;
        let chains = description.sampler.chains as usize;
        let mut draws = Draws::new(&description.names, chains)?;
        let mut statistics = Draws::new(STATISTICS, chains)?;
        for chain in 0..chains {
            let all = self.read_chain(chain, draws.dim())?;
            draws.extend(chain, &all.quantities)?;
            statistics.extend(chain, &all.statistics)?;
        }
        Ok((draws, statistics))
    }

    /// Makes the folder, or checks that it was made with the same settings. More draws than there are
    /// may be asked for, fewer not.
    pub(crate) fn begin(&self, sampler: &Sampler, names: &[String]) -> Result<()> {
        let path = self.folder.join(SETTINGS);
        let mine = Description {
            format: self.format,
            names: names.to_vec(),
            sampler: sampler.clone(),
            model: self.model.clone(),
        };
        if self.is_begun() && path.exists() {
            let theirs = read_description(&path)?;
            if let Some(what) = difference(&theirs, &mine) {
                return Err(Error::data(format!(
                    "{} holds draws made with another `{what}`; give the same settings to go on with \
                     them, or another folder",
                    self.folder.display()
                )));
            }
            self.check_draws(sampler)?;
        } else if !read_description(&path).is_ok_and(|theirs| difference(&theirs, &mine).is_none())
        {
            // Half a warm-up of something else is of no use to anybody.
            self.forget_warm_up()?;
        }
        for chain in 0..sampler.chains as usize {
            let folder = self.chain_folder(chain);
            fs::create_dir_all(&folder).map_err(Error::io("creating", &folder))?;
        }
        let text = serde_json::to_string_pretty(&mine).expect("settings are plain data");
        Ok(write_whole(&path, text.as_bytes())?)
    }

    pub(crate) fn tuning_path(&self) -> PathBuf {
        self.folder.join("tuning.safetensors")
    }

    /// Where a warm-up is between its windows, for all chains.
    pub(crate) fn warm_up_path(&self) -> PathBuf {
        self.folder.join(format!("{WARM_UP}.safetensors"))
    }
    /// A chain before a window of the warm-up.
    pub(crate) fn chain_warm_up_path(&self, chain: usize, stage: u32) -> PathBuf {
        self.chain_folder(chain).join(format!("{WARM_UP}-{stage}.safetensors"))
    }
    /// Whether it is time to write again.
    pub(crate) fn is_due(&self, since: Instant) -> bool {
        since.elapsed() >= self.every
    }
    fn warm_up_files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        if !self.folder.exists() {
            return Ok(files);
        }
        let mut folders = vec![self.folder.clone()];
        folders.extend(entries(&self.folder)?.into_iter().filter(|path| begins(path, "chain-")));
        for folder in folders {
            files.extend(entries(&folder)?.into_iter().filter(|path| begins(path, WARM_UP)));
        }
        Ok(files)
    }

    pub(crate) fn write_checkpoint(&self, chain: usize, checkpoint: &Checkpoint) -> Result<()> {
        Ok(checkpoint.write(self.chain_folder(chain).join(CHECKPOINT))?)
    }
    pub(crate) fn read_checkpoint(&self, chain: usize) -> Result<Checkpoint> {
        let path = self.chain_folder(chain).join(CHECKPOINT);
        match path.exists() {
            true => Ok(Checkpoint::read(path)?),
            false => Err(missing(&path, "from which the chain goes on")),
        }
    }

    /// Refuses a run of fewer draws than there are.
    fn check_draws(&self, sampler: &Sampler) -> Result<()> {
        for chain in 0..sampler.chains as usize {
            let made: u64 = self.read_checkpoint(chain)?.meta(DRAWS)?;
            if made > sampler.draws {
                let folder = self.folder.display();
                let allowed = format!(
                    "chain {chain} in {folder} has {made} draws already; ask for {made} or more, or \
                     choose another folder"
                );
                return Err(Error::setting("draws", sampler.draws, allowed));
            }
        }
        Ok(())
    }

    /// Writes the draws of a chain from number `first` on.
    pub(crate) fn write_part(
        &self,
        chain: usize,
        first: u64,
        quantities: &[f64],
        statistics: &[f64],
    ) -> Result<()> {
        let names = self.description()?.names;
        let bytes = match self.format {
            Format::Parquet => parquet::encode(&names, chain, first, quantities, statistics)?,
            Format::Safetensors => safetensors::encode(names.len(), quantities, statistics)?,
        };
        Ok(write_whole(self.part_path(chain, first), &bytes)?)
    }

    /// Removes the parts of a chain from draw `made` on, which no checkpoint counts: a crash came
    /// between the two. They will be made again.
    pub(crate) fn forget_after(&self, chain: usize, made: u64) -> Result<()> {
        for first in self.parts(chain)?.into_iter().filter(|first| *first >= made) {
            let path = self.part_path(chain, first);
            fs::remove_file(&path).map_err(Error::io("removing", &path))?;
        }
        Ok(())
    }

    /// Reads all parts of a chain, of `dim` quantities.
    pub(crate) fn read_chain(&self, chain: usize, dim: usize) -> Result<Part> {
        let mut all = Part::default();
        for first in self.parts(chain)? {
            self.check_held(chain, (all.quantities.len() / dim) as u64, first)?;
            let path = self.part_path(chain, first);
            let bytes = fs::read(&path).map_err(Error::io("reading", &path))?;
            let part = match self.format {
                Format::Parquet => parquet::decode(bytes, dim),
                Format::Safetensors => safetensors::decode(&bytes, dim),
            }
            .map_err(|why| Error::data(format!("{}: {why}", path.display())))?;
            all.quantities.extend(part.quantities);
            all.statistics.extend(part.statistics);
        }
        Ok(all)
    }

    /// Refuses a chain, of `dim` quantities, that does not hold all draws it has made.
    pub(crate) fn check_chain(&self, chain: usize, dim: usize, made: u64) -> Result<()> {
        let held = self.read_chain(chain, dim)?.quantities.len() / dim;
        self.check_held(chain, held as u64, made)
    }

    /// Refuses draws that end before those that follow them.
    fn check_held(&self, chain: usize, held: u64, next: u64) -> Result<()> {
        let path = self.part_path(chain, held);
        match held {
            _ if held == next => Ok(()),
            _ if held < next => {
                let what = format!("with draws {held} to {} of the chain", next - 1);
                Err(missing(&path, &what))
            }
            _ => Err(Error::data(format!(
                "{}: draws {next} to {} are in two files of the chain; remove those that a copy has \
                 left there",
                self.chain_folder(chain).display(),
                held - 1
            ))),
        }
    }

    /// The first draw of each part of a chain, in order.
    fn parts(&self, chain: usize) -> Result<Vec<u64>> {
        let folder = self.chain_folder(chain);
        let mut parts = Vec::new();
        for path in entries(&folder)? {
            let number: Option<u64> = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.strip_prefix("draws-"))
                .and_then(|name| name.strip_suffix(self.format.extension()))
                .and_then(|name| name.strip_suffix('.'))
                .and_then(|digits| digits.parse().ok());
            parts.extend(number);
        }
        parts.sort_unstable();
        Ok(parts)
    }

    fn chain_folder(&self, chain: usize) -> PathBuf {
        self.folder.join(format!("chain-{chain}"))
    }
    fn part_path(&self, chain: usize, first: u64) -> PathBuf {
        let name = format!("draws-{first:09}.{}", self.format.extension());
        self.chain_folder(chain).join(name)
    }
}

/// Where a chain's checkpoint keeps how many draws it has made.
pub(crate) const DRAWS: &str = "posterior/draws";

const SETTINGS: &str = "settings.json";
const CHECKPOINT: &str = "checkpoint.safetensors";
const WARM_UP: &str = "warm-up";

/// What is in a folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(Error::io("reading", folder))?;
    entries.map(|entry| Ok(entry.map_err(Error::io("reading", folder))?.path())).collect()
}

fn begins(path: &Path, with: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(with))
}

fn missing(path: &Path, what: &str) -> Error {
    let path = path.display();
    Error::data(format!("{path} is missing, {what}; restore it, or sample anew in another folder"))
}

fn read_description(path: &Path) -> Result<Description> {
    let text = fs::read_to_string(path).map_err(Error::io("reading", path))?;
    serde_json::from_str(&text).map_err(|error| {
        Error::data(format!("{}: not a store's settings: {error}", path.display()))
    })
}

/// The first thing that two descriptions differ in; the number of draws may.
fn difference(old: &Description, new: &Description) -> Option<String> {
    let [mut old, new] = [old, new].map(|d| serde_json::to_value(d).expect("plain data"));
    old["sampler"]["draws"] = new["sampler"]["draws"].clone();
    let within = |old: &Value, new: &Value| {
        let mut fields = old.as_object()?.iter();
        fields.find(|(key, value)| new[*key] != **value).map(|(key, _)| key.clone())
    };
    within(&old["sampler"], &new["sampler"])
        .or_else(|| within(&old["model"], &new["model"]))
        .or_else(|| within(&old, &new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_as_they_were_written() {
        for format in [Format::Parquet, Format::Safetensors] {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::new(folder.path().join("posterior"), format);
            let sampler = Sampler { chains: 2, ..Sampler::seeded(1) };
            store.begin(&sampler, &["a".into(), "b".into()]).unwrap();
            let stats = [1.0, f64::NAN, 0.3];
            store.write_part(0, 0, &[1.0, 2.0, 3.0, 4.0], &stats.repeat(2)).unwrap();
            store.write_part(0, 2, &[-1.5, 1e-300], &stats).unwrap();
            store.write_part(1, 0, &[9.0; 6], &stats.repeat(3)).unwrap();
            let (draws, statistics) = Store::open(store.folder()).unwrap().read().unwrap();
            assert_eq!(draws.chain(0), [1.0, 2.0, 3.0, 4.0, -1.5, 1e-300]);
            assert_eq!((draws.len(), statistics.len()), (3, 3));
            assert!(statistics.draw(0, 1)[1].is_nan());
        }
    }

    #[test]
    fn what_is_missing_damaged_or_other_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), Format::Parquet);
        let sampler = Sampler { chains: 1, ..Sampler::seeded(1) };
        let names = ["a".to_string()];
        store.begin(&Sampler { seed: 3, ..sampler.clone() }, &names).unwrap();
        // Other settings, as long as there is nothing to go on with.
        store.begin(&sampler, &names).unwrap();
        fs::write(store.tuning_path(), b"found").unwrap();
        let message = store.begin(&sampler, &names).unwrap_err().to_string();
        assert!(message.contains("checkpoint.safetensors is missing"), "{message}");
        let mut checkpoint = Checkpoint::new();
        checkpoint.insert_meta(DRAWS, &6).unwrap();
        store.write_checkpoint(0, &checkpoint).unwrap();
        store.write_part(0, 5, &[1.0], &[0.0; 3]).unwrap();
        let message = store.read().unwrap_err().to_string();
        assert!(message.contains("draws-000000000.parquet is missing"), "{message}");
        assert!(message.contains("draws 0 to 4"), "{message}");
        store.write_part(0, 0, &[1.0; 5], &[0.0; 15]).unwrap();
        store.check_chain(0, 1, 6).unwrap();
        let message = store.check_chain(0, 1, 8).unwrap_err().to_string();
        assert!(message.contains("draws-000000006.parquet is missing"), "{message}");
        assert!(message.contains("draws 6 to 7"), "{message}");
        store.write_part(0, 0, &[1.0; 9], &[0.0; 27]).unwrap();
        let message = store.read().unwrap_err().to_string();
        assert!(message.contains("draws 5 to 8 are in two files"), "{message}");

        let part = store.part_path(0, 0);
        fs::write(&part, b"not parquet").unwrap();
        let message = store.read().unwrap_err().to_string();
        assert!(message.contains("draws-000000000.parquet"), "{message}");

        let message = store.begin(&Sampler { seed: 2, ..sampler.clone() }, &names).unwrap_err();
        assert!(message.to_string().contains("another `seed`"), "{message}");
        store.begin(&Sampler { draws: 7, ..sampler.clone() }, &names).unwrap();
        let message = store.begin(&Sampler { draws: 5, ..sampler.clone() }, &names).unwrap_err();
        assert!(message.to_string().contains("has 6 draws already"), "{message}");
        let message = store.begin(&sampler, &["z".into()]).unwrap_err();
        assert!(message.to_string().contains("another `names`"), "{message}");
        let other = store.clone().describing(serde_json::json!({ "data": "b.csv" }));
        let message = other.begin(&sampler, &names).unwrap_err();
        assert!(message.to_string().contains("another `model`"), "{message}");
        assert!(Store::open(folder.path().join("nowhere")).is_err());
    }
}
