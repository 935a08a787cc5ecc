//! What watching a run costs: the vitals and a thermometer's observation, beside a step.
//!
//! ```text
//! cargo bench -p santa-optim --bench vitals             # 1e6 and 2e7 parameters
//! cargo bench -p santa-optim --bench vitals -- 1e6      # one size
//! ```
//!
//! "share" is what a call every [`EVERY`] steps adds to the time of those steps. Rounds alternate
//! between the three, and the best of each counts.

use santa::dynamics::Exploration;
use santa::{DataSize, Layout, Prior, Santa, Target, Thermometer};
use std::time::Instant;

/// Steps between two measurements.
const EVERY: f64 = 100.0;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|w| !w.starts_with("--")).collect();
    println!(
        "{:>6} {:>7} {:>10} {:>10} {:>8} {:>14} {:>8}",
        "params", "threads", "step, ms", "vitals, ms", "share", "thermometer, ms", "share"
    );
    for (label, dim) in [("1e6", 1_000_000usize), ("2e7", 20_000_000)] {
        if !words.is_empty() && !words.iter().any(|w| w == label) {
            continue;
        }
        for threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| measure(label, dim, threads));
        }
    }
}

fn measure(label: &str, dim: usize, threads: usize) {
    let n = DataSize::new(60_000).unwrap();
    let target = Target::new(Layout::flat(dim).unwrap(), n, Prior::gaussian(1.0)).unwrap();
    let settings = Santa { exploration: Exploration::Always, ..Santa::new(1e-6, 1_000_000) };
    let mut stepper = settings.init::<f32>(&target, 1).unwrap();
    let mut theta = vec![0.1f32; dim];
    let gradient = vec![0.01f32; dim];
    let mut thermometer = Thermometer::new(&target, &theta).unwrap();

    /// Elements that pass by in each measurement, and the fewest rounds.
    const ELEMENTS: usize = 200_000_000;
    const LEAST_ROUNDS: usize = 15;
    let (mut step, mut vitals, mut observation) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    for _ in 0..(ELEMENTS / dim).max(LEAST_ROUNDS) {
        step = step.min(seconds(|| {
            stepper.step(&mut theta, &gradient).unwrap();
        }));
        vitals = vitals.min(seconds(|| {
            std::hint::black_box(stepper.vitals(&theta, &gradient).unwrap());
        }));
        observation = observation.min(seconds(|| thermometer.observe(&theta, &gradient).unwrap()));
    }
    let share = |time: f64| 100.0 * time / (EVERY * step);
    println!(
        "{label:>6} {threads:>7} {:>10.3} {:>10.3} {:>7.2}% {:>14.3} {:>7.2}%",
        step * 1e3,
        vitals * 1e3,
        share(vitals),
        observation * 1e3,
        share(observation)
    );
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}
