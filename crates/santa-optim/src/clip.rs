//! Bounding the gradient before it moves anything.

use crate::dynamics::engine::{Chunk, Outcome};
use crate::error::{Result, check};
use crate::real::Real;
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

/// Euclidean norm over the moving segments. Each chunk is summed in double precision, and the chunks
/// are added in order: the same bits for any number of threads.
pub(crate) fn gradient_norm<'a, F: Real>(
    arch: pulp::Arch,
    chunks: &[Chunk],
    scratch: &mut [Outcome],
    gradient: impl Fn(&Chunk) -> &'a [F] + Sync,
) -> f64 {
    let one = |chunk: &Chunk| Outcome {
        broken: false,
        partial: arch.dispatch(SumOfSquares(gradient(chunk))),
    };
    #[cfg(feature = "parallel")]
    {
        fn go<T: Fn(&Chunk) -> Outcome + Sync>(chunks: &[Chunk], out: &mut [Outcome], one: &T) {
            const GRAIN: usize = 8;
            if chunks.len() <= GRAIN {
                chunks.iter().zip(out).for_each(|(c, o)| *o = one(c));
            } else {
                let mid = chunks.len() / 2;
                let (left, right) = chunks.split_at(mid);
                let (out_left, out_right) = out.split_at_mut(mid);
                rayon::join(|| go(left, out_left, one), || go(right, out_right, one));
            }
        }
        go(chunks, scratch, &one);
    }
    #[cfg(not(feature = "parallel"))]
    chunks.iter().zip(scratch.iter_mut()).for_each(|(c, o)| *o = one(c));
    scratch.iter().map(|o| o.partial).sum::<f64>().sqrt()
}

struct SumOfSquares<'a, F>(&'a [F]);

impl<F: Real> pulp::WithSimd for SumOfSquares<'_, F> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> f64 {
        const LANES: usize = 32;
        let mut sums = [0.0f64; LANES];
        let (whole, rest) = self.0.as_chunks::<LANES>();
        for part in whole {
            for l in 0..LANES {
                let x = part[l].to_f64();
                sums[l] += x * x;
            }
        }
        let tail: f64 = rest.iter().map(|x| x.to_f64() * x.to_f64()).sum();
        sums.iter().sum::<f64>() + tail
    }
}
