//! Convolution of images with one channel, as the definition has it: the first layer of a network.
//!
//! There is nothing to sum over but the window's taps, and too few of these for a matrix product to
//! be worth its packing. A tile of neighbouring places times a few registers of filters stays in
//! registers while the taps run; for the gradient, a row of taps does while the places run. The map is
//! computed a band at a time, the rows under one row of pooling windows, and pooled while it is in the
//! first-level cache.

use super::{Image, LINE, Map, Tail, Window};
use crate::kernels::Scalar;
use pulp::{Arch, Simd, WithSimd};

/// Registers of a wide instruction set.
const MANY_REGISTERS: usize = 32;
/// Registers of filters in a tile, at most.
const VECTORS: usize = 2;
/// Places of a tile for many registers (20 of 32 for sums), and how many of the last for few.
const PLACES: [usize; 6] = [10, 8, 7, 6, 4, 1];
const FEW_PLACES: usize = 3;
/// Taps of a tile of the gradient: 10 or 12 registers of sums.
const TAPS: usize = 6;

/// Sizes of a convolution of images with one channel, at a horizontal stride of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    pub input: Image,
    pub window: Window,
    /// The whole map.
    pub map: Image,
}

impl Direct {
    fn padded(&self) -> Image {
        let Image { height, width, channels } = self.input;
        let [vertical, horizontal] = self.window.padding;
        Image { height: height + 2 * vertical, width: width + 2 * horizontal, channels }
    }

    /// Rows of the map that are computed together, and from one such band to the next.
    fn band(&self, tail: &Tail) -> [usize; 2] {
        tail.pool.map_or([1, 1], |pool| [pool.size[0], pool.stride[0]])
    }

    pub fn scratch(&self, tail: &Tail) -> usize {
        self.padded().len().next_multiple_of(LINE) + self.band(tail)[0] * self.map.row()
    }

    fn buffers<'a, F>(&self, tail: &Tail, scratch: &'a mut [F]) -> (&'a mut [F], &'a mut [F]) {
        let (padded, rest) = scratch.split_at_mut(self.padded().len().next_multiple_of(LINE));
        (padded, &mut rest[..self.band(tail)[0] * self.map.row()])
    }

    /// The forward pass of a shard.
    pub fn forward<F: Scalar>(
        &self,
        tail: &Tail,
        (weights, bias): (&[F], &[F]),
        input: &[F],
        (output, kept): (&mut [F], &mut [F]),
        scratch: &mut [F],
    ) {
        let (padded, band) = self.buffers(tail, scratch);
        let step = self.band(tail)[1];
        let len = tail.output.row();
        let arch = Arch::new();
        padded.fill(F::ZERO);
        for (example, image) in input.chunks_exact(self.input.len()).enumerate() {
            self.pad(image, padded);
            for y in 0..tail.output.height {
                let begin = (example * tail.output.height + y) * len;
                let output = &mut output[begin..begin + len];
                let first = y * step;
                if let Some(window) = tail.pool {
                    let image = Image { height: 1, ..tail.output };
                    let kept = &mut kept[begin..begin + len];
                    arch.dispatch(Rows { of: self, padded, first, weights, bias, out: band });
                    Map { image, window, row: self.map.row() }.pool(band, output, kept);
                } else {
                    arch.dispatch(Rows { of: self, padded, first, weights, bias, out: output });
                }
            }
        }
    }

    /// The weights' derivatives of a shard.
    pub fn backward<F: Scalar>(
        &self,
        tail: &Tail,
        input: &[F],
        (kept, d_output): (&[F], &[F]),
        d_weights: &mut [F],
        scratch: &mut [F],
    ) {
        let (padded, band) = self.buffers(tail, scratch);
        let step = self.band(tail)[1];
        let len = tail.output.row();
        let arch = Arch::new();
        padded.fill(F::ZERO);
        d_weights.fill(F::ZERO);
        for (example, image) in input.chunks_exact(self.input.len()).enumerate() {
            self.pad(image, padded);
            for y in 0..tail.output.height {
                let begin = (example * tail.output.height + y) * len;
                let d_output = &d_output[begin..begin + len];
                let first = y * step;
                let d_rows = if let Some(window) = tail.pool {
                    let image = Image { height: 1, ..tail.output };
                    band.fill(F::ZERO);
                    Map { image, window, row: self.map.row() }.spread(
                        &kept[begin..begin + len],
                        d_output,
                        band,
                    );
                    &*band
                } else {
                    d_output
                };
                arch.dispatch(RowsBack { of: self, padded, first, d_rows, d_weights });
            }
        }
    }

    /// Copies an image into the zeros around it.
    fn pad<F: Scalar>(&self, image: &[F], padded: &mut [F]) {
        let row = self.padded().row();
        for (y, image) in image.chunks_exact(self.input.row()).enumerate() {
            let begin = (y + self.window.padding[0]) * row + self.window.padding[1];
            padded[begin..begin + image.len()].copy_from_slice(image);
        }
    }
}

/// Rows of the map, from `first` on.
struct Rows<'a, F> {
    of: &'a Direct,
    padded: &'a [F],
    first: usize,
    weights: &'a [F],
    bias: &'a [F],
    out: &'a mut [F],
}

impl<F: Scalar> WithSimd for Rows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Rows { of, padded, first, weights, bias, out } = self;
        let Image { width, channels: n, .. } = of.map;
        let sizes = if S::REGISTER_COUNT < MANY_REGISTERS {
            &PLACES[PLACES.len() - FEW_PLACES..]
        } else {
            &PLACES
        };
        // The size with the fewest places computed twice: the last tile ends at the edge.
        let cost = |places: usize| width.div_ceil(places) * places;
        let fitting = sizes.iter().copied().filter(|places| *places <= width);
        let places = fitting.min_by_key(|places| cost(*places)).unwrap_or(1);
        let row = of.padded().row();
        for (y, out) in out.chunks_exact_mut(of.map.row()).enumerate() {
            let lines = &padded[(first + y) * of.window.stride[0] * row..];
            let mut left = 0;
            while left < n {
                let vectors = ((n - left) / F::lanes::<S>()).min(VECTORS);
                let tiles = Tiles { of, lines, weights, bias, left, places, out };
                match vectors {
                    1 => tiles_of::<F, S, 1>(simd, tiles),
                    _ => tiles_of::<F, S, VECTORS>(simd, tiles),
                }
                left += vectors * F::lanes::<S>();
            }
        }
    }
}

/// A row of the map, a few registers of filters wide.
struct Tiles<'a, F> {
    of: &'a Direct,
    /// The rows of the image under the first row of the window, and those below.
    lines: &'a [F],
    weights: &'a [F],
    bias: &'a [F],
    /// The first filter.
    left: usize,
    places: usize,
    out: &'a mut [F],
}

/// Picks the tile's size.
#[inline(always)]
fn tiles_of<F: Scalar, S: Simd, const VECTORS: usize>(simd: S, tiles: Tiles<'_, F>) {
    macro_rules! choose {
        ($($places:literal)*) => {
            match tiles.places {
                $($places => run_tiles::<F, S, $places, VECTORS>(simd, tiles),)*
                _ => run_tiles::<F, S, 1, VECTORS>(simd, tiles),
            }
        };
    }
    if S::REGISTER_COUNT < MANY_REGISTERS {
        choose!(6 4);
    } else {
        choose!(10 8 7 6 4);
    }
}

/// A function of its own for each size, so that each has all registers.
#[inline(never)]
fn run_tiles<F: Scalar, S: Simd, const PLACES: usize, const VECTORS: usize>(
    simd: S,
    tiles: Tiles<'_, F>,
) {
    simd.vectorize(
        #[inline(always)]
        || {
            let Tiles { of, lines, weights, bias, left, out, .. } = tiles;
            let Image { width, channels: n, .. } = of.map;
            let ([rows, columns], row) = (of.window.size, of.padded().row());
            let span = VECTORS * F::lanes::<S>();
            for from in (0..width).step_by(PLACES) {
                let from = from.min(width - PLACES);
                let mut sums = [[F::splat(simd, F::ZERO); VECTORS]; PLACES];
                let bias = &F::vectors::<S>(&bias[left..left + span]).0[..VECTORS];
                for p in 0..PLACES {
                    for v in 0..VECTORS {
                        sums[p][v] = bias[v];
                    }
                }
                for i in 0..rows {
                    let line = &lines[i * row + from..][..columns + PLACES - 1];
                    let weights = &weights[i * columns * n..(i + 1) * columns * n];
                    for (x, w) in line.windows(PLACES).zip(weights.chunks_exact(n)) {
                        let w = &F::vectors::<S>(&w[left..left + span]).0[..VECTORS];
                        for p in 0..PLACES {
                            let x = F::splat(simd, x[p]);
                            for v in 0..VECTORS {
                                sums[p][v] = F::mul_add(simd, x, w[v], sums[p][v]);
                            }
                        }
                    }
                }
                let out = &mut out[from * n..(from + PLACES) * n];
                for (out, sums) in out.chunks_exact_mut(n).zip(&sums) {
                    let out = &mut F::vectors_mut::<S>(&mut out[left..left + span]).0[..VECTORS];
                    for v in 0..VECTORS {
                        out[v] = sums[v];
                    }
                }
            }
        },
    );
}

/// Adds to the weights' derivatives what rows of the map, from `first` on, contribute.
struct RowsBack<'a, F> {
    of: &'a Direct,
    padded: &'a [F],
    first: usize,
    d_rows: &'a [F],
    d_weights: &'a mut [F],
}

impl<F: Scalar> WithSimd for RowsBack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let RowsBack { of, padded, first, d_rows, d_weights } = self;
        let n = of.map.channels;
        let [rows, columns] = of.window.size;
        let row = of.padded().row();
        for i in 0..rows {
            let lines = &padded[(first * of.window.stride[0] + i) * row..];
            let pieces = columns.div_ceil(TAPS);
            for piece in 0..pieces {
                let (tap, end) = (piece * columns / pieces, (piece + 1) * columns / pieces);
                let d_weights = &mut d_weights[(i * columns + tap) * n..(i * columns + end) * n];
                let mut left = 0;
                while left < n {
                    let vectors = ((n - left) / F::lanes::<S>()).min(VECTORS);
                    let taps = Taps { of, lines, tap, left, d_rows, d_weights };
                    match vectors {
                        1 => taps_of::<F, S, 1>(simd, taps),
                        _ => taps_of::<F, S, VECTORS>(simd, taps),
                    }
                    left += vectors * F::lanes::<S>();
                }
            }
        }
    }
}

/// Neighbouring taps of a row of the window, a few registers of filters wide.
struct Taps<'a, F> {
    of: &'a Direct,
    /// The rows of the image under this row of the window.
    lines: &'a [F],
    /// The first tap.
    tap: usize,
    /// The first filter.
    left: usize,
    d_rows: &'a [F],
    d_weights: &'a mut [F],
}

/// Picks the number of taps.
#[inline(always)]
fn taps_of<F: Scalar, S: Simd, const VECTORS: usize>(simd: S, taps: Taps<'_, F>) {
    match taps.d_weights.len() / taps.of.map.channels {
        1 => run_taps::<F, S, 1, VECTORS>(simd, taps),
        2 => run_taps::<F, S, 2, VECTORS>(simd, taps),
        3 => run_taps::<F, S, 3, VECTORS>(simd, taps),
        4 => run_taps::<F, S, 4, VECTORS>(simd, taps),
        5 => run_taps::<F, S, 5, VECTORS>(simd, taps),
        _ => run_taps::<F, S, TAPS, VECTORS>(simd, taps),
    }
}

#[inline(never)]
fn run_taps<F: Scalar, S: Simd, const COUNT: usize, const VECTORS: usize>(
    simd: S,
    taps: Taps<'_, F>,
) {
    simd.vectorize(
        #[inline(always)]
        || {
            let Taps { of, lines, tap, left, d_rows, d_weights } = taps;
            let Image { width, channels: n, .. } = of.map;
            let (row, span) = (of.padded().row(), VECTORS * F::lanes::<S>());
            let mut sums = [[F::splat(simd, F::ZERO); VECTORS]; COUNT];
            for (t, d_weights) in d_weights.chunks_exact(n).enumerate().take(COUNT) {
                let d = &F::vectors::<S>(&d_weights[left..left + span]).0[..VECTORS];
                for v in 0..VECTORS {
                    sums[t][v] = d[v];
                }
            }
            for (y, d_row) in d_rows.chunks_exact(of.map.row()).enumerate() {
                let line = &lines[y * of.window.stride[0] * row + tap..][..width + COUNT - 1];
                for (x, d) in line.windows(COUNT).zip(d_row.chunks_exact(n)) {
                    let d = &F::vectors::<S>(&d[left..left + span]).0[..VECTORS];
                    for t in 0..COUNT {
                        let x = F::splat(simd, x[t]);
                        for v in 0..VECTORS {
                            sums[t][v] = F::mul_add(simd, x, d[v], sums[t][v]);
                        }
                    }
                }
            }
            for (t, d_weights) in d_weights.chunks_exact_mut(n).enumerate().take(COUNT) {
                let d = &mut F::vectors_mut::<S>(&mut d_weights[left..left + span]).0[..VECTORS];
                for v in 0..VECTORS {
                    d[v] = sums[t][v];
                }
            }
        },
    );
}
