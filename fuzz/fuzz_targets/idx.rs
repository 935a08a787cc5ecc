//! Arbitrary bytes taken for an IDX file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| santa_fuzz::idx(bytes));
