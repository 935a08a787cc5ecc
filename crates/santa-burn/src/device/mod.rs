//! Every dynamics of the library in tensor operations, for devices that are not the host.
//!
//! [`DeviceDynamics`] has the face of a [`Stepper`] of one tensor and the same numbers up to rounding;
//! parameters, gradient and state never leave the device. What does travel:
//!
//! | what | when |
//! | --- | --- |
//! | noise, to the device | each step that explores; drawn on the host, so that it is the same numbers everywhere |
//! | one number, to the host | each step of SGNHT, whose friction depends on the sum of all squared momenta |
//! | one truth value, to the host | every [`CHECK_EVERY`] steps: is everything finite? |
//! | the state, to the host | [`DeviceDynamics::position`] |
//!
//! Reading a number waits for the device; between those moments the host runs ahead of it.
//!
//! | file | dynamics |
//! | --- | --- |
//! | `santa.rs` | Santa and mSGNHT, which runs on its update |
//! | `langevin.rs` | SGLD, pSGLD |
//! | `hamiltonian.rs` | SGHMC, SGNHT |
//! | `descent.rs` | SGD, Adagrad, Adadelta, RMSprop, Adam |
//!
//! Their lines follow those of the library's kernels in the same order, without the fused
//! multiply-add. Scalars are computed in `f64` on the host and rounded to `f32`, as there.

mod descent;
mod hamiltonian;
mod langevin;
mod santa;
mod state;

use ::santa::dynamics::{Least, Metric, Position, PsgldMetric, ROLLBACKS};
use ::santa::noise::{MAX_STEPS, Purpose, Stream};
use ::santa::target::SegmentSettings;
use ::santa::units::LrScale;
use ::santa::{Algorithm, Error, Group, Layout, Result, Stepper, Target};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use state::{Moment, State, zero_below};

/// Steps between two looks for a NaN or an infinity, each of which waits for the device.
pub const CHECK_EVERY: u64 = 100;

/// Dynamics of one tensor whose state is on a device.
///
/// The same numbers as a [`Stepper`] of one segment, up to rounding, and the same state: a
/// [`Position`] goes from one to the other in both directions.
///
/// A NaN or an infinity is noticed every [`CHECK_EVERY`] steps and by [`DeviceDynamics::position`], not
/// at once; these dynamics then refuse to go on until [`DeviceDynamics::go_to`]. Tensors of half
/// precision are worked on in `f32`, the precision of the state, and rounded back.
///
/// A metric that is a function of theta (`Metric::Given`) is a function on the host: refused.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use santa::{DataSize, Layout, Prior, Santa, Target};
/// use santa_burn::device::DeviceDynamics;
///
/// let device = Device::flex();
/// let layout = Layout::new([("weight", vec![2, 2])])?;
/// let target = Target::new(layout, DataSize::new(60_000)?, Prior::gaussian(1.0))?;
/// let santa = Santa::new(0.1, 100).into();
/// let mut dynamics: DeviceDynamics<2> = DeviceDynamics::new(santa, &target, 42, 0, 0, &device)?;
/// let mut theta = Tensor::from_data([[3.0, -1.0], [0.5, 2.0]], &device);
/// for _ in 0..100 {
///     let gradient = theta.clone(); // of a loss theta^2 / 2
///     theta = dynamics.step(theta, gradient)?;
/// }
/// assert_eq!(dynamics.steps(), 100);
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone)]
pub struct DeviceDynamics<const D: usize> {
    algorithm: Algorithm,
    target: Target,
    seed: u64,
    chain: u32,
    first_segment: u32,
    stream: Stream,
    shape: [usize; D],
    device: Device,
    /// The same dynamics of a single number on the host, which knows the rates that they accept.
    single: Stepper<f32>,
    steps: u64,
    rollbacks: u32,
    /// For the next step, and of the last one.
    lr_factors: [f64; 2],
    carried: Option<f64>,
    state: State<D>,
    /// The step at which a number was found not to be finite.
    poisoned: Option<u64>,
}

impl<const D: usize> DeviceDynamics<D> {
    /// Checks the settings and sets up the state on the device. `target` has one segment, whose shape
    /// is the tensor's; its noise is that of segment `first_segment` of the whole model, as in
    /// [`Stepper::of_part`].
    pub fn new(
        algorithm: Algorithm,
        target: &Target,
        seed: u64,
        chain: u32,
        first_segment: u32,
        device: &Device,
    ) -> Result<Self> {
        let [segment] = target.layout().segments() else {
            let found = target.layout().segments().len();
            return Err(Error::Structure(format!(
                "dynamics on a device are of one tensor, but the target has {found} segments"
            )));
        };
        let shape: [usize; D] = segment.shape().try_into().map_err(|_| {
            Error::Structure(format!(
                "segment `{}` has the shape {:?}, but the tensor has {D} dimensions",
                segment.name(),
                segment.shape()
            ))
        })?;
        refuse_given_metric(&algorithm)?;
        let native = Stepper::of_part(algorithm.clone(), target, seed, chain, first_segment)?;
        let device = device.clone().inner();
        let start = native.position()?;
        Ok(DeviceDynamics {
            single: Stepper::new(algorithm.clone(), &single_element(target)?, seed, chain)?,
            stream: Stream::new(seed, chain, Purpose::Dynamics),
            state: State::upload(start.state, shape, &device),
            steps: start.step,
            rollbacks: start.rollbacks,
            lr_factors: start.lr_factors,
            carried: start.carried,
            target: target.clone(),
            algorithm,
            seed,
            chain,
            first_segment,
            shape,
            device,
            poisoned: None,
        })
    }

    /// Multiplies the learning rate of the settings from the next step on, as
    /// [`Stepper::set_lr_factor`] does.
    pub fn set_lr_factor(&mut self, factor: f64) -> Result<()> {
        if factor == self.lr_factors[0] {
            return Ok(());
        }
        self.single.set_lr_factor(factor)?;
        if self.steps == 0 {
            let mut native = self.native()?;
            native.set_lr_factor(factor)?;
            self.state = State::upload(native.position()?.state, self.shape, &self.device);
            self.lr_factors[1] = factor;
        }
        self.lr_factors[0] = factor;
        Ok(())
    }

    /// What multiplies the learning rate of the settings; 1 unless set.
    pub fn lr_factor(&self) -> f64 {
        self.lr_factors[0]
    }

    /// Makes a step and gives the new theta. `gradient` is the mean over the minibatch, at this
    /// `theta`, without the prior. The result has no autodiff graph, whatever came in.
    pub fn step(&mut self, theta: Tensor<D>, gradient: Tensor<D>) -> Result<Tensor<D>> {
        if let Some(step) = self.poisoned {
            return Err(Error::Poisoned { step });
        }
        let t = self.steps + 1;
        if t >= MAX_STEPS {
            return Err(setting("step", t, "the noise repeats from here on; change the seed"));
        }
        self.check_tensor("theta", &theta)?;
        self.check_tensor("the gradient", &gradient)?;
        let dtype = theta.dtype();
        let theta = in_single_precision(theta);
        let gradient = in_single_precision(gradient);

        let theta = if self.settings().frozen {
            theta
        } else {
            let look = t.is_multiple_of(CHECK_EVERY).then(|| gradient.clone());
            let moved = self.advance(t, theta, gradient).and_then(|theta| {
                look.map_or(Ok(()), |gradient| self.look_for_trouble(t, gradient, &theta))?;
                Ok(theta)
            });
            // A setting is refused before anything moves.
            if moved.as_ref().is_err_and(|error| !matches!(error, Error::Setting { .. })) {
                self.poisoned = Some(t);
            }
            moved?
        };
        self.steps = t;
        self.lr_factors[1] = self.lr_factors[0];
        Ok(if dtype == DType::F32 { theta } else { theta.cast(dtype) })
    }

    fn advance(&mut self, t: u64, theta: Tensor<D>, gradient: Tensor<D>) -> Result<Tensor<D>> {
        let [outside, before] = self.lr_factors;
        let moment = Moment {
            t,
            n: self.target.data_size(),
            lr: LrScale { group: self.settings().lr_scale, outside },
            lr_ratio: outside / before,
            stream: self.stream,
            draw: t | u64::from(self.rollbacks % ROLLBACKS) << MAX_STEPS.trailing_zeros(),
            segment: self.first_segment,
            device: self.device.clone(),
        };
        let f = self.mean_gradient_of_u(&theta, gradient);
        let state = &mut self.state;
        match &self.algorithm {
            Algorithm::Santa(s) => santa::step(s, &moment, theta, f, state),
            Algorithm::Msgnht(s) => santa::step(&s.as_santa(), &moment, theta, f, state),
            Algorithm::Sgld(s) => langevin::sgld(s, &moment, theta, f),
            Algorithm::Psgld(s) => langevin::psgld(s, &moment, theta, f, state),
            Algorithm::Sghmc(s) => hamiltonian::sghmc(s, &moment, theta, f, state),
            Algorithm::Sgnht(s) => {
                let shift = self.carried.unwrap_or(0.0);
                let (theta, shift) = hamiltonian::sgnht(s, &moment, shift, theta, f, state)?;
                self.carried = Some(shift);
                if shift.is_finite() {
                    return Ok(theta);
                }
                let (what, segment) = ("the carried number".into(), "all".into());
                Err(Error::NotFinite { what, segment, index: 0, value: shift, step: t })
            }
            Algorithm::Sgd(s) => descent::sgd(s, &moment, theta, f, state),
            Algorithm::Adagrad(s) => descent::adagrad(s, &moment, theta, f, state),
            Algorithm::Adadelta(s) => descent::adadelta(s, &moment, theta, f, state),
            Algorithm::RmsProp(s) => descent::rmsprop(s, &moment, theta, f, state),
            Algorithm::Adam(s) => descent::adam(s, &moment, theta, f, state),
            other => Err(setting("algorithm", other.name(), "it has no form in tensor operations")),
        }
    }

    /// Adds the prior's part; what is next to nothing becomes zero.
    fn mean_gradient_of_u(&self, theta: &Tensor<D>, gradient: Tensor<D>) -> Tensor<D> {
        let (ridge, lasso) = self.settings().prior.mean_gradient(self.target.data_size());
        let mut f = gradient;
        if ridge != 0.0 {
            f = f + theta.clone() * ridge as f32;
        }
        if lasso != 0.0 {
            f = f + theta.clone().sign() * lasso as f32;
        }
        zero_below(f, Least::<f32>::new().gradient)
    }

    /// Steps made so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }
    /// The settings.
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }
    /// The target.
    pub fn target(&self) -> &Target {
        &self.target
    }
    /// The number of the tensor in the noise.
    pub fn first_segment(&self) -> u32 {
        self.first_segment
    }
    /// Where the state is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The same dynamics with their state on another device.
    pub fn to_device(mut self, device: &Device) -> Self {
        self.device = device.clone().inner();
        self.state = self.state.moved_to(&self.device);
        self
    }

    /// Where these dynamics are, in the form of [`Stepper::position`]; the state is read from the
    /// device. Refused if a number is not finite.
    pub fn position(&self) -> Result<Position<f32>> {
        if let Some(step) = self.poisoned {
            return Err(Error::Poisoned { step });
        }
        let state = self.state.download()?;
        for (name, vector) in &state {
            self.refuse_not_finite(&format!("state `{name}`"), vector, self.steps)?;
        }
        Ok(Position {
            step: self.steps,
            rollbacks: self.rollbacks,
            lr_factors: self.lr_factors,
            carried: self.carried,
            state,
        })
    }

    /// Takes these dynamics to a position that dynamics of the same settings, target and seed had,
    /// here or on the host. On an error nothing has changed.
    pub fn go_to(&mut self, position: Position<f32>) -> Result<()> {
        // The host's dynamics check it.
        let mut native = self.native()?;
        native.go_to(position)?;
        let position = native.position()?;
        self.state = State::upload(position.state, self.shape, &self.device);
        self.steps = position.step;
        self.rollbacks = position.rollbacks;
        self.lr_factors = position.lr_factors;
        self.carried = position.carried;
        self.poisoned = None;
        Ok(())
    }

    /// The same dynamics on the host, at their start.
    fn native(&self) -> Result<Stepper<f32>> {
        let algorithm = self.algorithm.clone();
        Stepper::of_part(algorithm, &self.target, self.seed, self.chain, self.first_segment)
    }

    fn settings(&self) -> &SegmentSettings {
        self.target.settings(0)
    }

    fn name(&self) -> &str {
        self.target.layout().segments().first().map_or("", |s| s.name())
    }

    fn check_tensor(&self, what: &str, tensor: &Tensor<D>) -> Result<()> {
        let refuse = |problem: String| {
            Err(Error::Structure(format!("{what} of segment `{}` {problem}", self.name())))
        };
        if tensor.dims() != self.shape {
            return refuse(format!("has the shape {:?}, not {:?}", tensor.dims(), self.shape));
        }
        let device = tensor.device().inner();
        if device != self.device {
            let here = &self.device;
            return refuse(format!("is on {device:?}, the state on {here:?}: use to_device"));
        }
        match tensor.dtype() {
            DType::F32 | DType::Flex32 | DType::F16 | DType::BF16 => Ok(()),
            other => refuse(format!("is of {other:?}; the state has single precision")),
        }
    }

    /// One truth value for all vectors; they are read only if it is no.
    fn look_for_trouble(&self, t: u64, gradient: Tensor<D>, theta: &Tensor<D>) -> Result<()> {
        let mut fine = theta.clone().is_finite().all();
        for (_, vector) in self.state.iter() {
            fine = fine.bool_and(vector.clone().is_finite().all());
        }
        if fine.try_into_scalar::<bool>().map_err(state::unreadable)? {
            return Ok(());
        }
        // In the order of the library: the gradient first, it is usually the cause.
        let read = |tensor: &Tensor<D>| tensor.try_to_vec_as::<f32>().map_err(state::unreadable);
        self.refuse_not_finite("the gradient", &read(&gradient)?, t)?;
        for (name, vector) in self.state.iter() {
            self.refuse_not_finite(&format!("state `{name}`"), &read(vector)?, t)?;
        }
        self.refuse_not_finite("theta", &read(theta)?, t)
    }

    fn refuse_not_finite(&self, what: &str, vector: &[f32], step: u64) -> Result<()> {
        match vector.iter().position(|x| !x.is_finite()) {
            None => Ok(()),
            Some(index) => Err(Error::NotFinite {
                what: what.into(),
                segment: self.name().into(),
                index,
                value: f64::from(vector[index]),
                step,
            }),
        }
    }
}

fn in_single_precision<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    let tensor = tensor.without_autodiff();
    if tensor.dtype() == DType::F32 { tensor } else { tensor.cast(FloatDType::F32) }
}

fn refuse_given_metric(algorithm: &Algorithm) -> Result<()> {
    let given = match algorithm {
        Algorithm::Santa(s) => s.metric == Metric::Given,
        Algorithm::Psgld(s) => s.metric == PsgldMetric::Given,
        _ => false,
    };
    if given {
        let allowed = "a metric that is a function on the host cannot follow to a device; choose \
                       another metric, or run on the host with Stepper::with_metric";
        return Err(setting("metric", "given", allowed));
    }
    Ok(())
}

/// A target of one element with the settings of the only segment.
fn single_element(target: &Target) -> Result<Target> {
    let SegmentSettings { lr_scale, prior, .. } = *target.settings(0);
    Target::new(Layout::flat(1)?, target.data_size(), prior)?
        .with_group(Group::new("*").lr_scale(lr_scale))
}

fn setting(field: &str, value: impl ToString, allowed: impl Into<String>) -> Error {
    Error::Setting { field: field.into(), value: value.to_string(), allowed: allowed.into() }
}
