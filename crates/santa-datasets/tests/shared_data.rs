//! The real files, where they are: in the folder that `SANTA_DATA` names, else in `../shared/data`
//! beside the repository. Elsewhere each of these tests says that it is skipped.

use santa_datasets::catalog::{self, Resource};
use santa_datasets::npz::{self, Values};
use santa_datasets::{Mnist, Polyphonic, Sequences, Store};
use std::path::Path;

/// The store, if it has these files.
fn store(needed: &[Resource]) -> Option<Store> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let beside = std::env::var_os("SANTA_DATA").is_none().then_some(beside);
    let store = Store::new(beside).unwrap().offline();
    match needed.iter().find(|resource| store.find(resource).is_none()) {
        None => Some(store),
        Some(resource) => {
            let root = store.root().display();
            eprintln!("SKIPPED: {} is not in {root}; set SANTA_DATA", resource.path);
            None
        }
    }
}

const MNIST: [Resource; 4] = [
    catalog::MNIST_TRAIN_IMAGES,
    catalog::MNIST_TRAIN_LABELS,
    catalog::MNIST_TEST_IMAGES,
    catalog::MNIST_TEST_LABELS,
];

#[test]
fn all_known_files_that_are_there_have_their_checksums() {
    for resource in catalog::ALL {
        if let Some(store) = store(&[resource]) {
            store.verify(&resource).unwrap();
        }
    }
}

#[test]
fn mnist_has_70_000_digits() {
    let Some(store) = store(&MNIST) else { return };
    let mnist = Mnist::load(&store).unwrap();
    assert_eq!((mnist.train.len(), mnist.test.len()), (60_000, 10_000));
    let count = |digit| mnist.train.labels().iter().filter(|label| **label == digit).count();
    // The known numbers of each digit.
    let expected = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949];
    assert_eq!((0..10).map(count).collect::<Vec<_>>(), expected);
    // The known mean of all training pixels, on a scale from 0 to 1.
    let sum: u64 = mnist.train.pixels().iter().map(|pixel| u64::from(*pixel)).sum();
    let mean = sum as f64 / mnist.train.pixels().len() as f64 / 255.0;
    assert!((mean - 0.1307).abs() < 5e-5, "{mean}");
}

#[test]
fn the_embedded_subset_is_that_of_the_full_files() {
    let Some(store) = store(&MNIST) else { return };
    assert!(Mnist::load(&store).unwrap().subset().unwrap() == Mnist::embedded());
}

#[test]
fn the_polyphonic_sets_have_their_sequences_and_steps() {
    let expected = [
        [(229, 13_807), (76, 4_602), (77, 4_725)],
        [(694, 176_561), (173, 45_513), (170, 44_463)],
        [(524, 245_202), (135, 82_755), (124, 64_339)],
        [(87, 75_911), (12, 8_540), (25, 19_036)],
    ];
    for (set, expected) in Polyphonic::ALL.into_iter().zip(expected) {
        let Some(store) = store(&[*set.resource()]) else { continue };
        let music = set.load(&store).unwrap();
        let size = |sequences: &Sequences| (sequences.len(), sequences.steps());
        let sizes = [&music.train, &music.valid, &music.test].map(size);
        assert_eq!(sizes, expected, "{set}");
    }
}

/// A chorale has four voices, and they sing close together: of the transposed, wrongly ordered
/// matrices neither would be true.
#[test]
fn the_steps_of_a_chorale_are_chords() {
    let Some(store) = store(&[catalog::JSB_CHORALES]) else { return };
    let music = Polyphonic::Jsb.load(&store).unwrap();
    let steps: Vec<&[u8]> = music.train.values().chunks(music.train.width()).collect();
    let voices = |step: &&[u8]| step.iter().filter(|key| **key == 1).count();
    assert!(steps.iter().all(|step| voices(step) <= 15));
    let four = steps.iter().filter(|step| (3..=4).contains(&voices(step))).count();
    assert!(four as f64 > 0.9 * steps.len() as f64, "{four} of {}", steps.len());
    // Neighbouring steps of a sequence share notes.
    let shared = |a: &[u8], b: &[u8]| a.iter().zip(b).any(|(a, b)| a & b == 1);
    let kept = steps.windows(2).filter(|pair| shared(pair[0], pair[1])).count();
    assert!(kept as f64 > 0.5 * steps.len() as f64, "{kept} of {}", steps.len());
}

#[test]
fn the_weights_have_their_names_and_shapes() {
    for (resource, epochs) in [(catalog::WEIGHTS_JSB, 25), (catalog::WEIGHTS_NOTTINGHAM, 30)] {
        let Some(store) = store(&[resource]) else { continue };
        let arrays = npz::read(store.fetch(&resource).unwrap()).unwrap();
        let shapes: Vec<(&str, &[usize])> =
            arrays.iter().map(|(name, array)| (name.as_str(), &array.shape[..])).collect();
        assert_eq!(
            shapes,
            [
                ("Vhid", &[200, 88][..]),
                ("bhid", &[88]),
                ("decoder_gru_U", &[200, 400]),
                ("decoder_gru_Ux", &[200, 200]),
                ("decoder_gru_W", &[88, 400]),
                ("decoder_gru_Wx", &[88, 200]),
                ("decoder_gru_b", &[400]),
                ("decoder_gru_b0", &[200]),
                ("decoder_gru_bx", &[200]),
                ("history_negll", &[epochs, 3]),
                ("test_negll", &[]),
                ("train_negll", &[]),
                ("valid_negll", &[]),
            ]
        );
        for (name, array) in &arrays {
            let Values::F64(values) = &array.values else { panic!("{name} is not of float64") };
            assert!(values.iter().all(|value| value.is_finite()));
        }
        // Per time step, as the paper's table has it.
        let nll = arrays["test_negll"].values.to_f64()[0];
        assert!((2.0..10.0).contains(&nll), "{nll}");
    }
}
