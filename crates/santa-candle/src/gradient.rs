//! Gradients as slices: in Candle's memory where they lie in order, in a copy otherwise.

use crate::error::{Error, Result};
use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, Storage, StorageRef, Tensor, Var};
use santa::Segment;
use std::ops::Range;

/// Room for gradients that are not lent.
#[derive(Default)]
pub(crate) struct Buffers {
    /// Copies, for the variables that need one.
    own: Vec<Vec<f32>>,
    /// As long as the longest variable that goes without a gradient.
    zeros: Vec<f32>,
}

/// What is known about a variable's gradient before the step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// It must be there.
    Required,
    /// It is zero if it is not there.
    Optional,
    /// It is not read.
    Unused,
}

/// Where a gradient is.
enum Found<'g> {
    Lent(StorageRef<'g>, Range<usize>),
    Own,
    Zeros(usize),
}

/// The gradients of all variables for the length of a step.
pub(crate) struct Gradients<'g> {
    found: Vec<Found<'g>>,
    buffers: &'g Buffers,
}

impl Buffers {
    /// Finds the gradient of every variable.
    pub fn gather<'g>(
        &'g mut self,
        vars: &[Var],
        segments: &[Segment],
        grads: &'g GradStore,
        need: impl Fn(usize) -> Need,
    ) -> Result<Gradients<'g>> {
        self.own.resize_with(vars.len(), Vec::new);
        let mut own_memory: Vec<_> = vars.iter().filter_map(|var| address(var)).collect();
        own_memory.sort_unstable();

        let mut found = Vec::with_capacity(vars.len());
        let mut longest_without = 0;
        for (i, (var, segment)) in vars.iter().zip(segments).enumerate() {
            let gradient = match (need(i), grads.get(var)) {
                (Need::Unused, _) | (Need::Optional, None) => {
                    let len = segment.range().len();
                    longest_without = longest_without.max(len);
                    found.push(Found::Zeros(len));
                    continue;
                }
                (Need::Required, None) => {
                    return Err(Error::MissingGradient { name: segment.name().into() });
                }
                (_, Some(gradient)) => gradient,
            };
            if gradient.shape() != var.shape() || gradient.dtype() != var.dtype() {
                return Err(Error::Gradient {
                    name: segment.name().into(),
                    expected: var.shape().clone(),
                    found: gradient.shape().clone(),
                    dtype: gradient.dtype(),
                });
            }
            // A gradient may be a variable itself (that of a square). Its memory will be written to.
            let aliased = address(gradient).is_some_and(|a| own_memory.binary_search(&a).is_ok());
            found.push(find(gradient, aliased, &mut self.own[i])?);
        }
        if self.zeros.len() < longest_without {
            self.zeros.resize(longest_without, 0.0);
        }
        Ok(Gradients { found, buffers: self })
    }
}

impl Gradients<'_> {
    /// The gradient of a variable, in the order of its elements.
    pub fn slice(&self, i: usize) -> &[f32] {
        match &self.found[i] {
            Found::Lent(storage, range) => match &**storage {
                Storage::Cpu(CpuStorage::F32(values)) => &values[range.clone()],
                _ => &[], // refused by the stepper, by its length; `find` lends nothing else
            },
            Found::Own => &self.buffers.own[i],
            Found::Zeros(len) => &self.buffers.zeros[..*len],
        }
    }
}

/// Where a tensor's memory begins, on the CPU.
pub(crate) fn address(tensor: &Tensor) -> Option<*const f32> {
    match &*tensor.storage_and_layout().0 {
        Storage::Cpu(CpuStorage::F32(values)) => Some(values.as_ptr()),
        _ => None,
    }
}

/// Lends a gradient that lies in order on the CPU, as Candle's `backward` leaves it, and copies any
/// other into `own`.
fn find<'g>(gradient: &'g Tensor, aliased: bool, own: &mut Vec<f32>) -> Result<Found<'g>> {
    if !aliased {
        let (storage, layout) = gradient.storage_and_layout();
        if let (Storage::Cpu(_), Some((start, end))) = (&*storage, layout.contiguous_offsets()) {
            return Ok(Found::Lent(storage, start..end));
        }
    }
    *own = gradient.flatten_all()?.to_vec1()?;
    Ok(Found::Own)
}
