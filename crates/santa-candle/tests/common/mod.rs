//! Variables and gradients for the tests.
#![allow(dead_code)] // each test uses some of it

use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor, Var};
use santa::dynamics::{Adadelta, Adagrad, Adam, Msgnht, Psgld, RmsProp, Sgd, Sghmc, Sgld, Sgnht};
use santa::noise::{Purpose, Stream};
use santa::{Algorithm, DataSize, Rate, Santa, StepSize};

pub const SHAPES: [(&str, &[usize]); 5] = [
    ("a.weight", &[13, 40]),
    ("a.bias", &[13]),
    ("b.weight", &[7, 13, 3, 3]),
    ("b.bias", &[7]),
    ("scale", &[]),
];

pub fn data_size() -> DataSize {
    DataSize::new(5_000).unwrap()
}

/// Standard normal deviates.
pub fn normals(number: u32, len: usize) -> Vec<f32> {
    let mut values = vec![0.0; len];
    Stream::new(11, 0, Purpose::Custom(1)).normals(0, number, 0, &mut values);
    values
}

/// Variables of [`SHAPES`], always of the same values.
pub fn named_vars() -> Vec<(String, Var)> {
    let var = |(i, (name, shape)): (usize, &(&str, &[usize]))| {
        let len = shape.iter().product();
        let var = Var::from_vec(normals(i as u32, len), *shape, &Device::Cpu).unwrap();
        (name.to_string(), var)
    };
    SHAPES.iter().enumerate().map(var).collect()
}

/// A store without gradients of variables.
pub fn no_gradients() -> GradStore {
    Tensor::new(0f32, &Device::Cpu).unwrap().backward().unwrap()
}

pub fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// The gradient of a well that is not quadratic, at theta.
pub fn pull(theta: &[f32]) -> Vec<f32> {
    theta
        .iter()
        .enumerate()
        .map(|(i, x)| 0.01 * (1 + i % 3) as f32 * (x + 0.1 * x * x * x))
        .collect()
}

/// The gradients of [`pull`] at the variables' values.
pub fn pulls<'a>(vars: impl IntoIterator<Item = &'a Var>) -> GradStore {
    let mut store = no_gradients();
    for var in vars {
        let gradient = Tensor::from_vec(pull(&values(var)), var.shape(), &Device::Cpu).unwrap();
        store.insert(var, gradient);
    }
    store
}

/// Every dynamics of the library.
pub fn algorithms() -> Vec<Algorithm> {
    let step = || StepSize::practical(1e-3, 0.9);
    vec![
        Santa::new(1e-3, 30).into(),
        Santa::new(1e-3, 30).euler().into(),
        Santa::default().into(),
        Sgld::new(Rate::lr(1e-3)).into(),
        Psgld::new(Rate::lr(1e-3)).into(),
        Sghmc::new(step()).into(),
        Sgnht::new(step()).into(),
        Msgnht::new(step()).into(),
        Sgd::new(1e-2).momentum(0.9).nesterov().into(),
        Adagrad::new(1e-2).into(),
        Adadelta::new(1.0).into(),
        RmsProp::new(1e-3).into(),
        Adam::new(1e-3).into(),
    ]
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}
