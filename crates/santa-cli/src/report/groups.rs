//! Which runs belong together: those that differ in nothing but the seed.

use crate::run::stored::StoredRun;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// The field that tells the runs of a group apart.
const SEED: &str = "seed";

/// An experiment and its groups, in the order in which they were handed over.
pub struct Experiment<'a> {
    /// Its name.
    pub name: String,
    /// At least one.
    pub groups: Vec<Group<'a>>,
}

/// Runs of the same settings with several seeds.
pub struct Group<'a> {
    /// What tables and legends show.
    pub label: String,
    /// The number of its label in the report, by which it has its colour.
    pub index: usize,
    /// How its runs ended. Those that ended otherwise make a group of their own.
    pub state: State,
    /// At least one, in the order of their seeds.
    pub runs: Vec<&'a StoredRun>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// With a result.
    Done,
    /// It diverged.
    Diverged,
    /// It may still go on.
    Unfinished,
}

impl State {
    /// The state of a run.
    pub fn of(run: &StoredRun) -> Self {
        match (&run.summary, &run.failure) {
            (Some(_), _) => State::Done,
            (None, Some(_)) => State::Diverged,
            (None, None) => State::Unfinished,
        }
    }
}

impl Group<'_> {
    /// The seeds of its runs.
    pub fn seeds(&self) -> impl Iterator<Item = i64> {
        self.runs.iter().filter_map(|run| seed(run))
    }
}

/// The seed of a run.
pub fn seed(run: &StoredRun) -> Option<i64> {
    run.experiment
        .get(SEED)
        .and_then(Value::as_integer)
        .or_else(|| run.summary.as_ref().and_then(|s| i64::try_from(s.seed).ok()))
}

/// The name of the experiment of a run.
pub fn experiment_name(run: &StoredRun) -> &str {
    let given = run.experiment.get("name").and_then(Value::as_str);
    given.or(run.summary.as_ref().map(|s| s.name.as_str())).unwrap_or("experiment")
}

/// Runs by experiment and settings. Of runs with the same settings and seed the first is taken.
pub fn group(runs: &[StoredRun]) -> Vec<Experiment<'_>> {
    let mut experiments: Vec<Experiment<'_>> = Vec::new();
    for run in runs {
        let name = experiment_name(run);
        let at = experiments.iter().position(|e| e.name == name).unwrap_or_else(|| {
            experiments.push(Experiment { name: name.into(), groups: Vec::new() });
            experiments.len() - 1
        });
        let groups = &mut experiments[at].groups;
        match groups.iter_mut().find(|g| belongs(run, g)) {
            // The same settings and seed make the same run: it would count twice.
            Some(group) if group.seeds().any(|s| Some(s) == seed(run)) => (),
            Some(group) => group.runs.push(run),
            None => groups.push(Group {
                label: String::new(),
                index: 0,
                state: State::of(run),
                runs: vec![run],
            }),
        }
    }
    // The same name has the same colour in every experiment.
    let mut labels: Vec<String> = Vec::new();
    for experiment in &mut experiments {
        label(&mut experiment.groups);
        for group in &mut experiment.groups {
            group.runs.sort_by_key(|run| seed(run));
            group.index = labels.iter().position(|l| *l == group.label).unwrap_or_else(|| {
                labels.push(group.label.clone());
                labels.len() - 1
            });
        }
    }
    experiments
}

fn belongs(run: &StoredRun, group: &Group<'_>) -> bool {
    let other = group.runs[0];
    group.state == State::of(run)
        && run.optimizer() == other.optimizer()
        && without_seed(&run.experiment).eq(without_seed(&other.experiment))
}

fn without_seed(experiment: &Table) -> impl Iterator<Item = (&String, &Value)> {
    experiment.iter().filter(|(key, _)| *key != SEED)
}

/// Names groups by their optimizer, and by what else differs where that is not enough.
fn label(groups: &mut [Group<'_>]) {
    let mut by_optimizer: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, group) in groups.iter().enumerate() {
        by_optimizer.entry(group.runs[0].optimizer().into()).or_default().push(i);
    }
    for (optimizer, members) in by_optimizer {
        let tables: Vec<_> = members.iter().map(|&i| &groups[i].runs[0].experiment).collect();
        let differences = differences(&tables);
        for (member, i) in members.into_iter().enumerate() {
            let mut label = optimizer.clone();
            for row in &differences {
                if let Some(value) = &row.values[member] {
                    // The last part of a field's path says enough in a legend.
                    let key = row.key.rsplit('.').next().unwrap_or(&row.key);
                    label.push_str(&format!(", {key} {value}"));
                }
            }
            label.push_str(match groups[i].state {
                State::Done => "",
                State::Diverged => ", diverged",
                State::Unfinished => ", unfinished",
            });
            groups[i].label = label;
        }
    }
}

/// A setting that is not the same everywhere.
pub struct Difference {
    /// Its path: `optimizer.step.lr`.
    pub key: String,
    /// Its value in each table; none where it is not given.
    pub values: Vec<Option<String>>,
}

/// The settings, but for the seed, in which tables differ, in the order in which they appear.
pub fn differences(tables: &[&Table]) -> Vec<Difference> {
    let flat: Vec<BTreeMap<String, String>> = tables
        .iter()
        .map(|table| {
            let mut fields = BTreeMap::new();
            for (key, value) in without_seed(table) {
                flatten(key, value, &mut fields);
            }
            fields
        })
        .collect();
    let keys: BTreeSet<&String> = flat.iter().flat_map(|fields| fields.keys()).collect();
    keys.into_iter()
        .map(|key| Difference {
            key: key.clone(),
            values: flat.iter().map(|fields| fields.get(key).cloned()).collect(),
        })
        .filter(|row| row.values.windows(2).any(|pair| pair[0] != pair[1]))
        .collect()
}

fn flatten(path: &str, value: &Value, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                flatten(&format!("{path}.{key}"), value, fields);
            }
        }
        value => {
            fields.insert(path.into(), plain(value));
        }
    }
}

/// A value in few words: a text without its quotes, a table by its name where it has one.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Table(table) => {
            let name = ["name", "set", "kind", "type"].iter().find_map(|key| table.get(*key));
            name.and_then(Value::as_str).map_or_else(|| value.to_string(), String::from)
        }
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(texts: &[&str]) -> Vec<Table> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn differences_leave_out_what_is_the_same_and_the_seed() {
        let tables = tables(&[
            "seed = 1\nbatch = 100\n[optimizer]\nname = 'adam'\nlr = 0.001",
            "seed = 2\nbatch = 100\n[optimizer]\nname = 'santa'\nstep = { lr = 0.1 }",
        ]);
        let found = differences(&tables.iter().collect::<Vec<_>>());
        let keys: Vec<_> = found.iter().map(|row| row.key.as_str()).collect();
        assert_eq!(keys, ["optimizer.lr", "optimizer.name", "optimizer.step.lr"]);
        assert_eq!(found[0].values, [Some("0.001".into()), None]);
        assert_eq!(found[1].values, [Some("adam".into()), Some("santa".into())]);
    }

    #[test]
    fn a_table_is_named_by_its_name() {
        let table: Table =
            "data = { set = 'mnist', size = 3 }\nmodel = { hidden = 4 }".parse().unwrap();
        assert_eq!(plain(&table["data"]), "mnist");
        assert_eq!(plain(&table["model"]), "{ hidden = 4 }");
    }
}
