//! The order of each integrator, measured: the bias of E[U] and E[theta] on a potential that is not
//! quadratic, with exact gradients, against quadrature.
//!
//! ```text
//! cargo run --release --example order            # the table of the guide
//! cargo run --release --example order -- 0.2     # a fifth of the samples
//! ```
//!
//! U = theta^2/2 + sin(1.5 theta), beta = G1 = G2 = 1, f64. Thousands of chains side by side in one
//! vector; each gives one time average, so the spread over the chains is the standard error.

use santa::dynamics::{Diffusion, Exploration, GradientAt, Metric, Msgnht, Sghmc, ThermostatMass};
use santa::potential::analytic::Wavy;
use santa::stats::{Moments, expectation};
use santa::{Algorithm, Integrator, Result, Santa, StepSize, Stepper, Target};

/// A bias with its standard error.
#[derive(Clone, Copy, Debug)]
pub struct Bias {
    /// Mean minus truth.
    pub bias: f64,
    /// Of the mean.
    pub standard_error: f64,
}

/// Biases of E[U] and E[theta] at one step size.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Step size.
    pub h: f64,
    /// Of the energy.
    pub energy: Bias,
    /// Of the position.
    pub theta: Bias,
}

/// The schemes by name.
pub const SCHEMES: [(&str, fn(f64) -> Algorithm); 4] = [
    ("Santa, midpoint", |h| santa(h, Integrator::Splitting, GradientAt::Midpoint).into()),
    ("Santa, as printed", |h| santa(h, Integrator::Splitting, GradientAt::Start).into()),
    ("Santa-E (Euler)", |h| santa(h, Integrator::Euler, GradientAt::Start).into()),
    ("SGHMC (Euler)", |h| Sghmc::new(StepSize::paper(h * h, 1.0)).into()),
];

fn santa(h: f64, integrator: Integrator, gradient_at: GradientAt) -> Santa {
    Santa {
        integrator,
        gradient_at,
        exploration: Exploration::Always,
        metric: Metric::Identity,
        diffusion: Diffusion::Constant(1.0),
        thermostat_mass: ThermostatMass::Mass(1.0),
        ..Msgnht::new(StepSize::paper(h * h, 1.0)).as_santa()
    }
}

/// The biases of a scheme at step size `h`, from `samples` units of chain time.
pub fn measure(algorithm: Algorithm, h: f64, samples: f64, seed: u64) -> Result<Row> {
    const CHAINS: usize = 4096;
    /// Time for the start to be forgotten.
    const WARM_UP: f64 = 20.0;
    let truth = |of: fn(f64) -> f64| expectation((-9.0, 9.0), Wavy::u, of);
    let target = Target::density(CHAINS)?;
    let mut stepper: Stepper<f64> = Stepper::new(algorithm, &target, seed, 0)?;
    let mut theta = vec![-1.0; CHAINS];
    let mut gradient = vec![0.0; CHAINS];
    let mut step = |theta: &mut Vec<f64>| -> Result<()> {
        for (f, x) in gradient.iter_mut().zip(theta.iter()) {
            *f = Wavy::du(*x);
        }
        stepper.step(theta, &gradient).map(|_| ())
    };
    for _ in 0..(WARM_UP / h) as u64 {
        step(&mut theta)?;
    }
    // U is looked at every quarter of a time unit: more often brings little.
    let every = ((0.25 / h) as u64).max(1);
    let looks = ((samples / CHAINS as f64 / h) as u64 / every).max(2);
    let mut sums = vec![(0.0, 0.0); CHAINS];
    for _ in 0..looks {
        for _ in 0..every {
            step(&mut theta)?;
        }
        for (sum, x) in sums.iter_mut().zip(&theta) {
            sum.0 += Wavy::u(*x);
            sum.1 += x;
        }
    }
    let bias = |pick: fn(&(f64, f64)) -> f64, truth: f64| {
        let m: Moments = sums.iter().map(|s| pick(s) / looks as f64).collect();
        Bias { bias: m.mean() - truth, standard_error: m.standard_error() }
    };
    Ok(Row { h, energy: bias(|s| s.0, truth(Wavy::u)), theta: bias(|s| s.1, truth(|x| x)) })
}

/// The slope of log |bias| over log h by weighted least squares, with its standard error.
pub fn slope(points: &[(f64, Bias)]) -> (f64, f64) {
    let point = |(h, b): &(f64, Bias)| {
        let relative = b.standard_error / b.bias.abs();
        (h.ln(), b.bias.abs().ln(), 1.0 / (relative * relative))
    };
    let sum = |f: &dyn Fn(f64, f64, f64) -> f64| {
        points.iter().map(point).map(|(x, y, w)| f(x, y, w)).sum::<f64>()
    };
    let w = sum(&|_, _, w| w);
    let (x, y) = (sum(&|x, _, w| w * x) / w, sum(&|_, y, w| w * y) / w);
    let xx = sum(&|a, _, w| w * (a - x) * (a - x));
    let xy = sum(&|a, b, w| w * (a - x) * (b - y));
    (xy / xx, (1.0 / xx).sqrt())
}

fn main() -> Result<()> {
    let share: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1.0);
    println!("{:<20} {:>6} {:>22} {:>22}", "scheme", "h", "bias of E[U]", "bias of E[theta]");
    for (name, algorithm) in SCHEMES {
        let mut rows = Vec::new();
        for h in [0.2, 0.1, 0.05] {
            // The bias falls with h, so the samples must grow.
            let samples = share * 1e5 / (h * h * h);
            match measure(algorithm(h), h, samples, 1) {
                Ok(row) => {
                    println!(
                        "{name:<20} {h:>6} {:>12.5} +- {:.5} {:>12.5} +- {:.5}",
                        row.energy.bias,
                        row.energy.standard_error,
                        row.theta.bias,
                        row.theta.standard_error
                    );
                    rows.push(row);
                }
                Err(_) => println!("{name:<20} {h:>6} {:>22} {:>22}", "diverges", "diverges"),
            }
        }
        let energy: Vec<_> = rows.iter().map(|r| (r.h, r.energy)).collect();
        let theta: Vec<_> = rows.iter().map(|r| (r.h, r.theta)).collect();
        let (a, b) = (slope(&energy), slope(&theta));
        println!(
            "{:<20} {:>6} {:>12.2} +- {:.2}    {:>12.2} +- {:.2}",
            "", "slope", a.0, a.1, b.0, b.1
        );
    }
    Ok(())
}
