//! Sums over the parameters: one read of the vectors, the same bits for any number of threads.
//!
//! Each chunk of the layout is reduced on its own, in double precision and in a fixed order of lanes;
//! the results of the chunks lie in their order, for the caller to add up one after the other.

use crate::dynamics::engine::Chunk;
use crate::real::Real;

/// Independent accumulators of a sum: enough to keep the vector units busy. Part of the result's
/// bits, therefore the same on every machine.
pub(crate) const LANES: usize = 32;

/// Fills `out` with `one` of each chunk, on the current thread pool if there are many.
pub(crate) fn each_chunk<T: Send>(
    chunks: &[Chunk],
    out: &mut [T],
    one: impl Fn(&Chunk) -> T + Sync,
) {
    debug_assert_eq!(chunks.len(), out.len());
    #[cfg(feature = "parallel")]
    {
        fn go<T: Send>(chunks: &[Chunk], out: &mut [T], one: &(impl Fn(&Chunk) -> T + Sync)) {
            /// Chunks that are not worth another thread.
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
        go(chunks, out, &one);
    }
    #[cfg(not(feature = "parallel"))]
    chunks.iter().zip(out.iter_mut()).for_each(|(c, o)| *o = one(c));
}

/// $\sum_i x_i^2$
pub(crate) struct SumOfSquares<'a, F>(pub &'a [F]);

impl<F: Real> pulp::WithSimd for SumOfSquares<'_, F> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> f64 {
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

/// $\sum_i (x_i - y_i)^2$ of two slices of one length.
pub(crate) struct SquaredDistance<'a, F>(pub &'a [F], pub &'a [F]);

impl<F: Real> pulp::WithSimd for SquaredDistance<'_, F> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> f64 {
        let mut sums = [0.0f64; LANES];
        let (x, x_rest) = self.0.as_chunks::<LANES>();
        let (y, y_rest) = self.1.as_chunks::<LANES>();
        for (x, y) in x.iter().zip(y) {
            for l in 0..LANES {
                let d = x[l].to_f64() - y[l].to_f64();
                sums[l] += d * d;
            }
        }
        let rest = x_rest.iter().zip(y_rest).map(|(x, y)| x.to_f64() - y.to_f64());
        sums.iter().sum::<f64>() + rest.map(|d| d * d).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::engine::chunks;
    use crate::noise::{Purpose, Stream};
    use crate::target::Target;

    #[test]
    fn sums_are_those_of_plain_loops_whatever_the_length() {
        let arch = pulp::Arch::new();
        let stream = Stream::new(3, 0, Purpose::Data);
        for len in [0, 1, LANES - 1, LANES, LANES + 1, 1000] {
            let (mut x, mut y) = (vec![0.0f32; len], vec![0.0f32; len]);
            stream.normals(0, 0, 0, &mut x);
            stream.normals(1, 0, 0, &mut y);
            let plain: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
            assert!((arch.dispatch(SumOfSquares(&x)) - plain).abs() <= 1e-13 * plain);
            let plain: f64 =
                x.iter().zip(&y).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum();
            assert!((arch.dispatch(SquaredDistance(&x, &y)) - plain).abs() <= 1e-13 * plain);
        }
    }

    #[test]
    fn every_chunk_is_reduced_in_its_place() {
        let target = Target::density(1_000_000).unwrap();
        let chunks = chunks(&target);
        let mut starts = vec![0; chunks.len()];
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        pool.install(|| each_chunk(&chunks, &mut starts, |c| c.range.start));
        assert!(chunks.len() > 8);
        assert!(chunks.iter().zip(&starts).all(|(c, s)| c.range.start == *s));
    }
}
