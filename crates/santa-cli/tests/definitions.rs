//! `santa completions` and `santa man`.

use assert_cmd::Command;
use std::fs;
use std::process::Stdio;

fn santa() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("santa"))
}

#[test]
fn every_shell_gets_completions_on_standard_output() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = santa().args(["completions", shell]).output().unwrap();
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("quickstart"), "{shell}");
        assert!(output.stderr.is_empty(), "{shell}");
    }
}

#[test]
fn an_unknown_shell_ends_with_2() {
    santa().args(["completions", "tcsh"]).assert().code(2);
}

#[test]
fn the_man_page_goes_to_standard_output() {
    let output = santa().arg("man").output().unwrap();
    assert!(output.status.success());
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains(".TH santa 1"), "{page}");
    assert!(page.contains("130 interrupted"), "the exit codes are in it");
}

#[test]
fn every_command_gets_a_page_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man");
    let output = santa().arg("man").arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success());
    assert!(output.stdout.is_empty());
    for name in ["santa", "santa-train", "santa-data", "santa-data-fetch", "santa-presets-show"] {
        let page = fs::read_to_string(out.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
        assert!(page.contains("\\-\\-data\\-dir"), "{name} has the options of every command");
    }
    let mut pages = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!pages.any(|page| page.to_string_lossy().contains("help")));
}

#[test]
fn a_folder_that_cannot_be_written_ends_with_1() {
    let file = tempfile::NamedTempFile::new().unwrap();
    santa().arg("man").arg("--out").arg(file.path()).assert().code(1);
}

#[test]
fn a_reader_who_goes_away_is_no_failure() {
    for args in [&["completions", "zsh"][..], &["man"]] {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("santa"));
        let mut child =
            command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take()); // closes the pipe, most likely before anything is written
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
