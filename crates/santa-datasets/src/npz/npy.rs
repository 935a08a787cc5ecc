//! An array in the `.npy` format: a magic number, a header that is a Python dictionary, the values.

use super::header::Header;
use crate::error::{Error, Result};

const MAGIC: &[u8] = b"\x93NUMPY";

/// An array of numbers, the last dimension varying fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its dimensions; none for a single number.
    pub shape: Vec<usize>,
    /// Its values.
    pub values: Values,
}

/// The values of an array.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Values {
    /// `float32`.
    F32(Vec<f32>),
    /// `float64`.
    F64(Vec<f64>),
    /// Integers of any size and truth values.
    I64(Vec<i64>),
}

impl Values {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::F64(values) => values.len(),
            Values::I64(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As `f64`, rounded where an integer has more than 53 bits.
    pub fn to_f64(&self) -> Vec<f64> {
        match self {
            Values::F32(values) => values.iter().map(|x| f64::from(*x)).collect(),
            Values::F64(values) => values.clone(),
            Values::I64(values) => values.iter().map(|x| *x as f64).collect(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let size = if matches!(self, Values::F32(_)) { size_of::<f32>() } else { size_of::<f64>() };
        self.len() as u64 * size as u64
    }
}

/// Reads an array whose values take at most `limit` bytes here; `part` is for errors.
pub(super) fn parse(part: &str, bytes: &[u8], limit: u64) -> Result<Array> {
    let (header, data) = split(bytes).ok_or_else(|| {
        Error::format(part, bytes.len().min(MAGIC.len()), "this is no .npy file, or it is cut off")
    })?;
    let start = bytes.len() - data.len();
    let header_start = start - header.len();
    let error = |reason: String| Error::format(part, start, reason);
    let header = Header::parse(header).map_err(|(at, reason)| {
        Error::format(part, header_start + at, format!("in the header: {reason}"))
    })?;
    let Some((kind, size)) = kind(&header.descr) else {
        let reason = "only float32, float64, integers and truth values are read";
        let reason = format!("values of type {:?}; {reason}", header.descr);
        return Err(Error::format(part, header_start, reason));
    };
    let count = header.shape.iter().try_fold(1usize, |product, n| product.checked_mul(*n));
    let expected = count.and_then(|count| count.checked_mul(size));
    let Some(count) = count.filter(|_| expected == Some(data.len())) else {
        let (shape, len) = (&header.shape, data.len());
        return Err(error(format!("{len} bytes do not fit {size} for each of shape {shape:?}")));
    };
    if count as u64 * size_of::<f64>() as u64 > limit {
        return Err(error(format!("{count} values are more than the limit allows")));
    }
    let big_endian = header.descr.starts_with('>');
    let mut values = match kind {
        Kind::Float if size == size_of::<f32>() => {
            Values::F32(decode(data, big_endian, |word: [u8; 4]| f32::from_le_bytes(word)))
        }
        Kind::Float => {
            Values::F64(decode(data, big_endian, |word: [u8; 8]| f64::from_le_bytes(word)))
        }
        Kind::Signed => Values::I64(match size {
            1 => decode(data, big_endian, |word: [u8; 1]| i8::from_le_bytes(word).into()),
            2 => decode(data, big_endian, |word: [u8; 2]| i16::from_le_bytes(word).into()),
            4 => decode(data, big_endian, |word: [u8; 4]| i32::from_le_bytes(word).into()),
            _ => decode(data, big_endian, |word: [u8; 8]| i64::from_le_bytes(word)),
        }),
        Kind::Unsigned => Values::I64(match size {
            1 => decode(data, big_endian, |word: [u8; 1]| word[0].into()),
            2 => decode(data, big_endian, |word: [u8; 2]| u16::from_le_bytes(word).into()),
            4 => decode(data, big_endian, |word: [u8; 4]| u32::from_le_bytes(word).into()),
            _ => {
                let values =
                    decode(data, big_endian, |word: [u8; 8]| u64::from_le_bytes(word) as i64);
                if values.iter().any(|value| *value < 0) {
                    return Err(error("a number of 2^63 or more is not read".to_owned()));
                }
                values
            }
        }),
    };
    if header.fortran_order {
        values = match values {
            Values::F32(values) => Values::F32(to_c_order(&header.shape, &values)),
            Values::F64(values) => Values::F64(to_c_order(&header.shape, &values)),
            Values::I64(values) => Values::I64(to_c_order(&header.shape, &values)),
        };
    }
    Ok(Array { shape: header.shape, values })
}

/// The text of the header, and the values.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (&[major, _minor], rest) = rest.split_first_chunk()?;
    // The length has two bytes in version 1, and four from version 2 on.
    let (len, rest) = match major {
        1 => rest.split_first_chunk().map(|(len, rest)| (u16::from_le_bytes(*len).into(), rest))?,
        2 | 3 => rest.split_first_chunk().map(|(len, rest)| (u32::from_le_bytes(*len), rest))?,
        _ => return None,
    };
    rest.split_at_checked(len as usize)
}

enum Kind {
    Float,
    Signed,
    Unsigned,
}

/// Kind and size in bytes of a type such as `<f8`.
fn kind(descr: &str) -> Option<(Kind, usize)> {
    let rest = descr.strip_prefix(['<', '>', '|', '='])?;
    Some(match rest {
        "f4" => (Kind::Float, 4),
        "f8" => (Kind::Float, 8),
        "i1" => (Kind::Signed, 1),
        "i2" => (Kind::Signed, 2),
        "i4" => (Kind::Signed, 4),
        "i8" => (Kind::Signed, 8),
        "u1" | "b1" => (Kind::Unsigned, 1),
        "u2" => (Kind::Unsigned, 2),
        "u4" => (Kind::Unsigned, 4),
        "u8" => (Kind::Unsigned, 8),
        _ => return None,
    })
}

fn decode<T, const SIZE: usize>(
    data: &[u8],
    big_endian: bool,
    from_le: impl Fn([u8; SIZE]) -> T,
) -> Vec<T> {
    let words = data.as_chunks::<SIZE>().0.iter();
    words
        .map(|word| {
            let mut word = *word;
            if big_endian {
                word.reverse();
            }
            from_le(word)
        })
        .collect()
}

/// From the first dimension varying fastest to the last.
fn to_c_order<T: Copy>(shape: &[usize], values: &[T]) -> Vec<T> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for size in shape {
        strides.push(stride);
        stride *= size;
    }
    let mut index = vec![0; shape.len()];
    let mut from = 0;
    let mut out = Vec::with_capacity(values.len());
    while out.len() < values.len() {
        out.push(values[from]);
        // The next index, the last dimension first.
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            from += strides[d];
            if index[d] < shape[d] {
                break;
            }
            from -= strides[d] * index[d];
            index[d] = 0;
        }
    }
    out
}
