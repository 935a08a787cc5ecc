//! Arrays of numbers from `.npz` files: zip archives of `.npy` members, stored or deflated.
//!
//! The archive and the headers are read here. The crate for such files (`npyz` 0.9) allocates what
//! the header's length field says, up to 4 GB, before it reads on, and does not know the shapes that
//! Python 2 wrote, `(200L, 88L)`, which those in the weights of the paper's authors are.

mod header;
mod npy;
#[cfg(test)]
mod tests;
mod zip;

pub use npy::{Array, Values};

use crate::bounded::{MAX_INFLATED, read_file};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Reads all arrays of a file of at most [`MAX_INFLATED`] bytes, before and after inflation. Names
/// are without `.npy`.
pub fn read(path: impl AsRef<Path>) -> Result<BTreeMap<String, Array>> {
    let path = path.as_ref();
    from_bytes(&path.display().to_string(), &read_file(path, MAX_INFLATED)?, MAX_INFLATED)
}

/// Reads the content of a file; `file` is its name in errors, `limit` is for the bytes of all arrays
/// together, in the file's types and in those of [`Values`].
pub fn from_bytes(file: &str, bytes: &[u8], mut limit: u64) -> Result<BTreeMap<String, Array>> {
    let mut arrays = BTreeMap::new();
    for member in zip::members(file, bytes)? {
        let Some(name) = member.name.strip_suffix(".npy") else {
            let reason = format!("the member {} is no .npy file", member.name);
            return Err(Error::format(file, member.offset, reason));
        };
        let part = format!("{file}, member {}", member.name);
        let content = member.content(&part, limit)?;
        let array = npy::parse(&part, &content, limit)?;
        limit -= array.values.bytes().max(content.len() as u64).min(limit);
        if arrays.insert(name.to_owned(), array).is_some() {
            let reason = format!("this is the second member with the name {}", member.name);
            return Err(Error::format(file, member.offset, reason));
        }
    }
    Ok(arrays)
}
