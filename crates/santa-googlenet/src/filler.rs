//! Initial parameters as Caffe fills them, from a counter-based stream.

use burn::module::{Param, ParamId};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor, TensorData};
use santa::noise::{Purpose, Stream};

/// Bias of every layer that a rectifier follows, as in `bvlc_googlenet`.
pub(crate) const RECTIFIED_BIAS: f32 = 0.2;
/// Bias of the classifiers.
pub(crate) const CLASSIFIER_BIAS: f32 = 0.0;

/// Makes layers with Caffe's "xavier" weights, uniform in $\pm\sqrt{3 / \text{fan-in}}$, and
/// constant biases.
///
/// The numbers depend on the seed and on the order of the layers only, so that a network starts
/// from the same values on every device. Parameters are numbered in this order too: the identifiers
/// by which an optimizer finds its state are the same in every run.
pub(crate) struct Filler<'a> {
    stream: Stream,
    parameters: u32,
    device: &'a Device,
}

impl<'a> Filler<'a> {
    pub(crate) fn new(seed: u64, device: &'a Device) -> Self {
        Filler { stream: Stream::new(seed, 0, Purpose::Initialisation), parameters: 0, device }
    }

    /// A square convolution with zeros around its input, as many as keep the size at stride 1.
    pub(crate) fn conv(
        &mut self,
        [inputs, outputs]: [usize; 2],
        kernel: usize,
        stride: usize,
    ) -> Conv2d {
        let around = kernel / 2;
        let mut conv = Conv2dConfig::new([inputs, outputs], [kernel, kernel])
            .with_stride([stride, stride])
            .with_padding(PaddingConfig2d::Explicit(around, around, around, around))
            .init(self.device);
        conv.weight = self.xavier([outputs, inputs, kernel, kernel], inputs * kernel * kernel);
        conv.bias = Some(self.constant(outputs, RECTIFIED_BIAS));
        conv
    }

    /// A fully connected layer.
    pub(crate) fn linear(&mut self, [inputs, outputs]: [usize; 2], bias: f32) -> Linear {
        let mut linear = LinearConfig::new(inputs, outputs).init(self.device);
        linear.weight = self.xavier([inputs, outputs], inputs);
        linear.bias = Some(self.constant(outputs, bias));
        linear
    }

    fn xavier<const D: usize>(&mut self, shape: [usize; D], fan_in: usize) -> Param<Tensor<D>> {
        let bound = (3.0 / fan_in as f64).sqrt();
        let count: usize = shape.iter().product();
        let segment = self.parameters;
        let values: Vec<f32> = (0..count)
            .map(|i| (bound * (2.0 * self.stream.uniform(0, segment, i as u32) - 1.0)) as f32)
            .collect();
        self.parameter(TensorData::new(values, shape))
    }

    fn constant(&mut self, count: usize, value: f32) -> Param<Tensor<1>> {
        self.parameter(TensorData::new(vec![value; count], [count]))
    }

    fn parameter<const D: usize>(&mut self, data: TensorData) -> Param<Tensor<D>> {
        let id = ParamId::from(u64::from(self.parameters));
        self.parameters += 1;
        let tensor = Tensor::from_data(data, self.device);
        let tensor = if self.device.is_autodiff() { tensor.require_grad() } else { tensor };
        Param::initialized(id, tensor)
    }
}
