//! `santa quickstart`: needs nothing, and is not repeated.

mod support;

use support::workshop::Workshop;

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn six_optimizers_make_a_table_and_a_report_and_are_not_run_twice() {
    let shop = Workshop::new();
    let first = shop.santa("quickstart --epochs 1 --seed 3").done();
    let first = first.says(&["santa-quickstart/report.html", "What to try next"]);
    let names: Vec<&str> = first.out.lines().skip(2).filter_map(|l| l.split(' ').next()).collect();
    assert_eq!(names, ["santa", "santa-e", "adam", "rmsprop", "sgd-m", "sgld"]);
    assert!(shop.path("santa-quickstart/report.html").is_file());
    let again = shop.santa("quickstart --epochs 1 --seed 3 --json").done();
    let again = again.says(&["6 of 6 runs are already in santa-quickstart"]);
    let object = again.json();
    for run in object["runs"].as_array().unwrap() {
        assert_eq!(run["seed"], 3);
        let error = run["error_last"].as_f64().unwrap();
        assert!((0.0..0.5).contains(&error), "{run}");
    }
    // Other settings would go to the same folders.
    let other = shop.santa("quickstart --epochs 2 --seed 3");
    let other = other.refuses(2, &["`epochs` is 1 there, 2 here", "--out"]);
    assert!(!other.err.contains("already"), "{}", other.err);
}
