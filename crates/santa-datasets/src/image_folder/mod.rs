//! A folder of images, a sub-folder for each class.
//!
//! ```text
//! flowers/daisy/0001.jpg
//! flowers/daisy/0002.png
//! flowers/tulip/a.jpeg
//! ```
//!
//! [`ImageFolder`] lists the files, a [`Transform`] says what becomes of an image, and a
//! [`Prefetcher`] decodes batches on several threads ahead of the training step.

mod decode;
mod prefetch;
#[cfg(test)]
mod tests;
mod transform;

pub use decode::{MAX_DECODED, MAX_SIDE};
pub use prefetch::{ImageBatch, Prefetcher, Request};
pub use transform::{Crop, Place, Resize, Transform};

use crate::bounded::read_file;
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// The largest file that is read: 256 MiB.
const MAX_FILE: u64 = 256 << 20;

/// The images of a folder and their classes. Nothing is decoded until it is asked for.
///
/// Classes are the sub-folders in the order of their names; images come class after class in the
/// order of their names, so that an index means the same image on every machine. Files that do not
/// end in `.jpg`, `.jpeg` or `.png`, and names that begin with a dot, are passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFolder {
    classes: Vec<String>,
    files: Vec<(PathBuf, u32)>,
}

impl ImageFolder {
    /// Lists a folder.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let mut classes = Vec::new();
        let mut files = Vec::new();
        for (name, path) in sorted(folder)?.into_iter().filter(|(_, path)| path.is_dir()) {
            let label = classes.len() as u32;
            let images = sorted(&path)?.into_iter().map(|(_, path)| path);
            files.extend(images.filter(|path| is_image(path)).map(|path| (path, label)));
            classes.push(name);
        }
        if files.is_empty() {
            let allowed = "it must have a sub-folder for each class with .jpg or .png files";
            return Err(Error::argument("the image folder", folder.display(), allowed));
        }
        if u32::try_from(files.len()).is_err() {
            let allowed = "at most 2^32 - 1 images";
            return Err(Error::argument("the number of images", files.len(), allowed));
        }
        Ok(ImageFolder { classes, files })
    }

    /// The names of the classes; a label is an index of this list.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// How many images.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none; a folder without images cannot be opened.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The file of image `i`.
    ///
    /// # Panics
    /// If there is none, as indexing a slice does.
    pub fn path(&self, i: usize) -> &Path {
        &self.files[i].0
    }

    /// The class of image `i`.
    ///
    /// # Panics
    /// If there is none, as indexing a slice does.
    pub fn label(&self, i: usize) -> u32 {
        self.files[i].1
    }

    /// Decodes image `index` as it is in an epoch, height x width x channels, and appends it to
    /// `out`.
    pub fn load(
        &self,
        index: u32,
        transform: &Transform,
        epoch: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Some((path, _)) = self.files.get(index as usize) else {
            let allowed = format!("there are {} images", self.len());
            return Err(Error::argument("index", index, allowed));
        };
        transform.decode(path, &read_file(path, MAX_FILE)?, epoch, index, out)
    }
}

/// Names and paths in a folder, in the order of the names.
fn sorted(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut list = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io("listing", folder))? {
        let entry = entry.map_err(Error::io("listing", folder))?;
        let Ok(name) = entry.file_name().into_string() else {
            let path = entry.path();
            return Err(Error::argument("a file name", path.display(), "it must be Unicode"));
        };
        if !name.starts_with('.') {
            list.push((name, entry.path()));
        }
    }
    list.sort_unstable();
    Ok(list)
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    extension.is_some_and(|e| ["jpg", "jpeg", "png"].iter().any(|known| e == *known))
}
