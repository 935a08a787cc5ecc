//! Named tensors and metadata in one file, written so that a crash never costs the last good one.
//!
//! The format is [safetensors](https://docs.rs/safetensors): any of its readers opens the tensors.
//! Metadata values are JSON texts. The entry `format` holds the version of what this library puts
//! inside; a file of a newer version is refused.
//!
//! ```
//! use santa::dynamics::Adam;
//! use santa::{Checkpoint, Stepper, Target};
//!
//! let target = Target::density(3)?;
//! let mut adam = Adam::new(0.1).init::<f64>(&target, 42)?;
//! let mut theta = vec![1.0, 2.0, 3.0];
//! adam.step(&mut theta, &[0.1, 0.2, 0.3])?;
//!
//! let mut checkpoint = Checkpoint::new();
//! adam.save(&theta, &mut checkpoint)?;
//! checkpoint.insert_meta("epoch", &7)?;
//! let bytes = checkpoint.to_bytes()?; // or `write(path)`
//!
//! let checkpoint = Checkpoint::from_bytes(&bytes)?; // or `read(path)`
//! let (again, theta_again) = Stepper::<f64>::from_checkpoint(&checkpoint)?;
//! assert_eq!((again.steps(), theta_again), (1, theta));
//! assert_eq!(checkpoint.meta::<u32>("epoch")?, 7);
//! # Ok::<(), santa::Error>(())
//! ```

use crate::error::{Error, Result};
use crate::real::Real;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Version of the contents; goes up when an older library could not read them.
const FORMAT: u32 = 1;
/// Metadata key of the version.
const FORMAT_KEY: &str = "format";
/// Header key under which safetensors keeps metadata; no tensor may have this name.
const METADATA_KEY: &str = "__metadata__";
/// A safetensors file begins with the header's length, a little-endian u64.
const LENGTH_BYTES: usize = 8;
/// Safetensors readers refuse longer headers.
const MAX_HEADER_BYTES: usize = 100_000_000;

/// Named tensors of `f32` or `f64`, and metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    tensors: BTreeMap<String, Tensor>,
    /// JSON texts.
    meta: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Tensor {
    element: Element,
    shape: Vec<usize>,
    /// Little-endian; as many as the shape says.
    bytes: Vec<u8>,
}

/// Element types; the wider one comes first, which keeps both aligned in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Element {
    F64,
    F32,
}

impl Element {
    fn of<F: Real>() -> Self {
        if F::BYTES == f32::BYTES { Element::F32 } else { Element::F64 }
    }
    /// As safetensors spells it.
    fn dtype(self) -> &'static str {
        match self {
            Element::F32 => "F32",
            Element::F64 => "F64",
        }
    }
    fn bytes(self) -> usize {
        match self {
            Element::F32 => f32::BYTES,
            Element::F64 => f64::BYTES,
        }
    }
}

/// The error for contents that make no checkpoint.
pub(crate) fn unusable(reason: impl Into<String>) -> Error {
    Error::Checkpoint { path: None, reason: reason.into() }
}

/// Elements of a shape; `None` if there are too many to count.
fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, n| product.checked_mul(*n))
}

impl Checkpoint {
    /// An empty checkpoint.
    pub fn new() -> Self {
        Checkpoint::default()
    }

    /// Adds a tensor, or replaces the one of that name. The shape's product must be the length.
    pub fn insert_tensor<F: Real>(
        &mut self,
        name: impl Into<String>,
        shape: &[usize],
        values: &[F],
    ) -> Result<()> {
        let name = name.into();
        if name == METADATA_KEY {
            return Err(Error::Structure(format!("no tensor may be called `{METADATA_KEY}`")));
        }
        if elements(shape) != Some(values.len()) {
            let len = values.len();
            return Err(Error::Structure(format!(
                "tensor `{name}` has {len} elements, which do not fill its shape {shape:?}"
            )));
        }
        let mut bytes = Vec::with_capacity(values.len() * F::BYTES);
        values.iter().for_each(|x| x.write_le(&mut bytes));
        self.tensors
            .insert(name, Tensor { element: Element::of::<F>(), shape: shape.into(), bytes });
        Ok(())
    }

    /// The elements of a tensor. Refused if there is none of that name, or if it is of the other
    /// element type: numbers are never converted.
    pub fn tensor<F: Real>(&self, name: &str) -> Result<Vec<F>> {
        let tensor = self.find(name)?;
        let wanted = Element::of::<F>();
        if tensor.element != wanted {
            return Err(Error::Mismatch {
                field: format!("element type of tensor `{name}`"),
                saved: tensor.element.dtype().into(),
                present: wanted.dtype().into(),
            });
        }
        Ok(tensor.bytes.chunks_exact(F::BYTES).map(F::read_le).collect())
    }

    /// [`Checkpoint::tensor`], refused if its shape is another one.
    pub fn tensor_of_shape<F: Real>(&self, name: &str, shape: &[usize]) -> Result<Vec<F>> {
        let saved = self.shape(name)?;
        if saved != shape {
            return Err(Error::Mismatch {
                field: format!("shape of tensor `{name}`"),
                saved: format!("{saved:?}"),
                present: format!("{shape:?}"),
            });
        }
        self.tensor(name)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Result<&[usize]> {
        Ok(&self.find(name)?.shape)
    }

    fn find(&self, name: &str) -> Result<&Tensor> {
        self.tensors.get(name).ok_or_else(|| unusable(format!("there is no tensor `{name}`")))
    }

    /// The names of the tensors, in alphabetical order.
    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Adds metadata, or replaces what was under that key. `format` is the library's own. Numbers
    /// that JSON does not have (NaN, infinities) come back as missing ones.
    pub fn insert_meta<T: Serialize + ?Sized>(
        &mut self,
        key: impl Into<String>,
        value: &T,
    ) -> Result<()> {
        let key = key.into();
        if key == FORMAT_KEY {
            return Err(Error::Structure(format!("metadata `{FORMAT_KEY}` is the library's own")));
        }
        let text = serde_json::to_string(value)
            .map_err(|e| Error::Structure(format!("metadata `{key}` is not JSON: {e}")))?;
        self.meta.insert(key, text);
        Ok(())
    }

    /// Metadata by its key.
    pub fn meta<T: DeserializeOwned>(&self, key: &str) -> Result<T> {
        let text =
            self.meta.get(key).ok_or_else(|| unusable(format!("there is no metadata `{key}`")))?;
        serde_json::from_str(text).map_err(|e| unusable(format!("metadata `{key}`: {e}")))
    }

    /// The keys of the metadata, in alphabetical order.
    pub fn meta_keys(&self) -> impl Iterator<Item = &str> {
        self.meta.keys().map(String::as_str)
    }

    /// The checkpoint as a safetensors file: the same bytes for the same contents.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        /// Padding of the header that keeps the tensors aligned.
        const ALIGNMENT: usize = 8;
        let mut meta = self.meta.clone();
        meta.insert(FORMAT_KEY.into(), FORMAT.to_string());
        let mut order: Vec<_> = self.tensors.iter().collect();
        order.sort_by_key(|(_, tensor)| tensor.element); // stable: by name within a type

        let mut header = serde_json::Map::new();
        header.insert(METADATA_KEY.into(), serde_json::json!(meta));
        let mut end = 0;
        for (name, tensor) in &order {
            let start = end;
            end += tensor.bytes.len();
            header.insert(
                name.to_string(),
                serde_json::json!({
                    "dtype": tensor.element.dtype(),
                    "shape": tensor.shape,
                    "data_offsets": [start, end],
                }),
            );
        }
        let mut header = serde_json::to_vec(&header)
            .map_err(|e| Error::Structure(format!("the checkpoint's header: {e}")))?;
        header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
        if header.len() > MAX_HEADER_BYTES {
            let len = header.len();
            return Err(Error::Structure(format!(
                "the checkpoint's header has {len} bytes, readers take {MAX_HEADER_BYTES}; \
                 use fewer tensors or less metadata"
            )));
        }

        let mut bytes = Vec::with_capacity(LENGTH_BYTES + header.len() + end);
        bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&header);
        order.iter().for_each(|(_, tensor)| bytes.extend_from_slice(&tensor.bytes));
        Ok(bytes)
    }

    /// Reads what [`Checkpoint::to_bytes`] wrote. Whatever the bytes, the answer is a checkpoint or
    /// an error, and takes memory in proportion to them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let cut_short = || unusable("it ends within its header");
        let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>().ok_or_else(cut_short)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut_short())?;
        let (header, data) = rest.split_at_checked(length).ok_or_else(cut_short)?;
        // The type checks that the tensors lie without gaps and have the lengths of their shapes.
        let header: Metadata =
            serde_json::from_slice(header).map_err(|e| unusable(format!("its header: {e}")))?;
        if header.data_len() != data.len() {
            return Err(unusable(format!(
                "its header promises {} bytes of tensors, there are {}",
                header.data_len(),
                data.len()
            )));
        }

        let mut meta: BTreeMap<String, String> =
            header.metadata().clone().unwrap_or_default().into_iter().collect();
        let format = meta.remove(FORMAT_KEY).ok_or_else(|| {
            unusable(format!("it has no metadata `{FORMAT_KEY}`: not written by this library"))
        })?;
        let format: u32 = format.parse().map_err(|_| {
            unusable(format!("metadata `{FORMAT_KEY}` is `{format}`: not written by this library"))
        })?;
        if format > FORMAT {
            return Err(unusable(format!(
                "it has format {format}, this library reads up to {FORMAT}; use a newer version"
            )));
        }

        let mut tensors = BTreeMap::new();
        for (name, info) in header.tensors() {
            let tensor = Tensor::cut_out(&name, info, data)?;
            tensors.insert(name, tensor);
        }
        Ok(Checkpoint { tensors, meta })
    }

    /// Writes the file so that at every moment `path` holds either the earlier checkpoint or this
    /// one, whole: see [`write_whole`].
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        write_whole(path, &self.to_bytes()?)
    }

    /// Reads a file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| Error::Io {
            action: "reading",
            path: path.to_path_buf(),
            source,
        })?;
        Checkpoint::from_bytes(&bytes).map_err(|error| match error {
            Error::Checkpoint { path: None, reason } => {
                Error::Checkpoint { path: Some(path.to_path_buf()), reason }
            }
            other => other,
        })
    }
}

impl Tensor {
    /// A tensor of a file, whose header's lengths have been checked against each other.
    fn cut_out(name: &str, info: &TensorInfo, data: &[u8]) -> Result<Self> {
        let element = match info.dtype {
            Dtype::F32 => Element::F32,
            Dtype::F64 => Element::F64,
            other => {
                return Err(unusable(format!(
                    "tensor `{name}` has elements of type {other:?}; only F32 and F64 are read"
                )));
            }
        };
        let (start, end) = info.data_offsets;
        let bytes = data
            .get(start..end)
            .filter(|b| {
                elements(&info.shape).and_then(|n| n.checked_mul(element.bytes())) == Some(b.len())
            })
            .ok_or_else(|| unusable(format!("tensor `{name}` does not fit its place")))?;
        Ok(Tensor { element, shape: info.shape.clone(), bytes: bytes.to_vec() })
    }
}

/// Writes a file so that at every moment `path` holds either what was there before or these bytes,
/// whole: into a temporary file beside it, flushed to the disk, then renamed.
pub fn write_whole(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    let failed = |action: &'static str| {
        move |source: std::io::Error| Error::Io { action, path: path.to_path_buf(), source }
    };
    let Some(name) = path.file_name() else {
        return Err(failed("writing")(std::io::Error::other("the path names no file")));
    };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let temporary = Temporary::beside(folder, name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary.0)
        .map_err(failed("creating a temporary file beside"))?;
    file.write_all(bytes).map_err(failed("writing"))?;
    file.sync_all().map_err(failed("flushing"))?;
    drop(file);
    fs::rename(&temporary.0, path).map_err(failed("renaming the finished file to"))?;
    sync_folder(folder).map_err(failed("flushing the folder of"))
}

/// A file that is removed when this goes out of scope, unless it was renamed away.
struct Temporary(PathBuf);

impl Temporary {
    /// A name of its own for each process and each call.
    fn beside(folder: &Path, name: &std::ffi::OsStr) -> Self {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{call}.tmp", std::process::id()));
        Temporary(folder.join(hidden))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes a renaming last through a power failure.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}
/// Folders cannot be flushed here; the system orders the renaming itself.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}
