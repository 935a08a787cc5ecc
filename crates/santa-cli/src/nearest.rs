//! What may have been meant by a name that is not known.

use crate::failure::Failure;

/// The failure for a name that is none of `known`: it says which one is nearest, or which there are.
pub fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> Failure {
    let known = known.into_iter();
    let failure = Failure::usage(format!("there is no {what} {name:?}"));
    match nearest(name, known.clone()) {
        Some(meant) => failure.hint(format!("did you mean {meant:?}?")),
        None => failure.hint(format!("there are: {}", known.collect::<Vec<_>>().join(", "))),
    }
}

/// The one of `known` that is most like `name`, if one is like it at all.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Jaro-Winkler similarity, from 0 to 1, of a slip of the finger; other words score less.
    const ALIKE: f64 = 0.75;
    let name = name.to_lowercase();
    known
        .into_iter()
        .map(|other| (strsim::jaro_winkler(&name, &other.to_lowercase()), other))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}

/// `; did you mean `x`?` for the one of `known` that is most like `name`, or nothing.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or(String::new(), |meant| format!("; did you mean `{meant}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETS: [&str; 5] = ["mnist", "jsb", "nottingham", "musedata", "piano-midi"];

    #[test]
    fn a_slip_of_the_finger_is_understood() {
        assert_eq!(nearest("mnits", SETS), Some("mnist"));
        assert_eq!(nearest("Notingham", SETS), Some("nottingham"));
        assert_eq!(nearest("piano_midi", SETS), Some("piano-midi"));
    }

    #[test]
    fn another_word_is_answered_with_the_list() {
        assert_eq!(nearest("cifar", SETS), None);
        let failure = unknown("data set", "cifar", SETS);
        assert_eq!(failure.message, "there is no data set \"cifar\"");
        assert!(failure.hint.unwrap().contains("jsb, nottingham"));
    }

    #[test]
    fn case_does_not_matter() {
        assert_eq!(did_you_mean("Santa-e", ["santa", "santa-e"]), "; did you mean `santa-e`?");
    }
}
