//! An experiment as it was written: read, changed, and resolved.

use super::catalog::EXPERIMENTS;
use super::duration::Clock;
use super::optimizer::{SHORT_NAMES, expand, is_called, long_path, put};
use super::places::{Place, Places, join};
use super::wording::{Complaint, leaf_of};
use super::{Data, Experiment, steps_per_epoch};
use crate::failure::{Failure, Result};
use crate::nearest::did_you_mean;
use crate::run::stored::file;
use serde::de::DeserializeOwned;
use std::path::Path;
use toml::{Table, Value};

/// An experiment as it was written, with replacements from the command line.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The file or the preset.
    origin: String,
    table: Table,
    /// In the order in which they were asked for.
    changes: Vec<Change>,
    places: Places,
}

/// The replacement of a field.
#[derive(Clone, Debug)]
struct Change {
    key: String,
    value: Value,
}

/// Places of a duration in the table, beside all of `optimizer`.
const DURATIONS: [&[&str]; 6] = [
    &["log_every"],
    &["evaluation", "every"],
    &["averaging", "from"],
    &["averaging", "every"],
    &["checkpoints", "every"],
    &["variational", "kl_weight", "geometric", "batches"],
];

impl Draft {
    /// Reads a TOML file, a built-in experiment, or the experiment of a run's folder.
    pub fn open(name: &str) -> Result<Self> {
        let path = Path::new(name);
        let file = if path.is_dir() { path.join(file::EXPERIMENT) } else { path.to_path_buf() };
        if file.is_file() {
            let text = std::fs::read_to_string(&file)
                .map_err(|e| Failure::data(format!("{}: {e}", file.display())))?;
            return Draft::parse(&file.display().to_string(), &text);
        }
        if let Some(preset) = EXPERIMENTS.iter().find(|preset| preset.name == name) {
            return Draft::parse(name, preset.toml);
        }
        if path.is_dir() {
            let text = format!("{name} is no run: it has no {}", file::EXPERIMENT);
            return Err(Failure::usage(text));
        }
        let names = EXPERIMENTS.iter().map(|preset| preset.name);
        Err(Failure::usage(format!(
            "there is no file and no built-in experiment `{name}`{}",
            did_you_mean(name, names)
        ))
        .hint("`santa presets` lists the built-in ones"))
    }

    /// Reads a text; `origin` names it in messages.
    pub fn parse(origin: &str, text: &str) -> Result<Self> {
        let table: Table = text.parse().map_err(|e: toml::de::Error| {
            let line = e.span().map(|span| text[..span.start].matches('\n').count() + 1);
            let line = line.map_or(String::new(), |line| format!(", line {line}"));
            Failure::usage(format!("{origin}{line}: {}", e.message()))
        })?;
        let (origin, places) = (origin.into(), Places::of(text));
        Ok(Draft { origin, table, changes: Vec::new(), places })
    }

    /// Takes a table; `origin` names it in messages.
    pub fn from_table(origin: &str, table: Table) -> Self {
        Draft { origin: origin.into(), table, changes: Vec::new(), places: Places::of("") }
    }

    /// Replaces fields; see [`Draft::set`].
    pub fn set_all(&mut self, assignments: &[String]) -> Result<()> {
        assignments.iter().try_for_each(|assignment| self.set(assignment))
    }

    /// Replaces a field: `KEY=VALUE`, with a value as in TOML; text needs no quotes.
    pub fn set(&mut self, assignment: &str) -> Result<()> {
        let argument = format!("--set {assignment}");
        let Some((key, value)) = assignment.split_once('=') else {
            return Err(Failure::usage(format!("{argument}: there is no `=`"))
                .hint("write `--set KEY=VALUE`, e.g. `--set epochs=5`"));
        };
        self.insert(key.trim(), parse_value(value), &argument)
    }

    /// Replaces a field. `argument` is where it came from, for messages. The optimizer as a whole is
    /// replaced before its parts, whatever the order; of two values of one field the later one counts.
    pub fn insert(&mut self, key: &str, value: Value, argument: &str) -> Result<()> {
        if key.split('.').any(|step| step.trim().is_empty()) {
            return Err(Failure::usage(format!("{argument}: `{key}` is no path of a field")));
        }
        self.places.argument(key, argument);
        self.changes.push(Change { key: key.into(), value });
        Ok(())
    }

    /// What was written, with the changes made.
    fn changed(&self) -> Result<Table> {
        let mut table = self.table.clone();
        let whole = |change: &&Change| ["optimizer", "optimizer.like"].contains(&&*change.key);
        for change in self.changes.iter().filter(whole) {
            // The experiment's own settings of an optimizer are kept.
            let name = change.value.as_str();
            if name.is_none_or(|name| !is_called(table.get("optimizer"), name)) {
                table.insert("optimizer".into(), change.value.clone());
            }
        }
        let optimizer = expand(table.remove("optimizer")).map_err(|(field, text)| {
            self.refuse(field, text).hint("`santa presets` lists the optimizers")
        })?;
        let parts: Vec<(String, Value)> = self
            .changes
            .iter()
            .filter(|change| !whole(change))
            .map(|change| (long_path(&change.key, &optimizer), change.value.clone()))
            .collect();
        table.insert("optimizer".into(), Value::Table(optimizer));
        for (path, value) in parts {
            put(&mut table, &path, value);
        }
        Ok(table)
    }

    /// As TOML: what was written, with the replacements.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(&self.changed()?).map_err(|e| Failure::usage(format!("writing TOML: {e}")))
    }

    /// Fills in every field, turns durations into steps, and checks the whole.
    pub fn resolve(&self) -> Result<Experiment> {
        let mut table = self.changed()?;
        let data: Data = self.read("data", table.get("data").cloned())?;
        let epochs: u64 = self.read("epochs", table.get("epochs").cloned())?;
        let batch: usize = match table.get("batch") {
            Some(value) => self.read("batch", Some(value.clone()))?,
            None => super::default_batch(),
        };
        if epochs == 0 {
            return Err(self.refuse("epochs", "it is 0: it must be at least 1"));
        }
        if batch == 0 {
            return Err(self.refuse("batch", "it is 0: it must be at least 1"));
        }
        let steps_per_epoch = steps_per_epoch(&data, batch);
        if epochs.checked_mul(steps_per_epoch).is_none_or(|steps| steps > i64::MAX as u64) {
            return Err(self.refuse("epochs", "so many steps cannot be counted"));
        }
        let chains: u32 = match table.get("chains") {
            Some(value) => self.read("chains", Some(value.clone()))?,
            None => 1,
        };
        if chains == 0 || !epochs.is_multiple_of(u64::from(chains)) {
            let text = "each chain has an equal share, of whole epochs";
            return Err(
                self.refuse("chains", format!("it is {chains}, of {epochs} epochs: {text}"))
            );
        }
        // A share of the run is one of a chain.
        let clock = Clock { steps_per_epoch, epochs: epochs / u64::from(chains) };
        fill_in(&mut table, clock);
        if let Some(optimizer) = table.get_mut("optimizer") {
            clock.replace(optimizer);
        }
        for path in DURATIONS {
            let mut value = table.get_mut(path[0]);
            for step in &path[1..] {
                value = value.and_then(|value| value.get_mut(*step));
            }
            let Some(value) = value else { continue };
            clock.replace(value);
            // A span of no steps would never come round; only averages may begin at once.
            if value.as_integer().is_some_and(|steps| steps < 1) && path.last() != Some(&"from") {
                let text = format!("it is {value} steps: it must be at least 1");
                return Err(self.refuse(&path.join("."), text));
            }
        }
        let experiment: Experiment = self.read("", Some(Value::Table(table)))?;
        experiment.check().map_err(|(field, text)| self.refuse(field, text))?;
        Ok(experiment)
    }

    fn read<T: DeserializeOwned>(&self, path: &str, value: Option<Value>) -> Result<T> {
        let value = value.ok_or_else(|| self.refuse(path, "it is missing"))?;
        serde_path_to_error::deserialize(value.clone()).map_err(|error| {
            let below = error.path().to_string();
            let below = if below == "." { "" } else { &below };
            let complaint = Complaint::of(error.inner().message());
            // Choices are read as a whole: which of their fields it was, their value tells.
            let leaf = leaf_of(&value, below, &complaint);
            let below = leaf.as_deref().unwrap_or(below);
            let path = if below.is_empty() { path.into() } else { join(path, below) };
            let failure = self.at(&path, complaint.unknown_field(), &complaint.text);
            match complaint.hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })
    }

    /// A failure about a field.
    pub fn refuse(&self, path: &str, text: impl std::fmt::Display) -> Failure {
        self.at(path, None, text)
    }

    fn at(&self, path: &str, name: Option<&str>, text: impl std::fmt::Display) -> Failure {
        let (path, place) = self.places.find(path, name);
        let field = if path.is_empty() { String::new() } else { format!(", field `{path}`") };
        Failure::usage(match place {
            Some(Place::Line(line)) => format!("{}, line {line}{field}: {text}", self.origin),
            Some(Place::Argument(argument)) => format!("{argument}: {text}"),
            None => format!("{}{field}: {text}", self.origin),
        })
    }

    /// Says where a setting that the library refused was written: the field itself, the short name
    /// of it, or else the section of the experiment.
    pub fn locate(&self, section: &str, failure: santa::Error) -> Failure {
        let santa::Error::Setting { field, value, allowed } = &failure else {
            return Failure::from(failure).within(&self.origin);
        };
        let short = field.rsplit('.').next().filter(|name| SHORT_NAMES.contains(name));
        let short = short.map(|name| join("optimizer", name));
        for name in [Some(field), short.as_ref()].into_iter().flatten() {
            if let (path, Some(_)) = self.places.find("", Some(name)) {
                return self.at(&path, None, format!("it is {value}: {allowed}"));
            }
        }
        match self.places.argument_below(section) {
            Some(argument) => Failure::usage(format!("{argument}: {failure}")),
            None => self.at(section, None, failure),
        }
    }
}

/// Defaults that depend on the length of an epoch.
fn fill_in(table: &mut Table, clock: Clock) {
    let integer = |n: u64| Value::Integer(n.max(1) as i64);
    /// Records of the training loss in an epoch.
    const LOGS: u64 = 10;
    table.entry("log_every").or_insert_with(|| integer(clock.steps_per_epoch / LOGS));
    for section in ["evaluation", "checkpoints"] {
        let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
        if let Some(section) = section.as_table_mut() {
            section.entry("every").or_insert_with(|| integer(clock.steps_per_epoch));
        }
    }
}

/// A value as in TOML; what is none is text.
pub fn parse_value(text: &str) -> Value {
    let text = text.trim();
    let parsed: Option<Table> = format!("value = {text}").parse().ok();
    let value = parsed.and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.into()))
}
