//! Runs that diverge: told, written down, and no obstacle to others.

mod support;

use serde_json::Value;
use support::workshop::Workshop;

const EXPLODES: &str = "--set optimizer=sgd --set optimizer.lr=1e6";

fn failure(shop: &Workshop, run: &str) -> Value {
    serde_json::from_str(&shop.run(run).text("failure.json")).unwrap()
}

#[test]
fn a_loss_that_explodes_ends_with_4_and_names_parameters_step_and_setting() {
    let shop = Workshop::new();
    let args = format!("train tiny.toml --out run {EXPLODES}");
    let said = shop.santa(&args).refuses(
        4,
        &["diverged at step 2 (epoch 0.11)", "the loss is", "dense2.weight", "`optimizer.lr`"],
    );
    assert!(said.err.contains("try 100000"), "{}", said.err);
    let run = shop.run("run");
    assert!(!run.has("summary.json"));
    let failure = failure(&shop, "run");
    assert!(said.err.contains(failure["message"].as_str().unwrap()), "{failure}");
    assert!(said.err.contains(failure["hint"].as_str().unwrap()), "{failure}");
    let last = run.records().pop().unwrap();
    assert_eq!((&last["kind"], &last["step"]), (&"warning".into(), &2.into()));
    assert_eq!(last["message"], failure["message"]);
    // It would diverge again: it is told, not tried.
    let before = run.text("metrics.jsonl");
    shop.santa(&format!("{args} --resume")).refuses(4, &["diverged at step 2"]);
    assert_eq!(run.text("metrics.jsonl"), before);
    let said = shop.santa(&args).refuses(2, &["a run that diverged", "diverge again", "--out"]);
    assert!(!said.err.contains("--resume"), "{}", said.err);
}

/// However early the explosion is, and where the loss stays finite.
#[test]
fn a_loss_that_explodes_in_the_first_steps_is_noticed() {
    let shop = Workshop::new();
    let small = "--set model.hidden=[16] --set epochs=1";
    for (i, (settings, field)) in [
        ("--set optimizer=sgd --set optimizer.lr=100", "`optimizer.lr` = 100"),
        ("--set optimizer=sgd --set optimizer.lr=1e4", "`optimizer.lr` = 10000"),
        ("--set optimizer=santa --set optimizer.lr=1e4", "`optimizer.step.lr` = 10000"),
    ]
    .iter()
    .enumerate()
    {
        let said = shop.santa(&format!("train quickstart {small} {settings} --out run-{i}"));
        said.refuses(4, &["diverged at step ", field]);
        assert!(failure(&shop, &format!("run-{i}"))["message"].is_string());
    }
}

#[test]
fn music_that_explodes_is_noticed() {
    let data = support::workshop::shared_data();
    if !data.join("polyphonic/JSB_Chorales.mat").is_file() {
        eprintln!("SKIPPED: JSB_Chorales.mat is not in {}", data.display());
        return;
    }
    let shop = Workshop::new();
    let settings = "--set optimizer.lr=1e9 --set clip=off --set model.hidden=8 --set epochs=1";
    let args = format!("train jsb {settings} --out run --data-dir {}", data.display());
    shop.santa(&args).refuses(4, &["diverged at step ", "`optimizer.step.lr` = 1000000000"]);
}

#[test]
fn a_nan_ends_with_4_and_names_parameters_step_and_setting() {
    let shop = Workshop::new();
    for (i, settings) in [
        "--set optimizer=sgd --set optimizer.lr=1e38",
        "--set optimizer=santa --set optimizer.lr=1e38",
        "--set optimizer=sgld --set optimizer.lr=1e38",
        "--set optimizer=adam --set optimizer.lr=1e300 --set precision=f64",
    ]
    .iter()
    .enumerate()
    {
        let said = shop.santa(&format!("train tiny.toml --out run-{i} {settings}"));
        said.refuses(4, &["diverged at step ", "dense", "lr` = "]);
        assert!(failure(&shop, &format!("run-{i}"))["message"].is_string());
    }
}

#[test]
fn a_comparison_goes_on_with_the_other_runs() {
    let shop = Workshop::new();
    let args = "compare tiny.toml --optimizers sgd --vary optimizer.lr=1e6,0.1 --seeds 2 --out c";
    for jobs in [1, 2] {
        let said = shop.santa(&format!("{args} --jobs {jobs} --json")).done();
        let said = said.says(&["sgd lr=1e6 seed 7: the run diverged", "sgd lr=1e6 seed 8"]);
        let runs = said.json()["runs"].as_array().unwrap().clone();
        let of = |run: &Value| (run["diverged"].is_string(), run["error_last"].is_number());
        let found: Vec<_> = runs.iter().map(of).collect();
        assert_eq!(found, [(true, false), (true, false), (false, true), (false, true)]);
        for name in ["results.json", "results.md", "report.html"] {
            assert!(shop.path("c").join(name).is_file(), "{name}");
        }
        let table = std::fs::read_to_string(shop.path("c/results.md")).unwrap();
        assert!(table.contains("| sgd lr=1e6 | 2 (2 diverged) | - |"), "{table}");
        let report = std::fs::read_to_string(shop.path("c/report.html")).unwrap();
        assert!(report.contains("sgd lr=1e6, diverged"), "it is not left out");
        assert!(report.contains("the run diverged at step 2"));
        std::fs::remove_dir_all(shop.path("c")).unwrap();
    }
}

#[test]
fn a_comparison_without_any_result_ends_with_4() {
    let shop = Workshop::new();
    let said = shop.santa(&format!("compare tiny.toml {EXPLODES} --seeds 2 --out c --json"));
    let said = said.ends_with(4).says(&["every run diverged"]);
    assert_eq!(said.json()["runs"].as_array().unwrap().len(), 2);
    assert!(shop.path("c/results.json").is_file());
    assert!(shop.path("c/report.html").is_file());
}

#[test]
fn a_search_goes_on_with_the_other_settings() {
    let shop = Workshop::new();
    let search = |values: &str, out: &str| {
        let args = format!("--over optimizer.lr={values} --out {out} --seeds 2 --json");
        shop.santa(&format!("sweep tiny.toml --set optimizer=sgd {args}"))
    };
    let object = search("1e6,0.1", "some").done().json();
    assert_eq!(object["best"]["settings"]["optimizer.lr"], 0.1);
    assert_eq!(object["trials"][1]["score"], Value::Null);
    assert_eq!(object["trials"][1]["scores"], serde_json::json!([null, null]));
    let table = std::fs::read_to_string(shop.path("some/results.md")).unwrap();
    assert!(table.contains("2 diverged"), "{table}");

    let said = search("1e6,1e7", "none").ends_with(4).says(&["no setting came through"]);
    assert_eq!(said.json()["best"], Value::Null);
    assert!(!shop.path("none/best.toml").exists());
}
