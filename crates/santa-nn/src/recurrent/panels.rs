//! A few rows times a matrix that is used at every time step.
//!
//! With one row there is one multiplication for each weight that is read: the speed is that of the
//! second-level cache. The matrix is therefore packed once into panels that are read from front to
//! back, and a panel's sums stay in registers. Every sum is one chain of fused multiply-adds along
//! the rows of the matrix, as in the crate's other products.

use crate::kernels::{Buffer, Scalar, zeros};
use pulp::Simd;

/// Bytes of a cache line: panels are whole lines wide.
const LINE: usize = 64;
/// Lines of a panel, at most. Measured: wider ones are read more slowly, with narrow ones the
/// multiplications wait for each other.
const WIDEST: usize = 6;
/// Registers of a wide instruction set.
const MANY_REGISTERS: usize = 32;

/// Rounds up to whole cache lines.
pub(super) fn padded<F: Scalar>(len: usize) -> usize {
    len.next_multiple_of(LINE / F::BYTES)
}

/// A matrix in panels of columns, each panel row after row.
#[derive(Clone, Debug)]
pub(super) struct Panels<F: Scalar> {
    data: Buffer<F>,
    rows: usize,
    /// The first column of each panel, and the number of columns.
    edges: Vec<usize>,
}

impl<F: Scalar> Panels<F> {
    /// A matrix of zeros, with its columns padded to whole lines.
    pub fn new(rows: usize, columns: usize) -> Self {
        let line = LINE / F::BYTES;
        let lines = columns.div_ceil(line);
        let panels = lines.div_ceil(WIDEST);
        let edge = |panel| if panel == panels { lines } else { panel * lines / panels };
        let edges = (0..=panels).map(|panel| edge(panel) * line).collect();
        Panels { data: zeros(rows * lines * line), rows, edges }
    }

    /// Elements, padding included.
    pub fn len(&self) -> usize {
        self.data.len()
    }
    /// Columns, padding included.
    pub fn width(&self) -> usize {
        self.edges[self.edges.len() - 1]
    }

    /// First and last column of each panel.
    fn panels(edges: &[usize]) -> impl Iterator<Item = [usize; 2]> {
        edges.windows(2).map(|edges| [edges[0], edges[1]])
    }

    /// Overwrites the matrix; `copy(row, first, to)` writes the columns of a row from `first` on.
    pub fn pack_rows(&mut self, copy: impl Fn(usize, usize, &mut [F])) {
        for [left, right] in Self::panels(&self.edges) {
            let data = &mut self.data[left * self.rows..right * self.rows];
            for (row, to) in data.chunks_exact_mut(right - left).enumerate() {
                copy(row, left, to);
            }
        }
    }

    /// Overwrites the first columns of the matrix: `column(j)` is column j, in pieces.
    pub fn pack_columns<'c, const N: usize>(
        &mut self,
        columns: usize,
        column: impl Fn(usize) -> [&'c [F]; N],
    ) {
        for [left, right] in Self::panels(&self.edges) {
            let data = &mut self.data[left * self.rows..right * self.rows];
            // Neighbouring columns go to the same cache lines, which one column leaves in the cache.
            for j in left..right.min(columns) {
                let mut rows = data.chunks_exact_mut(right - left);
                for piece in column(j) {
                    for (x, row) in piece.iter().zip(rows.by_ref()) {
                        row[j - left] = *x;
                    }
                }
            }
        }
    }

    /// `sums = inputs * matrix`, or `sums += ...` if `add`, for `count` rows that lie `stride` apart.
    pub fn multiply<S: Simd>(
        &self,
        simd: S,
        count: usize,
        (inputs, input_stride): (&[F], usize),
        add: bool,
        (sums, stride): (&mut [F], usize),
    ) {
        for [left, right] in Self::panels(&self.edges) {
            let data = &self.data[left * self.rows..right * self.rows];
            let mut row = 0;
            while row < count {
                let rows = match count - row {
                    1 => 1,
                    2 | 3 => 2,
                    _ => 4,
                };
                let tile = Tile {
                    data,
                    width: right - left,
                    depth: self.rows,
                    first: 0,
                    inputs: &inputs[row * input_stride..],
                    input_stride,
                    add,
                    sums: &mut sums[row * stride + left..],
                    stride,
                };
                panel_times_rows(simd, rows, tile);
                row += rows;
            }
        }
    }
}

/// Some rows times some columns of a panel.
struct Tile<'s, F> {
    data: &'s [F],
    width: usize,
    depth: usize,
    /// First column.
    first: usize,
    inputs: &'s [F],
    input_stride: usize,
    add: bool,
    sums: &'s mut [F],
    stride: usize,
}

/// Cuts a panel into as many columns as there are registers for.
#[inline(always)]
fn panel_times_rows<F: Scalar, S: Simd>(simd: S, rows: usize, mut tile: Tile<'_, F>) {
    // Registers of sums: 7, 14 or 24 of 32, and 7, 8 or 12 of 16.
    let widest = match (rows, S::REGISTER_COUNT >= MANY_REGISTERS) {
        (1, _) => 7,
        (2, true) => 7,
        (2, false) => 4,
        (_, true) => 6,
        (_, false) => 3,
    };
    macro_rules! choose {
        ($vectors:expr, $($height:literal: $($width:literal)*;)*) => {
            match (rows, $vectors) {
                $($(($height, $width) => rows_times_columns::<F, S, $height, $width>(simd, &mut tile),)*)*
                _ => unreachable!("no tile of this size"),
            }
        };
    }
    let vectors = tile.width / F::lanes::<S>();
    let pieces = vectors.div_ceil(widest);
    for piece in 0..pieces {
        // A division for each piece would be felt.
        let [from, to] = match pieces {
            1 => [0, vectors],
            _ => [piece, piece + 1].map(|p| p * vectors / pieces),
        };
        tile.first = from * F::lanes::<S>();
        choose!(to - from, 1: 1 2 3 4 5 6 7; 2: 1 2 3 4 5 6 7; 4: 1 2 3 4 5 6;);
    }
}

/// A function of its own for each size, so that each has all registers.
#[inline(never)]
fn rows_times_columns<F: Scalar, S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    tile: &mut Tile<'_, F>,
) {
    simd.vectorize(
        #[inline(always)]
        || {
            let Tile { data, width, depth, first, inputs, input_stride, add, ref mut sums, stride } =
                *tile;
            let columns = VECTORS * F::lanes::<S>();
            let mut tile = [[F::splat(simd, F::ZERO); VECTORS]; ROWS];
            if add {
                for i in 0..ROWS {
                    let row = &sums[i * stride + first..][..columns];
                    let row = &F::vectors::<S>(row).0[..VECTORS];
                    tile[i].copy_from_slice(row);
                }
            }
            let inputs: [&[F]; ROWS] =
                std::array::from_fn(|i| &inputs[i * input_stride..][..depth]);
            let mut at = first;
            for k in 0..depth {
                let row = &F::vectors::<S>(&data[at..][..columns]).0[..VECTORS];
                at += width;
                for i in 0..ROWS {
                    let input = F::splat(simd, inputs[i][k]);
                    for j in 0..VECTORS {
                        tile[i][j] = F::mul_add(simd, input, row[j], tile[i][j]);
                    }
                }
            }
            for i in 0..ROWS {
                let row = &mut sums[i * stride + first..][..columns];
                let row = &mut F::vectors_mut::<S>(row).0[..VECTORS];
                row.copy_from_slice(&tile[i]);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::{Arch, WithSimd};
    use santa::noise::{Purpose, Stream};

    struct Multiply<'a, F: Scalar>(&'a Panels<F>, usize, &'a [F], bool, &'a mut [F]);

    impl<F: Scalar> WithSimd for Multiply<'_, F> {
        type Output = ();
        fn with_simd<S: Simd>(self, simd: S) {
            let Multiply(panels, count, inputs, add, sums) = self;
            let (rows, width) = (panels.rows, panels.width());
            panels.multiply(simd, count, (inputs, rows), add, (sums, width));
        }
    }

    fn numbers<F: Scalar>(len: usize, segment: u32) -> Vec<F> {
        let mut numbers = vec![F::ZERO; len];
        Stream::new(1, 0, Purpose::Custom(1)).normals(0, segment, 0, &mut numbers);
        numbers
    }

    fn panels_match_the_plain_sum<F: Scalar>() {
        for columns in [1, 16, 30, 100, 150, 161, 304, 600] {
            for (rows, count) in [(1, 1), (7, 2), (20, 3), (33, 4), (5, 7)] {
                let matrix = numbers::<F>(rows * columns, 0);
                let mut panels = Panels::<F>::new(rows, columns);
                panels.pack_rows(|row, first, to| {
                    for (j, to) in (first..columns).zip(to) {
                        *to = matrix[row * columns + j];
                    }
                });
                let width = panels.width();
                let inputs = numbers::<F>(rows * count, 1);
                let before = numbers::<F>(width * count, 2);
                for add in [false, true] {
                    let expected = |i: usize, j: usize| {
                        let begin = if add { before[i * width + j] } else { F::ZERO };
                        (0..rows).fold(begin, |sum, k| {
                            inputs[i * rows + k].fma(matrix[k * columns + j], sum)
                        })
                    };
                    let check = |sums: &[F]| {
                        for (i, j) in (0..count).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                            assert!(sums[i * width + j] == expected(i, j), "{rows} {columns}");
                        }
                    };
                    let mut sums = before.clone();
                    Arch::new().dispatch(Multiply(&panels, count, &inputs, add, &mut sums));
                    check(&sums);
                    let mut sums = before.clone();
                    Multiply(&panels, count, &inputs, add, &mut sums)
                        .with_simd(pulp::Scalar::new());
                    check(&sums);
                    #[cfg(target_arch = "x86_64")]
                    if let Some(avx2) = pulp::x86::V3::try_new() {
                        let mut sums = before.clone();
                        Multiply(&panels, count, &inputs, add, &mut sums).with_simd(avx2);
                        check(&sums);
                    }
                }
            }
        }
    }

    #[test]
    fn panels_have_the_bits_of_the_plain_sum_on_every_instruction_set() {
        panels_match_the_plain_sum::<f32>();
        panels_match_the_plain_sum::<f64>();
    }
}
