//! The IDX format of the MNIST files, plain or compressed by gzip.
//!
//! | bytes | what |
//! | --- | --- |
//! | 2 | zero |
//! | 1 | type of the values; 8, unsigned bytes, is the one read here |
//! | 1 | number of dimensions |
//! | 4 each | the dimensions, big-endian |
//! | the rest | the values, the last dimension varying fastest |

use crate::bounded::{Bounded, MAX_INFLATED, read_file};
use crate::error::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use std::io::Read;
use std::path::Path;

const UNSIGNED_BYTES: u8 = 8;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// An array of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx {
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its values, the last dimension varying fastest.
    pub values: Vec<u8>,
}

/// Reads a file, plain or gzip'd (which its first bytes tell), of at most [`MAX_INFLATED`] bytes.
pub fn read(path: impl AsRef<Path>) -> Result<Idx> {
    read_within(path, MAX_INFLATED)
}

/// Reads a file of at most `limit` bytes, before and after inflation.
pub fn read_within(path: impl AsRef<Path>, limit: u64) -> Result<Idx> {
    let path = path.as_ref();
    from_bytes(&path.display().to_string(), &read_file(path, limit)?, limit)
}

/// Reads the content of a file; `file` is its name in errors, `limit` is for what it inflates to.
pub fn from_bytes(file: &str, bytes: &[u8], limit: u64) -> Result<Idx> {
    if bytes.starts_with(&GZIP_MAGIC) {
        let decoder = MultiGzDecoder::new(bytes);
        parse(Bounded::inflated(format!("{file}, inflated"), decoder, bytes.len(), limit))
    } else {
        parse(Bounded::plain(file, bytes))
    }
}

fn parse<R: Read>(mut source: Bounded<R>) -> Result<Idx> {
    /// Where the type and the dimensions are.
    const KIND: u64 = 2;
    const DIMENSIONS: u64 = 4;
    let magic = source.take(DIMENSIONS, "the magic number")?;
    let [0, 0, kind, dimensions] = magic[..] else {
        let found = magic[..2].escape_ascii();
        let reason = format!("an IDX file begins with two zero bytes, this one with \"{found}\"");
        return Err(source.error_at(0, reason));
    };
    if kind != UNSIGNED_BYTES {
        let reason = format!("values of type {kind}; only bytes ({UNSIGNED_BYTES}) are read");
        return Err(source.error_at(KIND, reason));
    }
    let header = source.take(4 * u64::from(dimensions), "the dimensions")?;
    let sizes = header.as_chunks().0.iter().map(|word| u32::from_be_bytes(*word));
    let count = sizes.clone().try_fold(1u64, |product, size| product.checked_mul(size.into()));
    let Some(count) = count else {
        let reason = "the dimensions multiply to more than 2^64".to_owned();
        return Err(source.error_at(DIMENSIONS, reason));
    };
    let values = source.take(count, "the values")?;
    source.finish()?;
    Ok(Idx { shape: sizes.map(|size| size as usize).collect(), values })
}

impl Idx {
    /// The content of a plain file of this array.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let too_large = || {
            let allowed = "the format has at most 255 dimensions, of 32 bits each";
            Error::argument("shape", format!("{:?}", self.shape), allowed)
        };
        let dimensions = u8::try_from(self.shape.len()).map_err(|_| too_large())?;
        let mut bytes = vec![0, 0, UNSIGNED_BYTES, dimensions];
        for &size in &self.shape {
            bytes.extend(u32::try_from(size).map_err(|_| too_large())?.to_be_bytes());
        }
        bytes.extend_from_slice(&self.values);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn to_bytes(shape: &[usize], values: &[u8]) -> Vec<u8> {
        Idx { shape: shape.to_vec(), values: values.to_vec() }.to_bytes().unwrap()
    }

    fn refusal(bytes: &[u8]) -> String {
        from_bytes("it.idx", bytes, MAX_INFLATED).unwrap_err().to_string()
    }

    #[test]
    fn plain_and_compressed_files_give_the_same_array() {
        let file = to_bytes(&[2, 1, 3], &[1, 2, 3, 4, 5, 6]);
        let plain = from_bytes("it.idx", &file, 0).unwrap();
        assert_eq!(plain.shape, [2, 1, 3]);
        assert_eq!(plain.values, [1, 2, 3, 4, 5, 6]);
        assert_eq!(from_bytes("it.gz", &gzip(&file), MAX_INFLATED).unwrap(), plain);
    }

    #[test]
    fn a_wrong_magic_number_and_type_are_named_with_their_place() {
        assert!(refusal(b"PNG...").starts_with("it.idx: at byte 0: an IDX file begins with two"));
        let floats = [0, 0, 13, 1, 0, 0, 0, 0];
        assert!(refusal(&floats).starts_with("it.idx: at byte 2: values of type 13"));
    }

    #[test]
    fn every_truncation_and_any_trailing_byte_is_refused() {
        let mut file = to_bytes(&[2, 3], &[7; 6]);
        let compressed = gzip(&file);
        for end in 0..file.len() {
            refusal(&file[..end]);
        }
        for end in 0..compressed.len() {
            refusal(&compressed[..end]);
        }
        file.push(0);
        assert!(refusal(&file).contains("more than the header says"));
        assert!(refusal(&gzip(&file)).starts_with("it.idx, inflated: at byte 18: there is more"));
    }

    #[test]
    fn a_flipped_bit_in_a_compressed_file_is_found_by_its_checksum() {
        const HEADER: usize = 10;
        let file = gzip(&to_bytes(&[600], &(0..600).map(|i| (i * i) as u8).collect::<Vec<_>>()));
        for at in HEADER..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 1;
            refusal(&bad);
        }
    }

    #[test]
    fn absurd_dimensions_are_refused_before_anything_is_allocated() {
        let header = to_bytes(&[u32::MAX as usize, u32::MAX as usize], &[]);
        assert!(refusal(&header).contains("room for 0 at most"));
        assert!(refusal(&gzip(&header)).contains("room for"));
        let header = to_bytes(&[u32::MAX as usize; 3], &[]);
        assert!(refusal(&header).contains("more than 2^64"));
    }

    #[test]
    fn what_is_inflated_stays_below_the_callers_limit() {
        let file = gzip(&to_bytes(&[1000], &[0; 1000]));
        from_bytes("it.gz", &file, 1008).unwrap();
        let error = from_bytes("it.gz", &file, 1007).unwrap_err().to_string();
        assert!(error.contains("should take 1000 bytes, but there is room for 999"), "{error}");
    }
}
