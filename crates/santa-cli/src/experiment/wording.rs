//! What serde says of a wrong experiment, in the words of somebody who writes TOML.

use super::optimizer::SHORT_NAMES;
use super::places::join;
use crate::nearest::did_you_mean;
use toml::Value;

/// What is wrong with a field.
pub struct Complaint {
    /// In a sentence.
    pub text: String,
    /// What would be right.
    pub hint: Option<&'static str>,
    message: String,
}

/// Words of Rust, and ours.
const WORDS: [(&str, &str); 8] = [
    ("expected u64", "expected a whole number"),
    ("expected usize", "expected a whole number"),
    ("expected u32", "expected a whole number"),
    ("expected f64", "expected a number"),
    ("expected internally tagged enum", "expected a table with `kind`:"),
    ("expected struct", "expected a table:"),
    ("invalid type: map", "invalid type: a table"),
    ("wanted exactly 1 element", "expected one choice"),
];

impl Complaint {
    /// From a message of serde's.
    pub fn of(message: &str) -> Self {
        let message = message.trim().to_string();
        let mut text = message.clone();
        for (theirs, ours) in WORDS {
            text = text.replace(theirs, ours);
        }
        let mut quoted = message.split('`').skip(1).step_by(2);
        if let (true, Some(wrong)) = (message.starts_with("unknown"), quoted.next()) {
            // Among the fields of an algorithm, the short names are meant as often.
            let short = if message.contains("`lr`") || message.contains("`step`") {
                SHORT_NAMES.as_slice()
            } else {
                &[]
            };
            text += &did_you_mean(wrong, quoted.chain(short.iter().copied()));
        }
        let number = message.contains("expected u64") && message.contains("string");
        let hint = number.then_some(
            "durations are whole numbers of steps, or \"500 steps\", \"30 epochs\", \"50 %\" of the run",
        );
        Complaint { text, hint, message }
    }

    /// The field that is not known.
    pub fn unknown_field(&self) -> Option<&str> {
        let known = self.message.starts_with("unknown field");
        known.then(|| self.message.split('`').nth(1)).flatten()
    }

    /// Whether this value is what the complaint is about.
    fn is_about(&self, value: &Value) -> bool {
        let said = |text: String| self.message.contains(&text);
        match value {
            Value::String(text) => {
                said(format!("string {text:?}")) || said(format!("unknown variant `{text}`"))
            }
            Value::Integer(n) => said(format!("integer `{n}`")),
            Value::Float(x) => said(format!("floating point `{x}`")),
            Value::Boolean(b) => said(format!("boolean `{b}`")),
            _ => false,
        }
    }
}

/// The path of the value that a complaint is about, at or below `path`.
pub fn leaf_of(value: &Value, path: &str, complaint: &Complaint) -> Option<String> {
    let mut steps = path.split('.').filter(|step| !step.is_empty());
    let at = steps.try_fold(value, |value, step| value.get(step))?;
    if complaint.unknown_field().is_some() {
        return None;
    }
    search(at, path, complaint)
}

fn search(value: &Value, path: &str, complaint: &Complaint) -> Option<String> {
    if complaint.is_about(value) {
        return Some(path.into());
    }
    let table = value.as_table()?;
    table.iter().find_map(|(key, value)| search(value, &join(path, key), complaint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_speak_of_numbers_and_tables() {
        let complaint = Complaint::of("invalid type: string \"50 percent\", expected u64");
        assert!(complaint.text.ends_with("expected a whole number"));
        assert!(complaint.hint.unwrap().contains("epochs"));
        let complaint = Complaint::of("unknown field `lrr`, expected one of `step`, `beta`");
        assert!(complaint.text.ends_with("did you mean `lr`?"), "{}", complaint.text);
        assert_eq!(complaint.unknown_field(), Some("lrr"));
    }

    #[test]
    fn the_value_that_is_wrong_is_found() {
        let text = "[optimizer]\nintegrator = \"eulr\"\nstep = { lr = \"fast\" }";
        let value = Value::Table(text.parse().unwrap());
        let find = |message: &str| leaf_of(&value, "optimizer", &Complaint::of(message));
        let found = find("unknown variant `eulr`, expected `splitting` or `euler`");
        assert_eq!(found.as_deref(), Some("optimizer.integrator"));
        let found = find("invalid type: string \"fast\", expected a number");
        assert_eq!(found.as_deref(), Some("optimizer.step.lr"));
        assert_eq!(find("missing field `x`"), None);
    }
}
