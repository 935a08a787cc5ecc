//! Reading no more than a file can hold.
//!
//! A header may promise anything. Here a promise is compared with what the bytes at hand could
//! possibly give before anything is allocated for it, and memory grows with what really arrives.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Deflate's best case: 258 bytes from a length and a distance code of one bit each.
pub(crate) const DEFLATE_RATIO: u64 = 258 * 8 / 2;

/// What one file may inflate to, and may take in memory when it is read, unless the caller says
/// otherwise: 1 GiB.
///
/// Together with deflate's own bound, 1032 bytes out for each byte in, this bounds what a hostile
/// file can make a reader of this crate hold. While a buffer grows or is copied, that is about three
/// times as much.
pub const MAX_INFLATED: u64 = 1 << 30;

/// Bytes of a file or inflated from one, with their position for the errors.
pub(crate) struct Bounded<R> {
    reader: R,
    file: String,
    position: u64,
    /// What the compressed bytes can give at most, and the caller allows.
    end: u64,
}

impl<'a> Bounded<&'a [u8]> {
    /// Bytes as they are.
    pub fn plain(file: &str, bytes: &'a [u8]) -> Self {
        Bounded { reader: bytes, file: file.to_owned(), position: 0, end: bytes.len() as u64 }
    }
}

impl<R: Read> Bounded<R> {
    /// What `decoder` makes of `compressed` bytes, and at most `limit`.
    pub fn inflated(file: String, decoder: R, compressed: usize, limit: u64) -> Self {
        let end = (compressed as u64).saturating_mul(DEFLATE_RATIO).min(limit);
        Bounded { reader: decoder, file, position: 0, end }
    }

    /// The next `count` bytes, which are `what`.
    pub fn take(&mut self, count: u64, what: &str) -> Result<Vec<u8>> {
        let left = self.end - self.position;
        if count > left {
            return Err(self.error(format!(
                "{what} should take {count} bytes, but there is room for {left} at most: truncated \
                 or corrupt"
            )));
        }
        let mut bytes = Vec::new();
        // Grows with what arrives: a promise alone costs nothing.
        let result = self.reader.by_ref().take(count).read_to_end(&mut bytes);
        self.position += bytes.len() as u64;
        match result {
            Ok(_) if bytes.len() as u64 == count => Ok(bytes),
            Ok(got) => Err(self.error(format!(
                "{what} should take {count} bytes, the file ends after {got} of them"
            ))),
            Err(error) => Err(self.corrupt(&error)),
        }
    }

    /// Nothing may follow.
    pub fn finish(mut self) -> Result<()> {
        match self.reader.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.error("there is more than the header says".to_owned())),
            Err(error) => Err(self.corrupt(&error)),
        }
    }

    /// An error at a place that was passed.
    pub fn error_at(&self, offset: u64, reason: String) -> Error {
        Error::Format { file: self.file.clone(), offset, reason }
    }

    fn error(&self, reason: String) -> Error {
        self.error_at(self.position, reason)
    }

    fn corrupt(&self, error: &std::io::Error) -> Error {
        self.error(match error.kind() {
            ErrorKind::UnexpectedEof => "the compressed data end early".to_owned(),
            _ => format!("the compressed data are corrupt: {error}"),
        })
    }
}

/// A whole file, if it is a regular one of at most `limit` bytes.
pub(crate) fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let failed = || Error::io("reading", path);
    // Asked before it is opened: opening a pipe would wait for its other end.
    let metadata = std::fs::metadata(path).map_err(failed())?;
    if !metadata.is_file() {
        let kind = std::io::Error::new(ErrorKind::InvalidInput, "it is not a regular file");
        return Err(failed()(kind));
    }
    if metadata.len() > limit {
        let reason = format!("the file has {} bytes, at most {limit} are read", metadata.len());
        return Err(Error::format(&path.display().to_string(), 0, reason));
    }
    let file = File::open(path).map_err(failed())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(metadata.len() as usize).map_err(|error| {
        failed()(std::io::Error::new(ErrorKind::OutOfMemory, error.to_string()))
    })?;
    file.take(limit).read_to_end(&mut bytes).map_err(failed())?;
    Ok(bytes)
}
