//! What the kernel Stein discrepancy notices, as `santa sample` tests it: how often independent draws
//! of a round Gaussian are called off, the right ones and wrong ones.
//!
//! ```sh
//! cargo run --release -p santa-posterior --example stein_resolution
//! ```
//!
//! It takes some minutes.

use santa::noise::{Purpose, Stream};
use santa_posterior::Result;
use santa_posterior::diagnostics::{FalseAlarms, Scale, SteinSettings, stein_test};

/// Samples for a power, and for a rate of false alarms.
const SAMPLES: u32 = 20;
const SAMPLES_RIGHT: u32 = 2_000;

/// What is done to a coordinate, given its number.
type Wrong = fn(usize, f64) -> f64;

const WRONG: [(&str, Wrong); 6] = [
    ("variance x 1.3", |_, x| x * 1.3f64.sqrt()),
    ("variance x 1.5", |_, x| x * 1.5f64.sqrt()),
    ("variance / 1.3", |_, x| x / 1.3f64.sqrt()),
    ("variance / 1.5", |_, x| x / 1.5f64.sqrt()),
    ("one variance x 2", |i, x| if i == 0 { x * 2f64.sqrt() } else { x }),
    ("one mean + 0.2 sd", |i, x| if i == 0 { x + 0.2 } else { x }),
];

/// The share of samples that are called off, in percent.
fn share(dim: usize, points: usize, samples: u32, rate: f64, change: Wrong) -> Result<f64> {
    let mut off = 0;
    for sample in 0..samples {
        let mut x = vec![0.0; points * dim];
        Stream::new(5, sample, Purpose::Custom(0)).normals(dim as u64, 0, 0, &mut x);
        x.iter_mut().enumerate().for_each(|(i, x)| *x = change(i % dim, *x));
        // Half of the distance of two draws, as in `santa sample`.
        let scale = Scale::Given(0.5 * (2.0 * dim as f64).sqrt());
        let settings = SteinSettings { scale, ..SteinSettings::default() };
        // As few as the rate allows: no fewer false alarms, and little less power.
        let resamples = (1.0 / rate).round() as usize - 1;
        let alarms = FalseAlarms { rate, resamples, seed: u64::from(sample) };
        // Of the standard normal law the gradient at x is x.
        off += u32::from(stein_test(&x, &x, dim, &settings, &alarms)?.is_off());
    }
    Ok(100.0 * f64::from(off) / f64::from(samples))
}

fn main() -> Result<()> {
    println!("False alarms, percent of {SAMPLES_RIGHT} samples\n");
    println!("| dimensions | draws | at a rate of 1 % | at 0.1 % |\n| ---: | ---: | ---: | ---: |");
    for dim in [1, 3, 20] {
        for points in [100, 300] {
            let of = |rate| share(dim, points, SAMPLES_RIGHT, rate, |_, x| x);
            println!("| {dim} | {points} | {:.2} | {:.2} |", of(0.01)?, of(0.001)?);
        }
    }
    println!("\nNoticed, percent of {SAMPLES} samples, at a rate of 0.1 %\n");
    let names: Vec<&str> = WRONG.iter().map(|(name, _)| *name).collect();
    println!("| dimensions | draws | {} |", names.join(" | "));
    println!("| ---: | ---: |{}", " ---: |".repeat(WRONG.len()));
    for dim in [1, 3, 10, 50] {
        for points in [500, 1_000] {
            let mut row = format!("| {dim} | {points} |");
            for (_, wrong) in WRONG {
                row += &format!(" {:.0} |", share(dim, points, SAMPLES, 0.001, wrong)?);
            }
            println!("{row}");
        }
    }
    Ok(())
}
