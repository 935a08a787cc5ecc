//! Scalars and their vector registers.

use crate::compiled::Compiled;
use aligned_vec::{AVec, ConstAlign};
use pulp::Simd;
use santa::Real;
use std::cell::RefCell;

/// Alignment of every buffer, in bytes: a cache line, and a register of AVX-512.
pub const ALIGN: usize = 64;

/// Steps of a product that are taken at a time, so that a panel of B stays in the second-level cache.
pub const DEPTH: usize = 512;
/// Elements of A that are packed at a time: a fraction of the second-level cache.
pub const PACKED: usize = 1 << 15;
/// Elements of a panel of B: five registers of sixteen elements wide.
const PANEL: usize = DEPTH * 5 * 16;

/// A buffer that begins on a cache line.
pub type Buffer<F> = AVec<F, ConstAlign<ALIGN>>;

/// A buffer of zeros.
pub fn zeros<F: Real>(len: usize) -> Buffer<F> {
    let mut buffer = AVec::with_capacity(ALIGN, len);
    buffer.resize(len, F::ZERO);
    buffer
}

/// The element types of a network: `f32` and `f64`. What [`Real`] is, with vector registers.
pub trait Scalar: Real + Compiled {
    /// A byte's value.
    fn from_byte(byte: u8) -> Self;

    /// A vector register.
    #[doc(hidden)]
    type Vector<S: Simd>: Copy;

    /// Elements of a register.
    #[doc(hidden)]
    fn lanes<S: Simd>() -> usize;
    /// One value in all lanes.
    #[doc(hidden)]
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    /// `a * b + c`, rounded once.
    #[doc(hidden)]
    fn mul_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// `a + b`.
    #[doc(hidden)]
    fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a - b`.
    #[doc(hidden)]
    fn minus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a * b`.
    #[doc(hidden)]
    fn times<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `yes` where `x` is above `bound` or not a number, else `no`.
    #[doc(hidden)]
    fn where_above<S: Simd>(
        simd: S,
        x: Self::Vector<S>,
        bound: Self::Vector<S>,
        yes: Self::Vector<S>,
        no: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// `yes` where `x` equals `y`, else `no`.
    #[doc(hidden)]
    fn where_equal<S: Simd>(
        simd: S,
        x: Self::Vector<S>,
        y: Self::Vector<S>,
        yes: Self::Vector<S>,
        no: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// Whole registers, and what is left.
    #[doc(hidden)]
    fn vectors<S: Simd>(slice: &[Self]) -> (&[Self::Vector<S>], &[Self]);
    /// Whole registers, and what is left.
    #[doc(hidden)]
    fn vectors_mut<S: Simd>(slice: &mut [Self]) -> (&mut [Self::Vector<S>], &mut [Self]);
    /// Fewer elements than a register has; zeros in the other lanes.
    #[doc(hidden)]
    fn load_part<S: Simd>(simd: S, slice: &[Self]) -> Self::Vector<S>;
    /// The first lanes.
    #[doc(hidden)]
    fn store_part<S: Simd>(simd: S, slice: &mut [Self], x: Self::Vector<S>);

    /// Writes the columns of rows of `columns` elements as rows that lie `stride` apart, as many as
    /// `to` holds.
    #[doc(hidden)]
    fn transpose(from: &[Self], columns: usize, to: &mut [Self], stride: usize);

    /// Runs `work` on this thread's buffers for packed operands: [`PACKED`] elements for A
    /// and more for a panel of B, and indices, of unspecified content.
    #[doc(hidden)]
    fn with_packing<R>(work: impl FnOnce(&mut [Self], &mut [u32]) -> R) -> R;
}

/// What a thread keeps for [`Scalar::with_packing`].
struct Packing<F> {
    values: Buffer<F>,
    indices: Vec<u32>,
}

macro_rules! scalar {
    ($scalar:ty, $vector:ident, $lanes:ident, $splat:ident, $mul_add:ident,
     [$add:ident, $sub:ident, $mul:ident, $greater:ident, $equal:ident, $select:ident],
     $vectors:ident, $vectors_mut:ident, $load_part:ident, $store_part:ident, $transpose:ident) => {
        impl Scalar for $scalar {
            type Vector<S: Simd> = S::$vector;

            #[inline(always)]
            fn from_byte(byte: u8) -> Self {
                Self::from(byte)
            }

            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                S::$lanes
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$vector {
                simd.$splat(x)
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
            fn plus<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn minus<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$sub(a, b)
            }
            #[inline(always)]
            fn times<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$mul(a, b)
            }
            #[inline(always)]
            fn where_above<S: Simd>(
                simd: S,
                x: S::$vector,
                bound: S::$vector,
                yes: S::$vector,
                no: S::$vector,
            ) -> S::$vector {
                let if_number = simd.$select(simd.$greater(x, bound), yes, no);
                simd.$select(simd.$equal(x, x), if_number, yes)
            }
            #[inline(always)]
            fn where_equal<S: Simd>(
                simd: S,
                x: S::$vector,
                y: S::$vector,
                yes: S::$vector,
                no: S::$vector,
            ) -> S::$vector {
                simd.$select(simd.$equal(x, y), yes, no)
            }
            #[inline(always)]
            fn vectors<S: Simd>(slice: &[Self]) -> (&[S::$vector], &[Self]) {
                S::$vectors(slice)
            }
            #[inline(always)]
            fn vectors_mut<S: Simd>(slice: &mut [Self]) -> (&mut [S::$vector], &mut [Self]) {
                S::$vectors_mut(slice)
            }
            #[inline(always)]
            fn load_part<S: Simd>(simd: S, slice: &[Self]) -> S::$vector {
                simd.$load_part(slice)
            }
            #[inline(always)]
            fn store_part<S: Simd>(simd: S, slice: &mut [Self], x: S::$vector) {
                simd.$store_part(slice, x)
            }

            fn transpose(from: &[Self], columns: usize, to: &mut [Self], stride: usize) {
                super::transpose::$transpose(from, columns, to, stride);
            }

            fn with_packing<R>(work: impl FnOnce(&mut [Self], &mut [u32]) -> R) -> R {
                thread_local! {
                    static PACKING: RefCell<Packing<$scalar>> =
                        RefCell::new(Packing { values: zeros(PACKED + PANEL), indices: vec![0; PACKED] });
                }
                PACKING.with_borrow_mut(|p| work(&mut p.values, &mut p.indices))
            }
        }
    };
}
scalar!(
    f32,
    f32s,
    F32_LANES,
    splat_f32s,
    mul_add_f32s,
    [add_f32s, sub_f32s, mul_f32s, greater_than_f32s, equal_f32s, select_f32s],
    as_simd_f32s,
    as_mut_simd_f32s,
    partial_load_f32s,
    partial_store_f32s,
    transpose_f32
);
scalar!(
    f64,
    f64s,
    F64_LANES,
    splat_f64s,
    mul_add_f64s,
    [add_f64s, sub_f64s, mul_f64s, greater_than_f64s, equal_f64s, select_f64s],
    as_simd_f64s,
    as_mut_simd_f64s,
    partial_load_f64s,
    partial_store_f64s,
    transpose_f64
);
