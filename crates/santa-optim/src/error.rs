//! What can go wrong, said so that the reader knows which thing to change.

use std::path::PathBuf;

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that the library refuses or notices.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting that cannot work.
    #[error("setting `{field}` is {value}: {allowed}")]
    Setting {
        /// The setting, by its path.
        field: String,
        /// What was given.
        value: String,
        /// What would be accepted.
        allowed: String,
    },
    /// A buffer of the wrong length.
    #[error("{what} has {found} elements, the layout has {expected}")]
    Length {
        /// Which buffer.
        what: &'static str,
        /// Elements of the layout.
        expected: usize,
        /// Elements handed over.
        found: usize,
    },
    /// A layout, a group or a batch that makes no sense.
    #[error("{0}")]
    Structure(String),
    /// A NaN or an infinity.
    #[error(
        "{what} is {value} in segment `{segment}`, element {index}, at step {step}; \
         lower the step size, clip the gradient, or choose a policy other than `stop`"
    )]
    NotFinite {
        /// Gradient, parameter, or the state vector.
        what: String,
        /// Name of the segment.
        segment: String,
        /// Element within the segment.
        index: usize,
        /// The value itself.
        value: f64,
        /// The step at which it was noticed.
        step: u64,
    },
    /// A step after an error that left the state half-way.
    #[error(
        "a non-finite value at step {step} stopped these dynamics half-way through a step; \
         restore a checkpoint to go on"
    )]
    Poisoned {
        /// The step of the error.
        step: u64,
    },
    /// Too many failures in a row for skipping or rolling back to help.
    #[error("{failures} steps in a row failed; the last one: {last}")]
    GaveUp {
        /// How many.
        failures: u32,
        /// What happened last.
        last: Box<Error>,
    },
    /// A checkpoint that belongs to something else.
    #[error("the checkpoint's {field} is {saved}, here it is {present}")]
    Mismatch {
        /// What differs.
        field: String,
        /// The checkpoint's value.
        saved: String,
        /// The value here.
        present: String,
    },
    /// Bytes that are not a checkpoint of ours.
    #[error("not a usable checkpoint{}: {reason}", .path.as_ref().map(|p| format!(" ({})", p.display())).unwrap_or_default())]
    Checkpoint {
        /// The file, if it came from one.
        path: Option<PathBuf>,
        /// What is wrong with it.
        reason: String,
    },
    /// The file system said no.
    #[error("{action} {}: {source}", .path.display())]
    Io {
        /// Reading, writing, ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: std::io::Error,
    },
    /// Something outside of this library that a potential depends on: another process, say.
    #[error("{0}")]
    Outside(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    pub(crate) fn setting(
        field: impl Into<String>,
        value: impl ToString,
        allowed: impl Into<String>,
    ) -> Self {
        Error::Setting { field: field.into(), value: value.to_string(), allowed: allowed.into() }
    }
}

/// Checks of a number in a setting; each error names the field, the value and the range.
pub(crate) mod check {
    use super::{Error, Result};

    pub fn positive(field: &str, value: f64) -> Result<()> {
        within(field, value, value > 0.0, "it must be positive and finite")
    }
    pub fn non_negative(field: &str, value: f64) -> Result<()> {
        within(field, value, value >= 0.0, "it must be zero or positive, and finite")
    }
    /// In [0, 1).
    pub fn fraction(field: &str, value: f64) -> Result<()> {
        within(field, value, (0.0..1.0).contains(&value), "it must be at least 0 and below 1")
    }
    fn within(field: &str, value: f64, inside: bool, allowed: &str) -> Result<()> {
        if inside && value.is_finite() {
            Ok(())
        } else {
            Err(Error::setting(field, value, allowed))
        }
    }
}
