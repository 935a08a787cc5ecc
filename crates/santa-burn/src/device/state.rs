//! State vectors on a device, and what every update needs to know of a step.

use burn::tensor::{DType, Device, Tensor, TensorData};
use santa::dynamics::Least;
use santa::noise::Stream;
use santa::units::LrScale;
use santa::{DataSize, Error, Result};

/// A step in the making.
pub(super) struct Moment {
    pub t: u64,
    pub n: DataSize,
    pub lr: LrScale,
    /// The factor from outside, divided by the one of the step before.
    pub lr_ratio: f64,
    pub stream: Stream,
    /// Which noise of the stream: the step, and how often it was rolled back.
    pub draw: u64,
    /// The number of the tensor in the noise.
    pub segment: u32,
    pub device: Device,
}

impl Moment {
    /// The standard normal deviates of the step, shaped as theta.
    pub fn zeta<const D: usize>(&self, theta: &Tensor<D>) -> Tensor<D> {
        let shape = theta.dims();
        let mut zeta = vec![0.0f32; shape.iter().product()];
        self.stream.normals(self.draw, self.segment, 0, &mut zeta);
        upload(zeta, shape, &self.device)
    }
}

/// State vectors with their names, in the order of the library.
#[derive(Clone)]
pub(super) struct State<const D: usize> {
    /// A vector is away only while a step works on it.
    slots: Vec<(String, Option<Tensor<D>>)>,
}

impl<const D: usize> State<D> {
    pub fn upload(vectors: Vec<(String, Vec<f32>)>, shape: [usize; D], device: &Device) -> Self {
        let on_device = |(name, vector)| (name, Some(upload(vector, shape, device)));
        State { slots: vectors.into_iter().map(on_device).collect() }
    }

    pub fn download(&self) -> Result<Vec<(String, Vec<f32>)>> {
        self.iter()
            .map(|(name, vector)| {
                Ok((name.to_string(), vector.try_to_vec_as().map_err(unreadable)?))
            })
            .collect()
    }

    /// Takes a vector out, to be changed in place where nobody else holds it; what is next to nothing
    /// becomes zero.
    pub fn take(&mut self, name: &str) -> Result<Tensor<D>> {
        let slot = self.slots.iter_mut().find(|(n, _)| n == name);
        let vector = slot.and_then(|(_, vector)| vector.take());
        let vector =
            vector.ok_or_else(|| Error::Structure(format!("there is no state vector `{name}`")))?;
        Ok(zero_below(vector, Least::<f32>::new().state))
    }

    /// Puts a vector back that was taken.
    pub fn put(&mut self, name: &str, vector: Tensor<D>) {
        if let Some((_, slot)) = self.slots.iter_mut().find(|(n, _)| n == name) {
            *slot = Some(vector);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor<D>)> {
        self.slots.iter().filter_map(|(name, vector)| Some((name.as_str(), vector.as_ref()?)))
    }

    pub fn moved_to(mut self, device: &Device) -> Self {
        for (_, vector) in &mut self.slots {
            *vector = vector.take().map(|vector| vector.to_device(device));
        }
        self
    }
}

/// A tensor of single precision, whatever the device prefers.
pub(super) fn upload<const D: usize>(
    values: Vec<f32>,
    shape: [usize; D],
    device: &Device,
) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), (device, DType::F32))
}

/// Zeros in place of what counts as zero; a NaN stays one.
pub(super) fn zero_below<const D: usize>(x: Tensor<D>, least: f32) -> Tensor<D> {
    let tiny = x.clone().abs().lower_scalar(least);
    x.mask_fill(tiny, 0.0f32)
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::Structure(format!("the device did not give a tensor back: {error}"))
}
