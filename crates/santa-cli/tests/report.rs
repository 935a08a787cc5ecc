//! `santa report` from folders of runs to its files.

mod support;

use assert_cmd::Command;
use santa_cli::report;
use santa_cli::run::record::Record;
use santa_cli::run::stored::StoredRun;
use std::path::Path;
use support::{FakeRun, comparison};

fn santa() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("santa"))
}

/// The page of some runs.
fn page(runs: &[StoredRun]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report.html");
    report::write(runs, "A title", &out).unwrap();
    std::fs::read_to_string(out).unwrap()
}

fn stored(runs: &[FakeRun]) -> Vec<StoredRun> {
    runs.iter().map(FakeRun::stored).collect()
}

/// The row of the table of results that begins with a name.
fn row<'a>(page: &'a str, name: &str) -> &'a str {
    let table =
        page.split("<table class=\"results").nth(1).unwrap().split("</table>").next().unwrap();
    table.split("<tr>").find(|row| row.contains(&format!("</svg>{name}"))).unwrap()
}

#[test]
fn a_report_and_its_figures_are_written_and_named() {
    let folder = tempfile::tempdir().unwrap();
    for run in comparison() {
        run.write(&folder.path().join("runs"));
    }
    let report = |json: bool| {
        let mut command = santa();
        command.current_dir(&folder).args(["report", "runs"]);
        if json { command.arg("--json") } else { &mut command }.assert().success()
    };
    report(false).stdout("report.html\n").stderr("");
    let out = report(true).get_output().stdout.clone();
    let found: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(found["report"], "report.html");
    assert_eq!(found["runs"], 12);
    let figures = found["figures"].as_array().unwrap();
    assert!(figures.iter().any(|f| f == "report-test-error.svg"), "{figures:?}");
    assert!(figures.iter().any(|f| f == "report-momentum-santa.svg"), "{figures:?}");
    for figure in figures {
        let svg = std::fs::read_to_string(folder.path().join(figure.as_str().unwrap())).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    }
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, figures.len() + 2, "nothing else than the runs, the report and its figures");
}

#[test]
fn unfinished_runs_are_named_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    FakeRun::new("adam", 1).write(folder.path());
    FakeRun { made: 3, ..FakeRun::new("adam", 2) }.write(folder.path());
    let out = folder.path().join("r.html");
    let assert = santa().args(["report"]).arg(folder.path()).arg("--out").arg(&out).assert();
    let said = String::from_utf8(assert.success().get_output().stderr.clone()).unwrap();
    assert!(said.contains("adam-100-seed-2 is unfinished"), "{said}");
    let page = std::fs::read_to_string(out).unwrap();
    let row = row(&page, "adam, unfinished");
    assert!(row.contains("epoch 3.0"), "{row}");
    // It shows how far it came, but it does not compete.
    assert!(!page.contains("(best)"));
}

#[test]
fn diverged_runs_are_named_with_place_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    FakeRun::new("adam", 1).write(folder.path());
    let run = FakeRun { made: 3, ..FakeRun::new("adam", 2) }.write(folder.path());
    let message = "the run diverged at step 181 (epoch 3.02): the loss is NaN";
    let failure = serde_json::json!({ "message": message, "hint": "try less" });
    std::fs::write(run.join("failure.json"), failure.to_string()).unwrap();
    let out = folder.path().join("r.html");
    let assert = santa().args(["report"]).arg(folder.path()).arg("--out").arg(&out).assert();
    let said = String::from_utf8(assert.success().get_output().stderr.clone()).unwrap();
    assert!(said.contains(&format!("adam-100-seed-2: {message}")), "{said}");
    let page = std::fs::read_to_string(out).unwrap();
    assert!(page.contains("1 of them diverged") && !page.contains("unfinished"));
    let row = row(&page, "adam, diverged");
    assert!(row.contains("at step 181 (epoch 3.02)"), "{row}");
    // What it was before is no result.
    assert!(!row.contains("0.0"), "{row}");
    assert!(page.contains("the loss is NaN") && page.contains("try less"));
}

#[test]
fn the_page_says_how_many_chains_a_run_has() {
    let mut run = FakeRun::new("santa", 1).stored();
    assert!(!page(std::slice::from_ref(&run)).contains("chains"));
    run.experiment.insert("chains".into(), 4.into());
    assert!(page(&[run]).contains("20 epochs, 4 chains, seed 1."));
}

#[test]
fn a_folder_given_twice_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = FakeRun::new("adam", 1).write(folder.path());
    let mut command = santa();
    command.current_dir(&folder).arg("report").arg(folder.path()).arg(run).arg("--json");
    let out = command.assert().success().get_output().stdout.clone();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&out).unwrap()["runs"], 1);
}

#[test]
fn folders_without_runs_and_places_that_are_not_there_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let assert = santa().arg("report").arg(folder.path()).assert().code(3);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("no run in this folder"), "{said}");
    santa().arg("report").arg(folder.path().join("absent")).assert().code(3);

    let run = FakeRun::new("adam", 1).write(folder.path());
    let out = folder.path().join("absent/report.html");
    let assert = santa().arg("report").arg(&run).arg("--out").arg(&out).assert().code(1);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("absent") && said.contains("create it"), "{said}");
    santa().arg("report").arg(&run).arg("--out").arg(folder.path()).assert().code(2);
    std::fs::write(run.join("metrics.jsonl"), "{}\n").unwrap();
    let assert = santa().arg("report").arg(&run).assert().code(3);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("metrics.jsonl, line 1"), "{said}");
}

#[test]
fn the_lowest_mean_is_marked_whoever_has_it() {
    let mut runs = stored(&comparison());
    let page = page(&runs);
    assert!(row(&page, "santa").contains("(best)"));
    assert!(page.contains("standard deviation over the seeds"));
    assert!(!page.contains("another seed may order them otherwise"));

    for run in runs.iter_mut().filter(|run| run.optimizer() == "santa") {
        let summary = run.summary.as_mut().unwrap();
        summary.averaged = None;
        summary.best = None;
        summary.last.test.as_mut().unwrap().error = Some(0.5);
        summary.last.test.as_mut().unwrap().nll = f64::NAN;
        summary.last.validation = None;
    }
    let page = self::page(&runs);
    let lost = row(&page, "santa");
    assert!(!lost.contains("(best)") && lost.contains("50.00") && lost.contains("not finite"));
    assert!(row(&page, "adam").contains("(best)"));
}

#[test]
fn single_runs_come_with_a_word_of_caution() {
    let page = page(&stored(&[FakeRun::new("adam", 1), FakeRun::new("santa", 1)]));
    assert!(page.contains("another seed may order them otherwise"));
    assert!(!page.contains("standard deviation over the seeds"));
    assert!(page.contains("seed 1."));
}

#[test]
fn a_seed_that_was_run_twice_counts_once() {
    let page = page(&stored(&[FakeRun::new("adam", 1), FakeRun::new("adam", 1)]));
    assert!(row(&page, "adam").contains("<td class=\"number\">1</td>"));
    assert!(page.contains("2 runs, 1 of them left out"));
}

#[test]
fn music_has_no_error() {
    let runs = [FakeRun::new("adam", 1), FakeRun::new("santa", 1)];
    let page = page(&stored(&runs.map(|run| FakeRun { music: true, ..run })));
    assert!(page.contains("Test NLL") && !page.contains("Test error, %</th>"));
    assert!(!page.contains("Expected calibration error"));
}

#[test]
fn runs_that_differ_in_a_setting_are_named_by_it() {
    let runs = [50, 100].map(|batch| FakeRun { batch, ..FakeRun::new("adam", 1) });
    let page = page(&stored(&runs));
    assert!(row(&page, "adam, batch 50").contains("1.6"));
    assert!(page.contains("<code>batch</code></th><td>50</td><td>100</td>"));
}

#[test]
fn several_experiments_have_a_section_and_figures_each() {
    let music = FakeRun { experiment: "Music!".into(), music: true, ..FakeRun::new("adam", 1) };
    let runs = stored(&[FakeRun::new("adam", 1), music]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.html");
    let written = report::write(&runs, &report::title(&runs), &out).unwrap();
    let named = |name: &str| written.figures.contains(&folder.path().join(name));
    assert!(named("r-digits-test-nll.svg") && named("r-music-test-nll.svg"));
    assert!(!Path::new(&folder.path().join("r-music-test-error.svg")).exists());
    let page = std::fs::read_to_string(out).unwrap();
    assert!(page.contains("<title>digits, Music!</title>"));
    assert!(page.contains("<h2>digits</h2>") && page.contains("<h2>Music!</h2>"));
}

#[test]
fn the_same_runs_make_the_same_report() {
    let runs = stored(&comparison());
    assert_eq!(page(&runs), page(&runs));
}

#[test]
fn a_run_that_has_only_begun_has_a_report() {
    let mut run = FakeRun { made: 1, ..FakeRun::new("santa", 1) }.stored();
    run.records.clear();
    let page = page(&[run]);
    assert!(page.contains("No run has been evaluated yet"));
}

#[test]
fn long_runs_make_short_reports() {
    let mut run = FakeRun::new("adam", 1).stored();
    let first = run.records.iter().find_map(|record| match record {
        Record::Training(training) => Some(training.clone()),
        _ => None,
    });
    let first = first.unwrap();
    run.records = (1..100_000)
        .map(|step| {
            Record::Training(santa_cli::run::record::Training {
                step,
                epoch: step as f64 / 600.0,
                ..first.clone()
            })
        })
        .collect();
    let with_few = page(&[FakeRun::new("adam", 1).stored()]).len();
    assert!(page(&[run]).len() < 2 * with_few);
}
