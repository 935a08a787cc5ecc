//! The two products of a generalised linear model, over rows picked from all over the memory.
//!
//! A tile of rows is read twice: for $z_n = x_n^\top \theta$, and, while it is still in the cache,
//! for $\sum_n s_n x_n$. Both take [`GROUP`] rows at a time, so that theta and the sum are read once
//! for all of them. The order of every addition is fixed: a row's product has as many partial sums
//! as a line has numbers, added by halves, and rows are added one after the other. The bits are
//! those of any instruction set.

use super::lines::{Arithmetic, MOST_VECTORS, Rows};
use pulp::{Simd, WithSimd};

/// Rows that are worked on at a time.
pub(super) const GROUP: usize = 8;

/// $z_n = x_n^\top\theta$ for the rows named by `rows`, of which there are whole groups.
pub(super) struct Products<'a, X: Arithmetic> {
    pub features: &'a Rows<X>,
    pub rows: &'a [u32],
    pub theta: &'a [X::Line],
    pub z: &'a mut [X],
}

impl<X: Arithmetic> WithSimd for Products<'_, X> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (groups, _) = self.rows.as_chunks::<GROUP>();
        let (out, _) = self.z.as_chunks_mut::<GROUP>();
        for (group, z) in groups.iter().zip(out) {
            // As many sums as there are registers for: the groups do not change the bits.
            if X::vectors_in_line::<S>() == 1 {
                *z = products::<S, X, GROUP>(simd, self.features, group, self.theta);
            } else {
                let (halves, _) = group.as_chunks::<{ GROUP / 2 }>();
                for (half, z) in halves.iter().zip(z.chunks_exact_mut(GROUP / 2)) {
                    z.copy_from_slice(&products::<S, X, { GROUP / 2 }>(
                        simd,
                        self.features,
                        half,
                        self.theta,
                    ));
                }
            }
        }
    }
}

#[inline(always)]
fn products<S: Simd, X: Arithmetic, const ROWS: usize>(
    simd: S,
    features: &Rows<X>,
    rows: &[u32; ROWS],
    theta: &[X::Line],
) -> [X; ROWS] {
    let vectors = X::vectors_in_line::<S>();
    let lines = theta.len();
    let x: [&[X::Line]; ROWS] = rows.map(|i| &features.row(i as usize)[..lines]);
    let mut sums = [[X::splat(simd, X::ZERO); MOST_VECTORS]; ROWS];
    for j in 0..lines {
        let theta = X::vectors::<S>(&theta[j]);
        for r in 0..ROWS {
            let x = X::vectors::<S>(&x[r][j]);
            for k in 0..vectors {
                sums[r][k] = X::mul_add(simd, x[k], theta[k], sums[r][k]);
            }
        }
    }
    let mut z = [X::ZERO; ROWS];
    for r in 0..ROWS {
        let mut left = vectors;
        while left > 1 {
            left /= 2;
            for k in 0..left {
                sums[r][k] = X::plus(simd, sums[r][k], sums[r][k + left]);
            }
        }
        z[r] = X::sum(simd, sums[r][0]);
    }
    z
}

/// Adds $s_n x_n$ for the rows named by `rows`, of which there are whole groups.
pub(super) struct Accumulate<'a, X: Arithmetic> {
    pub features: &'a Rows<X>,
    pub rows: &'a [u32],
    pub slopes: &'a [X],
    pub sum: &'a mut [X::Line],
}

impl<X: Arithmetic> WithSimd for Accumulate<'_, X> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (groups, _) = self.rows.as_chunks::<GROUP>();
        let (slopes, _) = self.slopes.as_chunks::<GROUP>();
        let (vectors, lines) = (X::vectors_in_line::<S>(), self.sum.len());
        for (group, slopes) in groups.iter().zip(slopes) {
            let x = group.map(|i| &self.features.row(i as usize)[..lines]);
            let slopes = slopes.map(|s| X::splat(simd, s));
            for (j, sum) in self.sum.iter_mut().enumerate() {
                let sum = X::vectors_mut::<S>(sum);
                for k in 0..vectors {
                    let mut total = sum[k];
                    for r in 0..GROUP {
                        let x = X::vectors::<S>(&x[r][j])[k];
                        total = X::mul_add(simd, slopes[r], x, total);
                    }
                    sum[k] = total;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regression::lines::fill;
    use santa::noise::{Purpose, Stream};

    const ROWS: usize = 2 * GROUP;

    fn products_and_sums<X: Arithmetic>(columns: usize, plain: bool) -> (Vec<X>, Vec<X>) {
        let stream = Stream::new(5, 0, Purpose::Custom(1));
        let mut numbers = vec![0.0f64; (ROWS + 1) * columns];
        stream.normals(0, 0, 0, &mut numbers);
        let (theta, values) = numbers.split_at(columns);
        let features = Rows::<X>::new(values, columns);
        let rows: Vec<u32> = (0..ROWS as u32).rev().collect();
        let mut lines = vec![X::NO_LINE; features.lines_per_row()];
        fill::<X>(&mut lines, theta.iter().copied());
        let mut z = vec![X::ZERO; ROWS];
        let mut sum = vec![X::NO_LINE; lines.len()];
        let first = Products { features: &features, rows: &rows, theta: &lines, z: &mut z };
        if plain {
            first.with_simd(pulp::Scalar::new());
        } else {
            pulp::Arch::new().dispatch(first);
        }
        let slopes = z.clone();
        let second =
            Accumulate { features: &features, rows: &rows, slopes: &slopes, sum: &mut sum };
        if plain {
            second.with_simd(pulp::Scalar::new());
        } else {
            pulp::Arch::new().dispatch(second);
        }
        let sum = sum.iter().flat_map(|l| X::numbers(l).to_vec()).take(columns).collect();

        // Straight from the definition.
        let tolerance = if X::BYTES == 4 { 1e-5 } else { 1e-13 } * columns as f64;
        let sum: Vec<X> = sum;
        let mut expected = vec![0.0; columns];
        for (z, i) in z.iter().zip(&rows) {
            let x = &values[*i as usize * columns..(*i as usize + 1) * columns];
            let dot: f64 = x.iter().zip(theta).map(|(a, b)| a * b).sum();
            assert!((z.to_f64() - dot).abs() < tolerance);
            x.iter().zip(&mut expected).for_each(|(x, e)| *e += dot * x);
        }
        for (a, b) in sum.iter().zip(&expected) {
            assert!((a.to_f64() - b).abs() < tolerance * ROWS as f64);
        }
        (z, sum)
    }

    #[test]
    fn products_are_those_of_plain_loops_and_the_same_bits_on_every_instruction_set() {
        for columns in [1, 7, 8, 9, 50, 131] {
            let same = products_and_sums::<f64>(columns, true);
            assert_eq!(products_and_sums::<f64>(columns, false), same);
            let same = products_and_sums::<f32>(columns, true);
            assert_eq!(products_and_sums::<f32>(columns, false), same);
        }
    }
}
