//! Transposition.

use super::lanes::Scalar;
use pulp::{Arch, Simd, WithSimd};

/// Side of the blocks that are moved at a time: a cache line of `f32`.
const SIDE: usize = 16;

/// Writes the transpose of a matrix with `rows` rows to `to`.
pub(crate) fn transpose<F: Scalar>(from: &[F], rows: usize, to: &mut [F]) {
    Arch::new().dispatch(Transpose { from, rows, to });
}

struct Transpose<'a, F> {
    from: &'a [F],
    rows: usize,
    to: &'a mut [F],
}

impl<F: Scalar> WithSimd for Transpose<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Transpose { from, rows, to } = self;
        let columns = from.len() / rows;
        let (whole_rows, whole_columns) = (rows - rows % SIDE, columns - columns % SIDE);
        for i in (0..whole_rows).step_by(SIDE) {
            for j in (0..whole_columns).step_by(SIDE) {
                let mut block = [[F::ZERO; SIDE]; SIDE];
                for (r, row) in block.iter_mut().enumerate() {
                    row.copy_from_slice(&from[(i + r) * columns + j..][..SIDE]);
                }
                for c in 0..SIDE {
                    let line = &mut to[(j + c) * rows + i..][..SIDE];
                    for r in 0..SIDE {
                        line[r] = block[r][c];
                    }
                }
            }
        }
        for i in 0..rows {
            let first = if i < whole_rows { whole_columns } else { 0 };
            for j in first..columns {
                to[j * rows + i] = from[i * columns + j];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_finds_its_place() {
        for (rows, columns) in [(1, 1), (1, 7), (16, 16), (17, 16), (16, 33), (50, 47), (3, 64)] {
            let from: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
            let mut to = vec![f32::NAN; rows * columns];
            transpose(&from, rows, &mut to);
            for i in 0..rows {
                for j in 0..columns {
                    assert_eq!(to[j * rows + i], from[i * columns + j], "{rows} x {columns}");
                }
            }
        }
    }
}
