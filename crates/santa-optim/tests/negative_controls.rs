//! Deliberate mistakes, and the check that must notice each.
//!
//! | mistake | dynamics | what notices it | what does not |
//! | --- | --- | --- | --- |
//! | noise with a wrong power of $\eta$ | Santa | law of Xi | theta, p: the thermostat makes up for it |
//! | a missing 2 in the noise | Santa | law of Xi | theta, p |
//! | a missing 2 in the noise | SGLD, SGHMC | theta | |
//! | half-normal noise | SGLD, Santa | mean of theta | |
//! | thermostat of the wrong sign | Santa | law of Xi (it runs away) | |
//! | weight decay twice | Santa | theta | |
//! | N forgotten | Santa | theta | |
//! | $\alpha$ not frozen in refinement | Santa | the limit of SGD with momentum | |
//!
//! The mistakes are made from outside: noise is a pure function of seed and step, so what a wrong
//! generator would have added can be put into the gradient.

mod ensemble;

use ensemble::{Check, Ensemble, all_pass, chains, must_fail, normals, statistic};
use santa::dynamics::{
    AlphaInRefinement, Diffusion, Exploration, InitialMomentum, Metric, NoiseScale, Sgd, Sghmc,
    Sgld, ThermostatMass,
};
use santa::noise::{Purpose, Stream};
use santa::{
    DataSize, Integrator, InverseTemperature, Layout, Prior, Rate, Santa, StepSize, Stepper, Target,
};

const N: usize = 3000;
const H: f64 = 0.1;
const SEED: u64 = 31;

fn santa() -> Santa {
    Santa {
        step: StepSize::paper(H * H, 1.0),
        beta: InverseTemperature::posterior(),
        exploration: Exploration::Always,
        metric: Metric::Identity,
        diffusion: Diffusion::Constant(1.0),
        thermostat_mass: ThermostatMass::Mass(1.0),
        ..Santa::default()
    }
}

/// Unit Gaussians under a stepper whose gradient is spoiled by `spoil(t, theta, f)`.
fn checks(stepper: Stepper<f64>, mut spoil: impl FnMut(u64, &[f64], &mut [f64])) -> Vec<Check> {
    let mut ensemble = Ensemble::new(stepper, normals(SEED, 1, N), move |t, theta, f| {
        f.copy_from_slice(theta);
        spoil(t, theta, f);
    });
    ensemble.run((40.0 / H) as u64).unwrap();
    ensemble
        .observe(
            (60.0 / H) as u64,
            5,
            &[
                statistic("theta", 0.0, |s| s.theta),
                statistic("theta^2", 1.0, |s| s.theta * s.theta),
                statistic("p^2", 1.0, |s| s.p * s.p),
                statistic("Xi", 1.0, |s| s.xi),
                statistic("(Xi - 1)^2", 1.0, |s| (s.xi - 1.0).powi(2)),
            ],
        )
        .unwrap()
}

/// What the dynamics draw at step t.
fn noise(t: u64) -> Vec<f64> {
    let mut z = vec![0.0; N];
    Stream::new(SEED, 0, Purpose::Dynamics).normals(t, 0, 0, &mut z);
    z
}

fn nothing(_: u64, _: &[f64], _: &mut [f64]) {}

#[test]
fn the_right_schemes_pass() {
    all_pass("Santa", &checks(santa().init(&chains(N), SEED).unwrap(), nothing));
    let sgld = Sgld::new(Rate::eta(0.01)).init(&chains(N), SEED).unwrap();
    all_pass("SGLD", &checks(sgld, nothing)[..2]);
    let sghmc = Sghmc::new(StepSize::paper(H * H, 1.0)).init(&chains(N), SEED).unwrap();
    all_pass("SGHMC", &checks(sghmc, nothing)[..2]);
}

#[test]
fn a_wrong_power_of_eta_shows_in_xi_and_only_there() {
    let wrong = Santa { noise_scale: NoiseScale::MainText, ..santa() };
    let c = checks(wrong.init(&chains(N), SEED).unwrap(), nothing);
    must_fail("noise of the main text", &c, "Xi");
    // Xi has gone to 1/h, where the larger friction just balances the larger noise.
    let (p2, xi) = (&c[2], &c[3]);
    assert!((p2.observed - 1.0).abs() < 0.05, "{p2}");
    assert!((xi.observed * H - 1.0).abs() < 0.3, "{xi}");
}

#[test]
fn a_missing_two_shows_in_xi_for_santa() {
    let wrong = Santa { diffusion: Diffusion::Constant(0.5), ..santa() };
    let c = checks(wrong.init(&chains(N), SEED).unwrap(), nothing);
    must_fail("half the noise's variance", &c, "Xi");
    assert!(c[2].passes(), "the kinetic temperature is blind to it: {}", c[2]);
}

#[test]
fn a_missing_two_shows_in_theta_for_sgld_and_sghmc() {
    let eta = 0.01;
    let short = 1.0 - 0.5f64.sqrt();
    let sgld = Sgld::new(Rate::eta(eta)).init(&chains(N), SEED).unwrap();
    let c = checks(sgld, |t, _, f| {
        // theta -= eta f: adding sd z / eta to f takes sd z away.
        let sd = (2.0 * eta).sqrt();
        f.iter_mut().zip(noise(t)).for_each(|(f, z)| *f += short * sd * z / eta);
    });
    must_fail("SGLD, half the noise's variance", &c, "theta^2");

    let eta = H * H;
    let sghmc = Sghmc::new(StepSize::paper(eta, 1.0)).init(&chains(N), SEED).unwrap();
    let c = checks(sghmc, |t, _, f| {
        let sd = (2.0 * H * eta).sqrt();
        f.iter_mut().zip(noise(t)).for_each(|(f, z)| *f += short * sd * z / eta);
    });
    must_fail("SGHMC, half the noise's variance", &c, "theta^2");
}

#[test]
fn half_normal_noise_shows_in_the_mean_of_theta() {
    let eta = 0.01;
    let sgld = Sgld::new(Rate::eta(eta)).init(&chains(N), SEED).unwrap();
    let c = checks(sgld, |t, _, f| {
        let sd = (2.0 * eta).sqrt();
        f.iter_mut().zip(noise(t)).for_each(|(f, z)| *f -= sd * (z.abs() - z) / eta);
    });
    must_fail("SGLD, noise always positive", &c, "theta");

    let c = checks(santa().init(&chains(N), SEED).unwrap(), |t, _, f| {
        let eta = H * H;
        let sd = (2.0 * eta * H).sqrt();
        f.iter_mut().zip(noise(t)).for_each(|(f, z)| *f -= sd * (z.abs() - z) / eta);
    });
    must_fail("Santa, noise always positive", &c, "theta");
}

#[test]
fn a_thermostat_of_the_wrong_sign_runs_away() {
    let target = chains(N);
    let mut stepper: Stepper<f64> = santa().init(&target, SEED).unwrap();
    let mut theta = normals(SEED, 1, N);
    let mut xi_left = 0;
    for _ in 0..(40.0 / H) as u64 {
        let before = stepper.state_vector("alpha_shift").unwrap().to_vec();
        let gradient = theta.clone();
        if stepper.step(&mut theta, &gradient).is_err() {
            xi_left = N; // overflowed: noticed even sooner
            break;
        }
        let after = stepper.state_vector_mut("alpha_shift").unwrap();
        after.iter_mut().zip(&before).for_each(|(a, b)| *a = 2.0 * b - *a);
        // Beyond six standard deviations of its law.
        xi_left = after.iter().filter(|a| (*a / H).abs() > 6.0).count();
    }
    assert!(xi_left > N / 2, "{xi_left} of {N} frictions have left their law");
}

/// A Gaussian likelihood of 20 data with precision 1 each and a prior of precision 20.
fn posterior(data_size: u64, prior: Prior, prior_by_hand: f64) -> Vec<Check> {
    const DATA: f64 = 20.0;
    let target =
        Target::new(Layout::flat(N).unwrap(), DataSize::new(data_size).unwrap(), prior).unwrap();
    let settings = Santa {
        step: StepSize::paper(H * H / (2.0 * DATA), 1.0 * (2.0 * DATA).sqrt()),
        diffusion: Diffusion::MatchFriction,
        ..santa()
    };
    let stepper = settings.init(&target, SEED).unwrap();
    let theta = normals(SEED, 1, N).iter().map(|z| z / (2.0 * DATA).sqrt()).collect();
    let mut ensemble = Ensemble::new(stepper, theta, |_, theta, f| {
        for i in 0..f.len() {
            f[i] = theta[i] + prior_by_hand * theta[i];
        }
    });
    ensemble.run(600).unwrap();
    let precision = 2.0 * DATA;
    ensemble
        .observe(600, 5, &[statistic("theta^2", 1.0 / precision, |s| s.theta * s.theta)])
        .unwrap()
}

#[test]
fn weight_decay_twice_and_n_forgotten_show_in_theta() {
    all_pass("N and prior once", &posterior(20, Prior::gaussian(20.0), 0.0));
    must_fail("weight decay twice", &posterior(20, Prior::gaussian(20.0), 1.0), "theta^2");
    must_fail("N forgotten", &posterior(1, Prior::gaussian(20.0), 0.0), "theta^2");
    must_fail("prior forgotten", &posterior(20, Prior::Flat, 0.0), "theta^2");
}

#[test]
fn alpha_that_is_not_frozen_breaks_the_limit_of_refinement() {
    let target = chains(8);
    let far = |alpha| {
        let refining = Santa {
            integrator: Integrator::Euler,
            exploration: Exploration::Never,
            alpha_in_refinement: alpha,
            initial_momentum: InitialMomentum::Zero,
            friction_floor: Some(0.0),
            ..santa()
        };
        let mut santa: Stepper<f64> = refining.init(&target, SEED).unwrap();
        let mut sgd: Stepper<f64> = Sgd::new(H * H).momentum(1.0 - H).init(&target, SEED).unwrap();
        let mut a: Vec<f64> = (0..8).map(|i| i as f64 - 3.5).collect();
        let mut b = a.clone();
        let mut furthest = 0.0f64;
        for _ in 0..200 {
            let gradient = a.clone();
            santa.step(&mut a, &gradient).unwrap();
            let gradient = b.clone();
            sgd.step(&mut b, &gradient).unwrap();
            for (a, b) in a.iter().zip(&b) {
                furthest = furthest.max((a - b).abs());
            }
        }
        furthest
    };
    assert!(far(AlphaInRefinement::Frozen) < 1e-12);
    assert!(far(AlphaInRefinement::WithTemperature) > 0.1);
    assert!(far(AlphaInRefinement::Accumulating) > 0.1);
}
