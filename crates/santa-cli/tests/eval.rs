//! `santa eval`: weights of every origin.

mod support;

use safetensors::tensor::{Dtype, TensorView, serialize};
use serde_json::Value;
use std::path::Path;
use support::workshop::{Said, Workshop, shared_data};

/// What single and double precision, and other orders of summation, may make of a likelihood.
const ROUNDING: f64 = 1e-5;

fn close(a: &Value, b: &Value) -> bool {
    (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < ROUNDING
}

/// A shop with a trained run.
fn shop() -> Workshop {
    let shop = Workshop::new();
    shop.santa("train tiny.toml --out run --set optimizer=adam --set optimizer.lr=0.03").done();
    shop
}

fn eval(shop: &Workshop, args: &str) -> Value {
    shop.santa(&format!("eval {args} --json")).done().json()
}

/// Writes tensors of zeros.
fn write_zeros(path: &Path, tensors: &[(&str, &[usize])]) {
    let zeros = vec![0u8; 4 * 784 * 8];
    let views = tensors.iter().map(|(name, shape)| {
        let bytes = 4 * shape.iter().product::<usize>();
        (*name, TensorView::new(Dtype::F32, shape.to_vec(), &zeros[..bytes]).unwrap())
    });
    std::fs::write(path, serialize(views, None).unwrap()).unwrap();
}

const WEIGHTS: [(&str, &[usize]); 4] = [
    ("dense1.weight", &[784, 8]),
    ("dense1.bias", &[8]),
    ("dense2.weight", &[8, 10]),
    ("dense2.bias", &[10]),
];

#[test]
fn a_run_has_the_scores_of_its_summary() {
    let shop = shop();
    let summary = shop.run("run").summary();
    for part in ["test", "validation"] {
        let found = eval(&shop, &format!("run --split {part}"));
        assert_eq!(found["weights"], "run/checkpoints/step-0000000036.safetensors");
        assert_eq!((&found["data"], &found["split"]), (&"mnist-subset".into(), &part.into()));
        assert!(close(&found["nll"], &summary["last"][part]["nll"]), "{found}");
        assert!(close(&found["error"], &summary["last"][part]["error"]), "{found}");
        let best = eval(&shop, &format!("run/checkpoints/best.safetensors --split {part}"));
        assert!(close(&best["nll"], &summary["best"][part]["nll"]), "{best}");
    }
    assert!(eval(&shop, "run --split train")["nll"].as_f64().unwrap() > 0.0);
    let table = shop.santa("eval run").done().out;
    assert_eq!(table.lines().count(), 2, "{table}");
}

#[test]
fn a_variational_run_is_scored_by_its_means() {
    let shop = Workshop::new();
    let adam = "--set optimizer=adam --set optimizer.lr=0.03 --set epochs=1";
    shop.santa(&format!("train tiny.toml --out run {adam} --set variational.rho=-2")).done();
    let last = shop.run("run").summary()["last"]["test"].clone();
    for weights in ["run", "run/checkpoints/best.safetensors"] {
        let found = eval(&shop, weights);
        assert!(close(&found["nll"], &last["nll"]), "{found}");
        assert!(close(&found["error"], &last["error"]), "{found}");
    }
    let said = shop.santa("eval run --experiment tiny.toml");
    said.refuses(3, &["no tensor `dense1.weight`"]);
}

#[test]
fn weights_know_their_run_from_within_its_folder() {
    let shop = shop();
    let from_outside = eval(&shop, "run/checkpoints/best.safetensors")["nll"].clone();
    for (folder, name) in
        [("run", "checkpoints/best.safetensors"), ("run/checkpoints", "best.safetensors")]
    {
        let mut command = shop.command(&format!("eval {name} --json"));
        let output = command.current_dir(shop.path(folder)).output().unwrap();
        assert_eq!(Said::of(output).done().json()["nll"], from_outside, "{folder}");
    }
}

#[test]
fn a_file_with_plain_names_is_read_once_the_experiment_is_named() {
    let shop = Workshop::new();
    write_zeros(&shop.path("plain.safetensors"), &WEIGHTS);
    // All classes are as likely as each other.
    let found = eval(&shop, "plain.safetensors --experiment tiny.toml");
    assert!((found["nll"].as_f64().unwrap() - 10f64.ln()).abs() < 1e-12, "{found}");
    let said = shop.santa("eval plain.safetensors");
    said.refuses(2, &["plain.safetensors does not say", "--experiment"]);
}

#[test]
fn weights_that_do_not_fit_are_refused_by_file_and_tensor() {
    let shop = Workshop::new();
    write_zeros(&shop.path("few.safetensors"), &WEIGHTS[..3]);
    let said = shop.santa("eval few.safetensors --experiment tiny.toml");
    said.refuses(3, &["few.safetensors", "no tensor `dense2.bias`"]);

    let mut turned = WEIGHTS;
    turned[0].1 = &[8, 784];
    write_zeros(&shop.path("turned.safetensors"), &turned);
    let said = shop.santa("eval turned.safetensors --experiment tiny.toml");
    said.refuses(3, &["turned.safetensors", "`dense1.weight`", "[8, 784]", "[784, 8]"]);
}

#[test]
fn what_is_no_weights_is_refused() {
    let shop = shop();
    shop.write("noise.safetensors", "noise");
    shop.write("noise.npz", "noise");
    std::fs::create_dir(shop.path("empty")).unwrap();
    for (args, code, words) in [
        ("missing.safetensors", 3, "missing.safetensors"),
        ("noise.safetensors", 3, "not a safetensors file"),
        ("noise.npz", 3, "noise.npz"),
        ("empty", 3, "empty is no run"),
        ("run --data mnits", 2, "did you mean \"mnist\"?"),
        ("run --data jsb", 2, "`--data` may be mnist-subset, mnist"),
        ("run --split tset", 2, "test"),
        ("run --experiment quikstart", 2, "did you mean `quickstart`?"),
        ("run --experiment jsb", 3, "is missing"),
    ] {
        shop.santa(&format!("eval {args}")).refuses(code, &[words]);
    }
    let run = shop.run("run");
    run.cut(0);
    shop.santa("eval run").refuses(3, &["run has no checkpoint yet"]);
}

#[test]
fn validation_data_that_were_not_set_aside_are_refused() {
    let shop = Workshop::new();
    let args = "--set data.validation=0 --set epochs=1";
    shop.santa(&format!("train tiny.toml --out run {args}")).done();
    shop.santa("eval run --split validation").refuses(2, &["data.validation"]);
}

#[test]
fn the_authors_network_has_the_likelihood_that_they_recorded() {
    let data = shared_data();
    let weights = data.join("santa-2016-weights/jsb_santa_r.npz");
    if !weights.is_file() || !data.join("polyphonic/JSB_Chorales.mat").is_file() {
        eprintln!("SKIPPED: jsb_santa_r.npz or the music is not in {}", data.display());
        return;
    }
    let shop = Workshop::new();
    let args = format!("{} --data-dir {}", weights.display(), data.display());
    let found = eval(&shop, &format!("{args} --data jsb"));
    /// From the authors' file.
    const RECORDED: f64 = 8.461652;
    assert!((found["nll"].as_f64().unwrap() - RECORDED).abs() < 1e-6, "{found}");
    assert_eq!(found["error"], Value::Null);
    let named = eval(&shop, &format!("{args} --experiment jsb"));
    assert_eq!((&named["nll"], &named["data"]), (&found["nll"], &"jsb".into()));
    shop.santa(&format!("eval {args}")).refuses(2, &["does not say what music", "--data jsb"]);
    shop.santa(&format!("eval {args} --data mnist-subset")).refuses(2, &["needs music"]);
}
