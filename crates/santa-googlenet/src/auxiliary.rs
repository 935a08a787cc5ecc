//! The auxiliary classifiers, which carry gradients into the middle of the network.

use burn::module::Module;
use burn::nn::Linear;
use burn::nn::conv::Conv2d;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::module::avg_pool2d;
use burn::tensor::ops::AvgPoolOptions;

use crate::dropout::Dropout;
use crate::filler::{CLASSIFIER_BIAS, Filler, RECTIFIED_BIAS};

/// Side of the average.
const POOL: usize = 5;
const POOL_STRIDE: usize = 3;
/// Share of the hidden units that training leaves out.
pub const AUXILIARY_DROPOUT: f64 = 0.7;
/// Weight of each auxiliary loss beside the main one.
pub const AUXILIARY_WEIGHT: f64 = 0.3;

/// An average over 5×5 at stride 3, a 1×1 convolution with 128 channels, 1024 hidden units, a
/// classifier. Training alone uses it.
///
/// Inputs narrower than 5 are averaged whole, so that small images work, too. At the published
/// input of 14×14 the average has 4×4 values, as published.
#[derive(Module, Debug)]
pub struct Auxiliary {
    conv: Conv2d,
    fc: Linear,
    classifier: Linear,
}

/// Sizes of an [`Auxiliary`] classifier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuxiliarySizes {
    /// Channels and side of the input.
    pub inputs: usize,
    pub side: usize,
    pub conv: usize,
    pub hidden: usize,
    pub classes: usize,
}

/// Side of the average's output.
fn pooled(side: usize) -> usize {
    side.saturating_sub(POOL) / POOL_STRIDE + 1
}

impl Auxiliary {
    pub(crate) fn new(sizes: AuxiliarySizes, filler: &mut Filler) -> Self {
        let features = sizes.conv * pooled(sizes.side).pow(2);
        Auxiliary {
            conv: filler.conv([sizes.inputs, sizes.conv], 1, 1),
            fc: filler.linear([features, sizes.hidden], RECTIFIED_BIAS),
            classifier: filler.linear([sizes.hidden, sizes.classes], CLASSIFIER_BIAS),
        }
    }

    /// Logits of the classes.
    pub fn forward(&self, input: Tensor<4>, dropout: &Dropout) -> Tensor<2> {
        let [_, _, height, width] = input.dims();
        let pool = AvgPoolOptions::new([height.min(POOL), width.min(POOL)])
            .with_stride([POOL_STRIDE, POOL_STRIDE]);
        let x = relu(self.conv.forward(avg_pool2d(input, pool)));
        let x = relu(self.fc.forward(x.flatten::<2>(1, 3)));
        self.classifier.forward(dropout.apply(x, AUXILIARY_DROPOUT))
    }
}
