//! Santa in its plainest form: one parameter at a time, in double precision, line by line as the
//! paper has it. The fused kernel is tested against it under every combination of options.

use super::*;
use crate::dynamics::engine::{Context, Kernel};
use crate::noise::{Purpose, Stream};
use crate::schedule::Schedule;
use crate::{Layout, Prior, Real, Stepper, Target};
use std::sync::Arc;

/// State of one parameter. $\alpha$ is stored whole here.
#[derive(Clone, Copy, Debug)]
struct Element {
    theta: f64,
    u: f64,
    alpha: f64,
    v: f64,
    f_smooth: f64,
}

/// A scalar step: settings, t, N, the element, its mean gradient, its noise.
type Step = fn(&Santa, u64, f64, &mut Element, f64, f64);

/// A metric for [`Metric::Given`]: g = 1 + sin(theta)/2.
struct Wave;
impl Wave {
    fn g(theta: f64) -> f64 {
        1.0 + 0.5 * theta.sin()
    }
    fn dg(theta: f64) -> f64 {
        0.5 * theta.cos()
    }
}
impl<F: Real> SeparableMetric<F> for Wave {
    fn evaluate(&self, _: usize, theta: &[F], g: &mut [F], dg: &mut [F]) {
        for i in 0..theta.len() {
            g[i] = F::from_f64(Wave::g(theta[i].to_f64()));
            dg[i] = F::from_f64(Wave::dg(theta[i].to_f64()));
        }
    }
}

/// One step. `f_bar` is the mean gradient of U, prior included, at the theta that is stored.
fn step(s: &Santa, t: u64, n: f64, e: &mut Element, f_bar: f64, zeta: f64) {
    let eta_at = |t: u64| match &s.step {
        StepSize::Paper { eta, .. } => eta.at(t),
        _ => unreachable!("the tests use the paper's units"),
    };
    let StepSize::Paper { c, .. } = s.step else { unreachable!() };
    let eta = eta_at(t);
    let h = eta.sqrt();
    let beta = s.beta.schedule().at(t);
    let exploring = match s.exploration {
        Exploration::Steps(last) => t <= last,
        Exploration::Always => true,
        Exploration::Never => false,
    };
    // alpha_0 of this step, for bounds and for G_2
    let eta_of_alpha0 = match s.exploration {
        Exploration::Steps(last) if s.rescale => eta_at(t.min(last).max(1)),
        Exploration::Always if s.rescale => eta,
        _ => eta_at(1),
    };
    let alpha0 = c * eta_of_alpha0.sqrt();
    let mu = match s.thermostat_mass {
        ThermostatMass::Mass(mu) => mu,
        ThermostatMass::Spread(share) => 1.0 / (share * alpha0 / h).powi(2),
    };

    // Smoothed gradient
    let mut f = f_bar;
    if s.smoothing > 0.0 {
        if t > 1 {
            f = s.smoothing * e.f_smooth + (1.0 - s.smoothing) * f_bar;
        }
        e.f_smooth = f;
    }

    // Metric
    let frozen = s.freeze_metric_after.is_some_and(|last| t > last);
    let lambda_step = if frozen { s.freeze_metric_after.unwrap() } else { t };
    let lambda_exploring = match s.exploration {
        Exploration::Steps(last) => lambda_step <= last,
        Exploration::Always => true,
        Exploration::Never => false,
    };
    let lambda = if lambda_exploring { s.lambda } else { s.lambda_refining.unwrap_or(s.lambda) };
    let root = |v: f64| 1.0 / (lambda + v.sqrt()).sqrt();
    let mut g_before;
    let mut g;
    match s.metric {
        Metric::Identity => (g, g_before) = (1.0, 1.0),
        Metric::Given => {
            g = Wave::g(e.theta);
            g_before = g;
        }
        Metric::RmsProp { .. } | Metric::Adagrad => {
            g_before = root(e.v);
            if !frozen {
                e.v = match s.metric {
                    _ if t == 1
                        && s.second_moment_start == SecondMomentStart::FirstSquaredGradient =>
                    {
                        f * f
                    }
                    Metric::RmsProp { sigma } => sigma * e.v + (1.0 - sigma) * f * f,
                    _ => e.v + f * f,
                };
            }
            g = root(e.v);
            if t == 1 && s.second_moment_start == SecondMomentStart::FirstSquaredGradient {
                g_before = g; // there was no metric before
            }
        }
    }

    // Continuity of p and Xi when eta changes
    if s.rescale && exploring && t > 1 {
        let r = (eta / eta_at(t - 1)).sqrt();
        e.u *= r;
        e.alpha *= r;
    }

    // G_2 and the noise's standard deviation
    let g2 = match s.diffusion {
        Diffusion::SameAsMetric => g_before,
        Diffusion::Constant(g2) => g2,
        Diffusion::MatchFriction => alpha0 / h,
    };
    let noise = if exploring {
        zeta * match s.noise_scale {
            NoiseScale::Supplement => 2.0 * g2 * eta.powf(1.5) / beta,
            NoiseScale::MainText => 2.0 * g2 * eta / beta,
            NoiseScale::SecondMoment { divisor } => 2.0 * eta * e.v / (beta * divisor),
        }
        .sqrt()
    } else {
        0.0
    };

    // eta (grad G_1 / beta + mu G_1 (Xi - G_2) grad G_2), with the gradients of the metric where the
    // gradient of U was taken
    let gradient_g = match (s.corrections, s.metric) {
        (Corrections::Off, _) | (_, Metric::Identity) => 0.0,
        (_, Metric::Given) => Wave::dg(e.theta),
        (Corrections::On { guard }, _) => {
            let epsilon = guard * (eta / beta).sqrt();
            (g - g_before) / g * e.u / (e.u * e.u + epsilon * epsilon)
        }
    };
    let correction = |alpha: f64| {
        let in_g2 = match s.diffusion {
            Diffusion::SameAsMetric => mu * g * (alpha / h - g_before) * gradient_g,
            _ => 0.0,
        };
        if exploring { eta * (gradient_g / beta + in_g2) } else { 0.0 }
    };

    // dXi = (p^2 - 1/beta) / mu dt
    let heat = |alpha: &mut f64, u: f64, part: f64| {
        if exploring || s.alpha_in_refinement == AlphaInRefinement::WithTemperature {
            *alpha += part * (u * u - eta / beta) / mu;
        } else if s.alpha_in_refinement == AlphaInRefinement::Accumulating {
            *alpha += part * u * u / mu;
        }
    };
    // Within its bounds, where they hold.
    let friction = |alpha: &mut f64| {
        if exploring && !s.bounds_while_exploring {
            return *alpha;
        }
        let floor = s.friction_floor.map_or(f64::NEG_INFINITY, |multiple| multiple * alpha0);
        let ceiling = s.friction_ceiling.map_or(f64::INFINITY, |multiple| multiple * alpha0);
        let bounded = alpha.max(floor).min(ceiling);
        *alpha = bounded;
        bounded
    };
    let push = -eta * n * g * f;

    if s.integrator == Integrator::Euler {
        heat(&mut e.alpha, e.u, 1.0);
        let alpha = friction(&mut e.alpha);
        let push = if s.adam_form { alpha * push } else { push };
        e.u = (1.0 - alpha) * e.u + push + correction(alpha) + noise;
        e.theta += g * e.u;
        return;
    }
    let start = s.gradient_at == GradientAt::Start;
    if start {
        e.theta += g * e.u / 2.0;
        heat(&mut e.alpha, e.u, 0.5);
    }
    let alpha = friction(&mut e.alpha);
    let u_before = e.u;
    let push = if s.adam_form { 2.0 * (alpha / 2.0).sinh() * push } else { push };
    let (first, second) = if s.push == Push::Halves { (0.5, 0.5) } else { (1.0, 0.0) };
    e.u *= (-alpha / 2.0).exp();
    e.u += first * push + correction(alpha) + noise;
    e.u *= (-alpha / 2.0).exp();
    e.u += second * push;
    if start {
        heat(&mut e.alpha, e.u, 0.5);
        e.theta += g * e.u / 2.0;
    } else {
        match s.thermostat_reads {
            ThermostatReads::Momentum => heat(&mut e.alpha, e.u, 1.0),
            // ((u_before + u) / 2)^2 - e^(-alpha/2) eta / beta
            ThermostatReads::Velocity => {
                let velocity = (u_before + e.u) / 2.0;
                let excess = eta / beta * (1.0 - (-alpha / 2.0).exp());
                if exploring || s.alpha_in_refinement == AlphaInRefinement::WithTemperature {
                    e.alpha += excess / mu;
                }
                heat(&mut e.alpha, velocity, 1.0);
            }
        }
        if s.metric == Metric::Given {
            g = 0.5 * (g + Wave::g(e.theta + g * e.u));
        }
        e.theta += g * e.u;
    }
}

const N: u64 = 10;
const PRECISION: f64 = 2.0;

/// Mean gradient of the loss, smooth and not linear.
fn loss_gradient(theta: f64) -> f64 {
    0.3 * theta + 0.2 * (2.0 * theta).cos()
}

/// A pseudo-random choice among all combinations of options.
fn settings(case: u32) -> Santa {
    let stream = Stream::new(77, 0, Purpose::Custom(1));
    let pick = |index: u32, below: u64| stream.below(0, case, index, below);
    let unit = |index: u32| stream.uniform(1, case, index);
    let yes = |index: u32| pick(index, 2) == 1;
    let exploration = match pick(0, 3) {
        0 => Exploration::Always,
        1 => Exploration::Never,
        _ => Exploration::Steps(6),
    };
    let integrator = if yes(1) { Integrator::Euler } else { Integrator::Splitting };
    let metric = match pick(2, 4) {
        0 => Metric::Identity,
        1 => Metric::Adagrad,
        2 => Metric::Given,
        _ => Metric::RmsProp { sigma: 0.5 + 0.49 * unit(0) },
    };
    let eta = if yes(3) {
        Schedule::constant(1e-3 + 1e-2 * unit(1))
    } else {
        Schedule::power(1e-2, 1.0, -0.7)
    };
    let gradient_at = if yes(4) { GradientAt::Start } else { GradientAt::Midpoint };
    let midpoint = integrator == Integrator::Splitting && gradient_at == GradientAt::Midpoint;
    Santa {
        integrator,
        gradient_at,
        step: StepSize::paper(eta, 0.5 + 3.0 * unit(2)),
        beta: InverseTemperature::annealed(Schedule::power(0.5 + unit(3), 0.0, unit(4))),
        exploration,
        alpha_in_refinement: match pick(5, 3) {
            0 => AlphaInRefinement::Frozen,
            1 => AlphaInRefinement::WithTemperature,
            _ => AlphaInRefinement::Accumulating,
        },
        metric,
        freeze_metric_after: yes(6).then_some(1 + pick(7, 12)),
        second_moment_start: if yes(8) {
            SecondMomentStart::Zero
        } else {
            SecondMomentStart::FirstSquaredGradient
        },
        lambda: 0.01 + 0.1 * unit(5),
        lambda_refining: yes(9).then_some(0.02),
        diffusion: match pick(10, 3) {
            0 => Diffusion::SameAsMetric,
            1 => Diffusion::Constant(0.3 + unit(6)),
            _ => Diffusion::MatchFriction,
        },
        noise_scale: match pick(11, 4) {
            0 => NoiseScale::MainText,
            1 if metric.keeps_history() => NoiseScale::SecondMoment { divisor: 7.0 },
            _ => NoiseScale::Supplement,
        },
        corrections: if yes(12) { Corrections::On { guard: 0.2 } } else { Corrections::Off },
        smoothing: if yes(13) { 0.4 } else { 0.0 },
        push: if yes(14) && integrator == Integrator::Splitting {
            Push::Halves
        } else {
            Push::Whole
        },
        rescale: yes(15),
        thermostat_mass: if yes(16) {
            ThermostatMass::Mass(0.3)
        } else {
            ThermostatMass::Spread(0.5)
        },
        thermostat_reads: if midpoint && yes(22) {
            ThermostatReads::Velocity
        } else {
            ThermostatReads::Momentum
        },
        friction_floor: [None, Some(0.0), Some(0.9)][pick(17, 3) as usize],
        friction_ceiling: yes(18).then_some(1.2),
        bounds_while_exploring: yes(21),
        initial_momentum: if yes(19) { InitialMomentum::Zero } else { InitialMomentum::Thermal },
        adam_form: exploration == Exploration::Never && yes(20),
    }
}

/// Largest difference, relative to 1 + |theta|, between kernel and reference over some steps.
fn difference<F: Real>(
    s: &Santa,
    len: usize,
    reference: impl Fn(&Santa, u64, f64, &mut Element, f64, f64),
) -> f64 {
    const SEED: u64 = 5;
    const STEPS: u64 = 15;
    let n = DataSize::new(N).unwrap();
    let layout = Layout::flat(len).unwrap();
    let target = Target::new(layout, n, Prior::gaussian(PRECISION)).unwrap();
    let mut stepper: Stepper<F> = if s.metric == Metric::Given {
        Stepper::with_metric(s.clone(), &target, SEED, 0, Arc::new(Wave)).unwrap()
    } else {
        Stepper::new(s.clone(), &target, SEED, 0).unwrap()
    };
    let mut theta: Vec<F> = (0..len).map(|i| F::from_f64((i as f64 * 0.7).sin() * 2.0)).collect();
    let alpha0 = stepper.physics(0).unwrap().unwrap().alpha0;
    let u = stepper.state_vector("u").unwrap().to_vec();
    let mut elements: Vec<Element> = (0..len)
        .map(|i| Element {
            theta: theta[i].to_f64(),
            u: u[i].to_f64(),
            alpha: alpha0,
            v: 0.0,
            f_smooth: 0.0,
        })
        .collect();
    let noise = Stream::new(SEED, 0, Purpose::Dynamics);
    let mut zeta = vec![F::ZERO; len];
    let mut worst = 0.0f64;
    for t in 1..=STEPS {
        let gradient: Vec<F> =
            theta.iter().map(|x| F::from_f64(loss_gradient(x.to_f64()))).collect();
        noise.normals(t, 0, 0, &mut zeta);
        for (e, z) in elements.iter_mut().zip(&zeta) {
            let f_bar = loss_gradient(e.theta) + PRECISION / N as f64 * e.theta;
            reference(s, t, N as f64, e, f_bar, z.to_f64());
        }
        // Some combinations have no stable step of this size; rounding then grows without bound.
        const DIVERGING: f64 = 30.0;
        let far = |e: &Element| e.theta.abs().max(e.u.abs()).max(e.alpha.abs()) > DIVERGING;
        if elements.iter().any(far) {
            break;
        }
        stepper.step(&mut theta, &gradient).unwrap();
        let alpha = stepper.friction().unwrap().unwrap();
        let u = stepper.state_vector("u").unwrap();
        for (i, e) in elements.iter().enumerate() {
            let off = |a: f64, b: f64| (a - b).abs() / (1.0 + b.abs());
            let here = off(theta[i].to_f64(), e.theta)
                .max(off(u[i].to_f64(), e.u))
                .max(off(alpha[i], e.alpha));
            worst = worst.max(here);
        }
    }
    worst
}

const CASES: u32 = 1500;

#[test]
fn the_fused_kernel_matches_the_scalar_reference_under_every_option() {
    for case in 0..CASES {
        let s = settings(case);
        let len = [1, 63, 64, 65, 127, 128, 300][case as usize % 7];
        let off = difference::<f64>(&s, len, step);
        assert!(off < 1e-9, "case {case}, f64: off by {off:e}\n{s:#?}");
        let off = difference::<f32>(&s, len, step);
        // The corrections divide by u, which magnifies rounding.
        let tolerance = if s.corrections == Corrections::Off { 2e-3 } else { 2e-2 };
        assert!(off < tolerance, "case {case}, f32: off by {off:e}\n{s:#?}");
    }
}

/// The presets run on the single loop of `midpoint.rs`: each of its nine instances, at lengths with
/// whole blocks alone, several of them, and a rest.
#[test]
fn the_single_loop_matches_the_scalar_reference_in_all_its_instances() {
    let frozen = Some(5);
    for exploration in [Exploration::Always, Exploration::Never, Exploration::Steps(7)] {
        for (metric, freeze_metric_after) in [
            (Metric::RmsProp { sigma: 0.9 }, None),
            (Metric::RmsProp { sigma: 0.9 }, frozen),
            (Metric::Adagrad, frozen),
            (Metric::Identity, None),
        ] {
            let reads = [ThermostatReads::Momentum, ThermostatReads::Velocity];
            for (bounds_while_exploring, thermostat_reads) in
                reads.iter().flat_map(|reads| [(false, *reads), (true, *reads)])
            {
                let s = Santa {
                    thermostat_reads,
                    step: StepSize::paper(2e-3, 2.0),
                    lambda: 0.05,
                    exploration,
                    metric,
                    freeze_metric_after,
                    bounds_while_exploring,
                    ..Santa::default()
                };
                let n = DataSize::new(N).unwrap();
                let target = Target::new(Layout::flat(1).unwrap(), n, Prior::Flat).unwrap();
                let lr = LrScale::group(1.0);
                let context = Context { t: 10, target: &target, lr, lr_ratio: 1.0 };
                let kernel = SantaKernel::<f64> { settings: s.clone(), given: None };
                assert!(SantaKernel::has_whole(&kernel.scalars(&context).unwrap()), "{s:#?}");
                for len in [128, 256, 300] {
                    let off = difference::<f64>(&s, len, step);
                    assert!(off < 1e-12, "f64: off by {off:e}\n{s:#?}");
                    let off = difference::<f32>(&s, len, step);
                    assert!(off < 1e-4, "f32: off by {off:e}\n{s:#?}");
                }
                let spoiled: Step = |s, t, n, e, f, z| step(s, t, n, e, 1.001 * f, z);
                assert!(difference::<f64>(&s, 128, spoiled) > 1e-6);
            }
        }
    }
}

/// Mistakes in the reference must show, or the comparison proves nothing.
#[test]
fn the_comparison_notices_a_wrong_reference() {
    let wrong: [(&str, Step); 4] = [
        ("noise of the wrong sign", |s, t, n, e, f, z| step(s, t, n, e, f, -z)),
        ("noise short of a root of two", |s, t, n, e, f, z| step(s, t, n, e, f, z * 0.5f64.sqrt())),
        ("N forgotten", |s, t, _, e, f, z| step(s, t, 1.0, e, f, z)),
        ("the prior twice", |s, t, n, e, f, z| {
            step(s, t, n, e, f + PRECISION / N as f64 * e.theta, z)
        }),
    ];
    for (what, reference) in wrong {
        let s = Santa { exploration: Exploration::Always, adam_form: false, ..settings(0) };
        assert!(difference::<f64>(&s, 65, reference) > 1e-4, "{what} went unnoticed");
    }
}
