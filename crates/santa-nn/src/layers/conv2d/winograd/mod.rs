//! Winograd's convolution F(2 x 2, 5 x 5): 36 multiplications instead of 100 for four outputs.
//!
//! The output is cut into tiles of 2 x 2, each of which depends on 6 x 6 of the (padded) input. With
//! the matrices of [`transforms`], and a product over the channels for each of the 36 frequencies:
//! $$ U = G g G^T, \quad V = B^T d B, \quad M = V U, \quad Y = A^T M A $$
//! and backwards
//! $$ dM = A\ dY A^T, \quad dU = \sum V^T dM, \quad dV = dM\ U^T, \quad dd = B\ dV B^T, \quad
//! dg = G^T dU\ G, $$
//! where the tiles' $dd$ overlap and are added up.
//!
//! The price is rounding: the transforms subtract what they added. In `f32`, with 32 channels, the
//! largest error of an output or a derivative is about 1e-5 of their root mean square, ten times that
//! of the direct sum (see the tests).

mod transforms;

use super::{Image, LINE, Tail, Window};
use crate::kernels::{Scalar, Start, View, multiply};
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;
use transforms::{Filter, FilterBack, IN, Input, InputBack, OUT, Output, OutputBack, TAPS, twice};

/// Products of a tile: the frequencies in two dimensions.
const FREQUENCIES: usize = IN * IN;
/// Tiles that are transformed together, at most, unless a row has more: all their frequencies and
/// those of the filters should fit into the second-level cache.
const TILES: usize = 50;

/// Sizes of a convolution in the transformed domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Winograd {
    input: Image,
    padding: [usize; 2],
    filters: usize,
    /// Tiles of an image, down and across.
    tiles: [usize; 2],
    /// Rows of tiles that are transformed together, whichever images they belong to.
    rows: usize,
}

impl Winograd {
    /// The kernel that this is for.
    pub const SIZE: [usize; 2] = [TAPS, TAPS];

    /// For a map of this size.
    pub fn new(input: Image, padding: [usize; 2], map: Image) -> Self {
        let tiles = [map.height.div_ceil(OUT), map.width.div_ceil(OUT)];
        let rows = (TILES / tiles[1]).max(1);
        Winograd { input, padding, filters: map.channels, tiles, rows }
    }

    /// The map that whole tiles make: the output, and up to a row and a column more.
    pub fn map(&self) -> Image {
        let [down, across] = self.tiles;
        Image { height: OUT * down, width: OUT * across, channels: self.filters }
    }

    /// What the tiles read: the input with its padding, and up to a row and a column more.
    fn padded(&self) -> Image {
        let Image { height, width, .. } = self.map();
        let overlap = TAPS - 1;
        Image { height: height + overlap, width: width + overlap, channels: self.input.channels }
    }

    /// Elements of a frequency of all filters.
    fn block(&self) -> usize {
        self.input.channels * self.filters
    }

    /// Elements from one frequency of the tiles to the next. A line more than needed, lest all
    /// frequencies compete for the same set of the cache.
    fn step(&self, channels: usize) -> usize {
        self.rows * self.tiles[1] * channels + LINE
    }

    /// Elements of the transformed filters, and of their transpose.
    pub fn shared(&self) -> usize {
        2 * FREQUENCIES * self.block()
    }

    pub fn scratch(&self) -> usize {
        2 * self.padded().len()
            + FREQUENCIES
                * (self.step(self.input.channels) + self.step(self.filters) + self.block())
    }

    fn buffers<'a, F>(&self, scratch: &'a mut [F]) -> Buffers<'a, F> {
        let (padded, scratch) = scratch.split_at_mut(self.padded().len());
        let (d_padded, scratch) = scratch.split_at_mut(self.padded().len());
        let (v, scratch) = scratch.split_at_mut(FREQUENCIES * self.step(self.input.channels));
        let (m, scratch) = scratch.split_at_mut(FREQUENCIES * self.step(self.filters));
        let d_u = &mut scratch[..FREQUENCIES * self.block()];
        Buffers { padded, d_padded, v, m, d_u }
    }

    /// $U = G g G^T$, and the transpose of each frequency.
    pub fn prepare<F: Scalar>(&self, weights: &[F], shared: &mut [F]) {
        let (u, transposed) = shared.split_at_mut(FREQUENCIES * self.block());
        Arch::new().dispatch(Filters { block: self.block(), weights, u });
        let (channels, filters) = (self.input.channels, self.filters);
        for (u, transposed) in
            u.chunks_exact(self.block()).zip(transposed.chunks_exact_mut(self.block()))
        {
            for (filter, transposed) in transposed.chunks_exact_mut(channels).enumerate() {
                for c in 0..channels {
                    transposed[c] = u[c * filters + filter];
                }
            }
        }
    }

    /// The forward pass of a shard.
    pub fn forward<F: Scalar>(
        &self,
        tail: &Tail,
        bias: &[F],
        shared: &[F],
        input: &[F],
        (output, kept, map): (&mut [F], &mut [F], &mut [F]),
        scratch: &mut [F],
    ) {
        let Buffers { padded, v, m, .. } = self.buffers(scratch);
        let (c, n, block) = (self.input.channels, self.filters, self.block());
        let (v_step, m_step) = (self.step(c), self.step(n));
        let (image_len, output_len) = (self.input.len(), tail.output.len());
        let [down, across] = self.tiles;
        let pools_tiles = tail.pool == Some(Window::tiling([OUT, OUT]));
        let arch = Arch::new();
        padded.fill(F::ZERO);
        for rows in self.blocks(input.len() / image_len) {
            for (row, first) in rows.clone().zip((0..).step_by(across)) {
                let (example, y) = (row / down, row % down);
                if y == 0 {
                    self.pad(&input[example * image_len..][..image_len], padded);
                }
                arch.dispatch(InputTiles { of: self, padded, y, first, v });
            }
            for f in 0..FREQUENCIES {
                let (v, u) = (&v[f * v_step..], &shared[f * block..][..block]);
                let m = &mut m[f * m_step..];
                multiply([rows.len() * across, n, c], View::rows(v, c), u, Start::Zero, m, false);
            }
            for (row, first) in rows.clone().zip((0..).step_by(across)) {
                let (example, y) = (row / down, row % down);
                let of = example * output_len..(example + 1) * output_len;
                let output = &mut output[of.clone()];
                let kept = kept.get_mut(of).unwrap_or_default();
                if pools_tiles {
                    let pooled = tail.output;
                    arch.dispatch(PooledTiles {
                        of: self,
                        m,
                        bias,
                        y,
                        first,
                        pooled,
                        output,
                        kept,
                    });
                } else if map.is_empty() {
                    arch.dispatch(OutputTiles { of: self, m, bias, y, first, map: output });
                } else {
                    arch.dispatch(OutputTiles { of: self, m, bias, y, first, map });
                    if y + 1 == down {
                        tail.finish(map, output, kept);
                    }
                }
            }
        }
    }

    /// The backward pass of a shard.
    pub fn backward<F: Scalar>(
        &self,
        tail: &Tail,
        shared: &[F],
        input: &[F],
        (kept, d_output): (&[F], &[F]),
        (mut d_input, d_weights, d_map): (Option<&mut [F]>, &mut [F], &mut [F]),
        scratch: &mut [F],
    ) {
        let Buffers { padded, d_padded, v, m, d_u } = self.buffers(scratch);
        let (c, n, block) = (self.input.channels, self.filters, self.block());
        let (v_step, m_step) = (self.step(c), self.step(n));
        let (image_len, output_len) = (self.input.len(), tail.output.len());
        let [down, across] = self.tiles;
        let transposed = &shared[FREQUENCIES * block..];
        let pools_tiles = tail.pool == Some(Window::tiling([OUT, OUT]));
        let arch = Arch::new();
        padded.fill(F::ZERO);
        let mut start = Start::Zero;
        for rows in self.blocks(input.len() / image_len) {
            for (row, first) in rows.clone().zip((0..).step_by(across)) {
                let (example, y) = (row / down, row % down);
                let of = example * output_len..(example + 1) * output_len;
                let d_output = &d_output[of.clone()];
                let kept = kept.get(of).unwrap_or_default();
                if y == 0 {
                    self.pad(&input[example * image_len..][..image_len], padded);
                }
                arch.dispatch(InputTiles { of: self, padded, y, first, v });
                if pools_tiles {
                    let pooled = tail.output;
                    arch.dispatch(PooledTilesBack {
                        of: self,
                        pooled,
                        kept,
                        d_output,
                        y,
                        first,
                        m,
                    });
                } else if d_map.is_empty() {
                    arch.dispatch(OutputTilesBack { of: self, d_map: d_output, y, first, m });
                } else {
                    if y == 0 {
                        tail.spread(kept, d_output, d_map);
                    }
                    arch.dispatch(OutputTilesBack { of: self, d_map, y, first, m });
                }
            }
            let tiles = rows.len() * across;
            for f in 0..FREQUENCIES {
                let (v, m) = (&mut v[f * v_step..], &m[f * m_step..]);
                let d_u = &mut d_u[f * block..][..block];
                multiply([c, n, tiles], View::columns(v, c), m, start, d_u, false);
                if d_input.is_some() {
                    let transposed = &transposed[f * block..][..block];
                    // The tiles of the input are not needed any more: their derivatives' place.
                    multiply([tiles, c, n], View::rows(m, n), transposed, Start::Zero, v, false);
                }
            }
            start = Start::Present;
            if let Some(d_input) = &mut d_input {
                for (row, first) in rows.zip((0..).step_by(across)) {
                    let (example, y) = (row / down, row % down);
                    if y == 0 {
                        d_padded.fill(F::ZERO);
                    }
                    arch.dispatch(InputTilesBack { of: self, v, y, first, d_padded });
                    if y + 1 == down {
                        self.unpad(d_padded, &mut d_input[example * image_len..][..image_len]);
                    }
                }
            }
        }
        arch.dispatch(FiltersBack { block, d_u, d_weights });
    }

    /// The rows of tiles of a shard, cut into blocks.
    fn blocks(&self, examples: usize) -> impl Iterator<Item = Range<usize>> {
        let (rows, at_once) = (examples * self.tiles[0], self.rows);
        (0..rows).step_by(at_once).map(move |from| from..rows.min(from + at_once))
    }

    /// Copies an image into the zeros around it.
    fn pad<F: Scalar>(&self, image: &[F], padded: &mut [F]) {
        let (row, padded_row) = (self.input.row(), self.padded().row());
        for (y, image) in image.chunks_exact(row).enumerate() {
            let begin = (y + self.padding[0]) * padded_row + self.padding[1] * self.input.channels;
            padded[begin..begin + row].copy_from_slice(image);
        }
    }

    /// Copies an image out of what is around it.
    fn unpad<F: Scalar>(&self, padded: &[F], image: &mut [F]) {
        let (row, padded_row) = (self.input.row(), self.padded().row());
        for (y, image) in image.chunks_exact_mut(row).enumerate() {
            let begin = (y + self.padding[0]) * padded_row + self.padding[1] * self.input.channels;
            image.copy_from_slice(&padded[begin..begin + row]);
        }
    }
}

/// The parts of the scratch.
struct Buffers<'a, F> {
    padded: &'a mut [F],
    d_padded: &'a mut [F],
    v: &'a mut [F],
    m: &'a mut [F],
    d_u: &'a mut [F],
}

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

/// A square of registers; `at` says where row i, column j lies.
#[inline(always)]
fn load_square<F: Scalar, S: Simd, const N: usize>(
    simd: S,
    slice: &[F],
    at: impl Fn(usize, usize) -> usize,
) -> [[F::Vector<S>; N]; N] {
    let mut square = [[F::splat(simd, F::ZERO); N]; N];
    for i in 0..N {
        for j in 0..N {
            square[i][j] = load::<F, S>(slice, at(i, j));
        }
    }
    square
}

#[inline(always)]
fn store_square<F: Scalar, S: Simd, const N: usize>(
    square: [[F::Vector<S>; N]; N],
    slice: &mut [F],
    at: impl Fn(usize, usize) -> usize,
) {
    for i in 0..N {
        for j in 0..N {
            store::<F, S>(slice, at(i, j), square[i][j]);
        }
    }
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

/// $V = B^T d B$ for a row of tiles.
struct InputTiles<'a, F> {
    of: &'a Winograd,
    padded: &'a [F],
    y: usize,
    first: usize,
    v: &'a mut [F],
}

impl<F: Scalar> WithSimd for InputTiles<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let InputTiles { of, padded, y, first, v } = self;
        let (channels, row) = (of.input.channels, of.padded().row());
        let step = of.step(channels);
        each_tile::<F, S>(
            of.tiles[1],
            channels,
            #[inline(always)]
            |x, c| {
                let corner = OUT * (y * row + x * channels) + c;
                let d =
                    load_square::<F, S, IN>(simd, padded, |i, j| corner + i * row + j * channels);
                let d = twice::<Input, F, S, IN, IN>(simd, d);
                let at = (first + x) * channels + c;
                store_square::<F, S, IN>(d, v, |i, j| (i * IN + j) * step + at);
            },
        );
    }
}

/// $dd = B\ dV B^T$, added up.
struct InputTilesBack<'a, F> {
    of: &'a Winograd,
    v: &'a [F],
    y: usize,
    first: usize,
    d_padded: &'a mut [F],
}

impl<F: Scalar> WithSimd for InputTilesBack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let InputTilesBack { of, v, y, first, d_padded } = self;
        let (channels, row) = (of.input.channels, of.padded().row());
        let step = of.step(channels);
        each_tile::<F, S>(
            of.tiles[1],
            channels,
            #[inline(always)]
            |x, c| {
                let at = (first + x) * channels + c;
                let d_v = load_square::<F, S, IN>(simd, v, |i, j| (i * IN + j) * step + at);
                let d = twice::<InputBack, F, S, IN, IN>(simd, d_v);
                let corner = OUT * (y * row + x * channels) + c;
                for i in 0..IN {
                    for j in 0..IN {
                        let at = corner + i * row + j * channels;
                        let sum = F::plus(simd, load::<F, S>(d_padded, at), d[i][j]);
                        store::<F, S>(d_padded, at, sum);
                    }
                }
            },
        );
    }
}

/// $Y = A^T M A + b$ for a row of tiles.
struct OutputTiles<'a, F> {
    of: &'a Winograd,
    m: &'a [F],
    bias: &'a [F],
    y: usize,
    first: usize,
    map: &'a mut [F],
}

impl<F: Scalar> WithSimd for OutputTiles<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let OutputTiles { of, m, bias, y, first, map } = self;
        let (n, row) = (of.filters, of.map().row());
        let step = of.step(n);
        each_tile::<F, S>(
            of.tiles[1],
            n,
            #[inline(always)]
            |x, c| {
                let y_tile = output_tile::<F, S>(simd, m, step, (first + x) * n + c, bias, c);
                let corner = OUT * (y * row + x * n) + c;
                store_square::<F, S, OUT>(y_tile, map, |i, j| corner + i * row + j * n);
            },
        );
    }
}

#[inline(always)]
fn output_tile<F: Scalar, S: Simd>(
    simd: S,
    m: &[F],
    step: usize,
    at: usize,
    bias: &[F],
    c: usize,
) -> [[F::Vector<S>; OUT]; OUT] {
    let m = load_square::<F, S, IN>(simd, m, |i, j| (i * IN + j) * step + at);
    let bias = load::<F, S>(bias, c);
    twice::<Output, F, S, IN, OUT>(simd, m).map(|row| row.map(|y| F::plus(simd, y, bias)))
}

/// The same, and the maximum of each tile.
struct PooledTiles<'a, F> {
    of: &'a Winograd,
    m: &'a [F],
    bias: &'a [F],
    y: usize,
    first: usize,
    /// Tiles that are cut at the edge have no place here.
    pooled: Image,
    output: &'a mut [F],
    kept: &'a mut [F],
}

impl<F: Scalar> WithSimd for PooledTiles<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let PooledTiles { of, m, bias, y, first, pooled, output, kept } = self;
        let n = of.filters;
        let step = of.step(n);
        if y >= pooled.height {
            return;
        }
        each_tile::<F, S>(
            pooled.width,
            n,
            #[inline(always)]
            |x, c| {
                let at = (first + x) * n + c;
                let [[mut best, second], [third, fourth]] =
                    output_tile::<F, S>(simd, m, step, at, bias, c);
                let mut position = F::splat(simd, F::ZERO);
                for (element, x) in [(1.0, second), (2.0, third), (3.0, fourth)] {
                    let here = F::splat(simd, F::from_f64(element));
                    position = F::where_above(simd, x, best, here, position);
                    best = F::where_above(simd, x, best, x, best);
                }
                let place = (y * pooled.width + x) * n + c;
                store::<F, S>(output, place, best);
                store::<F, S>(kept, place, position);
            },
        );
    }
}

/// $dM = A\ dY A^T$ for a row of tiles.
struct OutputTilesBack<'a, F> {
    of: &'a Winograd,
    d_map: &'a [F],
    y: usize,
    first: usize,
    m: &'a mut [F],
}

impl<F: Scalar> WithSimd for OutputTilesBack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let OutputTilesBack { of, d_map, y, first, m } = self;
        let (n, row) = (of.filters, of.map().row());
        let step = of.step(n);
        each_tile::<F, S>(
            of.tiles[1],
            n,
            #[inline(always)]
            |x, c| {
                let corner = OUT * (y * row + x * n) + c;
                let d_y = load_square::<F, S, OUT>(simd, d_map, |i, j| corner + i * row + j * n);
                let d_m = twice::<OutputBack, F, S, OUT, IN>(simd, d_y);
                let at = (first + x) * n + c;
                store_square::<F, S, IN>(d_m, m, |i, j| (i * IN + j) * step + at);
            },
        );
    }
}

/// The same from the derivatives by the pooled tiles.
struct PooledTilesBack<'a, F> {
    of: &'a Winograd,
    pooled: Image,
    kept: &'a [F],
    d_output: &'a [F],
    y: usize,
    first: usize,
    m: &'a mut [F],
}

impl<F: Scalar> WithSimd for PooledTilesBack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let PooledTilesBack { of, pooled, kept, d_output, y, first, m } = self;
        let n = of.filters;
        let step = of.step(n);
        let zero = F::splat(simd, F::ZERO);
        each_tile::<F, S>(
            of.tiles[1],
            n,
            #[inline(always)]
            |x, c| {
                let mut d_y = [[zero; OUT]; OUT];
                if y < pooled.height && x < pooled.width {
                    let from = (y * pooled.width + x) * n + c;
                    let (position, d) = (load::<F, S>(kept, from), load::<F, S>(d_output, from));
                    for i in 0..OUT {
                        for j in 0..OUT {
                            let here = F::splat(simd, F::from_f64((i * OUT + j) as f64));
                            d_y[i][j] = F::where_equal(simd, position, here, d, zero);
                        }
                    }
                }
                let d_m = twice::<OutputBack, F, S, OUT, IN>(simd, d_y);
                let at = (first + x) * n + c;
                store_square::<F, S, IN>(d_m, m, |i, j| (i * IN + j) * step + at);
            },
        );
    }
}

/// $U = G g G^T$.
struct Filters<'a, F> {
    block: usize,
    weights: &'a [F],
    u: &'a mut [F],
}

impl<F: Scalar> WithSimd for Filters<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Filters { block, weights, u } = self;
        for at in (0..block).step_by(F::lanes::<S>()) {
            let g = load_square::<F, S, TAPS>(simd, weights, |i, j| (i * TAPS + j) * block + at);
            let square = twice::<Filter, F, S, TAPS, IN>(simd, g);
            store_square::<F, S, IN>(square, u, |i, j| (i * IN + j) * block + at);
        }
    }
}

/// $dg = G^T dU\ G$.
struct FiltersBack<'a, F> {
    block: usize,
    d_u: &'a [F],
    d_weights: &'a mut [F],
}

impl<F: Scalar> WithSimd for FiltersBack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let FiltersBack { block, d_u, d_weights } = self;
        for at in (0..block).step_by(F::lanes::<S>()) {
            let d_u = load_square::<F, S, IN>(simd, d_u, |i, j| (i * IN + j) * block + at);
            let d_g = twice::<FilterBack, F, S, IN, TAPS>(simd, d_u);
            store_square::<F, S, TAPS>(d_g, d_weights, |i, j| (i * TAPS + j) * block + at);
        }
    }
}
