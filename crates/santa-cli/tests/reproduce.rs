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

/// Runs a small version of a folder of figures and checks what all of them write. Gives what was printed.
fn figures(name: &str, args: &[&str], figures: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let said = santa(&folder, &[&[name, "--quick", "--json"], args].concat());
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let printed: Value = serde_json::from_slice(&said.stdout).unwrap();
    let results = folder.path().join("results/quick").join(name);
    let read = |file: &str| std::fs::read_to_string(results.join(file)).unwrap();
    let stored: Value = serde_json::from_str(&read("results.json")).unwrap();
    assert_eq!(stored["figures"], printed);
    assert_eq!(stored["made_by"]["command"][0], "santa");
    let names: Vec<&String> = printed.as_object().unwrap().keys().collect();
    assert_eq!(names, figures);
    let (csv, words) = (read("results.csv"), read("table.md"));
    for figure in figures {
        assert!(csv.contains(&format!("\n{figure},")), "{figure}");
        assert!(words.contains(&format!("({figure}.svg)")), "{figure}");
        assert!(read(&format!("{figure}.svg")).starts_with("<svg"), "{figure}");
    }
    printed
}

fn slope(figure: &Value, curve: &str) -> f64 {
    let slope = &figure["curves"][curve]["slope"]["value"];
    slope.as_f64().unwrap_or_else(|| panic!("{curve}: {slope}"))
}

/// An unoptimized build takes minutes for what takes seconds.
#[test]
fn the_midpoint_splitting_is_of_higher_order_than_the_printed_one() {
    if cfg!(debug_assertions) {
        eprintln!("skipped: for an optimized build only");
        return;
    }
    let printed = figures("order", &[], &["bias", "finite", "error", "gap"]);
    let bias = &printed["bias"];
    assert!(slope(bias, "midpoint") > slope(bias, "printed") + 0.3);
    let worst = |curve: &str| {
        let points = bias["curves"][curve]["points"].as_array().unwrap();
        points.iter().filter_map(|point| point["y"].as_f64()).fold(0.0, |a: f64, y| a.max(y.abs()))
    };
    assert!(worst("euler") > worst("printed"));
    assert!((slope(&printed["finite"], "midpoint") - 1.0).abs() < 0.3);
    assert!(slope(&printed["error"], "fixed-midpoint") < -0.6);
    let gap = &printed["gap"]["comparisons"];
    for dims in [1, 4, 16] {
        let ratio = gap[format!("quadratic-{dims}-gamma-0.5")]["ratio"].as_f64().unwrap();
        assert!((ratio - 1.0).abs() < 0.2, "d = {dims}: {ratio}");
    }
    // The integral falls too slowly in one dimension, too fast in many.
    let integral =
        |dims: u32| gap[format!("quadratic-{dims}-gamma-0.5")]["integral_slope"].as_f64().unwrap();
    let measured = slope(&printed["gap"], "quadratic-16-gamma-0.5");
    assert!(integral(1) > measured + 0.1 && integral(16) < measured - 0.2, "{measured}");
}

#[test]
fn refining_santa_has_the_regret_of_adam_and_shares_its_counterexample() {
    if cfg!(debug_assertions) {
        eprintln!("skipped: for an optimized build only");
        return;
    }
    let printed = figures("regret", &[], &["convex", "counterexample"]);
    for method in ["santa", "adam", "rmsprop", "sgd"] {
        assert!(slope(&printed["convex"], method) < 0.7, "{method}");
    }
    assert!(slope(&printed["convex"], "constant") > 0.8);
    let end = |name: &str| printed["counterexample"]["ends"][name]["last_x"].as_f64().unwrap();
    for wrong in ["adam", "rmsprop", "santa"] {
        assert!(end(&format!("periodic-{wrong}")) > 0.9, "{wrong}");
    }
    for right in ["santa-adagrad", "santa-frozen", "santa-identity", "sgd"] {
        assert!(end(&format!("periodic-{right}")) < -0.9, "{right}");
    }
}

#[test]
fn figures_can_be_picked_and_unknown_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, misspelt, meant) in [("order", "biass", "bias"), ("regret", "convx", "convex")] {
        let said = santa(&folder, &[name, "--quick", "--only", misspelt]);
        assert_eq!(said.status.code(), Some(2));
        let words = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(words.contains(&format!("{meant:?}")), "{words}");
    }
    let printed = figures("regret", &["--only", "convex"], &["convex"]);
    assert!(printed["convex"]["curves"]["santa"]["points"].is_array());
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
    assert_eq!(cells.as_array().unwrap().len(), 2, "what was asked for, and no more");

    let results = folder.path().join("results/quick/table1");
    for file in ["results.json", "results.csv", "table.md", "trials.md", "curves-fnn-400-fair.svg"]
    {
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
    let santas = cell(&cells, "santa", "fair");
    assert!(santas["mean"].is_number());
    // Without runs, all that is there is shown, and what is missing is told.
    let shown = santa(&folder, &["table1", "--quick", "--no-run", "--json"]);
    let told = String::from_utf8_lossy(&shown.stderr).to_string();
    assert!(!told.contains(" 0 runs") && told.contains("hours"), "{told}");
    let cells: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((cell(&cells, "adam", "fair"), cell(&cells, "santa", "fair")), (adam, santas));
    assert!(cell(&cells, "rmsprop", "fair")["mean"].is_null());
    assert_eq!(cell(&cells, "maxout", "quoted")["paper"], 0.45);
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
