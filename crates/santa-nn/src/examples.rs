//! Labelled examples in memory, as bytes or as numbers, which copies and subsets share.

use crate::kernels::Scalar;
use pulp::Arch;
use santa::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Inputs and classes of a data set, or of a part of it.
///
/// Bytes stay bytes: a model scales them when it gathers a minibatch. Copies and subsets share the
/// memory; an `Arc` that is handed over is not copied either. At most 256 classes.
///
/// ```
/// use santa_nn::Examples;
///
/// // Two images of three pixels.
/// let images = Examples::from_bytes([0, 128, 255, 9, 9, 9], 3, [1, 0])?.scaled(1.0 / 255.0);
/// assert_eq!((images.len(), images.width(), images.labels().next()), (2, 3, Some(1)));
/// let second = images.select(&[1])?;
/// assert_eq!(second.labels().collect::<Vec<_>>(), [0]);
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Examples {
    values: Values,
    width: usize,
    labels: Arc<[u8]>,
    scale: f64,
    shift: f64,
    /// Which ones, if not all.
    chosen: Option<Arc<[u32]>>,
}

#[derive(Clone, Debug)]
enum Values {
    Bytes(Arc<[u8]>),
    Single(Arc<[f32]>),
    Double(Arc<[f64]>),
}

impl Examples {
    /// Examples of `width` bytes each, one after the other.
    pub fn from_bytes(
        bytes: impl Into<Arc<[u8]>>,
        width: usize,
        labels: impl Into<Arc<[u8]>>,
    ) -> Result<Self> {
        let bytes = bytes.into();
        Self::new(bytes.len(), Values::Bytes(bytes), width, labels.into())
    }
    /// Examples of `width` numbers each, one after the other.
    pub fn from_f32(
        values: impl Into<Arc<[f32]>>,
        width: usize,
        labels: impl Into<Arc<[u8]>>,
    ) -> Result<Self> {
        let values = values.into();
        Self::new(values.len(), Values::Single(values), width, labels.into())
    }
    /// Examples of `width` numbers each, one after the other.
    pub fn from_f64(
        values: impl Into<Arc<[f64]>>,
        width: usize,
        labels: impl Into<Arc<[u8]>>,
    ) -> Result<Self> {
        let values = values.into();
        Self::new(values.len(), Values::Double(values), width, labels.into())
    }

    fn new(len: usize, values: Values, width: usize, labels: Arc<[u8]>) -> Result<Self> {
        if width == 0 || labels.is_empty() || labels.len().checked_mul(width) != Some(len) {
            return Err(Error::Structure(format!(
                "{} labels with {len} values: there must be at least one example, and {width} \
                 values for each",
                labels.len()
            )));
        }
        if u32::try_from(labels.len()).is_err() {
            return Err(Error::Structure("more than 2^32 examples: use fewer".into()));
        }
        Ok(Examples { values, width, labels, scale: 1.0, shift: 0.0, chosen: None })
    }

    /// The same examples, each value times `scale`. The usual choice for pixels is 1/255; the paper's
    /// authors used 1/126.
    pub fn scaled(mut self, scale: f64) -> Self {
        (self.scale, self.shift) = (self.scale * scale, self.shift * scale);
        self
    }
    /// The same examples with `shift` added to each value.
    pub fn shifted(mut self, shift: f64) -> Self {
        self.shift += shift;
        self
    }
    /// Some of the examples, by their indices, in this order.
    pub fn select(&self, indices: &[u32]) -> Result<Self> {
        let of = |i: &u32| {
            let i = *i as usize;
            if i < self.len() {
                return Ok(self.place(i) as u32);
            }
            let known = self.len();
            Err(Error::Structure(format!("example {i} of {known}: indices count from 0")))
        };
        if indices.is_empty() {
            return Err(Error::Structure("no examples are selected; it needs at least one".into()));
        }
        let chosen = indices.iter().map(of).collect::<Result<Vec<_>>>()?;
        Ok(Examples { chosen: Some(chosen.into()), ..self.clone() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.labels.len(), |chosen| chosen.len())
    }
    /// Never: there is at least one.
    pub fn is_empty(&self) -> bool {
        false
    }
    /// Values of an example.
    pub fn width(&self) -> usize {
        self.width
    }
    /// The classes in order.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = usize> {
        (0..self.len()).map(|i| self.label(i))
    }

    /// The class of an example.
    pub(crate) fn label(&self, index: usize) -> usize {
        usize::from(self.labels[self.place(index)])
    }

    /// Writes the values of an example, scaled.
    pub(crate) fn write<F: Scalar>(&self, index: usize, to: &mut [F]) {
        let place = self.place(index) * self.width;
        let place = place..place + self.width;
        let (scale, shift) = (F::from_f64(self.scale), F::from_f64(self.shift));
        match &self.values {
            Values::Bytes(bytes) => {
                convert(&bytes[place], to, |x| F::from_byte(x) * scale + shift);
            }
            Values::Single(values) => {
                convert(&values[place], to, |x| F::from_f64(f64::from(x)) * scale + shift);
            }
            Values::Double(values) => {
                convert(&values[place], to, |x| F::from_f64(x) * scale + shift);
            }
        }
    }

    fn place(&self, index: usize) -> usize {
        self.chosen.as_ref().map_or(index, |chosen| chosen[index] as usize)
    }

    /// Refuses examples that a network cannot take.
    pub(crate) fn check(&self, width: usize, classes: usize) -> Result<()> {
        if self.width != width {
            return Err(Error::Structure(format!(
                "the examples have {} values each, the network takes {width}",
                self.width
            )));
        }
        match self.labels().find(|label| *label >= classes) {
            None => Ok(()),
            Some(label) => Err(Error::Structure(format!(
                "an example is of class {label}, the network has {classes}: classes count from 0"
            ))),
        }
    }
}

/// Converts element by element, for the instruction set at hand.
fn convert<T: Copy, F: Scalar>(from: &[T], to: &mut [F], value: impl Fn(T) -> F) {
    Arch::new().dispatch(
        #[inline(always)]
        || from.iter().zip(to).for_each(|(from, to)| *to = value(*from)),
    );
}

/// Some of the examples, in the order of a minibatch.
pub(crate) struct Selection<'a> {
    pub examples: &'a Examples,
    /// All if there is no list.
    pub indices: Option<&'a [u32]>,
}

impl Selection<'_> {
    fn at(&self, i: usize) -> usize {
        self.indices.map_or(i, |indices| indices[i] as usize)
    }
}

impl<F: Scalar> crate::network::Source<F> for Selection<'_> {
    fn len(&self) -> usize {
        self.indices.map_or(self.examples.len(), <[u32]>::len)
    }
    fn fill(&self, range: Range<usize>, to: &mut [F]) {
        for (i, to) in range.zip(to.chunks_exact_mut(self.examples.width)) {
            self.examples.write(self.at(i), to);
        }
    }
    fn label(&self, index: usize) -> usize {
        self.examples.label(self.at(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_scaled_then_shifted_and_subsets_of_subsets_hold() {
        let all = Examples::from_bytes([0, 10, 20, 30, 40, 50], 2, [0, 1, 2]).unwrap();
        let all = all.scaled(0.5).shifted(-1.0);
        let last = all.select(&[2, 1]).unwrap().select(&[0]).unwrap();
        let mut row = [0.0f64; 2];
        last.write(0, &mut row);
        assert_eq!((row, last.label(0), last.len()), ([19.0, 24.0], 2, 1));
    }

    #[test]
    fn wrong_sizes_are_refused() {
        for examples in [
            Examples::from_bytes([1, 2, 3], 2, [0]),
            Examples::from_bytes([], 2, []),
            Examples::from_f32([1.0], 0, [0]),
            Examples::from_f64([1.0, 2.0], 1, [0]),
        ] {
            assert!(examples.unwrap_err().to_string().contains("labels"));
        }
        let one = Examples::from_f32([1.0], 1, [3]).unwrap();
        assert!(one.select(&[1]).unwrap_err().to_string().contains("example 1 of 1"));
        assert!(one.select(&[]).is_err());
        assert!(one.check(1, 3).unwrap_err().to_string().contains("class 3"));
        assert!(one.check(2, 4).unwrap_err().to_string().contains("takes 2"));
    }
}
