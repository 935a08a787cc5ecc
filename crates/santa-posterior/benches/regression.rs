//! Time of a minibatch gradient, beside the time of reading its rows once, and of a chain's step.
//!
//! ```text
//! cargo bench -p santa-posterior --bench regression
//! cargo bench -p santa-posterior --bench regression -- logistic d=50   # rows with all these words
//! ```
//!
//! Batches are drawn at random, as a chain draws them, from rows that a second-level cache holds and
//! from many more. "read" is the time of one sum over the same rows, eight at a time: about what a
//! gradient cannot be faster than.

use santa::dynamics::Sgld;
use santa::noise::{Purpose, Stream};
use santa::potential::ControlVariate;
use santa::{Batch, Chain, Potential, Prior, Rate, Real, Sampling};
use santa_bench::Effort;
use santa_bench::clock::best;
use santa_posterior::regression::{Arithmetic, Design, Family, Regression, Scaling};
use std::hint::black_box;
use std::time::Instant;

/// Bytes of features in double precision.
const PLACES: [(&str, usize); 2] = [("cache", 1 << 20), ("memory", 1 << 26)];
/// Batches that are gone through in turn.
const BATCHES: usize = 64;
const NANO: f64 = 1e9;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|w| !w.starts_with("--")).collect();
    let wanted = |row: &str| words.iter().all(|word| row.contains(word.as_str()));
    println!(
        "{:<40} {:>10} {:>8} {:>10} {:>8} {:>8}",
        "", "ns/batch", "ns/row", "read", "of read", "GFLOP/s"
    );
    for (place, bytes) in PLACES {
        for columns in [50, 785] {
            let rows = bytes / (columns * f64::BYTES);
            for family in [Family::logistic(), Family::linear(), Family::robust()] {
                let label =
                    |precision| format!("{} {place} {precision} d={columns}", name(&family));
                let double = model::<f64>(rows, columns, family);
                gradients(&double, &label("f64"), rows, columns, &wanted);
                let single = model::<f32>(rows, columns, family);
                gradients(&single, &label("f32"), rows, columns, &wanted);
                steps(double, &label("f64"), &wanted);
            }
        }
    }
}

fn name(family: &Family) -> &'static str {
    match family {
        Family::Gaussian { .. } => "linear",
        Family::Bernoulli => "logistic",
        _ => "robust",
    }
}

fn model<X: Arithmetic>(rows: usize, columns: usize, family: Family) -> Regression<X> {
    let stream = Stream::new(1, 0, Purpose::Data);
    let d = columns - 1; // and the intercept
    let mut features = vec![0.0f64; rows * d];
    stream.normals(0, 0, 0, &mut features);
    let response: Vec<f64> = features
        .chunks(d)
        .enumerate()
        .map(|(i, x)| {
            let y = x[0] + 2.0 * stream.uniform(1, 0, i as u32) - 1.0;
            if family == Family::Bernoulli { f64::from(u8::from(y > 0.0)) } else { y }
        })
        .collect();
    let names: Vec<String> = (0..d).map(|j| format!("x{j}")).collect();
    let design = Design::new(names, &features, true, Scaling::Standardised).unwrap();
    Regression::new(design, &response, family, Prior::gaussian(1.0)).unwrap()
}

fn batches(rows: usize, size: usize) -> Vec<Vec<u32>> {
    let stream = Stream::new(2, 0, Purpose::Shuffling);
    let draw = |b: usize, i: usize| (stream.uniform(b as u64, 0, i as u32) * rows as f64) as u32;
    (0..BATCHES).map(|b| (0..size).map(|i| draw(b, i)).collect()).collect()
}

/// The best time of one batch, over rounds of all of them, in nanoseconds.
fn time(batches: &[Vec<u32>], mut work: impl FnMut(&[u32])) -> f64 {
    let round = best(Effort::Full, || {
        let start = Instant::now();
        batches.iter().for_each(|batch| work(batch));
        start.elapsed()
    });
    round * NANO / batches.len() as f64
}

fn gradients<X: Arithmetic>(
    model: &Regression<X>,
    label: &str,
    rows: usize,
    columns: usize,
    wanted: &dyn Fn(&str) -> bool,
) {
    let dim = model.target().dim();
    let theta = vec![X::from_f64(0.01); dim];
    let mut gradient = vec![X::ZERO; dim];
    for size in [100, 500] {
        let list = batches(rows, size);
        let row = |kind: &str| format!("{label} batch={size} {kind}");
        let mut report = |kind: &str, potential: &mut dyn Potential<X>| {
            if !wanted(&row(kind)) {
                return;
            }
            let ns = time(&list, |batch| {
                potential.loss_gradient(&theta, &Batch::of(batch), &mut gradient).unwrap();
            });
            let read = reading::<X>(rows, columns, &list);
            // Two products of a row, a multiplication and an addition each.
            let flops = (4 * size * columns) as f64;
            println!(
                "{:<40} {ns:>10.0} {:>8.1} {read:>10.0} {:>8.2} {:>8.1}",
                row(kind),
                ns / size as f64,
                ns / read,
                flops / ns
            );
        };
        report("plain", &mut model.clone());
        let anchor = vec![0.0; dim];
        report("anchor", &mut model.clone().with_anchor(&anchor).unwrap());
        let mut wrapped = ControlVariate::new(model.clone(), u64::MAX).unwrap();
        wrapped.refresh(&vec![X::ZERO; dim], &Batch::full()).unwrap();
        report("wrapped", &mut wrapped);
    }
}

/// One sum over the rows of the batches, which lie as those of a regression do.
fn reading<X: Arithmetic>(rows: usize, columns: usize, list: &[Vec<u32>]) -> f64 {
    let line = 64 / X::BYTES;
    let stride = columns.next_multiple_of(line);
    let features = vec![X::ONE; rows * stride];
    time(list, |batch| {
        let mut sums = [[X::ZERO; 8]; 8];
        for group in batch.chunks_exact(sums.len()) {
            let group: Vec<&[X]> =
                group.iter().map(|i| &features[*i as usize * stride..][..stride]).collect();
            for j in (0..stride).step_by(8) {
                for (row, sums) in group.iter().zip(&mut sums) {
                    for (x, sum) in row[j..j + 8].iter().zip(sums) {
                        *sum += *x;
                    }
                }
            }
        }
        black_box(sums);
    })
}

/// Whole steps, with coefficients in one segment and in a segment each.
fn steps(model: Regression<f64>, label: &str, wanted: &dyn Fn(&str) -> bool) {
    const SIZE: usize = 100;
    const STEPS: u64 = 100;
    let named = model.clone().with_named_segments().unwrap();
    for (kind, model) in [("step", model), ("step, named segments", named)] {
        let row = format!("{label} batch={SIZE} {kind}");
        if !wanted(&row) {
            continue;
        }
        let target = model.target();
        let stepper = Sgld::new(Rate::eta(1e-6)).init::<f64>(target, 1).unwrap();
        let theta = vec![0.0; target.dim()];
        let mut chain = Chain::new(model, stepper, theta, Sampling::WithReplacement, SIZE).unwrap();
        let seconds = best(Effort::Full, || {
            let start = Instant::now();
            chain.advance(STEPS).unwrap();
            start.elapsed()
        });
        println!("{row:<40} {:>10.0}", seconds * NANO / STEPS as f64);
    }
}
