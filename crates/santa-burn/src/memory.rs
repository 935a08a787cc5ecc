//! A tensor's numbers as slices, in its own memory where it can be had.
//!
//! On the flex backend a tensor that nobody else holds, and that lies in memory as it is read, gives
//! its memory away and is made from it again without a copy. A shared one is copied, so that the other
//! holder keeps its values. On every other device the numbers travel to the host and back.

use crate::error::{Error, Result};
use burn::tensor::{DType, Device, Tensor, TensorData};

/// True if tensors of this device lie in memory that the kernels can work on.
pub fn is_host(device: &Device) -> bool {
    #[cfg(feature = "flex")]
    if *device == Device::flex() {
        return true;
    }
    let _ = device;
    false
}

/// The numbers of a parameter, which must be `f32`. `name` is for the error.
pub(crate) fn take_parameter<const D: usize>(
    tensor: Tensor<D>,
    name: impl FnOnce() -> String,
) -> Result<TensorData> {
    if tensor.dtype() != DType::F32 {
        return Err(Error::DType { parameter: name(), dtype: tensor.dtype() });
    }
    read(tensor, name)
}

/// The numbers of a gradient as `f32`; one of another precision is converted, which loses nothing
/// that matters to it.
pub(crate) fn take_gradient<const D: usize>(
    tensor: Tensor<D>,
    name: impl Fn() -> String,
) -> Result<TensorData> {
    let what = || format!("the gradient of {}", name());
    let data = read(tensor, what)?;
    data.try_cast(DType::F32).map_err(|e| Error::Read { what: what(), reason: e.to_string() })
}

fn read<const D: usize>(tensor: Tensor<D>, name: impl FnOnce() -> String) -> Result<TensorData> {
    let data = tensor.try_into_data();
    data.map_err(|e| Error::Read { what: name(), reason: e.to_string() })
}

/// The numbers to read.
pub(crate) fn numbers<'a>(
    data: &'a TensorData,
    name: impl FnOnce() -> String,
) -> Result<&'a [f32]> {
    data.as_slice().map_err(|e| Error::Read { what: name(), reason: e.to_string() })
}

/// The numbers to change.
pub(crate) fn numbers_mut<'a>(
    data: &'a mut TensorData,
    name: impl FnOnce() -> String,
) -> Result<&'a mut [f32]> {
    data.as_mut_slice().map_err(|e| Error::Read { what: name(), reason: e.to_string() })
}

/// A parameter made of its numbers again.
pub(crate) fn give_back<const D: usize>(data: TensorData, device: &Device) -> Tensor<D> {
    Tensor::from_data(data, (device, DType::F32))
}
