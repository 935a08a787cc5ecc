//! Tables of many runs: rows are ways to learn, columns are what is learnt, protocols are rules of
//! comparison. A study is a TOML file under `experiments/`; its runs go to a ledger under `results/`,
//! so that a finished one is never repeated.

mod budget;
mod cells;
mod choice;
mod curves;
mod drafts;
mod earlier;
mod ledger;
mod mistakes;
mod page;
mod runs;
mod schema;
mod significance;
mod trials;

pub use cells::Cell;
pub use runs::{Options, run};
pub use schema::Study;

/// The built-in studies.
pub const TABLE1: (&str, &str) = ("table1", include_str!("../../../experiments/table1.toml"));
/// Table 2: polyphonic music.
pub const TABLE2: (&str, &str) = ("table2", include_str!("../../../experiments/table2.toml"));
/// What each part of Santa buys.
pub const ABLATION: (&str, &str) = ("ablation", include_str!("../../../experiments/ablation.toml"));

#[cfg(test)]
mod tests;
