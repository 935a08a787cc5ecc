//! A training step as the work grows: larger batches, wider layers, longer sequences.
//!
//! ```sh
//! cargo bench -p santa-nn --bench scaling [-- --threads 2]
//! ```
//!
//! The last column is the time of a unit of work relative to that of the first line of 100 (batch),
//! 400 (width), 500 (steps) or 200 (hidden units): 1 where the cost is linear.

use santa::{Potential, Prior};
use santa_bench::Effort;
use santa_bench::data::{digits, rolls};
use santa_bench::models::measure;
use santa_nn::{Architecture, Buffer, Classifier, GruArchitecture, Normalisation, SequenceModel};

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--threads").skip(1);
    let threads = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(2);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("a pool of threads").install(|| {
        println!("{threads} threads; milliseconds of a step with Santa, exploring");
        table("batch, 784-400-400-10", &[1, 3, 10, 30, 100, 300, 1000], 100, |batch| {
            (dense(400, batch), batch as f64)
        });
        table("width, 784-h-h-10", &[100, 200, 400, 800, 1600, 3200], 400, |width| {
            (dense(width, 100), (784 * width + width * width) as f64)
        });
        table("steps, GRU-200", &[50, 150, 500, 1500, 5000], 500, |steps| {
            (gru(200, steps), steps as f64)
        });
        table("hidden units, GRU, 500 steps", &[50, 100, 200, 400, 800, 1600], 200, |hidden| {
            (gru(hidden, 500), (hidden * (hidden + 88)) as f64)
        });
    });
}

fn table(what: &str, sizes: &[usize], unit: usize, time: impl Fn(usize) -> (f64, f64)) {
    let rows: Vec<_> = sizes.iter().map(|size| (*size, time(*size))).collect();
    let per_work = |(time, work): (f64, f64)| time / work;
    let reference = rows.iter().find(|row| row.0 == unit).map_or(1.0, |row| per_work(row.1));
    println!("\n{what:>32} {:>10} {:>10}", "ms", "per work");
    for (size, measured) in rows {
        println!("{size:>32} {:>10.3} {:>10.2}", measured.0, per_work(measured) / reference);
    }
}

fn dense(width: usize, batch: usize) -> f64 {
    let architecture = Architecture::dense(&[784, width, width, 10]);
    let images = digits().expect("the embedded digits");
    let mut model = Classifier::<f32>::new(&architecture, images, Prior::gaussian(1.0))
        .expect("a model of the digits");
    let theta = model.initial(1, 0);
    milliseconds(&mut model, theta, batch)
}

fn gru(hidden: usize, steps: usize) -> f64 {
    let architecture = GruArchitecture { keys: 88, hidden };
    let data = rolls(architecture.keys, steps).expect("sequences");
    let prior = Prior::gaussian(1.0);
    let mut model = SequenceModel::<f32>::new(architecture, data, Normalisation::default(), prior)
        .expect("a model of sequences");
    let theta = model.initial(1, 0);
    milliseconds(&mut model, theta, 1)
}

fn milliseconds(model: &mut impl Potential<f32>, theta: Buffer<f32>, batch: usize) -> f64 {
    measure(model, theta, batch, Effort::Full).expect("steps").total * 1e3
}
