//! `santa data`: exit codes, and what goes to which stream.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// `santa` with a data folder, and no other settings from outside.
fn santa(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("santa"));
    command.env("SANTA_DATA", folder).env_remove("CLICOLOR_FORCE").args(args);
    command
}

struct Said {
    code: i32,
    out: String,
    err: String,
}

fn said(folder: &Path, args: &[&str]) -> Said {
    let output = santa(folder, args).output().unwrap();
    Said {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The object that `--json` prints, and the status of each of its files.
fn object(out: &str) -> (Value, Vec<(String, String)>) {
    assert_eq!(out.lines().count(), 1, "{out}");
    let object: Value = serde_json::from_str(out).unwrap();
    let text = |file: &Value, field: &str| file[field].as_str().unwrap().to_owned();
    let files = object["files"].as_array().unwrap().iter();
    let files = files.map(|file| (text(file, "name"), text(file, "status"))).collect();
    (object, files)
}

/// A folder with a damaged file, and the beginning of another.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let music = folder.path().join("polyphonic");
    fs::create_dir(&music).unwrap();
    fs::write(music.join("JSB_Chorales.mat"), b"noise").unwrap();
    fs::write(music.join("Nottingham.mat.part"), b"beginning").unwrap();
    folder
}

#[test]
fn where_prints_the_folder_alone_and_says_what_named_it_beside() {
    let folder = tempfile::tempdir().unwrap();
    let named = said(folder.path(), &["data", "where"]);
    assert_eq!(named.out, format!("{}\n", folder.path().display()));
    assert!(named.err.contains("SANTA_DATA"), "{}", named.err);
    let given = said(folder.path(), &["data", "where", "--data-dir", "elsewhere"]);
    assert_eq!(given.out, "elsewhere\n");
    assert!(given.err.contains("--data-dir"), "{}", given.err);
    let quiet = said(folder.path(), &["data", "where", "--quiet"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
}

#[test]
fn list_tells_what_there_is_of_each_file() {
    let folder = folder();
    let list = said(folder.path(), &["data", "list"]);
    assert_eq!(list.code, 0);
    let line = |name: &str| list.out.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("JSB_Chorales.mat").ends_with("present"));
    assert!(line("Nottingham.mat").contains("partial, 9 B"));
    assert!(line("t10k-labels-idx1-ubyte.gz").ends_with("missing"));
    assert!(line("jsb_santa_r.npz").contains("weights"));
    let verbose = said(folder.path(), &["data", "list", "-v"]);
    let path = folder.path().join("polyphonic/JSB_Chorales.mat");
    assert!(verbose.out.contains(&path.display().to_string()));
}

#[test]
fn list_as_json_has_stable_fields() {
    let folder = folder();
    let (object, files) = object(&said(folder.path(), &["data", "list", "--json"]).out);
    assert_eq!(object["folder"], folder.path().display().to_string());
    assert_eq!(files.len(), santa_datasets::catalog::ALL.len());
    let mut all = object["files"].as_array().unwrap().iter();
    let chorales = all.find(|file| file["set"] == "jsb").unwrap();
    let fields: Vec<&String> = chorales.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["name", "set", "path", "bytes", "status"]);
    assert_eq!(chorales["bytes"], 5);
    assert!(files.contains(&("Nottingham.mat".into(), "partial".into())));
}

#[test]
fn verify_names_the_damaged_file_and_ends_with_3() {
    let folder = folder();
    let verify = said(folder.path(), &["data", "verify"]);
    assert_eq!(verify.code, 3);
    assert!(verify.out.starts_with("damaged"), "{}", verify.out);
    assert_eq!(verify.out.lines().count(), 1, "only what is there is checked");
    assert!(verify.err.contains("JSB_Chorales.mat: SHA-256"), "{}", verify.err);
    let (_, files) = object(&said(folder.path(), &["data", "verify", "jsb", "--json"]).out);
    assert_eq!(files, [("JSB_Chorales.mat".into(), "damaged".into())]);
}

#[test]
fn verify_of_a_missing_file_fails_only_if_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let all = said(folder.path(), &["data", "verify"]);
    assert_eq!(all.code, 0, "{}", all.err);
    let one = said(folder.path(), &["data", "verify", "mnist"]);
    assert_eq!(one.code, 3);
    assert!(one.err.contains("train-images-idx3-ubyte.gz is missing"), "{}", one.err);
}

#[test]
fn an_unknown_name_ends_with_2_and_suggests_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    for action in ["fetch", "verify"] {
        let unknown = said(folder.path(), &["data", action, "musdata"]);
        assert_eq!((unknown.code, unknown.out.as_str()), (2, ""));
        assert!(unknown.err.contains("did you mean \"musedata\"?"), "{}", unknown.err);
    }
}

#[test]
fn fetch_offline_says_what_to_put_where() {
    let folder = folder();
    let fetch = said(folder.path(), &["data", "fetch", "mnist", "--offline"]);
    assert_eq!((fetch.code, fetch.out.as_str()), (3, ""));
    let path = folder.path().join("mnist/t10k-labels-idx1-ubyte.gz");
    for part in [&path.display().to_string(), "offline", "SHA-256", "https://"] {
        assert!(fetch.err.contains(part), "{part} is not in: {}", fetch.err);
    }
    assert!(!folder.path().join("mnist").exists(), "nothing was written");
}

#[test]
fn fetch_leaves_alone_what_is_there() {
    let folder = folder();
    let fetch = said(folder.path(), &["data", "fetch", "jsb", "--offline", "--json"]);
    assert_eq!(fetch.code, 0, "{}", fetch.err);
    assert_eq!(object(&fetch.out).1, [("JSB_Chorales.mat".into(), "present".into())]);
}

#[test]
fn the_real_files_are_intact() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("SANTA_DATA").map_or(beside, Into::into);
    if !data.join("mnist").is_dir() {
        eprintln!("SKIPPED: there are no data in {}; set SANTA_DATA", data.display());
        return;
    }
    let verify = said(&data, &["data", "verify"]);
    assert_eq!(verify.code, 0, "{}", verify.err);
    assert!(verify.out.lines().all(|line| line.starts_with("intact")), "{}", verify.out);
}
