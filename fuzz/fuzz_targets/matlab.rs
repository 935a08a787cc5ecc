//! Arbitrary bytes taken for a MATLAB file, and for what an element of one inflates to.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| santa_fuzz::matlab(bytes));
