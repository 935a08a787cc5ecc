//! What becomes of an image: resized, cropped, mirrored.

use super::decode::{MAX_DECODED, decode};
use crate::error::{Error, Result};
use image::imageops::{FilterType, resize};
use image::{ImageBuffer, Pixel};
use santa::noise::{Purpose, Stream};
use std::path::Path;

/// Resize, crop, mirror, in this order.
///
/// What is random depends on the seed, the epoch and the index of the image, and on nothing else:
/// not on the number of threads, nor on what was decoded before.
///
/// ```
/// use santa_datasets::image_folder::Transform;
///
/// let test = Transform::covering(224, 224)?;
/// let train = Transform { seed: 42, ..test }.random();
/// assert_eq!(train.shape()?, [224, 224, 3]);
/// # Ok::<(), santa_datasets::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transform {
    /// A new size, if any.
    pub resize: Option<Resize>,
    /// A part of it, if any.
    pub crop: Option<Crop>,
    /// Mirrored left to right, every other time.
    pub flip: bool,
    /// One channel, the brightness, instead of red, green and blue.
    pub grey: bool,
    /// For what is random.
    pub seed: u64,
}

/// A new size, by a triangle filter as wide as a new pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// Just large enough to cover this size; the ratio of the sides is kept. With both alike, it is
    /// the length of the shorter side.
    Covering {
        /// Rows.
        height: u32,
        /// Pixels in a row.
        width: u32,
    },
    /// This size, whatever the ratio was.
    Exact {
        /// Rows.
        height: u32,
        /// Pixels in a row.
        width: u32,
    },
}

/// A part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crop {
    /// Rows.
    pub height: u32,
    /// Pixels in a row.
    pub width: u32,
    /// Where.
    pub place: Place,
}

/// Where a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the middle.
    Centre,
    /// Anywhere.
    Random,
}

/// How many times the pixels of the image, or of a square with the longer side asked for, an image
/// may have when it is resized. Only thin images that are enlarged would have more: one line of
/// pixels that shall be 64 rows high becomes 4096 times as large.
const MAX_GROWTH: u64 = 16;

/// Segments of the stream for data: the upper edge, the left edge, and whether to mirror.
const TOP: u32 = 1 << 16;
const LEFT: u32 = TOP + 1;
const FLIP: u32 = TOP + 2;

impl Transform {
    /// Resizes so that the image covers height x width, and crops the middle.
    pub fn covering(height: u32, width: u32) -> Result<Self> {
        let transform = Transform {
            resize: Some(Resize::Covering { height, width }),
            crop: Some(Crop { height, width, place: Place::Centre }),
            ..Transform::default()
        };
        transform.shape().map(|_| transform)
    }

    /// The same with a random place of the crop, and mirrored every other time.
    pub fn random(self) -> Self {
        let crop = self.crop.map(|crop| Crop { place: Place::Random, ..crop });
        Transform { crop, flip: true, ..self }
    }

    /// Height, width and channels of what comes out. An error if that depends on the image, or is
    /// nothing, or more than [`MAX_DECODED`].
    pub fn shape(&self) -> Result<[usize; 3]> {
        let (height, width) = match (self.crop, self.resize) {
            (Some(crop), _) => (crop.height, crop.width),
            (None, Some(Resize::Exact { height, width })) => (height, width),
            (None, _) => {
                let allowed = "images must come out in one size: crop, or resize both sides";
                return Err(Error::argument("crop", "none", allowed));
            }
        };
        let (resized_height, resized_width) = self.resize.map_or((1, 1), Resize::size);
        let channels = if self.grey { 1 } else { 3 };
        let len = u64::from(height).saturating_mul(width.into()).saturating_mul(channels);
        if len == 0 || len > MAX_DECODED || resized_height == 0 || resized_width == 0 {
            let allowed =
                format!("sides must be at least 1, and an image at most {MAX_DECODED} bytes");
            return Err(Error::argument("the transform", format!("{self:?}"), allowed));
        }
        Ok([height as usize, width as usize, channels as usize])
    }

    /// Decodes the content of a JPEG or PNG file as image `index` of an epoch, and appends it to
    /// `out`, height x width x channels; `path` is for errors.
    ///
    /// Which of the two formats it is, the first bytes tell, not the name. An orientation in the
    /// metadata is not applied. Images are refused that are larger than [`MAX_SIDE`] and
    /// [`MAX_DECODED`], or than a file of this length can hold: neither format makes more than about
    /// 1032 bytes of one. So are thin ones that would have more than 16 times the pixels when resized
    /// than they have, or than a square with the longer side of [`Transform::resize`].
    ///
    /// [`MAX_SIDE`]: super::MAX_SIDE
    pub fn decode(
        &self,
        path: &Path,
        bytes: &[u8],
        epoch: u64,
        index: u32,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.shape()?;
        let image = decode(path, bytes)?;
        if self.grey {
            self.apply(path, image.into_luma8(), epoch, index, out)
        } else {
            self.apply(path, image.into_rgb8(), epoch, index, out)
        }
    }

    fn apply<P>(
        &self,
        path: &Path,
        mut image: ImageBuffer<P, Vec<u8>>,
        epoch: u64,
        index: u32,
        out: &mut Vec<u8>,
    ) -> Result<()>
    where
        P: Pixel<Subpixel = u8> + 'static,
    {
        let refuse = |reason: String| Err(Error::Image { path: path.to_owned(), reason });
        if let Some(size) = self.resize {
            let (old_width, old_height) = image.dimensions();
            let (width, height) = size.of((old_width, old_height));
            let area = |width: u32, height: u32| u64::from(width).saturating_mul(height.into());
            let len = area(width, height);
            let longer = size.size().0.max(size.size().1);
            let allowed = area(old_width, old_height).max(area(longer, longer));
            if len > allowed.saturating_mul(MAX_GROWTH)
                || len.saturating_mul(P::CHANNEL_COUNT.into()) > MAX_DECODED
            {
                return refuse(format!(
                    "{old_width} x {old_height} pixels would be {width} x {height} when resized, \
                     which are too many; remove the image, or resize to less"
                ));
            }
            image = resize(&image, width, height, FilterType::Triangle);
        }
        let (full_width, full_height) = image.dimensions();
        let stream = Stream::new(self.seed, 0, Purpose::Data);
        let (mut top, mut left, mut height, mut width) = (0, 0, full_height, full_width);
        if let Some(crop) = self.crop {
            if crop.height > full_height || crop.width > full_width {
                return refuse(format!(
                    "{full_width} x {full_height} pixels are too few for a crop of {} x {}",
                    crop.width, crop.height
                ));
            }
            (height, width) = (crop.height, crop.width);
            let place = |room: u32, segment| match crop.place {
                Place::Centre => room / 2,
                Place::Random => stream.below(epoch, segment, index, u64::from(room) + 1) as u32,
            };
            top = place(full_height - height, TOP);
            left = place(full_width - width, LEFT);
        }
        let mirrored = self.flip && stream.below(epoch, FLIP, index, 2) == 1;
        let channels = usize::from(P::CHANNEL_COUNT);
        let (row_len, start) = (full_width as usize * channels, left as usize * channels);
        let rows = image.as_raw().chunks_exact(row_len).skip(top as usize).take(height as usize);
        for row in rows {
            let row = &row[start..start + width as usize * channels];
            if mirrored {
                row.rchunks_exact(channels).for_each(|pixel| out.extend_from_slice(pixel));
            } else {
                out.extend_from_slice(row);
            }
        }
        Ok(())
    }
}

impl Resize {
    /// The height and width asked for.
    fn size(self) -> (u32, u32) {
        match self {
            Resize::Covering { height, width } | Resize::Exact { height, width } => (height, width),
        }
    }

    /// New width and height of an image of this width and height.
    fn of(self, (width, height): (u32, u32)) -> (u32, u32) {
        let (new_height, new_width) = self.size();
        if let Resize::Exact { .. } = self {
            return (new_width, new_height);
        }
        let [w, h, new_w, new_h] =
            [width.max(1), height.max(1), new_width, new_height].map(u64::from);
        // The side that has to grow more, or may shrink less, sets the scale.
        let (to, from) = if new_h * w >= new_w * h { (new_h, h) } else { (new_w, w) };
        let scale = |side: u64| u32::try_from((side * to + from / 2) / from).unwrap_or(u32::MAX);
        (scale(w), scale(h))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_covering_size_is_as_small_as_can_be() {
        let new = |height, width| Resize::Covering { height, width }.of((20, 12));
        assert_eq!(new(6, 6), (10, 6));
        assert_eq!(new(6, 10), (10, 6));
        assert_eq!(new(1, 10), (10, 6));
        assert_eq!(new(18, 29), (30, 18));
        assert_eq!(new(1, 30), (30, 18));
        assert_eq!(new(7, 7), (12, 7)); // 11.7 x 7
    }
}
