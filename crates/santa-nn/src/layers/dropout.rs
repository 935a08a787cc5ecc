//! Dropout.

use super::{Layer, Pass, Sizes};
use crate::kernels::{Scalar, vectorised};

/// Elements whose random words are drawn at a time; they stay in the first-level cache.
const CHUNK: usize = 256;

/// Sets elements to zero with probability `rate` while training and scales the others by
/// `1 / (1 - rate)`, so that prediction changes nothing.
///
/// The mask is a function of seed, chain, step, layer and element: the same one for any number of
/// threads, and again after a resume.
#[derive(Debug)]
pub(crate) struct Dropout {
    rate: f64,
    width: usize,
    /// Index of the layer, for its random numbers.
    segment: u32,
}

impl Dropout {
    pub fn new(rate: f64, width: usize, segment: u32) -> Self {
        Dropout { rate, width, segment }
    }
}

impl<F: Scalar> Layer<F> for Dropout {
    fn sizes(&self, _examples: usize) -> Sizes {
        Sizes { input: self.width, output: self.width, kept: self.width, ..Sizes::default() }
    }

    fn forward(
        &self,
        pass: &Pass,
        _parameters: &[F],
        _shared: &[F],
        input: &[F],
        output: &mut [F],
        kept: &mut [F],
        _scratch: &mut [F],
    ) {
        if !pass.training {
            output.copy_from_slice(input);
            return;
        }
        // The exact probability is a multiple of 2^-32.
        let below = (self.rate * (1u64 << 32) as f64) as u32;
        let scale = F::from_f64(1.0 / (1.0 - self.rate));
        let mut words = [0; CHUNK];
        let mut first = pass.first * self.width;
        let output = output.chunks_mut(CHUNK);
        for ((x, y), mask) in input.chunks(CHUNK).zip(output).zip(kept.chunks_mut(CHUNK)) {
            let words = &mut words[..mask.len()];
            pass.stream.fill_words(pass.step, self.segment, first, words);
            vectorised(
                #[inline(always)]
                || {
                    for (((x, y), mask), word) in x.iter().zip(&mut *y).zip(&mut *mask).zip(&*words)
                    {
                        *mask = if *word < below { F::ZERO } else { scale };
                        *y = *x * *mask;
                    }
                },
            );
            first += mask.len();
        }
    }

    fn backward(
        &self,
        pass: &Pass,
        _parameters: &[F],
        _shared: &[F],
        _input: &[F],
        _output: &[F],
        kept: &[F],
        d_output: &mut [F],
        d_input: Option<&mut [F]>,
        _partial: &mut [F],
        _scratch: &mut [F],
    ) {
        match d_input {
            Some(d_input) if pass.training => multiply(d_output, kept, d_input),
            Some(d_input) => d_input.copy_from_slice(d_output),
            None => (),
        }
    }
}

fn multiply<F: Scalar>(a: &[F], b: &[F], product: &mut [F]) {
    vectorised(
        #[inline(always)]
        || {
            for (product, (a, b)) in product.iter_mut().zip(a.iter().zip(b)) {
                *product = *a * *b;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    const WIDTH: usize = 7;

    fn masks(rate: f64, first: usize, examples: usize, step: u64) -> Vec<f64> {
        let stream = Stream::new(1, 0, Purpose::Dropout);
        let pass = Pass { training: true, stream, step, first };
        let (ones, mut output) = (vec![1.0; examples * WIDTH], vec![0.0; examples * WIDTH]);
        let mut kept = vec![0.0; examples * WIDTH];
        let layer = Dropout::new(rate, WIDTH, 3);
        layer.forward(&pass, &[], &[], &ones, &mut output, &mut kept, &mut []);
        let mut back = vec![0.0; examples * WIDTH];
        let (d, x) = (&mut ones.clone()[..], Some(&mut back[..]));
        layer.backward(&pass, &[], &[], &ones, &output, &kept, d, x, &mut [], &mut []);
        assert_eq!(output, back, "the derivative has the mask of the forward pass");
        output
    }

    #[test]
    fn a_shard_draws_what_the_whole_batch_would() {
        let whole = masks(0.5, 0, 20, 9);
        for first in 0..20 {
            assert_eq!(masks(0.5, first, 20 - first, 9), whole[first * WIDTH..]);
        }
        assert_ne!(masks(0.5, 0, 20, 10), whole);
    }

    #[test]
    fn the_share_of_zeros_is_the_rate_and_the_mean_stays() {
        const EXAMPLES: usize = 20_000;
        let n = (EXAMPLES * WIDTH) as f64;
        for rate in [0.2, 0.5, 0.9] {
            let mask = masks(rate, 0, EXAMPLES, 1);
            let zeros = mask.iter().filter(|m| **m == 0.0).count() as f64 / n;
            // Six standard errors of a binomial share.
            assert!((zeros - rate).abs() < 6.0 * (rate * (1.0 - rate) / n).sqrt());
            assert!(mask.iter().all(|m| *m == 0.0 || *m == 1.0 / (1.0 - rate)));
        }
    }
}
