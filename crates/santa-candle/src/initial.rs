//! Initial values that a seed decides: Candle's generator on the CPU has none.

use crate::error::Result;
use crate::optimizer::{put, sorted};
use candle_nn::VarMap;
use santa::noise::{Purpose, Stream};

/// How weights begin: normal deviates of this variance.
///
/// The fan-in of a tensor of shape (out, in, ...) is the product of all its axes but the first, as in
/// Candle's linear and convolutional layers; the fan-out has `out` in place of `in`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InitialWeights {
    /// $2 / \text{fan}_{in}$, for ReLU.
    #[default]
    HeNormal,
    /// $2 / (\text{fan}_{in} + \text{fan}_{out})$
    GlorotNormal,
    /// $1 / \text{fan}_{in}$
    LecunNormal,
}

/// Sets the variables of a map to initial values that are a function of the seed and of the names.
///
/// Tensors of two axes or more get weights; those whose name is or begins with `bias` in its last
/// part, zeros. Other vectors stay as they are: Candle sets scales and running means to constants.
/// The values are drawn by the place of the name among all names, so a variable more may change those
/// of others.
pub fn initialise(vars: &VarMap, weights: InitialWeights, seed: u64) -> Result<()> {
    let stream = Stream::new(seed, 0, Purpose::Initialisation);
    for (segment, (name, var)) in (0u32..).zip(sorted(vars)) {
        let is_bias = name.rsplit('.').next().is_some_and(|last| last.starts_with("bias"));
        let mut values = vec![0f32; var.elem_count()];
        match var.dims() {
            _ if is_bias => {}
            [outputs, inputs, taps @ ..] => {
                let taps: usize = taps.iter().product();
                let (fan_in, fan_out) = ((inputs * taps) as f64, (outputs * taps) as f64);
                let variance = match weights {
                    InitialWeights::HeNormal => 2.0 / fan_in,
                    InitialWeights::GlorotNormal => 2.0 / (fan_in + fan_out),
                    InitialWeights::LecunNormal => 1.0 / fan_in,
                };
                stream.normals(0, segment, 0, &mut values);
                let sd = variance.sqrt() as f32;
                values.iter_mut().for_each(|x| *x *= sd);
            }
            _ => continue,
        }
        put(&var, &values)?;
    }
    Ok(())
}
