//! What can go wrong, said so that the reader knows which thing to change.

use std::path::{Path, PathBuf};

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that a run refuses or notices.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting that cannot work.
    #[error("setting `{field}` is {value}: {allowed}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// What was given.
        value: String,
        /// What would be accepted.
        allowed: String,
    },
    /// A folder of images that cannot be used.
    #[error("{path}: {reason}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it, and what is expected.
        reason: String,
    },
    /// An image that cannot be read.
    #[error("image {path}: {reason}")]
    Image {
        /// The file.
        path: PathBuf,
        /// What the decoder says.
        reason: String,
    },
    /// A device that this build or this machine does not have.
    #[error("device `{name}`: {reason}")]
    Device {
        /// What was asked for.
        name: String,
        /// Why it cannot be had, and what can.
        reason: String,
    },
    /// A loss that is no number.
    #[error(
        "the loss is {loss} at iteration {iteration}: training has diverged; lower --lr and start \
         again, or resume from the last checkpoint with another --seed"
    )]
    Diverged {
        /// The iteration at which it was noticed.
        iteration: u64,
        /// The loss, averaged since the last line of the log.
        loss: f64,
    },
    /// An optimizer that cannot be built from its settings.
    #[error("optimizer: {0}")]
    Optimizer(String),
    /// A checkpoint that cannot be written, read or continued.
    #[error("checkpoint {path}: {reason}")]
    Checkpoint {
        /// The checkpoint's folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file or folder that cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

impl Error {
    /// For `map_err`: an input or output error with its path.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    }
}
