//! An experiment as it was written: read, changed, and resolved.

use super::catalog::{self, EXPERIMENTS, OPTIMIZERS, Preset};
use super::duration::Clock;
use super::places::{Place, Places, join};
use super::{Data, Experiment, steps_per_epoch};
use crate::failure::{Failure, Result};
use crate::nearest::{did_you_mean, suggestion};
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
    places: Places,
}

/// Places of a duration in the table, beside all of `optimizer`.
const DURATIONS: [&[&str]; 5] = [
    &["log_every"],
    &["evaluation", "every"],
    &["averaging", "from"],
    &["averaging", "every"],
    &["checkpoints", "every"],
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
        Ok(Draft { origin: origin.into(), table, places: Places::of(text) })
    }

    /// Replaces fields, a table as a whole before its parts.
    pub fn set_all(&mut self, assignments: &[String]) -> Result<()> {
        let depth = |assignment: &&String| {
            assignment.split('=').next().map_or(0, |key| key.matches('.').count())
        };
        let mut assignments: Vec<&String> = assignments.iter().collect();
        assignments.sort_by_key(depth);
        assignments.into_iter().try_for_each(|assignment| self.set(assignment))
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

    /// Replaces a field. `argument` is where it came from, for messages.
    pub fn insert(&mut self, key: &str, value: Value, argument: &str) -> Result<()> {
        let mut steps = key.split('.').collect::<Vec<_>>();
        let last = steps.pop().filter(|last| !last.is_empty());
        let Some(last) = last.filter(|_| steps.iter().all(|step| !step.is_empty())) else {
            return Err(Failure::usage(format!("{argument}: `{key}` is no path of a field")));
        };
        let mut table = &mut self.table;
        for (i, step) in steps.iter().enumerate() {
            let entry = table.entry(*step).or_insert_with(|| Value::Table(Table::new()));
            // An optimizer that is given by its name alone becomes the table it stands for.
            if let (0, "optimizer", Value::String(name)) = (i, *step, &*entry) {
                let like = Value::String(name.clone());
                *entry = Value::Table(Table::from_iter([("like".to_string(), like)]));
            }
            table = entry.as_table_mut().ok_or_else(|| {
                Failure::usage(format!("{argument}: `{}` is no table", steps[..=i].join(".")))
            })?;
        }
        table.insert(last.into(), value);
        self.places.argument(key, argument);
        Ok(())
    }

    /// As TOML: what was written, with the replacements.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(&self.table).map_err(|e| Failure::usage(format!("writing TOML: {e}")))
    }

    /// Fills in every field, turns durations into steps, and checks the whole.
    pub fn resolve(&self) -> Result<Experiment> {
        let mut table = self.table.clone();
        self.expand_optimizer(&mut table)?;
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
        let clock = Clock { steps_per_epoch, epochs };
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

    /// `optimizer = "adam"` and `optimizer.like = "adam"` become the settings they stand for.
    fn expand_optimizer(&self, table: &mut Table) -> Result<()> {
        let given = match table.remove("optimizer") {
            Some(Value::String(name)) => {
                Table::from_iter([("like".to_string(), Value::String(name))])
            }
            Some(Value::Table(given)) => given,
            Some(_) => return Err(self.refuse("optimizer", "it must be a name or a table")),
            None => return Err(self.refuse("optimizer", "it is missing").hint(OPTIMIZER_HINT)),
        };
        let mut given = given;
        let mut optimizer = match given.remove("like") {
            Some(Value::String(name)) => {
                let preset = catalog::optimizer(&name).ok_or_else(|| {
                    let names = OPTIMIZERS.iter().map(|Preset { name, .. }| *name);
                    let text =
                        format!("there is none called `{name}`{}", did_you_mean(&name, names));
                    self.refuse("optimizer", text).hint(OPTIMIZER_HINT)
                })?;
                let mut base: Table = preset.parse().map_err(|e: toml::de::Error| {
                    Failure::system(format!("built-in optimizer `{name}`: {e}"))
                })?;
                base.remove("description");
                base.insert("name".into(), Value::String(name));
                base
            }
            Some(_) => return Err(self.refuse("optimizer.like", "it must be a name")),
            None => Table::new(),
        };
        short_names(&mut given, &optimizer);
        merge(&mut optimizer, given);
        if !optimizer.contains_key("name") {
            let name = optimizer.get("algorithm").cloned();
            optimizer.extend(name.map(|name| ("name".to_string(), name)));
        }
        if !optimizer.contains_key("algorithm") {
            let text = "it names neither `like` nor `algorithm`";
            return Err(self.refuse("optimizer", text).hint(OPTIMIZER_HINT));
        }
        table.insert("optimizer".into(), Value::Table(optimizer));
        Ok(())
    }

    fn read<T: DeserializeOwned>(&self, path: &str, value: Option<Value>) -> Result<T> {
        let value = value.ok_or_else(|| self.refuse(path, "it is missing"))?;
        serde_path_to_error::deserialize(value).map_err(|error| {
            let below = error.path().to_string();
            let path = match below.as_str() {
                "." => path.to_string(),
                below => join(path, below),
            };
            let message = error.inner().message().trim().to_string();
            let text = format!("{message}{}", suggestion(&message));
            let name = message.starts_with("unknown").then(|| message.split('`').nth(1)).flatten();
            self.at(&path, name, text)
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
            return failure.into();
        };
        let short = field.rsplit('.').next().filter(|name| SHORT_NAMES.contains(name));
        let short = short.map(|name| join("optimizer", name));
        for name in [Some(field), short.as_ref()].into_iter().flatten() {
            if let (path, Some(_)) = self.places.find("", Some(name)) {
                return self.at(&path, None, format!("it is {value}: {allowed}"));
            }
        }
        self.at(section, None, failure)
    }
}

const OPTIMIZER_HINT: &str = "`santa presets` lists the optimizers";

/// They stand for wherever an algorithm keeps them.
const SHORT_NAMES: [&str; 2] = ["lr", "momentum"];

/// Puts the short names where the algorithm wants them.
fn short_names(given: &mut Table, base: &Table) {
    let algorithm = given.get("algorithm").or_else(|| base.get("algorithm"));
    let second_order = ["santa", "msgnht", "sghmc", "sgnht"];
    let first_order = ["sgld", "psgld"];
    let algorithm = algorithm.and_then(Value::as_str).unwrap_or_default().to_string();
    for name in SHORT_NAMES {
        if second_order.contains(&algorithm.as_str()) {
            let Some(value) = given.remove(name) else { continue };
            let step = Table::from_iter([(name.to_string(), value)]);
            merge(given, Table::from_iter([("step".to_string(), Value::Table(step))]));
        } else if first_order.contains(&algorithm.as_str()) && name == "lr" {
            let Some(value) = given.remove(name) else { continue };
            let rate = Table::from_iter([(name.to_string(), value)]);
            given.insert("rate".into(), Value::Table(rate));
        }
    }
}

/// Puts one table over another. A table that says what kind it is replaces what was there, and so do
/// the choices of one among several (`rate`, `exploration`, ...), whose only key is their name.
fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(value))
                if !chooses(&value) && !replaces(below, &value) =>
            {
                merge(below, value);
            }
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

fn chooses(table: &Table) -> bool {
    table.contains_key("kind") || table.contains_key("units")
}

/// Whether both have one key, and not the same.
fn replaces(below: &Table, over: &Table) -> bool {
    below.len() == 1 && over.len() == 1 && below.keys().next() != over.keys().next()
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
