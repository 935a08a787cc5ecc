//! Why the preset `Santa::new` is what it is: its final energy beside that of Adam, RMSprop and of
//! its own variations, on four problems, at three learning rates.
//!
//! ```text
//! cargo run --release --example defaults
//! ```
//!
//! The same budget of steps for everyone, no schedule of the learning rate, mean over seeds. Energies
//! are above the lowest that anyone reached on the problem. A long descent heats the momentum; a
//! thermostat that is free to answer it ("unbounded") brakes the descent for good.

use santa::dynamics::{Adam, Exploration, InitialMomentum, RmsProp, ThermostatMass};
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::{Gaussian, LinearRegression, LogisticRegression, Rosenbrock};
use santa::{Algorithm, Chain, Potential, Result, Sampling, Santa, Stepper};

const STEPS: u64 = 3000;
const SEEDS: u64 = 5;
const RATES: [f64; 3] = [1e-3, 1e-2, 1e-1];
const PROBLEMS: [&str; 4] = ["logistic", "linear", "Rosenbrock", "Gaussian"];

type Method = (&'static str, fn(f64) -> Algorithm);
const METHODS: [Method; 7] = [
    ("Adam", |lr| Adam::new(lr).into()),
    ("RMSprop", |lr| RmsProp::new(lr).into()),
    ("Santa::new", |lr| Santa::new(lr, STEPS).into()),
    ("  unbounded friction", |lr| {
        let new = Santa::new(lr, STEPS);
        Santa { friction_ceiling: None, bounds_while_exploring: false, ..new }.into()
    }),
    ("  mass 1, unbounded", |lr| {
        Santa {
            thermostat_mass: ThermostatMass::Mass(1.0),
            friction_ceiling: None,
            bounds_while_exploring: false,
            ..Santa::new(lr, STEPS)
        }
        .into()
    }),
    ("  spread 0.3", |lr| {
        Santa { thermostat_mass: ThermostatMass::Spread(0.3), ..Santa::new(lr, STEPS) }.into()
    }),
    ("  no exploration", |lr| {
        let new = Santa::new(lr, STEPS);
        let initial_momentum = InitialMomentum::Zero;
        Santa { exploration: Exploration::Never, initial_momentum, ..new }.into()
    }),
];

fn main() -> Result<()> {
    let mut energies = [[[0.0; PROBLEMS.len()]; METHODS.len()]; RATES.len()];
    let mut lowest = [f64::INFINITY; PROBLEMS.len()];
    for (r, lr) in RATES.iter().enumerate() {
        for (m, (_, algorithm)) in METHODS.iter().enumerate() {
            for (p, best) in lowest.iter_mut().enumerate() {
                for seed in 1..=SEEDS {
                    let energy = run(p, algorithm(*lr), seed)?;
                    *best = best.min(energy);
                    energies[r][m][p] += energy / SEEDS as f64;
                }
            }
        }
    }
    println!("{:<8}{:<22}{}", "lr", "", PROBLEMS.map(|p| format!("{p:>14}")).concat());
    for (r, lr) in RATES.iter().enumerate() {
        for (m, (name, _)) in METHODS.iter().enumerate() {
            let row: String = (0..PROBLEMS.len())
                .map(|p| format!("{:>14.3}", energies[r][m][p] - lowest[p]))
                .collect();
            println!("{lr:<8}{name:<22}{row}");
        }
    }
    Ok(())
}

/// The energy that a method ends at.
fn run(problem: usize, algorithm: Algorithm, seed: u64) -> Result<f64> {
    let data = Stream::new(5, 0, Purpose::Data);
    match problem {
        0 => train(LogisticRegression::synthetic(2000, 20, 1.0, &data)?.0, algorithm, 0.0, seed),
        1 => train(LinearRegression::synthetic(2000, 20, 1.0, 1.0, &data)?.0, algorithm, 0.0, seed),
        2 => train(Rosenbrock::new(10, 1.0)?, algorithm, -1.0, seed),
        _ => {
            // Standard deviations from 1 down to 0.01.
            let scales: Vec<f64> =
                (0..20).map(|i| 10f64.powf(-2.0 * f64::from(i) / 19.0)).collect();
            train(Gaussian::diagonal(&scales)?, algorithm, 3.0, seed)
        }
    }
}

fn train<P: Potential<f32>>(
    potential: P,
    algorithm: Algorithm,
    start: f32,
    seed: u64,
) -> Result<f64> {
    const BATCH: usize = 50;
    let stepper = Stepper::new(algorithm, potential.target(), seed, 0)?;
    let theta = vec![start; potential.target().dim()];
    let batch = BATCH.min(potential.target().data_size().get() as usize);
    let mut chain = Chain::new(potential, stepper, theta, Sampling::ShuffledEpochs, batch)?;
    chain.advance(STEPS)?;
    chain.energy()
}
