//! Where each field of an experiment was written, for messages.

use std::collections::HashMap;
use toml::de::{DeTable, DeValue};

/// Where a field was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a line of the file, from 1.
    Line(usize),
    /// On the command line.
    Argument(String),
}

/// The places of all fields, by path (`optimizer.step`).
#[derive(Clone, Debug, Default)]
pub struct Places(HashMap<String, Place>);

impl Places {
    /// The places in a text that parses.
    pub fn of(text: &str) -> Self {
        let mut places = Places::default();
        if let Ok(table) = DeTable::parse(text) {
            places.visit(text, "", table.get_ref());
        }
        places
    }

    fn visit(&mut self, text: &str, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            let path = join(prefix, key.get_ref());
            let line = text[..key.span().start].matches('\n').count() + 1;
            self.0.insert(path.clone(), Place::Line(line));
            self.visit_value(text, &path, value.get_ref());
        }
    }

    fn visit_value(&mut self, text: &str, path: &str, value: &DeValue<'_>) {
        if let Some(table) = value.as_table() {
            self.visit(text, path, table);
        }
        for (i, item) in value.as_array().into_iter().flatten().enumerate() {
            self.visit_value(text, &format!("{path}[{i}]"), item.get_ref());
        }
    }

    /// A field came from the command line, and so did what contains it unless it was there before.
    pub fn argument(&mut self, path: &str, argument: &str) {
        let place = Place::Argument(argument.into());
        for (end, _) in path.match_indices('.') {
            self.0.entry(path[..end].into()).or_insert_with(|| place.clone());
        }
        self.0.insert(path.into(), place);
    }

    /// What was said on the command line of fields at or below a path.
    pub fn argument_below(&self, path: &str) -> Option<&str> {
        let below = |known: &str| {
            known.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut found: Vec<_> = self.0.iter().filter(|(known, _)| below(known)).collect();
        found.sort_by_key(|(known, _)| known.as_str());
        found.into_iter().find_map(|(_, place)| match place {
            Place::Argument(argument) => Some(argument.as_str()),
            Place::Line(_) => None,
        })
    }

    /// The field that a message is about: the path itself, `name` below it, or what contains it.
    /// `name` may leave out steps of the path (`step.lr` for `step.practical.lr`).
    pub fn find(&self, path: &str, name: Option<&str>) -> (String, Option<&Place>) {
        if let Some(name) = name {
            let below = |known: &&String| {
                let rest = if path.is_empty() {
                    Some(known.as_str())
                } else {
                    known.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'))
                };
                rest.is_some_and(|rest| leads_to(rest, name))
            };
            let mut found: Vec<&String> = self.0.keys().filter(below).collect();
            found.sort_by_key(|known| (known.len(), *known));
            if let Some(known) = found.first() {
                return ((*known).clone(), self.0.get(*known));
            }
        }
        let mut at = path;
        loop {
            if let Some(place) = self.0.get(at) {
                return (if path.is_empty() { at } else { path }.into(), Some(place));
            }
            match at.rfind('.') {
                Some(end) => at = &at[..end],
                None => return (path.into(), None),
            }
        }
    }
}

/// Whether the steps of `name` occur in this order in `path`, the last at its end.
fn leads_to(path: &str, name: &str) -> bool {
    let mut steps = path.split('.');
    let mut last = None;
    let all = name.split('.').all(|wanted| {
        last = steps.find(|step| *step == wanted);
        last.is_some()
    });
    all && last.is_some() && steps.next().is_none()
}

pub fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.into() } else { format!("{prefix}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_path_by_name_and_by_what_contains_them() {
        let text = "seed = 1\n[optimizer]\nname = \"x\"\nstep.practical.lr = 3\n";
        let places = Places::of(text);
        let line = |path: &str, name| places.find(path, name).1.cloned();
        assert_eq!(line("seed", None), Some(Place::Line(1)));
        assert_eq!(line("optimizer", Some("step.lr")), Some(Place::Line(4)));
        assert_eq!(line("", Some("step.lr")), Some(Place::Line(4)));
        assert_eq!(places.find("", Some("step.lr")).0, "optimizer.step.practical.lr");
        assert_eq!(line("optimizer.beta", None), Some(Place::Line(2)));
        assert_eq!(line("batch", None), None);
        assert_eq!(line("optimizer", Some("seed")), Some(Place::Line(2)));
    }
}
