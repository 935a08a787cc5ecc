//! Decoding ahead of the training step.

use super::{ImageFolder, Transform};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// A batch to be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is random in a transform depends on it.
    pub epoch: u64,
    /// Images of the folder.
    pub indices: Vec<u32>,
}

/// A decoded batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageBatch {
    /// As requested.
    pub epoch: u64,
    /// As requested.
    pub indices: Vec<u32>,
    /// The images in this order, each height x width x channels.
    pub pixels: Vec<u8>,
    /// Their classes.
    pub labels: Vec<u32>,
}

/// Decodes batches on worker threads, a bounded number of them ahead, and gives them in the order of
/// the requests.
///
/// The pixels do not depend on the number of threads. A batch with a broken image is an error that
/// names the file; the batches behind it follow. Dropping it early waits for the images at work, not
/// for the batches.
///
/// ```no_run
/// use santa::{DataSize, Minibatches, Sampling};
/// use santa_datasets::image_folder::{ImageFolder, Prefetcher, Request, Transform};
/// use std::num::NonZero;
///
/// let folder = ImageFolder::open("flowers")?;
/// let n = DataSize::new(folder.len() as u64)?;
/// let mut batches = Minibatches::new(n, 32, Sampling::ShuffledEpochs, 42, 0)?;
/// let requests = std::iter::repeat_with(move || {
///     let epoch = batches.epoch();
///     Request { epoch, indices: batches.next().to_vec() }
/// });
/// let transform = Transform::covering(64, 64)?.random();
/// let threads = std::thread::available_parallelism()?;
/// for batch in Prefetcher::new(folder, transform, requests.take(1_000), threads)? {
///     let batch = batch?; // batch.pixels, batch.labels
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Prefetcher<I> {
    requests: I,
    /// None when the workers are told to stop.
    jobs: Option<Sender<(u64, Request)>>,
    results: Receiver<(u64, Result<ImageBatch>)>,
    /// Results that came before their turn.
    early: BTreeMap<u64, Result<ImageBatch>>,
    /// Batches requested and given so far.
    requested: u64,
    given: u64,
    /// How many batches may be requested and not yet given.
    ahead: u64,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
}

/// What a worker has.
struct Worker {
    folder: Arc<ImageFolder>,
    transform: Transform,
    /// Bytes of an image.
    image_len: usize,
    jobs: Arc<Mutex<Receiver<(u64, Request)>>>,
    results: Sender<(u64, Result<ImageBatch>)>,
    stop: Arc<AtomicBool>,
}

impl<I: Iterator<Item = Request>> Prefetcher<I> {
    /// Starts `threads` workers, which have up to two batches each at work or ready.
    pub fn new(
        folder: impl Into<Arc<ImageFolder>>,
        transform: Transform,
        requests: impl IntoIterator<IntoIter = I>,
        threads: NonZero<usize>,
    ) -> Result<Self> {
        let folder = folder.into();
        let image_len = transform.shape()?.iter().product();
        let (jobs, job_receiver) = channel();
        let (result_sender, results) = channel();
        let job_receiver = Arc::new(Mutex::new(job_receiver));
        let mut prefetcher = Prefetcher {
            requests: requests.into_iter(),
            jobs: Some(jobs),
            results,
            early: BTreeMap::new(),
            requested: 0,
            given: 0,
            ahead: (threads.get() as u64).saturating_mul(2),
            stop: Arc::default(),
            workers: Vec::new(),
        };
        for _ in 0..threads.get() {
            let worker = Worker {
                folder: Arc::clone(&folder),
                transform,
                image_len,
                jobs: Arc::clone(&job_receiver),
                results: result_sender.clone(),
                stop: Arc::clone(&prefetcher.stop),
            };
            // If this fails, the drop of the prefetcher ends the threads that have started.
            let thread = Builder::new().name("decode images".to_owned()).spawn(|| worker.run());
            prefetcher.workers.push(thread.map_err(|error| {
                Error::argument("threads", threads, format!("they cannot be started: {error}"))
            })?);
        }
        prefetcher.request();
        Ok(prefetcher)
    }

    /// Hands over requests until there are enough.
    fn request(&mut self) {
        while self.requested - self.given < self.ahead {
            let (Some(jobs), Some(request)) = (&self.jobs, self.requests.next()) else { return };
            if jobs.send((self.requested, request)).is_err() {
                return;
            }
            self.requested += 1;
        }
    }
}

impl<I: Iterator<Item = Request>> Iterator for Prefetcher<I> {
    type Item = Result<ImageBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.request();
        if self.given == self.requested {
            return None;
        }
        loop {
            if let Some(batch) = self.early.remove(&self.given) {
                self.given += 1;
                self.request();
                return Some(batch);
            }
            let (number, batch) = self.results.recv().ok()?;
            self.early.insert(number, batch);
        }
    }
}

impl<I> Drop for Prefetcher<I> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        for worker in self.workers.drain(..) {
            // A worker catches what panics in it.
            let _ = worker.join();
        }
    }
}

impl Worker {
    fn run(self) {
        loop {
            let job = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((number, request)) = job else { return };
            // Whatever happens, a result is given: the consumer waits for it.
            let batch =
                catch_unwind(AssertUnwindSafe(|| self.decode(request))).unwrap_or_else(|_| {
                    Err(Error::argument(
                        "a batch",
                        number,
                        "decoding it panicked; please report this",
                    ))
                });
            if self.stop.load(Ordering::Relaxed) || self.results.send((number, batch)).is_err() {
                return;
            }
        }
    }

    fn decode(&self, Request { epoch, indices }: Request) -> Result<ImageBatch> {
        let mut pixels = Vec::new();
        let mut labels = Vec::new();
        for &index in &indices {
            if self.stop.load(Ordering::Relaxed) {
                break; // nobody waits for it any more
            }
            if pixels.is_empty() {
                pixels.reserve(indices.len().saturating_mul(self.image_len));
            }
            self.folder.load(index, &self.transform, epoch, &mut pixels)?;
            labels.push(self.folder.label(index as usize));
        }
        Ok(ImageBatch { epoch, indices, pixels, labels })
    }
}
