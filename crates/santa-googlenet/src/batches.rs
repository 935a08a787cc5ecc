//! Batches, decoded by all cores ahead of the training.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use burn::tensor::{Device, Int, Tensor, TensorData};
use rayon::prelude::*;
use santa::noise::{Purpose, Stream};

use crate::error::{Error, Result};
use crate::images::{ImageFolder, View, load};

/// Batches that wait at most.
const AHEAD: usize = 3;
/// Files in a row that may be broken before the folder is given up.
const BROKEN_IN_A_ROW: usize = 16;

/// Images and labels.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Number of the first image within the run, or within the validation images.
    pub first: u64,
    /// Class of each image.
    pub labels: Vec<u32>,
    /// Side of the images.
    pub size: usize,
    /// `[images, 3, size, size]`.
    pub pixels: Vec<f32>,
    /// Files that could not be read, with the reason; the next ones are in their place.
    pub broken: Vec<(PathBuf, String)>,
}

impl Batch {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Some of the images and their labels on a device.
    pub fn tensors(&self, part: Range<usize>, device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
        let image = 3 * self.size * self.size;
        let pixels = self.pixels[part.start * image..part.end * image].to_vec();
        let shape = [part.len(), 3, self.size, self.size];
        let labels: Vec<i32> = self.labels[part].iter().map(|label| *label as i32).collect();
        let count = labels.len();
        (
            Tensor::from_data(TensorData::new(pixels, shape), device),
            Tensor::from_data(TensorData::new(labels, [count]), device),
        )
    }
}

/// Batches from a thread that works ahead; dropping this ends the thread.
#[derive(Debug)]
pub struct Batches {
    receiver: Receiver<Result<Batch>>,
}

impl Iterator for Batches {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        self.receiver.recv().ok()
    }
}

impl Batches {
    /// The batches of the training iterations in a range.
    ///
    /// Images come in a new random order each epoch, and a batch may end one epoch and begin the
    /// next, so that all batches are full. Order, crops and mirrors are functions of the seed and
    /// the position: an iteration has the same batch whether or not the run was interrupted.
    ///
    /// A file that cannot be read is reported in [`Batch::broken`], and the next file of the
    /// epoch's order takes its place; 16 in a row are an error.
    pub fn training(
        folder: Arc<ImageFolder>,
        size: usize,
        batch: usize,
        seed: u64,
        iterations: Range<u64>,
    ) -> Self {
        let mut orders = Orders::new(seed, folder.len());
        Batches::ahead(iterations.map(move |iteration| {
            let first = iteration * batch as u64;
            let places: Vec<Place> =
                (0..batch as u64).map(|sample| orders.place(first + sample)).collect();
            assemble(first, size, &places, |place, out| {
                let view = View::Random { seed, epoch: place.epoch };
                let mut broken = Vec::new();
                for next in 0..BROKEN_IN_A_ROW {
                    let position = (place.position + next) % place.order.len();
                    match load(&folder, place.order[position] as usize, view, size, out) {
                        Ok(class) => return Ok((class, broken)),
                        Err(Error::Image { path, reason }) => broken.push((path, reason)),
                        Err(error) => return Err(error),
                    }
                }
                let (path, reason) = broken.pop().expect("every file was broken");
                let reason = format!("{reason}; {BROKEN_IN_A_ROW} files in a row cannot be read");
                Err(Error::Image { path, reason })
            })
        }))
    }

    /// All images of a folder once, in order, their middle; the last batch may be smaller. A file
    /// that cannot be read is an error: the accuracy is to be that of all images.
    pub fn testing(folder: Arc<ImageFolder>, size: usize, batch: usize) -> Self {
        let starts = (0..folder.len()).step_by(batch);
        Batches::ahead(starts.map(move |start| {
            let images: Vec<usize> = (start..folder.len().min(start + batch)).collect();
            assemble(start as u64, size, &images, |image, out| {
                Ok((load(&folder, *image, View::Centre, size, out)?, Vec::new()))
            })
        }))
    }

    fn ahead(batches: impl Iterator<Item = Result<Batch>> + Send + 'static) -> Self {
        let (sender, receiver) = sync_channel(AHEAD);
        std::thread::spawn(move || {
            for batch in batches {
                let last = batch.is_err();
                if sender.send(batch).is_err() || last {
                    break;
                }
            }
        });
        Batches { receiver }
    }
}

/// Loads the samples in parallel.
fn assemble<S: Sync>(
    first: u64,
    size: usize,
    samples: &[S],
    load: impl Fn(&S, &mut [f32]) -> Result<(u32, Vec<(PathBuf, String)>)> + Sync,
) -> Result<Batch> {
    let image = 3 * size * size;
    let mut pixels = vec![0.0; samples.len() * image];
    let loaded = pixels
        .par_chunks_exact_mut(image)
        .zip(samples)
        .map(|(out, sample)| load(sample, out))
        .collect::<Result<Vec<_>>>()?;
    let mut labels = Vec::with_capacity(samples.len());
    let mut broken = Vec::new();
    for (label, files) in loaded {
        labels.push(label);
        broken.extend(files);
    }
    Ok(Batch { first, labels, size, pixels, broken })
}

/// Where a sample of the run is in the data.
struct Place {
    epoch: u64,
    position: usize,
    order: Arc<[u32]>,
}

/// Random orders of the images, one for each epoch.
struct Orders {
    stream: Stream,
    images: usize,
    current: Option<(u64, Arc<[u32]>)>,
}

impl Orders {
    fn new(seed: u64, images: usize) -> Self {
        Orders { stream: Stream::new(seed, 0, Purpose::Shuffling), images, current: None }
    }

    fn place(&mut self, sample: u64) -> Place {
        let epoch = sample / self.images as u64;
        let position = (sample % self.images as u64) as usize;
        let order = match &self.current {
            Some((current, order)) if *current == epoch => order.clone(),
            _ => self.current.insert((epoch, self.shuffled(epoch))).1.clone(),
        };
        Place { epoch, position, order }
    }

    /// Fisher and Yates' shuffle.
    fn shuffled(&self, epoch: u64) -> Arc<[u32]> {
        let mut order: Vec<u32> = (0..self.images as u32).collect();
        for i in (1..order.len()).rev() {
            let j = self.stream.below(epoch, 0, i as u32, i as u64 + 1);
            order.swap(i, j as usize);
        }
        order.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_has_every_image_once_in_an_order_of_its_own() {
        let mut orders = Orders::new(3, 10);
        let epochs: Vec<Vec<u32>> = (0..3u64)
            .map(|epoch| {
                let samples = epoch * 10..(epoch + 1) * 10;
                samples.map(|sample| orders.place(sample)).map(|p| p.order[p.position]).collect()
            })
            .collect();
        for epoch in &epochs {
            let mut sorted = epoch.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<u32>>());
        }
        assert!(epochs[0] != epochs[1] && epochs[1] != epochs[2]);
    }
}
