//! The paper's figures and tables, by the command.

use assert_cmd::Command;
use serde_json::Value;

fn santa(folder: &tempfile::TempDir, args: &[&str]) -> std::process::Output {
    let mut command = Command::cargo_bin("santa").unwrap();
    command.current_dir(folder).arg("reproduce").args(args).output().unwrap()
}

#[test]
fn the_double_well_is_written_and_printed() {
    let folder = tempfile::tempdir().unwrap();
    let said = santa(&folder, &["double-well", "--quick", "--json"]);
    assert!(said.status.success());
    let printed: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert!(printed["santa"]["global_mode"].as_f64().unwrap() > 0.9);
    for method in ["literal", "rmsprop"] {
        assert_eq!(printed[method]["global_mode"], 0.0);
        assert!(printed[method]["diverged"].is_number());
    }
    let results = folder.path().join("results/double-well");
    let stored = std::fs::read_to_string(results.join("results.json")).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["methods"], printed);
    assert_eq!(stored["made_by"]["command"][0], "santa");
    for file in ["table.md", "results.csv", "potential.svg", "trajectories.svg"] {
        assert!(results.join(file).is_file(), "{file}");
    }
}

#[test]
fn some_methods_can_be_picked_and_unknown_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let said = santa(&folder, &["double-well", "--quick", "--json", "--only", "adam,santa"]);
    let printed: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(printed.as_object().unwrap().len(), 2);
    let said = santa(&folder, &["double-well", "--only", "santta"]);
    assert_eq!(said.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&said.stderr).contains("\"santa\""));
}
