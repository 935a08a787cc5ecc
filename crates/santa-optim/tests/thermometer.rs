//! The configurational temperature of samples that are right, and of samples that are not.

use santa::dynamics::{Exploration, Metric, Msgnht, Sghmc};
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::{DoubleWell, Gaussian, LinearRegression};
use santa::{
    Algorithm, Batch, Chain, DataSize, InverseTemperature, Layout, Minibatches, Potential, Prior,
    Reading, Sampling, Santa, StepSize, Stepper, Target, Thermometer,
};

/// Independent copies in one vector: as many chains.
const COPIES: usize = 2_000;
/// h = 0.1: the splitting's error, of second order, is below what these runs resolve.
const ETA: f64 = 0.01;
/// A standard error that a right sampler does not exceed fivefold: once in two million.
const SCORE: f64 = 5.0;

/// Runs a chain from zero and measures both temperatures after a warm-up: the configurational one,
/// and the mean of the kinetic one.
fn temperatures(potential: impl Potential<f64>, algorithm: impl Into<Algorithm>) -> (Reading, f64) {
    const WARM_UP: u64 = 1_000;
    const STEPS: u64 = 3_000;
    const EVERY: u64 = 10;
    let target = potential.target().clone();
    let stepper = Stepper::new(algorithm, &target, 11, 0).unwrap();
    let theta0 = vec![0.0; target.dim()];
    let mut thermometer = Thermometer::new(&target, &theta0).unwrap();
    let mut chain = Chain::new(potential, stepper, theta0, Sampling::Full, 1).unwrap();
    for _ in 0..WARM_UP / EVERY {
        chain.advance(EVERY).unwrap();
        thermometer.warm_up(chain.theta()).unwrap();
    }
    let (mut kinetic, mut readings) = (0.0, 0.0);
    for _ in 0..STEPS / EVERY {
        chain.advance_measuring(EVERY, EVERY, &mut thermometer).unwrap();
        let vitals = chain.stepper().vitals(chain.theta(), chain.gradient()).unwrap();
        kinetic += vitals.overall.kinetic_temperature.unwrap();
        readings += 1.0;
    }
    assert_eq!(thermometer.observations(), STEPS / EVERY);
    (thermometer.temperature(), kinetic / readings)
}

fn msgnht(beta: f64) -> Msgnht {
    Msgnht::new(StepSize::paper(ETA, 1.0)).beta(InverseTemperature::fixed(beta))
}

#[test]
fn right_samples_have_the_temperature_they_should() {
    for beta in [1.0, 4.0] {
        let gaussian = Gaussian::diagonal(&vec![1.0; COPIES]).unwrap();
        let well = DoubleWell::new(COPIES).unwrap();
        for (name, (reading, kinetic)) in [
            ("gaussian", temperatures(gaussian, msgnht(beta))),
            ("double well", temperatures(well, msgnht(beta))),
        ] {
            let score = reading.score(beta).unwrap();
            println!("{name}, beta = {beta}: {reading:?}, z = {score:.2}, kinetic {kinetic:.4}");
            assert!(score.abs() < SCORE, "{name}, beta = {beta}: z = {score}");
            assert!(reading.standard_error.unwrap() * beta < 0.01);
            // Negative control: five per cent more would be noticed.
            assert!(reading.score(beta * 1.05).unwrap() > SCORE);
        }
    }
}

/// The RMSprop metric is a history, not a function of theta: with a short memory and no correction
/// terms the samples are too wide. The thermostat holds the momenta at temperature 1 all the same.
#[test]
fn wrong_samples_show_in_the_configurational_temperature_alone() {
    let gaussian = Gaussian::diagonal(&vec![1.0; COPIES]).unwrap();
    let santa = Santa {
        step: StepSize::paper(ETA, 1.0),
        exploration: Exploration::Always,
        metric: Metric::RmsProp { sigma: 0.9 },
        lambda: 0.1,
        ..Santa::default()
    };
    let (reading, kinetic) = temperatures(gaussian, santa);
    println!("{reading:?}, kinetic {kinetic:.4}");
    assert!((kinetic - 1.0).abs() < 0.02, "kinetic {kinetic}");
    assert!(reading.temperature > 1.2 && reading.score(1.0).unwrap() > SCORE, "{reading:?}");
}

/// SGHMC has no thermostat: gradient noise it does not know of heats both.
#[test]
fn unknown_gradient_noise_heats_a_sampler_without_thermostat() {
    /// Variance of the gradient's noise: the diffusion is beta h V / 2 beside C = 1.
    const V: f64 = 20.0;
    let (target, stream) = (Target::density(COPIES).unwrap(), Stream::new(3, 0, Purpose::Data));
    let run = |algorithm: Algorithm| {
        let mut stepper = Stepper::<f64>::new(algorithm, &target, 7, 0).unwrap();
        let (mut theta, mut noise) = (vec![0.0; COPIES], vec![0.0; COPIES]);
        let mut thermometer = Thermometer::new(&target, &theta).unwrap();
        for t in 0..4_000 {
            stream.normals(t, 0, 0, &mut noise);
            let gradient: Vec<f64> =
                theta.iter().zip(&noise).map(|(x, z)| x + V.sqrt() * z).collect();
            if t > 1_000 && t % 10 == 0 {
                // As noisy as the dynamics see it: unbiased nevertheless.
                thermometer.observe(&theta, &gradient).unwrap();
            }
            stepper.step(&mut theta, &gradient).unwrap();
        }
        thermometer.temperature()
    };
    let heated = run(Sghmc::new(StepSize::paper(ETA, 1.0)).into());
    assert!(heated.score(1.0).unwrap() > SCORE && heated.temperature > 1.5, "{heated:?}");
    let held = run(msgnht(1.0).into());
    assert!(held.score(1.0).unwrap().abs() < SCORE, "{held:?}");
}

/// Exact draws from a posterior, with the gradient of a minibatch: N and the prior come from the
/// target.
#[test]
fn minibatches_leave_the_reading_unbiased() {
    const N: usize = 50;
    const DIM: usize = 4;
    const DRAWS: u64 = 20_000;
    let stream = Stream::new(9, 0, Purpose::Data);
    let mut model = LinearRegression::synthetic(N, DIM, 1.0, 2.0, &stream).unwrap().0;
    let (mean, covariance) = model.posterior().unwrap();
    let posterior = Gaussian::from_covariance(mean, &covariance).unwrap();
    let target = model.target().clone();
    let n = target.data_size();
    let measure = |model: &mut LinearRegression, target: &Target| {
        let mut batches = Minibatches::new(n, 5, Sampling::WithReplacement, 1, 0).unwrap();
        // Any centre will do.
        let mut thermometer = Thermometer::new(target, &[0.3; DIM]).unwrap();
        let (mut theta, mut gradient) = ([0.0; DIM], [0.0; DIM]);
        for draw in 0..DRAWS {
            posterior.sample(&stream, draw, &mut theta).unwrap();
            let batch = Batch::of(batches.next());
            model.loss_gradient(&theta, &batch, &mut gradient).unwrap();
            thermometer.observe(&theta, &gradient).unwrap();
        }
        thermometer.temperature()
    };
    let reading = measure(&mut model, &target);
    println!("{reading:?}");
    assert!(reading.score(1.0).unwrap().abs() < SCORE, "{reading:?}");
    // Negative control: with another prior the gradient is that of another law.
    let bare = Target::new(Layout::flat(DIM).unwrap(), n, Prior::gaussian(20.0)).unwrap();
    let reading = measure(&mut model, &bare);
    println!("{reading:?}");
    assert!(reading.score(1.0).unwrap().abs() > SCORE, "{reading:?}");
}

/// The kink of a Laplace prior is no harm: U is absolutely continuous.
#[test]
fn a_laplace_law_has_the_temperature_it_should() {
    const DIM: usize = 1_000;
    const SCALE: f64 = 0.7;
    let stream = Stream::new(4, 0, Purpose::Data);
    for beta in [1.0, 4.0] {
        let layout = Layout::flat(DIM).unwrap();
        let target =
            Target::new(layout, DataSize::new(10).unwrap(), Prior::laplace(SCALE)).unwrap();
        let mut thermometer = Thermometer::new(&target, &[0.2; DIM]).unwrap();
        for draw in 0..500 {
            // Exponential deviates with a sign.
            let theta: Vec<f64> = (0..DIM as u32)
                .map(|i| {
                    let magnitude = -(1.0 - stream.uniform(draw, 0, i)).ln() * SCALE / beta;
                    if stream.uniform(draw, 1, i) < 0.5 { magnitude } else { -magnitude }
                })
                .collect();
            thermometer.observe(&theta, &[0.0; DIM]).unwrap();
        }
        let reading = thermometer.temperature();
        assert!(reading.score(beta).unwrap().abs() < SCORE, "{reading:?}");
        assert!(reading.score(beta * 1.02).unwrap() > SCORE, "{reading:?}");
    }
}
