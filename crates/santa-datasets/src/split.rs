//! Data set aside for validation.

use crate::error::{Error, Result};
use santa::noise::{Purpose, Stream};

/// The stream for orders of data has segments 0 and 1 taken by `santa::Minibatches`.
const SEGMENT: u32 = 2;

/// Indices for training and for validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// For training, ascending.
    pub train: Vec<u32>,
    /// For validation, ascending.
    pub validation: Vec<u32>,
}

impl Split {
    /// Sets aside `validation` of `n` data, chosen by the seed: each choice equally likely.
    ///
    /// Both lists are in ascending order, the order of the data; epochs are shuffled by
    /// [`santa::Minibatches`].
    ///
    /// ```
    /// use santa_datasets::{Mnist, Split};
    ///
    /// let images = Mnist::embedded().train;
    /// let split = Split::by_seed(images.len(), 1_000, 42)?;
    /// let (train, validation) = (images.subset(&split.train)?, images.subset(&split.validation)?);
    /// assert_eq!((train.len(), validation.len()), (9_000, 1_000));
    /// # Ok::<(), santa_datasets::Error>(())
    /// ```
    pub fn by_seed(n: usize, validation: usize, seed: u64) -> Result<Split> {
        let Ok(count) = u32::try_from(n) else {
            return Err(Error::argument("n", n, "at most 2^32 - 1 data can be split"));
        };
        if validation > n {
            let allowed = format!("at most all of the {n} data can be set aside");
            return Err(Error::argument("validation", validation, allowed));
        }
        let stream = Stream::new(seed, 0, Purpose::Shuffling);
        let mut order: Vec<u32> = (0..count).collect();
        // Fisher and Yates, as far as it is needed.
        for i in 0..validation {
            let rest = (n - i) as u64;
            order.swap(i, i + stream.below(0, SEGMENT, i as u32, rest) as usize);
        }
        let mut train = order.split_off(validation);
        train.sort_unstable();
        order.sort_unstable();
        Ok(Split { train, validation: order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datum_is_in_one_of_the_two_lists() {
        for (n, validation) in [(0, 0), (1, 0), (1, 1), (10, 3), (1000, 999), (1000, 1000)] {
            let split = Split::by_seed(n, validation, 7).unwrap();
            assert_eq!(split.validation.len(), validation);
            assert!(split.train.is_sorted() && split.validation.is_sorted());
            let mut all = [split.train, split.validation].concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..n as u32));
        }
    }

    #[test]
    fn more_than_all_data_cannot_be_set_aside() {
        let error = Split::by_seed(5, 6, 0).unwrap_err().to_string();
        assert_eq!(error, "validation is 6: at most all of the 5 data can be set aside");
    }

    /// Of 20 data 5 are set aside: each with probability 1/4, so over the seeds the count is
    /// binomial; a z above 6 has a chance below 2e-9.
    #[test]
    fn each_datum_is_set_aside_equally_often() {
        const SEEDS: u64 = 4_000;
        let mut counts = [0u32; 20];
        for seed in 0..SEEDS {
            for i in Split::by_seed(20, 5, seed).unwrap().validation {
                counts[i as usize] += 1;
            }
        }
        let (mean, variance) = (SEEDS as f64 * 0.25, SEEDS as f64 * 0.25 * 0.75);
        for count in counts {
            let z = (f64::from(count) - mean) / variance.sqrt();
            assert!(z.abs() < 6.0, "{z}");
        }
    }

    /// A change here is a breaking one.
    #[test]
    fn splits_are_stable_across_versions() {
        let split = Split::by_seed(60_000, 5, 42).unwrap();
        assert_eq!(split.validation, [13_360, 14_187, 46_301, 47_771, 55_900]);
    }
}
