//! What a stiff direction does to a soft one: two parameters of variance 1 with a correlation, sampled
//! without any scales by one chain of Santa at given steps, with thermostats that read the momentum (as in
//! the paper) and the velocity between the ends of steps (as the sampler's do).
//!
//! `cargo run --release -p santa-posterior --example stiff_directions > results/sampling/stiff-directions.md`

use santa::dynamics::{Metric, ThermostatReads};
use santa::potential::from_fn;
use santa::{Chain, Potential, Sampling, Santa, StepSize};

const CORRELATION: f64 = 0.9;
const STEPS: u64 = 4_000_000;
const SEED: u64 = 1;

fn slope(theta: &[f64], gradient: &mut [f64]) -> f64 {
    let rest = 1.0 - CORRELATION * CORRELATION;
    gradient[0] = (theta[0] - CORRELATION * theta[1]) / rest;
    gradient[1] = (theta[1] - CORRELATION * theta[0]) / rest;
    0.5 * (theta[0] * gradient[0] + theta[1] * gradient[1])
}

/// Standard deviations relative to the exact ones, and the temperatures.
struct Found {
    /// Along the sum of the two parameters.
    soft: f64,
    /// Along their difference.
    stiff: f64,
    kinetic: f64,
    configurational: f64,
}

/// By one chain, from the ends of its steps or from what it holds between them.
fn run(thermostat_reads: ThermostatReads, h: f64, at_ends: bool) -> santa::Result<Found> {
    let santa = Santa {
        metric: Metric::Identity,
        thermostat_reads,
        ..Santa::sampler(StepSize::paper(h * h, 1.0), 0)
    };
    let potential = from_fn(2, slope)?;
    let stepper = santa.init(potential.target(), SEED)?;
    let mut chain = Chain::new(potential, stepper, vec![0.5; 2], Sampling::Full, 1)?;
    let (mut soft, mut stiff, mut kinetic, mut configurational) = (0.0, 0.0, 0.0, 0.0);
    for _ in 0..STEPS {
        let u = |chain: &Chain<f64, _>| {
            [0, 1].map(|i| chain.stepper().state_vector("u").map_or(0.0, |u| u[i]))
        };
        let back = if at_ends { 0.5 } else { 0.0 };
        let before = [0, 1].map(|i| chain.theta()[i] - back * u(&chain)[i]);
        chain.advance(1)?;
        let now = u(&chain);
        let x = [0, 1].map(|i| chain.theta()[i] - back * now[i]);
        soft += (x[0] + x[1]).powi(2) / 2.0 / (1.0 + CORRELATION);
        stiff += (x[0] - x[1]).powi(2) / 2.0 / (1.0 - CORRELATION);
        kinetic += (now[0] * now[0] + now[1] * now[1]) / 2.0 / (h * h);
        let gradient = chain.gradient();
        configurational += (before[0] * gradient[0] + before[1] * gradient[1]) / 2.0;
    }
    let count = STEPS as f64;
    Ok(Found {
        soft: (soft / count).sqrt(),
        stiff: (stiff / count).sqrt(),
        kinetic: kinetic / count,
        configurational: configurational / count,
    })
}

fn main() -> santa::Result<()> {
    println!("# Stiff directions and soft ones\n");
    println!(
        "`cargo run --release -p santa-posterior --example stiff_directions`: two parameters of variance \
         1 with a correlation of {CORRELATION}, no scales, exact gradients, one chain of {STEPS} steps \
         each. The difference of the parameters is {:.1} times as stiff as their sum. Standard \
         deviations relative to the exact ones; temperatures should be 1. Thermostats that read the \
         momentum hold the kinetic temperature, and the configurational one goes with it: nothing but \
         the law itself shows that the soft direction is too narrow. Those that read the velocity \
         between the ends of steps leave both directions right as long as the stiff one is resolved: up to \
         h = 0.3 here, where the step times its frequency is 1, and the sampler's warm-up goes no further.\n",
        ((1.0 + CORRELATION) / (1.0 - CORRELATION)).sqrt()
    );
    println!("| thermostat reads | h | sd, soft | sd, stiff | kinetic | configurational |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let ways = [
        ("momentum", ThermostatReads::Momentum, false),
        ("velocity, ends of steps", ThermostatReads::Velocity, true),
    ];
    for (name, reads, at_ends) in ways {
        for h in [0.5, 0.3, 0.2, 0.1] {
            let Found { soft, stiff, kinetic, configurational } = run(reads, h, at_ends)?;
            println!(
                "| {name} | {h} | {soft:.3} | {stiff:.3} | {kinetic:.3} | {configurational:.3} |"
            );
        }
    }
    Ok(())
}
