//! What is compiled in this crate, once for each element type.
//!
//! A generic function is compiled again in every crate that calls it. The layers and the recurrent
//! passes are large, and are compiled for several instruction sets: they are reached through the element
//! type, whose methods are not generic.

use crate::architecture::Architecture;
use crate::kernels::Scalar;
use crate::network::Plan;
use crate::recurrent::{Gru, Task};
use santa::Result;

/// The layers of a network.
pub struct Layers<F: Scalar>(pub(crate) Plan<F>);

/// What to do with a recurrent network.
pub struct Pass<'a, 'b, F>(pub(crate) Task<'a, 'b, F>);

/// Implemented here for `f32` and `f64`.
pub trait Compiled: Sized {
    #[doc(hidden)]
    fn layers(architecture: &Architecture) -> Result<Layers<Self>>
    where
        Self: Scalar;

    #[doc(hidden)]
    fn recur(gru: &mut Gru<Self>, pass: Pass<'_, '_, Self>) -> f64
    where
        Self: Scalar;
}

macro_rules! compiled_here {
    ($($element:ty),*) => {$(
        impl Compiled for $element {
            fn layers(architecture: &Architecture) -> Result<Layers<Self>> {
                Plan::of(architecture).map(Layers)
            }
            fn recur(gru: &mut Gru<Self>, pass: Pass<'_, '_, Self>) -> f64 {
                gru.step(pass.0)
            }
        }
    )*};
}
compiled_here!(f32, f64);
