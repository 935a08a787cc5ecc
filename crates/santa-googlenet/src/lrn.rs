//! Local response normalisation across channels.

use burn::nn::{LocalResponseNorm, LocalResponseNormConfig};

/// Channels of the window.
const SIZE: usize = 5;
const ALPHA: f64 = 1e-4;
const BETA: f64 = 0.75;
/// Caffe's default; AlexNet's publication has 2.
const K: f64 = 1.0;

/// The normalisation of `bvlc_googlenet`, in Caffe's convention that $\alpha$ is divided by the
/// size of the window even at its edges:
///
/// $$ y_c = x_c \Bigl(k + \frac{\alpha}{n} \sum_{|c' - c| \le n / 2} x_{c'}^2\Bigr)^{-\beta},
/// \qquad n = 5,\ \alpha = 10^{-4},\ \beta = 0.75,\ k = 1. $$
pub fn local_response_norm() -> LocalResponseNorm {
    LocalResponseNormConfig::new(SIZE).with_alpha(ALPHA).with_beta(BETA).with_k(K).init()
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData};
    use santa::noise::{Purpose, Stream};

    use super::*;

    const SHAPE: [usize; 4] = [2, 7, 3, 2];

    /// Values as large as activations of images without scaling, so that the window matters.
    fn values() -> Vec<f32> {
        let mut values = vec![0.0f32; SHAPE.iter().product()];
        Stream::new(1, 0, Purpose::Data).normals(0, 0, 0, &mut values);
        values.iter().map(|x| 200.0 * x).collect()
    }

    /// Straight from the formula, in double precision.
    fn reference(x: &[f32]) -> Vec<f64> {
        let [_, channels, height, width] = SHAPE;
        let plane = height * width;
        (0..x.len())
            .map(|i| {
                let channel = i / plane % channels;
                let window = channel.saturating_sub(2)..(channel + 3).min(channels);
                let squares: f64 = window
                    .map(|other| f64::from(x[i + other * plane - channel * plane]).powi(2))
                    .sum();
                f64::from(x[i]) * (1.0 + 1e-4 / 5.0 * squares).powf(-0.75)
            })
            .collect()
    }

    #[test]
    fn agrees_with_the_formula() {
        let x = values();
        let input = Tensor::<4>::from_data(TensorData::new(x.clone(), SHAPE), &Device::flex());
        let output: Vec<f32> = local_response_norm().forward(input).try_into_vec_as().unwrap();
        for (found, expected) in output.iter().zip(reference(&x)) {
            assert!(
                (f64::from(*found) - expected).abs() < 1e-5 * expected.abs().max(1.0),
                "{found} {expected}"
            );
        }
    }

    #[test]
    fn its_gradient_agrees_with_finite_differences_of_the_formula() {
        let x = values();
        let device = Device::flex().autodiff();
        let input =
            Tensor::<4>::from_data(TensorData::new(x.clone(), SHAPE), &device).require_grad();
        let mut weights = vec![0.0f32; x.len()];
        Stream::new(2, 0, Purpose::Data).normals(0, 0, 0, &mut weights);
        let weighted = local_response_norm().forward(input.clone())
            * Tensor::from_data(TensorData::new(weights.clone(), SHAPE), &device);
        let gradients = weighted.sum().backward();
        let gradient: Vec<f32> = input.grad(&gradients).unwrap().try_into_vec_as().unwrap();

        let loss = |x: &[f32]| -> f64 {
            reference(x).iter().zip(&weights).map(|(y, w)| y * f64::from(*w)).sum()
        };
        // A power of two: the shifted values differ by exactly twice of it.
        let h = 0.0625f32;
        for i in 0..x.len() {
            let mut shifted = x.clone();
            shifted[i] = x[i] + h;
            let above = (loss(&shifted), shifted[i]);
            shifted[i] = x[i] - h;
            let below = (loss(&shifted), shifted[i]);
            let expected = (above.0 - below.0) / f64::from(above.1 - below.1);
            assert!(
                (f64::from(gradient[i]) - expected).abs() < 1e-4,
                "element {i}: {} {expected}",
                gradient[i]
            );
        }
    }
}
