//! `mpirun -n K santa train`: needs a build with the feature `mpi`, and an MPI.

use santa::Checkpoint;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// More than anything here takes; a job that hangs must not hang the tests.
const TOO_LONG: Duration = Duration::from_secs(120);

/// The experiment of all tests: 40 steps of Santa on the built-in digits, with dropout.
const SETTINGS: [&str; 8] = [
    "quickstart",
    "--set=epochs=1",
    "--set=batch=250",
    "--set=model.hidden=[40]",
    "--set=checkpoints.every=10",
    "--set=checkpoints.keep=100000",
    "--set=averaging.from=20",
    "--set=averaging.every=10",
];

fn mpirun(ranks: usize) -> Command {
    let mut command = Command::new("mpirun");
    command
        .args(["-n", &ranks.to_string()])
        // More processes than cores, in a container, where root is the only user.
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("OMPI_MCA_hwloc_base_binding_policy", "none");
    command
}

fn train(ranks: usize, out: &Path, more: &[&str]) -> Command {
    let mut command = mpirun(ranks);
    command.arg(env!("CARGO_BIN_EXE_santa")).arg("train").args(SETTINGS);
    command.args(["--threads", "1", "--out"]).arg(out).args(more);
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn output(command: &mut Command) -> Output {
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    ended(spawned.expect("mpirun is installed"))
}

fn done(mut command: Command) -> Output {
    let output = output(&mut command);
    assert!(output.status.success(), "{}", told(&output));
    output
}

fn checkpoint(run: &Path, step: u64) -> Checkpoint {
    Checkpoint::read(run.join(format!("checkpoints/step-{step:010}.safetensors"))).unwrap()
}

/// The vectors of a checkpoint: parameters, dynamics, averages.
fn vectors(checkpoint: &Checkpoint) -> Vec<(String, Vec<u8>)> {
    let bytes = |name: &str| match checkpoint.tensor::<f32>(name) {
        Ok(values) => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Err(_) => {
            let values: Vec<f64> = checkpoint.tensor(name).unwrap();
            values.iter().flat_map(|x| x.to_le_bytes()).collect()
        }
    };
    checkpoint.tensor_names().map(|name| (name.to_string(), bytes(name))).collect()
}

struct Runs(TempDir);

impl Runs {
    fn new() -> Self {
        Runs(TempDir::new().unwrap())
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

#[test]
fn with_ordered_sums_one_two_and_four_ranks_have_the_same_bits() {
    let runs = Runs::new();
    let ends: Vec<_> = [1, 2, 4]
        .map(|ranks| {
            let out = runs.path(&ranks.to_string());
            let output = done(train(ranks, &out, &["--ordered=4"]));
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(said.matches("last parameters").count(), 1, "one rank speaks: {said}");
            vectors(&checkpoint(&out, 40))
        })
        .into();
    assert!(ends[0].len() > 3);
    assert!(ends[1] == ends[0] && ends[2] == ends[0]);
    let scores = ["1", "2", "4"].map(|ranks| summary(&runs.path(ranks)));
    assert!(scores[1] == scores[0] && scores[2] == scores[0], "{scores:?}");
    // Without MPI as well.
    let out = runs.path("alone");
    let mut alone = Command::new(env!("CARGO_BIN_EXE_santa"));
    alone.arg("train").args(SETTINGS).arg("--ordered=4").arg("--out").arg(&out);
    done(alone);
    assert!(vectors(&checkpoint(&out, 40)) == ends[0]);
    assert_eq!(summary(&out), scores[0]);
}

/// The result of a run, but for its time.
fn summary(run: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(run.join("summary.json")).unwrap();
    let mut summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    summary.as_object_mut().unwrap().remove("seconds");
    summary
}

#[test]
fn otherwise_they_agree_up_to_rounding() {
    let runs = Runs::new();
    let theta = |ranks, more: &[&str]| {
        let out = runs.path(&format!("{ranks}-{}", more.len()));
        done(train(ranks, &out, more));
        let checkpoint = checkpoint(&out, 10);
        let names = checkpoint.tensor_names().filter(|name| name.starts_with("theta/"));
        let names: Vec<String> = names.map(String::from).collect();
        names.iter().flat_map(|name| checkpoint.tensor::<f32>(name).unwrap()).collect::<Vec<_>>()
    };
    let alone = theta(1, &[]);
    for (ranks, more) in [(2, &[][..]), (3, &[]), (2, &["--overlap"])] {
        let other = theta(ranks, more);
        let worst = alone.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-3, "{ranks} ranks {more:?}: {worst}");
        assert!(worst > 0.0);
    }
}

/// Waits until a file is there.
fn wait_for(path: &Path) {
    let begin = Instant::now();
    while !path.exists() {
        assert!(begin.elapsed() < TOO_LONG, "no {}", path.display());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a long run and waits for its first checkpoint.
fn start(ranks: usize, out: &Path) -> std::process::Child {
    let mut command = train(ranks, out, &["--ordered=4", "--set=epochs=500"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&out.join("checkpoints/step-0000000010.safetensors"));
    child
}

fn ended(mut child: std::process::Child) -> Output {
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > TOO_LONG {
            let _ = child.kill();
            panic!("the job did not end");
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

fn newest(run: &Path) -> u64 {
    let entries = std::fs::read_dir(run.join("checkpoints")).unwrap();
    let steps = entries.filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse::<u64>().ok()
    });
    steps.max().unwrap()
}

fn signal(what: &str, process: u32) {
    let status = Command::new("kill").args([what, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_job_that_is_asked_to_stop_resumes_with_another_number_of_ranks() {
    let runs = Runs::new();
    let out = runs.path("stopped");
    let child = start(4, &out);
    signal("-INT", child.id());
    let output = ended(child);
    assert!(!output.status.success());
    assert!(told(&output).contains("interrupted after step"), "{}", told(&output));
    // Goes on for at least ten steps, with two ranks, and then with one.
    let stopped = newest(&out);
    let epochs = "--set=epochs=500";
    let whole = runs.path("whole");
    let more = ["--ordered=4", epochs, "--resume"];
    let mut command = train(2, &out, &more);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let after = stopped / 10 * 10 + 10;
    wait_for(&out.join(format!("checkpoints/step-{after:010}.safetensors")));
    signal("-KILL", child.id());
    let _ = child.wait();
    let resumed = vectors(&checkpoint(&out, after));
    // The same steps in one go, in one process.
    let mut alone = Command::new(env!("CARGO_BIN_EXE_santa"));
    alone.arg("train").args(SETTINGS).args(["--ordered=4", epochs, "--threads", "2", "--out"]);
    let mut alone = alone.arg(&whole).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&whole.join(format!("checkpoints/step-{after:010}.safetensors")));
    signal("-INT", alone.id());
    let _ = alone.wait();
    assert!(vectors(&checkpoint(&whole, after)) == resumed);
}

#[test]
fn a_rank_that_dies_ends_the_job_and_the_checkpoints_are_whole() {
    let runs = Runs::new();
    let out = runs.path("killed");
    let child = start(3, &out);
    let listed = Command::new("pgrep").args(["-P", &child.id().to_string()]).output().unwrap();
    let ranks: Vec<u32> = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .map(|line| line.trim().parse().unwrap())
        .collect();
    assert_eq!(ranks.len(), 3, "{ranks:?}");
    signal("-KILL", ranks[1]);
    let output = ended(child);
    assert!(!output.status.success());
    let text = told(&output) + &String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("signal 9"), "{text}");
    let step = newest(&out);
    checkpoint(&out, step);
    let more = ["--ordered=4", "--set=epochs=500", "--resume"];
    let mut child =
        train(2, &out, &more).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&out.join(format!("checkpoints/step-{:010}.safetensors", step + 20)));
    signal("-KILL", child.id());
    let _ = child.wait();
}

#[test]
fn a_run_that_diverges_stops_all_ranks_with_one_message() {
    let runs = Runs::new();
    let out = runs.path("diverged");
    let settings = ["--set=optimizer=sgd", "--set=optimizer.lr=1e6"];
    let output = output(&mut train(3, &out, &settings));
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    assert_eq!(told(&output).matches("error:").count(), 1, "{}", told(&output));
}

#[test]
fn what_cannot_be_read_is_said_once() {
    let runs = Runs::new();
    let output = output(&mut train(2, &runs.path("x"), &["--set=optimizer.lrr=1"]));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(told(&output).matches("error:").count(), 1, "{}", told(&output));
    assert!(told(&output).contains("lrr"));
}

#[test]
fn times_are_told_on_request() {
    let runs = Runs::new();
    let out = runs.path("timed");
    let output = done(train(2, &out, &["--timing"]));
    assert!(told(&output).contains("communicate ms"), "{}", told(&output));
    let text = std::fs::read_to_string(out.join("timing.json")).unwrap();
    let times: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(times.as_array().unwrap().len(), 2);
    assert!(times[1]["compute"].as_f64().unwrap() > 0.0 && times[1]["steps"] == 40);
}

/// As if another MPI's launcher had started it: each process then believes itself to be alone.
#[test]
fn a_launcher_of_another_mpi_is_noticed() {
    let runs = Runs::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_santa"));
    command.arg("train").args(SETTINGS).arg("--out").arg(runs.path("x")).env("PMI_SIZE", "2");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("do not belong together"), "{}", told(&output));
}

/// Needs root, for network namespaces.
#[test]
fn a_machine_that_is_cut_off_ends_the_job_and_comes_back() {
    let name = format!("santa-{}", std::process::id());
    let netns = |what: &str| {
        let tried = Command::new("ip").args(["netns", what, &name]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    if !netns("add") || !netns("del") {
        eprintln!("SKIPPED: network namespaces need iproute2, and the rights to make them");
        return;
    }
    let runs = Runs::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hosts/hosts.sh");
    let mut command = Command::new("bash");
    command.arg(script).arg(env!("CARGO_BIN_EXE_santa")).arg(runs.0.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}\n{}", told(&output));
}

#[test]
fn chains_are_shared_and_give_the_draws_of_one_process() {
    let runs = Runs::new();
    let sample = |ranks: usize| {
        let out = runs.path(&format!("draws-{ranks}"));
        let mut command = mpirun(ranks);
        command.arg(env!("CARGO_BIN_EXE_santa")).args(["sample", "gaussian", "--chains", "4"]);
        command.args(["--draws", "100", "--warm-up", "50", "--threads", "1", "--out"]).arg(&out);
        let output = done(command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said.matches("configurational temperature").count(), 1, "{said}");
        let text = std::fs::read_to_string(out.join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        summary["summary"].clone()
    };
    let alone = sample(1);
    assert!(sample(2) == alone && sample(4) == alone);
}
