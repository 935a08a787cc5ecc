//! Convolution as one product: the patch under each place of the window is a row.
//!
//! For any window. With the patches $P$ of an image (a row for each pixel of the output, an element
//! for each weight of a filter), weights $W$ and output $Y$:
//! $$ Y = P W + b, \quad dW = P^T dY, \quad dP = dY W^T, $$
//! and the derivatives by the patches are added up where patches overlap.

use super::{Image, Window};
use crate::kernels::{Scalar, Start, View, multiply};

/// Sizes of a convolution by patches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patches {
    pub input: Image,
    pub window: Window,
    pub output: Image,
}

impl Patches {
    /// Weights of a filter.
    fn depth(&self) -> usize {
        self.window.size[0] * self.window.size[1] * self.input.channels
    }

    /// Elements of the transposed weights.
    pub fn shared(&self) -> usize {
        self.depth() * self.output.channels
    }

    /// Elements of an image's patches.
    pub fn scratch(&self) -> usize {
        self.depth() * self.output.pixels()
    }

    /// Transposes the weights.
    pub fn prepare<F: Scalar>(&self, weights: &[F], shared: &mut [F]) {
        F::transpose(weights, self.output.channels, shared, self.depth());
    }

    pub fn forward<F: Scalar>(
        &self,
        (weights, bias): (&[F], &[F]),
        image: &[F],
        map: &mut [F],
        patches: &mut [F],
    ) {
        let (m, n, k) = (self.output.pixels(), self.output.channels, self.depth());
        self.gather(image, patches);
        multiply([m, n, k], View::rows(patches, k), weights, Start::Row(bias), map, false);
    }

    /// Adds to the weights' derivatives, which start from zero at the shard's first image.
    pub fn backward_weights<F: Scalar>(
        &self,
        image: &[F],
        d_map: &[F],
        first: bool,
        d_weights: &mut [F],
        patches: &mut [F],
    ) {
        let (m, n, k) = (self.depth(), self.output.channels, self.output.pixels());
        let start = if first { Start::Zero } else { Start::Present };
        self.gather(image, patches);
        multiply([m, n, k], View::columns(patches, m), d_map, start, d_weights, false);
    }

    pub fn backward_image<F: Scalar>(
        &self,
        transposed: &[F],
        d_map: &[F],
        d_image: &mut [F],
        patches: &mut [F],
    ) {
        let (m, n, k) = (self.output.pixels(), self.depth(), self.output.channels);
        multiply([m, n, k], View::rows(d_map, k), transposed, Start::Zero, patches, false);
        d_image.fill(F::ZERO);
        self.each_run(|at, len, inside| {
            if let Some(inside) = inside {
                let d_patch = &patches[at..at + len];
                d_image[inside..inside + len].iter_mut().zip(d_patch).for_each(|(d, p)| *d += *p);
            }
        });
    }

    /// Copies the patches, zeros where they reach over the edge.
    fn gather<F: Scalar>(&self, image: &[F], patches: &mut [F]) {
        self.each_run(|at, len, inside| match inside {
            Some(inside) => patches[at..at + len].copy_from_slice(&image[inside..inside + len]),
            None => patches[at..at + len].fill(F::ZERO),
        });
    }

    /// For each run of neighbours in the patches: where it begins, its length, and where it begins in
    /// the image, if it lies inside.
    #[inline(always)]
    fn each_run(&self, mut visit: impl FnMut(usize, usize, Option<usize>)) {
        let Window { size: [rows, columns], stride, padding } = self.window;
        let Image { height, width, channels } = self.input;
        let run = columns * channels;
        for place in 0..self.output.pixels() {
            let (y, x) = (place / self.output.width, place % self.output.width);
            // The columns of the window that are inside.
            let left = x * stride[1];
            let from = padding[1].saturating_sub(left).min(columns);
            let to = (width + padding[1]).saturating_sub(left).min(columns).max(from);
            for i in 0..rows {
                let at = (place * rows + i) * run;
                let row = (y * stride[0] + i).checked_sub(padding[0]).filter(|row| *row < height);
                let Some(row) = row.filter(|_| from < to) else {
                    visit(at, run, None);
                    continue;
                };
                let inside = (row * width + left + from - padding[1]) * channels;
                if from > 0 {
                    visit(at, from * channels, None);
                }
                visit(at + from * channels, (to - from) * channels, Some(inside));
                if to < columns {
                    visit(at + to * channels, (columns - to) * channels, None);
                }
            }
        }
    }
}
