//! How far the RMSprop metric, which is history and not a function of theta, takes Santa from its
//! target: the variance of theta on a unit Gaussian, which should be 1.
//!
//! ```text
//! cargo run --release --example metric_bias
//! ```
//!
//! Exact gradients, beta = 1, lambda = 0.1, G2 = 1, midpoint splitting; many chains side by side in
//! one vector, so that the spread over the chains is the standard error.

use santa::dynamics::{Corrections, Diffusion, Exploration, Metric, ThermostatMass};
use santa::stats::Moments;
use santa::{Result, Santa, StepSize, Stepper, Target};

fn main() -> Result<()> {
    println!(
        "{:>7} {:>6} {:>20} {:>20} {:>20}",
        "sigma", "h", "no corrections", "corrections", "frozen"
    );
    for sigma in [0.9, 0.99, 0.999, 0.9999] {
        for h in [0.2, 0.1, 0.05] {
            let adaptive = Santa {
                step: StepSize::paper(h * h, 1.0),
                exploration: Exploration::Always,
                metric: Metric::RmsProp { sigma },
                lambda: 0.1,
                diffusion: Diffusion::Constant(1.0),
                thermostat_mass: ThermostatMass::Mass(1.0),
                ..Santa::default()
            };
            let corrected =
                Santa { corrections: Corrections::On { guard: 0.1 }, ..adaptive.clone() };
            // Frozen once the warm-up is over.
            let frozen =
                Santa { freeze_metric_after: Some(steps(WARM_UP, h) / 2), ..adaptive.clone() };
            let cells =
                [adaptive, corrected, frozen].map(|settings| variance(settings, h)).map(|cell| {
                    match cell {
                        Ok((mean, error)) => format!("{mean:>12.3} +- {error:.3}"),
                        Err(_) => "diverges".to_string(),
                    }
                });
            println!("{sigma:>7} {h:>6} {:>20} {:>20} {:>20}", cells[0], cells[1], cells[2]);
        }
    }
    Ok(())
}

/// Time for the start, and the metric's, to be forgotten.
const WARM_UP: f64 = 100.0;
/// Time that is averaged over.
const TIME: f64 = 200.0;

fn steps(time: f64, h: f64) -> u64 {
    (time / h) as u64
}

/// The variance of theta and its standard error.
fn variance(settings: Santa, h: f64) -> Result<(f64, f64)> {
    const CHAINS: usize = 2048;
    let target = Target::density(CHAINS)?;
    let mut stepper: Stepper<f64> = settings.init(&target, 1)?;
    let mut theta = vec![0.5; CHAINS];
    let mut squares = vec![0.0; CHAINS];
    let mut gradient = vec![0.0; CHAINS];
    for t in 0..steps(WARM_UP + TIME, h) {
        gradient.copy_from_slice(&theta);
        stepper.step(&mut theta, &gradient)?;
        if t >= steps(WARM_UP, h) {
            squares.iter_mut().zip(&theta).for_each(|(s, x)| *s += x * x);
        }
    }
    let looks = (steps(WARM_UP + TIME, h) - steps(WARM_UP, h)) as f64;
    let over_chains: Moments = squares.iter().map(|s| s / looks).collect();
    Ok((over_chains.mean(), over_chains.standard_error()))
}
