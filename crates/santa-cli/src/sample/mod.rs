//! Draws from a posterior.

pub mod report;
