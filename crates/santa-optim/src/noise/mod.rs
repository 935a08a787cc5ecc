//! Counter-based noise: every random number of a run is a pure function of what it is for.
//!
//! The seed is the key of [`philox4x32`]; purpose, chain, segment, step and element make up its
//! counter. Nothing is carried from draw to draw, hence:
//!
//! - the same numbers for any number of threads, any chunk size, and after a resume;
//! - chains and purposes (dynamics, initialisation, shuffling, ...) never share a number;
//! - the same numbers on every instruction set: the generator is integer arithmetic, and the
//!   transform to normal deviates uses only operations that IEEE 754 rounds exactly. The tests
//!   compare AVX-512, AVX2 and plain code bit for bit on the machine they run on.
//!
//! ```
//! use santa::noise::{Purpose, Stream};
//!
//! let stream = Stream::new(42, 0, Purpose::Custom(7));
//! let mut all = [0.0f32; 300];
//! stream.normals(5, 0, 0, &mut all); // step 5, segment 0, from element 0
//! let mut middle = [0.0f32; 10];
//! stream.normals(5, 0, 200, &mut middle); // the elements from 200 on, drawn alone
//! assert_eq!(middle, all[200..210]);
//! ```

pub(crate) mod normal;
mod philox;

pub use philox::philox4x32;

use philox::lanes;

use crate::real::Real;
use serde::Serialize;

/// Largest number of segments (tensors) that a layout may have: 20 bits of the counter.
pub const MAX_SEGMENTS: usize = 1 << 20;
/// Largest number of chains under one seed: 24 bits of the counter.
pub const MAX_CHAINS: u32 = 1 << 24;
/// Largest number of elements of one segment: 32 bits of the counter, four words a draw.
pub const MAX_SEGMENT_LEN: usize = 1 << 33;
/// Largest number of steps: 36 of the counter's 44 bits for it; 8 are kept for steps made again.
pub const MAX_STEPS: u64 = 1 << 36;

/// What a random number is for. Streams of different purposes never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// The diffusion of the dynamics.
    Dynamics,
    /// Initial parameters.
    Initialisation,
    /// Initial momenta.
    Momenta,
    /// Orders of the data.
    Shuffling,
    /// Dropout masks.
    Dropout,
    /// Weights drawn from a variational posterior.
    Variational,
    /// Synthetic data.
    Data,
    /// Anything of your own; 0 to 127.
    Custom(u8),
}

impl Purpose {
    fn code(self) -> u32 {
        match self {
            Purpose::Dynamics => 0,
            Purpose::Initialisation => 1,
            Purpose::Shuffling => 2,
            Purpose::Dropout => 3,
            Purpose::Variational => 4,
            Purpose::Data => 5,
            Purpose::Momenta => 6,
            Purpose::Custom(code) => 128 + u32::from(code & 127),
        }
    }
}

/// A family of random numbers: all that one seed, one chain and one purpose will ever draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stream {
    pub(crate) key: [u32; 2],
    top: u32,
}

impl Stream {
    /// The stream of a seed for a chain (below [`MAX_CHAINS`]; higher bits are ignored) and a purpose.
    pub fn new(seed: u64, chain: u32, purpose: Purpose) -> Self {
        Stream {
            key: [seed as u32, (seed >> 32) as u32],
            top: purpose.code() << 24 | (chain & (MAX_CHAINS - 1)),
        }
    }

    /// The upper three words of the counter.
    #[inline]
    pub(crate) fn counter(&self, step: u64, segment: u32) -> [u32; 3] {
        const SEGMENT_BITS: u32 = 20;
        let middle = (segment & (MAX_SEGMENTS as u32 - 1)) | (step >> 32 << SEGMENT_BITS) as u32;
        [step as u32, middle, self.top]
    }

    /// Fills `out` with standard normal deviates: the elements `first ..` of a segment at a step.
    pub fn normals<F: Real>(&self, step: u64, segment: u32, first: usize, out: &mut [F]) {
        let counter = self.counter(step, segment);
        F::fill_normals(self.key, counter, first, out);
    }

    /// 128 random bits: draw number `index` of a segment at a step.
    pub fn words(&self, step: u64, segment: u32, index: u32) -> [u32; 4] {
        let [c1, c2, c3] = self.counter(step, segment);
        philox4x32([index, c1, c2, c3], self.key)
    }

    /// Fills `out` with the words of consecutive draws, from word `first` on: word `k` is number `k % 4`
    /// of [`Stream::words`] of draw `k / 4`.
    pub fn fill_words(&self, step: u64, segment: u32, first: usize, out: &mut [u32]) {
        let counter = self.counter(step, segment);
        pulp::Arch::new().dispatch(FillWords { key: self.key, counter, first, out });
    }

    /// A uniform number in [0, 1) with 53 random bits.
    pub fn uniform(&self, step: u64, segment: u32, index: u32) -> f64 {
        let [a, b, ..] = self.words(step, segment, index);
        ((u64::from(a) << 32 | u64::from(b)) >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// A uniform integer below `bound`, without bias worth naming: 64 random bits times the bound,
    /// off by less than `bound` / 2^64.
    pub fn below(&self, step: u64, segment: u32, index: u32, bound: u64) -> u64 {
        let [a, b, ..] = self.words(step, segment, index);
        let bits = u64::from(a) << 32 | u64::from(b);
        ((u128::from(bits) * u128::from(bound)) >> 64) as u64
    }

    /// Fills `out` with what [`Stream::below`] gives for the draws 0, 1, 2, ...
    pub fn fill_below(&self, step: u64, segment: u32, bound: u32, out: &mut [u32]) {
        let counter = self.counter(step, segment);
        pulp::Arch::new().dispatch(FillBelow { key: self.key, counter, bound, out });
    }
}

/// Copies the elements from number `first` on out of the blocks that they are made in.
#[inline(always)]
fn fill_from_blocks<T: Copy, const N: usize>(
    first: usize,
    out: &mut [T],
    block: impl Fn(usize) -> [T; N],
) {
    let mut done = 0;
    while done < out.len() {
        let element = first + done;
        let offset = element % N;
        let take = (N - offset).min(out.len() - done);
        let made = block(element / N);
        out[done..done + take].copy_from_slice(&made[offset..offset + take]);
        done += take;
    }
}

/// Words from number `first` on, for the instruction set at hand.
struct FillWords<'a> {
    key: [u32; 2],
    counter: [u32; 3],
    first: usize,
    out: &'a mut [u32],
}

impl pulp::WithSimd for FillWords<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        /// Draws at a time.
        const DRAWS: usize = 16;
        const WORDS: usize = 4;
        fill_from_blocks(
            self.first,
            self.out,
            #[inline(always)]
            |block| {
                let words = lanes::<DRAWS>(self.key, (block * DRAWS) as u32, self.counter);
                let mut in_order = [0; DRAWS * WORDS];
                for l in 0..DRAWS {
                    for w in 0..WORDS {
                        in_order[WORDS * l + w] = words[w][l];
                    }
                }
                in_order
            },
        );
    }
}

/// Integers below a bound, for the instruction set at hand.
struct FillBelow<'a> {
    key: [u32; 2],
    counter: [u32; 3],
    bound: u32,
    out: &'a mut [u32],
}

impl pulp::WithSimd for FillBelow<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        /// Draws at a time.
        const DRAWS: usize = 16;
        let bound = u64::from(self.bound);
        for (k, chunk) in self.out.chunks_mut(DRAWS).enumerate() {
            let [high, low, ..] = lanes::<DRAWS>(self.key, (k * DRAWS) as u32, self.counter);
            let mut draws = [0; DRAWS];
            for l in 0..DRAWS {
                // The upper word of the product of 64 random bits and the bound.
                let carried = (u64::from(low[l]) * bound) >> 32;
                draws[l] = ((u64::from(high[l]) * bound + carried) >> 32) as u32;
            }
            chunk.copy_from_slice(&draws[..chunk.len()]);
        }
    }
}

/// [`Stream::normals`]; called through the element type, so that it is compiled here.
pub(crate) fn fill_normals<F: Real>(key: [u32; 2], counter: [u32; 3], first: usize, out: &mut [F]) {
    pulp::Arch::new().dispatch(Fill { key, counter, first, out });
}

/// Deviates from element `first` on, for the instruction set at hand.
struct Fill<'a, F> {
    key: [u32; 2],
    counter: [u32; 3],
    first: usize,
    out: &'a mut [F],
}

impl<F: Real> pulp::WithSimd for Fill<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        fill_from_blocks(
            self.first,
            self.out,
            #[inline(always)]
            |block| F::normal_block(self.key, block as u32, self.counter),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real::BLOCK;
    use pulp::{Simd, WithSimd};

    #[test]
    fn many_draws_below_a_bound_are_those_made_one_by_one() {
        let stream = Stream::new(9, 3, Purpose::Shuffling);
        for bound in [1, 7, 60_000, u32::MAX] {
            let mut many = vec![0; 37];
            stream.fill_below(11, 2, bound, &mut many);
            for (i, draw) in many.iter().enumerate() {
                let one = stream.below(11, 2, i as u32, bound.into());
                assert_eq!(u64::from(*draw), one, "{bound} {i}");
            }
        }
    }

    #[test]
    fn many_words_are_those_drawn_one_by_one() {
        let stream = Stream::new(9, 3, Purpose::Dropout);
        let one = |k: usize| stream.words(11, 2, (k / 4) as u32)[k % 4];
        for (first, len) in [(0, 300), (1, 64), (63, 2), (130, 0), (4_294_967_297, 70)] {
            let mut many = vec![0; len];
            stream.fill_words(11, 2, first, &mut many);
            let single: Vec<u32> = (first..first + len).map(one).collect();
            assert_eq!(many, single, "{len} from {first}");
        }
    }

    fn fill<F>(out: &mut [F]) -> Fill<'_, F> {
        Fill { key: [1, 2], counter: [3, 4, 5], first: 0, out }
    }

    fn same_on_every_instruction_set<F: Real>() {
        let mut plain = vec![F::ZERO; 64 * BLOCK];
        fill(&mut plain).with_simd(pulp::Scalar::new());
        let mut detected = vec![F::ZERO; 64 * BLOCK];
        pulp::Arch::new().dispatch(fill(&mut detected));
        assert_eq!(plain, detected);
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = pulp::x86::V3::try_new() {
            let mut narrow = vec![F::ZERO; 64 * BLOCK];
            Simd::vectorize(avx2, fill(&mut narrow));
            assert_eq!(plain, narrow);
        }
    }

    #[test]
    fn normal_deviates_have_the_same_bits_on_every_instruction_set() {
        same_on_every_instruction_set::<f32>();
        same_on_every_instruction_set::<f64>();
    }

    /// Moments and the distance to the normal law over a million deviates; a z above 6 has a chance
    /// below 2e-9, the Kolmogorov bound one of 2 exp(-2 * 3^2) = 3e-8.
    fn check_law<F: Real>(transform: impl Fn(f64) -> f64) -> Result<(), String> {
        let n = 1 << 20;
        let mut z = vec![F::ZERO; n];
        Stream::new(20_160_509, 3, Purpose::Dynamics).normals(17, 2, 0, &mut z);
        let mut z: Vec<f64> = z.into_iter().map(|x| transform(x.to_f64())).collect();
        let mean_power = |k: i32| z.iter().map(|x| x.powi(k)).sum::<f64>() / n as f64;
        // Variances of the k-th powers of a standard normal.
        for (k, expected, variance) in
            [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0), (6, 15.0, 10_170.0)]
        {
            let score = (mean_power(k) - expected) / (f64::sqrt(variance / n as f64));
            if score.abs() > 6.0 {
                return Err(format!("moment {k}: z = {score}"));
            }
        }
        z.sort_by(f64::total_cmp);
        let distance = z
            .iter()
            .enumerate()
            .map(|(i, x)| (crate::stats::normal_cdf(*x) - (i as f64 + 0.5) / n as f64).abs())
            .fold(0.0, f64::max);
        if distance * (n as f64).sqrt() > 3.0 {
            return Err(format!("Kolmogorov distance {distance}"));
        }
        Ok(())
    }

    #[test]
    fn deviates_follow_the_normal_law() {
        check_law::<f32>(|x| x).unwrap();
        check_law::<f64>(|x| x).unwrap();
    }

    #[test]
    fn the_check_of_the_law_refuses_impostors() {
        check_law::<f64>(|x| x * 1.005).unwrap_err();
        check_law::<f64>(|x| x + 0.007).unwrap_err();
        check_law::<f64>(|x| x.abs()).unwrap_err();
        check_law::<f64>(|x| x.signum()).unwrap_err();
    }

    #[test]
    fn neighbouring_streams_are_uncorrelated() {
        let n = 1 << 16;
        let draw = |seed, chain, purpose, step, segment| {
            let mut z = vec![0.0f64; n];
            Stream::new(seed, chain, purpose).normals(step, segment, 0, &mut z);
            z
        };
        let base = draw(1, 0, Purpose::Dynamics, 1, 0);
        for (what, other) in [
            ("seed", draw(2, 0, Purpose::Dynamics, 1, 0)),
            ("high seed", draw(1 + (1 << 40), 0, Purpose::Dynamics, 1, 0)),
            ("chain", draw(1, 1, Purpose::Dynamics, 1, 0)),
            ("purpose", draw(1, 0, Purpose::Initialisation, 1, 0)),
            ("step", draw(1, 0, Purpose::Dynamics, 2, 0)),
            ("high step", draw(1, 0, Purpose::Dynamics, 1 + (1 << 33), 0)),
            ("segment", draw(1, 0, Purpose::Dynamics, 1, 1)),
        ] {
            let score: f64 =
                base.iter().zip(&other).map(|(a, b)| a * b).sum::<f64>() / (n as f64).sqrt();
            assert!(score.abs() < 6.0, "{what}: z = {score}");
        }
        let shifted: f64 = base.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / (n as f64).sqrt();
        assert!(shifted.abs() < 6.0);
    }

    /// Seeded numbers are part of the interface: a change here is a breaking one.
    #[test]
    fn deviates_are_stable_across_versions() {
        let stream = Stream::new(42, 0, Purpose::Dynamics);
        let mut z = [0.0f32; 1000];
        stream.normals(1, 0, 0, &mut z);
        let mut w = [0.0f64; 1000];
        stream.normals(1, 0, 0, &mut w);
        let mix =
            |sum: u64, bits: u64| (sum.rotate_left(5) ^ bits).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let narrow = z.iter().fold(0, |sum, x| mix(sum, u64::from(x.to_bits())));
        let wide = w.iter().fold(0, |sum, x| mix(sum, x.to_bits()));
        assert_eq!((narrow, wide), GOLDEN, "{narrow:#x} {wide:#x}");
    }
    const GOLDEN: (u64, u64) = (0x80e7_e9ac_1174_ef33, 0xfea3_ce27_13ad_99cc);
}
