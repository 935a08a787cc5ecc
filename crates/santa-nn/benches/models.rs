//! A training step of the paper's models: forward, backward, optimizer.
//!
//! ```sh
//! cargo bench -p santa-nn --bench models -- [--json] [--threads 2] [CASE...]
//! ```
//!
//! Times are the best of many steps, in milliseconds: of steps that explore, with noise, and in the
//! column "refining" of whole steps without. GFLOP/s count the arithmetic of the plain
//! definition (a dense product, a direct convolution), so that work which a kernel avoids shows as
//! speed. The peak is that of a large product by the `gemm` crate in the same run. Images are those
//! of the embedded digits; `fnn-400-noise` has none of their zeros.

use santa_bench::Effort;
use santa_bench::clock::best;
use santa_bench::models::Model;
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Instant;

/// Side of the product whose speed is the peak.
const PEAK_SIDE: usize = 1536;

struct Options {
    json: bool,
    threads: usize,
    cases: Vec<String>,
}

fn main() {
    let options = options();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build();
    let cases = pool.expect("a pool of threads").install(|| run(&options));
    if options.json {
        println!("{cases}");
    }
}

fn options() -> Options {
    let mut options = Options { json: false, threads: 2, cases: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => options.json = true,
            "--bench" => (),
            "--threads" => {
                let number = arguments.next().and_then(|n| n.parse().ok());
                options.threads = number.expect("--threads takes a number");
            }
            case => options.cases.push(case.into()),
        }
    }
    options
}

fn run(options: &Options) -> Value {
    let peak = peak(options.threads);
    if !options.json {
        println!("{} threads, gemm peak {peak:.0} GFLOP/s", options.threads);
        println!(
            "{:>15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9} {:>7} {:>7}",
            "ms",
            "forward",
            "backward",
            "optimizer",
            "total",
            "GFLOP/s",
            "share",
            "refining",
            "MB",
            "faults"
        );
    }
    let wanted = |name: &str| options.cases.is_empty() || options.cases.iter().any(|c| c == name);
    let mut cases = Vec::new();
    for model in Model::all().into_iter().filter(|model| wanted(model.name())) {
        let (times, megabytes) = model.measure(Effort::Full).expect("a model that can be trained");
        let [forward, optimizer, total, refining] =
            [times.forward, times.optimizer, times.total, times.refining].map(|s| s * 1e3);
        let backward = total - forward - optimizer;
        let gflops = model.flops() / times.total / 1e9;
        let share = gflops / peak;
        if !options.json {
            println!(
                "{:>15} {forward:>9.3} {backward:>9.3} {optimizer:>9.3} {total:>9.3} {gflops:>9.1} \
                 {:>6.0}% {refining:>9.3} {megabytes:>7.1} {:>7.1}",
                model.name(),
                100.0 * share,
                times.faults
            );
        }
        cases.push(json!({
            "name": model.name(),
            "ms_per_step": total,
            "refining_ms": refining,
            "forward_ms": forward,
            "backward_ms": backward,
            "optimizer_ms": optimizer,
            "gflops": gflops,
            "share_of_peak": share,
            "megabytes": megabytes,
            "page_faults_per_step": times.faults,
        }));
    }
    json!({ "threads": options.threads, "gemm_peak_gflops": peak, "cases": cases })
}

/// GFLOP/s of a large product by the `gemm` crate.
#[allow(unsafe_code)]
fn peak(threads: usize) -> f64 {
    let n = PEAK_SIDE;
    let (a, b, mut c) = (vec![0.5f32; n * n], vec![0.5f32; n * n], vec![0.0f32; n * n]);
    let parallelism =
        if threads > 1 { gemm::Parallelism::Rayon(threads) } else { gemm::Parallelism::None };
    let seconds = best(Effort::Full, || {
        let start = Instant::now();
        let stride = n as isize;
        // SAFETY: three buffers of n x n elements, contiguous.
        unsafe {
            gemm::gemm(
                n,
                n,
                n,
                c.as_mut_ptr(),
                1,
                stride,
                false,
                a.as_ptr(),
                1,
                stride,
                b.as_ptr(),
                1,
                stride,
                0.0,
                1.0,
                false,
                false,
                false,
                parallelism,
            );
        }
        start.elapsed()
    });
    black_box(&c);
    2.0 * (n * n * n) as f64 / seconds / 1e9
}
