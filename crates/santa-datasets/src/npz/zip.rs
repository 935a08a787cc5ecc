//! The members of a zip archive.
//!
//! The directory at the end of the archive tells the name, method, lengths, CRC-32 and place of each
//! member. Archives beyond 4 GB (zip64), in several parts, or encrypted are refused.

use crate::bounded::Bounded;
use crate::error::{Error, Result};
use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use std::borrow::Cow;

/// End of the directory: signature, lengths of its fixed part and of the longest comment.
const END: &[u8] = b"PK\x05\x06";
const END_LEN: usize = 22;
const MAX_COMMENT: usize = u16::MAX as usize;
/// An entry of the directory.
const ENTRY: &[u8] = b"PK\x01\x02";
const ENTRY_LEN: usize = 46;
/// What stands before a member's bytes.
const LOCAL: &[u8] = b"PK\x03\x04";
const LOCAL_LEN: usize = 30;

const ENCRYPTED: u16 = 1;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// A member, not yet inflated.
pub(super) struct Member<'a> {
    pub name: &'a str,
    /// Where its bytes begin.
    pub offset: usize,
    bytes: &'a [u8],
    deflated: bool,
    len: u32,
    crc: u32,
}

/// The members of an archive, in the order of its directory.
pub(super) fn members<'a>(file: &str, bytes: &'a [u8]) -> Result<Vec<Member<'a>>> {
    let end = end_of_directory(file, bytes)?;
    let (parts, count, place) = (u16_at(end, 4), u16_at(end, 10), u32_at(end, 16));
    if parts != 0 || count == u16::MAX || place == u32::MAX {
        let reason = "archives in several parts or beyond 4 GB are not read";
        return Err(Error::format(file, bytes.len() - end.len(), reason));
    }
    let mut at = place as usize;
    let mut taken = 0;
    let mut members = Vec::new();
    for _ in 0..count {
        let entry = piece(file, bytes, at, ENTRY, ENTRY_LEN, "an entry of the directory")?;
        let lengths = [28, 30, 32].map(|place| usize::from(u16_at(entry, place)));
        let name = bytes.get(at + ENTRY_LEN..at + ENTRY_LEN + lengths[0]);
        let Some(name) = name.and_then(|name| str::from_utf8(name).ok()) else {
            return Err(Error::format(file, at, "the name of a member is cut off or no text"));
        };
        let member = member(file, bytes, at, entry, name)?;
        // Members that share bytes would make more of the file than is there.
        taken += member.bytes.len();
        if taken > bytes.len() {
            return Err(Error::format(file, at, format!("the member {name} overlaps others")));
        }
        members.push(member);
        at += ENTRY_LEN + lengths.iter().sum::<usize>();
    }
    Ok(members)
}

/// The member of an entry, which is at `at`.
fn member<'a>(
    file: &str,
    bytes: &'a [u8],
    at: usize,
    entry: &[u8],
    name: &'a str,
) -> Result<Member<'a>> {
    let refuse = |reason: String| Err(Error::format(file, at, format!("member {name}: {reason}")));
    let (flags, method) = (u16_at(entry, 8), u16_at(entry, 10));
    let [crc, packed, len, place] = [16, 20, 24, 42].map(|place| u32_at(entry, place));
    if flags & ENCRYPTED != 0 {
        return refuse("it is encrypted".to_owned());
    }
    if ![STORED, DEFLATED].contains(&method) {
        return refuse(format!("method {method}; only stored and deflated members are read"));
    }
    if [packed, len, place].contains(&u32::MAX) {
        return refuse("members beyond 4 GB are not read".to_owned());
    }
    if method == STORED && packed != len {
        return refuse(format!("it is stored, but {packed} bytes should become {len}"));
    }
    let local = piece(file, bytes, place as usize, LOCAL, LOCAL_LEN, "a member's header")?;
    let names = usize::from(u16_at(local, 26)) + usize::from(u16_at(local, 28));
    let offset = place as usize + LOCAL_LEN + names;
    let content = bytes.get(offset..).and_then(|rest| rest.get(..packed as usize));
    let Some(content) = content else {
        return refuse(format!("{packed} bytes from byte {offset} on are not in the file"));
    };
    Ok(Member { name, offset, bytes: content, deflated: method == DEFLATED, len, crc })
}

impl<'a> Member<'a> {
    /// The bytes, inflated to at most `limit` if need be; `part` is for errors.
    pub fn content(&self, part: &str, limit: u64) -> Result<Cow<'a, [u8]>> {
        let content = if self.deflated {
            let (decoder, packed) = (DeflateDecoder::new(self.bytes), self.bytes.len());
            let mut source = Bounded::inflated(format!("{part} inflated"), decoder, packed, limit);
            let content = source.take(self.len.into(), "the member")?;
            source.finish()?;
            Cow::Owned(content)
        } else {
            Cow::Borrowed(self.bytes)
        };
        let mut crc = Crc::new();
        crc.update(&content);
        if crc.sum() != self.crc {
            let reason = format!("CRC-32 is {:#010x}, not {:#010x}", crc.sum(), self.crc);
            return Err(Error::format(part, 0, reason));
        }
        Ok(content)
    }
}

/// The record at the end: the last place with the signature whose comment ends with the file.
fn end_of_directory<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a [u8]> {
    let first = bytes.len().saturating_sub(END_LEN + MAX_COMMENT);
    (first..(bytes.len() + 1).saturating_sub(END_LEN))
        .rev()
        .map(|at| &bytes[at..])
        .find(|end| end.starts_with(END) && usize::from(u16_at(end, 20)) == end.len() - END_LEN)
        .ok_or_else(|| {
            let reason = "the end of a zip archive is not there: truncated, or another format";
            Error::format(file, bytes.len(), reason)
        })
}

/// `len` bytes that begin with a signature.
fn piece<'a>(
    file: &str,
    bytes: &'a [u8],
    at: usize,
    signature: &[u8],
    len: usize,
    what: &str,
) -> Result<&'a [u8]> {
    bytes
        .get(at..)
        .and_then(|rest| rest.get(..len))
        .filter(|piece| piece.starts_with(signature))
        .ok_or_else(|| Error::format(file, at, format!("{what} should be here")))
}

/// Little-endian numbers in a piece that is long enough.
fn u16_at(piece: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([piece[at], piece[at + 1]])
}
fn u32_at(piece: &[u8], at: usize) -> u32 {
    u32::from(u16_at(piece, at)) | u32::from(u16_at(piece, at + 2)) << 16
}
