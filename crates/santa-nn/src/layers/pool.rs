//! Pooling: one element for each window of a channel.
//!
//! - Maximum. Of equal elements the first counts, row by row; a NaN is a maximum.
//! - Stochastic (Zeiler and Fergus, 2013): while training, element i of a window is drawn with
//!   probability $p_i = a_i / \sum_j a_j$; at prediction the output is $\sum_i p_i a_i$. For
//!   activations that are not negative: what is below zero counts as zero, and a window of zeros
//!   gives zero.
//!
//! Windows that reach over the edge are left out; there is no padding.

use super::conv2d::{Image, Window};
use super::{Layer, Pass, Sizes};
use crate::kernels::Scalar;
use pulp::{Arch, Simd, WithSimd};

/// How a window becomes one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// Its maximum.
    Max,
    /// An element drawn in proportion to its size.
    Stochastic {
        /// The layer's coordinate among the random numbers of the network.
        segment: u32,
    },
}

/// A pooling layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool2d {
    input: Image,
    window: Window,
    output: Image,
    pooling: Pooling,
}

impl Pool2d {
    /// A layer on images of this size; `None` if no window fits, or if the window is padded.
    pub fn new(input: Image, window: Window, pooling: Pooling) -> Option<Self> {
        let output = window.output(input, input.channels)?;
        (window.padding == [0, 0]).then_some(Pool2d { input, window, output, pooling })
    }

    /// The size of the pooled image.
    #[cfg(test)]
    pub fn output(&self) -> Image {
        self.output
    }

    /// The activations of a window, those below zero as zero, each with its index in the image.
    fn activations<'a, F: Scalar>(
        &'a self,
        image: &'a [F],
        pooled: usize,
    ) -> impl Iterator<Item = (usize, F)> + Clone + 'a {
        let Image { width, channels, .. } = self.output;
        let (pixel, channel) = (pooled / channels, pooled % channels);
        let (top, left) =
            (pixel / width * self.window.stride[0], pixel % width * self.window.stride[1]);
        let [rows, columns] = self.window.size;
        (0..rows * columns).map(move |e| {
            let (row, column) = (top + e / columns, left + e % columns);
            let at = row * self.input.row() + column * channels + channel;
            // A NaN stays one.
            (at, if image[at] < F::ZERO { F::ZERO } else { image[at] })
        })
    }

    /// Draws an element for each window; `kept` says which, or the window's size for none.
    fn draw<F: Scalar>(
        &self,
        (pass, segment, example): (&Pass, u32, usize),
        image: &[F],
        output: &mut [F],
        kept: &mut [F],
    ) {
        /// Random words of a draw.
        const WORDS: usize = 4;
        /// One more than the largest word.
        const RANGE: f64 = 4_294_967_296.0;
        let none = F::from_f64((self.window.size[0] * self.window.size[1]) as f64);
        let first = (pass.first + example) * output.len();
        let mut words = [0; WORDS];
        for pooled in 0..output.len() {
            let number = first + pooled;
            if pooled == 0 || number.is_multiple_of(WORDS) {
                words = pass.stream.words(pass.step, segment, (number / WORDS) as u32);
            }
            let uniform = F::from_f64(f64::from(words[number % WORDS]) / RANGE);
            let activations = self.activations(image, pooled);
            let total = activations.clone().fold(F::ZERO, |sum, (_, a)| sum + a);
            if !total.is_finite() {
                (output[pooled], kept[pooled]) = (total, none);
                continue;
            }
            let threshold = uniform * total;
            let mut sum = F::ZERO;
            (output[pooled], kept[pooled]) = (F::ZERO, none);
            for (element, (_, a)) in activations.enumerate() {
                sum += a;
                // Rounding may put the threshold at the sum: the last element above zero is then it.
                if a > F::ZERO {
                    (output[pooled], kept[pooled]) = (a, F::from_f64(element as f64));
                    if sum > threshold {
                        break;
                    }
                }
            }
        }
    }

    /// $s = \sum_i a_i^2 / \sum_i a_i$ for each window.
    fn average<F: Scalar>(&self, image: &[F], output: &mut [F]) {
        for (pooled, output) in output.iter_mut().enumerate() {
            let (sum, squares) = self
                .activations(image, pooled)
                .fold((F::ZERO, F::ZERO), |(sum, squares), (_, a)| (sum + a, a.fma(a, squares)));
            *output = if sum == F::ZERO { F::ZERO } else { squares / sum };
        }
    }

    /// $\partial s / \partial a_i = (2 a_i - s) / \sum_j a_j$ for positive $a_i$.
    fn average_backward<F: Scalar>(
        &self,
        image: &[F],
        output: &[F],
        d_output: &[F],
        d_image: &mut [F],
    ) {
        for (pooled, (s, d)) in output.iter().zip(d_output).enumerate() {
            let activations = self.activations(image, pooled);
            let sum = activations.clone().fold(F::ZERO, |sum, (_, a)| sum + a);
            for (at, a) in activations.filter(|(_, a)| *a > F::ZERO) {
                d_image[at] += *d * (a + a - *s) / sum;
            }
        }
    }
}

impl<F: Scalar> Layer<F> for Pool2d {
    fn sizes(&self, _: usize) -> Sizes {
        let output = self.output.len();
        Sizes { input: self.input.len(), output, kept: output, ..Sizes::default() }
    }

    fn forward(
        &self,
        pass: &Pass,
        _: &[F],
        _: &[F],
        input: &[F],
        output: &mut [F],
        kept: &mut [F],
        _: &mut [F],
    ) {
        let images = input.chunks_exact(self.input.len());
        let outputs = output.chunks_exact_mut(self.output.len());
        let kept = kept.chunks_exact_mut(self.output.len());
        for (example, ((image, output), kept)) in images.zip(outputs).zip(kept).enumerate() {
            match self.pooling {
                Pooling::Max => {
                    let map =
                        Map { image: self.output, window: self.window, row: self.input.row() };
                    map.pool(image, output, kept);
                }
                Pooling::Stochastic { segment } if pass.training => {
                    self.draw((pass, segment, example), image, output, kept);
                }
                Pooling::Stochastic { .. } => self.average(image, output),
            }
        }
    }

    fn backward(
        &self,
        pass: &Pass,
        _: &[F],
        _: &[F],
        input: &[F],
        output: &[F],
        kept: &[F],
        d_output: &mut [F],
        d_input: Option<&mut [F]>,
        _: &mut [F],
        _: &mut [F],
    ) {
        let Some(d_input) = d_input else { return };
        d_input.fill(F::ZERO);
        let (whole, pooled) = (self.input.len(), self.output.len());
        let averaged = self.pooling != Pooling::Max && !pass.training;
        for (example, d_image) in d_input.chunks_exact_mut(whole).enumerate() {
            let of = example * pooled..(example + 1) * pooled;
            let d_output = &d_output[of.clone()];
            if averaged {
                let image = &input[example * whole..][..whole];
                self.average_backward(image, &output[of], d_output, d_image);
            } else {
                let map = Map { image: self.output, window: self.window, row: self.input.row() };
                map.spread(&kept[of], d_output, d_image);
            }
        }
    }
}

/// The windows of one map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map {
    /// The pooled image.
    pub image: Image,
    pub window: Window,
    /// Elements from one row of the map to the next.
    pub row: usize,
}

impl Map {
    /// The maximum of each window, and its position there.
    pub fn pool<F: Scalar>(self, map: &[F], output: &mut [F], positions: &mut [F]) {
        Arch::new().dispatch(Maxima { windows: self, map, output, positions });
    }

    /// Adds each element's derivative to that of its position in the map.
    pub fn spread<F: Scalar>(self, positions: &[F], d_output: &[F], d_map: &mut [F]) {
        Arch::new().dispatch(Spread { windows: self, positions, d_output, d_map });
    }

    /// For each vector of the pooled image: where it begins there, where its window begins in the
    /// map, and its width.
    #[inline(always)]
    fn each_vector(self, lanes: usize, mut visit: impl FnMut(usize, usize, usize)) {
        let Image { height, width, channels } = self.image;
        for y in 0..height {
            for x in 0..width {
                let (pooled, corner) = (
                    (y * width + x) * channels,
                    y * self.window.stride[0] * self.row + x * self.window.stride[1] * channels,
                );
                for c in (0..channels).step_by(lanes) {
                    visit(pooled + c, corner + c, lanes.min(channels - c));
                }
            }
        }
    }

    /// For each element of a window: its number, and how far it lies from the window's corner.
    #[inline(always)]
    fn each_element(self, mut visit: impl FnMut(usize, usize)) {
        let [rows, columns] = self.window.size;
        for i in 0..rows {
            for j in 0..columns {
                visit(i * columns + j, i * self.row + j * self.image.channels);
            }
        }
    }
}

#[inline(always)]
fn load<F: Scalar, S: Simd>(simd: S, slice: &[F], width: usize) -> F::Vector<S> {
    match F::vectors::<S>(&slice[..width]).0 {
        [whole, ..] => *whole,
        [] => F::load_part(simd, &slice[..width]),
    }
}

#[inline(always)]
fn store<F: Scalar, S: Simd>(simd: S, slice: &mut [F], width: usize, x: F::Vector<S>) {
    if width == F::lanes::<S>() {
        F::vectors_mut::<S>(&mut slice[..width]).0[0] = x;
    } else {
        F::store_part(simd, &mut slice[..width], x);
    }
}

struct Maxima<'a, F> {
    windows: Map,
    map: &'a [F],
    output: &'a mut [F],
    positions: &'a mut [F],
}

impl<F: Scalar> WithSimd for Maxima<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Maxima { windows, map, output, positions } = self;
        windows.each_vector(
            F::lanes::<S>(),
            #[inline(always)]
            |pooled, corner, width| {
                let mut best = load(simd, &map[corner..], width);
                let mut position = F::splat(simd, F::ZERO);
                windows.each_element(
                    #[inline(always)]
                    |element, offset| {
                        let x = load(simd, &map[corner + offset..], width);
                        let here = F::splat(simd, F::from_f64(element as f64));
                        position = F::where_above(simd, x, best, here, position);
                        best = F::where_above(simd, x, best, x, best);
                    },
                );
                store(simd, &mut output[pooled..], width, best);
                store(simd, &mut positions[pooled..], width, position);
            },
        );
    }
}

struct Spread<'a, F> {
    windows: Map,
    positions: &'a [F],
    d_output: &'a [F],
    d_map: &'a mut [F],
}

impl<F: Scalar> WithSimd for Spread<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Spread { windows, positions, d_output, d_map } = self;
        let zero = F::splat(simd, F::ZERO);
        windows.each_vector(
            F::lanes::<S>(),
            #[inline(always)]
            |pooled, corner, width| {
                let position = load(simd, &positions[pooled..], width);
                let d = load(simd, &d_output[pooled..], width);
                windows.each_element(
                    #[inline(always)]
                    |element, offset| {
                        let here = F::splat(simd, F::from_f64(element as f64));
                        let d = F::where_equal(simd, position, here, d, zero);
                        let d_map = &mut d_map[corner + offset..];
                        let sum = F::plus(simd, load(simd, d_map, width), d);
                        store(simd, d_map, width, sum);
                    },
                );
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::conv2d::testing::{derivatives_match, normals, run, training};
    use super::*;

    const IMAGE: Image = Image { height: 7, width: 6, channels: 3 };
    const EXAMPLES: usize = 4;

    fn windows() -> [Window; 4] {
        [([2, 2], [2, 2]), ([3, 3], [2, 2]), ([1, 2], [3, 1]), ([7, 6], [1, 1])]
            .map(|(size, stride)| Window { size, stride, padding: [0, 0] })
    }

    /// Distinct numbers, a few below zero.
    fn activations() -> Vec<f64> {
        normals::<f64>(EXAMPLES * IMAGE.len(), 0).into_iter().map(|x| x + 0.7).collect()
    }

    fn forward(pool: &Pool2d, pass: Pass, in_shard: usize, input: &[f64]) -> Vec<f64> {
        let w = vec![1.0; input.len() / IMAGE.len() * pool.output().len()];
        run(pool, pass, in_shard, &[], input, &w).output
    }

    #[test]
    fn derivatives_match_finite_differences_for_every_pooling() {
        for window in windows() {
            for pooling in [Pooling::Max, Pooling::Stochastic { segment: 4 }] {
                let pool = Pool2d::new(IMAGE, window, pooling).unwrap();
                derivatives_match(&pool, training(), &[], &activations());
                derivatives_match(&pool, Pass::prediction(), &[], &activations());
            }
        }
    }

    #[test]
    fn of_equal_elements_the_first_counts() {
        let image = Image { height: 2, width: 2, channels: 2 };
        let pool = Pool2d::new(image, Window::tiling([2, 2]), Pooling::Max).unwrap();
        let input = [1.0, 0.0, 3.0, 0.0, 3.0, 0.0, 3.0, 0.0];
        let result = run::<f32>(&pool, training(), 1, &[], &input, &[5.0, 7.0]);
        assert_eq!(result.output, [3.0, 0.0]);
        assert_eq!(result.d_input, [0.0, 7.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_nan_is_a_maximum_wherever_it_is() {
        let image = Image { height: 2, width: 2, channels: 1 };
        let pool = Pool2d::new(image, Window::tiling([2, 2]), Pooling::Max).unwrap();
        for at in 0..4 {
            let mut input = [1.0f32, 2.0, 3.0, 4.0];
            input[at] = f32::NAN;
            let result = run(&pool, training(), 1, &[], &input, &[1.0]);
            assert!(result.output[0].is_nan(), "at {at}");
        }
    }

    #[test]
    fn a_window_must_fit_and_has_no_padding() {
        assert!(Pool2d::new(IMAGE, Window::tiling([8, 1]), Pooling::Max).is_none());
        let padded = Window { padding: [1, 0], ..Window::tiling([2, 2]) };
        assert!(Pool2d::new(IMAGE, padded, Pooling::Max).is_none());
    }

    #[test]
    fn draws_do_not_depend_on_the_shards() {
        let pooling = Pooling::Stochastic { segment: 4 };
        for window in windows() {
            let pool = Pool2d::new(IMAGE, window, pooling).unwrap();
            let whole = forward(&pool, training(), EXAMPLES, &activations());
            for in_shard in 1..EXAMPLES {
                assert_eq!(whole, forward(&pool, training(), in_shard, &activations()));
            }
            let other = Pass { step: 8, ..training() };
            assert_ne!(whole, forward(&pool, other, EXAMPLES, &activations()));
        }
    }

    /// How far the counts of a window's elements are from a law, in standard deviations.
    fn worst_score(law: [f64; 4]) -> f64 {
        const DRAWS: usize = 20_000;
        let image = Image { height: 2, width: 2 * DRAWS, channels: 1 };
        // A window has 1, 0 and below them 2, 5.
        let rows = [[1.0, 0.0].repeat(DRAWS), [2.0, 5.0].repeat(DRAWS)].concat();
        let pooling = Pooling::Stochastic { segment: 4 };
        let pool = Pool2d::new(image, Window::tiling([2, 2]), pooling).unwrap();
        let drawn = run(&pool, training(), 1, &[], &rows, &vec![1.0; DRAWS]).output;
        let mut worst: f64 = 0.0;
        for (value, p) in [1.0, 0.0, 2.0, 5.0].into_iter().zip(law) {
            let count = drawn.iter().filter(|x| **x == value).count() as f64;
            let deviation = (DRAWS as f64 * p * (1.0 - p)).sqrt().max(1e-3);
            worst = worst.max((count - DRAWS as f64 * p).abs() / deviation);
        }
        worst
    }

    #[test]
    fn elements_are_drawn_in_proportion_to_their_size() {
        // A score above 6 has a chance below 2e-9.
        assert!(worst_score([0.125, 0.0, 0.25, 0.625]) < 6.0);
    }

    #[test]
    fn the_check_of_the_draws_refuses_another_law() {
        assert!(worst_score([0.15, 0.0, 0.25, 0.6]) > 6.0);
        assert!(worst_score([0.125, 0.01, 0.25, 0.615]) > 6.0);
    }

    #[test]
    fn a_window_of_zeros_gives_zero_and_passes_nothing_back() {
        let pooling = Pooling::Stochastic { segment: 4 };
        let pool = Pool2d::new(IMAGE, Window::tiling([2, 2]), pooling).unwrap();
        let w = vec![1.0; pool.output().len()];
        for pass in [training(), Pass::prediction()] {
            let result = run(&pool, pass, 1, &[], &vec![0.0; IMAGE.len()], &w);
            assert!(result.output.iter().chain(&result.d_input).all(|x| *x == 0.0));
        }
    }
}
