//! The optimizer: dynamics of the library over Candle's variables.

use crate::error::{Error, Result};
use crate::gradient::{Buffers, Need, address};
use crate::inplace::{MAX_HELD, Place, with_all};
use crate::params::{MissingGradient, ParamsDynamics};
use crate::rate;
use candle_core::backprop::GradStore;
use candle_core::{DType, Tensor, Var};
use candle_nn::{Optimizer, VarMap};
use santa::{Layout, Schedule, StepOutcome, Stepper, Target};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::PoisonError;

/// Any dynamics of the library as an [`Optimizer`] of Candle.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{Module, Optimizer, VarBuilder, VarMap, linear};
/// use santa_candle::santa::{DataSize, Prior, Santa};
/// use santa_candle::{Dynamics, InitialWeights, ParamsDynamics, initialise};
///
/// let vars = VarMap::new();
/// let layer = linear(3, 1, VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu))?;
/// initialise(&vars, InitialWeights::LecunNormal, 42)?;
///
/// let x = Tensor::new(&[[1f32, 2.0, 3.0], [0.0, -1.0, 1.0]], &Device::Cpu)?;
/// let y = Tensor::new(&[[1f32], [0.5]], &Device::Cpu)?;
/// let params = ParamsDynamics {
///     prior: Prior::gaussian(1e-3),
///     seed: 42,
///     ..ParamsDynamics::new(Santa::new(1e-2, 1_000), DataSize::new(2)?)
/// };
/// let mut santa = Dynamics::from_varmap(&vars, params)?;
/// for _ in 0..1_000 {
///     let loss = candle_nn::loss::mse(&layer.forward(&x)?, &y)?;
///     santa.backward_step(&loss)?;
/// }
/// let loss = candle_nn::loss::mse(&layer.forward(&x)?, &y)?;
/// assert!(loss.to_scalar::<f32>()? < 0.1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What a step does
///
/// The loss is the mean over the batch, without the prior. One [`Stepper`] moves all variables, so a
/// norm is clipped over all of them, SGNHT has its one thermostat, and the numbers are, bit for bit,
/// those of the library on its own given the same gradients. Noise is a function of seed, chain,
/// variable and step: the variable counts by its place in the list.
///
/// On the CPU the variables move in their own memory; none of it is copied or allocated. Variables on
/// CUDA or Metal are copied to the host and back in every step; so are, in a model of more than 256
/// variables, all but the 256 largest.
///
/// A step holds the locks of all variables. A thread that evaluates the model meanwhile waits; but an
/// operation that reads two of them at once, such as a layer normalisation, could wait for a step
/// that waits for it: let other threads evaluate a copy, or between steps.
pub struct Dynamics {
    vars: Vec<Var>,
    /// Which of them move in their own memory.
    held: Vec<bool>,
    pub(crate) stepper: Stepper<f32>,
    /// The learning rate of the settings.
    schedule: Schedule,
    /// From [`Optimizer::set_learning_rate`]: in place of the schedule.
    pub(crate) lr: Option<f64>,
    missing: MissingGradient,
    buffers: Buffers,
}

impl Dynamics {
    /// Dynamics of all variables of a map, in the order of their names, by which
    /// [`Group`](santa::Group)s find them.
    pub fn from_varmap(vars: &VarMap, params: ParamsDynamics) -> Result<Self> {
        Self::from_named(sorted(vars), params)
    }

    /// Dynamics of variables with names, in this order. Variables of integers are left out.
    pub fn from_named<N: Into<String>>(
        vars: impl IntoIterator<Item = (N, Var)>,
        params: ParamsDynamics,
    ) -> Result<Self> {
        let (names, vars): (Vec<String>, Vec<Var>) = vars
            .into_iter()
            .filter(|(_, var)| var.dtype().is_float())
            .map(|(name, var)| (name.into(), var))
            .unzip();
        let mut by_address = HashMap::new();
        let mut by_id = HashMap::new();
        for (name, var) in names.iter().zip(&vars) {
            if var.dtype() != DType::F32 {
                return Err(Error::Element { name: name.clone(), dtype: var.dtype() });
            }
            if !var.is_contiguous() {
                return Err(Error::NotContiguous { name: name.clone() });
            }
            let same_id = by_id.insert(var.id(), name);
            let same_memory = address(var).and_then(|start| by_address.insert(start, name));
            // Variables without elements share an address; the layout refuses them by name.
            let first = same_id.or(same_memory.filter(|_| var.elem_count() > 0));
            if let Some(first) = first {
                return Err(Error::Twice { first: first.clone(), second: name.clone() });
            }
        }

        let shapes = vars.iter().map(|var| var.dims().to_vec());
        let layout = Layout::new(names.iter().cloned().zip(shapes))?;
        let mut target = Target::new(layout, params.data_size, params.prior)?;
        for group in params.groups {
            target = target.with_group(group)?;
        }
        let schedule = rate::schedule(&params.algorithm)?.clone();
        let stepper = Stepper::new(params.algorithm, &target, params.seed, params.chain)?
            .with_clip(params.clip)?
            .on_trouble(params.on_trouble)?;
        let (missing, buffers) = (params.missing, Buffers::default());
        let held = held(&vars, &target);
        Ok(Dynamics { vars, held, stepper, schedule, lr: None, missing, buffers })
    }

    /// [`Optimizer::step`] that says what became of the step: with a policy other than to stop, a
    /// step may be skipped or undone.
    pub fn advance(&mut self, grads: &GradStore) -> Result<StepOutcome> {
        self.apply_learning_rate()?;
        let Dynamics { vars, held, stepper, buffers, missing, .. } = self;
        let target = stepper.target();
        let need = |i: usize| match (target.settings(i).frozen, *missing) {
            (true, _) => Need::Unused,
            (false, MissingGradient::Refuse) => Need::Required,
            (false, MissingGradient::Zero) => Need::Optional,
        };
        let gradients = buffers.gather(vars, target.layout().segments(), grads, need)?;

        let mut copies = Vec::with_capacity(vars.len());
        for (i, var) in vars.iter().enumerate() {
            copies.push(match (held[i], target.settings(i).frozen) {
                (true, _) => None,
                (false, false) => Some(values(var)?),
                (false, true) => Some(vec![0.0; var.elem_count()]), // for its length: not read
            });
        }
        let places = vars.iter().zip(&mut copies).enumerate().map(|(i, (var, copy))| {
            let place = match copy {
                None => Place::Held(var),
                Some(copy) => Place::Copied(copy),
            };
            (place, gradients.slice(i))
        });
        let mut outcome = None;
        with_all(places.collect(), &mut |segments| {
            outcome = Some(stepper.step_segments(segments));
        })?;
        drop(gradients);
        for (i, (var, copy)) in vars.iter().zip(&copies).enumerate() {
            if let (Some(copy), false) = (copy, stepper.target().settings(i).frozen) {
                put(var, copy)?;
            }
        }
        match outcome {
            Some(outcome) => Ok(outcome?),
            None => Err(candle_core::Error::msg("no step was made").into()),
        }
    }

    /// Makes the next step's learning rate the one that was set. The stepper knows a factor of its
    /// schedule.
    fn apply_learning_rate(&mut self) -> Result<()> {
        let Some(lr) = self.lr else { return Ok(()) };
        rate::check(lr)?;
        Ok(self.stepper.set_lr_factor(lr / self.scheduled())?)
    }

    /// The next step's learning rate by the settings.
    fn scheduled(&self) -> f64 {
        self.schedule.at(self.stepper.steps() + 1)
    }

    /// The variables, in their order.
    pub fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// The dynamics at work: steps made, stage, temperature, state vectors, names of the variables.
    pub fn stepper(&self) -> &Stepper<f32> {
        &self.stepper
    }

    /// The values of all variables, one after the other.
    pub fn theta(&self) -> Result<Vec<f32>> {
        let mut theta = Vec::with_capacity(self.stepper.target().dim());
        for var in &self.vars {
            theta.extend(values(var)?);
        }
        Ok(theta)
    }

    /// Sets all variables.
    pub(crate) fn set_theta(&self, theta: &[f32]) -> Result<()> {
        for (var, segment) in self.vars.iter().zip(self.stepper.target().layout().segments()) {
            put(var, &theta[segment.range()])?;
        }
        Ok(())
    }
}

impl Optimizer for Dynamics {
    type Config = ParamsDynamics;

    /// Dynamics of variables that are called 0, 1, 2, ... Those of
    /// [`VarMap::all_vars`] come in another order in every run, and with it the noise: prefer
    /// [`Dynamics::from_varmap`].
    fn new(vars: Vec<Var>, config: ParamsDynamics) -> candle_core::Result<Self> {
        let named = vars.into_iter().enumerate().map(|(i, var)| (i.to_string(), var));
        Ok(Dynamics::from_named(named, config)?)
    }

    fn step(&mut self, grads: &GradStore) -> candle_core::Result<()> {
        self.advance(grads)?;
        Ok(())
    }

    /// That of the next step, in the units of the settings.
    fn learning_rate(&self) -> f64 {
        self.lr.unwrap_or_else(|| self.scheduled())
    }

    /// Takes the place of the settings' schedule from the next step on. A rate that is not positive,
    /// or settings in the paper's units, are refused by the next step.
    fn set_learning_rate(&mut self, lr: f64) {
        self.lr = Some(lr);
        // Now, for a checkpoint that is written before the next step, which reports what is wrong.
        let _ = self.apply_learning_rate();
    }
}

impl fmt::Debug for Dynamics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dynamics")
            .field("algorithm", self.stepper.algorithm())
            .field("learning_rate", &self.learning_rate())
            .field("steps", &self.stepper.steps())
            .field("variables", &self.vars.len())
            .finish_non_exhaustive()
    }
}

/// Chooses the variables that are held during a step: on the CPU, moving ones first, large ones first.
fn held(vars: &[Var], target: &Target) -> Vec<bool> {
    let mut order: Vec<usize> = (0..vars.len()).filter(|i| vars[*i].device().is_cpu()).collect();
    order.sort_by_key(|i| (target.settings(*i).frozen, Reverse(vars[*i].elem_count())));
    let mut held = vec![false; vars.len()];
    order.into_iter().take(MAX_HELD).for_each(|i| held[i] = true);
    held
}

/// The variables of floats of a map, by name.
pub(crate) fn sorted(vars: &VarMap) -> Vec<(String, Var)> {
    let map = vars.data().lock().unwrap_or_else(PoisonError::into_inner);
    let mut list: Vec<_> = map
        .iter()
        .filter(|(_, var)| var.dtype().is_float())
        .map(|(name, var)| (name.clone(), var.clone()))
        .collect();
    list.sort_by(|(a, _), (b, _)| a.cmp(b));
    list
}

fn values(var: &Var) -> Result<Vec<f32>> {
    Ok(var.flatten_all()?.to_vec1()?)
}

/// Sets a variable through a copy, on whatever device it is.
pub(crate) fn put(var: &Var, values: &[f32]) -> Result<()> {
    Ok(var.set(&Tensor::from_slice(values, var.shape(), var.device())?)?)
}
