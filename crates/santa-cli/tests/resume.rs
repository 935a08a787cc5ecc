//! A run that is interrupted, however, and resumed is the run that was not, bit for bit.

mod support;

use std::fs;
use std::path::Path;
use support::workshop::{Run, Workshop};

/// With an average of predictions, the best parameters, and a checkpoint after every step.
const EVERY_STEP: &str = "--set averaging.from=20 --set averaging.every=7 --set log_every=5 \
                          --set evaluation.every=11 --set checkpoints.every=1 \
                          --set checkpoints.keep=1000";

/// Resumes copies of a run after some of its checkpoints, with one and two threads in turn.
#[track_caller]
fn every_cut_ends_the_same(shop: &Workshop, args: &str, apart: usize) -> Run {
    let whole = shop.run("whole");
    shop.santa(&format!("train {args} --out whole --threads 1")).done();
    let essence = whole.essence();
    for kept in (0..=whole.checkpoints().len()).step_by(apart) {
        let part = whole.copy_to(shop.path("part"));
        part.cut(kept);
        let threads = 1 + kept % 2;
        shop.santa(&format!("train {args} --out part --threads {threads} --resume")).done();
        assert!(part.essence() == essence, "after step {kept}, {threads} threads: {args}");
        fs::remove_dir_all(part.0).unwrap();
    }
    whole
}

#[test]
fn from_any_step() {
    let shop = Workshop::new();
    let whole = every_cut_ends_the_same(&shop, &format!("tiny.toml {EVERY_STEP}"), 3);
    let summary = whole.summary();
    assert_eq!((&summary["status"], &summary["steps"]), (&"finished".into(), &36.into()));
    assert_eq!(summary["averaged"]["count"], 2);
    assert!(whole.has("checkpoints/best.safetensors"));
    // The comparison is not blind: one other bit of the noise is another run.
    shop.santa(&format!("train tiny.toml {EVERY_STEP} --set seed=8 --out other")).done();
    assert!(shop.run("other").essence() != whole.essence());
}

#[test]
fn from_any_step_in_double_precision() {
    let shop = Workshop::new();
    let args = format!("tiny.toml {EVERY_STEP} --set precision=f64 --set optimizer=sgnht");
    every_cut_ends_the_same(&shop, &args, 7);
}

#[test]
fn from_any_step_with_early_stopping() {
    let shop = Workshop::new();
    let stops = "--set optimizer=adam --set optimizer.lr=0.2 --set early_stopping.patience=2";
    let args = format!("tiny.toml {EVERY_STEP} --set epochs=20 {stops}");
    let summary = every_cut_ends_the_same(&shop, &args, 29).summary();
    assert_eq!(summary["status"], "stopped_early");
    let best = summary["best"]["step"].as_u64().unwrap();
    assert_eq!(summary["steps"], best + 2 * 11, "{summary}");
}

#[test]
fn from_any_step_with_early_stopping_by_the_average() {
    let shop = Workshop::new();
    // At so large a rate the parameters are worse at once, and pull the average along in the end.
    let stops = "--set optimizer=adam --set optimizer.lr=0.2 --set averaging.from=0 \
                 --set averaging.every=11 --set early_stopping.patience=2 \
                 --set early_stopping.by=averaged";
    let args = format!("tiny.toml {EVERY_STEP} --set epochs=40 {stops}");
    let run = every_cut_ends_the_same(&shop, &args, 29);
    assert_eq!(run.summary()["status"], "stopped_early");
    let averages: Vec<f64> = run
        .records()
        .iter()
        .filter_map(|record| record["averaged"]["validation"]["nll"].as_f64())
        .collect();
    // The last but two was the best of all, and is what the summary has beside the one at the end.
    let best = averages.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(averages.iter().position(|nll| *nll == best), Some(averages.len() - 3));
    let summary = run.summary();
    assert_eq!(summary["best_averaged"]["validation"]["nll"], best);
    assert_eq!(summary["best_averaged"]["step"], summary["steps"].as_u64().unwrap() - 2 * 11);
    assert_eq!(summary["averaged"]["validation"]["nll"], averages[averages.len() - 1]);
}

#[test]
fn from_any_step_of_several_chains() {
    let shop = Workshop::new();
    // 18 steps for each of two chains, and two predictions of each in the average.
    let schedule = "--set averaging.from=4 --set averaging.every=6 \
                    --set optimizer.exploration.steps=6";
    let args = format!("tiny.toml {EVERY_STEP} {schedule}");
    let whole = every_cut_ends_the_same(&shop, &format!("{args} --set chains=2"), 5);
    assert_eq!(
        (&whole.summary()["steps"], &whole.summary()["averaged"]["count"]),
        (&36.into(), &4.into())
    );
    // Every chain begins to explore anew, and is looked at when it ends.
    let records = whole.records();
    let of = |field: &str, value: &str| -> Vec<&serde_json::Value> {
        records.iter().filter(|record| record[field] == value).collect()
    };
    let steps = |records: &[&serde_json::Value]| -> Vec<u64> {
        records.iter().filter_map(|record| record["step"].as_u64()).collect()
    };
    assert_eq!(steps(&of("stage", "exploring")), [5, 20]);
    let evaluations = of("kind", "evaluation");
    assert_eq!(steps(&evaluations), [11, 18, 22, 33, 36]);

    // The first chain is the run that has no other; the second is not the same again.
    shop.santa(&format!("train {args} --set epochs=1 --out alone")).done();
    let last = shop.run("alone").summary()["last"].clone();
    assert_eq!(evaluations[1]["last"], last);
    assert_ne!(evaluations[4]["last"], last);
}

#[test]
fn from_any_step_with_dropout_groups_and_a_prior() {
    let shop = Workshop::new();
    let groups = r#"
[[groups]]
pattern = "dense1.*"
lr_scale = 0.5

[model.dropout]
hidden = 0.5

[prior]
kind = "gaussian"
precision = 1.0
"#;
    shop.write("mine.toml", &(support::workshop::TINY.to_string() + groups));
    every_cut_ends_the_same(&shop, &format!("mine.toml {EVERY_STEP} --set optimizer=adam"), 11);
}

#[test]
fn from_any_step_of_bayes_by_backprop() {
    let shop = Workshop::new();
    let weight = "--set variational.kl_weight.geometric.batches=18";
    let args = format!("tiny.toml {EVERY_STEP} {weight} --set optimizer=adam");
    let summary = every_cut_ends_the_same(&shop, &args, 11).summary();
    assert_eq!(summary["averaged"]["count"], 2);
}

#[test]
fn from_any_step_of_music() {
    let data = support::workshop::shared_data();
    if !data.join("polyphonic/JSB_Chorales.mat").is_file() {
        eprintln!("SKIPPED: JSB_Chorales.mat is not in {}", data.display());
        return;
    }
    let shop = Workshop::new();
    let small = "--set batch=50 --set epochs=6 --set model.hidden=4 --data-dir";
    let args = format!("jsb {EVERY_STEP} --set averaging.from=4 {small} {}", data.display());
    let summary = every_cut_ends_the_same(&shop, &args, 11).summary();
    assert_eq!(summary["averaged"]["count"], 3);
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_the_one_before() {
    let shop = Workshop::new();
    let args = "tiny.toml --set checkpoints.every=10 --set checkpoints.keep=3";
    shop.santa(&format!("train {args} --out whole")).done();
    let whole = shop.run("whole");
    type Damage = fn(Vec<u8>) -> Vec<u8>;
    let damage: [(&str, Damage); 4] = [
        ("cut", |bytes| bytes[..bytes.len() / 2].to_vec()),
        ("empty", |_| Vec::new()),
        ("noise", |bytes| bytes.iter().map(|byte| byte.wrapping_mul(31)).collect()),
        ("foreign", |_| b"\x02\0\0\0\0\0\0\0{}".to_vec()),
    ];
    for (name, damage) in damage {
        let part = whole.copy_to(shop.path(name));
        part.cut(3);
        let newest = part.checkpoints().pop().unwrap();
        fs::write(&newest, damage(fs::read(&newest).unwrap())).unwrap();
        let said = shop.santa(&format!("train {args} --out {name} --resume")).done();
        let file = newest.file_name().unwrap().to_str().unwrap();
        said.says(&["warning: not a usable", file, "going back to an earlier one"]);
        assert!(part.essence() == whole.essence(), "{name}");
    }
    // With nothing left to go back to.
    let lost = whole.copy_to(shop.path("lost"));
    lost.cut(3);
    for path in lost.checkpoints() {
        fs::write(path, "").unwrap();
    }
    let oldest = lost.checkpoints()[0].file_name().unwrap().to_str().unwrap().to_owned();
    let resume = format!("train {args} --out lost --resume");
    shop.santa(&resume).refuses(3, &[&oldest, "remove them to begin again"]);
    lost.cut(0);
    shop.santa(&resume).done();
    assert!(lost.essence() == whole.essence());
}

#[test]
fn a_torn_line_of_records_is_written_again() {
    let shop = Workshop::new();
    let args = "tiny.toml --set checkpoints.every=10";
    shop.santa(&format!("train {args} --out whole")).done();
    let (whole, part) = (shop.run("whole"), shop.run("whole").copy_to(shop.path("part")));
    part.cut(1);
    let metrics = part.text("metrics.jsonl");
    fs::write(part.0.join("metrics.jsonl"), &metrics[..metrics.len() - 20]).unwrap();
    shop.santa(&format!("train {args} --out part --resume")).done();
    assert!(part.essence() == whole.essence());
    // A line that is torn elsewhere is damage: it is dropped, and told.
    part.cut(1);
    fs::write(part.0.join("metrics.jsonl"), format!("{{\"kind\"\n{metrics}")).unwrap();
    let said = shop.santa(&format!("train {args} --out part --resume")).done();
    said.says(&["metrics.jsonl, line 1", "dropping this line"]);
    assert!(part.essence() == whole.essence());
}

#[test]
fn what_a_killed_process_left_of_a_checkpoint_is_removed() {
    let shop = Workshop::new();
    shop.santa("train tiny.toml --out run").done();
    let run = shop.run("run");
    run.cut(1);
    let torn = "checkpoints/.step-0000000036.safetensors.123-0.tmp";
    fs::write(run.0.join(torn), "half").unwrap();
    shop.santa("train tiny.toml --out run --resume").done();
    assert!(!run.has(torn));
}

#[test]
fn a_run_that_was_killed_while_its_folder_was_made_begins_again() {
    let shop = Workshop::new();
    shop.santa("train tiny.toml --out whole").done();
    for resume in ["", "--resume"] {
        let part = shop.run("part");
        fs::create_dir_all(part.0.join("checkpoints")).unwrap();
        for name in ["lock", "metrics.jsonl", "run.json", "experiment.toml.new"] {
            fs::write(part.0.join(name), "").unwrap();
        }
        let said = shop.santa(&format!("train tiny.toml --out part {resume}")).done();
        assert_eq!(said.err.contains("no run in part to go on with"), !resume.is_empty());
        assert!(part.essence() == shop.run("whole").essence());
        fs::remove_dir_all(part.0).unwrap();
    }
    // What somebody else put there is left alone.
    fs::create_dir(shop.path("theirs")).unwrap();
    fs::write(shop.path("theirs/notes.txt"), "keep").unwrap();
    let said = shop.santa("train tiny.toml --out theirs --resume");
    said.refuses(2, &["theirs is not empty and no run", "--out"]);
    assert_eq!(fs::read_dir(shop.path("theirs")).unwrap().count(), 1);
}

fn state(folder: &Path) -> Vec<(String, Vec<u8>, std::time::SystemTime)> {
    ["metrics.jsonl", "summary.json", "experiment.toml", "run.json"]
        .map(|name| {
            let path = folder.join(name);
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            (name.to_string(), fs::read(&path).unwrap(), changed)
        })
        .to_vec()
}

#[test]
fn a_finished_run_is_told_again_and_not_trained() {
    let shop = Workshop::new();
    let first = shop.santa("train tiny.toml --out run --json").done();
    let before = state(&shop.path("run"));
    let again = shop.santa("train tiny.toml --out run --json --resume").done();
    assert_eq!(again.out, first.out);
    // Its folder says what it is.
    assert_eq!(shop.santa("train run --resume --json").done().out, first.out);
    let said = shop.santa("train tiny.toml --out run");
    said.refuses(2, &["there is a finished run in run", "--resume", "--out"]);
    assert!(state(&shop.path("run")) == before);
}

#[test]
fn other_settings_are_refused_by_the_field_that_differs() {
    let shop = Workshop::new();
    shop.santa("train tiny.toml --out run --set epochs=1").done();
    let run = shop.run("run");
    for done in [true, false] {
        if !done {
            run.cut(1);
            let said = shop.santa("train tiny.toml --out run --set epochs=1");
            said.refuses(2, &["there is an unfinished run in run", "--resume"]);
        }
        for (setting, words) in [
            ("epochs=3", "`epochs` is 1 there, 3 here"),
            ("seed=8", "`seed` is 7 there, 8 here"),
            ("optimizer.lr=0.5", "`optimizer.step.lr.value` is 0.001 there, 0.5 here"),
            ("early_stopping.patience=3", "`early_stopping` is"),
            ("precision=f64", "`precision` is"),
        ] {
            let epochs = if setting.starts_with("epochs") { "" } else { "--set epochs=1" };
            let args = format!("train tiny.toml --out run --resume {epochs} --set {setting}");
            shop.santa(&args).refuses(2, &["run holds another run", words, "--out"]);
        }
        // What it is called for the reader does not matter.
        if done {
            let args = "train tiny.toml --out run --resume --set epochs=1 --set description=x";
            shop.santa(args).done();
        }
    }
}

#[cfg(unix)]
mod signals {
    use super::support::workshop::{Run, Said, Workshop, signal, wait_until};
    use santa::noise::{Purpose, Stream};
    use std::process::Child;
    use std::thread::sleep;
    use std::time::Duration;

    /// Long enough to be interrupted.
    const LONG: &str = "long.toml";

    /// A shop with a long experiment, and the run of it that nobody interrupted.
    fn shop() -> (Workshop, Run) {
        let shop = Workshop::new();
        let more =
            "[averaging]\nfrom = \"30 %\"\nevery = \"10 steps\"\n[checkpoints]\nevery = 25\n";
        let text = super::support::workshop::TINY.replace("epochs = 2", "epochs = 25");
        shop.write(LONG, &(text + more));
        shop.santa(&format!("train {LONG} --out whole --threads 2")).done();
        let whole = shop.run("whole");
        (shop, whole)
    }

    fn said(child: Child) -> Said {
        Said::of(child.wait_with_output().unwrap())
    }

    /// Waits for the next checkpoint; whether there is one before the end of the process.
    fn next_checkpoint(child: &mut Child, run: &Run) -> bool {
        let before = run.checkpoints();
        wait_until(child, || run.checkpoints() != before)
    }

    #[test]
    fn ctrl_c_and_terminate_write_a_checkpoint_at_once_and_end_with_130() {
        let (shop, whole) = shop();
        for name in ["INT", "TERM"] {
            let part = shop.run(name);
            let mut child = shop.start(&format!("train {LONG} --out {name} --threads 1"));
            assert!(next_checkpoint(&mut child, &part));
            signal(&child, name);
            let said = said(child).refuses(130, &["interrupted after step ", "`--resume`"]);
            let step = said.err.split("after step ").nth(1).unwrap().split(';').next().unwrap();
            let newest = part.checkpoints().pop().unwrap();
            let of_step = format!("step-{:0>10}.safetensors", step);
            assert_eq!(newest.file_name().unwrap().to_str(), Some(of_step.as_str()));
            assert!(!part.has("summary.json"));
            let again = shop.santa(&format!("train {LONG} --out {name} --resume")).done();
            again.says(&[&format!("going on after step {step}")]);
            assert!(part.essence() == whole.essence(), "{name}");
        }
    }

    #[test]
    fn two_ctrl_cs_end_the_process_and_leave_whole_checkpoints() {
        let (shop, whole) = shop();
        let part = shop.run("part");
        let mut child = shop.start(&format!("train {LONG} --out part"));
        assert!(next_checkpoint(&mut child, &part));
        signal(&child, "INT");
        signal(&child, "INT");
        said(child).ends_with(130);
        // Its folder alone says what to go on with.
        shop.santa("train part --resume --threads 1").done();
        assert!(part.essence() == whole.essence());
    }

    #[test]
    fn a_run_that_is_killed_again_and_again_ends_the_same() {
        let (shop, whole) = shop();
        let part = shop.run("part");
        /// Milliseconds until a process is killed, at most: from before its folder is made to
        /// after some checkpoints.
        const PATIENCE: f64 = 150.0;
        let stream = Stream::new(1, 0, Purpose::Custom(1));
        for attempt in 0..10 {
            let threads = 1 + attempt % 2;
            let args = format!("train {LONG} --out part --resume --threads {threads}");
            let mut child = shop.start(&args);
            if attempt % 2 == 0 {
                let delay = PATIENCE * stream.uniform(attempt, 0, 0);
                sleep(Duration::from_millis(delay as u64));
            } else {
                next_checkpoint(&mut child, &part);
            }
            child.kill().unwrap();
            child.wait().unwrap();
        }
        shop.santa(&format!("train {LONG} --out part --resume")).done();
        assert!(part.essence() == whole.essence());
    }

    #[test]
    fn a_second_process_is_refused_and_the_first_goes_on() {
        let (shop, whole) = shop();
        let part = shop.run("part");
        let args = format!("train {LONG} --out part");
        let mut first = shop.start(&args);
        assert!(next_checkpoint(&mut first, &part));
        // So that it cannot be done too soon.
        signal(&first, "STOP");
        let second = shop.santa(&format!("{args} --resume"));
        second.refuses(2, &["another process is working in part", "--out"]);
        shop.santa(&args).refuses(2, &["an unfinished run"]);
        signal(&first, "CONT");
        said(first).done();
        assert!(part.essence() == whole.essence());
    }

    #[test]
    fn a_comparison_is_interrupted_and_the_same_command_goes_on() {
        let (shop, _) = shop();
        let compare = format!("compare {LONG} --optimizers santa,adam --seeds 1 --jobs 2 --out");
        shop.santa(&format!("{compare} whole-compare")).done();
        let mut child = shop.start(&format!("{compare} part-compare"));
        assert!(next_checkpoint(&mut child, &shop.run("part-compare/adam-seed-7")));
        signal(&child, "INT");
        said(child).refuses(130, &["interrupted", "the same command goes on"]);
        shop.santa(&format!("{compare} part-compare")).done();
        for name in ["santa", "adam"] {
            let run = |folder: &str| shop.run(&format!("{folder}/{name}-seed-7")).essence();
            assert!(run("whole-compare") == run("part-compare"), "{name}");
        }
    }
}
