//! Figure 1 of the paper in numbers: which share of the chains ends in the global minimum of the
//! double well, starting on the wrong side; and the same for a mixture in ten dimensions.
//!
//! ```text
//! cargo run --release --example double_well
//! cargo run --release --example double_well -- 20000   # chains
//! ```

use santa::dynamics::{Adam, Exploration, Metric, RmsProp};
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::{DoubleWell, Mixture};
use santa::stats::wilson_lower;
use santa::{Algorithm, Batch, Potential, Result, Santa, Schedule, StepSize, Stepper};
use std::time::Instant;

/// The paper starts here, beyond the local minimum.
const START: f64 = 4.0;
/// A chain has arrived when it is this close to the minimum.
const CLOSE: f64 = 0.3;
/// No seed below this one was used to choose the settings.
const SEED: u64 = 2016;

fn main() -> Result<()> {
    let chains =
        std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(4_000usize).max(1);
    println!("Double well, from theta = {START}; {chains} chains\n");
    heading();
    for steps in [10_000, 2_000] {
        let santa = Santa::annealing(StepSize::paper(0.58f64.powi(2), 0.4), (0.8, 3.0), steps);
        double_well("Santa, annealing", santa, steps, chains)?;
    }
    let steps = 10_000;
    // h_t = t^-0.3 / 10, beta_t = t^2, exploration half, as the paper's section 4.1 says.
    let eta = Schedule::power(0.01, 0.0, -0.6);
    let literal = Santa::paper(eta, 1.0, 2.0, Exploration::Steps(steps / 2));
    double_well("Santa, literal", literal.clone(), steps, chains)?;
    let plain = Santa { metric: Metric::Identity, ..literal };
    double_well("Santa, literal, g = 1", plain, steps, chains)?;
    double_well("RMSprop", RmsProp::new(0.01), steps, chains)?;
    double_well("Adam", Adam::new(0.01), steps, chains)?;

    println!("\nTen-dimensional mixture of five modes, one dominant; starting at another\n");
    heading();
    for steps in [10_000, 2_000] {
        let santa = Santa::annealing(StepSize::paper(0.5f64.powi(2), 0.4), (0.5, 4.0), steps);
        mixture("Santa, annealing", santa, steps, chains / 10)?;
    }
    mixture("RMSprop", RmsProp::new(0.01), steps, chains / 10)?;
    mixture("Adam", Adam::new(0.01), steps, chains / 10)?;
    Ok(())
}

fn heading() {
    println!(
        "{:<24} {:>7} {:>12} {:>16} {:>9} {:>9}",
        "method", "steps", "global mode", "95 % lower bound", "diverged", "seconds"
    );
}

fn report(name: &str, steps: u64, arrived: usize, diverged: usize, chains: usize, start: Instant) {
    println!(
        "{name:<24} {steps:>7} {:>10.2} % {:>14.2} % {diverged:>9} {:>9.2}",
        100.0 * arrived as f64 / chains as f64,
        100.0 * wilson_lower(arrived as u64, chains as u64),
        start.elapsed().as_secs_f64()
    );
}

/// Runs `steps` steps of all copies at once.
fn run(
    mut potential: impl Potential<f64>,
    algorithm: impl Into<Algorithm>,
    theta: &mut [f64],
    steps: u64,
) -> Result<()> {
    let mut stepper: Stepper<f64> = Stepper::new(algorithm, potential.target(), SEED, 0)?;
    let mut gradient = vec![0.0; theta.len()];
    for _ in 0..steps {
        potential.loss_gradient(theta, &Batch::full(), &mut gradient)?;
        stepper.step(theta, &gradient)?;
    }
    Ok(())
}

fn double_well(
    name: &str,
    algorithm: impl Into<Algorithm>,
    steps: u64,
    chains: usize,
) -> Result<()> {
    let start = Instant::now();
    let mut theta = vec![START; chains];
    run(DoubleWell::new(chains)?, algorithm, &mut theta, steps)?;
    let arrived = theta.iter().filter(|x| (*x - DoubleWell::GLOBAL).abs() < CLOSE).count();
    let near_a_minimum =
        |x: &f64| (x - DoubleWell::GLOBAL).abs() < 1.0 || (x - DoubleWell::LOCAL).abs() < 1.0;
    let diverged = theta.iter().filter(|x| !near_a_minimum(x)).count();
    report(name, steps, arrived, diverged, chains, start);
    Ok(())
}

/// Five modes at the corners of a simplex-like cloud, the first with half of the weight.
fn modes() -> Vec<Vec<f64>> {
    const DIM: usize = 10;
    /// Distance of the modes from the origin; two of them are about sqrt(2) times as far apart.
    const RADIUS: f64 = 3.0;
    let stream = Stream::new(7, 0, Purpose::Data);
    (0..5)
        .map(|k| {
            let mut z = vec![0.0; DIM];
            stream.normals(0, k, 0, &mut z);
            let length = z.iter().map(|x| x * x).sum::<f64>().sqrt();
            z.iter().map(|x| RADIUS * x / length).collect()
        })
        .collect()
}

fn mixture(name: &str, algorithm: impl Into<Algorithm>, steps: u64, chains: usize) -> Result<()> {
    let start = Instant::now();
    let modes = modes();
    let dim = modes[0].len();
    let weights = [0.6, 0.1, 0.1, 0.1, 0.1];
    let potential = Mixture::new(dim, &weights, &modes.concat(), &[1.0])?.copies(chains)?;
    let mut theta: Vec<f64> = modes[1].iter().copied().cycle().take(dim * chains).collect();
    run(potential, algorithm, &mut theta, steps)?;
    let distance = |x: &[f64], mode: &[f64]| {
        x.iter().zip(mode).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    };
    let arrived = theta.chunks(dim).filter(|x| distance(x, &modes[0]) < CLOSE).count();
    let diverged =
        theta.chunks(dim).filter(|x| modes.iter().all(|mode| distance(x, mode) > 1.0)).count();
    report(name, steps, arrived, diverged, chains, start);
    Ok(())
}
