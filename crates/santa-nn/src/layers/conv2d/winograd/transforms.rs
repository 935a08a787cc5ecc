//! The one-dimensional transforms of F(2, 5), for the points 0, 1, -1, 2, -2 and infinity.
//!
//! Two outputs of a filter of five taps from six inputs by six multiplications:
//! $y = A^T [(G g) \odot (B^T d)]$ with
//! $$
//! B^T = \begin{pmatrix}
//! 4 & 0 & -5 & 0 & 1 & 0 \cr
//! 0 & -4 & -4 & 1 & 1 & 0 \cr
//! 0 & 4 & -4 & -1 & 1 & 0 \cr
//! 0 & -2 & -1 & 2 & 1 & 0 \cr
//! 0 & 2 & -1 & -2 & 1 & 0 \cr
//! 0 & 4 & 0 & -5 & 0 & 1
//! \end{pmatrix}, \quad
//! G = \begin{pmatrix}
//! 1/4 & 0 & 0 & 0 & 0 \cr
//! -1/6 & -1/6 & -1/6 & -1/6 & -1/6 \cr
//! -1/6 & 1/6 & -1/6 & 1/6 & -1/6 \cr
//! 1/24 & 1/12 & 1/6 & 1/3 & 2/3 \cr
//! 1/24 & -1/12 & 1/6 & -1/3 & 2/3 \cr
//! 0 & 0 & 0 & 0 & 1
//! \end{pmatrix}, \quad
//! A^T = \begin{pmatrix}
//! 1 & 1 & 1 & 1 & 1 & 0 \cr
//! 0 & 1 & -1 & 2 & -2 & 1
//! \end{pmatrix}.
//! $$
//!
//! In two dimensions each is applied to the columns and to the rows.

use crate::kernels::Scalar;
use pulp::Simd;

/// Inputs of a tile along an axis, and as many frequencies.
pub(super) const IN: usize = 6;
/// Outputs of a tile along an axis.
pub(super) const OUT: usize = 2;
/// Taps of a filter along an axis.
pub(super) const TAPS: usize = 5;

/// A one-dimensional transform from N to M elements.
pub(super) trait Transform<const N: usize, const M: usize> {
    fn apply<F: Scalar, S: Simd>(simd: S, x: [F::Vector<S>; N]) -> [F::Vector<S>; M];
}

/// Along the columns, then along the rows.
#[inline(always)]
pub(super) fn twice<T, F: Scalar, S: Simd, const N: usize, const M: usize>(
    simd: S,
    x: [[F::Vector<S>; N]; N],
) -> [[F::Vector<S>; M]; M]
where
    T: Transform<N, M>,
{
    let zero = F::splat(simd, F::ZERO);
    let mut half = [[zero; N]; M];
    for j in 0..N {
        let mut column = [zero; N];
        for i in 0..N {
            column[i] = x[i][j];
        }
        let column = T::apply::<F, S>(simd, column);
        for i in 0..M {
            half[i][j] = column[i];
        }
    }
    let mut whole = [[zero; M]; M];
    for i in 0..M {
        whole[i] = T::apply::<F, S>(simd, half[i]);
    }
    whole
}

/// The arithmetic that the transforms are written in.
struct Vectors<F, S>(S, std::marker::PhantomData<F>);

impl<F: Scalar, S: Simd> Vectors<F, S> {
    #[inline(always)]
    fn new(simd: S) -> Self {
        Vectors(simd, std::marker::PhantomData)
    }
    /// `a + b`.
    #[inline(always)]
    fn plus(&self, a: F::Vector<S>, b: F::Vector<S>) -> F::Vector<S> {
        F::plus(self.0, a, b)
    }
    /// `a - b`.
    #[inline(always)]
    fn minus(&self, a: F::Vector<S>, b: F::Vector<S>) -> F::Vector<S> {
        F::minus(self.0, a, b)
    }
    /// `factor a`.
    #[inline(always)]
    fn scale(&self, factor: f64, a: F::Vector<S>) -> F::Vector<S> {
        F::times(self.0, F::splat(self.0, F::from_f64(factor)), a)
    }
    /// `factor a + b`.
    #[inline(always)]
    fn axpy(&self, factor: f64, a: F::Vector<S>, b: F::Vector<S>) -> F::Vector<S> {
        F::mul_add(self.0, F::splat(self.0, F::from_f64(factor)), a, b)
    }
}

/// $B^T d$: a tile of the input to its frequencies.
pub(super) struct Input;

impl Transform<IN, IN> for Input {
    #[inline(always)]
    fn apply<F: Scalar, S: Simd>(simd: S, d: [F::Vector<S>; IN]) -> [F::Vector<S>; IN] {
        let v = Vectors::<F, S>::new(simd);
        let (even_1, odd_1) = (v.axpy(-4.0, d[2], d[4]), v.axpy(-4.0, d[1], d[3]));
        let (even_2, odd_2) = (v.minus(d[4], d[2]), v.minus(d[3], d[1]));
        [
            v.axpy(4.0, d[0], v.axpy(-5.0, d[2], d[4])),
            v.plus(even_1, odd_1),
            v.minus(even_1, odd_1),
            v.axpy(2.0, odd_2, even_2),
            v.axpy(-2.0, odd_2, even_2),
            v.axpy(4.0, d[1], v.axpy(-5.0, d[3], d[5])),
        ]
    }
}

/// $B e$: the derivatives by the frequencies to those by the tile of the input.
pub(super) struct InputBack;

impl Transform<IN, IN> for InputBack {
    #[inline(always)]
    fn apply<F: Scalar, S: Simd>(simd: S, e: [F::Vector<S>; IN]) -> [F::Vector<S>; IN] {
        let v = Vectors::<F, S>::new(simd);
        let (even_1, odd_1) = (v.plus(e[1], e[2]), v.minus(e[1], e[2]));
        let (even_2, odd_2) = (v.plus(e[3], e[4]), v.minus(e[3], e[4]));
        [
            v.scale(4.0, e[0]),
            v.axpy(-2.0, odd_2, v.scale(4.0, v.minus(e[5], odd_1))),
            v.minus(v.axpy(-4.0, even_1, v.scale(-5.0, e[0])), even_2),
            v.axpy(-5.0, e[5], v.axpy(2.0, odd_2, odd_1)),
            v.plus(e[0], v.plus(even_1, even_2)),
            e[5],
        ]
    }
}

/// $A^T m$: frequencies to outputs.
pub(super) struct Output;

impl Transform<IN, OUT> for Output {
    #[inline(always)]
    fn apply<F: Scalar, S: Simd>(simd: S, m: [F::Vector<S>; IN]) -> [F::Vector<S>; OUT] {
        let v = Vectors::<F, S>::new(simd);
        let (even_1, odd_1) = (v.plus(m[1], m[2]), v.minus(m[1], m[2]));
        let (even_2, odd_2) = (v.plus(m[3], m[4]), v.minus(m[3], m[4]));
        [v.plus(m[0], v.plus(even_1, even_2)), v.plus(v.axpy(2.0, odd_2, odd_1), m[5])]
    }
}

/// $A y$: the derivatives by the outputs to those by their frequencies.
pub(super) struct OutputBack;

impl Transform<OUT, IN> for OutputBack {
    #[inline(always)]
    fn apply<F: Scalar, S: Simd>(simd: S, y: [F::Vector<S>; OUT]) -> [F::Vector<S>; IN] {
        let v = Vectors::<F, S>::new(simd);
        [
            y[0],
            v.plus(y[0], y[1]),
            v.minus(y[0], y[1]),
            v.axpy(2.0, y[1], y[0]),
            v.axpy(-2.0, y[1], y[0]),
            y[1],
        ]
    }
}

/// $G g$: a filter to its frequencies.
pub(super) struct Filter;

impl Transform<TAPS, IN> for Filter {
    #[inline(always)]
    fn apply<F: Scalar, S: Simd>(simd: S, g: [F::Vector<S>; TAPS]) -> [F::Vector<S>; IN] {
        let v = Vectors::<F, S>::new(simd);
        let (even_1, odd_1) = (v.plus(g[0], v.plus(g[2], g[4])), v.plus(g[1], g[3]));
        let even_2 = v.axpy(16.0, g[4], v.axpy(4.0, g[2], g[0]));
        let odd_2 = v.axpy(8.0, g[3], v.scale(2.0, g[1]));
        [
            v.scale(1.0 / 4.0, g[0]),
            v.scale(-1.0 / 6.0, v.plus(even_1, odd_1)),
            v.scale(-1.0 / 6.0, v.minus(even_1, odd_1)),
            v.scale(1.0 / 24.0, v.plus(even_2, odd_2)),
            v.scale(1.0 / 24.0, v.minus(even_2, odd_2)),
            g[4],
        ]
    }
}

/// $G^T u$: the derivatives by a filter's frequencies to those by the filter.
pub(super) struct FilterBack;

impl Transform<IN, TAPS> for FilterBack {
    #[inline(always)]
    fn apply<F: Scalar, S: Simd>(simd: S, u: [F::Vector<S>; IN]) -> [F::Vector<S>; TAPS] {
        let v = Vectors::<F, S>::new(simd);
        let even_1 = v.scale(-1.0 / 6.0, v.plus(u[1], u[2]));
        let odd_1 = v.scale(-1.0 / 6.0, v.minus(u[1], u[2]));
        let even_2 = v.scale(1.0 / 24.0, v.plus(u[3], u[4]));
        let odd_2 = v.scale(1.0 / 24.0, v.minus(u[3], u[4]));
        [
            v.axpy(1.0 / 4.0, u[0], v.plus(even_1, even_2)),
            v.axpy(2.0, odd_2, odd_1),
            v.axpy(4.0, even_2, even_1),
            v.axpy(8.0, odd_2, odd_1),
            v.plus(v.axpy(16.0, even_2, even_1), u[5]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::Scalar as Plain;

    const INPUT: [[f64; IN]; IN] = [
        [4.0, 0.0, -5.0, 0.0, 1.0, 0.0],
        [0.0, -4.0, -4.0, 1.0, 1.0, 0.0],
        [0.0, 4.0, -4.0, -1.0, 1.0, 0.0],
        [0.0, -2.0, -1.0, 2.0, 1.0, 0.0],
        [0.0, 2.0, -1.0, -2.0, 1.0, 0.0],
        [0.0, 4.0, 0.0, -5.0, 0.0, 1.0],
    ];
    const OUTPUT: [[f64; IN]; OUT] =
        [[1.0, 1.0, 1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, 2.0, -2.0, 1.0]];
    /// The rows of G times 4, -6, -6, 24, 24, 1.
    const FILTER: [[f64; TAPS]; IN] = [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0, 1.0, 1.0],
        [1.0, -1.0, 1.0, -1.0, 1.0],
        [1.0, 2.0, 4.0, 8.0, 16.0],
        [1.0, -2.0, 4.0, -8.0, 16.0],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ];
    const DIVISORS: [f64; IN] = [4.0, -6.0, -6.0, 24.0, 24.0, 1.0];

    /// A transform and its transpose against the matrix, column by column.
    fn matches<T, Back, const N: usize, const M: usize>(matrix: [[f64; N]; M], scale: [f64; M])
    where
        T: Transform<N, M>,
        Back: Transform<M, N>,
    {
        for i in 0..M {
            for j in 0..N {
                let expected = matrix[i][j] / scale[i];
                let mut unit = [0.0; N];
                unit[j] = 1.0;
                let forward = T::apply::<f64, _>(Plain::new(), unit)[i];
                let mut unit = [0.0; M];
                unit[i] = 1.0;
                let back = Back::apply::<f64, _>(Plain::new(), unit)[j];
                for x in [forward, back] {
                    assert!((x - expected).abs() < 1e-15, "{i}, {j}: {x}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn transforms_are_those_of_the_matrices() {
        matches::<Input, InputBack, IN, IN>(INPUT, [1.0; IN]);
        matches::<Output, OutputBack, IN, OUT>(OUTPUT, [1.0; OUT]);
        matches::<Filter, FilterBack, TAPS, IN>(FILTER, DIVISORS);
    }

    #[test]
    fn the_algorithm_is_a_correlation() {
        for (i, j) in (0..IN).flat_map(|i| (0..TAPS).map(move |j| (i, j))) {
            let (mut d, mut g) = ([0.0; IN], [0.0; TAPS]);
            (d[i], g[j]) = (1.0, 1.0);
            let v = Input::apply::<f64, _>(Plain::new(), d);
            let u = Filter::apply::<f64, _>(Plain::new(), g);
            let y = Output::apply::<f64, _>(Plain::new(), std::array::from_fn(|f| u[f] * v[f]));
            for (at, y) in y.into_iter().enumerate() {
                let expected = if at + j == i { 1.0 } else { 0.0 };
                assert!((y - expected).abs() < 1e-15, "{i} {j} {at}: {y}");
            }
        }
    }
}
