//! The file of a study, and the experiments that it stands for.

use crate::experiment::Draft;
use crate::failure::{Failure, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Rows, columns, protocols, and the fields of the experiments in each of their cells.
#[derive(Clone, Debug)]
pub struct Study {
    /// Names its files.
    pub name: String,
    /// For the reader.
    pub title: String,
    /// What is compared, where a column does not say otherwise.
    score: Quantity,
    /// Fields of every run.
    experiment: Table,
    /// From left to right.
    pub columns: Vec<(String, Column)>,
    /// Rules, in the order in which they are shown.
    pub protocols: Vec<(String, Protocol)>,
    /// From top to bottom.
    pub rows: Vec<(String, Row)>,
    /// What the small version changes.
    quick: Quick,
    /// Whether it is the small version.
    small: bool,
}

/// A score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Wrong classes, in per cent.
    Error,
    /// Negative log-likelihood.
    Nll,
}

/// What is learnt.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// What tables call it.
    pub label: String,
    /// What one pass over the data takes on one thread, before anything has been measured.
    pub seconds_per_epoch: f64,
    /// What is compared in it, if not what the others compare.
    #[serde(default)]
    score: Option<Quantity>,
    /// Another column, whose chosen settings are taken over without a search.
    #[serde(default)]
    pub chosen_on: Option<String>,
    /// Fields of its runs.
    #[serde(default)]
    set: Table,
    /// File names, by row, of the authors' own learning curves, in the data folder.
    #[serde(default)]
    pub authors_curves: Table,
}

/// A rule of comparison.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// For the reader.
    pub description: String,
    /// Which prediction the table is about.
    pub shows: Prediction,
    /// Runs of a cell, each with its own seed: 1, 2, and so on.
    seeds: u64,
    /// The same for a column.
    #[serde(default)]
    seeds_of: Table,
    /// Fields of its runs.
    #[serde(default)]
    set: Table,
    /// How settings are chosen.
    #[serde(default)]
    pub tuning: Option<Tuning>,
}

/// A prediction at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prediction {
    /// Of the last parameters.
    Last,
    /// The average of predictions.
    Averaged,
    /// Of the parameters that were best on validation data.
    Best,
    /// As the paper's authors did: the average for samplers, the last one for optimizers.
    AsAuthors,
}

/// How settings are chosen, on validation data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// Settings that every row may try.
    trials: usize,
    /// The same for a column.
    #[serde(default)]
    trials_of: Table,
    /// Seed of the trials.
    seed: u64,
    /// Which prediction they are judged by.
    pub by: Prediction,
    /// Fields of the trials.
    #[serde(default)]
    set: Table,
    /// The same for a column.
    #[serde(default)]
    columns: Table,
}

/// A way to learn.
#[derive(Clone, Debug)]
pub struct Row {
    /// What tables call it.
    pub label: String,
    /// Where the numbers are from, if they are not ours.
    pub quoted: Option<String>,
    /// Whether the authors average its predictions.
    pub sampler: bool,
    /// The paper's numbers, by column.
    pub paper: Table,
    /// Its settings, by protocol.
    settings: Vec<(String, Settings)>,
}

/// Settings of a row under a protocol.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Fields of its runs.
    #[serde(default)]
    set: Table,
    /// Values to choose among, by field: a grid.
    #[serde(default)]
    search: Table,
    /// Runs of the cell, if not as many as the protocol says.
    #[serde(default)]
    seeds: Option<u64>,
    /// The same three for some columns.
    #[serde(default)]
    columns: Table,
    /// The only columns that it is for; all of them by default.
    #[serde(default)]
    only: Vec<String>,
}

/// The small version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Quick {
    /// Settings tried, at most.
    trials: usize,
    /// The columns.
    columns: Vec<String>,
    /// Fields of all its runs.
    set: Table,
    /// The same for a column.
    #[serde(default)]
    of: Table,
}

/// Fields and their values, in the order of the file.
pub type Fields = Vec<(String, Value)>;

/// A row under a protocol in a column, by their names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Of the protocol.
    pub protocol: String,
    /// Of the column.
    pub column: String,
    /// Of the row.
    pub row: String,
}

impl Study {
    /// Reads the file of a study.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let origin = format!("experiments/{name}.toml");
        let wrong = |e: toml::de::Error| Failure::usage(format!("{origin}: {e}"));
        let mut file: Table = text.parse().map_err(wrong)?;
        let mut take = |key: &str| {
            file.remove(key).ok_or_else(|| Failure::usage(format!("{origin}: no `{key}`")))
        };
        let title = take("title")?.try_into().map_err(wrong)?;
        let score = take("score")?.try_into().map_err(wrong)?;
        let experiment = take("experiment")?.try_into().map_err(wrong)?;
        let columns = named::<Column>(take("columns")?).map_err(wrong)?;
        let protocols = named::<Protocol>(take("protocols")?).map_err(wrong)?;
        let mut rows = Vec::new();
        for (name, row) in named::<Table>(take("rows")?).map_err(wrong)? {
            rows.push((name, Row::read(row, &protocols).map_err(wrong)?));
        }
        let quick = take("quick")?.try_into().map_err(wrong)?;
        let (name, small) = (name.to_string(), false);
        let study =
            Study { name, title, score, experiment, columns, protocols, rows, quick, small };
        study.check(&origin)?;
        Ok(study)
    }

    /// The study as it is, or its small version.
    pub fn sized(mut self, small: bool) -> Self {
        self.small = small;
        if small {
            self.columns.retain(|(name, _)| self.quick.columns.contains(name));
        }
        self
    }

    /// Whether it is the small version.
    pub fn is_quick(&self) -> bool {
        self.small
    }

    /// Every row has as many trials as its protocol says.
    fn check(&self, origin: &str) -> Result<()> {
        for place in self.places() {
            let Some(tuning) = &self.protocol(&place).tuning else { continue };
            if self.column(&place).chosen_on.is_some() {
                continue;
            }
            let found = self.grid(&place).len();
            let own = tuning.trials_of.get(&place.column).and_then(Value::as_integer);
            let due = own.map_or(tuning.trials, |n| n as usize);
            if found != due {
                let Place { protocol, column, row } = &place;
                return Err(Failure::usage(format!(
                    "{origin}: {row} has {found} settings to try in {column} ({protocol}), not {due}"
                )));
            }
        }
        Ok(())
    }

    /// All cells, quoted ones left out.
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for (protocol, _) in &self.protocols {
            for (column, _) in &self.columns {
                for (row, _) in &self.rows {
                    let place = Place {
                        protocol: protocol.clone(),
                        column: column.clone(),
                        row: row.clone(),
                    };
                    let settings = self.settings(&place);
                    if settings.is_some_and(|s| s.only.is_empty() || s.only.contains(column)) {
                        places.push(place);
                    }
                }
            }
        }
        places
    }

    /// The column of a cell.
    pub fn column(&self, place: &Place) -> &Column {
        find(&self.columns, &place.column)
    }
    /// What is compared in a column.
    pub fn score(&self, column: &str) -> Quantity {
        find(&self.columns, column).score.unwrap_or(self.score)
    }
    /// The protocol of a cell.
    pub fn protocol(&self, place: &Place) -> &Protocol {
        find(&self.protocols, &place.protocol)
    }
    /// The row of a cell.
    pub fn row(&self, place: &Place) -> &Row {
        find(&self.rows, &place.row)
    }

    fn settings(&self, place: &Place) -> Option<&Settings> {
        let mut settings = self.row(place).settings.iter();
        settings.find(|(protocol, _)| *protocol == place.protocol).map(|(_, settings)| settings)
    }

    /// What a row says about a column in particular.
    fn special(&self, place: &Place) -> Settings {
        let columns = self.settings(place).and_then(|settings| settings.columns.get(&place.column));
        columns.and_then(|value| value.clone().try_into().ok()).unwrap_or_default()
    }

    /// Seeds of a cell's runs.
    pub fn seeds(&self, place: &Place, asked: Option<u64>) -> std::ops::RangeInclusive<u64> {
        let protocol = self.protocol(place);
        let of_column = protocol.seeds_of.get(&place.column).and_then(Value::as_integer);
        let own = self.special(place).seeds.or(self.settings(place).and_then(|s| s.seeds));
        let seeds = asked.or(self.small.then_some(1)).or(own);
        1..=seeds.unwrap_or(of_column.map_or(protocol.seeds, |n| n.unsigned_abs()))
    }

    /// The settings that a row may try; one of nothing where there is nothing to choose.
    pub fn grid(&self, place: &Place) -> Vec<Fields> {
        let special = self.special(place).search;
        let general = self.settings(place).map(|settings| settings.search.clone());
        let search = if special.is_empty() { general.unwrap_or_default() } else { special };
        let mut grid: Vec<Fields> = vec![Vec::new()];
        for (key, values) in &search {
            let values = values.as_array().cloned().unwrap_or_else(|| vec![values.clone()]);
            let with = |fields: &Fields| {
                let add = |value: &Value| {
                    let mut fields = fields.clone();
                    fields.push((key.clone(), value.clone()));
                    fields
                };
                values.iter().map(add).collect::<Vec<_>>()
            };
            grid = grid.iter().flat_map(with).collect();
        }
        if self.small {
            grid.truncate(self.quick.trials);
        }
        grid
    }

    /// The trial of some settings.
    pub fn trial(&self, place: &Place, fields: &Fields) -> Result<Draft> {
        let tuning = self.protocol(place).tuning.as_ref();
        let tuning = tuning.ok_or_else(|| Failure::system("a trial where nothing is chosen"))?;
        let mut draft = self.draft(place, fields)?;
        insert_all(&mut draft, &tuning.set)?;
        if let Some(set) = tuning.columns.get(&place.column).and_then(Value::as_table) {
            insert_all(&mut draft, set)?;
        }
        draft.insert("evaluation.test", Value::Boolean(false), "tuning")?;
        self.finish(draft, place, tuning.seed)
    }

    /// A run that counts, with the settings that were chosen.
    pub fn run(&self, place: &Place, chosen: &Fields, seed: u64) -> Result<Draft> {
        let draft = self.draft(place, chosen)?;
        self.finish(draft, place, seed)
    }

    fn draft(&self, place: &Place, fields: &Fields) -> Result<Draft> {
        let Place { protocol, column, row } = place;
        let mut table = self.experiment.clone();
        table.insert("name".into(), Value::String(format!("{}-{column}-{protocol}", self.name)));
        let mut draft =
            Draft::from_table(&format!("experiments/{}.toml ({row})", self.name), table);
        insert_all(&mut draft, &self.column(place).set)?;
        insert_all(&mut draft, &self.protocol(place).set)?;
        if let Some(settings) = self.settings(place) {
            insert_all(&mut draft, &settings.set)?;
        }
        insert_all(&mut draft, &self.special(place).set)?;
        for (key, value) in fields {
            draft.insert(key, value.clone(), key)?;
        }
        Ok(draft)
    }

    fn finish(&self, mut draft: Draft, place: &Place, seed: u64) -> Result<Draft> {
        if self.small {
            insert_all(&mut draft, &self.quick.set)?;
            if let Some(set) = self.quick.of.get(&place.column).and_then(Value::as_table) {
                insert_all(&mut draft, set)?;
            }
        }
        draft.insert("optimizer.name", Value::String(place.row.clone()), "the row's name")?;
        draft.insert("seed", Value::Integer(seed as i64), "--seeds")?;
        Ok(draft)
    }
}

impl Row {
    fn read(
        mut table: Table,
        protocols: &[(String, Protocol)],
    ) -> std::result::Result<Self, toml::de::Error> {
        let mut settings = Vec::new();
        for (name, _) in protocols {
            if let Some(value) = table.remove(name) {
                settings.push((name.clone(), value.try_into()?));
            }
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Rest {
            label: String,
            #[serde(default)]
            quoted: Option<String>,
            #[serde(default)]
            sampler: bool,
            #[serde(default)]
            paper: Table,
        }
        let Rest { label, quoted, sampler, paper } = Value::Table(table).try_into()?;
        Ok(Row { label, quoted, sampler, paper, settings })
    }

    /// The paper's number in a column.
    pub fn paper(&self, column: &str) -> Option<f64> {
        self.paper.get(column).and_then(Value::as_float)
    }
}

/// The entries of a table, by name, in the order of the file.
fn named<T: DeserializeOwned>(
    value: Value,
) -> std::result::Result<Vec<(String, T)>, toml::de::Error> {
    let table: Table = value.try_into()?;
    table.into_iter().map(|(name, value)| Ok((name, value.try_into()?))).collect()
}

fn find<'a, T>(list: &'a [(String, T)], name: &str) -> &'a T {
    let mut found = list.iter().filter(|(other, _)| other == name);
    // Places are made of the names in the lists.
    &found.next().expect("a name of the study").1
}

/// Lays fields over a draft. A table that says what it is replaces what was there; of any other, the
/// entries do.
fn insert_all(draft: &mut Draft, fields: &Table) -> Result<()> {
    const WHOLE: [&str; 2] = ["clip", "on_trouble"];
    let says = |table: &Table| ["kind", "like", "algorithm"].iter().any(|k| table.contains_key(*k));
    for (key, value) in fields {
        match value {
            Value::Table(table) if !says(table) && !WHOLE.contains(&key.as_str()) => {
                for (inner, value) in table {
                    let path = format!("{key}.{inner}");
                    draft.insert(&path, value.clone(), &path)?;
                }
            }
            _ => draft.insert(key, value.clone(), key)?,
        }
    }
    Ok(())
}
