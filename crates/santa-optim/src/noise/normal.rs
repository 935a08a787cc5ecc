//! Standard normal deviates by Box and Muller's transform of Philox words, a block at a time.
//!
//! | type | words per deviate | resolution of the radius | largest deviate |
//! | --- | --- | --- | --- |
//! | `f32` | 1 | 2^-31 | 6.66 |
//! | `f64` | 2 | 2^-53 | 8.57 |

use super::philox::lanes;
use crate::real::{BLOCK, Real, ln_f64, sin_cos_turn_f64};

/// Philox draws per call: 32 lanes of 64 bits fill the vector registers of AVX-512.
const LANES: usize = 32;

/// Elements `block * BLOCK ..` of an `f32` stream. Draw `l` of the block gives the elements `l`,
/// `l + 32`, `l + 64` and `l + 96`, so no lane ever moves.
#[inline(always)]
pub(crate) fn block_f32(key: [u32; 2], block: u32, counter: [u32; 3]) -> [f32; BLOCK] {
    let words = lanes::<LANES>(key, block.wrapping_mul(LANES as u32), counter);
    let mut z = [0.0; BLOCK];
    for half in 0..2 {
        for l in 0..LANES {
            let r = radius_squared_f32(words[2 * half][l]).sqrt();
            let (x, y) = direction_f32(words[2 * half + 1][l]);
            z[2 * half * LANES + l] = r * x;
            z[(2 * half + 1) * LANES + l] = r * y;
        }
    }
    z
}

/// -2 ln(u) for a uniform u in (0, 1] with 31 random bits; fine near 0, where the large deviates come
/// from. Relative error below 5e-7.
#[inline(always)]
fn radius_squared_f32(word: u32) -> f32 {
    const SCALE: f32 = 1.0 / 2_147_483_648.0; // 2^-31
    /// Bits of sqrt(1/2): the mantissa is taken from [sqrt(1/2), sqrt(2)).
    const SQRT_HALF: u32 = 0x3f35_04f3;
    const MINUS_2_LN_2: f32 = -2.0 * std::f32::consts::LN_2;
    /// -2 ln(1 + f) / f, fitted for the least relative error.
    const P: [f32; 8] = [
        -1.999_999_9,
        1.000_007_3,
        -0.666_701_2,
        0.499_398_17,
        -0.398_003_3,
        0.345_016_6,
        -0.324_451_6,
        0.202_137_86,
    ];
    let u = ((word >> 1) as i32 as f32 + 0.5) * SCALE;
    let bits = u.to_bits();
    let e = (bits.wrapping_sub(SQRT_HALF) as i32) >> 23;
    let f = f32::from_bits(bits.wrapping_sub((e as u32) << 23)) - 1.0;
    let mut p = P[7];
    for k in (0..7).rev() {
        p = p.fma(f, P[k]);
    }
    let sum = MINUS_2_LN_2.fma(e as f32, f * p);
    // At u = 1 rounding could leave less than nothing.
    if sum > 0.0 { sum } else { 0.0 }
}

/// A uniform point on the circle: a point of the quarter around the positive x-axis from 22 bits of
/// the word, its x mirrored by one bit, x and y swapped by another. Error 4e-8.
#[inline(always)]
fn direction_f32(word: u32) -> (f32, f32) {
    /// The quarter, in turns, is [-1/8, 1/8).
    const STEP: f32 = 1.0 / 16_777_216.0; // a quarter of 2^-22
    /// sin(2 pi r) / r and cos(2 pi r) in r^2, fitted for the least error.
    const SIN: [f32; 4] = [6.283_185_5, -41.341_663, 81.592_354, -75.393_56];
    const COS: [f32; 4] = [1.0, -19.739_168, 64.923_225, -83.665_924];
    // The middle of each of the 2^22 steps, so that no side is preferred.
    let r = STEP.fma((word >> 10) as i32 as f32, 0.5 * STEP - 0.125);
    let z = r * r;
    let (mut sin, mut cos) = (SIN[3], COS[3]);
    for k in (0..3).rev() {
        sin = sin.fma(z, SIN[k]);
        cos = cos.fma(z, COS[k]);
    }
    let y = sin * r;
    let x = f32::from_bits(cos.to_bits() ^ word << 31);
    if word & 2 != 0 { (y, x) } else { (x, y) }
}

/// Elements `block * BLOCK ..` of an `f64` stream: two calls of the generator, two deviates a draw.
#[inline(always)]
pub(crate) fn block_f64(key: [u32; 2], block: u32, counter: [u32; 3]) -> [f64; BLOCK] {
    let mut z = [0.0; BLOCK];
    for half in 0..2 {
        let first = block.wrapping_mul(2).wrapping_add(half as u32).wrapping_mul(LANES as u32);
        let words = lanes::<LANES>(key, first, counter);
        for l in 0..LANES {
            let radius = unit_f64(words[0][l], words[1][l]) + HALF_ULP;
            let angle = unit_f64(words[2][l], words[3][l]);
            let minus_log = -2.0 * ln_f64(radius);
            let r = if minus_log > 0.0 { minus_log } else { 0.0 }.sqrt();
            let (sin, cos) = sin_cos_turn_f64(angle);
            z[2 * half * LANES + l] = r * cos;
            z[(2 * half + 1) * LANES + l] = r * sin;
        }
    }
    z
}

const HALF_ULP: f64 = 1.0 / 9_007_199_254_740_992.0; // 2^-53

/// 52 random bits as a number in [0, 1), through the mantissa of [1, 2): no integer conversion,
/// which AVX2 lacks for 64 bits.
#[inline(always)]
fn unit_f64(high: u32, low: u32) -> f64 {
    const ONE: u64 = 0x3ff0_0000_0000_0000;
    let bits = ((u64::from(high) << 32) | u64::from(low)) >> 12;
    f64::from_bits(ONE | bits) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radii_agree_with_the_logarithm() {
        for k in 0..100_001u32 {
            let word = k.wrapping_mul(42_949); // over the whole range
            let u = ((word >> 1) as f32 + 0.5) / 2f32.powi(31);
            let exact = -2.0 * f64::from(u).ln();
            let off = (f64::from(radius_squared_f32(word)) - exact).abs();
            assert!(off <= 5e-7 * exact, "{word}: {exact}, off by {off:e}");
        }
        assert_eq!(radius_squared_f32(u32::MAX), 0.0);
        assert!((radius_squared_f32(0).sqrt() - 6.66).abs() < 0.01);
    }

    #[test]
    fn directions_lie_on_the_circle_and_reach_every_part_of_it_alike() {
        const PARTS: usize = 16;
        let mut counts = [0u32; PARTS];
        let n = 1u32 << 20;
        for k in 0..n {
            // An odd factor: a permutation, even in all its bits.
            let word = k.wrapping_mul(0x9E37_79B1);
            let (x, y) = direction_f32(word);
            let (x, y) = (f64::from(x), f64::from(y));
            assert!((x * x + y * y - 1.0).abs() < 4e-7, "{word}");
            let turn = y.atan2(x) / std::f64::consts::TAU + 0.5;
            counts[((turn * PARTS as f64) as usize).min(PARTS - 1)] += 1;
        }
        for count in counts {
            let share = f64::from(count) * PARTS as f64 / f64::from(n);
            assert!((share - 1.0).abs() < 1e-3, "{counts:?}");
        }
    }
}
