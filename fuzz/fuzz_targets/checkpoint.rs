//! Arbitrary bytes taken for a checkpoint.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| santa_fuzz::checkpoint(bytes));
