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

mod common;

use common::{Times, best, digits, measure, noise, rolls};
use santa::Prior;
use santa_nn::{Architecture, Classifier, GruArchitecture, Normalisation, SequenceModel};
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Instant;

const BATCH: usize = 100;
/// Steps of a sequence.
const STEPS: usize = 500;
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
    for case in all().into_iter().filter(|case| wanted(case.name)) {
        let times = (case.measure)();
        let gflops = case.flops / times.total / 1e6;
        let share = gflops / peak;
        if !options.json {
            println!(
                "{:>15} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.1} {:>6.0}% {:>9.3} {:>7.1} {:>7.1}",
                case.name,
                times.forward,
                times.total - times.forward - times.optimizer,
                times.optimizer,
                times.total,
                gflops,
                100.0 * share,
                times.refining,
                times.megabytes,
                times.faults
            );
        }
        cases.push(json!({
            "name": case.name,
            "ms_per_step": times.total,
            "refining_ms": times.refining,
            "forward_ms": times.forward,
            "backward_ms": times.total - times.forward - times.optimizer,
            "optimizer_ms": times.optimizer,
            "gflops": gflops,
            "share_of_peak": share,
            "megabytes": times.megabytes,
            "page_faults_per_step": times.faults,
        }));
    }
    json!({ "threads": options.threads, "gemm_peak_gflops": peak, "cases": cases })
}

struct Case {
    name: &'static str,
    /// Of a step.
    flops: f64,
    measure: Box<dyn Fn() -> Times>,
}

fn all() -> Vec<Case> {
    let classifier = |name, architecture: Architecture, flops, sparse: bool| Case {
        name,
        flops,
        measure: Box::new(move || {
            let images = if sparse { digits() } else { noise(784) };
            let mut model =
                Classifier::<f32>::new(&architecture, images, Prior::gaussian(1.0)).unwrap();
            let theta = model.initial(1, 0);
            let mut times = measure(&mut model, theta, BATCH);
            times.megabytes = model.network().memory() as f64 / 1e6;
            times
        }),
    };
    // Multiply-adds of forward, weights' gradient and, but for the first layer, inputs' gradient.
    let dense = |sizes: &[usize]| -> f64 {
        let products = sizes.windows(2).map(|pair| pair[0] * pair[1]);
        let passes = products.enumerate().map(|(i, n)| if i == 0 { 2 * n } else { 3 * n });
        2.0 * (BATCH * passes.sum::<usize>()) as f64
    };
    // Two 5x5 convolutions with 32 and 64 channels on maps of these sides, then dense layers, of which
    // the first has derivatives by its inputs, too.
    let cnn = |first: usize, second: usize, sizes: &[usize]| -> f64 {
        let macs = 2 * first * first * 25 * 32 + 3 * second * second * 25 * 32 * 64;
        2.0 * (BATCH * (macs + sizes[0] * sizes[1])) as f64 + dense(sizes)
    };
    let small = [784, 400, 400, 10];
    let large = [784, 800, 800, 10];
    vec![
        classifier("fnn-400", Architecture::dense(&small), dense(&small), true),
        classifier("fnn-400-noise", Architecture::dense(&small), dense(&small), false),
        classifier("fnn-800", Architecture::dense(&large), dense(&large), true),
        classifier(
            "cnn-paper",
            Architecture::paper_cnn(),
            cnn(28, 14, &[3136, 200, 200, 10]),
            true,
        ),
        classifier("cnn-authors", Architecture::authors_cnn(), cnn(32, 20, &[6400, 500, 10]), true),
        gru(GruArchitecture { keys: 88, hidden: 200 }),
    ]
}

/// GFLOP/s of a large product by the `gemm` crate.
#[allow(unsafe_code)]
fn peak(threads: usize) -> f64 {
    let n = PEAK_SIDE;
    let (a, b, mut c) = (vec![0.5f32; n * n], vec![0.5f32; n * n], vec![0.0f32; n * n]);
    let parallelism =
        if threads > 1 { gemm::Parallelism::Rayon(threads) } else { gemm::Parallelism::None };
    let milliseconds = best(|| {
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
    2.0 * (n * n * n) as f64 / milliseconds / 1e6
}

/// A step of the GRU on one sequence.
fn gru(architecture: GruArchitecture) -> Case {
    let GruArchitecture { keys, hidden } = architecture;
    // Forward and the weights' gradient for the inputs, the states' derivatives as well for the rest.
    let macs = 2 * keys * 3 * hidden + 3 * hidden * 3 * hidden + 3 * hidden * keys;
    Case {
        name: "gru-200",
        flops: 2.0 * (STEPS * macs) as f64,
        measure: Box::new(move || {
            let data = rolls(keys, STEPS);
            let prior = Prior::gaussian(1.0);
            let mut model =
                SequenceModel::<f32>::new(architecture, data, Normalisation::default(), prior)
                    .expect("a model");
            let theta = model.initial(1, 0);
            let mut times = measure(&mut model, theta, 1);
            times.megabytes = model.gru().memory() as f64 / 1e6;
            times
        }),
    }
}
