//! Whatever the bytes are: no panic, and no array that its file does not hold.
//!
//! The corpus of the fuzz targets is run as it is, and with random changes. More of those by
//!
//! ```text
//! SANTA_CASES=1000000 cargo test --release -p santa-datasets --test bad_input -- --ignored
//! ```
#![cfg(feature = "images")]

/// The bodies of the fuzz targets, so that both do the same.
#[path = "../../../fuzz/src/readers.rs"]
mod fuzzed;

use santa::noise::{Purpose, Stream};
use std::path::Path;

type Reader = fn(&[u8]);

/// Each reader, with its folder in the corpus.
const READERS: [(&str, Reader); 5] = [
    ("idx", fuzzed::idx),
    ("gzip_idx", fuzzed::gzip_idx),
    ("matlab", fuzzed::matlab),
    ("npz", fuzzed::npz),
    ("image", fuzzed::image),
];

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// The choices of a case.
struct Dice {
    stream: Stream,
    case: u64,
    drawn: u32,
}

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        self.stream.below(self.case, 0, self.drawn, bound as u64) as usize
    }
}

/// Changes a few bytes: values that lengths like to trip over, single bits, pieces of other files.
fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice) {
    const LONGEST_PIECE: usize = 64;
    for _ in 0..=dice.below(3) {
        if bytes.is_empty() {
            return;
        }
        let at = dice.below(bytes.len());
        match dice.below(7) {
            0 => bytes[at] = dice.below(256) as u8,
            1 => bytes[at] ^= 1 << dice.below(8),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5)],
            3 => {
                let word = [0, 1, 8, u32::MAX, i32::MAX as u32, 1 << 24][dice.below(6)];
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
            }
            4 => bytes.truncate(at),
            5 => {
                let other = &others[dice.below(others.len())];
                let from = dice.below(other.len());
                let until = (from + dice.below(LONGEST_PIECE)).min(other.len());
                let end = (at + dice.below(LONGEST_PIECE)).min(bytes.len());
                bytes.splice(at..end, other[from..until].iter().copied());
            }
            // A digit of a header.
            _ => {
                if let Some(k) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    bytes[at + k] = b"0123456789-L,)("[dice.below(15)];
                }
            }
        }
    }
}

fn mutations(cases: u64) {
    for (k, (name, read)) in READERS.iter().enumerate() {
        let corpus = corpus(name);
        let stream = Stream::new(k as u64, 0, Purpose::Custom(0));
        for case in 0..cases {
            let mut dice = Dice { stream, case, drawn: 0 };
            let mut bytes = corpus[dice.below(corpus.len())].clone();
            mutate(&mut bytes, &corpus, &mut dice);
            let result = std::panic::catch_unwind(|| read(&bytes));
            assert!(result.is_ok(), "{name}, case {case}: {}", bytes.escape_ascii());
        }
    }
}

#[test]
fn the_corpus_of_the_fuzzer_passes() {
    for (name, read) in READERS {
        let corpus = corpus(name);
        assert!(!corpus.is_empty());
        corpus.iter().for_each(|bytes| read(bytes));
    }
}

#[test]
fn mutated_files_are_refused_or_read() {
    mutations(3_000);
}

/// `SANTA_CASES=1000000 cargo test --release -p santa-datasets --test bad_input -- --ignored`
#[test]
#[ignore = "long; see its comment"]
fn many_mutated_files() {
    const DEFAULT: u64 = 100_000;
    mutations(std::env::var("SANTA_CASES").map_or(DEFAULT, |text| {
        text.parse().expect("SANTA_CASES is the number of cases for each reader")
    }));
}
