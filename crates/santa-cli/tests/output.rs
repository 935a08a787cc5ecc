//! What goes to which stream, in which form, and how the command ends.

mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use support::workshop::{Said, Workshop};

const TRAIN: &str = "train tiny.toml --set epochs=1";
const ESCAPE: char = '\u{1b}';

#[test]
fn quiet_says_nothing_but_results_and_errors() {
    let shop = Workshop::new();
    for (i, args) in [
        TRAIN.to_string(),
        "compare tiny.toml --set epochs=1 --seeds 1".into(),
        "sweep tiny.toml --set epochs=1 --over optimizer.lr=1e-3".into(),
        "eval out-0".into(),
        "presets".into(),
    ]
    .iter()
    .enumerate()
    {
        let out = if i < 3 { format!("--out out-{i}") } else { String::new() };
        let said = shop.santa(&format!("{args} {out} --quiet")).done();
        assert_eq!(said.err, "", "{args}");
        assert!(!said.out.is_empty(), "{args}");
    }
    let said = shop.santa(&format!("{TRAIN} -q --set epochs=x")).refuses(2, &[]);
    assert!(said.err.starts_with("error: --set epochs=x"), "{}", said.err);
    shop.santa("presets --quiet --verbose").ends_with(2);
}

#[test]
fn results_alone_go_to_standard_output() {
    let shop = Workshop::new();
    let said = shop.santa(TRAIN).done().says(&["run in runs/tiny/santa-seed-7", "epoch 1.0"]);
    let first: Vec<&str> = said.out.lines().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(first, ["", "last parameters", "best on validation (epoch 1.0)"]);
    let verbose = shop.santa(&format!("{TRAIN} --resume --verbose")).done();
    assert_eq!(verbose.out, said.out);
}

#[test]
fn json_is_one_object_on_one_line() {
    let shop = Workshop::new();
    let object = shop.santa(&format!("{TRAIN} --json")).done().json();
    let keys: Vec<&String> = object.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["run", "summary"]);
    assert_eq!(object["run"], "runs/tiny/santa-seed-7");
    assert_eq!(object["summary"], shop.run("runs/tiny/santa-seed-7").summary());
    let keys: Vec<&String> = object["summary"].as_object().unwrap().keys().collect();
    let head = ["name", "optimizer", "seed", "status", "steps", "epochs", "parameters", "seconds"];
    assert_eq!(keys, [&head[..], &["last", "best", "calibration_last"]].concat());
    for (args, keys) in [
        ("presets", ["experiments", "optimizers"]),
        ("presets show adam", ["name", "toml"]),
        ("data list", ["folder", "files"]),
    ] {
        let object = shop.santa(&format!("{args} --json")).done().json();
        assert_eq!(object.as_object().unwrap().keys().collect::<Vec<_>>(), keys, "{args}");
    }
}

#[test]
fn a_failure_is_an_object_too() {
    let shop = Workshop::new();
    shop.write("noise.npz", "noise");
    for (args, code, kind, words) in [
        ("train nothing", 2, "usage", "nothing"),
        ("train tiny.toml --oops", 2, "usage", "unexpected argument '--oops'"),
        ("", 2, "usage", "requires a subcommand"),
        ("eval noise.npz --data jsb", 3, "data", "noise.npz"),
        ("train tiny.toml --set optimizer=sgd --set optimizer.lr=1e6", 4, "numerical", "diverged"),
    ] {
        let mut command = shop.command(&format!("{args} --json"));
        let said = Said::of(command.output().unwrap()).ends_with(code);
        let error = &said.json()["error"];
        assert_eq!(error["kind"], kind, "{args}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert!(error["hint"].is_string() || kind == "data", "{error}");
    }
    // Help that was asked for is no failure.
    let help = shop.santa("train --help --json").done();
    assert!(!help.out.contains("\"error\""), "{}", help.out);
}

#[test]
fn verbose_tells_where_with_what_and_how_much() {
    let shop = Workshop::new();
    let quiet = shop.santa(&format!("{TRAIN} --out a")).done();
    assert!(!quiet.err.contains("parameters"), "{}", quiet.err);
    let words =
        ["data in ", "6370 parameters, 1 threads", "18 steps, 18 an epoch", "step-0000000018"];
    shop.santa(&format!("{TRAIN} --out b --verbose --threads 1")).done().says(&words);
    let args = "compare tiny.toml --set epochs=1 --seeds 1 --out c --verbose --threads 1";
    shop.santa(args).done().says(&words);
}

#[test]
fn the_folder_of_a_run_is_named_when_it_begins_and_its_end_is_told() {
    let shop = Workshop::new();
    let said = shop.santa(&format!("{TRAIN} --out run")).done();
    let said = said.says(&["run in run", "santa seed 7 done after epoch 1.0: valid "]);
    assert_eq!(said.err.matches("done").count(), 1, "{}", said.err);
    let refused = shop.santa(&format!("{TRAIN} --out run")).refuses(2, &["a finished run in run"]);
    assert!(!refused.err.starts_with("run in"), "{}", refused.err);
    let early = "--set epochs=50 --set early_stopping.patience=1 --set optimizer.lr=1e-9";
    let said = shop.santa(&format!("train tiny.toml --out early {early}")).done();
    assert!(said.err.contains("santa seed 7 stopped early after epoch "), "{}", said.err);
}

#[test]
fn a_preset_is_shown_so_that_it_can_be_copied() {
    let shop = Workshop::new();
    let text = shop.santa("presets show quickstart").done().out;
    shop.write("mine.toml", &text);
    let small = "--set model.hidden=[8] --set batch=5000 --set epochs=1";
    shop.santa(&format!("train mine.toml {small}")).done();
    let adam = shop.santa("presets show adam").done().out;
    assert!(adam.contains("algorithm = \"adam\""), "{adam}");
}

#[test]
fn colours_are_for_terminals_and_for_those_who_ask() {
    let shop = Workshop::new();
    let coloured = |args: &str, name: &str| {
        let mut command = shop.command(&format!("train nothing {args}"));
        if !name.is_empty() {
            command.env(name, "1");
        }
        let said = Said::of(command.output().unwrap()).ends_with(2);
        assert!(said.err.contains("no built-in experiment `nothing`"), "{}", said.err);
        said.err.contains(ESCAPE)
    };
    assert!(!coloured("", ""), "a pipe is no terminal");
    assert!(!coloured("", "NO_COLOR"));
    assert!(!coloured("--color never", "CLICOLOR_FORCE"));
    assert!(coloured("--color always", ""));
    assert!(coloured("--color always", "NO_COLOR"), "the option is the last word");
    assert!(coloured("", "CLICOLOR_FORCE"));
    shop.santa("presets --color sometimes").ends_with(2);
}

#[test]
fn a_reader_who_goes_away_is_no_failure() {
    let shop = Workshop::new();
    for args in ["presets", "presets show mnist-cnn", "presets --json", "data list", "--help"] {
        // One who reads a line, and one who reads nothing.
        for lines in [1, 0] {
            let mut command = shop.command(args);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut reader = BufReader::new(child.stdout.take().unwrap());
            for _ in 0..lines {
                reader.read_line(&mut String::new()).unwrap();
            }
            drop(reader);
            let said = Said::of(child.wait_with_output().unwrap()).done();
            assert!(!said.err.contains("error"), "{args}: {}", said.err);
        }
    }
}

#[test]
fn a_run_whose_reader_goes_away_is_finished() {
    let shop = Workshop::new();
    let mut child = shop.start(&format!("{TRAIN} --out run"));
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(shop.run("run").has("summary.json"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_ends_with_1() {
    let shop = Workshop::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = shop.command("presets").stdout(full).output().unwrap();
    Said::of(output).ends_with(1).says(&["writing to standard output"]);
}

#[cfg(unix)]
#[test]
fn a_data_folder_that_cannot_be_known_ends_with_3_everywhere() {
    let shop = Workshop::new();
    for args in ["data where", "data list", "train tiny.toml", "compare tiny.toml", "eval run"] {
        let mut command = shop.command(args);
        command.env("HOME", "not/absolute").env_remove("XDG_CACHE_HOME").env_remove("SANTA_DATA");
        Said::of(command.output().unwrap()).ends_with(3);
    }
}

#[test]
fn usage_that_is_not_understood_ends_with_2_and_help_with_0() {
    let shop = Workshop::new();
    for args in ["trian tiny.toml", "train", "train tiny.toml --oops", "compare", "sweep tiny.toml"]
    {
        let said = shop.santa(args).ends_with(2);
        assert_eq!(said.out, "", "{args}");
        assert!(said.err.contains("--help"), "{args}: {}", said.err);
    }
    for args in ["--help", "--version", "train --help", "help sweep"] {
        let output = assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("santa"))
            .args(args.split(' '))
            .output();
        let said = Said::of(output.unwrap()).done();
        assert_eq!(said.err, "", "{args}");
        assert!(!said.out.is_empty(), "{args}");
    }
    assert_eq!(shop.files(), ["tiny.toml"]);
}

/// Each of them would do all the work, and write into the same folder.
#[test]
#[cfg(not(feature = "mpi"))]
fn several_processes_are_refused_by_a_build_without_mpi() {
    let shop = Workshop::new();
    let refused = |args: &str, size: &str| {
        let output = shop.command(args).env("OMPI_COMM_WORLD_SIZE", size).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for args in [TRAIN, "sample gaussian"] {
        let (code, text) = refused(args, "2");
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("2 processes") && text.contains("--features mpi"), "{text}");
    }
    let (code, text) = refused("compare tiny.toml --seeds 1", "3");
    assert!(code == Some(2) && text.contains("all of `santa compare`"), "{text}");
    assert_eq!(refused(TRAIN, "1").0, Some(0));
}
