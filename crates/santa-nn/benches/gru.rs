//! A training step of the GRU without the optimizer: one sequence, 88 keys of which about four are
//! down.
//!
//! ```sh
//! cargo bench -p santa-nn --bench gru            # all sizes
//! cargo bench -p santa-nn --bench gru -- 200 500 # hidden units, steps
//! ```

use santa::Batch;
use santa::noise::{Purpose, Stream};
use santa_nn::{Gru, GruArchitecture, GruInitialisation, Normalisation, PianoRolls};
use std::time::{Duration, Instant};

const KEYS: usize = 88;
/// One of so many keys is down.
const SPARSITY: u64 = 22;
/// Time for each size, and runs at least.
const BUDGET: Duration = Duration::from_millis(1_500);
const RUNS: usize = 5;

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    println!(
        "{:>8} {:>8} {:>6} {:>8} {:>12} {:>12}",
        "hidden", "steps", "batch", "threads", "loss", "step"
    );
    for hidden in [100, 200, 400, 800, 1600, 3200] {
        for (steps, batch) in [(50, 1), (500, 1), (5000, 1), (100, 8)] {
            let wanted = match numbers[..] {
                [h, s, ..] => h == hidden && s == steps,
                [h] => h == hidden,
                [] => true,
            };
            // Longer than the budget allows.
            if !wanted || hidden * hidden * steps > 6_000_000_000 {
                continue;
            }
            for threads in [1, 2] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let (loss, step) = pool.install(|| run(hidden, steps, batch));
                println!(
                    "{hidden:>8} {steps:>8} {batch:>6} {threads:>8} {loss:>9.3} ms {step:>9.3} ms"
                );
            }
        }
    }
    println!("best of at least {RUNS} runs");
}

fn run(hidden: usize, steps: usize, batch: usize) -> (f64, f64) {
    let stream = Stream::new(1, 0, Purpose::Data);
    let values: Vec<u8> = (0..(batch * steps * KEYS) as u32)
        .map(|i| u8::from(stream.below(0, 0, i, SPARSITY) == 0))
        .collect();
    let offsets: Vec<usize> = (0..=batch).map(|i| i * steps).collect();
    let rolls = PianoRolls::new(KEYS, values, offsets).unwrap();
    let architecture = GruArchitecture { keys: KEYS, hidden };
    let mut gru = Gru::<f32>::new(architecture).unwrap();
    let initial = GruInitialisation::Uniform;
    let theta = architecture.initial::<f32>(initial, 1, 0).unwrap();
    let mut gradient = vec![0.0; theta.len()];
    let mean = Normalisation::StepMean;
    let loss = best(|| {
        gru.loss(&theta, &rolls, &Batch::full(), mean).unwrap();
    });
    let step = best(|| {
        gru.loss_gradient(&theta, &rolls, &Batch::full(), mean, &mut gradient).unwrap();
    });
    (loss, step)
}

/// Milliseconds of the fastest run.
fn best(mut work: impl FnMut()) -> f64 {
    let (begin, mut best, mut runs) = (Instant::now(), f64::INFINITY, 0);
    while runs < RUNS || begin.elapsed() < BUDGET {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    best * 1e3
}
