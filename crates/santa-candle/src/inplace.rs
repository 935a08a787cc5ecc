//! All variables at once, in their own memory.
//!
//! Candle lends a tensor's memory for writing only inside an in-place operation, which has one
//! destination. A step wants all of them: one norm, one thermostat, one way back after a failure. So
//! the operation on the first variable applies one to the second, and so on; innermost, every lock is
//! held and every slice at hand.

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Tensor, bail};
use std::cell::Cell;
use std::vec::IntoIter;

/// Variables that are held at once. Each takes its share of the stack, three kilobytes without
/// optimization, and a thread may have no more than two megabytes. The others are copied.
pub(crate) const MAX_HELD: usize = 256;

/// Where a step finds a variable's values.
pub(crate) enum Place<'a> {
    /// In the tensor, on the CPU.
    Held(&'a Tensor),
    /// In a copy.
    Copied(&'a mut [f32]),
}

/// Values and gradient of each variable.
type Segments<'a> = Vec<(&'a mut [f32], &'a [f32])>;
/// What is done with them.
type Step<'r> = dyn for<'s> FnMut(&mut [(&'s mut [f32], &'s [f32])]) + 'r;

/// Calls `step` with the values and the gradients of all variables, in their order. The tensors must
/// be different ones, and no lock on them may be held.
pub(crate) fn with_all<'a>(
    variables: Vec<(Place<'a>, &'a [f32])>,
    step: &'a mut Step<'_>,
) -> Result<()> {
    let slices = Vec::with_capacity(variables.len());
    Progress { slices, rest: variables.into_iter(), step }.go_on()
}

/// What has been gathered and what is to come.
struct Progress<'a, 'r> {
    slices: Segments<'a>,
    rest: IntoIter<(Place<'a>, &'a [f32])>,
    step: &'a mut Step<'r>,
}

impl Progress<'_, '_> {
    fn go_on(mut self) -> Result<()> {
        loop {
            match self.rest.next() {
                Some((Place::Copied(values), gradient)) => self.slices.push((values, gradient)),
                Some((Place::Held(tensor), gradient)) => {
                    return tensor.inplace_op1(&Hold { gradient, progress: Cell::new(Some(self)) });
                }
                None => {
                    (self.step)(&mut self.slices);
                    return Ok(());
                }
            }
        }
    }
}

/// Holds a tensor's memory while the rest is gathered.
struct Hold<'a, 'r> {
    gradient: &'a [f32],
    /// Taken by the one call.
    progress: Cell<Option<Progress<'a, 'r>>>,
}

impl InplaceOp1 for Hold<'_, '_> {
    fn name(&self) -> &'static str {
        "santa-step"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (CpuStorage::F32(values), Some((start, end))) = (storage, layout.contiguous_offsets())
        else {
            bail!("a variable is no longer contiguous in F32")
        };
        let Some(Progress { mut slices, rest, step }) = self.progress.take() else {
            bail!("an in-place operation was called twice")
        };
        slices.push((&mut values[start..end], self.gradient));
        Progress { slices, rest, step }.go_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradient::address;
    use candle_core::{DType, Device, Var};

    #[test]
    fn a_step_is_handed_the_variables_own_memory() {
        let vars: Vec<Var> =
            (1..4).map(|len| Var::zeros(len, DType::F32, &Device::Cpu).unwrap()).collect();
        let gradient = [0f32; 3];
        let mut copy = [0f32; 2];
        let mut places: Vec<_> = vars.iter().map(|v| (Place::Held(v), &gradient[..])).collect();
        places.insert(1, (Place::Copied(&mut copy), &gradient[..2]));
        let mut seen = Vec::new();
        with_all(places, &mut |segments| {
            for (k, (values, _)) in segments.iter_mut().enumerate() {
                values.fill(k as f32);
                seen.push(values.as_ptr());
            }
        })
        .unwrap();
        assert_eq!(seen.remove(1), copy.as_ptr());
        let own: Vec<_> = vars.iter().map(|var| address(var).unwrap()).collect();
        assert_eq!(seen, own);
        assert_eq!(vars[2].to_vec1::<f32>().unwrap(), [3.0; 3]);
        assert_eq!(copy, [1.0; 2]);
    }
}
