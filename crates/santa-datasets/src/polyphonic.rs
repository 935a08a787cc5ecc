//! Four collections of polyphonic music as piano rolls.

use crate::catalog::{self, Resource};
use crate::error::{Error, Result};
use crate::matlab::{self, Cells, Matrix};
use crate::sequences::Sequences;
use crate::store::Store;
use std::fmt;

/// Keys of a piano, hence values of a step.
pub const KEYS: usize = 88;

/// A collection (Boulanger-Lewandowski, Bengio, Vincent, ICML 2012).
///
/// | | training | validation | test sequences |
/// | --- | --- | --- | --- |
/// | `Jsb` | 229 | 76 | 77 |
/// | `Nottingham` | 694 | 173 | 170 |
/// | `MuseData` | 524 | 135 | 124 |
/// | `PianoMidi` | 87 | 12 | 25 |
///
/// ```no_run
/// use santa_datasets::{Polyphonic, Store};
///
/// let music = Polyphonic::Jsb.load(&Store::new(None)?)?;
/// for chorale in music.train.iter() {
///     for step in chorale.chunks(music.train.width()) {
///         let sounding = step.iter().filter(|key| **key == 1).count();
///     }
/// }
/// # Ok::<(), santa_datasets::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polyphonic {
    /// Chorales of J. S. Bach.
    Jsb,
    /// British and American folk tunes.
    Nottingham,
    /// Orchestral and piano music.
    MuseData,
    /// Classical piano music.
    PianoMidi,
}

/// The sequences of a collection: a step is 88 keys, each 0 or 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Music {
    /// For training.
    pub train: Sequences,
    /// For validation.
    pub valid: Sequences,
    /// For testing.
    pub test: Sequences,
}

impl Polyphonic {
    /// All of them.
    pub const ALL: [Polyphonic; 4] =
        [Polyphonic::Jsb, Polyphonic::Nottingham, Polyphonic::MuseData, Polyphonic::PianoMidi];

    /// The file.
    pub fn resource(self) -> &'static Resource {
        match self {
            Polyphonic::Jsb => &catalog::JSB_CHORALES,
            Polyphonic::Nottingham => &catalog::NOTTINGHAM,
            Polyphonic::MuseData => &catalog::MUSE_DATA,
            Polyphonic::PianoMidi => &catalog::PIANO_MIDI,
        }
    }

    /// Loads the collection. A missing file is fetched.
    pub fn load(self, store: &Store) -> Result<Music> {
        /// Half as much again as the largest collection takes, inflated and read.
        const LIMIT: u64 = 100 << 20;
        let path = store.fetch(self.resource())?;
        let cells = matlab::read_within(&path, LIMIT)?;
        Music::from_cells(&path.display().to_string(), &cells)
    }
}

impl fmt::Display for Polyphonic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Polyphonic::Jsb => "JSB Chorales",
            Polyphonic::Nottingham => "Nottingham",
            Polyphonic::MuseData => "MuseData",
            Polyphonic::PianoMidi => "Piano-midi.de",
        })
    }
}

impl Music {
    /// The cell arrays `traindata`, `validdata` and `testdata`; `file` is for errors.
    fn from_cells(file: &str, cells: &Cells) -> Result<Music> {
        let part = |name: &str| match cells.get(name) {
            Some(list) => sequences(file, name, list),
            None => Err(Error::format(file, 0, format!("there is no cell array {name}"))),
        };
        Ok(Music { train: part("traindata")?, valid: part("validdata")?, test: part("testdata")? })
    }
}

fn sequences(file: &str, name: &str, cells: &[Matrix]) -> Result<Sequences> {
    let mut values = Vec::with_capacity(cells.iter().map(|cell| cell.values().len()).sum());
    let mut offsets = vec![0];
    for (i, cell) in cells.iter().enumerate() {
        let error = |reason: String| {
            let file = format!("{file}, {name}{{{}}}", i + 1);
            Err(Error::Format { file, offset: cell.offset(), reason })
        };
        if cell.columns() != KEYS {
            return error(format!("{} columns; a piano has {KEYS} keys", cell.columns()));
        }
        if let Some(value) = cell.values().iter().find(|value| **value > 1) {
            return error(format!("a value of {value}; a key is pressed (1) or not (0)"));
        }
        cell.append_rows(&mut values);
        offsets.push(values.len() / KEYS);
    }
    Sequences::new(values, offsets, KEYS)
}
