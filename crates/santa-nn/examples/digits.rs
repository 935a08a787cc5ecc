//! The paper's network on the embedded digits, with Santa and with some that it is compared with.
//!
//! ```sh
//! cargo run --release -p santa-nn --example digits [-- EPOCHS]
//! ```
//!
//! Prints test errors of the last parameters and of predictions averaged over the second half of the
//! run, for every optimizer alike. One seed and settings that nobody tuned: a demonstration, not a
//! comparison.

use santa::average::{Pooling, PredictionAverage};
use santa::dynamics::{Adam, RmsProp, Sgd};
use santa::{Algorithm, Chain, Potential, Prior, Sampling, Santa, Stepper};
use santa_datasets::{Images, Mnist};
use santa_nn::{Architecture, Classifier, Examples};
use std::time::Instant;

const SEED: u64 = 42;
const BATCH: usize = 100;
/// Steps between predictions that enter the average.
const EVERY: u64 = 50;

fn main() -> santa::Result<()> {
    let epochs: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(20);
    let mnist = Mnist::embedded();
    let (train, test) = (examples(&mnist.train)?, examples(&mnist.test)?);
    let steps = epochs * (train.len() / BATCH) as u64;
    let algorithms: [(&str, Algorithm); 5] = [
        ("Santa", Santa::new(1e-3, steps).into()),
        ("Santa-E", Santa::new(1e-3, steps).euler().into()),
        ("Adam", Adam::new(1e-3).into()),
        ("RMSprop", RmsProp::new(1e-3).into()),
        ("SGD-M", Sgd::new(0.1).momentum(0.9).into()),
    ];
    println!("784-400-400-10 on 10,000 digits, {epochs} epochs");
    println!("{:>9} {:>8} {:>10} {:>8}", "", "last", "averaged", "seconds");
    for (name, algorithm) in algorithms {
        let start = Instant::now();
        let network = Architecture::dense(&[784, 400, 400, 10]);
        let model = Classifier::<f32>::new(&network, train.clone(), Prior::gaussian(1.0))?;
        let theta = model.initial(SEED, 0).to_vec();
        let stepper = Stepper::new(algorithm, model.target(), SEED, 0)?;
        let mut chain = Chain::new(model, stepper, theta, Sampling::ShuffledEpochs, BATCH)?;
        chain.advance(steps / 2)?;
        let mut average = PredictionAverage::new(test.len(), 10)?;
        for _ in 0..(steps - steps / 2) / EVERY {
            chain.advance(EVERY)?;
            let (theta, model) = chain.theta_and_potential();
            let prediction = model.log_probabilities(theta, &test)?;
            average.push(&prediction, 1.0)?;
        }
        let (theta, model) = chain.theta_and_potential();
        let last = model.evaluate(theta, &test)?.error;
        let labels: Vec<usize> = test.labels().collect();
        let averaged = average.error(&labels, Pooling::Probabilities)?;
        println!(
            "{name:>9} {:>6.2} % {:>8.2} % {:>8.1}",
            100.0 * last,
            100.0 * averaged,
            start.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn examples(images: &Images) -> santa::Result<Examples> {
    let examples = Examples::from_bytes(images.pixels(), images.image_len(), images.labels())?;
    Ok(examples.scaled(1.0 / 255.0))
}
