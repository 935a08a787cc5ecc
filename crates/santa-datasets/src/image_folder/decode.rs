//! From the bytes of a file to pixels.

use crate::bounded::DEFLATE_RATIO;
use crate::error::{Error, Result};
use image::codecs::{jpeg::JpegDecoder, png::PngDecoder};
use image::{DynamicImage, ImageDecoder, ImageFormat, Limits};
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The longest side of an image that is decoded.
pub const MAX_SIDE: u32 = 1 << 14;
/// The most bytes that an image may have decoded, and resized: 256 MiB.
pub const MAX_DECODED: u64 = 256 << 20;
/// For small images that their format's headers promise.
const SLACK: u64 = 1 << 16;

/// Decodes a JPEG or PNG file; `path` is for errors.
pub(super) fn decode(path: &Path, bytes: &[u8]) -> Result<DynamicImage> {
    let refuse = |reason: String| Error::Image { path: path.to_owned(), reason };
    // A bug in a decoder is an error of this image, not the end of the run.
    let result = catch_unwind(AssertUnwindSafe(|| match image::guess_format(bytes) {
        Ok(ImageFormat::Png) => {
            let mut limits = Limits::default();
            limits.max_alloc = Some(MAX_DECODED);
            let decoder = PngDecoder::with_limits(Cursor::new(bytes), limits);
            finish(decoder.map_err(|error| error.to_string())?, bytes)
        }
        Ok(ImageFormat::Jpeg) => {
            whole_jpeg(bytes)?;
            let decoder = JpegDecoder::new(Cursor::new(bytes));
            finish(decoder.map_err(|error| error.to_string())?, bytes)
        }
        _ => Err("neither JPEG nor PNG".to_owned()),
    }));
    result.unwrap_or_else(|_| Err("the decoder failed on it".to_owned())).map_err(refuse)
}

/// Decodes, if the header promises no more than there can be.
fn finish(mut decoder: impl ImageDecoder, bytes: &[u8]) -> Result<DynamicImage, String> {
    let (width, height) = decoder.dimensions();
    let len = decoder.total_bytes();
    let plausible = (bytes.len() as u64).saturating_mul(DEFLATE_RATIO).saturating_add(SLACK);
    if width > MAX_SIDE || height > MAX_SIDE || len > MAX_DECODED {
        return Err(format!(
            "{width} x {height} pixels of {len} bytes; at most {MAX_SIDE} a side and \
             {MAX_DECODED} bytes are decoded"
        ));
    }
    if len > plausible {
        return Err(format!("{width} x {height} pixels cannot be in {} bytes", bytes.len()));
    }
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODED);
    decoder.set_limits(limits).map_err(|error| error.to_string())?;
    DynamicImage::from_decoder(decoder).map_err(|error| error.to_string())
}

/// Whether a JPEG file has its end. The decoder fills what is missing with grey.
///
/// Walks from marker to marker, over the segments with a length and the compressed data between, so
/// that the end of a thumbnail in the metadata does not count.
fn whole_jpeg(bytes: &[u8]) -> Result<(), String> {
    const MARKER: u8 = 0xff;
    const END: u8 = 0xd9;
    /// Markers without a segment: fill bytes, escaped data, restarts, and the start of the image.
    const ALONE: [std::ops::RangeInclusive<u8>; 4] =
        [0xff..=0xff, 0x00..=0x01, 0xd0..=0xd7, 0xd8..=0xd8];
    let mut at = 0;
    while let Some(skip) = bytes[at..].iter().position(|byte| *byte == MARKER) {
        at += skip + 1;
        match bytes.get(at) {
            Some(&END) => return Ok(()),
            // Of two in a row the second one may be the marker's first byte.
            Some(&MARKER) => {}
            Some(code) if ALONE.iter().any(|range| range.contains(code)) => at += 1,
            Some(_) => {
                let length = bytes.get(at + 1..at + 3);
                let length = length.map_or(0, |l| usize::from(u16::from_be_bytes([l[0], l[1]])));
                at += 1 + length;
            }
            None => break,
        }
        if at > bytes.len() {
            break;
        }
    }
    Err(format!("the JPEG data end early, at byte {}", bytes.len()))
}
