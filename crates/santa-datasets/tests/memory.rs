//! Hostile files cost no more memory than their size, what they really hold, and the limits allow.
//!
//! One test in a process of its own: its peak of memory is asked of the system, which only Linux
//! tells in a file.
#![cfg(target_os = "linux")]

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use santa_datasets::{idx, matlab, npz};
use std::io::Write;

const MIB: u64 = 1 << 20;

/// The most memory that was reserved (whether used or not) and used so far, in bytes.
fn peaks() -> [u64; 2] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    ["VmPeak:", "VmHWM:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    })
}

/// How much a call raises the peaks.
fn cost(call: impl FnOnce()) -> [u64; 2] {
    let before = peaks();
    call();
    let after = peaks();
    [after[0] - before[0], after[1] - before[1]]
}

/// A gzip'd IDX file with a header, and zeros behind it.
fn gzip_bomb(header: &[u8], zeros: u64) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(header).unwrap();
    (0..zeros / MIB).for_each(|_| encoder.write_all(&vec![0; MIB as usize]).unwrap());
    encoder.finish().unwrap()
}

fn matlab_bomb(zeros: u64) -> Vec<u8> {
    const MATRIX: u32 = 14;
    const COMPRESSED: u32 = 15;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&MATRIX.to_le_bytes()).unwrap();
    encoder.write_all(&(zeros as u32).to_le_bytes()).unwrap();
    (0..zeros / MIB).for_each(|_| encoder.write_all(&vec![0; MIB as usize]).unwrap());
    let element = encoder.finish().unwrap();
    let mut file = vec![0; 124];
    file.extend(b"\x00\x01IM");
    file.extend([COMPRESSED.to_le_bytes(), (element.len() as u32).to_le_bytes()].concat());
    file.extend(element);
    file
}

/// An archive with a deflated array of zeros.
fn npz_bomb(zeros: u64) -> Vec<u8> {
    const DEFLATED: u8 = 8;
    let name = b"x.npy";
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    (0..zeros / MIB).for_each(|_| encoder.write_all(&vec![0; MIB as usize]).unwrap());
    let packed = encoder.finish().unwrap();
    // Version, flags, method, time, date, CRC (never reached), lengths, length of the name.
    let mut common = vec![0, 0, 0, 0, DEFLATED, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for word in [packed.len() as u32, zeros as u32, name.len() as u32] {
        common.extend(word.to_le_bytes());
    }
    let mut file = [b"PK\x03\x04", &common[..], name, &packed].concat();
    let directory = (file.len() as u32).to_le_bytes();
    file.extend([b"PK\x01\x02\0\0", &common[..], &[0; 14], name].concat());
    file.extend([b"PK\x05\x06\0\0\0\0\x01\0\x01\0\0\0\0\0", &directory[..], &[0, 0]].concat());
    file
}

#[test]
fn bombs_and_promises_cost_little() {
    const SMALL: u64 = 8 * MIB;
    const BOMB: u64 = 128 * MIB;
    let claims = |count: u32| [&[0, 0, 8, 1][..], &count.to_be_bytes()].concat();
    let refused =
        |bytes: &[u8], limit| idx::from_bytes("bomb", bytes, limit).map(drop).unwrap_err();

    // Made first, so that the making does not count.
    let honest = gzip_bomb(&claims(BOMB as u32), BOMB);
    let understated = gzip_bomb(&claims(10), BOMB);
    let truncated = &honest[..honest.len() / 100];
    let matlab_bomb = matlab_bomb(BOMB);
    let npz_bomb = npz_bomb(BOMB);

    for (what, cost) in [
        ("a promise of 4 GB", cost(|| drop(refused(&claims(u32::MAX), u64::MAX)))),
        ("a promise of 4 GB, gzip'd", {
            let file = gzip_bomb(&claims(u32::MAX), 0);
            cost(|| drop(refused(&file, u64::MAX)))
        }),
        ("a bomb with more than its header says", {
            cost(|| drop(refused(&understated, u64::MAX)))
        }),
        ("a bomb beyond the limit", cost(|| drop(refused(&honest, 32 * MIB)))),
        ("a truncated bomb", cost(|| drop(refused(truncated, u64::MAX)))),
        ("a MATLAB bomb beyond the limit", {
            cost(|| drop(matlab::from_bytes("bomb", &matlab_bomb, 32 * MIB).unwrap_err()))
        }),
        ("an npz bomb beyond the limit", {
            cost(|| {
                let error = npz::from_bytes("bomb", &npz_bomb, 32 * MIB).unwrap_err().to_string();
                assert!(error.contains("the member should take 134217728 bytes"), "{error}");
            })
        }),
    ] {
        assert!(cost.iter().all(|cost| *cost < SMALL), "{what}: {cost:?}");
    }

    // What is allowed is held, while it grows at most three times.
    let within = gzip_bomb(&claims(24 * MIB as u32), 24 * MIB);
    let [_, used] = cost(|| drop(idx::from_bytes("bomb", &within, 32 * MIB).unwrap()));
    assert!((12 * MIB..3 * 24 * MIB).contains(&used), "the measure measures: {used}");
}
