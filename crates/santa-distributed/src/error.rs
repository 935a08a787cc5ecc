//! What can go wrong between processes.

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that this crate refuses or notices.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The dynamics or the potential refused something.
    #[error(transparent)]
    Santa(#[from] santa::Error),
    /// Another member met something that it cannot go on from.
    #[error("rank {rank}: {message}")]
    Member {
        /// Who.
        rank: usize,
        /// What it says.
        message: String,
    },
    /// A member has ended, or cannot be reached.
    #[error("{0}")]
    Lost(String),
    /// Members that should agree do not.
    #[error("rank {rank} has another {what} than rank 0; {remedy}")]
    Apart {
        /// Who.
        rank: usize,
        /// What differs.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// A setting that cannot work.
    #[error("setting `{field}` is {value}: {allowed}")]
    Setting {
        /// The setting.
        field: String,
        /// What was given.
        value: String,
        /// What would be accepted.
        allowed: String,
    },
}

impl From<Error> for santa::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Santa(error) => error,
            other => santa::Error::Outside(Box::new(other)),
        }
    }
}
