//! Dropout whose masks are a function of the seed, the layer and the sample.

use burn::tensor::{Tensor, TensorData};
use santa::noise::{Purpose, Stream};

/// Masks of one layer for consecutive samples of a run.
///
/// A sample's mask does not depend on the device, on the batch it is in, or on what was drawn
/// before: a resumed run and a batch that is split over devices see the same masks.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    stream: Stream,
    layer: u32,
    first: u64,
}

impl Dropout {
    /// The masks of a layer for the samples from number `first` of the run on.
    pub fn new(seed: u64, layer: u32, first: u64) -> Self {
        Dropout { stream: Stream::new(seed, 0, Purpose::Dropout), layer, first }
    }

    /// Sets each value to 0 with probability `share` and divides the others by 1 - `share`.
    pub fn apply(&self, input: Tensor<2>, share: f64) -> Tensor<2> {
        let shape @ [samples, units] = input.dims();
        let below = (share * 2f64.powi(32)) as u32;
        let kept = (1.0 / (1.0 - share)) as f32;
        let mut mask = Vec::with_capacity(samples * units);
        let mut words = vec![0; units];
        for sample in 0..samples {
            self.stream.fill_words(self.first + sample as u64, self.layer, 0, &mut words);
            mask.extend(words.iter().map(|word| if *word < below { 0.0 } else { kept }));
        }
        let mask = Tensor::from_data(TensorData::new(mask, shape), &input.device());
        input * mask
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    fn mask(first: u64, samples: usize) -> Vec<f32> {
        let ones = Tensor::<2>::ones([samples, 1000], &Device::flex());
        Dropout::new(7, 1, first).apply(ones, 0.7).try_into_vec_as().unwrap()
    }

    #[test]
    fn a_mask_belongs_to_its_sample() {
        let whole = mask(10, 4);
        assert_eq!(whole[..2000], mask(10, 2));
        assert_eq!(whole[2000..], mask(12, 2));
        assert_ne!(mask(10, 1), mask(11, 1));
    }

    #[test]
    fn the_share_is_left_out_and_the_mean_is_kept() {
        let values = mask(0, 100);
        let zeros = values.iter().filter(|x| **x == 0.0).count() as f64 / values.len() as f64;
        // Five standard deviations of a share of 0.7 among 100 000.
        assert!((zeros - 0.7).abs() < 5.0 * (0.7 * 0.3 / 1e5f64).sqrt(), "{zeros}");
        assert!(values.iter().all(|x| *x == 0.0 || (x - 1.0 / 0.3).abs() < 1e-6));
    }
}
