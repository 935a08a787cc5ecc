//! A bound that may be absent, in settings files: a number or `"none"`, since TOML has no null.

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};
use std::fmt;

const NONE: &str = "none";

pub fn serialize<S: Serializer>(bound: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match bound {
        Some(x) => to.serialize_f64(*x),
        None => to.serialize_str(NONE),
    }
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    from.deserialize_any(Bound)
}

struct Bound;

impl Visitor<'_> for Bound {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number or \"{NONE}\"")
    }
    fn visit_f64<E: Error>(self, x: f64) -> Result<Option<f64>, E> {
        Ok(Some(x))
    }
    fn visit_i64<E: Error>(self, x: i64) -> Result<Option<f64>, E> {
        Ok(Some(x as f64))
    }
    fn visit_u64<E: Error>(self, x: u64) -> Result<Option<f64>, E> {
        Ok(Some(x as f64))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Option<f64>, E> {
        if text == NONE { Ok(None) } else { Err(E::unknown_variant(text, &[NONE])) }
    }
    /// JSON's null.
    fn visit_unit<E: Error>(self) -> Result<Option<f64>, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Santa;

    #[test]
    fn a_bound_survives_a_file_whether_it_is_there_or_not() {
        for bound in [None, Some(0.25)] {
            let santa =
                Santa { friction_floor: bound, friction_ceiling: bound, ..Santa::default() };
            let text = toml::to_string(&santa).unwrap();
            assert_eq!(toml::from_str::<Santa>(&text).unwrap(), santa);
            let text = serde_json::to_string(&santa).unwrap();
            assert_eq!(serde_json::from_str::<Santa>(&text).unwrap(), santa);
        }
        let read = |text: &str| toml::from_str::<Santa>(text).map(|santa| santa.friction_floor);
        assert_eq!(read("friction_floor = 1").unwrap(), Some(1.0));
        assert_eq!(read("").unwrap(), Santa::default().friction_floor);
        assert!(read("friction_floor = \"nothing\"").is_err());
        let null: Santa = serde_json::from_str(r#"{"friction_floor": null}"#).unwrap();
        assert_eq!(null.friction_floor, None);
    }
}
