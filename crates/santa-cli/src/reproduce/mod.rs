//! The paper's figures and tables, each from a file under `experiments/`.

pub mod double_well;
pub mod study;
