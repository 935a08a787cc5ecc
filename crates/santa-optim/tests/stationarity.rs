//! Lemma 1 and every sampler's own law, from an exact and from a cold start.
//!
//! Where the law is exact but for the step's error: constant metrics, a separable metric given with
//! its derivative, a metric frozen after warm-up. Step sizes are small enough for the integrator's
//! bias to stay below what a check detects. See `ensemble` for how the checks work and for the
//! false-alarm rate.

mod ensemble;

use ensemble::{Check, Ensemble, all_pass, chains, must_fail, normals, seeds, statistic};
use santa::dynamics::{
    Corrections, Diffusion, Exploration, Gamma, GradientAt, InitialMomentum, Metric, Msgnht,
    NoiseEstimate, Psgld, PsgldMetric, Santa, SeparableMetric, Sghmc, Sgld, Sgnht, ThermostatMass,
};
use santa::potential::analytic::DoubleWell;
use santa::stats::{Moments, expectation};
use santa::{Integrator, InverseTemperature, Rate, StepSize, Stepper};
use std::sync::Arc;

/// Standard deviations of the Gaussian targets; chain i has the scale `SCALES[i % 3]`.
const SCALES: [f64; 3] = [1.0, 10.0, 100.0];
const CHAINS: usize = 3 * 1500;

fn scale(i: usize) -> f64 {
    SCALES[i % SCALES.len()]
}

/// A constant metric that fits the scales: g_i = s_i.
struct FitScales;
impl SeparableMetric<f64> for FitScales {
    fn evaluate(&self, first: usize, theta: &[f64], g: &mut [f64], dg: &mut [f64]) {
        for k in 0..theta.len() {
            g[k] = scale(first + k);
            dg[k] = 0.0;
        }
    }
}

/// A metric that is a function of theta.
struct Wave;
impl SeparableMetric<f64> for Wave {
    fn evaluate(&self, _: usize, theta: &[f64], g: &mut [f64], dg: &mut [f64]) {
        for k in 0..theta.len() {
            g[k] = 1.0 + 0.6 * (1.5 * theta[k]).sin();
            dg[k] = 0.9 * (1.5 * theta[k]).cos();
        }
    }
}
fn wave(theta: f64) -> f64 {
    1.0 + 0.6 * (1.5 * theta).sin()
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Start {
    Exact,
    Cold,
}

fn santa(integrator: Integrator, gradient_at: GradientAt, h: f64, beta: f64, mass: f64) -> Santa {
    Santa {
        integrator,
        gradient_at,
        step: StepSize::paper(h * h, G2),
        beta: InverseTemperature::fixed(beta),
        exploration: Exploration::Always,
        metric: Metric::Given,
        diffusion: Diffusion::Constant(G2),
        thermostat_mass: ThermostatMass::Mass(mass),
        ..Santa::default()
    }
}

/// Diffusion of all Gaussian tests, not 1, so that powers of it would show.
const G2: f64 = 1.5;

/// Santa on Gaussians of three scales with a constant metric that fits them.
fn gaussian_checks(settings: Santa, start: Start, seed: u64) -> Vec<Check> {
    let target = chains(CHAINS);
    let StepSize::Paper { eta, .. } = &settings.step else { unreachable!() };
    let h = eta.at(1).sqrt();
    let beta = settings.beta.schedule().at(1);
    let ThermostatMass::Mass(mass) = settings.thermostat_mass else { unreachable!() };
    let settings = Santa { initial_momentum: InitialMomentum::Zero, ..settings };
    let mut stepper =
        Stepper::with_metric(settings, &target, seed, 0, Arc::new(FitScales)).unwrap();
    let mut theta = vec![0.0; CHAINS];
    if start == Start::Exact {
        let root = beta.sqrt();
        theta = normals(seed, 1, CHAINS);
        for (i, x) in theta.iter_mut().enumerate() {
            *x *= scale(i) / root;
        }
        let p = normals(seed, 2, CHAINS);
        let xi = normals(seed, 3, CHAINS);
        for (u, p) in stepper.state_vector_mut("u").unwrap().iter_mut().zip(p) {
            *u = h * p / root;
        }
        for (a, xi) in stepper.state_vector_mut("alpha_shift").unwrap().iter_mut().zip(xi) {
            *a = h * xi / (beta * mass).sqrt();
        }
    }
    let mut ensemble = Ensemble::new(stepper, theta, |_, theta, f| {
        for i in 0..f.len() {
            f[i] = theta[i] / scale(i).powi(2);
        }
    });
    let time = |t: f64| (t / h) as u64;
    if start == Start::Cold {
        ensemble.run(time(40.0)).unwrap();
    }
    let unit = |i: usize, theta: f64| theta * beta.sqrt() / scale(i);
    let xi = |xi: f64| (xi - G2) * (beta * mass).sqrt();
    ensemble
        .observe(
            time(40.0),
            time(0.5),
            &[
                statistic("theta", 0.0, |s| unit(s.i, s.theta)),
                statistic("theta^2", 1.0, |s| unit(s.i, s.theta).powi(2)),
                statistic("theta^4", 3.0, |s| unit(s.i, s.theta).powi(4)),
                statistic("p", 0.0, |s| s.p * beta.sqrt()),
                statistic("p^2", 1.0, |s| s.p * s.p * beta),
                statistic("Xi", 0.0, |s| xi(s.xi)),
                statistic("Xi^2", 1.0, |s| xi(s.xi).powi(2)),
            ],
        )
        .unwrap()
}

#[test]
fn santa_by_midpoint_splitting_follows_lemma_1_on_gaussians() {
    for seed in seeds(1) {
        for (start, beta, mass) in
            [(Start::Exact, 1.0, 1.0), (Start::Cold, 1.0, 1.0), (Start::Exact, 4.0, 0.5)]
        {
            let s = santa(Integrator::Splitting, GradientAt::Midpoint, 0.04, beta, mass);
            let checks = gaussian_checks(s, start, seed);
            all_pass(&format!("midpoint, {start:?}, beta {beta}, mass {mass}"), &checks);
        }
    }
}

#[test]
fn santa_as_printed_follows_lemma_1_on_gaussians_at_small_steps() {
    for seed in seeds(2) {
        for start in [Start::Exact, Start::Cold] {
            let s = santa(Integrator::Splitting, GradientAt::Start, 0.005, 1.0, 1.0);
            all_pass(&format!("as printed, {start:?}"), &gaussian_checks(s, start, seed));
        }
    }
}

#[test]
fn santa_by_euler_follows_lemma_1_on_gaussians_at_small_steps() {
    for seed in seeds(3) {
        for start in [Start::Exact, Start::Cold] {
            let s = santa(Integrator::Euler, GradientAt::Start, 0.005, 1.0, 1.0);
            all_pass(&format!("Euler, {start:?}"), &gaussian_checks(s, start, seed));
        }
    }
}

/// Santa on many copies of the paper's double well, against quadrature.
fn double_well_checks(
    settings: Santa,
    metric: Option<Arc<dyn SeparableMetric<f64>>>,
    seed: u64,
    chains_: usize,
    time: f64,
) -> Vec<Check> {
    let beta = settings.beta.schedule().at(1);
    let StepSize::Paper { eta, .. } = &settings.step else { unreachable!() };
    let h = eta.at(1).sqrt();
    let same = settings.diffusion == Diffusion::SameAsMetric;
    let target = chains(chains_);
    let stepper = match metric {
        Some(metric) => Stepper::with_metric(settings, &target, seed, 0, metric).unwrap(),
        None => Stepper::new(settings, &target, seed, 0).unwrap(),
    };
    // Half of the chains start in either well.
    let theta = (0..chains_).map(|i| [-3.0, 2.0][i % 2]).collect();
    let mut ensemble = Ensemble::new(stepper, theta, |_, theta, f| {
        for i in 0..f.len() {
            f[i] = DoubleWell::du(theta[i]);
        }
    });
    let exact = |of: fn(f64) -> f64| expectation((-9.0, 8.0), |x| beta * DoubleWell::u(x), of);
    ensemble.run((time / h) as u64).unwrap();
    ensemble
        .observe(
            (time / h) as u64,
            (1.0 / h) as u64,
            &[
                statistic("theta", exact(|x| x), |s| s.theta),
                statistic("theta^2", exact(|x| x * x), |s| s.theta * s.theta),
                statistic("U", exact(DoubleWell::u), |s| DoubleWell::u(s.theta)),
                statistic("in the right well", exact(|x| f64::from(x > 0.6)), |s| {
                    f64::from(s.theta > 0.6)
                }),
                statistic("p^2", 1.0, |s| s.p * s.p * beta),
                statistic("Xi - G2", 0.0, |s| {
                    (s.xi - if same { wave(s.theta) } else { 1.0 }) * beta.sqrt()
                }),
                statistic("(Xi - G2)^2", 1.0, |s| {
                    (s.xi - if same { wave(s.theta) } else { 1.0 }).powi(2) * beta
                }),
            ],
        )
        .unwrap()
}

fn well_santa(h: f64, beta: f64) -> Santa {
    Santa {
        step: StepSize::paper(h * h, 1.0),
        beta: InverseTemperature::fixed(beta),
        exploration: Exploration::Always,
        metric: Metric::Identity,
        diffusion: Diffusion::Constant(1.0),
        thermostat_mass: ThermostatMass::Mass(1.0),
        ..Santa::default()
    }
}

#[test]
fn santa_follows_quadrature_on_the_double_well() {
    for seed in seeds(4) {
        let checks = double_well_checks(well_santa(0.03, 0.7), None, seed, 2000, 200.0);
        all_pass("double well, midpoint", &checks);
    }
}

#[test]
fn a_metric_given_with_its_derivative_leaves_the_law_exact() {
    let given = |diffusion| Santa {
        metric: Metric::Given,
        diffusion,
        corrections: Corrections::On { guard: 0.0 },
        ..well_santa(0.02, 0.7)
    };
    for seed in seeds(5) {
        for diffusion in [Diffusion::Constant(1.0), Diffusion::SameAsMetric] {
            let metric = Some(Arc::new(Wave) as _);
            let checks = double_well_checks(given(diffusion), metric, seed, 2000, 200.0);
            all_pass(&format!("metric as a function, {diffusion:?}"), &checks);
        }
        let without = Santa { corrections: Corrections::Off, ..given(Diffusion::Constant(1.0)) };
        let checks = double_well_checks(without, Some(Arc::new(Wave)), seed, 2000, 200.0);
        must_fail("corrections left out", &checks, "theta");
        let without = Santa { corrections: Corrections::Off, ..given(Diffusion::SameAsMetric) };
        let checks = double_well_checks(without, Some(Arc::new(Wave)), seed, 2000, 200.0);
        must_fail("corrections left out, G2 = G1", &checks, "theta");
    }
}

#[test]
fn a_metric_frozen_after_warm_up_leaves_the_law_exact() {
    for seed in seeds(6) {
        let h = 0.05;
        let adaptive =
            Santa { metric: Metric::RmsProp { sigma: 0.9 }, lambda: 0.1, ..well_santa(h, 0.7) };
        let frozen = Santa { freeze_metric_after: Some(500), ..adaptive.clone() };
        let checks = double_well_checks(frozen, None, seed, 2000, 250.0);
        all_pass("RMSprop metric, frozen", &checks);
        let checks = double_well_checks(adaptive, None, seed, 2000, 250.0);
        must_fail("RMSprop metric that goes on adapting", &checks, "theta^2");
    }
}

/// Any sampler on unit Gaussians; returns checks of theta, theta^2 against `variance`, and p^2.
fn unit_gaussian(
    mut stepper: Stepper<f64>,
    seed: u64,
    h: f64,
    variance: f64,
    kinetic: f64,
    gradient_noise: f64,
) -> Vec<Check> {
    let n = stepper.target().dim();
    let root = variance.sqrt();
    let theta = normals(seed, 1, n).iter().map(|z| z * root).collect();
    if let Some(u) = stepper.state_vector_mut("u") {
        for (u, p) in u.iter_mut().zip(normals(seed, 2, n)) {
            *u = h * p * kinetic.sqrt();
        }
    }
    let noise = santa::noise::Stream::new(seed, 0, santa::noise::Purpose::Custom(9));
    let mut z = vec![0.0; n];
    let mut ensemble = Ensemble::new(stepper, theta, move |t, theta, f| {
        if gradient_noise > 0.0 {
            noise.normals(t, 0, 0, &mut z);
        }
        for i in 0..f.len() {
            f[i] = theta[i] + gradient_noise.sqrt() * z[i];
        }
    });
    let time = |t: f64| ((t / h) as u64).max(1);
    ensemble.run(time(30.0)).unwrap();
    ensemble
        .observe(
            time(60.0),
            time(0.5),
            &[
                statistic("theta", 0.0, |s| s.theta),
                statistic("theta^2", variance, |s| s.theta * s.theta),
                statistic("p^2", kinetic, |s| s.p * s.p),
                statistic("Xi", G2, |s| s.xi),
            ],
        )
        .unwrap()
}

#[test]
fn sgld_has_its_exact_variance() {
    for seed in seeds(7) {
        for (eta, beta) in [(0.02, 1.0), (0.2, 1.0), (0.1, 5.0)] {
            let s = Sgld::new(Rate::eta(eta)).beta(InverseTemperature::fixed(beta));
            let stepper = s.init(&chains(4000), seed).unwrap();
            let variance = 1.0 / (beta * (1.0 - eta / 2.0));
            let checks = unit_gaussian(stepper, seed, eta, variance, 1.0, 0.0);
            all_pass(&format!("SGLD, eta {eta}, beta {beta}"), &checks[..2]);
            // The formula without the step's own error is refused where that error is large.
            if eta == 0.2 {
                let naive = Check { expected: 1.0 / beta, ..checks[1].clone() };
                must_fail("SGLD, the step's error neglected", &[naive], "theta^2");
            }
        }
    }
}

/// The stationary variances of theta and p of Euler SGHMC on a unit Gaussian: the fixed point of its
/// linear recursion for the second moments.
fn sghmc_moments(h: f64, c: f64, diffusion: f64, beta: f64, gradient_noise: f64) -> (f64, f64) {
    let (eta, alpha) = (h * h, c * h);
    let kick = 2.0 * diffusion * h * eta / beta + eta * eta * gradient_noise;
    let (mut tt, mut tu, mut uu) = (1.0 / beta, 0.0, eta / beta);
    for _ in 0..200_000 {
        // u' = a u - eta theta + kick, theta' = theta + u'
        let a = 1.0 - alpha;
        let uu2 = a * a * uu - 2.0 * a * eta * tu + eta * eta * tt + kick;
        let tu1 = a * tu - eta * tt;
        (tt, tu, uu) = (tt + 2.0 * tu1 + uu2, tu1 + uu2, uu2);
    }
    (tt, uu / eta)
}

#[test]
fn sghmc_has_its_exact_variances() {
    for seed in seeds(8) {
        for (h, c, beta) in [(0.1, 1.0, 1.0), (0.3, 2.0, 3.0)] {
            let s = Sghmc::new(StepSize::paper(h * h, c)).beta(InverseTemperature::fixed(beta));
            let stepper = s.init(&chains(4000), seed).unwrap();
            let (variance, kinetic) = sghmc_moments(h, c, c, beta, 0.0);
            let checks = unit_gaussian(stepper, seed, h, variance, kinetic, 0.0);
            all_pass(&format!("SGHMC, h {h}, C {c}, beta {beta}"), &checks[..3]);
        }
    }
}

#[test]
fn psgld_is_right_with_a_frozen_or_a_given_metric_and_gamma() {
    for seed in seeds(9) {
        // A constant metric G = s^2 turns every scale into a unit Gaussian.
        struct Square;
        impl SeparableMetric<f64> for Square {
            fn evaluate(&self, first: usize, theta: &[f64], g: &mut [f64], dg: &mut [f64]) {
                for k in 0..theta.len() {
                    g[k] = scale(first + k).powi(2);
                    dg[k] = 0.0;
                }
            }
        }
        let eta = 0.05;
        let constant = Psgld { metric: PsgldMetric::Given, ..Psgld::new(Rate::eta(eta)) };
        let target = chains(CHAINS);
        let stepper = Stepper::with_metric(constant, &target, seed, 0, Arc::new(Square)).unwrap();
        let theta = normals(seed, 1, CHAINS);
        let theta = theta.iter().enumerate().map(|(i, z)| z * scale(i)).collect();
        let mut ensemble = Ensemble::new(stepper, theta, |_, theta, f| {
            for i in 0..f.len() {
                f[i] = theta[i] / scale(i).powi(2);
            }
        });
        ensemble.run(400).unwrap();
        let variance = 1.0 / (1.0 - eta / 2.0);
        let checks = ensemble
            .observe(
                1500,
                15,
                &[
                    statistic("theta", 0.0, |s| s.theta / scale(s.i)),
                    statistic("theta^2", variance, |s| (s.theta / scale(s.i)).powi(2)),
                ],
            )
            .unwrap();
        all_pass("pSGLD, constant metric", &checks);

        // A metric that varies, with and without Gamma.
        let beta = 0.7;
        let well = |gamma| {
            let settings = Psgld {
                metric: PsgldMetric::Given,
                gamma,
                ..Psgld::new(Rate::eta(1e-3)).beta(InverseTemperature::fixed(beta))
            };
            let n = 2000;
            let stepper =
                Stepper::with_metric(settings, &chains(n), seed, 0, Arc::new(Wave)).unwrap();
            let theta = (0..n).map(|i| [-3.0, 2.0][i % 2]).collect();
            let mut ensemble = Ensemble::new(stepper, theta, |_, theta, f| {
                for i in 0..f.len() {
                    f[i] = DoubleWell::du(theta[i]);
                }
            });
            let exact =
                |of: fn(f64) -> f64| expectation((-9.0, 8.0), |x| beta * DoubleWell::u(x), of);
            ensemble.run(60_000).unwrap();
            ensemble
                .observe(
                    60_000,
                    400,
                    &[
                        statistic("theta", exact(|x| x), |s| s.theta),
                        statistic("U", exact(DoubleWell::u), |s| DoubleWell::u(s.theta)),
                    ],
                )
                .unwrap()
        };
        all_pass("pSGLD, metric as a function, Gamma", &well(Gamma::On { guard: 0.1 }));
        must_fail("pSGLD, metric as a function, no Gamma", &well(Gamma::Off), "theta");
    }
}

#[test]
fn thermostats_follow_their_laws() {
    for seed in seeds(10) {
        let n = 4000;
        let splitting = Msgnht::new(StepSize::paper(0.04f64.powi(2), G2));
        let checks =
            unit_gaussian(splitting.init(&chains(n), seed).unwrap(), seed, 0.04, 1.0, 1.0, 0.0);
        all_pass("mSGNHT, splitting", &checks);
        let euler = Msgnht::new(StepSize::paper(0.005f64.powi(2), G2)).euler();
        let checks =
            unit_gaussian(euler.init(&chains(n), seed).unwrap(), seed, 0.005, 1.0, 1.0, 0.0);
        all_pass("mSGNHT, Euler", &checks);
        // One thermostat for all: its friction averages over the chains, so its own law is narrow.
        let sgnht = Sgnht::new(StepSize::paper(0.005f64.powi(2), G2));
        let stepper: Stepper<f64> = sgnht.init(&chains(n), seed).unwrap();
        let checks = unit_gaussian(stepper, seed, 0.005, 1.0, 1.0, 0.0);
        all_pass("SGNHT", &checks[..3]);
    }
}

/// SGNHT has one friction for n parameters: many small systems show its law, $N(A, 1/(n\\beta\\mu))$,
/// also when half of the parameters run on another clock.
#[test]
fn the_friction_of_sgnht_follows_its_law() {
    use santa::{DataSize, Group, Layout, Prior, Target};
    const SYSTEMS: usize = 120;
    const N: usize = 6;
    let (h, mass) = (0.004, 0.5);
    for seed in seeds(12) {
        for lr_scale in [1.0, 4.0] {
            let layout = Layout::new([("slow", vec![N / 2]), ("fast", vec![N / 2])]).unwrap();
            let target = Target::new(layout, DataSize::ONE, Prior::Flat).unwrap();
            let target = target.with_group(Group::new("fast").lr_scale(lr_scale)).unwrap();
            let (mut mean, mut square) = (Moments::default(), Moments::default());
            let (mut theta2, mut naive) = (Moments::default(), Moments::default());
            // Weighted count of the parameters: the variance of xi is 1 / (n beta mu).
            let n = N as f64 / 2.0 * (1.0 + f64::sqrt(lr_scale));
            for system in 0..SYSTEMS {
                let settings =
                    Sgnht { thermostat_mass: mass, ..Sgnht::new(StepSize::paper(h * h, G2)) };
                let mut stepper: Stepper<f64> =
                    Stepper::new(settings, &target, seed, system as u32).unwrap();
                let mut theta = normals(seed + system as u64, 1, N);
                let (mut xi, mut xi2, mut t2, mut looks) = (0.0, 0.0, 0.0, 0.0);
                for t in 0..40_000 {
                    let gradient = theta.clone();
                    stepper.step(&mut theta, &gradient).unwrap();
                    if t >= 8_000 && t % 50 == 0 {
                        let shift = stepper.carried().unwrap();
                        xi += shift;
                        xi2 += shift * shift;
                        t2 += theta.iter().map(|x| x * x).sum::<f64>() / N as f64;
                        looks += 1.0;
                    }
                }
                mean.push(xi / looks);
                square.push(xi2 / looks * n * mass);
                naive.push(xi2 / looks * n);
                theta2.push(t2 / looks);
            }
            let check = |name: &str, m: &Moments, expected| Check {
                name: name.into(),
                observed: m.mean(),
                expected,
                standard_error: m.standard_error(),
                effective_samples: SYSTEMS as f64,
            };
            let what = format!("SGNHT's friction, second clock {lr_scale}");
            all_pass(
                &what,
                &[
                    check("xi - A", &mean, 0.0),
                    check("(xi - A)^2 n mu", &square, 1.0),
                    check("theta^2", &theta2, 1.0),
                ],
            );
            must_fail("the mass forgotten", &[check("xi^2", &naive, 1.0)], "xi^2");
        }
    }
}

/// Gradient noise of variance V: the thermostat takes it up into Xi and leaves theta alone.
#[test]
fn a_thermostat_absorbs_gradient_noise_where_sghmc_needs_to_be_told() {
    let (h, n) = (0.05, 4000);
    let v = 40.0; // B = h V / 2 = 1, against G2 = 1.5
    for seed in seeds(11) {
        let mut santa = well_santa(h, 1.0);
        santa.step = StepSize::paper(h * h, G2);
        santa.diffusion = Diffusion::Constant(G2);
        let stepper = santa.init(&chains(n), seed).unwrap();
        let mut checks = unit_gaussian(stepper, seed, h, 1.0, 1.0, v);
        let told = G2 + 0.5 * h * v;
        checks[3].expected = told;
        all_pass("Santa with gradient noise", &checks);
        checks[3].expected = G2;
        must_fail("Santa with gradient noise, Xi without it", &checks, "Xi");

        let sghmc = |b_hat| {
            let s = Sghmc::new(StepSize::paper(h * h, G2)).b_hat(b_hat);
            unit_gaussian(s.init(&chains(n), seed).unwrap(), seed, h, 1.0, 1.0, v)
        };
        let (variance, kinetic) = sghmc_moments(h, G2, G2 - 0.5 * h * v, 1.0, v);
        let mut checks = sghmc(NoiseEstimate::GradientVariance(v));
        checks[1].expected = variance;
        checks[2].expected = kinetic;
        assert!((variance - 1.0).abs() < 0.01, "the step's own error: {variance}");
        all_pass("SGHMC with B-hat", &checks[..3]);
        must_fail("SGHMC without B-hat", &sghmc(NoiseEstimate::Zero), "theta^2");
    }
}
