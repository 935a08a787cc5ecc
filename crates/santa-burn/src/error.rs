//! What can go wrong, said so that the reader knows which thing to change.

use burn::tensor::DType;

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that the adapter refuses or notices.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library's own: a setting that cannot work, a NaN, a checkpoint of something else.
    #[error(transparent)]
    Santa(#[from] santa::Error),
    /// A parameter that is not `f32`.
    #[error(
        "{parameter} is {dtype:?}; the steps of these dynamics would be lost in its rounding, or \
         its precision in theirs: keep the parameters in F32"
    )]
    DType {
        /// Which parameter.
        parameter: String,
        /// What it is.
        dtype: DType,
    },
    /// A tensor that could not be read.
    #[error("{what} could not be read from its device: {reason}")]
    Read {
        /// Which tensor.
        what: String,
        /// The framework's reason.
        reason: String,
    },
    /// A gradient of another shape than its parameter.
    #[error("the gradient of {parameter} has the shape {gradient:?}, the parameter has {shape:?}")]
    Shape {
        /// Which parameter.
        parameter: String,
        /// Shape of the parameter.
        shape: Vec<usize>,
        /// Shape of the gradient.
        gradient: Vec<usize>,
    },
    /// A parameter that the loss of this step did not depend on.
    #[error(
        "there is no gradient for `{parameter}`; freeze it, or say that a missing gradient is zero \
         (Missing::Zero)"
    )]
    MissingGradient {
        /// Its path in the module.
        parameter: String,
    },
    /// Another module than the one these dynamics were built for, or one that cannot be trained.
    #[error("{0}")]
    Module(String),
}
