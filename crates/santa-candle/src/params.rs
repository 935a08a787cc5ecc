//! The settings of the optimizer.

use santa::{Algorithm, Clip, DataSize, Group, OnTrouble, Prior, Santa};

/// Settings of [`Dynamics`](crate::Dynamics).
///
/// ```
/// use santa_candle::ParamsDynamics;
/// use santa_candle::santa::{Clip, DataSize, Prior, Santa};
///
/// let n = DataSize::new(60_000)?;
/// let params = ParamsDynamics {
///     prior: Prior::from_weight_decay(1e-5, n),
///     clip: Clip::Norm(1.0),
///     seed: 42,
///     ..ParamsDynamics::new(Santa::new(1e-3, 10_000), n)
/// };
/// # Ok::<(), santa_candle::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ParamsDynamics {
    /// Which dynamics, with their settings.
    pub algorithm: Algorithm,
    /// N, the number of data that the loss is a mean over in the end: the training set, not the
    /// batch. It sets the scale of the noise and of the prior.
    pub data_size: DataSize,
    /// The prior; takes the place of weight decay.
    pub prior: Prior,
    /// Settings of some of the variables, by their names.
    pub groups: Vec<Group>,
    /// Chooses the noise.
    pub seed: u64,
    /// Chooses the noise among those of a seed: for several models at once.
    pub chain: u32,
    /// Bounds on the gradient; a norm is that of all variables together.
    pub clip: Clip,
    /// What to do about a NaN or an infinity.
    pub on_trouble: OnTrouble,
    /// What to do about a variable that the loss does not depend on.
    pub missing: MissingGradient,
}

/// What a step does about a variable that is not frozen and has no gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingGradient {
    /// Nothing moves, and an error names the variable. The default, because noise would carry the
    /// running means of a batch normalisation, say, far away.
    #[default]
    Refuse,
    /// The gradient is zero, which it is: prior, momentum and noise still move the variable.
    Zero,
}

impl ParamsDynamics {
    /// Some dynamics on N data, without a prior, with seed 0.
    pub fn new(algorithm: impl Into<Algorithm>, data_size: DataSize) -> Self {
        ParamsDynamics {
            algorithm: algorithm.into(),
            data_size,
            prior: Prior::Flat,
            groups: Vec::new(),
            seed: 0,
            chain: 0,
            clip: Clip::Off,
            on_trouble: OnTrouble::Stop,
            missing: MissingGradient::Refuse,
        }
    }
}

impl Default for ParamsDynamics {
    /// [`Santa::default`], which refines from the start: a learning rate of 1e-3, a momentum of 0.9,
    /// no noise, for which N does not matter.
    fn default() -> Self {
        ParamsDynamics::new(Santa::default(), DataSize::ONE)
    }
}
