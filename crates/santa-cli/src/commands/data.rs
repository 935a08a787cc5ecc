//! `santa data`

use crate::args::{Data, DataAction, Global};
use crate::console::{Console, Volume};
use crate::failure::{Failure, Result};
use crate::nearest::unknown;
use indicatif::DecimalBytes;
use santa_datasets::catalog::{self, Content, Resource};
use santa_datasets::progress::{Bar, Event, Progress};
use santa_datasets::store::{ENVIRONMENT, Origin, Status};
use santa_datasets::{Error, Store};
use serde::Serialize;

/// Lists, fetches, checks the files, or names their folder.
pub fn run(args: &Data, global: &Global, console: &Console) -> Result<()> {
    let store = store(global)?;
    match &args.action {
        DataAction::List => list(&store, console),
        DataAction::Fetch { names } => fetch(&store, names, console),
        DataAction::Verify { names } => verify(&store, names, console),
        DataAction::Where => tell_where(&store, console),
    }
}

/// The data folder that the command line and the environment ask for.
pub fn store(global: &Global) -> Result<Store> {
    let store = Store::new(global.data_dir.clone())?;
    Ok(if global.offline { store.offline() } else { store })
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    folder: String,
    files: Vec<File>,
}

impl Report {
    fn of(store: &Store, files: Vec<File>) -> Report {
        Report { folder: store.root().display().to_string(), files }
    }
}

/// A file of the catalog in a data folder.
#[derive(Serialize)]
struct File {
    name: &'static str,
    set: &'static str,
    /// Where it is, or where it belongs.
    path: String,
    /// As many as there are.
    bytes: u64,
    status: Condition,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Condition {
    Missing,
    /// A fetch was interrupted.
    Partial,
    /// Of the right name; the content was not looked at.
    Present,
    /// Of the right content.
    Intact,
    /// Of another content.
    Damaged,
}

impl Condition {
    fn word(self) -> &'static str {
        match self {
            Condition::Missing => "missing",
            Condition::Partial => "partial",
            Condition::Present => "present",
            Condition::Intact => "intact",
            Condition::Damaged => "damaged",
        }
    }
}

impl File {
    fn of(store: &Store, resource: &Resource) -> File {
        let belongs = || store.path(resource);
        let (path, bytes, status) = match store.status(resource) {
            Status::Present { path, bytes } => (path, bytes, Condition::Present),
            Status::Partial { bytes } => (belongs(), bytes, Condition::Partial),
            _ => (belongs(), 0, Condition::Missing),
        };
        let path = path.display().to_string();
        File { name: resource.name(), set: set_of(resource), path, bytes, status }
    }
}

/// The name of the data set that a file belongs to.
fn set_of(resource: &Resource) -> &'static str {
    let folder = resource.path.split('/').next().unwrap_or_default();
    match *resource {
        catalog::JSB_CHORALES => "jsb",
        catalog::NOTTINGHAM => "nottingham",
        catalog::MUSE_DATA => "musedata",
        catalog::PIANO_MIDI => "piano-midi",
        catalog::WEIGHTS_JSB | catalog::WEIGHTS_NOTTINGHAM => "weights",
        _ => folder,
    }
}

/// The files that are called so or belong to data sets that are, in the order of the catalog; all of
/// them for no name.
fn choose(names: &[String]) -> Result<Vec<Resource>> {
    let is = |resource: &Resource, name: &str| {
        let file = resource.name();
        name == set_of(resource)
            || name == resource.path
            || name == file
            || Some(name) == file.strip_suffix(".gz")
    };
    for name in names {
        if !catalog::ALL.iter().any(|resource| is(resource, name)) {
            let mut known: Vec<&str> = catalog::ALL.iter().map(set_of).collect();
            known.dedup();
            known.extend(catalog::ALL.iter().map(Resource::name));
            return Err(unknown("file or data set", name, known));
        }
    }
    let wanted =
        |resource: &Resource| names.is_empty() || names.iter().any(|name| is(resource, name));
    Ok(catalog::ALL.into_iter().filter(wanted).collect())
}

fn list(store: &Store, console: &Console) -> Result<()> {
    let files: Vec<File> = catalog::ALL.iter().map(|file| File::of(store, file)).collect();
    let width = files.iter().map(|file| file.name.len()).max().unwrap_or(0);
    console.note(format_args!("{}", store.root().display()));
    console
        .result(format_args!("{:<width$}  {:<10}  {:>9}  status", "file", "data set", "size"))?;
    for (file, resource) in files.iter().zip(catalog::ALL) {
        let (Content::Exact(known) | Content::Gzip(known)) = resource.content;
        let size = if file.status == Condition::Present { file.bytes } else { known };
        let size = DecimalBytes(size).to_string();
        let status = match file.status {
            Condition::Partial => format!("partial, {}", DecimalBytes(file.bytes)),
            status => status.word().into(),
        };
        let mut line = format!("{:<width$}  {:<10}  {size:>9}  {status}", file.name, file.set);
        if console.volume() == Volume::Verbose {
            line.push_str(&format!("  {}", file.path));
        }
        console.result(line)?;
    }
    console.object(&Report::of(store, files))
}

fn fetch(store: &Store, names: &[String], console: &Console) -> Result<()> {
    let mut failures = Vec::new();
    let resources = choose(names)?;
    for resource in &resources {
        if let Status::Present { path, .. } = store.status(resource) {
            console.detail(format_args!("{} is there", path.display()));
            continue;
        }
        if names.is_empty() && resource.mirrors.is_empty() {
            let name = resource.name();
            console.warning(format_args!(
                "{name} is left out, no public mirror is known; `santa data fetch {name}` says what to \
                 put where"
            ));
            continue;
        }
        let fetched = if console.draws() {
            store.fetch_with(resource, &mut Bar::new())
        } else {
            store.fetch_with(resource, &mut Lines { console, name: resource.name() })
        };
        if let Err(error) = fetched {
            failures.push(error.to_string());
        }
    }
    let files = resources.iter().map(|resource| File::of(store, resource)).collect();
    console.object(&Report::of(store, files))?;
    if !failures.is_empty() {
        return Err(Failure::data(failures.join("\n")));
    }
    console.note(format_args!("the data are in {}", store.root().display()));
    Ok(())
}

/// Progress where no bar can be drawn: a line when something begins, fails or ends.
struct Lines<'a> {
    console: &'a Console,
    name: &'static str,
}

impl Progress for Lines<'_> {
    fn report(&mut self, event: Event<'_>) {
        let Lines { console, name } = self;
        match event {
            Event::Waiting => console.note(format_args!("{name}: another process is fetching it")),
            Event::Started { url, done, total } => {
                let from = if done > 0 { format!(", from byte {done} on") } else { String::new() };
                let of = total.map_or(String::new(), |total| format!(", {}", DecimalBytes(total)));
                console.note(format_args!("{name}: from {url}{of}{from}"));
            }
            Event::Failed { url, reason } => console.note(format_args!("{name}: {url}: {reason}")),
            Event::Finished => console.note(format_args!("{name}: whole")),
            _ => (),
        }
    }
}

fn verify(store: &Store, names: &[String], console: &Console) -> Result<()> {
    let mut failures = Vec::new();
    let mut files = Vec::new();
    for resource in choose(names)? {
        let mut file = File::of(store, &resource);
        if file.status == Condition::Present || !names.is_empty() {
            match store.verify(&resource) {
                Ok(()) => file.status = Condition::Intact,
                Err(error) => {
                    if matches!(error, Error::Checksum { .. }) {
                        file.status = Condition::Damaged;
                    }
                    failures.push(error.to_string());
                }
            }
            console.result(format_args!("{:<8} {}", file.status.word(), file.path))?;
        }
        files.push(file);
    }
    if names.is_empty() && files.iter().all(|file| file.status == Condition::Missing) {
        console.note(format_args!("there are no files in {}", store.root().display()));
    }
    console.object(&Report::of(store, files))?;
    if failures.is_empty() { Ok(()) } else { Err(Failure::data(failures.join("\n"))) }
}

fn tell_where(store: &Store, console: &Console) -> Result<()> {
    let origin = match store.origin() {
        Origin::Argument => "named by --data-dir".into(),
        Origin::Environment => format!("named by {ENVIRONMENT}"),
        _ => format!("in the user's cache; --data-dir or {ENVIRONMENT} name another"),
    };
    console.note(origin);
    console.result(store.root().display())?;
    let files = catalog::ALL.iter().map(|resource| File::of(store, resource)).collect();
    console.object(&Report::of(store, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Result<Vec<&'static str>> {
        let words: Vec<String> = of.iter().map(|&word| word.into()).collect();
        Ok(choose(&words)?.iter().map(Resource::name).collect())
    }

    #[test]
    fn a_name_is_that_of_a_file_or_of_a_data_set() {
        let music = ["JSB_Chorales.mat"];
        for name in ["jsb", "JSB_Chorales.mat", "polyphonic/JSB_Chorales.mat"] {
            assert_eq!(names(&[name]).unwrap(), music, "{name}");
        }
        assert_eq!(names(&["t10k-labels-idx1-ubyte"]).unwrap(), ["t10k-labels-idx1-ubyte.gz"]);
        assert_eq!(names(&["weights", "mnist"]).unwrap().len(), 6);
        assert_eq!(names(&[]).unwrap().len(), catalog::ALL.len());
    }

    #[test]
    fn every_file_has_a_data_set() {
        let sets = ["mnist", "jsb", "nottingham", "musedata", "piano-midi", "weights"];
        for resource in catalog::ALL {
            assert!(sets.contains(&set_of(&resource)), "{}", resource.path);
        }
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let failure = names(&["mnits"]).unwrap_err();
        assert_eq!(failure.kind.code(), 2);
        assert!(failure.hint.unwrap().contains("\"mnist\""));
    }
}
