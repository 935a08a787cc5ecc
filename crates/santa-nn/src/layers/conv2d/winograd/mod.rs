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
//! The price is rounding: the transforms subtract what they added. In `f32`, on the paper's second
//! convolution, the largest error of an output or of a derivative by the input is 2e-5 of their root
//! mean square, that of the gradient 6e-5: four to sixteen times that of the direct sum (a test prints
//! and bounds them).

mod tiles;
mod transforms;

use super::{Image, LINE, Tail, Window};
use crate::kernels::{Scalar, Start, View, multiply};
use pulp::Arch;
use std::ops::Range;
use tiles::{
    Filters, FiltersBack, InputTiles, InputTilesBack, OutputTiles, OutputTilesBack, PooledTiles,
    PooledTilesBack,
};
use transforms::{IN, OUT, TAPS};

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

    /// $U = G g G^T$, and for training the transpose of each frequency.
    pub fn prepare<F: Scalar>(&self, weights: &[F], training: bool, shared: &mut [F]) {
        let (u, transposed) = shared.split_at_mut(FREQUENCIES * self.block());
        Arch::new().dispatch(Filters { block: self.block(), weights, u });
        if !training {
            return;
        }
        for (u, transposed) in
            u.chunks_exact(self.block()).zip(transposed.chunks_exact_mut(self.block()))
        {
            F::transpose(u, self.filters, transposed, self.input.channels);
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
                    // The rows that the tiles above have not touched.
                    let fresh = if y == 0 { 0 } else { OUT * y + IN - OUT };
                    let row = self.padded().row();
                    d_padded[fresh * row..(OUT * y + IN) * row].fill(F::ZERO);
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
