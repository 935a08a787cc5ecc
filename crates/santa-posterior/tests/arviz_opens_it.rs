//! ArviZ itself opens what is exported and agrees with the summary. Needs a Python that has the packages
//! `arviz` and `zarr`, named by the environment variable `SANTA_ARVIZ_PYTHON`.

use santa::noise::{Purpose, Stream};
use santa_posterior::Draws;
use santa_posterior::arviz::Export;
use santa_posterior::diagnostics::Summary;
use serde_json::{Value, json};
use std::process::Command;

const CHAINS: usize = 4;
const DRAWS: usize = 100;
const TOLERANCE: f64 = 1e-9;

#[test]
fn arviz_opens_the_store_and_has_the_same_summary() {
    let Some(python) = std::env::var_os("SANTA_ARVIZ_PYTHON") else {
        eprintln!("SKIPPED: SANTA_ARVIZ_PYTHON names no Python that has arviz and zarr");
        return;
    };
    let names = ["mu", "w[1]", "w[2]", "odd[7]"];
    let mut draws = Draws::new(names, CHAINS).unwrap();
    for chain in 0..CHAINS {
        let stream = Stream::new(6, chain as u32, Purpose::Custom(0));
        let mut x = vec![0.0; names.len()];
        for step in 0..DRAWS as u64 {
            let mut z = vec![0.0; names.len()];
            stream.normals(step, 0, 0, &mut z);
            // Autoregressions of their own.
            for (i, x) in x.iter_mut().enumerate() {
                *x = 0.2 * i as f64 * *x + z[i];
            }
            draws.push(chain, &x).unwrap();
        }
    }
    let lp: Vec<Vec<f64>> =
        (0..CHAINS).map(|c| (0..DRAWS).map(|i| (c * DRAWS + i) as f64).collect()).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("draws.zarr");
    Export::new(&draws).statistic("lp", &lp).attribute("seed", 42).write(&path).unwrap();

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/arviz/open.py");
    let output = Command::new(python).arg(script).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(read["groups"], json!(["posterior", "sample_stats"]));
    assert_eq!(
        read["dims"],
        json!({
            "mu": ["chain", "draw"], "w": ["chain", "draw", "w_dim_0"], "odd[7]": ["chain", "draw"],
        })
    );
    assert_eq!((&read["indices"], &read["seed"]), (&json!([1, 2]), &json!(42)));
    assert_eq!(read["lp"], json!(lp));
    for row in Summary::new(&draws).rows {
        for (column, ours) in [
            ("mean", row.mean),
            ("sd", row.sd),
            ("mcse_mean", row.mcse_mean),
            ("mcse_sd", row.mcse_sd),
            ("ess_bulk", row.ess_bulk),
            ("ess_tail", row.ess_tail),
            ("r_hat", row.r_hat),
        ] {
            let theirs = read["summary"][&row.name][column].as_f64().unwrap();
            let error = (ours - theirs).abs() / theirs.abs();
            assert!(error < TOLERANCE, "{column} of {}: {ours}, ArviZ has {theirs}", row.name);
        }
    }
}
