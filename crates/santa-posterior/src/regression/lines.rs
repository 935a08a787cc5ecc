//! Rows of features in whole cache lines, and the vector registers that walk over them.

use pulp::Simd;
use santa::Real;

/// Bytes of a line: a cache line, and a register of AVX-512.
const LINE_BYTES: usize = 64;
/// Registers that a line takes at most, where a register is one number.
pub(super) const MOST_VECTORS: usize = LINE_BYTES / 4;

/// Numbers that begin on a cache line.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Line<X, const LEN: usize>([X; LEN]);

/// The types that a regression may compute in: `f64`, and `f32` for half the memory traffic. Sealed,
/// as [`Real`] is.
pub trait Arithmetic: Real {
    /// A cache line of them.
    #[doc(hidden)]
    type Line: Copy + Send + Sync + std::fmt::Debug;
    /// A vector register.
    #[doc(hidden)]
    type Vector<S: Simd>: Copy;
    /// Numbers in a line.
    #[doc(hidden)]
    const LINE: usize;
    /// Zeros.
    #[doc(hidden)]
    const NO_LINE: Self::Line;

    /// The numbers of a line.
    #[doc(hidden)]
    fn numbers(line: &Self::Line) -> &[Self];
    /// The numbers of a line, to change.
    #[doc(hidden)]
    fn numbers_mut(line: &mut Self::Line) -> &mut [Self];
    /// Registers that a line takes.
    #[doc(hidden)]
    fn vectors_in_line<S: Simd>() -> usize;
    /// A line as registers.
    #[doc(hidden)]
    fn vectors<S: Simd>(line: &Self::Line) -> &[Self::Vector<S>];
    /// A line as registers, to change.
    #[doc(hidden)]
    fn vectors_mut<S: Simd>(line: &mut Self::Line) -> &mut [Self::Vector<S>];
    /// One value in all lanes.
    #[doc(hidden)]
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    /// `a + b`.
    #[doc(hidden)]
    fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a * b + c`, rounded once.
    #[doc(hidden)]
    fn mul_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// The sum of the lanes: halves are added until one number is left.
    #[doc(hidden)]
    fn sum<S: Simd>(simd: S, x: Self::Vector<S>) -> Self;
}

macro_rules! arithmetic {
    ($scalar:ty, $line:expr, $vector:ident, $lanes:ident, $vectors:ident, $vectors_mut:ident,
     $splat:ident, $add:ident, $mul_add:ident, $sum:ident) => {
        impl Arithmetic for $scalar {
            type Line = Line<$scalar, { $line }>;
            type Vector<S: Simd> = S::$vector;
            const LINE: usize = $line;
            const NO_LINE: Self::Line = Line([0.0; $line]);

            #[inline(always)]
            fn numbers(line: &Self::Line) -> &[Self] {
                &line.0
            }
            #[inline(always)]
            fn numbers_mut(line: &mut Self::Line) -> &mut [Self] {
                &mut line.0
            }
            #[inline(always)]
            fn vectors_in_line<S: Simd>() -> usize {
                $line / S::$lanes
            }
            #[inline(always)]
            fn vectors<S: Simd>(line: &Self::Line) -> &[S::$vector] {
                S::$vectors(&line.0).0
            }
            #[inline(always)]
            fn vectors_mut<S: Simd>(line: &mut Self::Line) -> &mut [S::$vector] {
                S::$vectors_mut(&mut line.0).0
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$vector {
                simd.$splat(x)
            }
            #[inline(always)]
            fn plus<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn mul_add<S: Simd>(
                simd: S,
                a: S::$vector,
                b: S::$vector,
                c: S::$vector,
            ) -> S::$vector {
                simd.$mul_add(a, b, c)
            }
            #[inline(always)]
            fn sum<S: Simd>(simd: S, x: S::$vector) -> Self {
                simd.$sum(x)
            }
        }
    };
}
arithmetic!(
    f64,
    LINE_BYTES / 8,
    f64s,
    F64_LANES,
    as_simd_f64s,
    as_mut_simd_f64s,
    splat_f64s,
    add_f64s,
    mul_add_f64s,
    reduce_sum_f64s
);
arithmetic!(
    f32,
    LINE_BYTES / 4,
    f32s,
    F32_LANES,
    as_simd_f32s,
    as_mut_simd_f32s,
    splat_f32s,
    add_f32s,
    mul_add_f32s,
    reduce_sum_f32s
);

/// Rows of features, each in whole lines, filled up with zeros.
#[derive(Clone, Debug)]
pub(super) struct Rows<X: Arithmetic> {
    lines: Vec<X::Line>,
    lines_per_row: usize,
}

impl<X: Arithmetic> Rows<X> {
    /// From rows of `columns` numbers, one after the other.
    pub fn new(values: &[f64], columns: usize) -> Self {
        let lines_per_row = columns.div_ceil(X::LINE);
        let mut lines = Vec::with_capacity(values.len() / columns.max(1) * lines_per_row);
        for row in values.chunks_exact(columns) {
            for part in row.chunks(X::LINE) {
                let mut line = X::NO_LINE;
                for (x, value) in X::numbers_mut(&mut line).iter_mut().zip(part) {
                    *x = X::from_f64(*value);
                }
                lines.push(line);
            }
        }
        Rows { lines, lines_per_row }
    }
    /// Lines of a row.
    pub fn lines_per_row(&self) -> usize {
        self.lines_per_row
    }
    /// One row.
    #[inline(always)]
    pub fn row(&self, i: usize) -> &[X::Line] {
        &self.lines[i * self.lines_per_row..(i + 1) * self.lines_per_row]
    }
}

/// Spreads numbers over lines.
pub(super) fn fill<X: Arithmetic>(lines: &mut [X::Line], mut numbers: impl Iterator<Item = f64>) {
    for line in lines {
        for x in X::numbers_mut(line) {
            *x = X::from_f64(numbers.next().unwrap_or(0.0));
        }
    }
}
