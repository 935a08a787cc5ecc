//! Dynamics that become one another when something is switched off.
//!
//! Each test states its conditions and demands agreement up to rounding over 200 steps on a gradient
//! that is not linear; beside it a violated condition makes the two part. The measured distances are
//! printed with `--nocapture`.

use santa::dynamics::{
    Adam, BiasCorrection, Diffusion, Exploration, GradientAt, InitialMomentum, Metric, Msgnht,
    Psgld, RmsProp, SecondMomentStart, Sgd, Sghmc, ThermostatMass,
};
use santa::noise::{Purpose, Stream};
use santa::{
    Algorithm, DataSize, Integrator, InverseTemperature, Layout, Prior, Rate, Santa, StepSize,
    Stepper, Target,
};

const DIM: usize = 7;
const STEPS: u64 = 200;
/// N of the target.
const N: u64 = 50;
/// What rounding explains over the steps.
const SAME: f64 = 1e-12;
/// What it cannot explain.
const APART: f64 = 1e-6;

fn target() -> Target {
    let n = DataSize::new(N).unwrap();
    Target::new(Layout::flat(DIM).unwrap(), n, Prior::gaussian(2.0)).unwrap()
}

/// Mean gradient of a loss with bumps, different for each element and, as of minibatches, each step.
fn gradient(t: u64, theta: &[f64]) -> Vec<f64> {
    let one = |(i, x): (usize, &f64)| {
        let i = i as f64;
        (1.0 + 0.3 * i) * (x - 1.0) + 0.8 * (2.0 * x + i).sin() + 0.3 * (i + 0.7 * t as f64).cos()
    };
    theta.iter().enumerate().map(one).collect()
}

fn start() -> Vec<f64> {
    (0..DIM).map(|i| 3.0 - i as f64).collect()
}

/// A stepper on the test's target, always with the same seed.
fn build(algorithm: impl Into<Algorithm>) -> Stepper<f64> {
    Stepper::new(algorithm, &target(), 2016, 0).unwrap()
}

/// theta after each step.
fn run(stepper: &mut Stepper<f64>) -> Vec<Vec<f64>> {
    let mut theta = start();
    (1..=STEPS)
        .map(|t| {
            let f = gradient(t, &theta);
            stepper.step(&mut theta, &f).unwrap();
            theta.clone()
        })
        .collect()
}

fn trajectory(algorithm: impl Into<Algorithm>) -> Vec<Vec<f64>> {
    run(&mut build(algorithm))
}

/// Largest distance of two trajectories, relative to the size of theta, which is about one.
fn distance(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.map(|(x, y)| (x - y).abs() / y.abs().max(1.0)).fold(0.0, f64::max)
}

#[track_caller]
fn assert_same(what: &str, a: &[Vec<f64>], b: &[Vec<f64>]) {
    let d = distance(a, b);
    println!("{what}: {d:.1e}");
    assert!(d < SAME, "{what}: they part by {d}");
}

#[track_caller]
fn assert_apart(what: &str, a: &[Vec<f64>], b: &[Vec<f64>]) {
    let d = distance(a, b);
    println!("{what}: {d:.1e}, as it should");
    assert!(d > APART, "{what}: they agree to {d}");
}

/// $\eta$ and the friction of the reductions to SGD with momentum.
const ETA: f64 = 1e-3;
const ALPHA_0: f64 = 0.15;

/// Santa without temperature and metric, at rest: a heavy ball in its own units.
fn cold_santa(integrator: Integrator, gradient_at: GradientAt) -> Santa {
    Santa {
        integrator,
        gradient_at,
        step: StepSize::paper(ETA, ALPHA_0 / ETA.sqrt()),
        exploration: Exploration::Never,
        metric: Metric::Identity,
        initial_momentum: InitialMomentum::Zero,
        ..Santa::default()
    }
}

/// Conditions: no exploration (hence no noise, and alpha frozen at $\alpha_0$), identity metric,
/// constant $\eta$, $u_0 = 0$. Then $u \leftarrow (1-\alpha_0) u - \eta N \bar f$,
/// $\theta \mathrel{+}= u$: the heavy ball with $lr = \eta N$ and momentum $1 - \alpha_0$.
#[test]
fn cold_santa_by_euler_is_sgd_with_momentum() {
    let santa = cold_santa(Integrator::Euler, GradientAt::Midpoint);
    let sgd = Sgd::new(ETA * N as f64).momentum(1.0 - ALPHA_0);
    let expected = trajectory(sgd);
    assert_same("cold Santa-E and SGD-M", &trajectory(santa.clone()), &expected);

    let warm = Santa { initial_momentum: InitialMomentum::Thermal, ..santa.clone() };
    assert_apart("with a thermal start", &trajectory(warm), &expected);
    let explored = Santa { exploration: Exploration::Steps(1), ..santa.clone() };
    assert_apart("after one step of exploration", &trajectory(explored), &expected);
    let preconditioned = Santa { metric: Metric::RmsProp { sigma: 0.99 }, ..santa };
    assert_apart("with a metric", &trajectory(preconditioned), &expected);
}

/// Conditions as for Euler. With the gradient at the midpoint, the stored theta obeys
/// $u \leftarrow e^{-\alpha_0} u - e^{-\alpha_0/2} \eta N \bar f$, $\theta \mathrel{+}= u$: the heavy
/// ball with momentum $e^{-\alpha_0}$ and $lr = \eta N e^{-\alpha_0/2}$. The paper's iterate at the
/// end of a step is the stored one less $u/2$.
#[test]
fn cold_santa_by_midpoint_splitting_is_sgd_with_momentum() {
    let santa = cold_santa(Integrator::Splitting, GradientAt::Midpoint);
    let eta_n = ETA * N as f64;
    let sgd = |momentum: f64| Sgd::new(eta_n * (-ALPHA_0 / 2.0).exp()).momentum(momentum);
    let stored = trajectory(santa.clone());
    assert_same("cold Santa and SGD-M", &stored, &trajectory(sgd((-ALPHA_0).exp())));
    assert_apart("with Euler's momentum", &stored, &trajectory(sgd(1.0 - ALPHA_0)));

    // The five steps A B O B A written out, with the iterate of the paper.
    let (mut theta, mut u) = (start(), vec![0.0; DIM]);
    let ridge = 2.0 / N as f64; // the prior in the mean gradient
    let mut printed = Vec::new();
    for t in 1..=STEPS {
        (0..DIM).for_each(|i| theta[i] += u[i] / 2.0);
        let f = gradient(t, &theta);
        for i in 0..DIM {
            u[i] *= (-ALPHA_0 / 2.0).exp();
            u[i] -= eta_n * (f[i] + ridge * theta[i]);
            u[i] *= (-ALPHA_0 / 2.0).exp();
            theta[i] += u[i] / 2.0;
        }
        printed.push(theta.clone());
    }
    let mut stepper = build(santa);
    let mut theta = start();
    let mut ends = Vec::new();
    for t in 1..=STEPS {
        let f = gradient(t, &theta);
        stepper.step(&mut theta, &f).unwrap();
        let u = stepper.state_vector("u").unwrap();
        ends.push(theta.iter().zip(u).map(|(x, u)| x - u / 2.0).collect());
    }
    assert_same("the stored iterate less u/2 and the paper's", &ends, &printed);
    assert_apart("the stored iterate and the paper's", &stored, &printed);
}

/// The gradient at the start, as printed: theta moves by the mean of two momenta, which is no heavy
/// ball with the gradient at its iterates. The distance printed is that to the midpoint's SGD-M.
#[test]
fn cold_santa_by_the_printed_splitting_is_not_sgd_with_momentum() {
    let santa = cold_santa(Integrator::Splitting, GradientAt::Start);
    let lr = ETA * N as f64 * (-ALPHA_0 / 2.0).exp();
    let sgd = Sgd::new(lr).momentum((-ALPHA_0).exp());
    assert_apart("the printed splitting and SGD-M", &trajectory(santa), &trajectory(sgd));
}

/// Conditions: no noise, hence $u_0 = 0$. Then $lr = \eta N$ and momentum $1 - \alpha$.
#[test]
fn sghmc_without_noise_is_sgd_with_momentum() {
    let (lr, momentum) = (0.03, 0.9);
    let expected = trajectory(Sgd::new(lr).momentum(momentum));
    let sghmc = |step| Sghmc { noiseless: true, ..Sghmc::new(step) };
    let heavy_ball = trajectory(sghmc(StepSize::heavy_ball(lr, momentum)));
    assert_same("noiseless SGHMC and SGD-M", &heavy_ball, &expected);
    let eta = lr / N as f64;
    let paper = trajectory(sghmc(StepSize::paper(eta, (1.0 - momentum) / eta.sqrt())));
    assert_same("the same in the paper's units", &paper, &expected);

    let noisy = trajectory(Sghmc::new(StepSize::heavy_ball(lr, momentum)));
    assert_apart("with the noise", &noisy, &expected);
    let practical = trajectory(sghmc(StepSize::practical(lr, momentum)));
    assert_apart("with lr read as Adam's", &practical, &expected);
}

/// Conditions: no noise, no $\Gamma$, the same memory $\sigma = \rho$, and
/// $\lambda = \epsilon$ beside the root.
#[test]
fn psgld_without_noise_and_gamma_is_rmsprop() {
    let (lr, sigma, lambda) = (0.02, 0.95, 1e-3);
    let psgld = Psgld { sigma, lambda, noiseless: true, ..Psgld::new(Rate::lr(lr)) };
    let rmsprop = RmsProp { rho: sigma, epsilon: lambda, ..RmsProp::new(lr) };
    let expected = trajectory(rmsprop.clone());
    assert_same("noiseless pSGLD and RMSprop", &trajectory(psgld.clone()), &expected);

    let inside = trajectory(RmsProp { epsilon_inside_root: true, ..rmsprop });
    assert_apart("with epsilon under the root", &trajectory(psgld.clone()), &inside);
    let noisy = trajectory(Psgld { noiseless: false, ..psgld });
    assert_apart("with the noise", &noisy, &expected);
}

/// Conditions: a thermostat too heavy to move ($\mu = 10^{30}$), so that $\alpha$ stays where the
/// diffusion put it, Euler's scheme, $\hat B = 0$, one seed. Both draw $u_0$ from
/// $N(0, \eta/\beta)$ by the same stream.
#[test]
fn msgnht_with_a_frozen_thermostat_is_sghmc() {
    const IMMOVABLE: f64 = 1e30;
    let step = StepSize::heavy_ball(0.02, 0.9);
    let beta = InverseTemperature::fixed(1.5);
    let sghmc = Sghmc::new(step.clone()).beta(beta.clone());
    let light = Msgnht::new(step).euler().beta(beta);
    let msgnht = Msgnht { thermostat_mass: IMMOVABLE, ..light.clone() };

    let momentum = |stepper: Stepper<f64>| stepper.state_vector("u").unwrap().to_vec();
    let u = momentum(build(sghmc.clone()));
    assert_eq!(u, momentum(build(msgnht.clone())));
    assert!(u.iter().all(|x| *x != 0.0));

    let expected = trajectory(sghmc);
    assert_same(
        "mSGNHT with a frozen thermostat and SGHMC",
        &trajectory(msgnht.clone()),
        &expected,
    );
    assert_apart("with the thermostat of mass one", &trajectory(light), &expected);
    let splitting = Msgnht { integrator: Integrator::Splitting, ..msgnht };
    assert_apart("by splitting", &trajectory(splitting), &expected);
}

/// Conditions: Euler, no exploration, $u_0 = 0$, `adam_form`, the same constant second moment on
/// both sides, $\lambda = \epsilon$, no bias correction, $\beta_1 = 1 - \alpha$, $\eta N = lr$.
/// Then $m = -u / (\eta N g)$ obeys $m \leftarrow (1-\alpha) m + \alpha \bar f$, and
/// $\theta \mathrel{-}= \eta N g^2 m$ with $g^2 = 1/(\lambda + \sqrt v)$: Adam's step.
///
/// With the moving metric the gradients in u have the g of their own steps, in Adam all that of the
/// last one: here, with $\sigma = \beta_2 = 0.99$ and $v_0 = 0$, the two part by up to 0.16.
#[test]
fn santa_in_adams_form_with_a_constant_metric_is_adam() {
    let (lr, momentum, epsilon) = (0.02, 0.9, 1e-3);
    // The heaviest memory below one: over the whole run v changes in its last digits only.
    let constant = 1.0 - f64::EPSILON / 2.0;
    let v: Vec<f64> = (0..DIM).map(|i| 0.5 + i as f64).collect();
    let santa = Santa {
        integrator: Integrator::Euler,
        step: StepSize::practical(lr, momentum),
        exploration: Exploration::Never,
        metric: Metric::RmsProp { sigma: constant },
        second_moment_start: SecondMomentStart::Zero,
        lambda: epsilon,
        initial_momentum: InitialMomentum::Zero,
        adam_form: true,
        ..Santa::default()
    };
    let adam = Adam {
        beta1: momentum,
        beta2: constant,
        epsilon,
        bias_correction: BiasCorrection::Off,
        ..Adam::new(lr)
    };
    let with_v = |algorithm: Algorithm| {
        let mut stepper = build(algorithm);
        stepper.state_vector_mut("v").unwrap().copy_from_slice(&v);
        run(&mut stepper)
    };
    let ours = with_v(santa.clone().into());
    assert_same("Santa in Adam's form and Adam, constant v", &ours, &with_v(adam.clone().into()));

    // Adam's recursion written out at a v that is constant to the last bit.
    let (mut theta, mut m) = (start(), vec![0.0; DIM]);
    let ridge = 2.0 / N as f64; // the prior in the mean gradient
    let mut plain = Vec::new();
    for t in 1..=STEPS {
        let f = gradient(t, &theta);
        for i in 0..DIM {
            m[i] = momentum * m[i] + (1.0 - momentum) * (f[i] + ridge * theta[i]);
            theta[i] -= lr * m[i] / (v[i].sqrt() + epsilon);
        }
        plain.push(theta.clone());
    }
    assert_same("Santa in Adam's form and the plain recursion", &ours, &plain);

    // At a constant alpha, practical units have the momentum weight in eta instead: the same.
    let bare = Santa { adam_form: false, ..santa.clone() };
    assert_same("practical units without Adam's form", &with_v(bare.clone().into()), &plain);
    let bare = Santa { step: StepSize::heavy_ball(lr, momentum), ..bare };
    assert_apart("without the momentum weight", &with_v(bare.into()), &plain);
    let wider = with_v(Adam { epsilon: 2.0 * epsilon, ..adam.clone() }.into());
    assert_apart("with another epsilon", &ours, &wider);

    let moving = trajectory(Santa { metric: Metric::RmsProp { sigma: 0.99 }, ..santa });
    let adaptive = trajectory(Adam { beta2: 0.99, ..adam });
    assert_apart("with the metric moving on both sides", &moving, &adaptive);
}

/// Conditions: the same $\eta$ and $\alpha_0$, that is
/// $C = \alpha_0/\sqrt\eta$ with the practical units' values; one seed, temperature on.
#[test]
fn practical_and_paper_units_give_the_same_trajectories() {
    for integrator in [Integrator::Splitting, Integrator::Euler] {
        let practical = Santa {
            integrator,
            step: StepSize::practical(5e-3, 0.9),
            beta: InverseTemperature::fixed(2.0),
            exploration: Exploration::Always,
            ..Santa::default()
        };
        let (eta, c) = practical.in_paper_units(DataSize::new(N).unwrap()).unwrap();
        let alpha0 = match integrator {
            Integrator::Splitting => -0.9f64.ln(),
            Integrator::Euler => 1.0 - 0.9,
        };
        assert!((c * eta.sqrt() / alpha0 - 1.0).abs() < SAME);
        let expected = trajectory(practical.clone());
        let paper = Santa { step: StepSize::paper(eta, c), ..practical.clone() };
        assert_same(&format!("{integrator:?} in both units"), &trajectory(paper), &expected);
        let rounded = Santa { step: StepSize::paper(eta, 1.001 * c), ..practical };
        assert_apart("with C off by a thousandth", &trajectory(rounded), &expected);
    }
}

/// Mean of $\Xi - \Xi_0$ over parameters and time on a unit Gaussian, and its standard error from
/// the parameters, which are independent chains.
fn drift_of_friction(diffusion: Diffusion, gradient_at: GradientAt) -> (f64, f64) {
    const CHAINS: usize = 256;
    const WARM_UP: u64 = 2_000;
    const STEPS: u64 = 22_000;
    const H: f64 = 0.05;
    const C: f64 = 1.0;
    let target = Target::density(CHAINS).unwrap();
    let santa = Santa {
        step: StepSize::paper(H * H, C),
        exploration: Exploration::Always,
        metric: Metric::Identity,
        gradient_at,
        diffusion,
        thermostat_mass: ThermostatMass::Mass(1.0),
        ..Santa::default()
    };
    let mut stepper = santa.init::<f64>(&target, 11).unwrap();
    let mut theta = vec![0.0; CHAINS];
    Stream::new(11, 0, Purpose::Initialisation).normals(100, 0, 0, &mut theta);
    let mut sums = vec![0.0; CHAINS];
    for t in 1..=STEPS {
        let f = theta.clone();
        stepper.step(&mut theta, &f).unwrap();
        if t > WARM_UP {
            let shift = stepper.state_vector("alpha_shift").unwrap();
            sums.iter_mut().zip(shift).for_each(|(sum, x)| *sum += x / H);
        }
    }
    let means: Vec<f64> = sums.iter().map(|sum| sum / (STEPS - WARM_UP) as f64).collect();
    let mean = means.iter().sum::<f64>() / CHAINS as f64;
    let square = means.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (CHAINS - 1) as f64;
    (mean, (square / CHAINS as f64).sqrt())
}

/// $\Xi \sim N(G_2, 1/(\beta\mu))$: it stays round $\Xi_0$ when $G_2$ is $\Xi_0$, and only then. The
/// midpoint splitting's own error in the mean, about $0.64 h^2$ by longer runs, is below the standard
/// error here; that of the printed splitting, $h/2$, is not.
#[test]
fn matching_diffusion_keeps_the_mean_friction() {
    let (mean, error) = drift_of_friction(Diffusion::MatchFriction, GradientAt::Midpoint);
    println!("mean of Xi - Xi_0: {mean:.4} +- {error:.4}");
    assert!(mean.abs() < 6.0 * error, "{mean} +- {error}");

    let (mean, error) = drift_of_friction(Diffusion::Constant(1.1), GradientAt::Midpoint);
    println!("with a tenth more diffusion: {mean:.4} +- {error:.4}");
    assert!(mean > 6.0 * error && (mean - 0.1).abs() < 6.0 * error, "{mean} +- {error}");

    let (mean, error) = drift_of_friction(Diffusion::MatchFriction, GradientAt::Start);
    println!("with the gradient at the start: {mean:.4} +- {error:.4}");
    assert!(mean > 6.0 * error, "{mean} +- {error}");
}

/// Conditions: no exploration, a constant gradient for so long that u no longer changes, the metric
/// at rest as well ($v = \bar f^{\,2}$), a flat prior.
#[test]
fn at_rest_a_constant_gradient_moves_theta_by_lr_times_the_squared_metric() {
    const UNTIL_REST: u64 = 600; // 0.9^600 is below the rounding
    let (lr, lambda) = (1e-3, 1e-2);
    let n = DataSize::new(N).unwrap();
    let target = Target::new(Layout::flat(DIM).unwrap(), n, Prior::Flat).unwrap();
    let f: Vec<f64> = (0..DIM).map(|i| 0.2 + i as f64).collect();
    let step_at_rest = |integrator, gradient_at, step| {
        let santa = Santa { integrator, gradient_at, step, lambda, ..Santa::default() };
        let mut stepper = santa.init::<f64>(&target, 1).unwrap();
        let mut theta = vec![0.0; DIM];
        for _ in 0..UNTIL_REST {
            stepper.step(&mut theta, &f).unwrap();
        }
        theta.fill(0.0); // so that the next step is not rounded to theta's digits
        stepper.step(&mut theta, &f).unwrap();
        theta
    };
    for (integrator, gradient_at) in [
        (Integrator::Euler, GradientAt::Start),
        (Integrator::Splitting, GradientAt::Start),
        (Integrator::Splitting, GradientAt::Midpoint),
    ] {
        let practical = step_at_rest(integrator, gradient_at, StepSize::practical(lr, 0.9));
        let heavy_ball = step_at_rest(integrator, gradient_at, StepSize::heavy_ball(lr, 0.9));
        for i in 0..DIM {
            let expected = -lr * f[i] / (lambda + f[i]);
            let error = practical[i] / expected - 1.0;
            assert!(error.abs() < SAME, "{integrator:?} {gradient_at:?}: {error}");
            // A heavy ball's lr is worth 1 / (1 - m) times as much.
            let ratio = heavy_ball[i] / expected * (1.0 - 0.9);
            assert!((ratio - 1.0).abs() < SAME, "{integrator:?} {gradient_at:?}: {ratio}");
        }
    }
}
