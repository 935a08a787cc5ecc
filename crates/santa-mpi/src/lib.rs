#![doc = include_str!("../README.md")]

mod patience;
mod world;

pub use patience::{LOST, end};
pub use world::{JoinError, World, library};
