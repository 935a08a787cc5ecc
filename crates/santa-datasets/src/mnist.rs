//! Handwritten digits.

use crate::bounded::MAX_INFLATED;
use crate::catalog::{self, Resource};
use crate::error::{Error, Result};
use crate::idx::{self, Idx};
use crate::images::Images;
use crate::store::Store;
use std::sync::OnceLock;

/// Rows and columns of a digit.
pub const SIDE: usize = 28;
/// The digits.
pub const CLASSES: usize = 10;

/// MNIST (LeCun, Cortes, Burges): digits of 28 x 28 pixels, 0 the background and 255 the ink.
///
/// ```
/// let mnist = santa_datasets::Mnist::embedded();
/// assert_eq!((mnist.train.len(), mnist.test.len()), (10_000, 2_000));
/// assert_eq!(mnist.train.image(0).len(), 28 * 28);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mnist {
    /// For training.
    pub train: Images,
    /// For testing.
    pub test: Images,
}

macro_rules! embedded {
    ($name:literal) => {
        (concat!("embedded ", $name), include_bytes!(concat!("../data/mnist-subset/", $name)))
    };
}

impl Mnist {
    /// The subset that is built in: the first 1,000 training images and the first 200 test images of
    /// each digit, in the order of the full files. Inflated once; later calls share the memory.
    ///
    /// The images are under the licence CC BY-SA 3.0; see `data/mnist-subset/README.md`.
    pub fn embedded() -> Mnist {
        static SUBSET: OnceLock<Mnist> = OnceLock::new();
        let load = || -> Result<Mnist> {
            let read = |(name, bytes): (&str, &[u8])| idx::from_bytes(name, bytes, MAX_INFLATED);
            Ok(Mnist {
                train: images(
                    "embedded training images",
                    read(embedded!("train-images-idx3-ubyte.gz"))?,
                    read(embedded!("train-labels-idx1-ubyte.gz"))?,
                )?,
                test: images(
                    "embedded test images",
                    read(embedded!("t10k-images-idx3-ubyte.gz"))?,
                    read(embedded!("t10k-labels-idx1-ubyte.gz"))?,
                )?,
            })
        };
        SUBSET.get_or_init(|| load().expect("the embedded files are part of the program")).clone()
    }

    /// The full set: 60,000 training and 10,000 test images. Missing files are fetched.
    pub fn load(store: &Store) -> Result<Mnist> {
        let part = |pixels: &Resource, labels: &Resource| {
            let path = store.fetch(pixels)?;
            let labels_path = store.fetch(labels)?;
            let pixels = idx::read_within(&path, pixels.max_len())?;
            let labels = idx::read_within(labels_path, labels.max_len())?;
            images(&path.display().to_string(), pixels, labels)
        };
        Ok(Mnist {
            train: part(&catalog::MNIST_TRAIN_IMAGES, &catalog::MNIST_TRAIN_LABELS)?,
            test: part(&catalog::MNIST_TEST_IMAGES, &catalog::MNIST_TEST_LABELS)?,
        })
    }

    /// The subset that [`Mnist::embedded`] has, taken from the full set.
    pub fn subset(&self) -> Result<Mnist> {
        /// Images of each class.
        const TRAIN: usize = 1_000;
        const TEST: usize = 200;
        let first = |images: &Images, count: usize| {
            let mut taken = [0; CLASSES];
            let indices: Vec<u32> = (0u32..)
                .zip(images.labels())
                .filter(|(_, label)| {
                    let taken = &mut taken[usize::from(**label)];
                    *taken += 1;
                    *taken <= count
                })
                .map(|(i, _)| i)
                .collect();
            images.subset(&indices)
        };
        Ok(Mnist { train: first(&self.train, TRAIN)?, test: first(&self.test, TEST)? })
    }
}

fn images(file: &str, pixels: Idx, labels: Idx) -> Result<Images> {
    if pixels.shape != [labels.values.len(), SIDE, SIDE] || labels.shape.len() != 1 {
        let reason = format!(
            "images of shape {:?} and labels of shape {:?} do not belong together",
            pixels.shape, labels.shape
        );
        return Err(Error::format(file, 0, reason));
    }
    Images::new(pixels.values, labels.values, [SIDE, SIDE, 1], CLASSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_subset_has_as_many_images_of_each_digit() {
        let mnist = Mnist::embedded();
        for (images, count) in [(&mnist.train, 1_000), (&mnist.test, 200)] {
            for class in 0..CLASSES as u8 {
                assert_eq!(images.labels().iter().filter(|l| **l == class).count(), count);
            }
        }
        // The first labels of the two files, as everybody knows them.
        assert_eq!(mnist.train.labels()[..8], [5, 0, 4, 1, 9, 2, 1, 3]);
        assert_eq!(mnist.test.labels()[..8], [7, 2, 1, 0, 4, 1, 4, 9]);
        assert_eq!(mnist.subset().unwrap(), mnist);
    }

    #[test]
    fn the_embedded_subset_is_inflated_once() {
        assert!(std::ptr::eq(Mnist::embedded().train.pixels(), Mnist::embedded().train.pixels()));
    }

    #[test]
    fn images_and_labels_of_different_number_do_not_belong_together() {
        let pixels = Idx { shape: vec![2, SIDE, SIDE], values: vec![0; 2 * SIDE * SIDE] };
        let labels = Idx { shape: vec![3], values: vec![0; 3] };
        let error = images("it.gz", pixels, labels).unwrap_err().to_string();
        assert!(error.contains("do not belong together"), "{error}");
    }
}
