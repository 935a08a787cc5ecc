//! Transposition.

use super::vectorised;

/// Side of the blocks that are moved at a time: a cache line of `f32`.
const SIDE: usize = 16;

/// Writes the columns of rows of `columns` elements as rows that lie `stride` apart, as many as `to`
/// holds. What a row of `to` has beyond the rows of `from` is left as it is.
pub(crate) fn transpose_f32(from: &[f32], columns: usize, to: &mut [f32], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V4::try_new() {
        pulp::Simd::vectorize(
            simd,
            #[inline(always)]
            || by_blocks(from, columns, to, stride, |rows| avx512::transpose(simd, rows)),
        );
        return;
    }
    plain(from, columns, to, stride);
}

/// The same for `f64`.
pub(crate) fn transpose_f64(from: &[f64], columns: usize, to: &mut [f64], stride: usize) {
    plain(from, columns, to, stride);
}

fn plain<F: Copy + Default>(from: &[F], columns: usize, to: &mut [F], stride: usize) {
    vectorised(
        #[inline(always)]
        || {
            by_blocks(
                from,
                columns,
                to,
                stride,
                #[inline(always)]
                |block| {
                    let mut transposed = [[F::default(); SIDE]; SIDE];
                    for r in 0..SIDE {
                        for c in 0..SIDE {
                            transposed[c][r] = block[r][c];
                        }
                    }
                    transposed
                },
            )
        },
    );
}

#[inline(always)]
fn by_blocks<F: Copy + Default>(
    from: &[F],
    columns: usize,
    to: &mut [F],
    stride: usize,
    transpose: impl Fn([[F; SIDE]; SIDE]) -> [[F; SIDE]; SIDE],
) {
    let (rows, wanted) = (from.len() / columns, columns.min(to.len() / stride));
    let (whole_rows, whole_columns) = (rows - rows % SIDE, wanted - wanted % SIDE);
    for j in (0..whole_columns).step_by(SIDE) {
        for i in (0..whole_rows).step_by(SIDE) {
            let mut block = [[F::default(); SIDE]; SIDE];
            for (r, row) in block.iter_mut().enumerate() {
                row.copy_from_slice(&from[(i + r) * columns + j..][..SIDE]);
            }
            for (c, row) in transpose(block).iter().enumerate() {
                to[(j + c) * stride + i..][..SIDE].copy_from_slice(row);
            }
        }
    }
    for i in 0..rows {
        for j in if i < whole_rows { whole_columns } else { 0 }..wanted {
            to[j * stride + i] = from[i * columns + j];
        }
    }
}

/// Sixteen registers at a time.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::SIDE;
    use pulp::x86::V4;
    use pulp::{cast, f32x16};
    use std::arch::x86_64::__m512;

    /// Interleaves pairs of rows, pairs of pairs, and then quarters.
    #[inline(always)]
    pub fn transpose(simd: V4, rows: [[f32; SIDE]; SIDE]) -> [[f32; SIDE]; SIDE] {
        let avx = simd.avx512f;
        let rows: [__m512; SIDE] = rows.map(|row| cast(cast::<_, f32x16>(row)));
        let mut pairs = rows;
        for i in (0..SIDE).step_by(2) {
            pairs[i] = avx._mm512_unpacklo_ps(rows[i], rows[i + 1]);
            pairs[i + 1] = avx._mm512_unpackhi_ps(rows[i], rows[i + 1]);
        }
        // Lane q of `fours[4 g + c]` has column 4 q + c of rows 4 g to 4 g + 3.
        let mut fours = pairs;
        for g in (0..SIDE).step_by(4) {
            for half in 0..2 {
                let a = avx._mm512_castps_pd(pairs[g + half]);
                let b = avx._mm512_castps_pd(pairs[g + half + 2]);
                fours[g + 2 * half] = avx._mm512_castpd_ps(avx._mm512_unpacklo_pd(a, b));
                fours[g + 2 * half + 1] = avx._mm512_castpd_ps(avx._mm512_unpackhi_pd(a, b));
            }
        }
        // A 4 x 4 transposition of quarters for each c.
        const EVEN: i32 = 0b10_00_10_00;
        const ODD: i32 = 0b11_01_11_01;
        let mut columns = fours;
        for c in 0..4 {
            let a = avx._mm512_shuffle_f32x4::<EVEN>(fours[c], fours[4 + c]);
            let b = avx._mm512_shuffle_f32x4::<ODD>(fours[c], fours[4 + c]);
            let d = avx._mm512_shuffle_f32x4::<EVEN>(fours[8 + c], fours[12 + c]);
            let e = avx._mm512_shuffle_f32x4::<ODD>(fours[8 + c], fours[12 + c]);
            columns[c] = avx._mm512_shuffle_f32x4::<EVEN>(a, d);
            columns[8 + c] = avx._mm512_shuffle_f32x4::<ODD>(a, d);
            columns[4 + c] = avx._mm512_shuffle_f32x4::<EVEN>(b, e);
            columns[12 + c] = avx._mm512_shuffle_f32x4::<ODD>(b, e);
        }
        columns.map(|column| cast(cast::<_, f32x16>(column)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements_find_their_places<F: Copy + PartialEq + std::fmt::Debug>(
        number: impl Fn(usize) -> F,
        transpose: impl Fn(&[F], usize, &mut [F], usize),
    ) {
        for (rows, columns) in [(1, 1), (1, 7), (16, 16), (17, 16), (16, 33), (50, 47), (3, 64)] {
            let from: Vec<F> = (0..rows * columns).map(&number).collect();
            for (stride, wanted) in [(rows, columns), (rows + 3, columns / 2)] {
                let untouched = number(rows * columns);
                let mut to = vec![untouched; stride * wanted];
                transpose(&from, columns, &mut to, stride);
                for i in 0..stride {
                    for j in 0..wanted {
                        let expected = if i < rows { from[i * columns + j] } else { untouched };
                        assert_eq!(to[j * stride + i], expected);
                    }
                }
            }
        }
    }

    #[test]
    fn every_element_finds_its_place() {
        elements_find_their_places(|i| i as f32, transpose_f32);
        elements_find_their_places(|i| i as f32, plain);
        elements_find_their_places(|i| i as f64, transpose_f64);
    }
}
