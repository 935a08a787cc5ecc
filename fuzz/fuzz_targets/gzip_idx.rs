//! Arbitrary bytes taken for a gzip'd IDX file, and for what one inflates to.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| santa_fuzz::gzip_idx(bytes));
