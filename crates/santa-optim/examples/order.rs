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

/// An integrator with the step sizes at which its bias is looked at.
pub struct Scheme {
    /// For the table.
    pub name: &'static str,
    /// Expected order.
    pub order: i32,
    /// Settings for a step size.
    pub algorithm: fn(f64) -> Algorithm,
    /// Look at theta - u/2, the end of the paper's step, instead of at the stored theta.
    pub end_of_step: bool,
    /// Step sizes.
    pub h: [f64; 3],
    /// Chain time at the smallest step; the bias grows with h, so larger steps need less.
    pub samples: f64,
}

/// All of them.
pub const SCHEMES: [Scheme; 5] = [
    Scheme {
        name: "midpoint, stored theta",
        order: 2,
        algorithm: |h| santa(h, Integrator::Splitting, GradientAt::Midpoint).into(),
        end_of_step: false,
        h: [0.28, 0.2, 0.14],
        samples: 6e7,
    },
    Scheme {
        name: "midpoint, end of step",
        order: 2,
        algorithm: |h| santa(h, Integrator::Splitting, GradientAt::Midpoint).into(),
        end_of_step: true,
        h: [0.28, 0.2, 0.1],
        samples: 1.5e7,
    },
    Scheme {
        name: "as printed",
        order: 1,
        algorithm: |h| santa(h, Integrator::Splitting, GradientAt::Start).into(),
        end_of_step: false,
        h: [0.1, 0.05, 0.025],
        samples: 6e6,
    },
    Scheme {
        name: "Euler",
        order: 1,
        algorithm: |h| santa(h, Integrator::Euler, GradientAt::Start).into(),
        end_of_step: false,
        h: [0.1, 0.05, 0.025],
        samples: 8e6,
    },
    Scheme {
        name: "SGHMC (Euler)",
        order: 2,
        algorithm: |h| Sghmc::new(StepSize::paper(h * h, 1.0)).into(),
        end_of_step: false,
        h: [0.2, 0.14, 0.1],
        samples: 3e7,
    },
];

impl Scheme {
    /// The biases at every step size.
    pub fn measure(&self, share: f64, seed: u64) -> Result<Vec<Row>> {
        let smallest = self.h[self.h.len() - 1];
        let at = |h: f64| {
            let samples = share * self.samples * (smallest / h).powi(2 * self.order);
            measure((self.algorithm)(h), self.end_of_step, h, samples, seed)
        };
        self.h.iter().map(|h| at(*h)).collect()
    }
}

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

/// The biases of a scheme at step size `h`, from `samples` units of chain time, on two threads.
pub fn measure(
    algorithm: Algorithm,
    end_of_step: bool,
    h: f64,
    samples: f64,
    seed: u64,
) -> Result<Row> {
    let half =
        |chain| chain_averages(algorithm.clone(), end_of_step, h, samples / 2.0, seed, chain);
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| half(1));
        (half(0), second.join().expect("no panic"))
    });
    let averages = [first?, second?].concat();
    let bias = |pick: fn(&(f64, f64)) -> f64, of: fn(f64) -> f64| {
        let m: Moments = averages.iter().map(pick).collect();
        let truth = expectation((-9.0, 9.0), Wavy::u, of);
        Bias { bias: m.mean() - truth, standard_error: m.standard_error() }
    };
    Ok(Row { h, energy: bias(|a| a.0, Wavy::u), theta: bias(|a| a.1, |x| x) })
}

/// Time averages of U and theta, one pair for each of many chains.
fn chain_averages(
    algorithm: Algorithm,
    end_of_step: bool,
    h: f64,
    samples: f64,
    seed: u64,
    chain: u32,
) -> Result<Vec<(f64, f64)>> {
    const CHAINS: usize = 2048;
    /// Time for the start to be forgotten.
    const WARM_UP: f64 = 20.0;
    /// Time between looks: more often brings little.
    const BETWEEN: f64 = 0.25;
    let target = Target::density(CHAINS)?;
    let mut stepper: Stepper<f64> = Stepper::new(algorithm, &target, seed, chain)?;
    let mut theta = vec![-1.0; CHAINS];
    let mut gradient = vec![0.0; CHAINS];
    let mut walk = |steps: u64, stepper: &mut Stepper<f64>, theta: &mut [f64]| -> Result<()> {
        for _ in 0..steps {
            for (f, x) in gradient.iter_mut().zip(theta.iter()) {
                *f = Wavy::du(*x);
            }
            stepper.step(theta, &gradient)?;
        }
        Ok(())
    };
    walk((WARM_UP / h) as u64, &mut stepper, &mut theta)?;
    let every = ((BETWEEN / h) as u64).max(1);
    let looks = ((samples / CHAINS as f64 / h) as u64 / every).max(2);
    let mut sums = vec![(0.0, 0.0); CHAINS];
    for _ in 0..looks {
        walk(every, &mut stepper, &mut theta)?;
        let u = stepper.state_vector("u").unwrap_or(&[]);
        for (i, sum) in sums.iter_mut().enumerate() {
            let x = theta[i] - if end_of_step { 0.5 * u[i] } else { 0.0 };
            sum.0 += Wavy::u(x);
            sum.1 += x;
        }
    }
    let n = looks as f64;
    Ok(sums.into_iter().map(|(energy, theta)| (energy / n, theta / n)).collect())
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
    println!("{:<24} {:>6} {:>22} {:>22}", "scheme", "h", "bias of E[U]", "bias of E[theta]");
    for scheme in SCHEMES {
        let rows = scheme.measure(share, 1)?;
        for row in &rows {
            println!(
                "{:<24} {:>6} {:>12.5} +- {:.5} {:>12.5} +- {:.5}",
                scheme.name,
                row.h,
                row.energy.bias,
                row.energy.standard_error,
                row.theta.bias,
                row.theta.standard_error
            );
        }
        let energy: Vec<_> = rows.iter().map(|r| (r.h, r.energy)).collect();
        let theta: Vec<_> = rows.iter().map(|r| (r.h, r.theta)).collect();
        let (a, b) = (slope(&energy), slope(&theta));
        println!(
            "{:<24} {:>6} {:>12.2} +- {:.2}    {:>12.2} +- {:.2}",
            "", "slope", a.0, a.1, b.0, b.1
        );
    }
    Ok(())
}
