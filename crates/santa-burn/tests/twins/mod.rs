//! The same dynamics twice: on the host by the library's kernel, on a device in tensor operations.

// Each test binary uses a part of this.
#![allow(dead_code)]

use burn::tensor::{Device, Tensor, TensorData};
use santa::dynamics::*;
use santa::noise::{Purpose, Stream};
use santa::{
    Algorithm, DataSize, Group, Integrator, InverseTemperature, Layout, Prior, Rate, Schedule,
    StepSize, Stepper, Target,
};
use santa_burn::device::DeviceDynamics;

pub const SEED: u64 = 7;
pub const CHAIN: u32 = 1;
pub const SEGMENT: u32 = 3;
pub const STEPS: u64 = 40;
/// Several blocks of the kernel and a rest, not square.
pub const SHAPE: [usize; 2] = [23, 31];

/// Numbers agree if they differ by no more than this share of the largest number of their vector.
///
/// A step rounds a handful of times by up to 6e-8; the kernel fuses multiplications and additions where
/// tensor operations do not, and its exponential is a polynomial. The differences are carried along but
/// hardly grow: the worst seen after 40 steps is 3e-6.
pub const TOLERANCE: f64 = 1e-5;

/// The same for a single step with Santa's correction terms. They take the difference of two metrics
/// that are nearly the same and divide it by the momentum, both of which magnify rounding; the worst seen
/// is 4e-5.
pub const TOLERANCE_OF_CORRECTIONS: f64 = 2e-4;

/// Mean gradient of a loss, smooth and not linear.
fn loss_gradient(theta: &[f32]) -> Vec<f32> {
    theta.iter().map(|x| 0.3 * x + 0.2 * (2.0 * x).cos()).collect()
}

pub fn target(prior: Prior) -> Target {
    let layout = Layout::new([("layer.weight", SHAPE.to_vec())]).unwrap();
    Target::new(layout, DataSize::new(50).unwrap(), prior)
        .unwrap()
        .with_group(Group::new("*.weight").lr_scale(0.7))
        .unwrap()
}

pub fn start() -> Vec<f32> {
    (0..SHAPE.iter().product()).map(|i| (i as f32 * 0.7).sin() * 2.0).collect()
}

pub fn tensor(values: &[f32], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values.to_vec(), SHAPE), device)
}

/// Native dynamics and their theta.
#[derive(Clone)]
pub struct Host {
    pub dynamics: Stepper<f32>,
    pub theta: Vec<f32>,
}

impl Host {
    pub fn new(algorithm: &Algorithm, target: &Target) -> Self {
        let dynamics = Stepper::of_part(algorithm.clone(), target, SEED, CHAIN, SEGMENT).unwrap();
        Host { dynamics, theta: start() }
    }
    pub fn step(&mut self) {
        let gradient = loss_gradient(&self.theta);
        self.dynamics.step(&mut self.theta, &gradient).unwrap();
    }
}

/// Dynamics on a device and their theta.
#[derive(Clone)]
pub struct Guest {
    pub dynamics: DeviceDynamics<2>,
    pub theta: Tensor<2>,
    device: Device,
}

impl Guest {
    pub fn new(algorithm: &Algorithm, target: &Target, segment: u32, device: &Device) -> Self {
        let dynamics =
            DeviceDynamics::new(algorithm.clone(), target, SEED, CHAIN, segment, device).unwrap();
        Guest { dynamics, theta: tensor(&start(), device), device: device.clone() }
    }
    pub fn step(&mut self) {
        let gradient = tensor(&loss_gradient(&self.theta()), &self.device);
        self.theta = self.dynamics.step(self.theta.clone(), gradient).unwrap();
    }
    pub fn theta(&self) -> Vec<f32> {
        self.theta.try_to_vec_as().unwrap()
    }
}

/// The largest difference of theta, state and carried number, as a share of the vector's largest number.
pub fn difference(host: &Host, guest: &Guest) -> (String, f64) {
    let (here, there) = (host.dynamics.position().unwrap(), guest.dynamics.position().unwrap());
    assert_eq!(here.step, there.step);
    assert_eq!(here.lr_factors, there.lr_factors);
    let mut worst = ("theta".to_string(), apart(&host.theta, &guest.theta()));
    assert_eq!(here.state.len(), there.state.len());
    for ((name, a), (name_there, b)) in here.state.iter().zip(&there.state) {
        assert_eq!(name, name_there);
        let off = apart(a, b);
        if off > worst.1 {
            worst = (name.clone(), off);
        }
    }
    if let (Some(a), Some(b)) = (here.carried, there.carried) {
        let off = (a - b).abs() / a.abs().max(f64::MIN_POSITIVE);
        if off > worst.1 {
            worst = ("the carried number".into(), off);
        }
    }
    worst
}

/// The largest difference, as a share of the largest number.
pub fn apart(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let largest = a.iter().fold(f64::MIN_POSITIVE, |max, x| max.max(f64::from(x.abs())));
    let off = |(x, y): (&f32, &f32)| (f64::from(*x) - f64::from(*y)).abs();
    a.iter().zip(b).map(off).fold(0.0, f64::max) / largest
}

/// How two runs are compared.
#[derive(Clone, Copy, PartialEq)]
pub enum Compare {
    /// By where they have come, each on its own.
    Trajectories,
    /// Step by step, each from the host's position: for settings that magnify every rounding.
    Steps,
}

/// What a comparison found.
pub struct Found {
    /// The worst difference after any step, and of what.
    pub off: f64,
    pub what: String,
    /// Steps compared: fewer than [`STEPS`] if the dynamics diverge.
    pub steps: u64,
}

/// Runs both, with a learning rate from outside where the units allow it.
pub fn run_both(algorithm: &Algorithm, prior: Prior, compare: Compare, device: &Device) -> Found {
    /// Settings drawn at random need not be stable; rounding would grow without bound.
    const DIVERGING: f32 = 30.0;
    let target = target(prior);
    let mut host = Host::new(algorithm, &target);
    let mut guest = Guest::new(algorithm, &target, SEGMENT, device);
    let mut worst = difference(&host, &guest);
    assert_eq!(worst.1, 0.0, "{}: the start", algorithm.name());
    let mut steps = 0;
    let from_outside = !matches!(algorithm.step_size(), Some(StepSize::Paper { .. }));
    for t in 1..=STEPS {
        if compare == Compare::Steps {
            guest.dynamics.go_to(host.dynamics.position().unwrap()).unwrap();
            guest.theta = tensor(&host.theta, device);
        }
        if from_outside {
            let falling = Schedule::power(1.1, 3.0, -0.1).at(t);
            host.dynamics.set_lr_factor(falling).unwrap();
            guest.dynamics.set_lr_factor(falling).unwrap();
        }
        host.step();
        if host.theta.iter().any(|x| x.abs() > DIVERGING) {
            break;
        }
        guest.step();
        let off = difference(&host, &guest);
        if off.1 > worst.1 || off.1.is_nan() {
            worst = off;
        }
        steps = t;
    }
    Found { off: worst.1, what: worst.0, steps }
}

/// One or more of every dynamics.
pub fn algorithms() -> Vec<Algorithm> {
    let step = StepSize::heavy_ball(1e-2, 0.9);
    let sampler = Santa::sampler(step.clone(), 9);
    vec![
        Santa::new(1e-2, 20).into(),
        Santa::new(1e-2, 20).euler().into(),
        Santa { gradient_at: GradientAt::Start, smoothing: 0.4, ..Santa::new(1e-2, 20) }.into(),
        sampler.clone().into(),
        Santa { thermostat_reads: ThermostatReads::Velocity, ..sampler.clone() }.into(),
        Santa { corrections: Corrections::On { guard: 0.5 }, ..sampler }.into(),
        Sgld::new(Rate::lr(1e-2)).into(),
        Psgld::new(Rate::lr(1e-3)).into(),
        Psgld {
            gamma: Gamma::On { guard: 0.5 },
            lambda: 0.1,
            freeze_metric_after: Some(25),
            ..Psgld::new(Rate::lr(1e-2))
        }
        .into(),
        Psgld { noiseless: true, lambda: 1e-3, ..Psgld::new(Rate::eta(1e-4)) }.into(),
        Sghmc::new(step.clone()).into(),
        Sghmc::new(step.clone()).b_hat(NoiseEstimate::GradientVariance(1.0)).into(),
        Sghmc { noiseless: true, ..Sghmc::new(step.clone()) }.into(),
        Sgnht::new(step.clone()).into(),
        Msgnht::new(step.clone()).into(),
        Msgnht::new(step).euler().into(),
        Sgd::new(1e-2).into(),
        Sgd::new(1e-2).momentum(0.9).into(),
        Sgd::new(1e-2).momentum(0.9).nesterov().into(),
        Adagrad { initial_v: 0.1, ..Adagrad::new(1e-2) }.into(),
        Adadelta::new(1.0).into(),
        RmsProp::new(1e-2).into(),
        RmsProp { momentum: 0.5, epsilon_inside_root: true, ..RmsProp::new(1e-2) }.into(),
        Adam::new(1e-2).into(),
        Adam { bias_correction: BiasCorrection::Off, ..Adam::new(1e-2) }.into(),
        Adam { bias_correction: BiasCorrection::SwappedRates, ..Adam::new(1e-2) }.into(),
    ]
}

/// A pseudo-random choice among all combinations of Santa's options, with steps that are stable.
pub fn santa(case: u32) -> Santa {
    let stream = Stream::new(11, 0, Purpose::Custom(5));
    let pick = |index: u32, below: u64| stream.below(0, case, index, below) as usize;
    let yes = |index: u32| pick(index, 2) == 1;
    let exploration = [Exploration::Always, Exploration::Never, Exploration::Steps(17)][pick(0, 3)];
    let integrator = [Integrator::Splitting, Integrator::Euler][pick(1, 2)];
    let metric = [Metric::RmsProp { sigma: 0.9 }, Metric::Adagrad, Metric::Identity][pick(2, 3)];
    let falling = Schedule::power(1e-2, 1.0, -0.5);
    let lr = [Schedule::constant(5e-3), falling][pick(3, 2)].clone();
    let step = match pick(4, 3) {
        0 => StepSize::practical(lr, 0.8),
        1 => StepSize::heavy_ball(lr, 0.8),
        _ => StepSize::paper(Schedule::power(1e-4, 1.0, -0.3), 20.0),
    };
    let gradient_at = [GradientAt::Start, GradientAt::Midpoint][pick(5, 2)];
    let midpoint = integrator == Integrator::Splitting && gradient_at == GradientAt::Midpoint;
    Santa {
        integrator,
        gradient_at,
        step,
        beta: InverseTemperature::annealed(Schedule::power(0.8, 1.0, 0.4)),
        exploration,
        alpha_in_refinement: [
            AlphaInRefinement::Frozen,
            AlphaInRefinement::WithTemperature,
            AlphaInRefinement::Accumulating,
        ][pick(6, 3)],
        metric,
        freeze_metric_after: [None, Some(1), Some(22)][pick(7, 3)],
        second_moment_start: [SecondMomentStart::Zero, SecondMomentStart::FirstSquaredGradient]
            [pick(8, 2)],
        lambda: 0.3,
        lambda_refining: yes(9).then_some(0.2),
        diffusion: [Diffusion::SameAsMetric, Diffusion::Constant(5.0), Diffusion::MatchFriction]
            [pick(10, 3)],
        noise_scale: match pick(11, 4) {
            0 => NoiseScale::MainText,
            1 if metric.keeps_history() => NoiseScale::SecondMoment { divisor: 7.0 },
            _ => NoiseScale::Supplement,
        },
        corrections: [Corrections::Off, Corrections::On { guard: 0.5 }][pick(12, 2)],
        smoothing: [0.0, 0.4][pick(13, 2)],
        push: if yes(14) && integrator == Integrator::Splitting {
            Push::Halves
        } else {
            Push::Whole
        },
        rescale: yes(15),
        thermostat_mass: [ThermostatMass::Mass(3.0), ThermostatMass::Spread(0.3)][pick(16, 2)],
        thermostat_reads: if midpoint && yes(22) {
            ThermostatReads::Velocity
        } else {
            ThermostatReads::Momentum
        },
        friction_floor: [None, Some(0.0), Some(0.9)][pick(17, 3)],
        friction_ceiling: [None, Some(1.2)][pick(18, 2)],
        bounds_while_exploring: yes(19),
        initial_momentum: [InitialMomentum::Zero, InitialMomentum::Thermal][pick(20, 2)],
        adam_form: exploration == Exploration::Never && yes(21),
    }
}
