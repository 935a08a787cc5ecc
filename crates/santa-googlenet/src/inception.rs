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
