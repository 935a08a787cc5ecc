//! Arbitrary bytes taken for a JPEG or PNG image.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| santa_fuzz::image(bytes));
