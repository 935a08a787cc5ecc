//! Santa and its samplers as optimizers of Burn.

pub mod device;
