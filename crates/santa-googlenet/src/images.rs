//! Folders of images, one folder for each class.

use std::path::{Path, PathBuf};

use image::imageops::{self, FilterType};
use image::{ImageReader, RgbImage};
use santa::noise::{Purpose, Stream};

use crate::error::{Error, Result};
use crate::model::PUBLISHED_SIZE;

/// Side to which Caffe's preparation of ImageNet warps every image, for crops of 224.
const WARPED_SIZE: usize = 256;
/// Mean of ImageNet's pixels, red, green, blue, as Caffe's network has it.
const MEAN: [f32; 3] = [123.0, 117.0, 104.0];
/// Endings of files that are taken for images.
const ENDINGS: [&str; 3] = ["jpg", "jpeg", "png"];
/// Keeps the crops apart from other uses of a seed.
const CROPS: Purpose = Purpose::Custom(1);

/// The images below `FOLDER/CLASS/`, and their classes.
#[derive(Clone, Debug)]
pub struct ImageFolder {
    classes: Vec<String>,
    images: Vec<(PathBuf, u32)>,
}

/// Training images, and validation images of the same classes.
#[derive(Clone, Debug)]
pub struct Data {
    /// `FOLDER/train`.
    pub train: ImageFolder,
    /// `FOLDER/val`, if it is there.
    pub val: Option<ImageFolder>,
}

impl Data {
    /// The folders `train` and `val` of a folder.
    pub fn open(folder: &Path) -> Result<Self> {
        let train = folder.join("train");
        if !train.is_dir() {
            let reason = "not found; expected are images at train/CLASS/*.jpg and val/CLASS/*.jpg";
            return Err(Error::Folder { path: train, reason: reason.into() });
        }
        let train = ImageFolder::open(&train)?;
        let val = folder.join("val");
        let val = val.is_dir().then(|| ImageFolder::open_as(&val, &train.classes)).transpose()?;
        Ok(Data { train, val })
    }
}

impl ImageFolder {
    /// Every folder in `folder` is a class, in alphabetical order; every `.jpg`, `.jpeg` and `.png`
    /// in it is an image. Other files are left alone; a class without images is refused.
    pub fn open(folder: &Path) -> Result<Self> {
        let mut classes = Vec::new();
        let mut images = Vec::new();
        for path in sorted(folder)?.into_iter().filter(|path| path.is_dir()) {
            let class = classes.len() as u32;
            let before = images.len();
            images.extend(sorted(&path)?.into_iter().filter(|p| is_image(p)).map(|p| (p, class)));
            if images.len() == before {
                let reason = "a class without .jpg, .jpeg or .png images; remove it or fill it";
                return Err(Error::Folder { path, reason: reason.into() });
            }
            classes.push(name(&path));
        }
        if classes.len() < 2 {
            let reason = format!(
                "has {} folders of images, and classes are told apart from two on; expected are \
                 images at CLASS/*.jpg",
                classes.len()
            );
            return Err(Error::Folder { path: folder.into(), reason });
        }
        Ok(ImageFolder { classes, images })
    }

    /// The same, numbered by the classes of the training images.
    pub fn open_as(folder: &Path, classes: &[String]) -> Result<Self> {
        let mut found = ImageFolder::open(folder)?;
        let mut numbers = Vec::with_capacity(found.classes.len());
        for class in &found.classes {
            let Ok(number) = classes.binary_search(class) else {
                let reason = "the training images have no such class".into();
                return Err(Error::Folder { path: folder.join(class), reason });
            };
            numbers.push(number as u32);
        }
        found.images.iter_mut().for_each(|(_, class)| *class = numbers[*class as usize]);
        found.classes = classes.to_vec();
        Ok(found)
    }

    /// Names of the classes, sorted.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Whether there are none; a folder that opens has some.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// File and class of an image.
    pub fn image(&self, index: usize) -> (&Path, u32) {
        let (path, class) = &self.images[index];
        (path, *class)
    }
}

/// What part of an image the network sees.
#[derive(Clone, Copy, Debug)]
pub enum View {
    /// The middle.
    Centre,
    /// A random place, mirrored or not: a function of the seed, the epoch and the image.
    Random {
        /// The run's seed.
        seed: u64,
        /// How often the images were all seen before.
        epoch: u64,
    },
}

impl View {
    /// Left and upper edge of the crop, and whether it is mirrored, among `places` in each
    /// direction.
    fn crop(self, image: usize, places: u32) -> (u32, u32, bool) {
        match self {
            View::Centre => ((places - 1) / 2, (places - 1) / 2, false),
            View::Random { seed, epoch } => {
                let words = Stream::new(seed, 0, CROPS).words(epoch, 0, image as u32);
                let below = |word: u32| ((u64::from(word) * u64::from(places)) >> 32) as u32;
                (below(words[0]), below(words[1]), words[2] & 1 == 1)
            }
        }
    }
}

/// Reads image number `index`, warps it to 8/7 of `size` as Caffe's preparation does (256 for 224),
/// crops it, and writes `[3, size, size]` values to `out`: red, green, blue in 0 to 255, less
/// ImageNet's mean.
pub(crate) fn load(
    folder: &ImageFolder,
    index: usize,
    view: View,
    size: usize,
    out: &mut [f32],
) -> Result<u32> {
    let (path, class) = folder.image(index);
    let warped = warp(&decode(path)?, warped_side(size));
    let side = size as u32;
    let (left, top, mirrored) = view.crop(index, warped.width() - side + 1);
    for (channel, plane) in out.chunks_exact_mut(size * size).enumerate() {
        for (y, row) in plane.chunks_exact_mut(size).enumerate() {
            for (x, value) in row.iter_mut().enumerate() {
                let x = if mirrored { side - 1 - x as u32 } else { x as u32 };
                let pixel = warped.get_pixel(left + x, top + y as u32);
                *value = f32::from(pixel[channel]) - MEAN[channel];
            }
        }
    }
    Ok(class)
}

fn warped_side(size: usize) -> u32 {
    (size * WARPED_SIZE).div_ceil(PUBLISHED_SIZE) as u32
}

fn warp(image: &RgbImage, side: u32) -> RgbImage {
    imageops::resize(image, side, side, FilterType::Triangle)
}

/// By the content, not by the name: some of ImageNet's files are not what their name says.
fn decode(path: &Path) -> Result<RgbImage> {
    let broken = |reason: &dyn std::fmt::Display| Error::Image {
        path: path.into(),
        reason: reason.to_string(),
    };
    let reader = ImageReader::open(path).map_err(|error| broken(&error))?;
    let reader = reader.with_guessed_format().map_err(|error| broken(&error))?;
    Ok(reader.decode().map_err(|error| broken(&error))?.into_rgb8())
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(Error::io(folder))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(Error::io(folder))?;
    paths.sort();
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) && path.is_file()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    #[test]
    fn crops_are_within_the_image_and_differ_by_epoch_and_image() {
        let crop = |epoch, image| View::Random { seed: 5, epoch }.crop(image, 33);
        let crops: Vec<_> = (0..1000).map(|image| crop(0, image)).collect();
        assert!(crops.iter().all(|(x, y, _)| *x < 33 && *y < 33));
        assert!(crops.iter().any(|(x, _, _)| *x == 0) && crops.iter().any(|(x, _, _)| *x == 32));
        let mirrored = crops.iter().filter(|(_, _, mirrored)| *mirrored).count();
        // Five standard deviations of a fair coin.
        assert!(mirrored.abs_diff(500) < 80, "{mirrored}");
        assert_eq!(crop(3, 7), crop(3, 7));
        assert_ne!(crop(3, 7), crop(4, 7));
        assert_ne!(crop(3, 7), crop(3, 8));
        assert_eq!(View::Centre.crop(1, 33), (16, 16, false));
    }

    #[test]
    fn a_loaded_image_is_its_middle_less_the_mean_by_channel() {
        let folder = tempfile::tempdir().unwrap();
        for class in ["a", "b"] {
            std::fs::create_dir(folder.path().join(class)).unwrap();
            // As wide as the warp makes it, so that the warp changes nothing.
            let picture = RgbImage::from_fn(warped_side(64), warped_side(64), |x, y| {
                Rgb([x as u8, y as u8, 200])
            });
            picture.save(folder.path().join(class).join("x.png")).unwrap();
        }
        let folder = ImageFolder::open(folder.path()).unwrap();
        let mut out = vec![0.0; 3 * 64 * 64];
        assert_eq!(load(&folder, 1, View::Centre, 64, &mut out).unwrap(), 1);
        // 74 pixels, 11 places: the middle one is number 5 from 0.
        assert_eq!(warped_side(64), 74);
        assert_eq!(out[0], 5.0 - 123.0);
        assert_eq!(out[63], 68.0 - 123.0);
        assert_eq!(out[64 * 64], 5.0 - 117.0);
        assert_eq!(out[2 * 64 * 64 - 1], 68.0 - 117.0);
        assert_eq!(out[3 * 64 * 64 - 1], 200.0 - 104.0);
    }
}
