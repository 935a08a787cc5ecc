//! A training step of the GRU without the optimizer: one sequence, 88 keys of which about four are
//! down.
//!
//! ```sh
//! cargo bench -p santa-nn --bench gru              # all sizes
//! cargo bench -p santa-nn --bench gru -- 200 500 2 # hidden units, steps, threads
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
/// Hidden units squared times steps, beyond which a run takes seconds.
const LARGEST: usize = 6_000_000_000;

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let columns = ["loss", "step", "prepare", "forward", "outputs", "backward", "gradient"];
    print!("{:>6} {:>6} {:>6} {:>8}", "hidden", "steps", "batch", "threads");
    println!("{}", columns.map(|column| format!("{column:>10}")).concat());
    for hidden in [100, 200, 400, 800, 1600, 3200] {
        for (steps, batch) in [(50, 1), (500, 1), (5000, 1), (100, 8)] {
            let wanted = match numbers[..] {
                [h, s, ..] => h == hidden && s == steps,
                [h] => h == hidden,
                [] => true,
            };
            if !wanted || hidden * hidden * steps * batch > LARGEST {
                continue;
            }
            for threads in [1, 2] {
                if numbers.get(2).is_some_and(|wanted| *wanted != threads) {
                    continue;
                }
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let times = pool.install(|| run(hidden, steps, batch));
                print!("{hidden:>6} {steps:>6} {batch:>6} {threads:>8}");
                println!("{}", times.map(|time| format!("{:>10.3}", time * 1e3)).concat());
            }
        }
    }
    println!("milliseconds, each the best of at least {RUNS} runs");
}

/// Seconds of: the loss alone, a step, and its phases.
fn run(hidden: usize, steps: usize, batch: usize) -> [f64; 7] {
    let stream = Stream::new(1, 0, Purpose::Data);
    let values: Vec<u8> = (0..(batch * steps * KEYS) as u32)
        .map(|i| u8::from(stream.below(0, 0, i, SPARSITY) == 0))
        .collect();
    let offsets: Vec<usize> = (0..=batch).map(|i| i * steps).collect();
    let rolls = PianoRolls::new(KEYS, values, offsets).unwrap();
    let architecture = GruArchitecture { keys: KEYS, hidden };
    let mut gru = Gru::<f32>::new(architecture).unwrap();
    let theta = architecture.initial::<f32>(GruInitialisation::Uniform, 1, 0).unwrap();
    let mut gradient = vec![0.0; theta.len()];
    let mean = Normalisation::SequenceMean;
    let [loss] = best(|| {
        let start = Instant::now();
        gru.loss(&theta, &rolls, &Batch::full(), mean).unwrap();
        [start.elapsed()]
    });
    let [step, prepare, forward, outputs, backward, parameters] = best(|| {
        let start = Instant::now();
        gru.loss_gradient(&theta, &rolls, &Batch::full(), mean, &mut gradient).unwrap();
        let total = start.elapsed();
        let p = gru.phases();
        [total, p.prepare, p.forward, p.outputs, p.backward, p.gradient]
    });
    [loss, step, prepare, forward, outputs, backward, parameters]
}

/// The least of each time.
fn best<const N: usize>(mut work: impl FnMut() -> [Duration; N]) -> [f64; N] {
    let (begin, mut best, mut runs) = (Instant::now(), [f64::INFINITY; N], 0);
    while runs < RUNS || begin.elapsed() < BUDGET {
        for (best, time) in best.iter_mut().zip(work()) {
            *best = best.min(time.as_secs_f64());
        }
        runs += 1;
    }
    best
}
