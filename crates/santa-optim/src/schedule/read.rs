//! Schedules as people write them: a table with its `kind`, or a number.

use super::{Piece, Schedule};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NumberOrTable)
    }
}

/// A visitor, where an untagged enum would answer every mistake in a table with the same words.
struct NumberOrTable;

impl<'de> Visitor<'de> for NumberOrTable {
    type Value = Schedule;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a number, or a table with the `kind` of a schedule")
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Schedule, E> {
        Ok(Schedule::Constant { value })
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Schedule, E> {
        Ok(Schedule::Constant { value: value as f64 })
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Schedule, E> {
        Ok(Schedule::Constant { value: value as f64 })
    }
    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Schedule, A::Error> {
        Table::deserialize(MapAccessDeserializer::new(table))
    }
}

/// The variants of [`Schedule`] once more, from which their tables are read.
#[derive(Deserialize)]
#[serde(remote = "Schedule", tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Table {
    Constant { value: f64 },
    Power { a: f64, b: f64, gamma: f64 },
    BlockDecay { start: f64, factor: f64, every: u64 },
    Cosine { start: f64, end: f64, steps: u64 },
    Cyclical { start: f64, end: f64, period: u64 },
    WarmUp { steps: u64, then: Box<Schedule> },
    Piecewise { pieces: Vec<Piece>, last: Box<Schedule> },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InverseTemperature, Rate, StepSize};
    use serde_json::json;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Settings<T> {
        lr: T,
    }

    fn toml<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, String> {
        toml::from_str(text).map(|settings: Settings<T>| settings.lr).map_err(|e| e.to_string())
    }

    /// One of each kind, with constants inside those that have room for them.
    fn all() -> [Schedule; 7] {
        let pieces = vec![
            Piece { until: 5, schedule: 1.0.into() },
            Piece { until: 9, schedule: Schedule::cosine(1.0, 0.5, 4) },
        ];
        [
            Schedule::constant(0.1),
            Schedule::power(2.0, 3.0, -0.5),
            Schedule::block_decay(8.0, 0.5, 10),
            Schedule::cosine(1.0, 0.2, 100),
            Schedule::cyclical(1.0, 0.2, 100),
            Schedule::constant(3.0).with_warm_up(10),
            Schedule::Piecewise { pieces, last: Box::new(2.0.into()) },
        ]
    }

    #[test]
    fn every_kind_of_schedule_is_read_as_it_was_written() {
        for schedule in all() {
            // A new kind does not compile without its name here: add it to `Table` and `all` too.
            let kind = match &schedule {
                Schedule::Constant { .. } => "constant",
                Schedule::Power { .. } => "power",
                Schedule::BlockDecay { .. } => "block_decay",
                Schedule::Cosine { .. } => "cosine",
                Schedule::Cyclical { .. } => "cyclical",
                Schedule::WarmUp { .. } => "warm_up",
                Schedule::Piecewise { .. } => "piecewise",
            };
            let value = serde_json::to_value(&schedule).unwrap();
            assert_eq!(value["kind"], kind);
            assert_eq!(Schedule::deserialize(&value).unwrap(), schedule);
            let text = serde_json::to_string(&schedule).unwrap();
            assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), schedule);
            let text = toml::to_string(&schedule).unwrap();
            assert_eq!(toml::from_str::<Schedule>(&text).unwrap(), schedule);
        }
    }

    fn expect<T: for<'a> Deserialize<'a> + PartialEq + fmt::Debug>(text: &str, expected: T) {
        assert_eq!(toml::<T>(&format!("lr = {text}")).unwrap(), expected);
    }

    #[test]
    fn a_number_is_a_constant_schedule() {
        for (text, value) in [("0.1", 0.1), ("1e-3", 1e-3), ("1", 1.0), ("-2", -2.0)] {
            expect(text, Schedule::constant(value));
            assert_eq!(serde_json::from_str::<Schedule>(text).unwrap(), Schedule::constant(value));
        }
        expect("{ kind = \"constant\", value = 1 }", Schedule::constant(1.0));
    }

    #[test]
    fn a_number_may_stand_wherever_a_schedule_is_nested() {
        let warm_up = Schedule::constant(3.0).with_warm_up(10);
        expect("{ kind = \"warm_up\", steps = 10, then = 3 }", warm_up);
        let pieces = vec![Piece { until: 5, schedule: 1.0.into() }];
        let piecewise = Schedule::Piecewise { pieces, last: Box::new(0.5.into()) };
        let written = "[{ until = 5, schedule = 1 }]";
        expect(&format!("{{ kind = \"piecewise\", pieces = {written}, last = 0.5 }}"), piecewise);
        expect("2", InverseTemperature::fixed(2.0));
        expect("{ eta = 1e-4 }", Rate::eta(1e-4));
        expect("{ lr = 1 }", Rate::lr(1.0));
        let practical = StepSize::practical(1.0, 0.9);
        expect("{ units = \"practical\", lr = 1, momentum = 0.9 }", practical);
    }

    /// Checkpoints hold tables, and settings are compared with those.
    #[test]
    fn a_constant_is_written_as_a_table_however_it_was_read() {
        let read = toml::<Schedule>("lr = 1").unwrap();
        let table = json!({"kind": "constant", "value": 1.0});
        assert_eq!(serde_json::to_value(&read).unwrap(), table);
        let beta = serde_json::to_value(InverseTemperature::posterior()).unwrap();
        assert_eq!(beta, table);
        assert_eq!(serde_json::to_value(Rate::lr(1.0)).unwrap(), json!({"lr": table}));
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_the_reason() {
        for (value, reason) in [
            ("\"0.1\"", "string \"0.1\", expected a number, or a table with the `kind`"),
            ("true", "boolean `true`, expected a number"),
            ("[0.1]", "sequence, expected a number"),
            ("{}", "missing field `kind`"),
            ("{ value = 0.1 }", "missing field `kind`"),
            ("{ kind = \"step\" }", "unknown variant `step`, expected one of `constant`, `power`"),
            ("{ kind = \"constant\" }", "missing field `value`"),
            ("{ kind = \"constant\", value = \"1\" }", "string \"1\", expected f64"),
            ("{ kind = \"cosine\", start = 1, stop = 0 }", "unknown field `stop`, expected one of"),
            ("{ kind = \"cosine\", start = 1, end = 0, steps = -1 }", "integer `-1`, expected u64"),
            ("{ kind = \"warm_up\", steps = 1, then = \"x\" }", "string \"x\", expected a number"),
            (
                "{ kind = \"warm_up\", steps = 1, then = { kind = \"pover\" } }",
                "unknown variant `pover`",
            ),
        ] {
            let error = toml::<Schedule>(&format!("lr = {value}")).unwrap_err();
            assert!(error.contains(reason), "{error}");
            let error = toml::<InverseTemperature>(&format!("lr = {value}")).unwrap_err();
            assert!(error.contains(reason), "{error}");
            let error = toml::<Rate>(&format!("lr = {{ eta = {value} }}")).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_rate_must_say_what_it_multiplies() {
        assert!(toml::<Rate>("lr = 0.1").is_err());
        let error = toml::<Rate>("lr = { rate = 0.1 }").unwrap_err();
        assert!(error.contains("unknown variant `rate`, expected `eta` or `lr`"), "{error}");
    }
}
