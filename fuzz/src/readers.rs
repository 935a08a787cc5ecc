//! What the fuzz targets of the dataset readers do with their bytes: an error or an array whose
//! length is that of its shape. Compressed formats are fuzzed twice, as they are and from within,
//! since hardly any change of compressed bytes passes the checksums.

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use santa_datasets::image_folder::{Crop, Place, Resize, Transform};
use santa_datasets::{Error, Result};
use std::io::Write;
use std::path::Path;

/// What a reader may make of the bytes.
const LIMIT: u64 = 16 << 20;
const FILE: &str = "fuzzed";

/// Errors name the file.
fn check<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Format { file, .. }) => {
            assert!(file.starts_with(FILE), "{file}");
            None
        }
        Err(Error::Image { path, .. }) => {
            assert_eq!(path, Path::new(FILE));
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// The bytes as an IDX file.
pub fn idx(bytes: &[u8]) {
    if let Some(array) = check(santa_datasets::idx::from_bytes(FILE, bytes, LIMIT)) {
        assert_eq!(array.values.len(), array.shape.iter().product::<usize>());
        if bytes.starts_with(&[0]) {
            assert_eq!(array.to_bytes().expect("what was read can be written"), bytes);
        }
    }
}

/// The bytes as what a gzip'd IDX file inflates to, and as such a file.
pub fn gzip_idx(bytes: &[u8]) {
    idx(bytes);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory is written");
    idx(&encoder.finish().expect("memory is written"));
}

/// The bytes as a MATLAB file, and as what a compressed element of one inflates to.
pub fn matlab(bytes: &[u8]) {
    const COMPRESSED: u32 = 15;
    read_matlab(bytes);
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory is written");
    let element = encoder.finish().expect("memory is written");
    let mut file = vec![0; 124];
    file.extend(b"\x00\x01IM");
    file.extend(COMPRESSED.to_le_bytes());
    file.extend((element.len() as u32).to_le_bytes());
    file.extend(element);
    read_matlab(&file);
}

fn read_matlab(bytes: &[u8]) {
    for matrix in check(santa_datasets::matlab::from_bytes(FILE, bytes, LIMIT))
        .into_iter()
        .flat_map(|cells| cells.into_values().flatten())
    {
        assert_eq!(matrix.values().len(), matrix.rows() * matrix.columns());
        let mut rows = Vec::new();
        matrix.append_rows(&mut rows);
        assert_eq!(rows.len(), matrix.values().len());
    }
}

/// The bytes as an archive, and as the only member of one.
pub fn npz(bytes: &[u8]) {
    read_npz(bytes);
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    let (name, len) = (b"x.npy", bytes.len() as u32);
    // Version, flags, method (stored), time, date, CRC, lengths, length of the name, no extra field.
    let mut common = vec![0; 10];
    for word in [crc.sum(), len, len, name.len() as u32] {
        common.extend(word.to_le_bytes());
    }
    let mut file = [b"PK\x03\x04", &common[..], name, bytes].concat();
    let directory = (file.len() as u32).to_le_bytes();
    file.extend([b"PK\x01\x02\0\0", &common[..], &[0; 14], name].concat());
    file.extend([b"PK\x05\x06\0\0\0\0\x01\0\x01\0\0\0\0\0", &directory[..], &[0, 0]].concat());
    read_npz(&file);
}

fn read_npz(bytes: &[u8]) {
    for array in check(santa_datasets::npz::from_bytes(FILE, bytes, LIMIT))
        .into_iter()
        .flat_map(|arrays| arrays.into_values())
    {
        assert_eq!(array.values.len(), array.shape.iter().product::<usize>());
    }
}

/// The bytes as an image.
pub fn image(bytes: &[u8]) {
    let transform = Transform {
        resize: Some(Resize::Covering { height: 9, width: 7 }),
        crop: Some(Crop { height: 6, width: 5, place: Place::Random }),
        flip: true,
        grey: bytes.len().is_multiple_of(2),
        seed: 0,
    };
    let mut pixels = Vec::new();
    if check(transform.decode(Path::new(FILE), bytes, 0, 0, &mut pixels)).is_some() {
        let shape = transform.shape().expect("it has a size");
        assert_eq!(pixels.len(), shape.iter().product::<usize>());
    }
}
