//! `santa sweep`: grids and random searches, chosen on validation data alone.

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use support::workshop::Workshop;

fn sweep(shop: &Workshop, out: &str, args: &str) -> Value {
    let args = format!("sweep tiny.toml --set epochs=1 --out {out} --json {args}");
    shop.santa(&args).done().json()
}

fn trials(object: &Value) -> Vec<Value> {
    object["trials"].as_array().unwrap().clone()
}

/// The settings that were tried, in no order.
fn tried(object: &Value) -> BTreeSet<String> {
    trials(object).iter().map(|trial| trial["settings"].to_string()).collect()
}

/// Calls `visit` with every file below a folder.
fn files(folder: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, visit) } else { visit(&path) }
    }
}

#[test]
fn a_grid_is_gone_through_and_the_best_setting_can_be_trained() {
    let shop = Workshop::new();
    let over = "--over optimizer=sgd,adam --over optimizer.lr=1e-3,1e-1";
    let object = sweep(&shop, "s", over);
    let keys: Vec<&String> = object.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["by", "best", "experiment", "trials"]);
    assert_eq!(tried(&object).len(), 4);
    assert_eq!(object["experiment"], "s/best.toml");
    // The best comes first, and its score is the least.
    let scores: Vec<f64> = trials(&object).iter().map(|t| t["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted(), "{scores:?}");
    assert_eq!(object["best"], trials(&object)[0]);
    let stored = std::fs::read_to_string(shop.path("s/results.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), object);

    // Training it makes the same run, with a look at the test data now.
    let said = shop.santa("train s/best.toml --out best --json").done();
    let summary = &said.json()["summary"];
    assert_eq!(summary["last"]["validation"]["error"], object["best"]["score"]);
    assert!(summary["last"]["test"]["error"].is_number());
    let settings = &object["best"]["settings"];
    assert_eq!(summary["optimizer"], settings["optimizer"]);
}

#[test]
fn test_data_are_never_looked_at() {
    let shop = Workshop::new();
    let averaging = "--set averaging={from=4,every=2} --by error-averaged";
    sweep(&shop, "s", &format!("--over optimizer.lr=1e-3,1e-2 --seeds 2 {averaging}"));
    let mut looked_at = 0;
    files(&shop.path("s"), &mut |path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.extension().is_some_and(|e| e == "json" || e == "jsonl") {
            let text = std::fs::read_to_string(path).unwrap();
            assert!(!text.contains("\"test\""), "{}: {text}", path.display());
            assert!(!text.contains("calibration"), "{}: {text}", path.display());
            looked_at += u32::from(name == "summary.json");
        } else if name.ends_with(".safetensors") {
            let bytes = std::fs::read(path).unwrap();
            let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
            assert!(file.names().iter().all(|name| !name.contains("test")), "{name}");
        }
    });
    assert_eq!(looked_at, 4);
}

#[test]
fn a_random_search_is_reproducible_and_can_be_extended() {
    let shop = Workshop::new();
    let over = "--over optimizer.lr=log(1e-4,1e-1) --over optimizer.momentum=uniform(0.5,0.99)";
    let three = sweep(&shop, "a", &format!("{over} --samples 3 --jobs 1"));
    let same = sweep(&shop, "b", &format!("{over} --samples 3 --jobs 2"));
    assert_eq!(trials(&three), trials(&same));
    assert_eq!(tried(&three).len(), 3);
    for trial in trials(&three) {
        let lr = trial["settings"]["optimizer.lr"].as_f64().unwrap();
        let momentum = trial["settings"]["optimizer.momentum"].as_f64().unwrap();
        assert!((1e-4..=1e-1).contains(&lr) && (0.5..=0.99).contains(&momentum), "{trial}");
    }
    let five = sweep(&shop, "a", &format!("{over} --samples 5"));
    assert_eq!(tried(&five).len(), 5);
    assert!(tried(&three).is_subset(&tried(&five)));
    // Another seed is another search.
    let other = sweep(&shop, "c", &format!("{over} --samples 3 --set seed=8"));
    assert!(tried(&three).is_disjoint(&tried(&other)));
}

#[test]
fn the_mean_over_the_seeds_counts_and_runs_are_not_repeated() {
    let shop = Workshop::new();
    let over = "--over optimizer.lr=1e-3,1e-2 --by nll-last";
    let one = sweep(&shop, "s", over);
    let mut before = Vec::new();
    files(&shop.path("s"), &mut |path| {
        if path.ends_with("summary.json") {
            before.push((path.to_path_buf(), path.metadata().unwrap().modified().unwrap()));
        }
    });
    assert_eq!(before.len(), 2);
    let two = sweep(&shop, "s", &format!("{over} --seeds 2"));
    for (path, time) in before {
        assert_eq!(path.metadata().unwrap().modified().unwrap(), time);
    }
    for trial in trials(&two) {
        let scores: Vec<f64> =
            trial["scores"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
        let mean = (scores[0] + scores[1]) / 2.0;
        assert!((trial["score"].as_f64().unwrap() - mean).abs() < 1e-12, "{trial}");
        let of_one = trials(&one).into_iter().find(|t| t["settings"] == trial["settings"]);
        assert_eq!(of_one.unwrap()["scores"][0], trial["scores"][0]);
    }
}
