//! SHA-256 of a file, or of what it inflates to.

use crate::catalog::{Content, Resource};
use crate::error::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

const BUFFER: usize = 1 << 16;

/// Whether `file`, which is at `path`, has the content of `resource`. `plain` says that it is not
/// compressed although the resource is.
pub(crate) fn check(resource: &Resource, file: &File, path: &Path, plain: bool) -> Result<()> {
    let reader = BufReader::with_capacity(BUFFER, file);
    let (what, found) = match resource.content {
        Content::Gzip(limit) if !plain => {
            ("what it inflates to", sum(MultiGzDecoder::new(reader), limit))
        }
        Content::Exact(limit) | Content::Gzip(limit) => ("the file", sum(reader, limit)),
    };
    let found = match found {
        Ok(found) => found,
        // Corrupt compressed data are a wrong content, not a trouble of the file system.
        Err(error) if error.raw_os_error().is_none() => format!("none ({error})"),
        Err(error) => return Err(Error::io("reading", path)(error)),
    };
    if found == resource.sha256 {
        return Ok(());
    }
    let expected = resource.sha256.to_owned();
    Err(Error::Checksum { path: path.to_owned(), what, expected, found })
}

/// The sum of at most one byte more than `limit`, which is enough to be wrong.
fn sum(reader: impl Read, limit: u64) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    let mut reader = reader.take(limit.saturating_add(1));
    loop {
        match reader.read(&mut buffer)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
