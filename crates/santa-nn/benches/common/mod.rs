//! What the benchmarks of whole steps share.
#![allow(dead_code)]

use santa::dynamics::AlphaInRefinement;
use santa::{Batch, Potential, Santa, Stepper};
use santa_datasets::Mnist;
use santa_nn::{Buffer, Examples, PianoRolls, zeros};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long a case is measured.
const BUDGET: Duration = Duration::from_millis(1200);

/// So small that the parameters hardly move, as in the script that measures PyTorch: a network that has
/// learned its data by heart has gradients of almost nothing, which processors compute slowly.
const RATE: f64 = 1e-6;

/// Milliseconds.
pub struct Times {
    pub forward: f64,
    /// Exploring, with noise.
    pub optimizer: f64,
    /// Of a step that explores.
    pub total: f64,
    /// Of a step that refines, without noise.
    pub refining: f64,
    /// Of the model's buffers.
    pub megabytes: f64,
    /// Page faults of a step, where the system tells.
    pub faults: f64,
}

/// The embedded digits.
pub fn digits() -> Examples {
    let train = Mnist::embedded().train;
    let examples = Examples::from_bytes(train.pixels(), train.image_len(), train.labels());
    examples.expect("the embedded digits").scaled(1.0 / 255.0)
}

/// Images without a zero.
pub fn noise(width: usize) -> Examples {
    const LEN: usize = 1000;
    let pixels: Vec<u8> = (0..LEN * width).map(|i| (1 + i * 7919 % 255) as u8).collect();
    let labels: Vec<u8> = (0..LEN).map(|i| (i % 10) as u8).collect();
    Examples::from_bytes(pixels, width, labels).expect("noise").scaled(1.0 / 255.0)
}

/// Sequences with a few keys down at a time, as music has.
pub fn rolls(keys: usize, steps: usize) -> PianoRolls {
    const SEQUENCES: usize = 10;
    const DOWN: usize = 4;
    let mut values = vec![0u8; SEQUENCES * steps * keys];
    for (t, step) in values.chunks_exact_mut(keys).enumerate() {
        (0..DOWN).for_each(|i| step[(t / 4 * 7 + i * 11) % keys] = 1);
    }
    let offsets: Vec<usize> = (0..=SEQUENCES).map(|i| i * steps).collect();
    PianoRolls::new(keys, values, offsets).expect("sequences")
}

/// Best times of the parts of a step with Santa.
pub fn measure(model: &mut impl Potential<f32>, mut theta: Buffer<f32>, batch: usize) -> Times {
    let n = model.target().data_size().get() as u32;
    let santa = Santa::new(RATE, 1_000_000);
    let mut exploring = santa.clone().init::<f32>(model.target(), 1).unwrap();
    let refining = santa.refining_only(AlphaInRefinement::Frozen);
    let mut refining = refining.init::<f32>(model.target(), 1).unwrap();
    let mut gradient = zeros::<f32>(theta.len());
    let mut batches =
        (0u32..).map(|i| (0..batch as u32).map(|j| (i * 9973 + j * 31) % n).collect::<Vec<_>>());
    let mut next = || batches.next().unwrap();
    let forward = best(|| {
        let batch = next();
        let start = Instant::now();
        black_box(model.loss(&theta, &Batch::of(&batch)).unwrap());
        start.elapsed()
    });
    let mut optimizer = f64::INFINITY;
    let mut step = |santa: &mut Stepper<f32>, optimizer: &mut f64| {
        let batch = next();
        let start = Instant::now();
        model.loss_gradient(&theta, &Batch::of(&batch), &mut gradient).unwrap();
        let gradient_done = start.elapsed();
        santa.step(&mut theta, &gradient).unwrap();
        let all = start.elapsed();
        *optimizer = optimizer.min((all - gradient_done).as_secs_f64() * 1e3);
        all
    };
    let (before, mut steps) = (page_faults(), 0);
    let total = best(|| {
        steps += 1;
        step(&mut exploring, &mut optimizer)
    });
    let faults = (page_faults() - before) as f64 / f64::from(steps);
    let mut unused = f64::INFINITY;
    let refining = best(|| step(&mut refining, &mut unused));
    Times { forward, optimizer, total, refining, megabytes: 0.0, faults }
}

/// The best of what `step` measures, in milliseconds.
pub fn best(mut step: impl FnMut() -> Duration) -> f64 {
    let start = Instant::now();
    let mut best = Duration::MAX;
    while start.elapsed() < BUDGET {
        best = best.min(step());
    }
    best.as_secs_f64() * 1e3
}

/// Minor page faults of this process so far; 0 where the system does not tell.
fn page_faults() -> u64 {
    /// Of the fields after the name, in parentheses, of the process.
    const FIELD: usize = 7;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().nth(FIELD).and_then(|n| n.parse().ok()).unwrap_or(0)
}
