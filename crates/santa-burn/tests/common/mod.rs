//! A small network, its gradients by number, and every dynamics.
#![allow(dead_code)]

use burn::module::{Module, Param, ParamId};
use burn::nn::Linear;
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor, TensorData};
use santa::dynamics::*;
use santa::noise::{Purpose, Stream};
use santa::{Algorithm, DataSize, Layout, Prior, Rate, StepSize, Target};

/// Inputs, hidden units, outputs.
pub const SIZES: [usize; 3] = [7, 5, 3];
/// Data that the potential is said to have.
pub const N: u64 = 50;
pub const PRIOR: Prior = Prior::Gaussian { precision: 2.0 };

#[derive(Module, Debug)]
pub struct Net {
    pub first: Linear,
    pub second: Linear,
}

impl Net {
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.second.forward(burn::tensor::activation::relu(self.first.forward(x)))
    }
}

pub fn device() -> Device {
    Device::flex().autodiff()
}

/// Names and shapes as Burn has them.
pub fn layout(sizes: [usize; 3]) -> Layout {
    let [a, b, c] = sizes;
    Layout::new([
        ("first.weight", vec![a, b]),
        ("first.bias", vec![b]),
        ("second.weight", vec![b, c]),
        ("second.bias", vec![c]),
    ])
    .unwrap()
}

pub fn target(sizes: [usize; 3]) -> Target {
    Target::new(layout(sizes), DataSize::new(N).unwrap(), PRIOR).unwrap()
}

/// A network with these parameters, in the layout's order.
pub fn net_of(sizes: [usize; 3], theta: &[f32]) -> Net {
    let layout = layout(sizes);
    let of = |i: usize| theta[layout.segments()[i].range()].to_vec();
    let linear = |i: usize, [inputs, outputs]: [usize; 2]| Linear {
        weight: Param::from_data(TensorData::new(of(i), [inputs, outputs]), &device()),
        bias: Some(Param::from_data(TensorData::new(of(i + 1), [outputs]), &device())),
    };
    let [a, b, c] = sizes;
    Net { first: linear(0, [a, b]), second: linear(2, [b, c]) }
}

pub fn theta(net: &Net) -> Vec<f32> {
    let bias = |layer: &Linear| layer.bias.as_ref().unwrap().to_data();
    [net.first.weight.to_data(), bias(&net.first), net.second.weight.to_data(), bias(&net.second)]
        .iter()
        .flat_map(|data| data.as_slice::<f32>().unwrap().to_vec())
        .collect()
}

pub fn bits(theta: &[f32]) -> Vec<u32> {
    theta.iter().map(|x| x.to_bits()).collect()
}

fn normals(segment: u32, step: u64, len: usize) -> Vec<f32> {
    let mut out = vec![0.0; len];
    Stream::new(1, 0, Purpose::Custom(1)).normals(step, segment, 0, &mut out);
    out
}

pub fn start(sizes: [usize; 3]) -> Vec<f32> {
    normals(0, 0, layout(sizes).dim())
}

/// The gradient of step t, as if theta did not matter.
pub fn gradient(sizes: [usize; 3], t: u64) -> Vec<f32> {
    normals(1, t, layout(sizes).dim())
}

/// Such a gradient as Burn hands it over.
pub fn grads(net: &Net, sizes: [usize; 3], flat: &[f32]) -> GradientsParams {
    let layout = layout(sizes);
    let mut grads = GradientsParams::new();
    let of = |i: usize| {
        let segment = &layout.segments()[i];
        TensorData::new(flat[segment.range()].to_vec(), segment.shape().to_vec())
    };
    let mut register = |i: usize, layer: &Linear| {
        grads.register(layer.weight.id, plain::<2>(of(i)));
        grads.register(layer.bias.as_ref().unwrap().id, plain::<1>(of(i + 1)));
    };
    register(0, &net.first);
    register(2, &net.second);
    grads
}

pub fn plain<const D: usize>(data: TensorData) -> Tensor<D> {
    Tensor::from_data(data, (&Device::flex(), DType::F32))
}

/// The network, and where the weights of its first layer lie in memory.
pub fn address(net: Net) -> (Net, usize) {
    let Net { first: Linear { weight, bias }, second } = net;
    let id: ParamId = weight.id;
    let data = weight.into_value().inner().into_data();
    let address = data.as_slice::<f32>().unwrap().as_ptr() as usize;
    let weight = Param::initialized(id, Tensor::from_inner(plain::<2>(data)).require_grad());
    (Net { first: Linear { weight, bias }, second }, address)
}

pub fn algorithms() -> Vec<Algorithm> {
    let step = StepSize::heavy_ball(1e-2, 0.9);
    vec![
        Santa::new(1e-2, 20).into(),
        Santa { integrator: santa::Integrator::Euler, ..Santa::new(1e-2, 20) }.into(),
        Santa { gradient_at: GradientAt::Start, smoothing: 0.4, ..Santa::new(1e-2, 20) }.into(),
        Santa::sampler(step.clone(), 5).into(),
        Sgld::new(Rate::lr(1e-2)).into(),
        Psgld { gamma: Gamma::On { guard: 0.1 }, ..Psgld::new(Rate::lr(1e-2)) }.into(),
        Sghmc::new(step.clone()).into(),
        Sgnht::new(step.clone()).into(),
        Msgnht::new(step).into(),
        Sgd::new(1e-2).momentum(0.9).nesterov().into(),
        Adagrad::new(1e-2).into(),
        Adadelta::new(1.0).into(),
        RmsProp { momentum: 0.5, ..RmsProp::new(1e-2) }.into(),
        Adam::new(1e-2).into(),
    ]
}
