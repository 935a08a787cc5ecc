//! Guessing what was meant.

/// Names less alike than this are not suggested.
const ALIKE: f64 = 0.7;

/// `; did you mean `x`?` for the most similar of the names, or nothing.
pub fn did_you_mean<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let likeness = |name: &str| strsim::jaro_winkler(&wrong.to_lowercase(), &name.to_lowercase());
    let scored = names.into_iter().map(|name| (likeness(name), name));
    match scored.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((score, name)) if score >= ALIKE => format!("; did you mean `{name}`?"),
        _ => String::new(),
    }
}

/// The names that a message of serde's lists: `unknown field `x`, expected one of `a`, `b``.
pub(super) fn suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    match (message.starts_with("unknown"), quoted.next()) {
        (true, Some(wrong)) => did_you_mean(wrong, quoted),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_nothing_far_away() {
        assert_eq!(did_you_mean("epoch", ["epochs", "seed"]), "; did you mean `epochs`?");
        assert_eq!(did_you_mean("Santa-e", ["santa", "santa-e"]), "; did you mean `santa-e`?");
        assert_eq!(did_you_mean("xyz", ["epochs", "seed"]), "");
        let message = "unknown field `lrr`, expected one of `lr`, `momentum`";
        assert_eq!(suggestion(message), "; did you mean `lr`?");
        assert_eq!(suggestion("invalid type: string, expected f64"), "");
    }
}
