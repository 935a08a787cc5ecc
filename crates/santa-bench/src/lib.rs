//! What the benchmarks of the Santa crates measure, and how.
//!
//! | module | what is there |
//! | --- | --- |
//! | [`Case`], [`Measurement`] | the cases of `santa bench` by name, and what one gives |
//! | [`models`] | training steps of the paper's networks |
//! | [`steps`] | a step of every dynamics alone |
//! | [`data`] | what the models are trained on |
//! | [`copy`] | the yardstick: memory copied by the same threads |
//! | [`clock`] | times |
//!
//! Everything runs in the caller's rayon pool: the number of threads is that of the pool in which a
//! function is called.

mod cases;
pub mod clock;
pub mod copy;
pub mod data;
pub mod models;
pub mod steps;

pub use cases::{Case, Measurement};
pub use clock::Effort;

/// Threads that work here: those of the pool in which this is called.
pub fn threads() -> usize {
    #[cfg(feature = "parallel")]
    return rayon::current_num_threads();
    #[cfg(not(feature = "parallel"))]
    1
}

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
