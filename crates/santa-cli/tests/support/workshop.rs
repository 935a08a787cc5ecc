//! A folder to run `santa` in, and what it says and leaves there.

use safetensors::SafeTensors;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A small network on the built-in digits: 18 steps an epoch.
pub const TINY: &str = r#"
name = "tiny"
seed = 7
epochs = 2
batch = 500
optimizer = "santa"

[data]
set = "mnist-subset"
validation = 1000

[model]
kind = "dense"
hidden = [8]
"#;

/// The folder of the full data sets and the authors' weights, which may not be there.
pub fn shared_data() -> PathBuf {
    let named = std::env::var_os("SANTA_DATA").filter(|folder| !folder.is_empty());
    named.map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    )
}

/// A folder with the experiment [`TINY`] in `tiny.toml`, which goes when the test ends.
pub struct Workshop {
    folder: tempfile::TempDir,
}

/// What a process said, and how it ended.
#[derive(Debug)]
pub struct Said {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Workshop {
    pub fn new() -> Self {
        let workshop = Workshop { folder: tempfile::tempdir().unwrap() };
        workshop.write("tiny.toml", TINY);
        workshop
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// The names of what is in the folder, in order.
    pub fn files(&self) -> Vec<String> {
        names(self.folder.path())
    }

    /// `santa` with arguments divided at spaces; it finds no data but the built-in ones, and no
    /// settings of its surroundings.
    pub fn command(&self, args: &str) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("santa"));
        command.args(args.split_whitespace()).current_dir(self.folder.path());
        command.env("SANTA_DATA", self.path("no-data")).arg("--offline");
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs it to its end.
    pub fn santa(&self, args: &str) -> Said {
        Said::of(self.command(args).output().unwrap())
    }

    /// Begins to run it.
    pub fn start(&self, args: &str) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// What is in a run's folder.
    pub fn run(&self, name: &str) -> Run {
        Run(self.path(name))
    }
}

impl Said {
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// It ended with this code.
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }

    /// It succeeded.
    #[track_caller]
    pub fn done(self) -> Self {
        self.ends_with(0)
    }

    /// It failed with this code, printed no result, and said all of these.
    #[track_caller]
    pub fn refuses(self, code: i32, words: &[&str]) -> Self {
        let said = self.ends_with(code);
        assert_eq!(said.out, "", "{}", said.err);
        said.says(words)
    }

    /// It said all of these on standard error.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "no `{word}` in:\n{}", self.err);
        }
        self
    }

    /// The object on the only line of its output.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{}", self.out);
        serde_json::from_str(&self.out).unwrap()
    }
}

/// The folder of a run.
#[derive(Clone, Debug)]
pub struct Run(pub PathBuf);

impl Run {
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    pub fn summary(&self) -> Value {
        serde_json::from_str(&self.text("summary.json")).unwrap()
    }

    /// The records, in order.
    pub fn records(&self) -> Vec<Value> {
        self.text("metrics.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Its checkpoints, the newest last, without the best one.
    pub fn checkpoints(&self) -> Vec<PathBuf> {
        let folder = self.0.join("checkpoints");
        let mut found = if folder.is_dir() { names(&folder) } else { Vec::new() };
        found.retain(|name| name.starts_with("step-") && name.ends_with(".safetensors"));
        found.iter().map(|name| folder.join(name)).collect()
    }

    /// The same in another folder.
    pub fn copy_to(&self, folder: PathBuf) -> Run {
        copy(&self.0, &folder);
        Run(folder)
    }

    /// Makes it a run that was killed with `kept` checkpoints: those after them and the result are
    /// not there.
    pub fn cut(&self, kept: usize) {
        let _ = fs::remove_file(self.0.join("summary.json"));
        for later in self.checkpoints().drain(kept..) {
            fs::remove_file(later).unwrap();
        }
    }

    /// All that the run computed, without what only tells how long it took.
    pub fn essence(&self) -> Essence {
        let newest = self.checkpoints().pop().unwrap();
        let best = self.0.join("checkpoints/best.safetensors");
        Essence {
            name: newest.file_name().unwrap().to_str().unwrap().into(),
            newest: contents(&newest),
            best: best.exists().then(|| contents(&best)),
            records: self.records().into_iter().map(timeless).collect(),
            summary: timeless(self.summary()),
        }
    }
}

/// What must not depend on how often a run was interrupted.
#[derive(Debug, PartialEq)]
pub struct Essence {
    name: String,
    newest: Contents,
    best: Option<Contents>,
    records: Vec<Value>,
    summary: Value,
}

/// Metadata and tensors (name, type and shape, bytes) of a safetensors file.
type Contents = (Vec<(String, Value)>, Vec<(String, String, Vec<u8>)>);

fn contents(path: &Path) -> Contents {
    let bytes = fs::read(path).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let of_text = |text: &str| serde_json::from_str(text).unwrap_or(Value::String(text.into()));
    let entries = header.metadata().iter().flatten();
    let mut meta: Vec<(String, Value)> =
        entries.map(|(name, text)| (name.clone(), timeless(of_text(text)))).collect();
    meta.sort_by(|a, b| a.0.cmp(&b.0));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: Vec<_> = file
        .iter()
        .map(|(name, tensor)| {
            let form = format!("{:?} {:?}", tensor.dtype(), tensor.shape());
            (name.to_string(), form, tensor.data().to_vec())
        })
        .collect();
    tensors.sort();
    (meta, tensors)
}

/// The value without its fields `seconds`.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("seconds");
            fields.values_mut().for_each(|field| *field = timeless(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = timeless(item.take())),
        _ => (),
    }
    value
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        match from.is_dir() {
            true => copy(&from, &to),
            false => drop(fs::copy(&from, &to).unwrap()),
        }
    }
}

/// Time between two looks at something that another process does.
const LOOK: Duration = Duration::from_millis(2);
/// Looks until it is given up.
const LOOKS: u32 = 60_000;

/// Waits until something is the case; whether it was before the process ended.
pub fn wait_until(child: &mut Child, mut is_so: impl FnMut() -> bool) -> bool {
    for _ in 0..LOOKS {
        if is_so() {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        sleep(LOOK);
    }
    panic!("waited too long");
}

/// Sends a signal by its name; Ctrl-C once the process listens to it, as far as that can be known.
#[cfg(unix)]
pub fn signal(child: &Child, name: &str) {
    if name == "INT" {
        (0..LOOKS).take_while(|_| is_deaf(child)).for_each(|_| sleep(LOOK));
    }
    let status = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(status.unwrap().success());
}

/// Whether Linux says that a process has no handler of Ctrl-C yet: one that has just begun would be killed.
#[cfg(unix)]
fn is_deaf(child: &Child) -> bool {
    const INT: u64 = 1 << 1;
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    let status = status.unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|caught| caught & INT == 0)
}
