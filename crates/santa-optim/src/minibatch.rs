//! Which data each step sees.
//!
//! The order is a pure function of seed, chain and epoch, so the whole state of the sampling is one
//! number: how many batches have been drawn. A run that resumes in the middle of an epoch sees the
//! very batches it would have seen.

use crate::error::{Error, Result};
use crate::noise::{Purpose, Stream};
use crate::target::DataSize;
use serde::{Deserialize, Serialize};

/// How batches are drawn from N data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Every datum once an epoch, each epoch in a new random order.
    #[default]
    ShuffledEpochs,
    /// Each place in each batch drawn independently.
    WithReplacement,
    /// Every datum once an epoch, always in the order they are in.
    Sequential,
    /// All data in every batch; the batch size is not used.
    Full,
}

/// Draws batches of indices.
///
/// ```
/// use santa::{DataSize, Minibatches, Sampling};
///
/// let n = DataSize::new(10)?;
/// let mut batches = Minibatches::new(n, 4, Sampling::ShuffledEpochs, 42, 0)?;
/// assert_eq!(batches.batches_per_epoch(), 3);
/// let first = batches.next().to_vec();
/// assert_eq!(first.len(), 4);
/// batches.seek(0);
/// assert_eq!(batches.next(), first);
/// # Ok::<(), santa::Error>(())
/// ```
///
/// The last batch of an epoch is smaller when the size does not divide N. Its mean then weighs each
/// of its data a little more; [`Minibatches::drop_last`] leaves it out instead.
#[derive(Clone, Debug)]
pub struct Minibatches {
    data_size: DataSize,
    n: u32,
    batch_size: usize,
    sampling: Sampling,
    stream: Stream,
    drop_last: bool,
    /// Batches drawn so far.
    position: u64,
    /// An order of all data, or room for one batch drawn with replacement.
    indices: Vec<u32>,
    /// The epoch whose order `indices` holds.
    shuffled: Option<u64>,
}

impl Minibatches {
    /// Batches of `batch_size` among N data, in the orders of a seed and a chain.
    pub fn new(
        n: DataSize,
        batch_size: usize,
        sampling: Sampling,
        seed: u64,
        chain: u32,
    ) -> Result<Self> {
        let Ok(count) = u32::try_from(n.get()) else {
            let allowed = format!("minibatches index at most {} data", u32::MAX);
            return Err(Error::setting("data_size", n.get(), allowed));
        };
        let batch_size = if sampling == Sampling::Full { count as usize } else { batch_size };
        if batch_size == 0 || batch_size > count as usize {
            let allowed = format!("it must be at least 1 and at most N = {count}");
            return Err(Error::setting("batch_size", batch_size, allowed));
        }
        let indices = match sampling {
            Sampling::WithReplacement => vec![0; batch_size],
            _ => (0..count).collect(),
        };
        let stream = Stream::new(seed, chain, Purpose::Shuffling);
        Ok(Minibatches {
            data_size: n,
            n: count,
            batch_size,
            sampling,
            stream,
            drop_last: false,
            position: 0,
            indices,
            shuffled: None,
        })
    }

    /// What the order of the batches depends on, apart from the position.
    pub(crate) fn description(&self) -> impl Serialize + use<> {
        #[derive(Serialize)]
        struct Description {
            data_size: DataSize,
            batch_size: usize,
            sampling: Sampling,
            drop_last: bool,
            stream: Stream,
        }
        Description {
            data_size: self.data_size,
            batch_size: self.batch_size,
            sampling: self.sampling,
            drop_last: self.drop_last,
            stream: self.stream,
        }
    }

    /// Leaves out an epoch's last batch if it is smaller than the others.
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// The next batch. Nothing is allocated.
    #[allow(clippy::should_implement_trait)] // a batch borrows, which an iterator's item cannot
    pub fn next(&mut self) -> &[u32] {
        let position = self.position;
        self.position = position.saturating_add(1);
        match self.sampling {
            Sampling::Full => &self.indices,
            Sampling::Sequential => &self.indices[self.range(position)],
            Sampling::ShuffledEpochs => {
                self.shuffle(position / self.batches_per_epoch());
                &self.indices[self.range(position)]
            }
            Sampling::WithReplacement => {
                self.stream.fill_below(position, REPLACEMENT, self.n, &mut self.indices);
                &self.indices
            }
        }
    }

    /// Where the batch lies in its epoch's order.
    fn range(&self, position: u64) -> std::ops::Range<usize> {
        let start = (position % self.batches_per_epoch()) as usize * self.batch_size;
        start..(start + self.batch_size).min(self.indices.len())
    }

    /// Puts the data in an epoch's order, unless they are (Fisher and Yates).
    fn shuffle(&mut self, epoch: u64) {
        if self.shuffled == Some(epoch) {
            return;
        }
        for (i, index) in (0..self.n).zip(&mut self.indices) {
            *index = i;
        }
        for i in (1..self.n).rev() {
            let j = self.stream.below(epoch, ORDER, i, u64::from(i) + 1);
            self.indices.swap(i as usize, j as usize);
        }
        self.shuffled = Some(epoch);
    }

    /// Batches drawn so far: the state of the sampling, to be kept in a checkpoint.
    pub fn position(&self) -> u64 {
        self.position
    }
    /// Goes on as after `position` batches.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }
    /// The epoch of the next batch, from 0.
    pub fn epoch(&self) -> u64 {
        self.position / self.batches_per_epoch()
    }
    /// Batches in an epoch.
    pub fn batches_per_epoch(&self) -> u64 {
        let (n, size) = (u64::from(self.n), self.batch_size as u64);
        if self.drop_last { n / size } else { n.div_ceil(size) }
    }
    /// Data in a batch; an epoch's last one may have fewer.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }
    /// N.
    pub fn data_size(&self) -> DataSize {
        self.data_size
    }
    /// How batches are drawn.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }
}

/// Segments of the stream: orders of epochs, and draws with replacement.
const ORDER: u32 = 0;
const REPLACEMENT: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(n: u64, size: usize, sampling: Sampling, seed: u64, chain: u32) -> Minibatches {
        Minibatches::new(DataSize::new(n).unwrap(), size, sampling, seed, chain).unwrap()
    }

    fn epoch(batches: &mut Minibatches) -> Vec<u32> {
        (0..batches.batches_per_epoch()).flat_map(|_| batches.next().to_vec()).collect()
    }

    #[test]
    fn every_datum_comes_once_an_epoch() {
        for sampling in [Sampling::ShuffledEpochs, Sampling::Sequential] {
            let mut batches = batches(23, 5, sampling, 1, 0);
            for _ in 0..3 {
                let mut seen = epoch(&mut batches);
                seen.sort_unstable();
                assert_eq!(seen, (0..23).collect::<Vec<_>>());
            }
            assert_eq!((batches.epoch(), batches.position()), (3, 15));
        }
    }

    #[test]
    fn epochs_chains_and_seeds_have_orders_of_their_own() {
        let first =
            |seed, chain| epoch(&mut batches(100, 10, Sampling::ShuffledEpochs, seed, chain));
        let mut walk = batches(100, 10, Sampling::ShuffledEpochs, 1, 0);
        let (one, two) = (epoch(&mut walk), epoch(&mut walk));
        assert_eq!(one, first(1, 0));
        for other in [two, first(1, 1), first(2, 0), (0..100).collect()] {
            assert_ne!(one, other);
        }
        assert_eq!(epoch(&mut batches(100, 10, Sampling::Sequential, 1, 0)), first_n(100));
    }

    fn first_n(n: u32) -> Vec<u32> {
        (0..n).collect()
    }

    #[test]
    fn seeking_equals_walking() {
        for sampling in [
            Sampling::ShuffledEpochs,
            Sampling::WithReplacement,
            Sampling::Sequential,
            Sampling::Full,
        ] {
            let mut walk = batches(23, 5, sampling, 1, 3);
            for position in 0..17 {
                let mut jump = batches(23, 5, sampling, 1, 3);
                jump.seek(position);
                assert_eq!(walk.next(), jump.next());
                jump.seek(0);
                assert_eq!(jump.next(), batches(23, 5, sampling, 1, 3).next());
            }
        }
    }

    #[test]
    fn the_last_batch_is_kept_or_dropped() {
        let mut kept = batches(10, 4, Sampling::ShuffledEpochs, 1, 0);
        let sizes: Vec<_> = (0..6).map(|_| kept.next().len()).collect();
        assert_eq!(sizes, [4, 4, 2, 4, 4, 2]);
        let mut dropped = batches(10, 4, Sampling::ShuffledEpochs, 1, 0).drop_last(true);
        assert_eq!(dropped.batches_per_epoch(), 2);
        assert!((0..6).all(|_| dropped.next().len() == 4));
        assert_eq!(batches(10, 3, Sampling::Full, 1, 0).next(), first_n(10));
    }

    /// The largest z-score of a count of (place, datum) over many epochs, which is binomial.
    fn worst_score(sampling: Sampling) -> f64 {
        let (n, epochs) = (5u32, 20_000);
        let mut batches = batches(n.into(), n as usize, sampling, 6, 0);
        let mut counts = [[0u32; 5]; 5];
        for _ in 0..epochs {
            for (place, datum) in batches.next().iter().enumerate() {
                counts[place][*datum as usize] += 1;
            }
        }
        let p = 1.0 / f64::from(n);
        let (mean, variance) = (p * f64::from(epochs), p * (1.0 - p) * f64::from(epochs));
        let scores =
            counts.iter().flatten().map(|c| (f64::from(*c) - mean).abs() / variance.sqrt());
        scores.fold(0.0, f64::max)
    }

    #[test]
    fn every_datum_is_as_likely_in_every_place() {
        assert!(worst_score(Sampling::ShuffledEpochs) < 5.0);
        assert!(worst_score(Sampling::WithReplacement) < 5.0);
        // Negative control.
        assert!(worst_score(Sampling::Sequential) > 5.0);
    }

    #[test]
    fn impossible_batches_are_refused() {
        let build = |n, size| {
            let n = DataSize::new(n).unwrap();
            Minibatches::new(n, size, Sampling::ShuffledEpochs, 0, 0).map(|_| ())
        };
        assert!(build(10, 10).is_ok());
        for (n, size, word) in
            [(10, 0, "batch_size"), (10, 11, "N = 10"), (1 << 32, 1, "data_size")]
        {
            let message = build(n, size).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn the_sampling_has_a_name_in_settings_files() {
        for (sampling, name) in [
            (Sampling::ShuffledEpochs, "shuffled_epochs"),
            (Sampling::WithReplacement, "with_replacement"),
            (Sampling::Sequential, "sequential"),
            (Sampling::Full, "full"),
        ] {
            assert_eq!(serde_json::to_value(sampling).unwrap(), name);
        }
    }

    /// Seeded orders are part of the interface: a change here is a breaking one.
    #[test]
    fn orders_are_stable_across_versions() {
        let mut shuffled = batches(8, 8, Sampling::ShuffledEpochs, 42, 0);
        let orders = [shuffled.next().to_vec(), shuffled.next().to_vec()];
        let mut replaced = batches(8, 8, Sampling::WithReplacement, 42, 0);
        assert_eq!(orders, GOLDEN_ORDERS);
        assert_eq!(replaced.next(), GOLDEN_DRAWS);
    }
    const GOLDEN_ORDERS: [[u32; 8]; 2] = [[7, 4, 0, 5, 2, 3, 6, 1], [1, 5, 3, 6, 4, 7, 2, 0]];
    const GOLDEN_DRAWS: [u32; 8] = [1, 6, 6, 2, 7, 7, 2, 2];
}
