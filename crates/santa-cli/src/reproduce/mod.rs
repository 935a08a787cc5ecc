//! The paper's figures and tables, each from a file under `experiments/`.

pub mod double_well;
mod fit;
pub mod order;
pub mod regret;
mod section;
mod settings;
pub mod study;
