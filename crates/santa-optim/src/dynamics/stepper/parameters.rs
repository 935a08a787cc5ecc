//! The parameters that a step moves, however the caller keeps them.

use crate::dynamics::engine::Chunk;
use crate::real::Real;
use crate::target::Target;
use std::ops::Range;

/// theta and its gradient, in one piece or by segment.
pub(super) enum Parameters<'a, 'b, F> {
    Flat(&'a mut [F], &'a [F]),
    Segments(&'a mut [(&'b mut [F], &'b [F])]),
}

impl<F: Real> Parameters<'_, '_, F> {
    pub(super) fn gradient(&self, chunk: &Chunk, target: &Target) -> &[F] {
        match self {
            Parameters::Flat(_, gradient) => &gradient[chunk.range.clone()],
            Parameters::Segments(list) => {
                let segment = chunk.segment as usize;
                let start = target.layout().segments()[segment].range().start;
                &list[segment].1[chunk.range.start - start..chunk.range.end - start]
            }
        }
    }
    pub(super) fn gradient_at(&self, range: Range<usize>, i: usize) -> f64 {
        self.element(range, i, |p| p.1)
    }
    pub(super) fn theta_at(&self, range: Range<usize>, i: usize) -> f64 {
        self.element(range, i, |p| p.0)
    }
    fn element<'s>(
        &'s self,
        range: Range<usize>,
        i: usize,
        pick: impl for<'p> Fn((&'p [F], &'p [F])) -> &'p [F],
    ) -> f64 {
        match self {
            Parameters::Flat(theta, gradient) => pick((theta, gradient))[range.start + i].to_f64(),
            Parameters::Segments(list) => {
                // Segments follow each other without gaps.
                let mut start = 0;
                for (theta, gradient) in list.iter() {
                    if start == range.start {
                        return pick((theta, gradient))[i].to_f64();
                    }
                    start += theta.len();
                }
                f64::NAN
            }
        }
    }
    pub(super) fn save(&self, into: &mut [F], target: &Target) {
        match self {
            Parameters::Flat(theta, _) => into.copy_from_slice(theta),
            Parameters::Segments(list) => {
                for ((theta, _), segment) in list.iter().zip(target.layout().segments()) {
                    into[segment.range()].copy_from_slice(theta);
                }
            }
        }
    }
    pub(super) fn restore(&mut self, from: &[F], target: &Target) {
        match self {
            Parameters::Flat(theta, _) => theta.copy_from_slice(from),
            Parameters::Segments(list) => {
                for ((theta, _), segment) in list.iter_mut().zip(target.layout().segments()) {
                    theta.copy_from_slice(&from[segment.range()]);
                }
            }
        }
    }
}
