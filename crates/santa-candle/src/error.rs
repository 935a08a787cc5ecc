//! What can go wrong, said so that the reader knows which thing to change.

use candle_core::{DType, Shape};

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the optimizer refuses or notices.
///
/// Through Candle's trait these errors come wrapped in a [`candle_core::Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Settings, a number that is not finite, a checkpoint that belongs to something else.
    #[error(transparent)]
    Santa(#[from] santa::Error),
    /// An operation of Candle failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// A variable of another element type.
    #[error(
        "variable `{name}` is {dtype:?}, the dynamics work in F32; build the model in DType::F32"
    )]
    Element {
        /// Its name.
        name: String,
        /// Its element type.
        dtype: DType,
    },
    /// A variable whose elements do not follow each other in memory.
    #[error("variable `{name}` is not contiguous; make it one with Var::from_tensor of a copy")]
    NotContiguous {
        /// Its name.
        name: String,
    },
    /// A variable that was handed over twice.
    #[error("variables `{first}` and `{second}` are the same one; hand it over once")]
    Twice {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// The loss does not depend on a variable.
    #[error(
        "variable `{name}` has no gradient: the loss does not depend on it; leave it out, freeze it \
         with Group::new(\"{name}\").frozen(), or set `missing` to MissingGradient::Zero"
    )]
    MissingGradient {
        /// Its name.
        name: String,
    },
    /// A gradient that does not fit its variable.
    #[error("variable `{name}` is F32 {expected:?}, but its gradient is {dtype:?} {found:?}")]
    Gradient {
        /// The variable's name.
        name: String,
        /// Its shape.
        expected: Shape,
        /// The gradient's shape.
        found: Shape,
        /// The gradient's element type.
        dtype: DType,
    },
}

impl From<Error> for candle_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Candle(error) => error,
            other => candle_core::Error::wrap(other),
        }
    }
}
