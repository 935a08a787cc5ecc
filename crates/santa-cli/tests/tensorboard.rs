//! TensorBoard itself reads what is written. Needs a Python that has the package `tensorboard`, named
//! by the environment variable `SANTA_TENSORBOARD_PYTHON`.

use santa_cli::tensorboard::EventWriter;
use serde_json::{Value, json};
use std::process::Command;

#[test]
fn tensorboard_reads_the_scalars_and_forgets_what_a_resumed_run_repeats() {
    let Some(python) = std::env::var_os("SANTA_TENSORBOARD_PYTHON") else {
        eprintln!("SKIPPED: SANTA_TENSORBOARD_PYTHON names no Python that has tensorboard");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut first = EventWriter::create(folder.path()).unwrap();
    for step in [1, 2, 3, 4] {
        first.scalar("train/loss", step, 1000.5 + step as f64, 0.5 * step as f64).unwrap();
    }
    first.scalar("test/error", 2, 1002.5, 0.25).unwrap();
    first.flush().unwrap();
    // The last checkpoint was after two steps.
    let mut second = EventWriter::resume(folder.path(), 2).unwrap();
    second.scalar("train/loss", 3, 2000.0, 8.0).unwrap();
    second.flush().unwrap();

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tensorboard/read.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = json!({
        "train/loss": [[1, 1001.5, 0.5], [2, 1002.5, 1.0], [3, 2000.0, 8.0]],
        "test/error": [[2, 1002.5, 0.25]],
    });
    assert_eq!(read, expected);
}
