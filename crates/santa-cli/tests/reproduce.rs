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
    let results = folder.path().join("results/quick/double-well");
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

/// A cell of a table, by its row.
fn cell<'a>(cells: &'a Value, row: &str, protocol: &str) -> &'a Value {
    let mut cells = cells.as_array().unwrap().iter();
    cells.find(|cell| cell["row"] == row && cell["protocol"] == protocol).unwrap()
}

#[test]
fn a_table_is_filled_bit_by_bit_and_a_finished_run_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let quick = ["table1", "--quick", "--only", "fnn-400,fair,adam,sgd", "--json"];
    let said = santa(&folder, &quick);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let told = String::from_utf8_lossy(&said.stderr).to_string();
    assert!(
        told.contains("2 trials") && told.contains("2 runs") && told.contains("hours"),
        "{told}"
    );
    let cells: Value = serde_json::from_slice(&said.stdout).unwrap();
    let adam = cell(&cells, "adam", "fair");
    assert_eq!((&adam["column"], &adam["seeds"]), (&"fnn-400".into(), &1.into()));
    assert_eq!(adam["paper"], 1.53);
    assert_eq!(adam["mean"], adam["averaged"]);
    for field in ["mean", "last", "averaged"] {
        let error = adam[field].as_f64().unwrap();
        assert!((2.0..60.0).contains(&error), "{field}: {error} %");
    }
    assert!(adam["sd"].is_null());
    assert!(cell(&cells, "santa", "fair")["mean"].is_null());
    assert_eq!(cell(&cells, "maxout", "quoted")["paper"], 0.45);

    let results = folder.path().join("results/quick/table1");
    for file in ["results.json", "results.csv", "table.md", "curves-fnn-400-fair.svg"] {
        assert!(results.join(file).is_file(), "{file}");
    }
    let ledger = std::fs::read_to_string(results.join("runs/fair/fnn-400/adam.jsonl")).unwrap();
    assert_eq!(ledger.lines().count(), 2);

    // The same again, from the ledgers alone; and one row more.
    std::fs::remove_dir_all(folder.path().join("runs")).unwrap();
    let again = santa(&folder, &quick);
    assert!(String::from_utf8_lossy(&again.stderr).contains("0 trials"));
    assert_eq!(again.stdout, said.stdout);
    let more = santa(&folder, &["table1", "--quick", "--only", "fnn-400,fair,santa", "--json"]);
    let cells: Value = serde_json::from_slice(&more.stdout).unwrap();
    assert_eq!(cell(&cells, "adam", "fair"), adam);
    assert!(cell(&cells, "santa", "fair")["mean"].is_number());
    // Without runs, what is there is shown.
    let shown = santa(&folder, &["table1", "--quick", "--no-run", "--json"]);
    assert_eq!(shown.stdout, more.stdout);
}

#[test]
fn what_a_table_does_not_have_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &[&str], word: &str| {
        let said = santa(&folder, args);
        let told = String::from_utf8_lossy(&said.stderr).to_string();
        assert_eq!(said.status.code(), Some(2), "{told}");
        assert!(told.contains(word), "{told}");
    };
    refused(&["table1", "--only", "fnn-40"], "fnn-400");
    refused(&["table1", "--only", "cnn,dropout"], "no cell has them all");
    refused(&["table1", "--seeds", "0"], "at least one");
    refused(&["all", "--only", "adam"], "--only");
}

#[test]
fn a_damaged_ledger_is_named_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results/table1/runs/fair/fnn-400");
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("adam.jsonl"), "{\"key\": \"12\", \n").unwrap();
    let said = santa(&folder, &["table1", "--no-run"]);
    assert_eq!(said.status.code(), Some(3));
    let told = String::from_utf8_lossy(&said.stderr).to_string();
    assert!(told.contains("adam.jsonl") && told.contains("remove the damaged line"), "{told}");
}
