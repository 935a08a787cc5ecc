//! The reader on archives made here.

use super::*;
use flate2::{Compression, Crc, write::DeflateEncoder};
use std::io::Write;

fn npy(descr: &str, fortran_order: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran_order { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.bytes());
    out.extend_from_slice(data);
    out
}

/// An archive of members, each with its name, content and whether it is deflated.
fn archive(members: &[(&str, Vec<u8>, bool)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, content, deflated) in members {
        let mut crc = Crc::new();
        crc.update(content);
        let packed = if *deflated {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap()
        } else {
            content.clone()
        };
        // Version, flags, method, time, date, CRC, lengths, length of the name, no extra field.
        let mut common = vec![20, 0, 0, 0, u8::from(*deflated) * 8, 0, 0, 0, 0, 0];
        for word in [crc.sum(), packed.len() as u32, content.len() as u32, name.len() as u32] {
            common.extend(word.to_le_bytes());
        }
        let place = (out.len() as u32).to_le_bytes();
        out.extend([b"PK\x03\x04", &common[..], name.as_bytes(), &packed].concat());
        // No comment, part 0, attributes.
        let tail = [&[0; 10][..], &place].concat();
        directory.extend([b"PK\x01\x02\x14\x00", &common[..], &tail, name.as_bytes()].concat());
    }
    let (place, count) = (out.len() as u32, (members.len() as u16).to_le_bytes());
    let lengths = [(directory.len() as u32).to_le_bytes(), place.to_le_bytes()].concat();
    out.extend(directory);
    out.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &lengths, &[0, 0]].concat());
    out
}

fn parse(bytes: &[u8]) -> Result<BTreeMap<String, Array>> {
    from_bytes("it.npz", bytes, MAX_INFLATED)
}

fn one(member: Vec<u8>) -> Result<Array> {
    parse(&archive(&[("x.npy", member, false)])).map(|mut arrays| arrays.remove("x").unwrap())
}

fn refusal(member: Vec<u8>) -> String {
    one(member).unwrap_err().to_string()
}

fn le<const N: usize, T>(values: &[T], to_bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(to_bytes).collect()
}

fn example() -> Vec<u8> {
    let weights = le(&[1.0, -2.0, 0.5, 3.0, 4.0, 1e300], |x: &f64| x.to_le_bytes());
    archive(&[
        ("weights.npy", npy("<f8", false, "(2L, 3L)", &weights), true),
        ("nll.npy", npy("<f4", false, "()", &2.5f32.to_le_bytes()), false),
    ])
}

#[test]
fn stored_and_deflated_members_are_read() {
    let arrays = parse(&example()).unwrap();
    assert_eq!(arrays["weights"].shape, [2, 3]);
    assert_eq!(arrays["weights"].values, Values::F64(vec![1.0, -2.0, 0.5, 3.0, 4.0, 1e300]));
    assert_eq!(arrays["nll"], Array { shape: vec![], values: Values::F32(vec![2.5]) });
}

#[test]
fn fortran_order_becomes_c_order() {
    // Element (i, j, k) is 100 i + 10 j + k.
    let mut data = Vec::new();
    for k in 0..2u8 {
        for j in 0..3 {
            data.extend((0..2u8).map(|i| 100 * i + 10 * j + k));
        }
    }
    let array = one(npy("|u1", true, "(2, 3, 2)", &data)).unwrap();
    let expected = [0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121];
    assert_eq!(array, Array { shape: vec![2, 3, 2], values: Values::I64(expected.to_vec()) });
    assert!(one(npy("|u1", true, "(2, 0, 2)", &[])).unwrap().values.is_empty());
}

#[test]
fn all_types_of_numbers_are_read_in_both_orders_of_bytes() {
    let list = [-2i64, 0, 7];
    for size in [1, 2, 4, 8] {
        let little: Vec<u8> = list.iter().flat_map(|x| x.to_le_bytes()[..size].to_vec()).collect();
        let big: Vec<u8> = list.iter().flat_map(|x| x.to_be_bytes()[8 - size..].to_vec()).collect();
        let expected = Values::I64(list.to_vec());
        assert_eq!(
            one(npy(&format!("<i{size}"), false, "(3,)", &little)).unwrap().values,
            expected
        );
        assert_eq!(one(npy(&format!(">i{size}"), false, "(3,)", &big)).unwrap().values, expected);
        let unsigned = one(npy(&format!("<u{size}"), false, "(3,)", &little));
        match size {
            8 => assert!(unsigned.unwrap_err().to_string().contains("2^63 or more")),
            _ => {
                assert_eq!(unsigned.unwrap().values, Values::I64(vec![(1 << (8 * size)) - 2, 0, 7]))
            }
        }
    }
    let big = le(&[1.5f32, -0.25], |x| x.to_be_bytes());
    assert_eq!(one(npy(">f4", false, "(2,)", &big)).unwrap().values.to_f64(), [1.5, -0.25]);
}

#[test]
fn every_truncation_is_refused() {
    let whole = example();
    for end in 0..whole.len() {
        match parse(&whole[..end]) {
            Err(Error::Format { file, offset, .. }) => {
                assert!(file.starts_with("it.npz") && offset <= end as u64);
            }
            other => panic!("{end}: {other:?}"),
        }
    }
}

#[test]
fn a_flipped_bit_in_a_member_is_found_by_its_checksum() {
    let mut bytes = example();
    let at = bytes.windows(4).position(|window| window == 2.5f32.to_le_bytes()).unwrap();
    bytes[at] ^= 1;
    assert!(parse(&bytes).unwrap_err().to_string().contains("member nll.npy: at byte 0: CRC-32"));
}

#[test]
fn headers_that_lie_are_refused() {
    let data = [0; 16];
    assert!(refusal(npy("<f8", false, "(3,)", &data)).contains("do not fit"));
    assert!(refusal(npy("<f8", false, "(99999999999, 99999999999)", &data)).contains("do not fit"));
    assert!(refusal(npy("<f8", false, "(-1,)", &data)).contains("in the shape"));
    assert!(refusal(npy("<f8", false, "(99999999999999999999,)", &data)).contains("in the shape"));
    let deep = format!("({})", "1, ".repeat(65));
    assert!(refusal(npy("<f8", false, &deep, &data[..8])).contains("more than 64 dimensions"));
    assert!(refusal(npy("|O", false, "(1,)", &data)).contains("values of type \"|O\""));
    assert!(refusal(b"\x93NUMPY\x09\x00\x00\x00".to_vec()).contains("no .npy file"));
    assert!(refusal(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{".to_vec()).contains("cut off"));
}

#[test]
fn directories_that_lie_are_refused() {
    let mut end_lies = example();
    let end = end_lies.len() - 22;
    end_lies[end + 10] = 200;
    let text = parse(&end_lies).unwrap_err().to_string();
    assert!(text.contains("an entry of the directory should be here"), "{text}");
    let member = npy("|u1", false, "(1,)", &[1]);
    let twice = archive(&[("x.npy", member.clone(), false), ("x.npy", member.clone(), false)]);
    assert!(parse(&twice).unwrap_err().to_string().contains("second member"));
    let other = archive(&[("x.txt", member, false)]);
    assert!(parse(&other).unwrap_err().to_string().contains("no .npy file"));
}

#[test]
fn members_that_share_their_bytes_are_refused() {
    let big = npy("|u1", false, "(2000,)", &[0; 2000]);
    let mut bytes = archive(&[("a.npy", big.clone(), false), ("b.npy", big, false)]);
    // The second entry of the directory leads to the first member, as would hundreds more; the
    // bytes that are not referred to any more are cut out.
    let second = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
    bytes[second + 42..second + 46].fill(0);
    let from = bytes.windows(4).rposition(|window| window == b"PK\x03\x04").unwrap();
    let directory = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    bytes.drain(from..directory);
    let end = bytes.len() - 22;
    bytes[end + 16..end + 20].copy_from_slice(&(from as u32).to_le_bytes());
    assert!(parse(&bytes).unwrap_err().to_string().contains("b.npy overlaps"));
}

#[test]
fn what_is_inflated_stays_below_the_limit() {
    let zeros = npy("|u1", false, "(100000,)", &[0; 100_000]);
    let bytes = archive(&[("a.npy", zeros.clone(), true), ("b.npy", zeros, true)]);
    assert!(from_bytes("it.npz", &bytes, 2_000_000).is_ok());
    // A byte becomes an i64: the limit is for those, too.
    let error = from_bytes("it.npz", &bytes, 1_000_000).unwrap_err().to_string();
    assert!(error.contains("member b.npy") && error.contains("limit"), "{error}");
    let error = from_bytes("it.npz", &bytes, 90_000).unwrap_err().to_string();
    assert!(error.contains("a.npy inflated: at byte 0: the member should take"), "{error}");
}
