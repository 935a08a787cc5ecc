//! The authors' trained networks have the likelihoods that the authors recorded.
//!
//! Their files are no part of this repository: they are looked for in the folder that `SANTA_DATA`
//! names, or in `shared/data` beside the repository.

use santa_datasets::npz;
use santa_datasets::{Polyphonic, Sequences, Store};
use santa_nn::{Gru, GruArchitecture, PianoRolls, Scalar, Tensor};
use std::path::{Path, PathBuf};

fn data() -> PathBuf {
    std::env::var_os("SANTA_DATA").filter(|folder| !folder.is_empty()).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    )
}

fn rolls(sequences: &Sequences) -> PianoRolls {
    PianoRolls::new(sequences.width(), sequences.values(), sequences.offsets()).unwrap()
}

/// Compares validation and test likelihoods of a network with what its file says.
fn check(music: Polyphonic, file: &str) {
    let weights = data().join("santa-2016-weights").join(file);
    let store = Store::new(Some(data())).unwrap().offline();
    if !weights.is_file() || store.find(music.resource()).is_none() {
        println!("skipped: {} or the music is not there", weights.display());
        return;
    }
    let music = music.load(&store).unwrap();
    let arrays = npz::read(&weights).unwrap();
    let arrays: std::collections::BTreeMap<_, _> =
        arrays.iter().map(|(name, array)| (name, (&array.shape, array.values.to_f64()))).collect();
    let recorded = |name: &str| arrays[&name.to_string()].1[0];
    let tensor = |name: &str| {
        let (shape, values) = arrays.get(&name.to_string())?;
        Some(Tensor { shape, values })
    };
    for (part, sequences) in [("valid_negll", &music.valid), ("test_negll", &music.test)] {
        let rolls = rolls(sequences);
        let narrow = per_step::<f32>(tensor, &rolls) / recorded(part) - 1.0;
        let wide = per_step::<f64>(tensor, &rolls) / recorded(part) - 1.0;
        println!("{file} {part}: relative errors {narrow:.1e} (f32), {wide:.1e} (f64)");
        assert!(narrow.abs() < 1e-5 && wide.abs() < 1e-9, "{file} {part}: {narrow:e} {wide:e}");
    }
}

fn per_step<'a, F: Scalar>(tensor: impl Fn(&str) -> Option<Tensor<'a>>, rolls: &PianoRolls) -> f64 {
    let (architecture, theta) = GruArchitecture::from_tensors::<F>(tensor).unwrap();
    let mut gru = Gru::new(architecture).unwrap();
    let nll = gru.nll(&theta, rolls).unwrap().per_step();
    let probabilities = gru.probabilities(&theta, rolls).unwrap();
    let probabilities: Vec<f64> = probabilities.iter().map(|p| p.to_f64()).collect();
    let scored = rolls.nll_of_probabilities(&probabilities).unwrap().per_step();
    let difference = scored / nll - 1.0;
    println!("likelihood of the probabilities: relative difference {difference:.1e} ({})", F::NAME);
    // Probabilities near 1 are coarse: sure predictions that fail have few digits in `f32`.
    let tolerance = if F::BYTES == size_of::<f32>() { 1e-5 } else { 1e-12 };
    assert!(difference.abs() < tolerance, "{difference:e}");
    nll
}

#[test]
fn the_authors_network_for_chorales_has_the_recorded_likelihoods() {
    check(Polyphonic::Jsb, "jsb_santa_r.npz");
}

#[test]
fn the_authors_network_for_folk_tunes_has_the_recorded_likelihoods() {
    check(Polyphonic::Nottingham, "nott_santa_explore_refine.npz");
}
