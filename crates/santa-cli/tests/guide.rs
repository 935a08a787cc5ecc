//! The guide and the READMEs are true: their experiments resolve, their commands parse, those that are
//! marked are run and print what the page shows, their links lead somewhere. (Their Rust is run as
//! documentation tests.)
//!
//! Comments that no reader sees stand before a block and say what it is:
//!
//! | comment | the block that follows |
//! | --- | --- |
//! | `request` | TOML that `santa sample` takes |
//! | `part of NAME` | TOML that replaces these fields of a built-in experiment; without it, TOML is a whole experiment |
//! | `run` | commands that are run, in a folder which the page has for itself |
//! | `run, release` | the same, but only in an optimized build: they train |
//! | `run, exit code N`, `run, release, exit code N` | the same for a command that fails so; what it says on standard error counts |
//! | `output` | what the commands above printed; `...` stands for anything |
//! | `output, about` | the same up to [`page::ABOUT`] in its numbers, and to anything in a last column of seconds |

#[path = "guide/page.rs"]
mod page;
#[path = "guide/words.rs"]
mod words;

use clap::Parser;
use page::{Block, Page, same};
use santa_cli::args::Cli;
use santa_cli::experiment::{Draft, EXPERIMENTS};
use std::path::Path;
use std::process::Command;
use words::commands;

/// What may stand beside `santa` in a block of commands.
const OTHERS: [&str; 10] =
    ["[", "apt-get", "cargo", "cd", "export", "man", "mdbook", "module", "scontrol", "tensorboard"];

#[test]
fn every_experiment_resolves() {
    for page in Page::all() {
        for block in page.blocks("toml") {
            if block.mark == "request" {
                let read = toml::from_str::<santa_cli::sample::Request>(&block.text);
                read.unwrap_or_else(|e| panic!("{}: {e}", block.place));
                continue;
            }
            let draft = match block.mark.strip_prefix("part of ") {
                Some(name) => over(name, &block.text),
                None => Draft::parse("experiment", &block.text),
            };
            let resolved = draft.and_then(|draft| draft.resolve());
            resolved.unwrap_or_else(|e| panic!("{}: {e}\n{}", block.place, block.text));
        }
    }
}

/// A built-in experiment with the fields of a text in place of its own.
fn over(name: &str, text: &str) -> santa_cli::failure::Result<Draft> {
    let mut draft = Draft::open(name)?;
    let fields: toml::Table = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    for (key, value) in fields {
        draft.insert(&key, value, "the guide")?;
    }
    Ok(draft)
}

#[test]
fn every_command_parses() {
    let mut count = 0;
    for page in Page::all() {
        for block in page.blocks("sh") {
            for words in commands(&block.text) {
                let place = format!("{}: {}", block.place, words.join(" "));
                if words[0] == "santa" {
                    parses(&words, &place);
                    count += 1;
                } else if let Some(args) = through_cargo(&words).or_else(|| launched(&words)) {
                    parses(&args, &place);
                    count += 1;
                } else {
                    assert!(OTHERS.contains(&words[0].as_str()), "{place}: not a known command");
                }
            }
        }
    }
    assert!(count > 0 || Page::all().is_empty(), "no command was found");
}

/// `cargo run --release -- quickstart` is `santa quickstart`.
fn through_cargo(words: &[String]) -> Option<Vec<String>> {
    let runs = words.starts_with(&["cargo".into(), "run".into()]);
    let example = words.iter().any(|word| word == "--example");
    let args = words.iter().position(|word| word == "--").filter(|_| runs && !example)?;
    Some(["santa".to_string()].into_iter().chain(words[args + 1..].iter().cloned()).collect())
}

/// `mpirun -n 2 santa quickstart` is several of `santa quickstart`.
fn launched(words: &[String]) -> Option<Vec<String>> {
    let launcher = ["mpirun", "srun"].contains(&words[0].as_str());
    let santa = words.iter().position(|word| word == "santa").filter(|_| launcher)?;
    Some(words[santa..].to_vec())
}

fn parses(words: &[String], place: &str) {
    if let Err(error) = Cli::try_parse_from(words) {
        assert!(!error.use_stderr(), "{place}: {error}");
    }
}

#[test]
fn marked_commands_run_and_print_what_the_guide_shows() {
    for page in Page::all() {
        let folder = tempfile::tempdir().unwrap();
        let mut printed: Option<String> = None;
        for block in page.all_blocks() {
            if block.language == "sh" {
                printed = block.mark.strip_prefix("run").and_then(|how| run(&block, how, &folder));
            } else if let (Some(how), Some(found)) = (block.mark.strip_prefix("output"), &printed) {
                let about = how == ", about";
                assert!(
                    same(&block.text, found, about),
                    "{}: the page shows\n{}\nbut the command printed\n{found}",
                    block.place,
                    block.text
                );
            }
        }
    }
}

/// Runs the commands of a block; none if they are not for this build.
fn run(block: &Block, how: &str, folder: &tempfile::TempDir) -> Option<String> {
    let mut code = 0;
    for word in how.split(", ").filter(|word| !word.is_empty()) {
        match word.strip_prefix("exit code ") {
            Some(number) => code = number.parse().unwrap(),
            None if word == "release" && cfg!(debug_assertions) => return None,
            None => assert_eq!(word, "release", "{}: `{word}` says nothing", block.place),
        }
    }
    let mut printed = String::new();
    for words in commands(&block.text) {
        assert_eq!(words[0], "santa", "{}: only `santa` is run", block.place);
        let done = Command::new(env!("CARGO_BIN_EXE_santa"))
            .args(&words[1..])
            .current_dir(folder.path())
            .env_remove("SANTA_DATA")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        let place = format!("{}: {}", block.place, words.join(" "));
        assert_eq!(done.status.code(), Some(code), "{place}\n{said}");
        printed += if code == 0 { std::str::from_utf8(&done.stdout).unwrap() } else { &said };
    }
    Some(printed)
}

/// A mark that is misspelt would be a check that is not made.
#[test]
fn every_mark_is_known() {
    for page in Page::all() {
        for block in page.all_blocks().iter().filter(|block| !block.mark.is_empty()) {
            let known = match block.language.as_str() {
                "toml" => block.mark == "request" || block.mark.starts_with("part of "),
                "sh" => block.mark == "run" || block.mark.starts_with("run, "),
                "text" => ["output", "output, about"].contains(&block.mark.as_str()),
                _ => false,
            };
            assert!(known, "{}: what is `{}`?", block.place, block.mark);
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    for page in Page::all() {
        for (target, place) in page.links() {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => page.path.clone(),
                _ => page.resolve(file),
            };
            assert!(path.exists(), "{place}: {target} is not there");
            if !anchor.is_empty() && path.extension().is_some_and(|e| e == "md") {
                let anchors = Page::read(&path).anchors();
                assert!(anchors.iter().any(|a| a == anchor), "{place}: {target}: {anchors:?}");
            }
        }
    }
}

#[test]
fn every_chapter_is_in_the_summary_and_every_example_is_a_test() {
    let Some(docs) = page::docs() else { return };
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let sources = ["santa-cli/src/lib.rs", "santa-optim/src/lib.rs"]
        .map(|path| std::fs::read_to_string(crates.join(path)).unwrap());
    for page in Page::all().iter().filter(|page| page.path.starts_with(&docs)) {
        let name = page.path.file_name().unwrap().to_str().unwrap();
        assert!(name == "SUMMARY.md" || summary.contains(&format!("({name})")), "{name}");
        if page.blocks("rust").next().is_some() {
            let included = |source: &String| source.contains(&format!("/{name}\")"));
            assert!(sources.iter().any(included), "{name}: its examples are not tested");
        }
    }
}

#[test]
fn every_built_in_experiment_and_every_exit_code_is_in_the_guide() {
    let Some(docs) = page::docs() else { return };
    let text = std::fs::read_to_string(docs.join("experiments.md")).unwrap();
    for preset in EXPERIMENTS {
        assert!(text.contains(preset.name), "{}", preset.name);
    }
    use santa_cli::failure::Kind::{Data, Interrupted, Numerical, System, Usage};
    for kind in [System, Usage, Data, Numerical, Interrupted] {
        let row = format!("| {} | {} |", kind.code(), format!("{kind:?}").to_lowercase());
        assert!(text.contains(&row), "{row}");
    }
}

#[test]
fn every_field_that_a_run_writes_is_in_the_guide() {
    let Some(docs) = page::docs() else { return };
    let text = std::fs::read_to_string(docs.join("experiments.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_santa"))
        .args(["train", "quickstart", "--set", "model.hidden=[4]", "--set", "epochs=1"])
        .args(["--set", "data.validation=1000", "--set", "early_stopping.patience=5"])
        .args(["--out", "run"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut fields = Vec::new();
    for file in ["run.json", "summary.json", "metrics.jsonl"] {
        let written = std::fs::read_to_string(folder.path().join("run").join(file)).unwrap();
        for value in serde_json::Deserializer::from_str(&written).into_iter() {
            collect(&value.unwrap(), &mut fields);
        }
    }
    let experiment = std::fs::read_to_string(folder.path().join("run/experiment.toml")).unwrap();
    let mut experiment: toml::Table = experiment.parse().unwrap();
    // Its fields are those of the library.
    experiment.insert("optimizer".into(), toml::Value::Table(toml::Table::new()));
    collect(&serde_json::to_value(experiment).unwrap(), &mut fields);
    assert!(fields.len() > 50, "{fields:?}");
    for field in fields {
        let forms = [format!("`{field}`"), format!("`[{field}]`"), format!("`[[{field}]]`")];
        let named = forms.iter().any(|form| text.contains(form));
        assert!(named, "`{field}` is not explained");
    }
}

/// The names of all fields of a value.
fn collect(value: &serde_json::Value, fields: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (name, value) in object {
                fields.push(name.clone());
                collect(value, fields);
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| collect(value, fields)),
        _ => (),
    }
}
