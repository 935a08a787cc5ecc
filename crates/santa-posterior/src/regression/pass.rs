//! A pass over a batch: losses and gradients, in fixed shards that are added in a fixed order.

use super::family::{Evaluate, Family, TILE, Terms, Tile};
use super::kernel::{Accumulate, GROUP, Products};
use super::lines::{Arithmetic, Rows, fill};
use std::ops::Range;

/// Bytes of features that are read twice in a row: most of a first-level cache.
const TILE_BYTES: usize = 1 << 15;
/// Rows of a shard at least, shards of a batch at most. Part of the bits of a large batch's sums.
const SHARD_ROWS: usize = 1024;
const MOST_SHARDS: usize = 64;
/// Numbers that are worth another thread.
#[cfg(feature = "parallel")]
const PARALLEL: usize = 1 << 18;

/// Features and responses on the scale of the fit.
#[derive(Clone, Debug)]
pub(super) struct Data<X: Arithmetic> {
    pub features: Rows<X>,
    pub columns: usize,
    pub response: Vec<X>,
}

/// For each datum, the derivatives of its loss at the anchor.
#[derive(Clone, Debug)]
pub(super) struct Reference<X> {
    pub slope: Vec<X>,
    /// In $\log\sigma$; empty where that is no parameter.
    pub scale: Vec<X>,
}

/// Sums over a shard.
#[derive(Clone, Debug)]
pub(super) struct Sums<X: Arithmetic> {
    /// Of the gradient, over the last few rows.
    recent: Vec<X::Line>,
    /// Of the gradient in the coefficients.
    pub gradient: Vec<f64>,
    /// Of the gradient in $\log\sigma$.
    pub scale: f64,
    pub loss: f64,
}

impl<X: Arithmetic> Sums<X> {
    pub fn new(lines: usize) -> Self {
        Sums {
            recent: vec![X::NO_LINE; lines],
            gradient: vec![0.0; lines * X::LINE],
            scale: 0.0,
            loss: 0.0,
        }
    }
    fn clear(&mut self) {
        self.gradient.fill(0.0);
        (self.scale, self.loss) = (0.0, 0.0);
    }
    fn add(&mut self, other: &Self) {
        self.gradient.iter_mut().zip(&other.gradient).for_each(|(a, b)| *a += b);
        self.scale += other.scale;
        self.loss += other.loss;
    }
    /// Single precision must not add up too many rows.
    fn settle(&mut self) {
        for (line, sums) in self.recent.iter_mut().zip(self.gradient.chunks_exact_mut(X::LINE)) {
            for (x, sum) in X::numbers(line).iter().zip(sums) {
                *sum += x.to_f64();
            }
            *line = X::NO_LINE;
        }
    }
}

/// Buffers of the passes of one potential.
#[derive(Clone, Debug)]
pub(super) struct Workspace<X: Arithmetic> {
    theta: Vec<X::Line>,
    shards: Vec<Sums<X>>,
    arch: pulp::Arch,
}

impl<X: Arithmetic> Workspace<X> {
    pub fn new(data: &Data<X>) -> Self {
        let lines = data.features.lines_per_row();
        let shards = vec![Sums::new(lines)];
        Workspace { theta: vec![X::NO_LINE; lines], shards, arch: pulp::Arch::new() }
    }
}

/// What a pass is over: these rows, or all.
pub(super) struct Pass<'a, X: Arithmetic> {
    pub data: &'a Data<X>,
    pub family: &'a Family,
    pub log_sigma: f64,
    pub rows: Option<&'a [u32]>,
    pub reference: Option<&'a Reference<X>>,
    pub gradient: bool,
}

impl<X: Arithmetic> Pass<'_, X> {
    fn len(&self) -> usize {
        self.rows.map_or(self.data.response.len(), <[u32]>::len)
    }

    /// Sums over all rows of the pass.
    pub fn run<'w>(
        &self,
        theta: impl Iterator<Item = f64>,
        work: &'w mut Workspace<X>,
    ) -> &'w Sums<X> {
        let len = self.len();
        let shard = len.div_ceil(MOST_SHARDS).max(SHARD_ROWS).next_multiple_of(TILE);
        let count = len.div_ceil(shard).max(1);
        fill::<X>(&mut work.theta, theta.take(self.data.columns));
        let lines = work.theta.len();
        while work.shards.len() < count {
            work.shards.push(Sums::new(lines));
        }
        let (theta, arch) = (&work.theta[..], work.arch);
        let terms = self.family.at::<X>(self.log_sigma);
        let one = |(i, sums): (usize, &mut Sums<X>)| {
            sums.clear();
            self.shard(i * shard..len.min((i + 1) * shard), theta, &terms, arch, sums);
        };
        let shards = &mut work.shards[..count];
        #[cfg(feature = "parallel")]
        if count > 1 && len * self.data.columns >= PARALLEL {
            use rayon::prelude::*;
            shards.par_iter_mut().enumerate().for_each(one);
        } else {
            shards.iter_mut().enumerate().for_each(one);
        }
        #[cfg(not(feature = "parallel"))]
        shards.iter_mut().enumerate().for_each(one);
        let (first, others) = shards.split_at_mut(1);
        let total = &mut first[0];
        others.iter().for_each(|other| total.add(other));
        if self.family.sigma().is_some() {
            total.loss += len as f64 * self.log_sigma;
        }
        total
    }

    fn shard(
        &self,
        range: Range<usize>,
        theta: &[X::Line],
        terms: &Terms<X>,
        arch: pulp::Arch,
        sums: &mut Sums<X>,
    ) {
        let tile_rows = tile_rows::<X>(theta.len());
        let mut tile = Tile::new();
        let mut unsettled = 0;
        for start in range.clone().step_by(tile_rows) {
            let len = tile_rows.min(range.end - start);
            let padded = len.next_multiple_of(GROUP);
            self.load(&mut tile, start, len, theta, arch);
            let (loss, scale) = arch.dispatch(Evaluate { terms: *terms, tile: &mut tile, len });
            sums.loss += loss;
            if let Some(reference) = self.reference {
                for (i, row) in tile.rows[..len].iter().enumerate() {
                    tile.slope[i] -= reference.slope[*row as usize];
                }
                if !reference.scale.is_empty() {
                    for (i, row) in tile.rows[..len].iter().enumerate() {
                        sums.scale += (tile.scale[i] - reference.scale[*row as usize]).to_f64();
                    }
                }
            } else {
                sums.scale += scale;
            }
            if !self.gradient {
                continue;
            }
            tile.slope[len..padded].fill(X::ZERO);
            arch.dispatch(Accumulate {
                features: &self.data.features,
                rows: &tile.rows[..padded],
                slopes: &tile.slope[..padded],
                sum: &mut sums.recent,
            });
            unsettled += len;
            if unsettled >= TILE {
                sums.settle();
                unsettled = 0;
            }
        }
        if unsettled > 0 {
            sums.settle();
        }
    }

    /// Rows, responses and linear predictors of a tile; its last group is filled up with row 0.
    fn load(
        &self,
        tile: &mut Tile<X>,
        start: usize,
        len: usize,
        theta: &[X::Line],
        arch: pulp::Arch,
    ) {
        let padded = len.next_multiple_of(GROUP);
        match self.rows {
            Some(rows) => tile.rows[..len].copy_from_slice(&rows[start..start + len]),
            None => {
                for (i, row) in tile.rows[..len].iter_mut().enumerate() {
                    *row = (start + i) as u32; // a design has fewer than 2^32 rows
                }
            }
        }
        tile.rows[len..padded].fill(0);
        for (y, row) in tile.y[..padded].iter_mut().zip(&tile.rows[..padded]) {
            *y = self.data.response[*row as usize];
        }
        arch.dispatch(Products {
            features: &self.data.features,
            rows: &tile.rows[..padded],
            theta,
            z: &mut tile.z[..padded],
        });
    }

    /// The derivatives of every datum's loss at theta.
    pub fn reference(
        &self,
        theta: impl Iterator<Item = f64>,
        work: &mut Workspace<X>,
    ) -> Reference<X> {
        let terms = self.family.at::<X>(self.log_sigma);
        let mut reference = Reference { slope: Vec::new(), scale: Vec::new() };
        self.each_tile(theta, work, |tile, len| {
            work_out(&terms, tile, len);
            reference.slope.extend_from_slice(&tile.slope[..len]);
            if self.family.has_unknown_sigma() {
                reference.scale.extend_from_slice(&tile.scale[..len]);
            }
        });
        reference
    }

    /// The linear predictors of all rows of the pass, in order.
    pub fn predictors(
        &self,
        theta: impl Iterator<Item = f64>,
        work: &mut Workspace<X>,
    ) -> Vec<f64> {
        let mut z = Vec::with_capacity(self.len());
        self.each_tile(theta, work, |tile, len| {
            z.extend(tile.z[..len].iter().map(|z| z.to_f64()));
        });
        z
    }

    fn each_tile(
        &self,
        theta: impl Iterator<Item = f64>,
        work: &mut Workspace<X>,
        mut show: impl FnMut(&mut Tile<X>, usize),
    ) {
        fill::<X>(&mut work.theta, theta.take(self.data.columns));
        let tile_rows = tile_rows::<X>(work.theta.len());
        let mut tile = Tile::new();
        for start in (0..self.len()).step_by(tile_rows) {
            let len = tile_rows.min(self.len() - start);
            self.load(&mut tile, start, len, &work.theta, work.arch);
            show(&mut tile, len);
        }
    }
}

fn work_out<X: Arithmetic>(terms: &Terms<X>, tile: &mut Tile<X>, len: usize) {
    pulp::Arch::new().dispatch(Evaluate { terms: *terms, tile, len });
}

/// Rows that fit into [`TILE_BYTES`], in whole groups.
fn tile_rows<X: Arithmetic>(lines: usize) -> usize {
    let fitting = TILE_BYTES / (lines * X::LINE * X::BYTES);
    (fitting / GROUP * GROUP).clamp(GROUP, TILE)
}
