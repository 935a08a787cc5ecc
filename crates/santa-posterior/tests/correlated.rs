//! Posteriors whose directions differ in stiffness because the scales leave correlations in them: every
//! direction must have its own variance.

use santa::dynamics::{Metric as SantaMetric, ThermostatReads};
use santa::noise::{Purpose, Stream};
use santa::potential::{from_data, from_fn};
use santa::{Chain, DataSize, Layout, Potential, Prior, Sampling, Santa, StepSize, Target};
use santa_posterior::sampler::{Member, Metric, Parameters, Posterior, Sampler};

/// Neighbours have this correlation, all variances are 1: an AR(1) process.
const CORRELATION: f64 = 0.9;

/// The gradient of U for that process, whose precision is tridiagonal.
fn slope(theta: &[f64], gradient: &mut [f64]) -> f64 {
    let (r, n) = (CORRELATION, theta.len());
    for i in 0..n {
        let inner = if i == 0 || i + 1 == n { 1.0 } else { 1.0 + r * r };
        let left = if i > 0 { theta[i - 1] } else { 0.0 };
        let right = if i + 1 < n { theta[i + 1] } else { 0.0 };
        gradient[i] = (inner * theta[i] - r * (left + right)) / (1.0 - r * r);
    }
    0.5 * theta.iter().zip(gradient).map(|(x, g)| x * *g).sum::<f64>()
}

fn process(dim: usize) -> impl Potential<f64> + Clone {
    from_fn(dim, slope).unwrap()
}

/// The root mean square of each parameter over all draws, averaged.
fn spread<F, R>(posterior: &Posterior<F, R>, dim: usize) -> f64 {
    let sd = |i: usize| {
        let all = posterior.draws.quantity(i).concat();
        (all.iter().map(|x| x * x).sum::<f64>() / all.len() as f64).sqrt()
    };
    (0..dim).map(sd).sum::<f64>() / dim as f64
}

#[test]
fn directions_that_the_scales_leave_stiff_do_not_cool_the_others() {
    for (dim, metric) in [
        (2, Metric::Identity),
        (2, Metric::Diagonal),
        (2, Metric::Dense),
        (20, Metric::Diagonal),
        // Estimated from few draws.
        (60, Metric::Dense),
    ] {
        // Long enough for frictions that drift to show.
        let sampler = Sampler { draws: 40_000 / dim as u64, metric, ..Sampler::seeded(6) };
        let members = sampler.members(|_| {
            let potential = process(dim);
            let recorder = Parameters::of(potential.target());
            Member::new(potential, recorder, vec![0.5; dim])
        });
        let posterior = sampler.run(members).unwrap();
        let found = spread(&posterior, dim);
        // One standard error is below 1 %.
        assert!(
            (found - 1.0).abs() < 0.03,
            "{dim} {metric:?}: {found} {:?}",
            posterior.tuning.figures
        );
        let temperature = posterior.configurational_temperature();
        assert!((temperature.mean - 1.0).abs() < 0.03, "{dim} {metric:?}: {temperature:?}");
        let kinetic = posterior.kinetic_temperature();
        assert!((kinetic.mean - 1.0).abs() < 0.03, "{dim} {metric:?}: {kinetic:?}");
    }
}

/// The negative control: thermostats that read the momentum, at the same step. Nothing but the law of
/// the parameters shows it: their momenta have the right temperature.
#[test]
fn thermostats_that_read_the_momentum_cool_the_soft_direction() {
    const STEP: f64 = 0.25;
    let spread_of = |thermostat_reads: ThermostatReads| {
        let santa = Santa {
            metric: SantaMetric::Identity,
            thermostat_reads,
            ..Santa::sampler(StepSize::paper(STEP * STEP, 1.0), 0)
        };
        let potential = process(2);
        let stepper = santa.init(potential.target(), 8).unwrap();
        let mut chain = Chain::new(potential, stepper, vec![0.5; 2], Sampling::Full, 1).unwrap();
        let (steps, mut ends, mut kinetic) = (1_000_000, 0.0, 0.0);
        for _ in 0..steps {
            chain.advance(1).unwrap();
            let u = chain.stepper().state_vector("u").unwrap();
            for (z, u) in chain.theta().iter().zip(u) {
                ends += (z - 0.5 * u).powi(2) / (2.0 * steps as f64);
                kinetic += u * u / (STEP * STEP) / (2.0 * steps as f64);
            }
        }
        (ends.sqrt(), kinetic)
    };
    let (right, hot) = spread_of(ThermostatReads::Velocity);
    assert!((right - 1.0).abs() < 0.012 && hot > 1.05, "{right} {hot}");
    let (wrong, warm) = spread_of(ThermostatReads::Momentum);
    assert!((wrong - 1.0).abs() > 0.024 && (warm - 1.0).abs() < 0.012, "{wrong} {warm}");
}

/// Linear regression on two features with that correlation, noise 1, a flat prior: the potential, and
/// the standard deviation of the coefficients.
fn regression(rows: usize) -> (impl Potential<f64> + Clone, f64) {
    let stream = Stream::new(5, 0, Purpose::Data);
    let mut numbers = vec![0.0; 3 * rows];
    stream.normals(1, 0, 0, &mut numbers);
    let across = (1.0 - CORRELATION * CORRELATION).sqrt();
    let data: Vec<[f64; 3]> = (numbers.chunks_exact(3))
        .map(|n| [n[0], CORRELATION * n[0] + across * n[1], n[2]])
        .collect();
    let sum = |i: usize, j: usize| data.iter().map(|row| row[i] * row[j]).sum::<f64>();
    let determinant = sum(0, 0) * sum(1, 1) - sum(0, 1) * sum(0, 1);
    let sd = (sum(1, 1) / determinant).sqrt();
    let n = DataSize::new(rows as u64).unwrap();
    let target = Target::new(Layout::flat(2).unwrap(), n, Prior::Flat).unwrap();
    let potential = from_data(target, move |theta: &[f64], batch: &[u32], g: &mut [f64]| {
        g.fill(0.0);
        let mut loss = 0.0;
        for row in batch.iter().map(|k| data[*k as usize]) {
            let off = theta[0] * row[0] + theta[1] * row[1] - row[2];
            let share = 1.0 / batch.len() as f64;
            (0..2).for_each(|i| g[i] += share * off * row[i]);
            loss += share * 0.5 * off * off;
        }
        loss
    });
    (potential, sd)
}

/// Draws of two parameters, from zero.
fn draw<P: Potential<f64> + Clone + Send>(
    sampler: &Sampler,
    potential: &P,
) -> Posterior<f64, Parameters> {
    let members = sampler.members(|_| {
        let recorder = Parameters::of(potential.target());
        Member::new(potential.clone(), recorder, vec![0.0; 2])
    });
    sampler.run(members).unwrap()
}

/// The standard deviation of the first parameter.
fn first_sd<F, R>(posterior: &Posterior<F, R>) -> f64 {
    let all = posterior.draws.quantity(0).concat();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    (all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt()
}

/// The noise of minibatches is ten times as strong along one of the two directions as along the other.
#[test]
fn uneven_noise_of_minibatches_does_not_cool_the_quiet_direction() {
    let (potential, exact) = regression(1_000);
    let tuned = |metric: Metric| {
        let sampler = Sampler { draws: 4_000, batch_size: 100, metric, ..Sampler::seeded(2) };
        let posterior = draw(&sampler, &potential);
        (first_sd(&posterior) / exact, posterior.tuning.figures)
    };
    let (dense, even) = tuned(Metric::Dense);
    assert!((dense - 1.0).abs() < 0.05, "{dense}");
    let (diagonal, uneven) = tuned(Metric::Diagonal);
    let short = uneven.step;
    assert!((diagonal - 1.0).abs() < 0.05, "{diagonal} with a step of {short}");
    assert!(short < 0.5 * even.step, "{short} {}", even.step);
    // And why it is short is kept.
    assert!(uneven.noise_unevenness > 0.5 && uneven.even_step > 2.0 * short, "{uneven:?}");
    assert_eq!((even.noise_unevenness, even.even_step), (0.0, even.step));

    // The negative control: with a step at which the noise adds half of the friction, it does.
    let step = 9.0 * short;
    let santa = Santa {
        metric: SantaMetric::Identity,
        thermostat_reads: ThermostatReads::Velocity,
        ..Santa::sampler(StepSize::paper((step * exact).powi(2), 1.0 / exact), 0)
    };
    let sampler = Sampler {
        draws: 4_000,
        batch_size: 100,
        warm_up: 2_000,
        thin: Some((1.0 / step).ceil() as u64),
        dynamics: Some(santa.into()),
        ..Sampler::seeded(2)
    };
    let cooled = first_sd(&draw(&sampler, &potential)) / exact;
    assert!(cooled < 0.92, "{cooled} with a step of {step}");
}
