//! Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (2011).
//!
//! A block cipher in spirit: a 128-bit counter and a 64-bit key go in, 128 random bits come out.
//! There is no state to carry, so any element of any step can be drawn by anyone, in any order.

const M0: u64 = 0xD251_1F53;
const M1: u64 = 0xCD9E_8D57;
/// Weyl increments of the key: the golden ratio and sqrt(3) - 1.
const W0: u32 = 0x9E37_79B9;
const W1: u32 = 0xBB67_AE85;
const ROUNDS: usize = 10;

/// One draw: 128 random bits for a counter and a key.
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [c0, c1, c2, c3] = counter;
    let lanes = lanes::<1>(key, c0, [c1, c2, c3]);
    [lanes[0][0], lanes[1][0], lanes[2][0], lanes[3][0]]
}

/// `L` draws at the counters `first..first + L` of the lowest counter word, transposed: word `w` of
/// draw `l` is at `[w][l]`.
///
/// The words live in the low halves of 64-bit lanes; what multiplies leave in the high halves is
/// ignored by the next multiply, which saves every shuffle that 32-bit lanes would need.
#[inline(always)]
pub(crate) fn lanes<const L: usize>(key: [u32; 2], first: u32, upper: [u32; 3]) -> [[u32; L]; 4] {
    const LOW: u64 = 0xffff_ffff;
    let mut x0 = [0u64; L];
    let mut x1 = [u64::from(upper[0]); L];
    let mut x2 = [u64::from(upper[1]); L];
    let mut x3 = [u64::from(upper[2]); L];
    for l in 0..L {
        x0[l] = u64::from(first.wrapping_add(l as u32));
    }
    let [mut k0, mut k1] = key;
    for _ in 0..ROUNDS {
        for l in 0..L {
            let p0 = (x0[l] & LOW) * M0;
            let p1 = (x2[l] & LOW) * M1;
            x0[l] = (p1 >> 32) ^ x1[l] ^ u64::from(k0);
            x1[l] = p1;
            x2[l] = (p0 >> 32) ^ x3[l] ^ u64::from(k1);
            x3[l] = p0;
        }
        k0 = k0.wrapping_add(W0);
        k1 = k1.wrapping_add(W1);
    }
    let mut out = [[0u32; L]; 4];
    for l in 0..L {
        out[0][l] = x0[l] as u32;
        out[1][l] = x1[l] as u32;
        out[2][l] = x2[l] as u32;
        out[3][l] = x3[l] as u32;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known-answer vectors that the Random123 distribution publishes for `philox4x32` 10.
    #[test]
    fn published_vectors_come_out() {
        assert_eq!(
            philox4x32([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn lanes_are_single_draws_side_by_side() {
        let key = [7, 9];
        let first = u32::MAX - 3; // the lowest word wraps
        let wide = lanes::<32>(key, first, [1, 2, 3]);
        for l in 0..32 {
            let single = philox4x32([first.wrapping_add(l as u32), 1, 2, 3], key);
            assert_eq!(single, [wide[0][l], wide[1][l], wide[2][l], wide[3][l]]);
        }
    }
}
