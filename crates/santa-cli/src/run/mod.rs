//! A run is a folder:
//!
//! | file | what is in it |
//! | --- | --- |
//! | `experiment.toml` | the experiment with every field filled in |
//! | `run.json` | version, command line, machine: a [`Provenance`](record::Provenance) |
//! | `metrics.jsonl` | one [`Record`](record::Record) a line, written as they come |
//! | `checkpoints/` | the last few states, and the best: safetensors |
//! | `summary.json` | the [`Summary`](record::Summary); its presence says that the run is done |
//! | `failure.json` | instead of the summary, if the run diverged |
//! | `tensorboard/` | event files, if asked for |
//! | `lock` | held while a process works in the folder |

pub mod folder;
pub mod machine;
pub mod record;
pub mod stored;
