//! Music as binary sequences.

use super::gru::Nll;
use santa::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// The logarithm below which that of a probability counts as this: of the smallest normal `f64`, so
/// that a probability of zero does not make a sum infinite.
const LOG_FLOOR: f64 = -708.396_418_532_264_1;

/// Sequences of steps at which each of a number of keys is down or not.
///
/// ```
/// use santa_nn::PianoRolls;
///
/// // Two sequences on three keys: of two steps, and of one.
/// let rolls = PianoRolls::new(3, vec![1, 0, 1, 0, 0, 0, 0, 1, 0], vec![0, 2, 3])?;
/// assert_eq!((rolls.len(), rolls.steps(), rolls.steps_of(0)), (2, 3, 2));
/// assert!(PianoRolls::new(3, vec![1, 0, 2], vec![0, 1]).is_err());
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PianoRolls {
    keys: usize,
    /// Total steps x keys, zeros and ones.
    values: Arc<[u8]>,
    /// The step at which each sequence begins, and at which the last one ends.
    offsets: Arc<[usize]>,
    /// The keys that are down, step after step.
    down: Arc<[u32]>,
    /// Where in `down` each step begins, and where the last one ends.
    down_offsets: Arc<[usize]>,
}

impl PianoRolls {
    /// Sequences from all their steps (total steps x `keys` zeros and ones, row-major) and the step
    /// at which each begins, with the total at the end.
    pub fn new(
        keys: usize,
        values: impl Into<Arc<[u8]>>,
        offsets: impl Into<Arc<[usize]>>,
    ) -> Result<Self> {
        let (values, offsets) = (values.into(), offsets.into());
        let refuse = |why: String| Err(Error::Structure(format!("piano rolls: {why}")));
        if keys == 0 || u32::try_from(keys).is_err() {
            return refuse(format!("{keys} keys; there must be at least one, and less than 2^32"));
        }
        if offsets.len() < 2 || offsets[0] != 0 {
            return refuse("the offsets must begin with 0 and end with the number of steps".into());
        }
        if let Some(i) = offsets.windows(2).position(|edges| edges[0] >= edges[1]) {
            return refuse(format!(
                "sequence {i} runs from step {} to {}; each needs at least one step",
                offsets[i],
                offsets[i + 1]
            ));
        }
        let steps = offsets[offsets.len() - 1];
        if steps.checked_mul(keys) != Some(values.len()) {
            return refuse(format!(
                "{} values, but the offsets end at {steps} steps of {keys} keys",
                values.len()
            ));
        }
        if let Some(i) = values.iter().position(|x| *x > 1) {
            return refuse(format!(
                "step {}, key {} is {}; a key is 0 or 1",
                i / keys,
                i % keys,
                values[i]
            ));
        }
        let mut down = Vec::new();
        let mut down_offsets = Vec::with_capacity(steps + 1);
        for step in values.chunks_exact(keys) {
            down_offsets.push(down.len());
            down.extend((0u32..).zip(step).filter(|(_, x)| **x == 1).map(|(key, _)| key));
        }
        down_offsets.push(down.len());
        Ok(PianoRolls {
            keys,
            values,
            offsets,
            down: down.into(),
            down_offsets: down_offsets.into(),
        })
    }

    /// Keys of a step.
    pub fn keys(&self) -> usize {
        self.keys
    }
    /// Number of sequences; at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }
    /// Steps of all sequences.
    pub fn steps(&self) -> usize {
        self.offsets[self.len()]
    }
    /// Steps of a sequence.
    ///
    /// # Panics
    /// If there is no such sequence, as indexing a slice does.
    pub fn steps_of(&self, sequence: usize) -> usize {
        self.range(sequence).len()
    }
    /// The values of a sequence, steps x keys.
    ///
    /// # Panics
    /// If there is no such sequence, as indexing a slice does.
    pub fn sequence(&self, sequence: usize) -> &[u8] {
        let range = self.range(sequence);
        &self.values[range.start * self.keys..range.end * self.keys]
    }

    /// Some consecutive sequences.
    pub fn select(&self, sequences: Range<usize>) -> Result<Self> {
        let Some(offsets) = self.offsets.get(sequences.start..=sequences.end) else {
            return Err(Error::Structure(format!(
                "sequences {} to {} of {}",
                sequences.start,
                sequences.end,
                self.len()
            )));
        };
        let first = offsets[0];
        let last = offsets[offsets.len() - 1];
        let values = self.values[first * self.keys..last * self.keys].to_vec();
        let offsets: Vec<usize> = offsets.iter().map(|offset| offset - first).collect();
        PianoRolls::new(self.keys, values, offsets)
    }

    /// The negative log-likelihood under given probabilities that keys are down, total steps x keys, as
    /// [`Gru::probabilities`](super::Gru::probabilities) gives them: for averages of predictions.
    ///
    /// What had no probability at all costs 708.4, minus the logarithm of the smallest normal `f64`.
    /// That is also the price of a key that is up where rounding made its probability to be down 1: in
    /// `f32` from odds of 2^24 on.
    ///
    /// ```
    /// use santa_nn::PianoRolls;
    ///
    /// let rolls = PianoRolls::new(2, vec![1, 0, 0, 0], vec![0, 2])?;
    /// let nll = rolls.nll_of_probabilities(&[0.5, 0.0, 0.0, 0.5])?;
    /// assert!((nll.sum - 4f64.ln()).abs() < 1e-15 && nll.steps == 2);
    /// assert!(rolls.nll_of_probabilities(&[0.5, 0.0, 0.0, 1.5]).is_err());
    /// # Ok::<(), santa::Error>(())
    /// ```
    pub fn nll_of_probabilities(&self, probabilities: &[f64]) -> Result<Nll> {
        let (steps, keys) = (self.steps(), self.keys);
        if probabilities.len() != self.values.len() {
            return Err(Error::Structure(format!(
                "{} probabilities for piano rolls of {steps} steps and {keys} keys",
                probabilities.len()
            )));
        }
        if let Some(i) = probabilities.iter().position(|p| !(0.0..=1.0).contains(p)) {
            return Err(Error::Structure(format!(
                "step {}, key {} is down with probability {}; it must lie between 0 and 1",
                i / keys,
                i % keys,
                probabilities[i]
            )));
        }
        let of_step = |step: usize| {
            let range = step * keys..(step + 1) * keys;
            self.values[range.clone()].iter().zip(&probabilities[range]).fold(0.0, |sum, (x, p)| {
                let log = if *x == 1 { p.ln() } else { (-p).ln_1p() };
                sum - log.max(LOG_FLOOR)
            })
        };
        // Sums of sums: most terms are so small that a single one would lose them.
        let of_sequence = |sequence| self.range(sequence).map(of_step).sum::<f64>();
        Ok(Nll { sum: (0..self.len()).map(of_sequence).sum(), steps })
    }

    /// The steps of a sequence, counted through all sequences.
    pub(super) fn range(&self, sequence: usize) -> Range<usize> {
        self.offsets[sequence]..self.offsets[sequence + 1]
    }
    /// The keys that are down at a step, counted through all sequences.
    pub(super) fn down(&self, step: usize) -> &[u32] {
        &self.down[self.down_offsets[step]..self.down_offsets[step + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_know_their_keys() {
        let rolls = PianoRolls::new(2, vec![0, 1, 1, 1, 0, 0], vec![0, 1, 3]).unwrap();
        assert_eq!(rolls.sequence(1), [1, 1, 0, 0]);
        assert_eq!((rolls.down(0), rolls.down(1), rolls.down(2)), (&[1][..], &[0, 1][..], &[][..]));
    }

    #[test]
    fn impossible_keys_cost_much_but_not_everything() {
        let rolls = PianoRolls::new(2, vec![1, 0, 1, 0], vec![0, 2]).unwrap();
        let sum = |p: [f64; 4]| rolls.nll_of_probabilities(&p).unwrap().sum;
        assert_eq!(sum([1.0, 0.0, 1.0, 0.0]), 0.0);
        assert_eq!(sum([0.0, 0.0, 1.0, 1.0]), -2.0 * LOG_FLOOR);
        assert_eq!(LOG_FLOOR, f64::MIN_POSITIVE.ln());
        // Small probabilities are not lost beside 1.
        assert_eq!(sum([1.0, 1e-20, 1.0, 0.0]), 1e-20);
    }

    #[test]
    fn many_small_terms_are_not_lost_beside_a_large_one() {
        /// Less than half a unit in the last place of the large one: added one by one, all would be lost.
        const SMALL: f64 = 5e-14;
        const STEPS: usize = 10_000;
        let mut values = vec![0; STEPS];
        values[0] = 1;
        let rolls = PianoRolls::new(1, values, vec![0, 1, STEPS]).unwrap();
        let mut probabilities = vec![SMALL; STEPS];
        probabilities[0] = 0.0;
        let sum = rolls.nll_of_probabilities(&probabilities).unwrap().sum;
        let small = (STEPS - 1) as f64 * SMALL;
        assert!((sum + LOG_FLOOR - small).abs() < 1e-3 * small);
    }

    #[test]
    fn probabilities_that_do_not_fit_are_refused_with_the_reason() {
        let rolls = PianoRolls::new(2, vec![1, 0, 1, 0], vec![0, 2]).unwrap();
        for (probabilities, reason) in [
            (vec![0.5; 3], "3 probabilities for piano rolls of 2 steps and 2 keys"),
            (vec![0.5, 0.5, 0.5, 1.5], "step 1, key 1 is down with probability 1.5"),
            (vec![0.5, -0.1, 0.5, 0.5], "step 0, key 1"),
            (vec![f64::NAN, 0.5, 0.5, 0.5], "step 0, key 0 is down with probability NaN"),
        ] {
            let error = rolls.nll_of_probabilities(&probabilities).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn rolls_that_make_no_sense_are_refused_with_the_reason() {
        for (keys, values, offsets, reason) in [
            (0, vec![], vec![0, 1], "at least one"),
            (2, vec![0; 4], vec![], "begin with 0"),
            (2, vec![0; 4], vec![0], "begin with 0"),
            (2, vec![0; 4], vec![1, 2], "begin with 0"),
            (2, vec![0; 4], vec![0, 0, 2], "sequence 0"),
            (2, vec![0; 4], vec![0, 2, 1], "sequence 1"),
            (2, vec![0; 4], vec![0, 3], "4 values"),
            (2, vec![0; 4], vec![0, usize::MAX], "4 values"),
            (2, vec![0, 0, 0, 3], vec![0, 2], "step 1, key 1 is 3"),
        ] {
            let error = PianoRolls::new(keys, values, offsets).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
