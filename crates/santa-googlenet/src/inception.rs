//! The inception module: four views of one input, side by side.

use burn::module::Module;
use burn::nn::conv::Conv2d;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::module::max_pool2d;
use burn::tensor::ops::MaxPoolOptions;

use crate::filler::Filler;

/// Channels of the parts of an [`Inception`] module: the columns of the publication's table 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// The 1×1 convolution.
    pub conv1x1: usize,
    /// The 1×1 convolution before the 3×3 one.
    pub conv3x3_reduce: usize,
    /// The 3×3 convolution.
    pub conv3x3: usize,
    /// The 1×1 convolution before the 5×5 one.
    pub conv5x5_reduce: usize,
    /// The 5×5 convolution.
    pub conv5x5: usize,
    /// The 1×1 convolution after the maximum.
    pub pool_proj: usize,
}

impl Channels {
    /// Channels of the output.
    pub fn total(&self) -> usize {
        self.conv1x1 + self.conv3x3 + self.conv5x5 + self.pool_proj
    }
}

/// A 1×1, a 3×3 and a 5×5 convolution and a 3×3 maximum of the same input, their channels
/// concatenated; 1×1 convolutions keep the larger ones small.
#[derive(Module, Debug)]
pub struct Inception {
    conv1x1: Conv2d,
    conv3x3_reduce: Conv2d,
    conv3x3: Conv2d,
    conv5x5_reduce: Conv2d,
    conv5x5: Conv2d,
    pool_proj: Conv2d,
}

impl Inception {
    pub(crate) fn new(inputs: usize, channels: Channels, filler: &mut Filler) -> Self {
        let c = channels;
        Inception {
            conv1x1: filler.conv([inputs, c.conv1x1], 1, 1),
            conv3x3_reduce: filler.conv([inputs, c.conv3x3_reduce], 1, 1),
            conv3x3: filler.conv([c.conv3x3_reduce, c.conv3x3], 3, 1),
            conv5x5_reduce: filler.conv([inputs, c.conv5x5_reduce], 1, 1),
            conv5x5: filler.conv([c.conv5x5_reduce, c.conv5x5], 5, 1),
            pool_proj: filler.conv([inputs, c.pool_proj], 1, 1),
        }
    }

    /// The module's output: of the input's size, with [`Channels::total`] channels.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let conv1x1 = relu(self.conv1x1.forward(input.clone()));
        let conv3x3 = relu(self.conv3x3_reduce.forward(input.clone()));
        let conv3x3 = relu(self.conv3x3.forward(conv3x3));
        let conv5x5 = relu(self.conv5x5_reduce.forward(input.clone()));
        let conv5x5 = relu(self.conv5x5.forward(conv5x5));
        let pool = MaxPoolOptions::new([3, 3]).with_stride([1, 1]).with_padding([1, 1]);
        let pool = relu(self.pool_proj.forward(max_pool2d(input, pool)));
        Tensor::cat(vec![conv1x1, conv3x3, conv5x5, pool], 1)
    }
}

#[cfg(test)]
mod tests {
    use burn::module::{ModuleMapper, Param};
    use burn::optim::GradientsParams;
    use burn::tensor::{Device, TensorData};
    use santa::noise::{Purpose, Stream};

    use super::*;

    const INPUT: [usize; 4] = [2, 3, 6, 6];
    const CHANNELS: Channels = Channels {
        conv1x1: 2,
        conv3x3_reduce: 3,
        conv3x3: 4,
        conv5x5_reduce: 2,
        conv5x5: 3,
        pool_proj: 2,
    };

    fn normals(stream: u64, count: usize) -> Vec<f32> {
        let mut values = vec![0.0; count];
        Stream::new(stream, 0, Purpose::Data).normals(0, 0, 0, &mut values);
        values
    }

    /// A random weighted sum of the outputs, summed in double precision.
    fn loss(module: &Inception, input: &[f32]) -> f64 {
        let input = Tensor::from_data(TensorData::new(input.to_vec(), INPUT), &Device::flex());
        let output: Vec<f32> = module.valid().forward(input).try_into_vec_as().unwrap();
        let weights = normals(2, output.len());
        output.iter().zip(weights).map(|(y, w)| f64::from(*y) * f64::from(w)).sum()
    }

    /// Moves one parameter tensor along a random direction, and sums the gradient along it.
    struct Along<'a> {
        parameter: u64,
        by: f32,
        gradients: &'a GradientsParams,
        slope: f64,
    }

    impl ModuleMapper for Along<'_> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            if param.id.val() != self.parameter {
                return param;
            }
            let direction = normals(3 + self.parameter, param.dims().iter().product());
            let gradient: Vec<f32> =
                self.gradients.get::<D>(param.id).unwrap().try_into_vec_as().unwrap();
            let terms = gradient.iter().zip(&direction);
            self.slope += terms.map(|(g, d)| f64::from(*g) * f64::from(*d)).sum::<f64>();
            let by = self.by;
            param.map(|tensor| {
                let direction = TensorData::new(direction, tensor.dims());
                let direction = Tensor::from_data(direction, &tensor.device());
                (tensor + direction * by).detach().require_grad()
            })
        }
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let device = Device::flex().autodiff();
        let module = Inception::new(INPUT[1], CHANNELS, &mut Filler::new(1, &device));
        let x = normals(1, INPUT.iter().product());
        let input = Tensor::from_data(TensorData::new(x.clone(), INPUT), &device).require_grad();
        let output = module.forward(input.clone());
        assert_eq!(output.dims(), [INPUT[0], CHANNELS.total(), INPUT[2], INPUT[3]]);
        let weights = TensorData::new(normals(2, output.dims().iter().product()), output.dims());
        let mut gradients = (output * Tensor::from_data(weights, &device)).sum().backward();
        let of_input: Vec<f32> = input.grad(&gradients).unwrap().try_into_vec_as().unwrap();
        let of_parameters = GradientsParams::from_module(&mut gradients, &module);

        // Between the kinks of its rectifiers and maxima the module is linear in its input and in each
        // of its parameter tensors. A kink may be near on one side, and the slope is that of the
        // other one.
        let h = 1e-3f32;
        let here = loss(&module, &x);
        let check = |what: String, found: f64, right: f64, left: f64| {
            let off = (found - right).abs().min((found - left).abs());
            assert!(off < 5e-3 * found.abs().max(1.0), "{what}: {found}, not {left} or {right}");
        };
        for i in 0..x.len() {
            let slope = |by: f32| {
                let mut shifted = x.clone();
                shifted[i] += by;
                (loss(&module, &shifted) - here) / f64::from(shifted[i] - x[i])
            };
            check(format!("input {i}"), f64::from(of_input[i]), slope(h), slope(-h));
        }
        // Six convolutions with a weight and a bias each.
        for parameter in 0..12 {
            let slope = |by: f32| {
                let mut along = Along { parameter, by, gradients: &of_parameters, slope: 0.0 };
                let module = module.clone().map(&mut along);
                ((loss(&module, &x) - here) / f64::from(by), along.slope)
            };
            let ((right, found), (left, _)) = (slope(h), slope(-h));
            check(format!("parameter {parameter}"), found, right, left);
        }
    }
}
