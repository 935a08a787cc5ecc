//! Images with their classes, as bytes.

use crate::error::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Images of one size with their labels: n x height x width x channels bytes, row-major.
///
/// Bytes stay bytes: a model scales them where it gathers a minibatch. Clones, ranges and subsets
/// of consecutive images share the memory.
///
/// ```
/// use santa::{DataSize, Minibatches, Sampling};
/// use santa_datasets::Mnist;
///
/// let images = Mnist::embedded().train;
/// let n = DataSize::new(images.len() as u64)?;
/// let mut batches = Minibatches::new(n, 100, Sampling::ShuffledEpochs, 42, 0)?;
/// for &i in batches.next() {
///     let (pixels, label) = (images.image(i as usize), images.label(i as usize));
///     assert!(pixels.len() == 28 * 28 && label < 10);
/// }
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Images {
    pixels: Arc<[u8]>,
    labels: Arc<[u8]>,
    /// Which of the images in memory are these.
    range: Range<usize>,
    height: usize,
    width: usize,
    channels: usize,
    classes: usize,
}

impl Images {
    /// Images from their bytes. Labels must be below `classes`, and there must be as many as images.
    pub fn new(
        pixels: impl Into<Arc<[u8]>>,
        labels: impl Into<Arc<[u8]>>,
        [height, width, channels]: [usize; 3],
        classes: usize,
    ) -> Result<Self> {
        let (pixels, labels) = (pixels.into(), labels.into());
        let size = height.checked_mul(width).and_then(|size| size.checked_mul(channels));
        let Some(size) = size.filter(|size| *size > 0) else {
            let value = format!("{height} x {width} x {channels}");
            return Err(Error::argument("shape", value, "an image must have pixels"));
        };
        if labels.len().checked_mul(size) != Some(pixels.len()) {
            let allowed = format!("{} labels of images of {size} bytes need as many", labels.len());
            return Err(Error::argument("pixels.len()", pixels.len(), allowed));
        }
        if u32::try_from(labels.len()).is_err() {
            return Err(Error::argument("labels.len()", labels.len(), "at most 2^32 - 1 images"));
        }
        if let Some(i) = labels.iter().position(|label| usize::from(*label) >= classes) {
            let value = format!("{} (of image {i})", labels[i]);
            return Err(Error::argument("label", value, format!("it must be below {classes}")));
        }
        let range = 0..labels.len();
        Ok(Images { pixels, labels, range, height, width, channels, classes })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Rows of an image.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Bytes of a pixel.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Number of classes; labels are below it.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Bytes of an image.
    pub fn image_len(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Image `i`.
    ///
    /// # Panics
    /// If there is none, as indexing a slice does.
    pub fn image(&self, i: usize) -> &[u8] {
        let size = self.image_len();
        &self.pixels()[i * size..][..size]
    }

    /// The class of image `i`.
    ///
    /// # Panics
    /// If there is none, as indexing a slice does.
    pub fn label(&self, i: usize) -> u8 {
        self.labels()[i]
    }

    /// All images, one after the other.
    pub fn pixels(&self) -> &[u8] {
        let size = self.image_len();
        &self.pixels[self.range.start * size..self.range.end * size]
    }

    /// All labels.
    pub fn labels(&self) -> &[u8] {
        &self.labels[self.range.clone()]
    }

    /// Consecutive images, in the same memory.
    pub fn range(&self, range: Range<usize>) -> Result<Self> {
        if range.start > range.end || range.end > self.len() {
            let allowed = format!("there are {} images", self.len());
            return Err(Error::argument("range", format!("{range:?}"), allowed));
        }
        let start = self.range.start;
        Ok(Images { range: start + range.start..start + range.end, ..self.clone() })
    }

    /// The images of these indices, in their order: in the same memory if they are consecutive, as a
    /// copy otherwise.
    pub fn subset(&self, indices: &[u32]) -> Result<Self> {
        if let Some(i) = indices.iter().find(|i| **i as usize >= self.len()) {
            return Err(Error::argument("index", i, format!("there are {} images", self.len())));
        }
        if let Some(&first) = indices.first()
            && indices.iter().zip(first..).all(|(i, expected)| *i == expected)
        {
            return self.range(first as usize..first as usize + indices.len());
        }
        let mut pixels = Vec::with_capacity(indices.len() * self.image_len());
        indices.iter().for_each(|i| pixels.extend_from_slice(self.image(*i as usize)));
        let labels: Vec<u8> = indices.iter().map(|i| self.label(*i as usize)).collect();
        Images::new(pixels, labels, [self.height, self.width, self.channels], self.classes)
    }
}

/// Equal bytes, labels, shape and classes, wherever they lie.
impl PartialEq for Images {
    fn eq(&self, other: &Self) -> bool {
        let shape = |x: &Self| [x.height, x.width, x.channels, x.classes];
        shape(self) == shape(other)
            && self.labels() == other.labels()
            && self.pixels() == other.pixels()
    }
}

impl Eq for Images {}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> Images {
        Images::new((0..16).collect::<Vec<u8>>(), vec![0, 1, 2, 0], [2, 1, 2], 3).unwrap()
    }

    #[test]
    fn an_image_is_its_rows_one_after_the_other() {
        let images = four();
        assert_eq!((images.len(), images.image(2)), (4, &[8, 9, 10, 11][..]));
        assert_eq!(images.label(2), 2);
    }

    #[test]
    fn ranges_and_consecutive_subsets_share_the_memory() {
        let images = four();
        let middle = images.range(1..3).unwrap();
        assert!(std::ptr::eq(middle.image(0), images.image(1)));
        assert_eq!(middle.labels(), [1, 2]);
        let last = middle.subset(&[1]).unwrap();
        assert!(std::ptr::eq(last.image(0), images.image(2)));
        assert!(images.range(2..5).is_err());
    }

    #[test]
    fn a_subset_keeps_the_order_of_its_indices() {
        let subset = four().subset(&[3, 0, 3]).unwrap();
        assert_eq!(subset.labels(), [0, 0, 0]);
        assert_eq!(subset.pixels(), [12, 13, 14, 15, 0, 1, 2, 3, 12, 13, 14, 15]);
        assert!(four().subset(&[]).unwrap().is_empty());
        assert!(four().subset(&[4]).is_err());
    }

    #[test]
    fn bytes_that_do_not_fit_the_shape_and_labels_are_refused() {
        assert!(Images::new(vec![0; 7], vec![0; 2], [2, 2, 1], 1).is_err());
        assert!(Images::new(vec![0; 8], vec![0; 2], [2, 0, 1], 1).is_err());
        assert!(Images::new(vec![0; 8], vec![0; 2], [usize::MAX, 3, 1], 1).is_err());
        let error = Images::new(vec![0; 8], vec![0, 2], [2, 2, 1], 2).unwrap_err().to_string();
        assert_eq!(error, "label is 2 (of image 1): it must be below 2");
    }
}
