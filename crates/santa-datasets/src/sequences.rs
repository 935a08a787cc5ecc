//! Sequences of different lengths, as bytes.

use crate::error::{Error, Result};
use std::sync::Arc;

/// Sequences of steps of one width, one after the other: total steps x width bytes, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequences {
    values: Arc<[u8]>,
    /// Where each sequence begins, in steps, and where the last one ends.
    offsets: Arc<[usize]>,
    width: usize,
}

impl Sequences {
    /// Sequences from all their steps and the step at which each begins (0 first), and the last one
    /// ends.
    pub fn new(
        values: impl Into<Arc<[u8]>>,
        offsets: impl Into<Arc<[usize]>>,
        width: usize,
    ) -> Result<Self> {
        let (values, offsets) = (values.into(), offsets.into());
        if width == 0 {
            return Err(Error::argument("width", width, "a step must have values"));
        }
        if offsets.first() != Some(&0) || !offsets.is_sorted() {
            let allowed = "it must begin with 0 and never fall";
            return Err(Error::argument("offsets", "not a list of beginnings", allowed));
        }
        let steps = offsets.last().copied().unwrap_or(0);
        if steps.checked_mul(width) != Some(values.len()) {
            let allowed = format!("{steps} steps of {width} values need as many");
            return Err(Error::argument("values.len()", values.len(), allowed));
        }
        Ok(Sequences { values, offsets, width })
    }

    /// How many sequences.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values of a step.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Steps of all sequences together.
    pub fn steps(&self) -> usize {
        self.values.len() / self.width
    }

    /// Where each sequence begins, in steps, and where the last one ends.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// All steps, one after the other.
    pub fn values(&self) -> &[u8] {
        &self.values
    }

    /// Sequence `i`, steps x width, row-major.
    ///
    /// # Panics
    /// If there is none, as indexing a slice does.
    pub fn sequence(&self, i: usize) -> &[u8] {
        &self.values[self.offsets[i] * self.width..self.offsets[i + 1] * self.width]
    }

    /// All sequences.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.sequence(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_of_different_lengths_lie_one_after_the_other() {
        let music = Sequences::new(vec![1, 2, 3, 4, 5, 6], vec![0, 1, 1, 3], 2).unwrap();
        assert_eq!((music.len(), music.steps(), music.width()), (3, 3, 2));
        assert!(music.iter().eq([&[1, 2][..], &[], &[3, 4, 5, 6]]));
    }

    #[test]
    fn offsets_that_do_not_fit_are_refused() {
        for (offsets, width) in
            [(vec![], 2), (vec![0, 2], 2), (vec![1, 3], 2), (vec![0, 4, 3], 2), (vec![0, 3], 0)]
        {
            assert!(Sequences::new(vec![0; 6], offsets, width).is_err());
        }
    }
}
