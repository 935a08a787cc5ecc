#![doc = include_str!("../README.md")]
//!
//! # Where to find what
//!
//! | module | what is there |
//! | --- | --- |
//! | [`team`] | what members of a team can do together |
//! | [`threads`] | a team of threads, for tests |
//! | [`shared`] | a potential whose minibatches are divided among the members |
//! | [`ordered`] | sums whose order of additions does not depend on the number of members |
//! | [`local`] | members that make steps by themselves, and average now and then |
//! | [`tempering`] | replicas at several temperatures that exchange their parameters |
//! | [`scaling`] | how much time a step takes with many members |
//! | [`error`] | what can go wrong |

pub mod error;
mod launch;
pub mod local;
pub mod ordered;
pub mod scaling;
pub mod shared;
pub mod team;
pub mod tempering;
pub mod threads;

pub use error::{Error, Result};
pub use launch::Launch;
pub use local::{Division, LocalSteps, Own};
pub use ordered::OrderedSum;
pub use shared::{Shared, Summing, Timing};
pub use team::{Number, Solo, Team};
pub use tempering::{Replicas, Tempering};
pub use threads::Threads;
