//! The optimizer's table: what a name stands for, and where `lr` and `momentum` belong.

use super::catalog::{self, OPTIMIZERS, Preset};
use crate::nearest::did_you_mean;
use toml::{Table, Value};

/// They stand for wherever an algorithm keeps them.
pub const SHORT_NAMES: [&str; 2] = ["lr", "momentum"];

/// Fields that are one of several choices, written as a name or as a table with one key.
const CHOICES: [&str; 10] = [
    "alpha_in_refinement",
    "b_hat",
    "clip",
    "diffusion",
    "exploration",
    "initialiser",
    "kl_weight",
    "on_trouble",
    "rate",
    "thermostat_mass",
];

/// What is wrong with a table: the field, and why.
pub type Wrong = (&'static str, String);

/// Whether the experiment's optimizer is the one of a name already, perhaps with settings of its own.
pub fn is_called(optimizer: Option<&Value>, name: &str) -> bool {
    match optimizer {
        Some(Value::String(own)) => own == name,
        Some(Value::Table(table)) => {
            let own = table.get("like").or_else(|| table.get("name"));
            own.or_else(|| table.get("algorithm")).and_then(Value::as_str) == Some(name)
        }
        _ => false,
    }
}

/// `optimizer = "adam"` and `optimizer.like = "adam"` become the settings they stand for.
pub fn expand(optimizer: Option<Value>) -> Result<Table, Wrong> {
    let mut given = match optimizer {
        Some(Value::String(name)) => Table::from_iter([("like".to_string(), Value::String(name))]),
        Some(Value::Table(given)) => given,
        Some(_) => return Err(("optimizer", "it must be a name or a table".into())),
        None => return Err(("optimizer", "it is missing".into())),
    };
    let mut optimizer = match given.remove("like") {
        Some(Value::String(name)) => named(&name)?,
        Some(_) => return Err(("optimizer.like", "it must be a name".into())),
        None => Table::new(),
    };
    let algorithm = given.get("algorithm").or_else(|| optimizer.get("algorithm")).cloned();
    let Some(algorithm) = algorithm else {
        return Err(("optimizer", "it names neither `like` nor `algorithm`".into()));
    };
    for name in SHORT_NAMES {
        let Some(section) = section_of(name, algorithm.as_str().unwrap_or_default()) else {
            continue;
        };
        if let Some(value) = given.remove(name) {
            let inner = Table::from_iter([(name.to_string(), value)]);
            merge(&mut given, Table::from_iter([(section.to_string(), Value::Table(inner))]));
        }
    }
    merge(&mut optimizer, given);
    optimizer.entry("name").or_insert(algorithm);
    Ok(optimizer)
}

fn named(name: &str) -> Result<Table, Wrong> {
    let Some(text) = catalog::optimizer(name) else {
        let names = OPTIMIZERS.iter().map(|Preset { name, .. }| *name);
        let text = format!("there is none called `{name}`{}", did_you_mean(name, names));
        return Err(("optimizer.like", text));
    };
    let mut table: Table =
        text.parse().map_err(|e| ("optimizer.like", format!("built-in `{name}`: {e}")))?;
    table.remove("description");
    table.insert("name".into(), Value::String(name.into()));
    Ok(table)
}

/// The table in which an algorithm keeps what the short name stands for; none if it has it itself.
fn section_of(name: &str, algorithm: &str) -> Option<&'static str> {
    match (algorithm, name) {
        ("santa" | "msgnht" | "sghmc" | "sgnht", _) => Some("step"),
        ("sgld" | "psgld", "lr") => Some("rate"),
        _ => None,
    }
}

/// The whole path of a field of the optimizer that may have been given by its short name.
pub fn long_path(key: &str, optimizer: &Table) -> String {
    let algorithm = optimizer.get("algorithm").and_then(Value::as_str).unwrap_or_default();
    let Some(rest) = key.strip_prefix("optimizer.") else { return key.into() };
    let name = rest.split('.').next().unwrap_or_default();
    match section_of(name, algorithm) {
        Some(section) if SHORT_NAMES.contains(&name) => format!("optimizer.{section}.{rest}"),
        _ => key.into(),
    }
}

/// Puts a value at a path. What is no table on the way becomes one: a name (`clip = "off"`) makes
/// room for another choice (`clip.norm = 1`).
pub fn put(table: &mut Table, path: &str, value: Value) {
    let mut steps: Vec<&str> = path.split('.').collect();
    let last = steps.pop().unwrap_or_default();
    let mut table = table;
    for step in &steps {
        let entry = table.entry(*step).or_insert_with(|| Value::Table(Table::new()));
        if !entry.is_table() {
            *entry = Value::Table(Table::new());
        }
        let Some(below) = entry.as_table_mut() else { return };
        table = below;
    }
    let choice = steps.last().is_some_and(|step| CHOICES.contains(step));
    if choice && !table.contains_key(last) {
        table.clear();
    }
    table.insert(last.into(), value);
}

/// Puts one table over another. A table that says what kind it is replaces what was there, and so does
/// another choice.
fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(value))
                if !chooses(&value) && !replaces(&key, below, &value) =>
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

/// Whether both are choices, and not the same.
fn replaces(key: &str, below: &Table, over: &Table) -> bool {
    CHOICES.contains(&key) && below.keys().next() != over.keys().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_stands_for_its_settings_and_what_is_given_lies_over_them() {
        let given = table("like = \"santa\"\nlr = 0.5\nexploration = \"never\"");
        let santa = expand(Some(Value::Table(given))).unwrap();
        assert_eq!(santa["name"].as_str(), Some("santa"));
        assert_eq!(santa["step"]["lr"].as_float(), Some(0.5));
        assert_eq!(santa["step"]["units"].as_str(), Some("practical"));
        assert_eq!(santa["exploration"].as_str(), Some("never"));
        let sgld = expand(Some(Value::String("sgld".into()))).unwrap();
        assert_eq!(long_path("optimizer.lr", &sgld), "optimizer.rate.lr");
        assert_eq!(long_path("optimizer.lr.start", &santa), "optimizer.step.lr.start");
        assert_eq!(long_path("optimizer.lambda", &santa), "optimizer.lambda");
        let adam = expand(Some(Value::String("adam".into()))).unwrap();
        assert_eq!(long_path("optimizer.lr", &adam), "optimizer.lr");
    }

    #[test]
    fn another_choice_replaces_the_one_before() {
        let mut own = table("clip = \"off\"\nrate.lr = 1\n[step]\nunits = \"practical\"\nlr = 1");
        put(&mut own, "clip.norm", Value::Integer(5));
        put(&mut own, "clip.value", Value::Integer(2));
        put(&mut own, "rate.eta", Value::Integer(3));
        put(&mut own, "step.momentum", Value::Float(0.5));
        let expected = "clip.value = 2\nrate.eta = 3\n[step]\nunits = \"practical\"\nlr = 1\n\
                        momentum = 0.5";
        assert_eq!(own, table(expected));
        let mut base = table("rate.lr = 1");
        merge(&mut base, table("rate.eta = 2"));
        assert_eq!(base, table("rate.eta = 2"));
    }

    #[test]
    fn an_optimizer_is_known_by_its_name() {
        let value = |text: &str| table(text).remove("optimizer");
        assert!(is_called(value("optimizer = \"adam\"").as_ref(), "adam"));
        assert!(is_called(value("optimizer.like = \"adam\"").as_ref(), "adam"));
        assert!(is_called(value("optimizer.name = \"x\"").as_ref(), "x"));
        assert!(!is_called(value("optimizer.like = \"adam\"").as_ref(), "santa"));
        assert!(expand(value("optimizer.like = \"adan\"")).unwrap_err().1.contains("`adam`"));
    }
}
