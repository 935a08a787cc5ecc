//! From a cell to experiments: fields laid over each other, and what a row may choose among.

use super::schema::{Fields, Place, Study, TOGETHER, Tuning};
use crate::experiment::Draft;
use crate::failure::{Failure, Result};
use toml::{Table, Value};

impl Study {
    /// The settings that a row may try, in the column that it takes them over from if it does; one of
    /// nothing where there is nothing to choose.
    pub fn grid(&self, place: &Place) -> Vec<Fields> {
        let column = self.column(place).chosen_on.as_ref().unwrap_or(&place.column);
        let there = Place { column: column.clone(), ..place.clone() };
        let search = self.own_search(&there).or_else(|| Some(&self.settings(place)?.search));
        search.map_or_else(|| vec![Fields::new()], |search| self.grid_of(search))
    }

    /// What a row tries in a column that takes settings over: to be laid over them.
    pub fn refinements(&self, place: &Place) -> Vec<Fields> {
        self.own_search(place).map_or_else(Vec::new, |search| self.grid_of(search))
    }

    /// The list of a row for this column alone.
    fn own_search(&self, place: &Place) -> Option<&Table> {
        self.special(place).map(|special| &special.search).filter(|search| !search.is_empty())
    }

    fn grid_of(&self, search: &Table) -> Vec<Fields> {
        let mut grid: Vec<Fields> = vec![Vec::new()];
        for (key, values) in search {
            let values = match values {
                Value::Array(values) => values.clone(),
                Value::String(list) if key == TOGETHER => {
                    self.lists[list].iter().cloned().map(Value::Table).collect()
                }
                value => vec![value.clone()],
            };
            let with = |fields: &Fields| {
                let add = |value: &Value| {
                    let mut fields = fields.clone();
                    match value {
                        Value::Table(several) if key == TOGETHER => fields.extend(apart(several)),
                        _ => fields.push((key.clone(), value.clone())),
                    }
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
        self.on_validation(place, fields, &Table::new(), self.tuning(place)?.seed)
    }

    /// A trial of the second round.
    pub fn final_trial(&self, place: &Place, fields: &Fields, seed: u64) -> Result<Draft> {
        let finals = self.finals(place).ok_or_else(|| Failure::system("no second round here"))?;
        self.on_validation(place, fields, &finals.set, seed)
    }

    fn tuning(&self, place: &Place) -> Result<&Tuning> {
        let tuning = self.protocol(place).tuning.as_ref();
        tuning.ok_or_else(|| Failure::system("a trial where nothing is chosen"))
    }

    /// A run that is judged by validation data and does not see the test data.
    fn on_validation(
        &self,
        place: &Place,
        fields: &Fields,
        set: &Table,
        seed: u64,
    ) -> Result<Draft> {
        let tuning = self.tuning(place)?;
        let mut draft = self.draft(place, fields)?;
        insert_all(&mut draft, &tuning.set)?;
        if let Some(set) = tuning.columns.get(&place.column) {
            insert_all(&mut draft, set)?;
        }
        insert_all(&mut draft, set)?;
        draft.insert("evaluation.test", Value::Boolean(false), "tuning")?;
        self.finish(draft, place, seed)
    }

    /// A run that counts, with the settings that were chosen.
    pub fn run(&self, place: &Place, chosen: &Fields, seed: u64) -> Result<Draft> {
        let draft = self.draft(place, chosen)?;
        self.finish(draft, place, seed)
    }

    fn draft(&self, place: &Place, fields: &Fields) -> Result<Draft> {
        let Place { protocol: rule, column, row } = place;
        let mut table = self.experiment.clone();
        table.insert("name".into(), Value::String(format!("{}-{column}-{rule}", self.name)));
        let mut draft =
            Draft::from_table(&format!("experiments/{}.toml ({row})", self.name), table);
        insert_all(&mut draft, &self.column(place).set)?;
        let protocol = self.protocol(place);
        insert_all(&mut draft, &protocol.set)?;
        if let Some(set) = protocol.columns.get(column) {
            insert_all(&mut draft, set)?;
        }
        if let Some(settings) = self.settings(place) {
            insert_all(&mut draft, &settings.set)?;
        }
        if let Some(special) = self.special(place) {
            insert_all(&mut draft, &special.set)?;
        }
        for (key, value) in fields {
            draft.insert(key, value.clone(), key)?;
        }
        Ok(draft)
    }

    fn finish(&self, mut draft: Draft, place: &Place, seed: u64) -> Result<Draft> {
        if self.small {
            insert_all(&mut draft, &self.quick.set)?;
            if let Some(set) = self.quick.of.get(&place.column) {
                insert_all(&mut draft, set)?;
            }
        }
        draft.insert("optimizer.name", Value::String(place.row.clone()), "the row's name")?;
        draft.insert("seed", Value::Integer(seed as i64), "--seeds")?;
        Ok(draft)
    }
}

/// Lays fields over a draft.
fn insert_all(draft: &mut Draft, fields: &Table) -> Result<()> {
    apart(fields).into_iter().try_for_each(|(path, value)| draft.insert(&path, value, &path))
}

/// The fields of a table, by their paths. A table that says what it is replaces what was there; of any
/// other, the entries do.
fn apart(table: &Table) -> Fields {
    const WHOLE: [&str; 2] = ["clip", "on_trouble"];
    let says = |table: &Table| ["kind", "like", "algorithm"].iter().any(|k| table.contains_key(*k));
    let mut fields = Fields::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) if !says(inner) && !WHOLE.contains(&key.as_str()) => {
                fields.extend(inner.iter().map(|(name, v)| (format!("{key}.{name}"), v.clone())));
            }
            _ => fields.push((key.clone(), value.clone())),
        }
    }
    fields
}
