//! Arbitrary bytes taken for an npz archive, and for a member of one.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| santa_fuzz::npz(bytes));
