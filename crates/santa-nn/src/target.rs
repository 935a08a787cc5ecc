//! Targets that take the place of a model's own.

use santa::{Error, Result, Target};

/// Refuses a target for other parameters or data than the model's own.
pub(crate) fn check_replacement(own: &Target, other: &Target) -> Result<()> {
    if own.layout() == other.layout() && own.data_size() == other.data_size() {
        return Ok(());
    }
    Err(Error::Structure(
        "the target has another layout or number of data than the model: begin from \
         `model.target().clone()`"
            .into(),
    ))
}
