//! Statistical tests of the dynamics: many independent chains side by side in one vector.
//!
//! A potential that is a sum over parameters makes every parameter a chain of its own, and the fused
//! kernel runs thousands of them at once. Each chain gives one number, its time average; the numbers
//! are independent, so their spread over the chains *is* the standard error, whatever the
//! autocorrelation along a chain. The effective sample size is the variance of a single draw over the
//! squared standard error.
//!
//! A check fails when the mean is more than [`LIMIT`] standard errors off. For normal means that has
//! a chance of 3.8e-8; each test file makes fewer than [`MOST_CHECKS`] checks, so a run of it on a fresh
//! seed raises a false alarm with a chance below 2e-5. Seeds are fixed; to see the rate, run
//!
//! ```text
//! SANTA_FRESH_SEEDS=20 cargo test --release -p santa-optim --test stationarity -- --nocapture
//! ```
//!
//! which repeats every test on 20 seeds nobody has seen.
#![allow(dead_code)] // each test file uses a part

use santa::stats::Moments;
use santa::{Result, Stepper, Target};
use std::sync::atomic::{AtomicU64, Ordering};

/// Standard errors that a check puts up with.
pub const LIMIT: f64 = 5.5;
/// Bound on the number of checks in one test file, for the false-alarm rate.
pub const MOST_CHECKS: u64 = 500;

static CHECKS: AtomicU64 = AtomicU64::new(0);

/// The fixed seed, or fresh ones if the environment asks for them.
pub fn seeds(fixed: u64) -> Vec<u64> {
    match std::env::var("SANTA_FRESH_SEEDS").ok().and_then(|n| n.parse::<u64>().ok()) {
        None => vec![fixed],
        Some(n) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            (0..n).map(|k| (now.as_nanos() as u64).wrapping_add(fixed * 1_000_003 + k)).collect()
        }
    }
}

/// An average over chains, with what it should be.
#[derive(Clone, Debug)]
pub struct Check {
    pub name: String,
    pub observed: f64,
    pub expected: f64,
    pub standard_error: f64,
    pub effective_samples: f64,
}

impl Check {
    /// Standard errors between what is and what should be.
    pub fn score(&self) -> f64 {
        (self.observed - self.expected) / self.standard_error
    }
    /// The smallest error that would be noticed.
    pub fn detects(&self) -> f64 {
        LIMIT * self.standard_error
    }
    pub fn passes(&self) -> bool {
        self.score().abs() < LIMIT
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:<34} {:>11.5}, expected {:>11.5}: {:>6.1} standard errors; ESS {:>9.0}, detects {:.1e}",
            self.name,
            self.observed,
            self.expected,
            self.score(),
            self.effective_samples,
            self.detects()
        )
    }
}

/// A statistic of one chain's state, and what its mean should be.
pub struct Statistic<'a> {
    pub name: &'a str,
    pub of: Box<dyn Fn(State) -> f64 + 'a>,
    pub expected: f64,
}

pub fn statistic<'a>(
    name: &'a str,
    expected: f64,
    of: impl Fn(State) -> f64 + 'a,
) -> Statistic<'a> {
    Statistic { name, of: Box::new(of), expected }
}

/// theta, momentum $p = u/\sqrt\eta$ and friction $\Xi = \alpha/\sqrt\eta$ of one chain.
#[derive(Clone, Copy, Debug)]
pub struct State {
    pub i: usize,
    pub theta: f64,
    pub p: f64,
    pub xi: f64,
}

/// Writes the mean gradient for step t at theta.
type Force<'a> = Box<dyn FnMut(u64, &[f64], &mut [f64]) + 'a>;

/// Many chains in one vector, moved by one stepper.
pub struct Ensemble<'a> {
    pub stepper: Stepper<f64>,
    pub theta: Vec<f64>,
    gradient: Vec<f64>,
    force: Force<'a>,
}

impl<'a> Ensemble<'a> {
    /// `force` writes the mean gradient for step t at theta.
    pub fn new(
        stepper: Stepper<f64>,
        theta: Vec<f64>,
        force: impl FnMut(u64, &[f64], &mut [f64]) + 'a,
    ) -> Self {
        let gradient = vec![0.0; theta.len()];
        Ensemble { stepper, theta, gradient, force: Box::new(force) }
    }

    pub fn step(&mut self) -> Result<()> {
        (self.force)(self.stepper.steps() + 1, &self.theta, &mut self.gradient);
        self.stepper.step(&mut self.theta, &self.gradient)?;
        Ok(())
    }

    pub fn run(&mut self, steps: u64) -> Result<()> {
        (0..steps).try_for_each(|_| self.step())
    }

    /// The state of chain i.
    fn states(&self) -> impl Iterator<Item = State> + '_ {
        let physics = self.stepper.physics(0).unwrap();
        let h = physics.map_or(1.0, |p| p.eta.sqrt());
        let alpha0 = physics.map_or(0.0, |p| p.alpha0);
        let u = self.stepper.state_vector("u");
        let shift = self.stepper.state_vector("alpha_shift");
        (0..self.theta.len()).map(move |i| State {
            i,
            theta: self.theta[i],
            p: u.map_or(0.0, |u| u[i] / h),
            xi: shift.map_or(0.0, |s| (alpha0 + s[i]) / h),
        })
    }

    /// Runs on, looking at the states every `every` steps, and checks the statistics.
    pub fn observe(
        &mut self,
        steps: u64,
        every: u64,
        statistics: &[Statistic<'_>],
    ) -> Result<Vec<Check>> {
        let chains = self.theta.len();
        let looks = steps / every;
        let mut sums = vec![vec![0.0; chains]; statistics.len()];
        let mut single = vec![Moments::default(); statistics.len()];
        for _ in 0..looks {
            self.run(every)?;
            for (k, s) in statistics.iter().enumerate() {
                for state in self.states() {
                    let x = (s.of)(state);
                    sums[k][state.i] += x;
                    single[k].push(x);
                }
            }
        }
        Ok(statistics
            .iter()
            .enumerate()
            .map(|(k, s)| {
                let over_chains: Moments = sums[k].iter().map(|x| x / looks as f64).collect();
                let standard_error = over_chains.standard_error();
                Check {
                    name: s.name.to_string(),
                    observed: over_chains.mean(),
                    expected: s.expected,
                    standard_error,
                    effective_samples: single[k].variance() / standard_error.powi(2),
                }
            })
            .collect())
    }
}

/// Prints the checks and fails if one does.
pub fn all_pass(what: &str, checks: &[Check]) {
    println!("{what}");
    for check in checks {
        println!("  {check}");
    }
    let made = CHECKS.fetch_add(checks.len() as u64, Ordering::Relaxed) + checks.len() as u64;
    if std::env::var("SANTA_FRESH_SEEDS").is_err() {
        assert!(made <= MOST_CHECKS, "more checks than the false-alarm bound allows for");
    }
    for check in checks {
        assert!(check.passes(), "{what}: {check}");
    }
}

/// A negative control: the named check must fail.
pub fn must_fail(what: &str, checks: &[Check], name: &str) {
    println!("{what} (must fail in {name})");
    for check in checks {
        println!("  {check}");
    }
    let check = checks.iter().find(|c| c.name == name).expect("a check of that name");
    assert!(!check.passes(), "{what} went unnoticed: {check}");
}

/// A density of `chains` independent parameters.
pub fn chains(chains: usize) -> Target {
    Target::density(chains).unwrap()
}

/// Standard normal numbers of their own kind.
pub fn normals(seed: u64, kind: u8, n: usize) -> Vec<f64> {
    use santa::noise::{Purpose, Stream};
    let mut z = vec![0.0; n];
    Stream::new(seed, 0, Purpose::Custom(kind)).normals(0, 0, 0, &mut z);
    z
}
