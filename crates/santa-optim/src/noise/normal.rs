//! Standard normal deviates by Box and Muller's transform of Philox words, a block at a time.
//!
//! | type | words per deviate | resolution of the radius | largest deviate |
//! | --- | --- | --- | --- |
//! | `f32` | 1 | 2^-31 | 6.66 |
//! | `f64` | 2 | 2^-53 | 8.57 |

use super::philox::lanes;
use crate::real::{BLOCK, ln_f32, ln_f64, sin_cos_turn_f32, sin_cos_turn_f64};

/// Philox draws per call: 32 lanes of 64 bits fill the vector registers of AVX-512.
const LANES: usize = 32;

/// Elements `block * BLOCK ..` of an `f32` stream. Draw `l` of the block gives the elements `l`,
/// `l + 32`, `l + 64` and `l + 96`, so no lane ever moves.
#[inline(always)]
pub(crate) fn block_f32(key: [u32; 2], block: u32, counter: [u32; 3]) -> [f32; BLOCK] {
    const SCALE: f32 = 1.0 / 2_147_483_648.0; // 2^-31
    const TURN: f32 = 1.0 / 16_777_216.0; // 2^-24
    let words = lanes::<LANES>(key, block.wrapping_mul(LANES as u32), counter);
    let mut z = [0.0; BLOCK];
    for half in 0..2 {
        for l in 0..LANES {
            // In (0, 1]; fine near 0, where the large deviates come from.
            let radius = ((words[2 * half][l] >> 1) as i32 as f32 + 0.5) * SCALE;
            let angle = (words[2 * half + 1][l] >> 8) as i32 as f32 * TURN;
            let minus_log = -2.0 * ln_f32(radius);
            let r = if minus_log > 0.0 { minus_log } else { 0.0 }.sqrt();
            let (sin, cos) = sin_cos_turn_f32(angle);
            z[2 * half * LANES + l] = r * cos;
            z[(2 * half + 1) * LANES + l] = r * sin;
        }
    }
    z
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
