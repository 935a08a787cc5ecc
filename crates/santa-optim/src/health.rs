//! Noticing when a run goes wrong.

use crate::error::{Error, Result};
use crate::target::Target;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What a step does about a NaN or an infinity.
///
/// Parameters and state are checked inside the pass, at no cost worth naming. The gradient is checked
/// *before* the pass for the policies that must leave the parameters untouched, which reads it once
/// more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTrouble {
    /// Return an error that names the number and where it is. The step is half done by then, so
    /// these dynamics refuse to go on until a checkpoint is restored. With a clipped norm a bad
    /// gradient is noticed before anything has moved, and the next step may be tried.
    #[default]
    Stop,
    /// Do not make a step whose gradient is not finite: nothing changes, its number and its noise are
    /// for the next gradient; an error after too many in a row. A state that
    /// overflows by itself is still an error.
    Skip {
        /// Failures in a row that are put up with.
        at_most: u32,
    },
    /// Go back to the last good state, kept every so many steps, and back in time; the noise of the
    /// steps made again is new.
    RollBack {
        /// Steps between the states that are kept.
        every: u64,
        /// Failures in a row that are put up with.
        at_most: u32,
    },
}

impl OnTrouble {
    pub(crate) fn check(&self) -> Result<()> {
        match *self {
            OnTrouble::RollBack { every: 0, .. } => {
                Err(Error::setting("on_trouble.every", 0, "it must be at least 1"))
            }
            _ => Ok(()),
        }
    }
}

/// The first element that is not finite: segment, index within it, value. `read` takes the
/// segment's range and the index within it.
pub(crate) fn first_not_finite(
    target: &Target,
    read: impl Fn(Range<usize>, usize) -> f64,
) -> Option<(String, usize, f64)> {
    for (i, segment) in target.layout().segments().iter().enumerate() {
        if target.settings(i).frozen {
            continue;
        }
        for index in 0..segment.range().len() {
            let value = read(segment.range(), index);
            if !value.is_finite() {
                return Some((segment.name().to_string(), index, value));
            }
        }
    }
    None
}
