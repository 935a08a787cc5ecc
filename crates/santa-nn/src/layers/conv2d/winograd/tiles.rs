//! The transforms of tiles and of filters, on their places in the buffers.

use super::Winograd;
use super::transforms::{
    Filter, FilterBack, IN, Input, InputBack, OUT, Output, OutputBack, TAPS, twice,
};
use crate::kernels::Scalar;
use crate::layers::conv2d::Image;
use pulp::{Simd, WithSimd};

/// A register from a slice.
#[inline(always)]
fn load<F: Scalar, S: Simd>(slice: &[F], at: usize) -> F::Vector<S> {
    F::vectors::<S>(&slice[at..at + F::lanes::<S>()]).0[0]
}

/// A register into a slice.
#[inline(always)]
fn store<F: Scalar, S: Simd>(slice: &mut [F], at: usize, x: F::Vector<S>) {
    F::vectors_mut::<S>(&mut slice[at..at + F::lanes::<S>()]).0[0] = x;
}

/// Calls `visit` with column and channel for each register of a row of tiles.
#[inline(always)]
fn each_tile<F: Scalar, S: Simd>(
    across: usize,
    channels: usize,
    mut visit: impl FnMut(usize, usize),
) {
    for x in 0..across {
        for c in (0..channels).step_by(F::lanes::<S>()) {
            visit(x, c);
        }
    }
}

/// Where the frequencies of a row of tiles lie: from one to the next, and the number of the first
/// tile.
#[derive(Clone, Copy)]
struct Frequencies {
    step: usize,
    channels: usize,
    first: usize,
}

impl Frequencies {
    /// Where row i, column j of the frequencies of a tile lies, by its column and a channel.
    #[inline(always)]
    fn at(self, x: usize, c: usize) -> impl Fn(usize, usize) -> usize + Copy {
        let corner = (self.first + x) * self.channels + c;
        move |i, j| (i * IN + j) * self.step + corner
    }
}

/// $V = B^T d B$ for a row of tiles.
pub(super) struct InputTiles<'a, F> {
    pub of: &'a Winograd,
    pub padded: &'a [F],
    pub y: usize,
    pub first: usize,
    pub v: &'a mut [F],
}

impl<F: Scalar> WithSimd for InputTiles<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let InputTiles { of, padded, y, first, v } = self;
        let (channels, row) = (of.input.channels, of.padded().row());
        let frequencies = Frequencies { step: of.step(channels), channels, first };
        let half = &mut [[F::splat(simd, F::ZERO); IN]; IN];
        each_tile::<F, S>(
            of.tiles[1],
            channels,
            #[inline(always)]
            |x, c| {
                let (corner, at) = (OUT * (y * row + x * channels) + c, frequencies.at(x, c));
                twice::<Input, F, S, IN, IN>(
                    simd,
                    half,
                    #[inline(always)]
                    |i, j| load::<F, S>(padded, corner + i * row + j * channels),
                    #[inline(always)]
                    |i, j, x| store::<F, S>(v, at(i, j), x),
                );
            },
        );
    }
}

/// $dd = B\ dV B^T$, added up.
pub(super) struct InputTilesBack<'a, F> {
    pub of: &'a Winograd,
    pub v: &'a [F],
    pub y: usize,
    pub first: usize,
    pub d_padded: &'a mut [F],
}

impl<F: Scalar> WithSimd for InputTilesBack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let InputTilesBack { of, v, y, first, d_padded } = self;
        let (channels, row) = (of.input.channels, of.padded().row());
        let frequencies = Frequencies { step: of.step(channels), channels, first };
        let half = &mut [[F::splat(simd, F::ZERO); IN]; IN];
        each_tile::<F, S>(
            of.tiles[1],
            channels,
            #[inline(always)]
            |x, c| {
                let (corner, at) = (OUT * (y * row + x * channels) + c, frequencies.at(x, c));
                twice::<InputBack, F, S, IN, IN>(
                    simd,
                    half,
                    #[inline(always)]
                    |i, j| load::<F, S>(v, at(i, j)),
                    #[inline(always)]
                    |i, j, d| {
                        let to = corner + i * row + j * channels;
                        let sum = F::plus(simd, load::<F, S>(d_padded, to), d);
                        store::<F, S>(d_padded, to, sum);
                    },
                );
            },
        );
    }
}

/// $Y = A^T M A + b$ for a row of tiles.
pub(super) struct OutputTiles<'a, F> {
    pub of: &'a Winograd,
    pub m: &'a [F],
    pub bias: &'a [F],
    pub y: usize,
    pub first: usize,
    pub map: &'a mut [F],
}

impl<F: Scalar> WithSimd for OutputTiles<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let OutputTiles { of, m, bias, y, first, map } = self;
        let (n, row) = (of.filters, of.map().row());
        let frequencies = Frequencies { step: of.step(n), channels: n, first };
        let half = &mut [[F::splat(simd, F::ZERO); IN]; OUT];
        each_tile::<F, S>(
            of.tiles[1],
            n,
            #[inline(always)]
            |x, c| {
                let (corner, at) = (OUT * (y * row + x * n) + c, frequencies.at(x, c));
                let bias = load::<F, S>(bias, c);
                twice::<Output, F, S, IN, OUT>(
                    simd,
                    half,
                    #[inline(always)]
                    |i, j| load::<F, S>(m, at(i, j)),
                    #[inline(always)]
                    |i, j, y| store::<F, S>(map, corner + i * row + j * n, F::plus(simd, y, bias)),
                );
            },
        );
    }
}

/// The same, and the maximum of each tile.
pub(super) struct PooledTiles<'a, F> {
    pub of: &'a Winograd,
    pub m: &'a [F],
    pub bias: &'a [F],
    pub y: usize,
    pub first: usize,
    /// Tiles that are cut at the edge have no place here.
    pub pooled: Image,
    pub output: &'a mut [F],
    pub kept: &'a mut [F],
}

impl<F: Scalar> WithSimd for PooledTiles<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let PooledTiles { of, m, bias, y, first, pooled, output, kept } = self;
        if y >= pooled.height {
            return;
        }
        let n = of.filters;
        let frequencies = Frequencies { step: of.step(n), channels: n, first };
        let half = &mut [[F::splat(simd, F::ZERO); IN]; OUT];
        each_tile::<F, S>(
            pooled.width,
            n,
            #[inline(always)]
            |x, c| {
                let (at, bias) = (frequencies.at(x, c), load::<F, S>(bias, c));
                let (mut best, mut position) = (bias, bias);
                twice::<Output, F, S, IN, OUT>(
                    simd,
                    half,
                    #[inline(always)]
                    |i, j| load::<F, S>(m, at(i, j)),
                    #[inline(always)]
                    |i, j, y| {
                        let y = F::plus(simd, y, bias);
                        let here = F::splat(simd, F::from_f64((i * OUT + j) as f64));
                        if i + j == 0 {
                            (best, position) = (y, here);
                        } else {
                            position = F::where_above(simd, y, best, here, position);
                            best = F::where_above(simd, y, best, y, best);
                        }
                    },
                );
                let place = (y * pooled.width + x) * n + c;
                store::<F, S>(output, place, best);
                store::<F, S>(kept, place, position);
            },
        );
    }
}

/// $dM = A\ dY A^T$ for a row of tiles.
pub(super) struct OutputTilesBack<'a, F> {
    pub of: &'a Winograd,
    pub d_map: &'a [F],
    pub y: usize,
    pub first: usize,
    pub m: &'a mut [F],
}

impl<F: Scalar> WithSimd for OutputTilesBack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let OutputTilesBack { of, d_map, y, first, m } = self;
        let (n, row) = (of.filters, of.map().row());
        let frequencies = Frequencies { step: of.step(n), channels: n, first };
        let half = &mut [[F::splat(simd, F::ZERO); OUT]; IN];
        each_tile::<F, S>(
            of.tiles[1],
            n,
            #[inline(always)]
            |x, c| {
                let (corner, at) = (OUT * (y * row + x * n) + c, frequencies.at(x, c));
                twice::<OutputBack, F, S, OUT, IN>(
                    simd,
                    half,
                    #[inline(always)]
                    |i, j| load::<F, S>(d_map, corner + i * row + j * n),
                    #[inline(always)]
                    |i, j, d| store::<F, S>(m, at(i, j), d),
                );
            },
        );
    }
}

/// The same from the derivatives by the pooled tiles.
pub(super) struct PooledTilesBack<'a, F> {
    pub of: &'a Winograd,
    pub pooled: Image,
    pub kept: &'a [F],
    pub d_output: &'a [F],
    pub y: usize,
    pub first: usize,
    pub m: &'a mut [F],
}

impl<F: Scalar> WithSimd for PooledTilesBack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let PooledTilesBack { of, pooled, kept, d_output, y, first, m } = self;
        let n = of.filters;
        let frequencies = Frequencies { step: of.step(n), channels: n, first };
        let zero = F::splat(simd, F::ZERO);
        let half = &mut [[zero; OUT]; IN];
        each_tile::<F, S>(
            of.tiles[1],
            n,
            #[inline(always)]
            |x, c| {
                let at = frequencies.at(x, c);
                let (mut d, mut position) = (zero, zero);
                if y < pooled.height && x < pooled.width {
                    let from = (y * pooled.width + x) * n + c;
                    (d, position) = (load::<F, S>(d_output, from), load::<F, S>(kept, from));
                }
                twice::<OutputBack, F, S, OUT, IN>(
                    simd,
                    half,
                    #[inline(always)]
                    |i, j| {
                        let here = F::splat(simd, F::from_f64((i * OUT + j) as f64));
                        F::where_equal(simd, position, here, d, zero)
                    },
                    #[inline(always)]
                    |i, j, d| store::<F, S>(m, at(i, j), d),
                );
            },
        );
    }
}

/// $U = G g G^T$.
pub(super) struct Filters<'a, F> {
    pub block: usize,
    pub weights: &'a [F],
    pub u: &'a mut [F],
}

impl<F: Scalar> WithSimd for Filters<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Filters { block, weights, u } = self;
        let half = &mut [[F::splat(simd, F::ZERO); TAPS]; IN];
        for at in (0..block).step_by(F::lanes::<S>()) {
            twice::<Filter, F, S, TAPS, IN>(
                simd,
                half,
                #[inline(always)]
                |i, j| load::<F, S>(weights, (i * TAPS + j) * block + at),
                #[inline(always)]
                |i, j, x| store::<F, S>(u, (i * IN + j) * block + at, x),
            );
        }
    }
}

/// $dg = G^T dU\ G$.
pub(super) struct FiltersBack<'a, F> {
    pub block: usize,
    pub d_u: &'a [F],
    pub d_weights: &'a mut [F],
}

impl<F: Scalar> WithSimd for FiltersBack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let FiltersBack { block, d_u, d_weights } = self;
        let half = &mut [[F::splat(simd, F::ZERO); IN]; TAPS];
        for at in (0..block).step_by(F::lanes::<S>()) {
            twice::<FilterBack, F, S, IN, TAPS>(
                simd,
                half,
                #[inline(always)]
                |i, j| load::<F, S>(d_u, (i * IN + j) * block + at),
                #[inline(always)]
                |i, j, x| store::<F, S>(d_weights, (i * TAPS + j) * block + at, x),
            );
        }
    }
}
