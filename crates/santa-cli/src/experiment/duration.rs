//! Durations: `"30 epochs"`, `"50 %"` of the run (of each of its chains), `"500 steps"`, or a plain number of steps.

use toml::Value;

/// What durations are turned into steps by.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub steps_per_epoch: u64,
    /// Of a chain.
    pub epochs: u64,
}

impl Clock {
    /// The steps of a duration; none if the text is something else.
    pub fn steps(&self, text: &str) -> Option<u64> {
        let text = text.trim();
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = text[..end].parse().ok()?;
        let per = match text[end..].trim() {
            "step" | "steps" => 1.0,
            "epoch" | "epochs" => self.steps_per_epoch as f64,
            "%" => self.steps_per_epoch as f64 * self.epochs as f64 / 100.0,
            _ => return None,
        };
        let steps = (number * per).round();
        (steps < u64::MAX as f64).then_some(steps as u64)
    }

    /// Replaces durations by steps, everywhere below a value.
    pub fn replace(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(steps) = self.steps(text).and_then(|n| i64::try_from(n).ok()) {
                    *value = Value::Integer(steps);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::Table(table) => table.iter_mut().for_each(|(_, item)| self.replace(item)),
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_steps_epochs_or_shares_of_the_run() {
        let clock = Clock { steps_per_epoch: 90, epochs: 20 };
        for (text, steps) in
            [("1 epoch", 90), ("2.5 epochs", 225), ("50 %", 900), ("50%", 900), ("7 steps", 7)]
        {
            assert_eq!(clock.steps(text), Some(steps), "{text}");
        }
        for text in ["thermal", "7", "epochs", "7 years", "-1 epochs", "", "1.2.3 epochs"] {
            assert_eq!(clock.steps(text), None, "{text}");
        }
    }

    #[test]
    fn they_are_replaced_at_any_depth_and_nothing_else_is() {
        let clock = Clock { steps_per_epoch: 10, epochs: 2 };
        let text = r#"a = ["1 epoch", "x"]
b = { c = { every = "50 %" }, d = 3 }"#;
        let mut value = Value::Table(text.parse().unwrap());
        clock.replace(&mut value);
        let expected = "a = [10, \"x\"]\nb = { c = { every = 10 }, d = 3 }";
        assert_eq!(value, Value::Table(expected.parse().unwrap()));
    }
}
