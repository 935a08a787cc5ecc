//! The file of a study, and the experiments that it stands for.

use crate::failure::{Failure, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// Rows, columns, protocols, and the fields of the experiments in each of their cells.
#[derive(Clone, Debug)]
pub struct Study {
    /// Names its files.
    pub name: String,
    /// For the reader.
    pub title: String,
    /// What is compared, where a column does not say otherwise.
    pub(super) score: Quantity,
    /// Fields of every run.
    pub(super) experiment: Table,
    /// From left to right.
    pub columns: Vec<(String, Column)>,
    /// Rules, in the order in which they are shown.
    pub protocols: Vec<(String, Protocol)>,
    /// From top to bottom.
    pub rows: Vec<(String, Row)>,
    /// Lists of fields that go together, for rows that choose among the same ones.
    pub(super) lists: BTreeMap<String, Vec<Table>>,
    /// What the small version changes.
    pub(super) quick: Quick,
    /// Whether it is the small version.
    pub(super) small: bool,
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
    /// How many data that are.
    pub examples: usize,
    /// What is compared in it, if not what the others compare.
    #[serde(default)]
    pub(super) score: Option<Quantity>,
    /// Another column, whose chosen settings are taken over. What a row has to search in this one is
    /// laid over them, and decided by finals.
    #[serde(default)]
    pub chosen_on: Option<String>,
    /// Fields of its runs.
    #[serde(default)]
    pub(super) set: Table,
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
    pub(super) seeds: u64,
    /// The same for a column.
    #[serde(default)]
    pub(super) seeds_of: ByColumn<u64>,
    /// Fields of its runs.
    #[serde(default)]
    pub(super) set: Table,
    /// The same for a column.
    #[serde(default)]
    pub(super) columns: ByColumn<Table>,
    /// The only columns that it is for; all of them by default.
    #[serde(default)]
    only: Vec<String>,
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
    /// The average of predictions as it was when it was best on validation data.
    BestAveraged,
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
    pub(super) trials: usize,
    /// The same for a column.
    #[serde(default)]
    pub(super) trials_of: ByColumn<usize>,
    /// Seed of the trials.
    pub(super) seed: u64,
    /// Which prediction they are judged by.
    pub by: Prediction,
    /// Fields of the trials.
    #[serde(default)]
    pub(super) set: Table,
    /// The same for a column.
    #[serde(default)]
    pub(super) columns: ByColumn<Table>,
    /// How the choice among the best of them is made.
    #[serde(default)]
    pub finals: Option<Finals>,
}

/// A second round of trials: the best of the first one meet again, for longer and with several seeds,
/// because differences between good settings are smaller than what one seed does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finals {
    /// How many of every row are in it.
    pub(super) settings: usize,
    /// Seeds with which each of them is tried.
    pub(super) seeds: Vec<u64>,
    /// Fields of these trials, laid over those of the first round.
    #[serde(default)]
    pub(super) set: Table,
    /// The only columns that have it; all of them by default.
    #[serde(default)]
    pub(super) only: Vec<String>,
}

/// A way to learn.
#[derive(Clone, Debug)]
pub struct Row {
    /// What tables call it.
    pub label: String,
    /// Where the numbers are from, if they are not ours.
    pub quoted: Option<String>,
    /// What the paper's numbers are, where they are not its own of the same thing.
    pub paper_is: Option<String>,
    /// Whether the authors average its predictions.
    pub sampler: bool,
    /// The paper's numbers.
    paper: ByColumn<f64>,
    /// Its settings, by protocol.
    pub(super) settings: Vec<(String, Settings)>,
}

/// Settings of a row under a protocol.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// Fields of its runs.
    #[serde(default)]
    pub(super) set: Table,
    /// Values to choose among, by field: a grid. Under `together`, tables of fields that go together, or
    /// the name of a list of such tables.
    #[serde(default)]
    pub(super) search: Table,
    /// Runs of the cell, if not as many as the protocol says.
    #[serde(default)]
    pub(super) seeds: Option<u64>,
    /// The same three for some columns.
    #[serde(default)]
    pub(super) columns: ByColumn<Special>,
    /// The only columns that it is for; all of them by default.
    #[serde(default)]
    pub(super) only: Vec<String>,
}

/// Settings of a row for one column.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Special {
    /// Fields of its runs.
    #[serde(default)]
    pub(super) set: Table,
    /// Values to choose among, in place of the row's.
    #[serde(default)]
    pub(super) search: Table,
    /// Runs of the cell.
    #[serde(default)]
    pub(super) seeds: Option<u64>,
}

/// The small version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quick {
    /// Settings tried, at most.
    pub(super) trials: usize,
    /// The columns.
    pub(super) columns: Vec<String>,
    /// Fields of all its runs.
    pub(super) set: Table,
    /// The same for a column.
    #[serde(default)]
    pub(super) of: ByColumn<Table>,
}

/// Something for some of the columns, by their names.
type ByColumn<T> = BTreeMap<String, T>;

/// The file, table by table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    score: Quantity,
    experiment: Table,
    columns: Table,
    protocols: Table,
    rows: Table,
    #[serde(default)]
    lists: BTreeMap<String, Vec<Table>>,
    quick: Quick,
}

/// The name of the axis of a grid whose values are tables of several fields.
pub(super) const TOGETHER: &str = "together";

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
    /// Reads the file of a study; `origin` names it in messages.
    pub fn parse(name: &str, origin: &str, text: &str) -> Result<Self> {
        let wrong = |e: toml::de::Error| Failure::usage(format!("{origin}: {e}"));
        let file: File = toml::from_str(text).map_err(wrong)?;
        let protocols = named::<Protocol>(file.protocols).map_err(wrong)?;
        let mut rows = Vec::new();
        for (name, row) in named::<Table>(file.rows).map_err(wrong)? {
            let row = Row::read(row, &protocols);
            rows.push((name.clone(), row.map_err(|e| wrong(e).within(name))?));
        }
        let study = Study {
            name: name.into(),
            title: file.title,
            score: file.score,
            experiment: file.experiment,
            columns: named(file.columns).map_err(wrong)?,
            protocols,
            rows,
            lists: file.lists,
            quick: file.quick,
            small: false,
        };
        let checked = study.check_columns().and_then(|()| study.check_lists());
        let checked = checked.and_then(|()| study.check_trials());
        checked.map_err(|text| Failure::usage(format!("{origin}: {text}")))?;
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

    /// Every column that is spoken of is there.
    fn check_columns(&self) -> std::result::Result<(), String> {
        let mut named: Vec<&String> = self.quick.columns.iter().collect();
        named.extend(self.quick.of.keys());
        for (_, protocol) in &self.protocols {
            named.extend(protocol.seeds_of.keys().chain(protocol.columns.keys()));
            named.extend(&protocol.only);
            if let Some(tuning) = &protocol.tuning {
                named.extend(tuning.trials_of.keys().chain(tuning.columns.keys()));
                named.extend(tuning.finals.iter().flat_map(|finals| &finals.only));
            }
        }
        for (_, row) in &self.rows {
            named.extend(row.paper.keys());
            for (_, settings) in &row.settings {
                named.extend(settings.columns.keys().chain(&settings.only));
            }
        }
        let column = |name: &str| self.columns.iter().find(|(other, _)| other == name);
        if let Some(name) = named.into_iter().find(|name| column(name).is_none()) {
            return Err(format!("there is no column `{name}`"));
        }
        for (name, source) in
            self.columns.iter().filter_map(|(n, c)| Some((n, c.chosen_on.as_ref()?)))
        {
            match column(source) {
                None => {
                    return Err(format!("`{name}` is chosen on `{source}`, which is no column"));
                }
                Some((_, column)) if column.chosen_on.is_some() => {
                    return Err(format!("`{name}` is chosen on `{source}`, which has no trials"));
                }
                Some(_)
                    if self.quick.columns.contains(name)
                        && !self.quick.columns.contains(source) =>
                {
                    return Err(format!("quick: `{name}` needs `{source}`, which it is chosen on"));
                }
                Some(_) => (),
            }
        }
        Ok(())
    }

    /// Every list that is spoken of is there, and every one that is there is spoken of.
    fn check_lists(&self) -> std::result::Result<(), String> {
        let mut named = BTreeSet::new();
        for (row, settings) in
            self.rows.iter().flat_map(|(n, r)| r.settings.iter().map(move |(_, s)| (n, s)))
        {
            let own = settings.columns.values().map(|special| &special.search);
            for search in own.chain([&settings.search]) {
                let Some(list) = search.get(TOGETHER).and_then(Value::as_str) else { continue };
                if !self.lists.contains_key(list) {
                    return Err(format!("{row} chooses from a list `{list}`, which is not there"));
                }
                named.insert(list);
            }
        }
        match self.lists.keys().find(|list| !named.contains(list.as_str())) {
            Some(list) => Err(format!("no row chooses from the list `{list}`")),
            None => Ok(()),
        }
    }

    /// Every row has as many trials as its protocol says.
    fn check_trials(&self) -> std::result::Result<(), String> {
        for (name, protocol) in &self.protocols {
            let finals = protocol.tuning.as_ref().and_then(|tuning| tuning.finals.as_ref());
            if finals.is_some_and(|finals| finals.settings < 2 || finals.seeds.is_empty()) {
                return Err(format!("finals of `{name}`: at least two settings and one seed"));
            }
        }
        for place in self.places() {
            let Some(tuning) = &self.protocol(&place).tuning else { continue };
            let (found, due) = match self.column(&place).chosen_on {
                None => (self.grid(&place).len(), tuning.trials),
                Some(_) => (self.refinements(&place).len(), 0),
            };
            let due = *tuning.trials_of.get(&place.column).unwrap_or(&due);
            if found != due {
                let Place { protocol, column, row } = &place;
                return Err(format!(
                    "{row} has {found} settings to try in {column} ({protocol}), not {due}"
                ));
            }
        }
        Ok(())
    }

    /// All cells, quoted ones left out.
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for (protocol, rule) in &self.protocols {
            for (column, _) in self.columns_of(rule) {
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

    /// The columns that a protocol is for.
    pub fn columns_of(&self, protocol: &Protocol) -> impl Iterator<Item = &(String, Column)> {
        let only = protocol.only.clone();
        self.columns.iter().filter(move |(name, _)| only.is_empty() || only.contains(name))
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
    /// The second round of a cell's trials, if there is one. The small version has none.
    pub(super) fn finals(&self, place: &Place) -> Option<&Finals> {
        let finals = self.protocol(place).tuning.as_ref()?.finals.as_ref()?;
        let here = finals.only.is_empty() || finals.only.contains(&place.column);
        (here && !self.small).then_some(finals)
    }
    /// The row of a cell.
    pub fn row(&self, place: &Place) -> &Row {
        find(&self.rows, &place.row)
    }

    pub(super) fn settings(&self, place: &Place) -> Option<&Settings> {
        let mut settings = self.row(place).settings.iter();
        settings.find(|(protocol, _)| *protocol == place.protocol).map(|(_, settings)| settings)
    }

    /// What a row says about a column in particular.
    pub(super) fn special(&self, place: &Place) -> Option<&Special> {
        self.settings(place)?.columns.get(&place.column)
    }

    /// Seeds of a cell's runs.
    pub fn seeds(&self, place: &Place, asked: Option<u64>) -> std::ops::RangeInclusive<u64> {
        let protocol = self.protocol(place);
        let own = self.special(place).and_then(|special| special.seeds);
        let own = own.or_else(|| self.settings(place)?.seeds);
        let own = own.or_else(|| protocol.seeds_of.get(&place.column).copied());
        let small = self.small.then_some(1);
        1..=asked.or(small).or(own).unwrap_or(protocol.seeds)
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
            paper_is: Option<String>,
            #[serde(default)]
            sampler: bool,
            #[serde(default)]
            paper: ByColumn<f64>,
        }
        let Rest { label, quoted, paper_is, sampler, paper } = Value::Table(table).try_into()?;
        Ok(Row { label, quoted, paper_is, sampler, paper, settings })
    }

    /// The paper's number in a column.
    pub fn paper(&self, column: &str) -> Option<f64> {
        self.paper.get(column).copied()
    }
}

/// The entries of a table, by name, in the order of the file.
fn named<T: DeserializeOwned>(
    table: Table,
) -> std::result::Result<Vec<(String, T)>, toml::de::Error> {
    table.into_iter().map(|(name, value)| Ok((name, value.try_into()?))).collect()
}

fn find<'a, T>(list: &'a [(String, T)], name: &str) -> &'a T {
    let mut found = list.iter().filter(|(other, _)| other == name);
    // Places are made of the names in the lists.
    &found.next().expect("a name of the study").1
}
