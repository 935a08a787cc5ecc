//! Time of one optimizer step.
fn main() {}
