//! Time and memory traffic of a step, for every dynamics, beside a copy of the same number of bytes.
//!
//! ```text
//! cargo bench -p santa-optim                 # the whole table
//! cargo bench -p santa-optim -- santa 1e6    # rows and sizes that contain a word
//! cargo bench -p santa-optim -- --json       # one JSON object a row
//! cargo bench -p santa-optim -- --steps-only # without the copies, which empty the caches
//! ```
//!
//! Each row is measured in rounds that alternate between the step and the two copies, so that a
//! machine that slows down slows both; the best round of each counts. "copy" is the better of a plain
//! copy and one with streaming stores, of half as many bytes (read once, written once) on the same
//! number of threads; "of copy" is the step's rate over the copy's.

#![allow(unsafe_code)] // streaming stores

use santa::dynamics::{
    Adadelta, Adagrad, Adam, Exploration, Gamma, Msgnht, Psgld, RmsProp, Sgd, Sghmc, Sgld, Sgnht,
};
use santa::{Algorithm, DataSize, Layout, Prior, Rate, Real, Santa, StepSize, Stepper, Target};
use std::time::Instant;

/// Name, settings, and the bytes of the state vectors that a step reads and writes, in elements per parameter; theta (2) and
/// the gradient (1) come on top.
const CASES: [Case; 16] = [
    ("santa, refining", || santa(Exploration::Never).into(), 2 + 1 + 2),
    ("santa, exploring", || santa(Exploration::Always).into(), 2 + 2 + 2),
    ("santa-e, refining", || santa(Exploration::Never).euler().into(), 2 + 1 + 2),
    ("santa-e, exploring", || santa(Exploration::Always).euler().into(), 2 + 2 + 2),
    ("sgd", || Sgd::new(1e-6).into(), 0),
    ("sgd-m", || Sgd::new(1e-6).momentum(0.9).into(), 2),
    ("nesterov", || Sgd::new(1e-6).momentum(0.9).nesterov().into(), 2),
    ("adagrad", || Adagrad::new(1e-6).into(), 2),
    ("adadelta", || Adadelta::new(1e-6).into(), 4),
    ("rmsprop", || RmsProp::new(1e-6).into(), 2),
    ("adam", || Adam::new(1e-6).into(), 4),
    ("sgld", || Sgld::new(Rate::lr(1e-6)).into(), 0),
    ("psgld", || Psgld::new(Rate::lr(1e-6)).into(), 2),
    (
        "psgld, gamma",
        || Psgld { gamma: Gamma::On { guard: 0.1 }, ..Psgld::new(Rate::lr(1e-6)) }.into(),
        4,
    ),
    ("sghmc", || Sghmc::new(StepSize::heavy_ball(1e-6, 0.9)).into(), 2),
    ("msgnht", || Msgnht::new(StepSize::heavy_ball(1e-6, 0.9)).into(), 4),
];

type Case = (&'static str, fn() -> Algorithm, usize);

fn santa(exploration: Exploration) -> Santa {
    Santa { exploration, ..Santa::new(1e-6, 1_000_000_000) }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let json = words.iter().any(|w| w == "--json");
    let copies = !words.iter().any(|w| w == "--steps-only");
    let words: Vec<&str> =
        words.iter().map(String::as_str).filter(|w| !w.starts_with("--")).collect();
    let wanted = |text: &str| words.is_empty() || words.iter().any(|w| text.contains(w));
    let by_size = words.iter().any(|w| w.starts_with(|c: char| c.is_ascii_digit()));
    let by_name = words.iter().any(|w| !w.starts_with(|c: char| c.is_ascii_digit()));

    if !json {
        println!(
            "{:<20} {:>5} {:>6} {:>7} {:>9} {:>8} {:>8} {:>8} {:>8}",
            "dynamics",
            "type",
            "params",
            "threads",
            "ns/param",
            "B/param",
            "GB/s",
            "copy",
            "of copy"
        );
    }
    for (label, n) in [("1e4", 10_000usize), ("1e6", 1_000_000), ("2e7", 20_000_000)] {
        if by_size && !words.contains(&label) {
            continue;
        }
        for threads in [1, 2] {
            for (name, algorithm, state) in CASES {
                if by_name && !wanted(name) {
                    continue;
                }
                measure::<f32>(
                    name,
                    algorithm(),
                    state,
                    label,
                    n,
                    threads,
                    Report { json, copies },
                );
            }
            if !by_name || wanted("sgnht, f64") {
                let sgnht = Sgnht::new(StepSize::heavy_ball(1e-6, 0.9));
                measure::<f32>(
                    "sgnht",
                    sgnht.into(),
                    2,
                    label,
                    n,
                    threads,
                    Report { json, copies },
                );
                let refining = santa(Exploration::Never);
                measure::<f64>(
                    "santa, refining",
                    refining.into(),
                    5,
                    label,
                    n,
                    threads,
                    Report { json, copies },
                );
                let exploring = santa(Exploration::Always);
                measure::<f64>(
                    "santa, exploring",
                    exploring.into(),
                    6,
                    label,
                    n,
                    threads,
                    Report { json, copies },
                );
            }
        }
    }
}

/// What is measured and how it is printed.
#[derive(Clone, Copy)]
struct Report {
    json: bool,
    copies: bool,
}

fn measure<F: Real>(
    name: &str,
    algorithm: Algorithm,
    state: usize,
    label: &str,
    n: usize,
    threads: usize,
    report: Report,
) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let n_data = DataSize::new(60_000).unwrap();
        let target = Target::new(Layout::flat(n).unwrap(), n_data, Prior::gaussian(1.0)).unwrap();
        let mut stepper: Stepper<F> = Stepper::new(algorithm, &target, 1, 0).unwrap();
        let mut theta = vec![F::from_f64(0.1); n];
        let gradient = vec![F::from_f64(0.01); n];
        let bytes = (3 + state) * F::BYTES;
        let half = n * bytes / 2;
        let (source, mut sink) = (vec![1u8; half], vec![0u8; half]);

        /// Enough rounds for a quarter of a second of steps at 2 ns, at least this many.
        const LEAST_ROUNDS: usize = 15;
        let rounds = (100_000_000 / n).clamp(LEAST_ROUNDS, 1000);
        // Small problems are timed in batches, to be far above the clock's resolution.
        let batch = (1_000_000 / n).max(1);
        let (mut step, mut copy) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..rounds {
            step = step.min(seconds(batch, || {
                stepper.step(&mut theta, &gradient).unwrap();
            }));
            if report.copies {
                copy = copy.min(seconds(batch, || copy_plain(&source, &mut sink, threads)));
                copy = copy.min(seconds(batch, || copy_streaming(&source, &mut sink, threads)));
            }
        }
        let rate = (n * bytes) as f64 / step;
        let copy_rate = (2 * half) as f64 / copy;
        if report.json {
            println!(
                "{{\"case\":\"{name}\",\"type\":\"{}\",\"params\":{n},\"threads\":{threads},\"ms_per_step\":{:.6},\"bytes_per_second\":{rate:.0},\"copy_bytes_per_second\":{copy_rate:.0}}}",
                F::NAME,
                step * 1e3
            );
        } else {
            print!(
                "{name:<20} {:>5} {label:>6} {threads:>7} {:>9.3} {bytes:>8} {:>8.1}",
                F::NAME,
                step * 1e9 / n as f64,
                rate * 1e-9,
            );
            if report.copies {
                print!(" {:>8.1} {:>7.0}%", copy_rate * 1e-9, 100.0 * rate / copy_rate);
            }
            println!();
        }
    });
}

fn seconds(times: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        work();
    }
    start.elapsed().as_secs_f64() / times as f64
}

fn split(source: &[u8], sink: &mut [u8], threads: usize, copy: fn(&[u8], &mut [u8])) {
    if threads == 1 {
        return copy(source, sink);
    }
    let mid = source.len() / 2 / 64 * 64;
    let (left, right) = sink.split_at_mut(mid);
    rayon::join(|| copy(&source[..mid], left), || copy(&source[mid..], right));
}

fn copy_plain(source: &[u8], sink: &mut [u8], threads: usize) {
    split(source, sink, threads, |a, b| b.copy_from_slice(a));
    std::hint::black_box(sink);
}

fn copy_streaming(source: &[u8], sink: &mut [u8], threads: usize) {
    split(source, sink, threads, streaming);
    std::hint::black_box(sink);
}

#[cfg(target_arch = "x86_64")]
fn streaming(source: &[u8], sink: &mut [u8]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    let skip = sink.as_ptr().align_offset(16).min(sink.len());
    sink[..skip].copy_from_slice(&source[..skip]);
    let whole = (sink.len() - skip) / 16;
    for i in 0..whole {
        let at = skip + 16 * i;
        // SAFETY: `at + 16` is within both slices, and `sink + at` is aligned to 16 bytes.
        unsafe {
            let x = _mm_loadu_si128(source.as_ptr().add(at).cast());
            _mm_stream_si128(sink.as_mut_ptr().add(at).cast(), x);
        }
    }
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() };
    let tail = skip + 16 * whole;
    sink[tail..].copy_from_slice(&source[tail..]);
}

#[cfg(not(target_arch = "x86_64"))]
fn streaming(source: &[u8], sink: &mut [u8]) {
    sink.copy_from_slice(source);
}
