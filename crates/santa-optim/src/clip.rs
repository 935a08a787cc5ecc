//! Bounding the gradient before it moves anything.

use crate::dynamics::engine::{Chunk, Outcome};
use crate::error::{Result, check};
use crate::real::Real;
use crate::reduce::{SumOfSquares, each_chunk};
use serde::{Deserialize, Serialize};

/// What is done to the mean gradient of the loss, before the prior is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clip {
    /// Nothing.
    #[default]
    Off,
    /// Scaled down to this global norm if it is longer.
    Norm(f64),
    /// Each element held between minus and plus this value.
    Value(f64),
    /// Scaled to exactly this global norm, up or down. Not clipping: the gradient's length is lost.
    /// It is what the authors' recurrent experiments did, for every optimizer.
    RescaleNorm(f64),
}

impl Clip {
    pub(crate) fn check(&self) -> Result<()> {
        match *self {
            Clip::Off => Ok(()),
            Clip::Norm(x) => check::positive("clip.norm", x),
            Clip::Value(x) => check::positive("clip.value", x),
            Clip::RescaleNorm(x) => check::positive("clip.rescale_norm", x),
        }
    }
    pub(crate) fn needs_norm(&self) -> bool {
        matches!(self, Clip::Norm(_) | Clip::RescaleNorm(_))
    }
    /// What the gradient is multiplied by.
    pub(crate) fn factor(&self, norm: f64) -> f64 {
        match *self {
            Clip::Norm(limit) if norm > limit => limit / norm,
            Clip::RescaleNorm(length) if norm > 0.0 => length / norm,
            _ => 1.0,
        }
    }
}

/// Euclidean norm over the moving segments, the same bits for any number of threads.
pub(crate) fn gradient_norm<'a, F: Real>(
    arch: pulp::Arch,
    chunks: &[Chunk],
    scratch: &mut [Outcome],
    gradient: impl Fn(&Chunk) -> &'a [F] + Sync,
) -> f64 {
    each_chunk(chunks, scratch, |chunk| Outcome {
        broken: false,
        partial: arch.dispatch(SumOfSquares(gradient(chunk))),
    });
    scratch.iter().map(|o| o.partial).sum::<f64>().sqrt()
}
