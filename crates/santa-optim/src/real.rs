//! The two scalar types of the library, and the elementary functions its kernels use.
//!
//! A kernel is an ordinary loop over a block of [`BLOCK`] elements, compiled once for each
//! instruction set and picked at run time. For the same bits everywhere it may only use operations
//! that IEEE 754 defines exactly (`+ - * /`, square root, fused multiply-add) and the polynomials
//! below, never a platform's mathematics library. Every 64-bit processor of the last decade has the
//! fused multiply-add; on an x86 without it (before AVX2) it is emulated: the same bits, but slow.

use std::fmt::{Debug, Display};
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// Elements that a kernel works on at a time: small enough for the first-level cache, large enough
/// that the noise generator keeps every vector lane busy.
pub const BLOCK: usize = 128;

/// The element types that parameters may have: `f32` and `f64`. Sealed.
pub trait Real:
    sealed::Sealed
    + Copy
    + Default
    + PartialEq
    + PartialOrd
    + Debug
    + Display
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + 'static
{
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// 1/2
    const HALF: Self;
    /// The name that checkpoints use: `f32` or `f64`.
    const NAME: &'static str;
    /// Bytes per element.
    const BYTES: usize;
    /// The least positive normal number.
    #[doc(hidden)]
    const LEAST_NORMAL: f64;

    /// Rounds to this type.
    fn from_f64(x: f64) -> Self;
    /// Widens, exactly.
    fn to_f64(self) -> f64;
    /// Exact square root.
    fn sqrt(self) -> Self;
    /// `self * a + b`, rounded once.
    fn fma(self, a: Self, b: Self) -> Self;
    /// Magnitude.
    fn abs(self) -> Self;
    /// -1, 0 or 1; 0 for zeros of either sign.
    fn sign(self) -> Self;
    /// Exponential, to the last bit or two; saturates instead of overflowing.
    fn exp(self) -> Self;
    /// Natural logarithm of a positive, normal number, to the last bit or two.
    fn ln(self) -> Self;
    /// Itself, or zero if its magnitude is below `least`. A NaN stays one.
    #[doc(hidden)]
    #[inline(always)]
    fn or_zero_below(self, least: Self) -> Self {
        if self.abs() < least { Self::ZERO } else { self }
    }
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Little-endian bytes, appended to `out`.
    fn write_le(self, out: &mut Vec<u8>);
    /// From [`Real::BYTES`] little-endian bytes.
    fn read_le(bytes: &[u8]) -> Self;

    /// Standard normal deviates for the block of elements that starts at `block * BLOCK`;
    /// see [`crate::noise`].
    #[doc(hidden)]
    fn normal_block(key: [u32; 2], block: u32, counter: [u32; 3]) -> [Self; BLOCK];
}

mod sealed {
    use crate::dynamics::{Algorithm, Rule, SeparableMetric};
    use crate::error::Result;
    use crate::noise;
    use crate::target::Target;
    use std::sync::Arc;

    /// A kernel behind its one face.
    pub struct Compiled<F: super::Real>(pub(crate) Box<dyn Rule<F>>);

    /// What is compiled in this crate, once for each element type and instruction set. A generic
    /// function is compiled again in every crate that calls it, and these are the large ones.
    pub trait Sealed: Sized {
        /// The kernel of an algorithm.
        #[doc(hidden)]
        fn rule(
            algorithm: &Algorithm,
            target: &Target,
            given: Option<Arc<dyn SeparableMetric<Self>>>,
        ) -> Result<Compiled<Self>>
        where
            Self: super::Real;

        /// Standard normal deviates from an element on.
        #[doc(hidden)]
        fn fill_normals(key: [u32; 2], counter: [u32; 3], first: usize, out: &mut [Self]);
    }

    macro_rules! compiled_here {
        ($($element:ty),*) => {$(
            impl Sealed for $element {
                fn rule(
                    algorithm: &Algorithm,
                    target: &Target,
                    given: Option<Arc<dyn SeparableMetric<Self>>>,
                ) -> Result<Compiled<Self>> {
                    algorithm.rule(target, given).map(Compiled)
                }
                fn fill_normals(key: [u32; 2], counter: [u32; 3], first: usize, out: &mut [Self]) {
                    noise::fill_normals(key, counter, first, out);
                }
            }
        )*};
    }
    compiled_here!(f32, f64);
}

/// Adding this to an `f32` of moderate size rounds it to an integer, held in the low mantissa bits.
const ROUND_F32: f32 = 12_582_912.0; // 1.5 * 2^23
/// The same for `f64`.
const ROUND_F64: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const HALF: Self = 0.5;
    const NAME: &'static str = "f32";
    const BYTES: usize = 4;
    const LEAST_NORMAL: f64 = f32::MIN_POSITIVE as f64;

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        f32::sqrt(self)
    }
    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        f32::mul_add(self, a, b)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        f32::abs(self)
    }
    #[inline(always)]
    fn sign(self) -> Self {
        if self > 0.0 {
            1.0
        } else if self < 0.0 {
            -1.0
        } else {
            0.0
        }
    }
    /// Reduction to |r| <= ln(2)/2, then 1 + r + r^2 q(r) with q of degree 3, fitted for the least
    /// relative error (1.1e-7).
    #[inline(always)]
    fn exp(self) -> Self {
        const LN2_HI: f32 = 0.693_359_4;
        const LN2_LO: f32 = -2.121_944_4e-4;
        const Q: [f32; 4] = [0.499_992_28, 0.166_671_16, 0.041_890_55, 0.008_312_478];
        let x = if self < -87.0 { -87.0 } else { self };
        let x = if x > 88.0 { 88.0 } else { x };
        let n = x.fma(std::f32::consts::LOG2_E, ROUND_F32);
        let k = n - ROUND_F32;
        let r = k.fma(-LN2_LO, k.fma(-LN2_HI, x));
        let mut p = Q[3];
        p = p.fma(r, Q[2]);
        p = p.fma(r, Q[1]);
        p = p.fma(r, Q[0]);
        p = p.fma(r, 1.0);
        p = p.fma(r, 1.0);
        p * f32::from_bits(n.to_bits().wrapping_add(127) << 23)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        ln_f64(f64::from(self)) as f32
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }
    fn write_le(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn read_le(bytes: &[u8]) -> Self {
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
    #[inline(always)]
    fn normal_block(key: [u32; 2], block: u32, counter: [u32; 3]) -> [Self; BLOCK] {
        crate::noise::normal::block_f32(key, block, counter)
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const HALF: Self = 0.5;
    const NAME: &'static str = "f64";
    const BYTES: usize = 8;
    const LEAST_NORMAL: f64 = f64::MIN_POSITIVE;

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        f64::mul_add(self, a, b)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        f64::abs(self)
    }
    #[inline(always)]
    fn sign(self) -> Self {
        if self > 0.0 {
            1.0
        } else if self < 0.0 {
            -1.0
        } else {
            0.0
        }
    }
    /// The same reduction with a Taylor polynomial of degree 13: the first neglected term is below
    /// 2^-57 on |r| <= ln(2)/2.
    #[inline(always)]
    fn exp(self) -> Self {
        const LN2_HI: f64 = 6.931_471_803_691_238e-1;
        const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
        let x = if self < -708.0 { -708.0 } else { self };
        let x = if x > 709.0 { 709.0 } else { x };
        let n = x.fma(std::f64::consts::LOG2_E, ROUND_F64);
        let k = n - ROUND_F64;
        let r = k.fma(-LN2_LO, k.fma(-LN2_HI, x));
        let mut p = 1.0 / 6_227_020_800.0;
        p = p.fma(r, 1.0 / 479_001_600.0);
        p = p.fma(r, 1.0 / 39_916_800.0);
        p = p.fma(r, 1.0 / 3_628_800.0);
        p = p.fma(r, 1.0 / 362_880.0);
        p = p.fma(r, 1.0 / 40_320.0);
        p = p.fma(r, 1.0 / 5_040.0);
        p = p.fma(r, 1.0 / 720.0);
        p = p.fma(r, 1.0 / 120.0);
        p = p.fma(r, 1.0 / 24.0);
        p = p.fma(r, 1.0 / 6.0);
        p = p.fma(r, 0.5);
        let value = (p * r).fma(r, r) + 1.0;
        value * f64::from_bits(n.to_bits().wrapping_add(1023) << 52)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        ln_f64(self)
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
    fn write_le(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn read_le(bytes: &[u8]) -> Self {
        let mut b = [0u8; 8];
        b.copy_from_slice(&bytes[..8]);
        f64::from_le_bytes(b)
    }
    #[inline(always)]
    fn normal_block(key: [u32; 2], block: u32, counter: [u32; 3]) -> [Self; BLOCK] {
        crate::noise::normal::block_f64(key, block, counter)
    }
}

/// Natural logarithm of a positive, normal `f64`, by the series of atanh.
#[inline(always)]
pub(crate) fn ln_f64(x: f64) -> f64 {
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    const LN2_HI: f64 = 6.931_471_803_691_238e-1;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    let bits = x.to_bits();
    let e = (bits.wrapping_sub(SQRT_HALF) as i64) >> 52;
    let m = f64::from_bits(bits.wrapping_sub((e as u64) << 52));
    // An integer of moderate size to f64 without the conversion that AVX2 lacks.
    let e = f64::from_bits(ROUND_F64.to_bits().wrapping_add(e as u64)) - ROUND_F64;
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut p = 2.0 / 23.0;
    p = p.fma(z, 2.0 / 21.0);
    p = p.fma(z, 2.0 / 19.0);
    p = p.fma(z, 2.0 / 17.0);
    p = p.fma(z, 2.0 / 15.0);
    p = p.fma(z, 2.0 / 13.0);
    p = p.fma(z, 2.0 / 11.0);
    p = p.fma(z, 2.0 / 9.0);
    p = p.fma(z, 2.0 / 7.0);
    p = p.fma(z, 2.0 / 5.0);
    p = p.fma(z, 2.0 / 3.0);
    e.fma(LN2_HI, (p * z).fma(s, e.fma(LN2_LO, 2.0 * s)))
}

/// `(sin 2 pi x, cos 2 pi x)` for `x` in [0, 1), by Taylor polynomials on |r| <= pi/4.
#[inline(always)]
pub(crate) fn sin_cos_turn_f64(x: f64) -> (f64, f64) {
    let n = x.fma(4.0, ROUND_F64);
    let quadrant = n.to_bits();
    let r = (x - (n - ROUND_F64) * 0.25) * std::f64::consts::TAU;
    let z = r * r;
    let mut s = 1.0 / 355_687_428_096_000.0;
    s = s.fma(z, -1.0 / 1_307_674_368_000.0);
    s = s.fma(z, 1.0 / 6_227_020_800.0);
    s = s.fma(z, -1.0 / 39_916_800.0);
    s = s.fma(z, 1.0 / 362_880.0);
    s = s.fma(z, -1.0 / 5_040.0);
    s = s.fma(z, 1.0 / 120.0);
    s = s.fma(z, -1.0 / 6.0);
    let s = (s * z).fma(r, r);
    let mut c = 1.0 / 20_922_789_888_000.0;
    c = c.fma(z, -1.0 / 87_178_291_200.0);
    c = c.fma(z, 1.0 / 479_001_600.0);
    c = c.fma(z, -1.0 / 3_628_800.0);
    c = c.fma(z, 1.0 / 40_320.0);
    c = c.fma(z, -1.0 / 720.0);
    c = c.fma(z, 1.0 / 24.0);
    let c = (c * z).fma(z, z.fma(-0.5, 1.0));
    let (sin, cos) = if quadrant & 1 != 0 { (c, s) } else { (s, c) };
    let sin_sign = (quadrant & 2) << 62;
    let cos_sign = (quadrant.wrapping_add(1) & 2) << 62;
    (f64::from_bits(sin.to_bits() ^ sin_sign), f64::from_bits(cos.to_bits() ^ cos_sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(lo: f64, hi: f64, n: usize) -> impl Iterator<Item = f64> {
        (0..=n).map(move |i| lo + (hi - lo) * i as f64 / n as f64)
    }

    #[test]
    fn exponentials_agree_with_the_standard_library() {
        for x in sweep(-80.0, 80.0, 20_001) {
            let narrow = x as f32;
            let exact = f64::from(narrow).exp();
            assert!((Real::exp(narrow).to_f64() / exact - 1.0).abs() < 3e-7, "f32 exp({x})");
            assert!((Real::exp(x) / x.exp() - 1.0).abs() < 4e-16 * 2.0, "f64 exp({x})");
        }
        assert!(Real::exp(-1e30f32) < 1e-37 && Real::exp(1e30f32).is_finite());
        assert!(Real::exp(-1e300f64) < 1e-300 && Real::exp(1e300f64).is_finite());
    }

    #[test]
    fn logarithms_agree_with_the_standard_library() {
        for x in sweep(1e-9, 3.0, 100_001) {
            let error = (ln_f64(x) - x.ln()).abs();
            assert!(error < 8e-16 * x.ln().abs().max(1e-1), "f64 ln({x}): {error}");
        }
    }

    #[test]
    fn sine_and_cosine_agree_with_the_standard_library() {
        for x in sweep(0.0, 0.999_999_9, 100_001) {
            let (s, c) = sin_cos_turn_f64(x);
            let (es, ec) = (x * std::f64::consts::TAU).sin_cos();
            assert!((s - es).abs() < 1e-15 && (c - ec).abs() < 1e-15, "{x}");
        }
    }
}
