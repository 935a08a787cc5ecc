//! What can be added to a network, beside the network alone: dropout, a Gaussian for every weight (Bayes by
//! Backprop), and weights that are alike at neighbouring places.
//!
//! ```sh
//! cargo bench -p santa-nn --bench additions -- [--threads 2]
//! ```
//!
//! The gradient for a minibatch of 100. Of the network with two layers of 400 units: plain; with a fifth of
//! the inputs and half of the hidden units dropped; and with weights that are drawn and a divergence from
//! the mixture prior. Of the paper's convolutional network: plain, and with smooth weights in the first
//! dense layer. Times are the best of many, in milliseconds.

use santa::{Batch, Potential, Prior};
use santa_bench::Effort;
use santa_bench::clock::best;
use santa_nn::{
    Architecture, Classifier, Examples, KlWeight, ScaleMixture, Smoothness, Variational,
};
use std::time::Instant;

const BATCH: usize = 100;

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--threads").skip(1);
    let threads = arguments.next().map_or(2, |n| n.parse().expect("--threads takes a number"));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("a pool of threads").install(|| run(threads));
}

fn run(threads: usize) {
    let width = 28 * 28;
    let pixels: Vec<u8> = (0..BATCH * width).map(|i| (i * 37 % 256) as u8).collect();
    let labels: Vec<u8> = (0..BATCH).map(|i| (i % 10) as u8).collect();
    let data = Examples::from_bytes(pixels, width, labels).expect("as many labels as images");
    let network = |architecture: &Architecture| {
        Classifier::<f32>::new(architecture, data.clone(), Prior::Flat).expect("a network")
    };

    let architecture = Architecture::dense(&[width, 400, 400, 10]);
    let mut plain = network(&architecture);
    let mu = plain.initial(42, 0);
    let alone = milliseconds(&mut plain, &mu);
    let dropped = milliseconds(&mut network(&architecture.clone().with_dropout(0.2, 0.5)), &mu);

    let prior = ScaleMixture { pi: 0.5, sigma1: 1.0, sigma2: 0.0025 };
    let mut model =
        Variational::new(network(&architecture), prior, KlWeight::Uniform).expect("a prior");
    let theta = model.initial(&mu, -5.0).expect("as many means as weights");
    let drawn = milliseconds(&mut model, &theta);
    println!("{threads} threads, {} weights, batch {BATCH}", mu.len());
    println!("the network's gradient  {alone:>8.3} ms");
    for (what, time) in [("with dropout", dropped), ("Bayes by Backprop", drawn)] {
        println!("{what:<23} {time:>8.3} ms, {:.2} times as long", time / alone);
    }

    let mut plain = network(&Architecture::paper_cnn());
    let theta = plain.initial(42, 0);
    let alone = milliseconds(&mut plain, &theta);
    let smoothness = [Smoothness::new("dense1.weight", 10.0)];
    let smooth = milliseconds(&mut plain.with_smoothness(&smoothness).expect("a field"), &theta);
    println!("the CNN's gradient      {alone:>8.3} ms");
    println!("with smooth weights     {smooth:>8.3} ms, {:.2} times as long", smooth / alone);
}

fn milliseconds(model: &mut impl Potential<f32>, theta: &[f32]) -> f64 {
    let mut gradient = vec![0.0; theta.len()];
    let mut step = 0;
    let seconds = best(Effort::Full, || {
        step += 1;
        let started = Instant::now();
        let batch = Batch::full().seeded(42, 0).at_step(step);
        model.loss_gradient(theta, &batch, &mut gradient).expect("a gradient");
        started.elapsed()
    });
    1e3 * seconds
}
