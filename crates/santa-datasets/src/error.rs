//! What can go wrong, each error naming the file and what to do.

use std::path::PathBuf;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why data could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that is truncated, corrupt, hostile, or of a kind that is not read here.
    #[error("{file}: at byte {offset}: {reason}")]
    Format {
        /// The file; for what was inflated from it, the part as well.
        file: String,
        /// Where in it, in bytes from the start (of the inflated part, if `file` says so).
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A file that is not there and could not be fetched.
    #[error("{} is missing: {reason}\n{remedy}", .path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
        /// Why it was not fetched.
        reason: String,
        /// What to put where.
        remedy: String,
    },
    /// A file whose content is not the one that is known.
    #[error(
        "{}: SHA-256 of {what} is {found}, expected {expected}; remove the file to fetch it anew",
        .path.display()
    )]
    Checksum {
        /// The file.
        path: PathBuf,
        /// What was hashed: the file, or what it inflates to.
        what: &'static str,
        /// The known sum.
        expected: String,
        /// The sum of the file.
        found: String,
    },
    /// The file system said no.
    #[error("{action} {}: {source}", .path.display())]
    Io {
        /// Reading, writing, ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Its reason.
        source: std::io::Error,
    },
    /// An image that could not be decoded.
    #[error("image {}: {reason}", .path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An argument that cannot work.
    #[error("{field} is {value}: {allowed}")]
    Argument {
        /// Its name.
        field: &'static str,
        /// What it was.
        value: String,
        /// What is allowed.
        allowed: String,
    },
}

impl Error {
    pub(crate) fn argument(
        field: &'static str,
        value: impl ToString,
        allowed: impl Into<String>,
    ) -> Self {
        Error::Argument { field, value: value.to_string(), allowed: allowed.into() }
    }

    pub(crate) fn format(file: &str, offset: usize, reason: impl Into<String>) -> Self {
        Error::Format { file: file.to_owned(), offset: offset as u64, reason: reason.into() }
    }

    /// For `map_err` on results of the file system.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Error::Io { action, path, source }
    }
}
