//! What can go wrong, said so that the reader knows which thing to change.

use std::path::PathBuf;

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that this crate refuses or notices.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The dynamics or the potential refused something.
    #[error(transparent)]
    Santa(#[from] santa::Error),
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
    /// Data, draws or a file's content that make no sense; names the place and the remedy.
    #[error("{0}")]
    Data(String),
    /// Chains whose numbers are none any more, or a warm-up that found no step that works.
    #[error("{0}")]
    Diverged(String),
    /// The run was asked to stop before there was anything to keep.
    #[error("stopped during the warm-up, before the first draw")]
    Interrupted,
    /// Something between the members of a team, or the trouble of another one.
    #[error(transparent)]
    Team(#[from] santa_distributed::Error),
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
}

impl Error {
    pub(crate) fn setting(
        field: impl Into<String>,
        value: impl ToString,
        allowed: impl Into<String>,
    ) -> Self {
        Error::Setting { field: field.into(), value: value.to_string(), allowed: allowed.into() }
    }
    /// Whether numbers have ceased to be numbers.
    pub(crate) fn is_divergence(&self) -> bool {
        use santa::Error::{GaveUp, NotFinite};
        matches!(self, Error::Diverged(_) | Error::Santa(NotFinite { .. } | GaveUp { .. }))
    }
    pub(crate) fn data(reason: impl Into<String>) -> Self {
        Error::Data(reason.into())
    }
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Error::Io { action, path, source }
    }
}
