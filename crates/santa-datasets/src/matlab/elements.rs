//! Tags and what they tag.

use crate::bounded::Bounded;
use crate::error::{Error, Result};
use flate2::bufread::ZlibDecoder;

/// Types of elements.
pub(super) mod mi {
    pub const INT8: u32 = 1;
    pub const UINT8: u32 = 2;
    pub const INT32: u32 = 5;
    pub const UINT32: u32 = 6;
    pub const MATRIX: u32 = 14;
    pub const COMPRESSED: u32 = 15;
}

/// Bytes of a tag, and what the elements in a matrix are padded to.
const TAG: usize = 8;

/// An element, in a file or in what was inflated from one.
pub(super) struct Element<'a> {
    pub kind: u32,
    /// Where its tag begins.
    pub start: usize,
    /// The file up to the end of the element, so that positions stay those of the file.
    upto: &'a [u8],
    /// Where its bytes begin.
    inside: usize,
}

impl<'a> Element<'a> {
    pub fn bytes(&self) -> &'a [u8] {
        &self.upto[self.inside..]
    }

    /// The elements that this one is made of.
    pub fn parts<'f>(&self, file: &'f str) -> Elements<'f>
    where
        'a: 'f,
    {
        Elements { file, bytes: self.upto, at: self.inside, padded: true }
    }
}

/// A list of elements.
#[derive(Clone)]
pub(super) struct Elements<'a> {
    file: &'a str,
    bytes: &'a [u8],
    /// Where the next one begins.
    at: usize,
    padded: bool,
}

impl<'a> Elements<'a> {
    /// The elements from `at` to the end of the file. They are not padded.
    pub fn new(file: &'a str, bytes: &'a [u8], at: usize) -> Self {
        Elements { file, bytes, at, padded: false }
    }

    /// The next element; nothing at the end.
    pub fn next(&mut self) -> Result<Option<Element<'a>>> {
        let start = self.at;
        let rest = &self.bytes[start..];
        if rest.is_empty() {
            return Ok(None);
        }
        let Some(&[a, b, c, d, e, f, g, h]) = rest.first_chunk::<TAG>() else {
            return Err(self.error(start, format!("a tag of {TAG} bytes is cut off")));
        };
        let (low, high) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        // A small element has its length in the upper half of the first word, and its bytes, at
        // most four, in the second word.
        let small = high != 0;
        let (kind, inside, length, room) = if small {
            (u32::from(low), start + TAG / 2, usize::from(high), TAG / 2)
        } else {
            let length = u32::from_le_bytes([e, f, g, h]) as usize;
            (u32::from(low), start + TAG, length, rest.len() - TAG)
        };
        if length > room {
            let reason = format!("an element of {length} bytes, where {room} are left for it");
            return Err(self.error(start, reason));
        }
        let end = inside + length;
        self.at = match (small, self.padded) {
            (true, _) => start + TAG,
            (false, true) => end.saturating_add((TAG - length % TAG) % TAG).min(self.bytes.len()),
            (false, false) => end,
        };
        Ok(Some(Element { kind, start, upto: &self.bytes[..end], inside }))
    }

    /// The next element, of this type.
    pub fn expect(&mut self, kind: u32, what: &str) -> Result<Element<'a>> {
        let at = self.at;
        match self.next()? {
            Some(element) if element.kind == kind => Ok(element),
            Some(other) => {
                Err(self.error(at, format!("{what} should be of type {kind}, not {}", other.kind)))
            }
            None => Err(self.error(at, format!("{what} should be here; there is nothing more"))),
        }
    }

    pub fn error(&self, at: usize, reason: impl Into<String>) -> Error {
        Error::format(self.file, at, reason)
    }
}

/// The element that a compressed one holds, tag and all.
pub(super) fn inflate(file: &str, compressed: &[u8], limit: u64) -> Result<Vec<u8>> {
    let decoder = ZlibDecoder::new(compressed);
    let mut source = Bounded::inflated(file.to_owned(), decoder, compressed.len(), limit);
    let mut element = source.take(TAG as u64, "a tag")?;
    let length = element.last_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    element.extend(source.take(length.into(), "the element")?);
    source.finish()?;
    Ok(element)
}
