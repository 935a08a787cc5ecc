//! `santa bench`: what it prints, not how fast anything is.

use assert_cmd::Command;
use serde_json::Value;

/// The quickest case.
const QUICK: &str = "sgd-m-1e6";

fn santa(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("santa"));
    let output = command.arg("bench").args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_cases_are_listed_and_nothing_is_measured() {
    let (code, out, err) = santa(&["--list"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let names: Vec<&str> = out.lines().filter_map(|line| line.split(' ').next()).collect();
    let cases = santa_bench::Case::all();
    assert_eq!(names, cases.iter().map(|case| case.name()).collect::<Vec<_>>());
    let (_, out, _) = santa(&["--list", "--json"]);
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(object["cases"][0], "copy");
}

#[test]
fn an_unknown_case_ends_with_2_and_suggests_the_nearest() {
    let (code, out, err) = santa(&["fnn-40"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("did you mean \"fnn-400\"?"), "{err}");
}

#[test]
fn no_threads_at_all_are_refused() {
    let (code, out, err) = santa(&[QUICK, "--threads", "0"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("there must be at least one"), "{err}");
}

#[test]
fn json_has_all_four_fields_of_a_case() {
    let (code, out, err) = santa(&[QUICK, "copy", "--json", "--threads", "1"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains(&format!("2/2 {QUICK}")), "progress is on standard error: {err}");
    assert_eq!(out.lines().count(), 1);
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(object["threads"], 1);
    assert!(object["copy_bytes_per_second"].as_f64().unwrap() > 0.0);
    let cases = object["cases"].as_object().unwrap();
    assert_eq!(cases.len(), 2);
    let fields = ["ms_per_step", "gflops", "bytes_per_second", "copy_bytes_per_second"];
    for (name, case) in cases {
        assert_eq!(case.as_object().unwrap().keys().collect::<Vec<_>>(), fields, "{name}");
        for field in fields {
            let arithmetic_of_a_copy = name == "copy" && field == "gflops";
            let sensible = case[field].as_f64().is_some_and(|value| value > 0.0);
            assert_eq!(sensible, !arithmetic_of_a_copy, "{name}: {field}");
        }
    }
}

#[test]
fn the_table_has_a_line_for_each_case() {
    let (code, out, _) = santa(&[QUICK, "--quiet"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("case"), "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with(QUICK)).count(), 1, "{out}");
}
