//! The loader: order, crops, and folders that are not as they should be.

mod common;

use std::sync::Arc;

use santa_googlenet::{Batch, Batches, Data, Error, ImageFolder};

const SIZE: usize = 64;

fn open(folder: &std::path::Path) -> Data {
    Data::open(folder).unwrap()
}

fn training(folder: &ImageFolder, seed: u64, iterations: std::ops::Range<u64>) -> Vec<Batch> {
    Batches::training(Arc::new(folder.clone()), SIZE, 8, seed, iterations)
        .map(|batch| batch.unwrap())
        .collect()
}

#[test]
fn a_folder_has_its_classes_in_alphabetical_order() {
    let folder = common::folder(3, 2);
    let data = open(folder.path());
    assert_eq!(data.train.classes(), common::CLASSES);
    assert_eq!((data.train.len(), data.val.as_ref().unwrap().len()), (12, 8));
    let (path, class) = data.train.image(4);
    assert!(path.ends_with("train/disc/001.png"));
    assert_eq!(class, 1);
}

#[test]
fn an_iteration_has_the_same_batch_wherever_a_run_begins() {
    let folder = common::folder(3, 0);
    let images = ImageFolder::open(&folder.path().join("train")).unwrap();
    let all = training(&images, 1, 0..6);
    let later = training(&images, 1, 4..6);
    for (a, b) in all[4..].iter().zip(&later) {
        assert_eq!((a.first, &a.labels, &a.pixels), (b.first, &b.labels, &b.pixels));
    }
    assert_eq!(all[5].first, 40);
    // Three batches of eight are two epochs of twelve: the second crops differently.
    let labels: Vec<u32> = all[..3].iter().flat_map(|batch| batch.labels.clone()).collect();
    for epoch in labels.chunks(12) {
        assert!((0..4).all(|class| epoch.iter().filter(|label| **label == class).count() == 3));
    }
    assert_ne!(all[0].pixels, training(&images, 2, 0..1)[0].pixels);
    assert!(all.iter().all(|batch| batch.broken.is_empty()));
}

#[test]
fn testing_sees_every_image_once_and_in_order() {
    let folder = common::folder(3, 0);
    let images = Arc::new(ImageFolder::open(&folder.path().join("train")).unwrap());
    let batches: Vec<Batch> =
        Batches::testing(images, SIZE, 8).map(|batch| batch.unwrap()).collect();
    assert_eq!(batches.iter().map(Batch::len).collect::<Vec<_>>(), [8, 4]);
    let labels: Vec<u32> = batches.iter().flat_map(|batch| batch.labels.clone()).collect();
    assert_eq!(labels, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
}

#[test]
fn a_broken_file_is_named_and_replaced_in_training_and_refused_in_testing() {
    let folder = common::folder(3, 0);
    let broken = folder.path().join("train/disc/001.png");
    std::fs::write(&broken, b"\x89PNG\r\n\x1a\nbut no more").unwrap();
    let images = ImageFolder::open(&folder.path().join("train")).unwrap();
    // An epoch and a half.
    let batches = training(&images, 1, 0..2);
    let named: Vec<_> = batches.iter().flat_map(|batch| &batch.broken).collect();
    assert!(!named.is_empty() && named.iter().all(|(path, _)| *path == broken));
    assert!(batches.iter().all(|batch| batch.len() == 8));

    let tested: Result<Vec<Batch>, Error> = Batches::testing(Arc::new(images), SIZE, 8).collect();
    let message = tested.unwrap_err().to_string();
    assert!(message.contains("001.png"), "{message}");
}

#[test]
fn a_folder_of_nothing_but_broken_files_is_given_up() {
    let folder = common::folder(1, 0);
    for class in common::CLASSES {
        std::fs::write(folder.path().join("train").join(class).join("000.png"), b"?").unwrap();
    }
    let images = Arc::new(ImageFolder::open(&folder.path().join("train")).unwrap());
    let error = Batches::training(images, SIZE, 2, 1, 0..5).next().unwrap().unwrap_err();
    assert!(error.to_string().contains("in a row cannot be read"), "{error}");
}

#[test]
fn folders_that_cannot_be_used_say_why() {
    let refused = |folder: &std::path::Path| Data::open(folder).unwrap_err().to_string();
    let empty = tempfile::tempdir().unwrap();
    assert!(refused(empty.path()).contains("train/CLASS/*.jpg"));

    std::fs::create_dir(empty.path().join("train")).unwrap();
    assert!(refused(empty.path()).contains("has 0 folders of images"));

    let folder = common::folder(1, 1);
    std::fs::create_dir(folder.path().join("train/zebra")).unwrap();
    let message = refused(folder.path());
    assert!(message.contains("zebra") && message.contains("without"), "{message}");

    let folder = common::folder(1, 1);
    std::fs::rename(folder.path().join("val/disc"), folder.path().join("val/disk")).unwrap();
    let message = refused(folder.path());
    assert!(message.contains("disk") && message.contains("no such class"), "{message}");
}
