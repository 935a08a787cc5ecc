//! The matrix product beside the `gemm` crate, on one thread.
//!
//! ```sh
//! cargo bench -p santa-nn --bench products
//! ```

use santa_nn::kernels::{Start, View, multiply, zeros};
use std::time::Instant;

/// Runs of a product, of which the best counts.
const RUNS: usize = 200;

fn main() {
    println!("{:>24} {:>10} {:>10} {:>8}", "m x n x k", "gemm", "ours", "ratio");
    // Forward products of a shard, weight gradients (A transposed), tiles of the convolution.
    for (m, n, k, transposed) in [
        (25, 400, 784, false),
        (25, 400, 400, false),
        (25, 800, 784, false),
        (25, 800, 800, false),
        (100, 400, 784, false),
        (784, 400, 100, true),
        (400, 400, 100, true),
        (800, 800, 100, true),
        (49, 64, 32, false),
        (98, 64, 32, false),
        (32, 64, 98, true),
        (25, 200, 3136, false),
        (4, 600, 200, false),
        (1, 600, 200, false),
        (200, 600, 500, true),
        (1000, 1000, 1000, false),
        (1024, 1024, 1024, false),
    ] {
        let numbers = |len: usize| {
            let mut numbers = zeros::<f32>(len);
            let values = (0..len).map(|i| (i * 7919 % 1000) as f32 / 1000.0 - 0.5);
            numbers.iter_mut().zip(values).for_each(|(to, from)| *to = from);
            numbers
        };
        let (a, b, mut c) = (numbers(m * k), numbers(k * n), numbers(m * n));
        let flops = 2.0 * (m * n * k) as f64 / 1e9;
        let ours = best(|| {
            let a = if transposed { View::columns(&a, m) } else { View::rows(&a, k) };
            multiply([m, n, k], a, &b, Start::Zero, &mut c, false);
        });
        let theirs = best(|| theirs([m, n, k], &a, transposed, &b, &mut c));
        let name = format!("{m} x {n} x {k}{}", if transposed { " T" } else { "  " });
        let (ours, theirs) = (flops / ours, flops / theirs);
        println!("{name:>24} {theirs:>10.1} {ours:>10.1} {:>8.2}", ours / theirs);
    }
    println!("GFLOP/s, best of {RUNS} runs; ratio above 1: ours is faster");
}

/// The same product by the `gemm` crate.
#[allow(unsafe_code)]
fn theirs([m, n, k]: [usize; 3], a: &[f32], transposed: bool, b: &[f32], c: &mut [f32]) {
    assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n);
    let (row, column) = if transposed { (1, m as isize) } else { (k as isize, 1) };
    let (serial, n_stride) = (gemm::Parallelism::None, n as isize);
    // SAFETY: the three buffers have the sizes that the strides reach, as asserted above.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n_stride,
            false,
            a.as_ptr(),
            column,
            row,
            b.as_ptr(),
            1,
            n_stride,
            0.0,
            1.0,
            false,
            false,
            false,
            serial,
        );
    }
}

fn best(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}
