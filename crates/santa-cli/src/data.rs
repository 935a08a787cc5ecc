//! The data of experiments, loaded once and shared by their runs.

use crate::args::Global;
use crate::experiment::{Data, Set};
use crate::failure::{Failure, Result};
use santa_datasets::{Images, Mnist, Music, Polyphonic, Sequences, Split, Store};
use santa_nn::{Examples, PianoRolls};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Pixels of an image.
pub const PIXELS: usize = 28 * 28;
/// Classes of digits.
pub const CLASSES: usize = 10;

/// The data folder, and what was read from it.
pub struct Library {
    store: Store,
    raw: Mutex<HashMap<Set, Arc<Raw>>>,
}

enum Raw {
    Images(Mnist),
    Music(Music),
}

/// Data divided into parts.
pub enum Parts {
    /// Of images.
    Images(Divided<Examples>),
    /// Of music.
    Music(Divided<PianoRolls>),
}

/// The parts of a data set.
pub struct Divided<T> {
    /// To fit parameters to.
    pub train: T,
    /// To choose by.
    pub validation: Option<T>,
    /// To report on.
    pub test: T,
}

impl Library {
    /// The library in the folder that the command line names.
    pub fn new(global: &Global) -> Result<Self> {
        let store = Store::new(global.data_dir.clone())?;
        let store = if global.offline { store.offline() } else { store };
        Ok(Library { store, raw: Mutex::default() })
    }

    /// The data folder.
    pub fn root(&self) -> &std::path::Path {
        self.store.root()
    }

    /// The parts of a data set, as an experiment wants them.
    pub fn load(&self, data: &Data) -> Result<Parts> {
        let raw = self.raw(data.set)?;
        Ok(match &*raw {
            Raw::Images(mnist) => {
                let examples = |images: &Images| -> Result<Examples> {
                    let (pixels, labels) = (images.pixels(), images.labels());
                    let examples = Examples::from_bytes(pixels, images.image_len(), labels)?;
                    Ok(examples.scaled(1.0 / data.divisor))
                };
                let (train, test) = (examples(&mnist.train)?, examples(&mnist.test)?);
                check_size(data.set, train.len())?;
                let split = Split::by_seed(train.len(), data.validation, data.split_seed)?;
                let limit = data.limit.unwrap_or(usize::MAX).min(split.train.len());
                let validation = match data.validation {
                    0 => None,
                    _ => Some(train.select(&split.validation)?),
                };
                let train = match limit == train.len() {
                    true => train,
                    false => train.select(&split.train[..limit])?,
                };
                Parts::Images(Divided { train, validation, test })
            }
            Raw::Music(music) => {
                let rolls = |sequences: &Sequences| {
                    let (values, offsets) = (sequences.values(), sequences.offsets());
                    PianoRolls::new(sequences.width(), values.to_vec(), offsets.to_vec())
                };
                check_size(data.set, music.train.len())?;
                let validation = Some(rolls(&music.valid)?);
                let (train, test) = (rolls(&music.train)?, rolls(&music.test)?);
                Parts::Music(Divided { train, validation, test })
            }
        })
    }

    fn raw(&self, set: Set) -> Result<Arc<Raw>> {
        let mut known = self.raw.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(raw) = known.get(&set) {
            return Ok(raw.clone());
        }
        let raw = Arc::new(match set {
            Set::MnistSubset => Raw::Images(Mnist::embedded()),
            Set::Mnist => Raw::Images(Mnist::load(&self.store)?),
            Set::Jsb => Raw::Music(Polyphonic::Jsb.load(&self.store)?),
            Set::Nottingham => Raw::Music(Polyphonic::Nottingham.load(&self.store)?),
            Set::Musedata => Raw::Music(Polyphonic::MuseData.load(&self.store)?),
            Set::PianoMidi => Raw::Music(Polyphonic::PianoMidi.load(&self.store)?),
        });
        known.insert(set, raw.clone());
        Ok(raw)
    }
}

/// Durations were counted by the size that the set is known to have.
fn check_size(set: Set, found: usize) -> Result<()> {
    let expected = set.training_size();
    if found == expected {
        return Ok(());
    }
    let text = format!("the training data have {found} examples instead of {expected}");
    Err(Failure::data(text).hint("`santa data verify` tells which file is not the known one"))
}
