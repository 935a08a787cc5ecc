//! A folder in the format Zarr 2, as xarray reads it.

use crate::error::{Error, Result};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers in a chunk at most, if a draw has not more: 16 MiB, but little for the test of it.
const CHUNK: usize = if cfg!(test) { 1 << 8 } else { 1 << 21 };

/// Groups and arrays, before they are written.
pub(super) struct Store<'a> {
    pub groups: Vec<&'static str>,
    pub arrays: Vec<Array<'a>>,
    attributes: &'a Map<String, Value>,
}

/// One array of a group.
pub(super) struct Array<'a> {
    pub group: &'static str,
    pub name: String,
    pub shape: Vec<usize>,
    pub dimensions: Vec<String>,
    pub numbers: Numbers<'a>,
}

/// A number by its chain, draw and element.
type Value3<'a> = Box<dyn Fn(usize, usize, usize) -> f64 + 'a>;

/// The numbers of an array.
pub(super) enum Numbers<'a> {
    /// A coordinate.
    Index(Vec<i64>),
    /// Chains, draws, and elements in the order of the array's own dimensions.
    Real(Value3<'a>),
}

impl<'a> Store<'a> {
    pub fn new(attributes: &'a Map<String, Value>) -> Self {
        Store { groups: Vec::new(), arrays: Vec::new(), attributes }
    }

    /// Adds an array whose name can be that of a folder, and that the group does not have yet.
    pub fn add(&mut self, array: Array<'a>) -> Result<()> {
        let name = &array.name;
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            return Err(Error::data(format!(
                "`{name}` cannot be the name of a variable in a Zarr store; rename it, without slashes \
                 and without a dot in front"
            )));
        }
        if self.arrays.iter().any(|other| other.group == array.group && other.name == *name) {
            return Err(Error::data(format!(
                "two variables of the group `{}` would have the name `{name}`; rename one",
                array.group
            )));
        }
        self.arrays.push(array);
        Ok(())
    }

    /// Writes all beside `path`, and renames.
    pub fn write(&self, path: &Path, replace: bool) -> Result<()> {
        let occupied = path.symlink_metadata().is_ok();
        if occupied && !replace {
            return Err(Error::data(format!(
                "{} exists; choose another name, or say that it is to be replaced",
                path.display()
            )));
        }
        if occupied && !path.join(".zgroup").is_file() {
            return Err(Error::data(format!(
                "{} exists and is no Zarr store, so that it is not replaced; choose another name",
                path.display()
            )));
        }
        let fresh = Temporary(hidden(path)?);
        self.write_into(&fresh.0)?;
        let failed = || Error::io("renaming the finished store to", path);
        if occupied {
            // Two renamings: for a moment there is none of this name, and either one is whole.
            let old = hidden(path)?;
            fs::rename(path, &old).map_err(failed())?;
            if let Err(error) = fs::rename(&fresh.0, path) {
                let _ = fs::rename(&old, path);
                return Err(failed()(error));
            }
            fs::remove_dir_all(&old).map_err(Error::io("removing the replaced store", &old))?;
        } else {
            fs::rename(&fresh.0, path).map_err(failed())?;
        }
        flush(folder_of(path))
    }

    fn write_into(&self, root: &Path) -> Result<()> {
        fs::create_dir(root).map_err(Error::io("creating", root))?;
        // All metadata once more in a file, which saves a reader from looking for them.
        let mut metadata = Map::new();
        let group = json!({ "zarr_format": 2 });
        let attributes = Value::Object(self.attributes.clone());
        metadata.insert(".zgroup".into(), group.clone());
        metadata.insert(".zattrs".into(), attributes.clone());
        for name in &self.groups {
            metadata.insert(format!("{name}/.zgroup"), group.clone());
            metadata.insert(format!("{name}/.zattrs"), attributes.clone());
        }
        for array in &self.arrays {
            let place = format!("{}/{}", array.group, array.name);
            metadata.insert(format!("{place}/.zarray"), array.metadata());
            metadata.insert(
                format!("{place}/.zattrs"),
                json!({ "_ARRAY_DIMENSIONS": array.dimensions }),
            );
        }
        for name in &self.groups {
            let folder = root.join(name);
            fs::create_dir(&folder).map_err(Error::io("creating", &folder))?;
        }
        for array in &self.arrays {
            array.write(&root.join(array.group).join(&array.name))?;
        }
        for (name, value) in &metadata {
            write_json(&root.join(name), value)?;
        }
        let all = json!({ "zarr_consolidated_format": 1, "metadata": metadata });
        write_json(&root.join(".zmetadata"), &all)?;
        for array in &self.arrays {
            flush(&root.join(array.group).join(&array.name))?;
        }
        self.groups.iter().try_for_each(|name| flush(&root.join(name)))?;
        flush(root)
    }
}

impl Array<'_> {
    /// Numbers of one draw.
    fn elements(&self) -> usize {
        self.shape.iter().skip(2).product()
    }

    /// One chain each, and as many draws as fit.
    fn chunks(&self) -> Vec<usize> {
        match self.numbers {
            Numbers::Index(_) => self.shape.clone(),
            Numbers::Real(_) => {
                let draws = (CHUNK / self.elements()).clamp(1, self.shape[1]);
                [&[1, draws], &self.shape[2..]].concat()
            }
        }
    }

    fn metadata(&self) -> Value {
        let (dtype, fill_value) = match self.numbers {
            Numbers::Index(_) => ("<i8", Value::Null),
            Numbers::Real(_) => ("<f8", json!("NaN")),
        };
        json!({
            "zarr_format": 2,
            "shape": self.shape,
            "chunks": self.chunks(),
            "dtype": dtype,
            "order": "C",
            "fill_value": fill_value,
            "compressor": null,
            "filters": null,
        })
    }

    fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir(folder).map_err(Error::io("creating", folder))?;
        let value = match &self.numbers {
            Numbers::Index(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|i| i.to_le_bytes()).collect();
                return write_file(&folder.join("0"), &bytes);
            }
            Numbers::Real(value) => value,
        };
        let (draws, elements) = (self.shape[1], self.elements());
        let step = self.chunks()[1];
        let rest = ".0".repeat(self.shape.len() - 2);
        for chain in 0..self.shape[0] {
            for (number, first) in (0..draws).step_by(step).enumerate() {
                // Chunks have one size: the last one is filled up.
                let mut bytes = Vec::with_capacity(step * elements * size_of::<f64>());
                for draw in first..first + step {
                    for element in 0..elements {
                        let x = if draw < draws { value(chain, draw, element) } else { f64::NAN };
                        bytes.extend(x.to_le_bytes());
                    }
                }
                write_file(&folder.join(format!("{chain}.{number}{rest}")), &bytes)?;
            }
        }
        Ok(())
    }
}

/// A folder that is removed when this goes out of scope, unless it was renamed away.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A hidden name beside a path, of its own for each process and each call.
fn hidden(path: &Path) -> Result<PathBuf> {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let Some(name) = path.file_name() else {
        return Err(Error::data(format!("{} names no folder", path.display())));
    };
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}-{call}.tmp", std::process::id()));
    Ok(folder_of(path).join(hidden))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    write_file(path, format!("{value:#}\n").as_bytes())
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::create_new(path).map_err(Error::io("creating", path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(Error::io("writing", path))
}

/// Makes the names in a folder last through a power failure.
#[cfg(unix)]
fn flush(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(Error::io("flushing", folder))
}
/// Folders cannot be flushed here; the system orders the renaming itself.
#[cfg(not(unix))]
fn flush(_: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_arrays_are_cut_into_chunks_of_one_size() {
        let elements = CHUNK / 2;
        let array = Array {
            group: "posterior",
            name: "w".into(),
            shape: vec![1, 3, elements],
            dimensions: vec!["chain".into(), "draw".into(), "w_dim_0".into()],
            numbers: Numbers::Real(Box::new(|_, draw, _| draw as f64)),
        };
        assert_eq!(array.chunks(), [1, 2, elements]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w");
        array.write(&path).unwrap();
        let sizes = ["0.0.0", "0.1.0"].map(|chunk| fs::metadata(path.join(chunk)).unwrap().len());
        assert_eq!(sizes, [8 * CHUNK as u64; 2]);
        let last = fs::read(path.join("0.1.0")).unwrap();
        assert_eq!(last[..8], 2.0f64.to_le_bytes());
        assert_eq!(last[last.len() - 8..], f64::NAN.to_le_bytes());
    }
}
