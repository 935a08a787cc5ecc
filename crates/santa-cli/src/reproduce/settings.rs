//! Files of settings with a small version: what stands under `quick` replaces what stands above.

use crate::failure::{Failure, Result};
use santa::Algorithm;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Reads settings, those of the small version if `quick`.
pub fn read<T: DeserializeOwned>(name: &str, text: &str, quick: bool) -> Result<T> {
    let wrong = |e: toml::de::Error| Failure::usage(format!("{name}: {e}"));
    let mut all: Table = text.parse().map_err(wrong)?;
    if let (Some(Value::Table(small)), true) = (all.remove("quick"), quick) {
        replace(&mut all, small);
    }
    Value::Table(all).try_into().map_err(wrong)
}

/// Puts the values of `with` in place of those in `table`, however deep.
pub fn replace(table: &mut Table, with: Table) {
    for (key, value) in with {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => replace(inner, value),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

/// One way to move, as a file has it: a label for figures, a description for readers, and settings.
#[derive(Clone, Debug)]
pub struct Method {
    /// Its name in the file.
    pub name: String,
    /// Its name in figures.
    pub label: String,
    /// For the reader.
    pub description: String,
    /// Its settings.
    pub algorithm: Algorithm,
}

impl Method {
    /// Reads the methods of a table, in its order.
    pub fn all(file: &str, methods: Table) -> Result<Vec<Self>> {
        let one = |(name, mut value): (String, Value)| {
            let label = word(&mut value, "label").unwrap_or_else(|| name.clone());
            let description = word(&mut value, "description").unwrap_or_default();
            let algorithm = value
                .try_into()
                .map_err(|e: toml::de::Error| Failure::usage(format!("{file}: {name}: {e}")))?;
            Ok(Method { name, label, description, algorithm })
        };
        methods.into_iter().map(one).collect()
    }
}

/// Takes a text out of a table.
pub fn word(value: &mut Value, key: &str) -> Option<String> {
    let found = value.as_table_mut()?.remove(key)?;
    found.as_str().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_version_replaces_single_values() {
        let text = "a = 1\n[b]\nc = 2\nd = 3\n[quick.b]\nd = 4";
        let read = |quick| read::<Table>("test", text, quick).unwrap().to_string();
        assert_eq!(read(false), "a = 1\n\n[b]\nc = 2\nd = 3\n");
        assert_eq!(read(true), "a = 1\n\n[b]\nc = 2\nd = 4\n");
    }
}
