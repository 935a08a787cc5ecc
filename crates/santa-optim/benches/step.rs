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

use santa::Real;
use santa_bench::Effort;
use santa_bench::copy::{CopyBytes, PLAIN};
use santa_bench::steps::{self, Dynamics};

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
            let report = Report { label, n, threads, json, copies };
            for dynamics in
                Dynamics::ALL.iter().filter(|dynamics| !by_name || wanted(dynamics.name))
            {
                measure::<f32>(dynamics, report);
            }
            if !by_name || wanted("f64") {
                let santa = |dynamics: &&Dynamics| dynamics.name.starts_with("santa, ");
                for dynamics in Dynamics::ALL.iter().filter(santa) {
                    measure::<f64>(dynamics, report);
                }
            }
        }
    }
}

/// What is measured and how it is printed.
#[derive(Clone, Copy)]
struct Report {
    label: &'static str,
    n: usize,
    threads: usize,
    json: bool,
    copies: bool,
}

fn measure<F: Real>(dynamics: &Dynamics, report: Report) {
    let Report { label, n, threads, json, copies } = report;
    let both: &[CopyBytes] = if copies { &[PLAIN, streaming] } else { &[] };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let times = pool.install(|| steps::measure::<F>(dynamics, n, both, Effort::Full)).unwrap();
    let name = dynamics.name;
    let rate = times.bytes as f64 / times.step;
    let copy_rate = times.bytes as f64 / times.copy;
    if json {
        println!(
            "{{\"case\":\"{name}\",\"type\":\"{}\",\"params\":{n},\"threads\":{threads},\"ms_per_step\":{:.6},\"bytes_per_second\":{rate:.0},\"copy_bytes_per_second\":{copy_rate:.0}}}",
            F::NAME,
            times.step * 1e3
        );
        return;
    }
    print!(
        "{name:<20} {:>5} {label:>6} {threads:>7} {:>9.3} {:>8} {:>8.1}",
        F::NAME,
        times.step * 1e9 / n as f64,
        dynamics.bytes::<F>(),
        rate * 1e-9,
    );
    if copies {
        print!(" {:>8.1} {:>7.0}%", copy_rate * 1e-9, 100.0 * rate / copy_rate);
    }
    println!();
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
