//! `santa compare`: all combinations, each run once, whatever the number of jobs.

mod support;

use serde_json::Value;
use std::time::SystemTime;
use support::workshop::Workshop;

const PAIR: &str = "compare tiny.toml --optimizers santa,adam --set epochs=1 --out c --json";

fn runs(object: &Value) -> Vec<Value> {
    object["runs"].as_array().unwrap().clone()
}

/// When the result of a run was written.
fn written(shop: &Workshop, run: &Value) -> SystemTime {
    let path = shop.path(run["folder"].as_str().unwrap()).join("summary.json");
    std::fs::metadata(path).unwrap().modified().unwrap()
}

/// Without what may differ: times and folders.
fn scores(object: &Value) -> Vec<Value> {
    let mut runs = runs(object);
    for run in &mut runs {
        let run = run.as_object_mut().unwrap();
        run.remove("seconds");
        run.remove("folder");
    }
    runs
}

#[test]
fn the_object_lists_every_run_with_its_scores() {
    let shop = Workshop::new();
    let said = shop.santa(&format!("{PAIR} --seeds 2 --set averaging={{from=4,every=2}}")).done();
    let object = said.json();
    let keys: Vec<&String> = object.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["runs", "report"]);
    assert_eq!(object["report"], "c/report.html");
    let named = |run: &Value| format!("{} {}", run["optimizer"].as_str().unwrap(), run["seed"]);
    let all: Vec<String> = runs(&object).iter().map(named).collect();
    assert_eq!(all, ["santa 7", "santa 8", "adam 7", "adam 8"]);
    for run in runs(&object) {
        let keys: Vec<&String> = run.as_object().unwrap().keys().collect();
        let scores = ["error_last", "error_averaged", "error_best"];
        let scores = [scores, ["nll_last", "nll_averaged", "nll_best"]].concat();
        let validation: Vec<String> = scores.iter().map(|s| format!("validation_{s}")).collect();
        let validation: Vec<&str> = validation.iter().map(String::as_str).collect();
        let (first, last) = (["experiment", "optimizer", "seed"], ["seconds", "folder"]);
        assert_eq!(keys, [&first[..], &scores, &validation, &last].concat());
        // They are the scores of the summary.
        let summary = shop.run(run["folder"].as_str().unwrap()).summary();
        for (name, part) in [("last", "last"), ("averaged", "averaged"), ("best", "best")] {
            assert_eq!(run[format!("error_{name}")], summary[part]["test"]["error"]);
            assert_eq!(run[format!("nll_{name}")], summary[part]["test"]["nll"]);
            for score in ["error", "nll"] {
                let found = &run[format!("validation_{score}_{name}")];
                assert_eq!(found, &summary[part]["validation"][score]);
            }
        }
    }
    let stored = std::fs::read_to_string(shop.path("c/results.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), object);
    assert!(shop.path("c/report.html").is_file());
}

#[test]
fn the_table_has_a_row_for_each_optimizer_with_mean_and_spread() {
    let shop = Workshop::new();
    let said = shop.santa(&format!("{} --seeds 2", PAIR.replace(" --json", ""))).done();
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", said.out);
    assert_eq!(lines[0], "On test data:");
    assert!(lines[1].starts_with("optimizer") && lines[1].contains("error last"));
    for (line, name) in lines[2..].iter().zip(["santa", "adam"]) {
        assert!(line.starts_with(name) && line.contains(" ± "), "{line}");
    }
    let table = std::fs::read_to_string(shop.path("c/results.md")).unwrap();
    assert_eq!(table.lines().count(), 6, "{table}");
    assert!(said.err.contains("report: c/report.html"), "{}", said.err);
}

#[test]
fn without_test_data_the_table_is_about_validation_data() {
    let shop = Workshop::new();
    let args = "compare tiny.toml --set epochs=1 --set evaluation.test=false --seeds 1 --out c";
    let said = shop.santa(args).done();
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines[0], "On validation data:");
    assert!(lines[1].contains("error last") && lines[1].contains("nll best"), "{}", said.out);
    let object = shop.santa(&format!("{args} --json")).done().json();
    let run = &runs(&object)[0];
    assert_eq!(run["error_last"], Value::Null);
    let percent = 100.0 * run["validation_error_last"].as_f64().unwrap();
    assert!(lines[2].contains(&format!("{percent:.2} %")), "{}", said.out);
}

#[test]
fn runs_are_not_repeated_and_more_seeds_extend() {
    let shop = Workshop::new();
    let first = shop.santa(&format!("{PAIR} --seeds 1")).done().json();
    let times: Vec<SystemTime> = runs(&first).iter().map(|run| written(&shop, run)).collect();
    let again = shop.santa(&format!("{PAIR} --seeds 1")).done().json();
    assert_eq!(again, first);
    let more = shop.santa(&format!("{PAIR} --seeds 3")).done().json();
    assert_eq!(runs(&more).len(), 6);
    for (run, time) in runs(&first).iter().zip(times) {
        assert!(runs(&more).contains(run));
        assert_eq!(written(&shop, run), time, "{run}");
    }
}

#[test]
fn the_number_of_jobs_and_threads_changes_nothing() {
    let shop = Workshop::new();
    let of = |jobs: usize, threads: usize| {
        let args = format!("{PAIR} --seeds 2 --jobs {jobs} --threads {threads}");
        let object = shop.santa(&args.replace("--out c", &format!("--out c{jobs}{threads}")));
        scores(&object.done().json())
    };
    let alone = of(1, 1);
    assert_eq!(of(2, 2), alone);
    assert_eq!(of(1, 2), alone);
    assert_eq!(of(8, 1), alone);
}

#[test]
fn fields_are_varied_in_all_combinations() {
    let shop = Workshop::new();
    let args = "--vary batch=1000,3000 --vary model.hidden=[4],[8,4] --seeds 1 --set epochs=1";
    let object = shop.santa(&format!("compare tiny.toml {args} --out c --json")).done().json();
    let names: Vec<Value> = runs(&object).iter().map(|run| run["optimizer"].clone()).collect();
    let expected = [
        "santa batch=1000 hidden=[4]",
        "santa batch=1000 hidden=[8,4]",
        "santa batch=3000 hidden=[4]",
        "santa batch=3000 hidden=[8,4]",
    ];
    assert_eq!(names, expected);
    let steps: Vec<Value> = runs(&object)
        .iter()
        .map(|run| shop.run(run["folder"].as_str().unwrap()).summary()["steps"].clone())
        .collect();
    assert_eq!(steps, [9, 9, 3, 3]);
}

#[test]
fn what_is_set_of_the_optimizer_holds_for_all_of_them() {
    let shop = Workshop::new();
    let args = "--optimizers adam,sgd --set optimizer.lr=0.0321 --set epochs=1 --seeds 1";
    let object = shop.santa(&format!("compare tiny.toml {args} --out c --json")).done().json();
    for run in runs(&object) {
        let text = shop.run(run["folder"].as_str().unwrap()).text("experiment.toml");
        assert!(text.contains("0.0321"), "{text}");
    }
}

#[test]
fn several_experiments_have_folders_of_their_own() {
    let shop = Workshop::new();
    shop.write("other.toml", &support::workshop::TINY.replace("\"tiny\"", "\"other\""));
    let args = "compare tiny.toml other.toml --set epochs=1 --seeds 1 --out c";
    let said = shop.santa(args).done();
    assert!(said.out.contains("tiny santa") && said.out.contains("other santa"), "{}", said.out);
    for folder in ["c/tiny/santa-seed-7", "c/other/santa-seed-7"] {
        assert!(shop.run(folder).has("summary.json"), "{folder}");
    }
    assert!(shop.path("c/report.html").is_file());
}

#[test]
fn a_plan_that_cannot_run_is_refused_before_any_begins() {
    let shop = Workshop::new();
    let compare = "compare tiny.toml --optimizers sgd --seeds 1 --out c";
    for (vary, words) in
        [("--vary optimizer.lr=0.1,-1", "lr"), ("--vary clip.norm=1,-1", "clip.norm")]
    {
        shop.santa(&format!("{compare} {vary}")).refuses(2, &[words, "-1"]);
        assert!(!shop.path("c").exists(), "{vary}");
    }
    // Another run in the last of the folders.
    shop.santa("train tiny.toml --set optimizer=adam --set epochs=1 --out c/adam-seed-7").done();
    let said = shop.santa("compare tiny.toml --optimizers sgd,adam --seeds 1 --out c");
    said.refuses(2, &["c/adam-seed-7 holds another run", "`epochs`"]);
    assert!(!shop.path("c/sgd-seed-7").exists());
}
