//! Same seed, same bits, whatever the number of threads.

mod common;

use santa::{Batch, Potential, Prior, Santa};
use santa_datasets::Mnist;
use santa_nn::{
    Architecture, Classifier, Examples, KlWeight, ScaleMixture, Smoothness, Variational,
};

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

fn digits() -> Examples {
    let train = Mnist::embedded().train;
    Examples::from_bytes(train.pixels(), train.image_len(), train.labels())
        .unwrap()
        .scaled(1.0 / 255.0)
}

/// Losses and the last parameters of some steps of Santa.
fn run(mut model: impl Potential<f32>, mut theta: Vec<f32>, batch: usize) -> (Vec<f64>, Vec<f32>) {
    let mut santa = Santa::new(1e-3, 100).init::<f32>(model.target(), 1).unwrap();
    let mut gradient = vec![0.0; theta.len()];
    let mut losses = Vec::new();
    for step in 1..=3u64 {
        let indices: Vec<u32> =
            (0..batch as u32).map(|i| (i * 37 + step as u32 * 11) % 9000).collect();
        let batch = Batch::of(&indices).seeded(4, 0).at_step(step);
        losses.push(model.loss_gradient(&theta, &batch, &mut gradient).unwrap());
        losses.push(model.loss(&theta, &batch).unwrap());
        santa.step(&mut theta, &gradient).unwrap();
    }
    (losses, theta)
}

fn same_bits(architecture: &Architecture, batch: usize) {
    let one = || {
        let model = Classifier::<f32>::new(architecture, digits(), Prior::gaussian(1.0)).unwrap();
        let theta = model.initial(1, 0).to_vec();
        run(model, theta, batch)
    };
    let alone = on_threads(1, one);
    assert!(alone.0.iter().all(|loss| loss.is_finite()));
    for threads in [2, 3, 4] {
        assert!(on_threads(threads, one) == alone, "{threads} threads, batch {batch}");
    }
}

#[test]
fn fully_connected_networks_have_the_same_bits_on_1_to_4_threads() {
    let network = Architecture::dense(&[784, 100, 50, 10]).with_dropout(0.2, 0.5);
    for batch in [1, 17, 100, 1500] {
        same_bits(&network, batch);
    }
}

#[test]
fn convolutional_networks_have_the_same_bits_on_1_to_4_threads() {
    for batch in [1, 100] {
        same_bits(&Architecture::paper_cnn(), batch);
    }
}

#[test]
fn smooth_weights_have_the_same_bits_on_1_to_4_threads() {
    let one = || {
        let (network, prior) = (Architecture::paper_cnn(), Prior::gaussian(1.0));
        let model = Classifier::<f32>::new(&network, digits(), prior).unwrap();
        let model = model.with_smoothness(&[Smoothness::new("*.weight", 10.0)]).unwrap();
        let theta = model.initial(1, 0).to_vec();
        run(model, theta, 100)
    };
    let alone = on_threads(1, one);
    for threads in [2, 3, 4] {
        assert!(on_threads(threads, one) == alone, "{threads} threads");
    }
}

#[test]
fn variational_weights_have_the_same_bits_on_1_to_4_threads() {
    let one = || {
        let architecture = Architecture::dense(&[784, 50, 10]);
        let inner = Classifier::<f32>::new(&architecture, digits(), Prior::Flat).unwrap();
        let mu = inner.initial(1, 0);
        let model = Variational::new(inner, ScaleMixture::default(), KlWeight::Uniform).unwrap();
        let theta = model.initial(&mu, -4.0).unwrap().to_vec();
        run(model, theta, 100)
    };
    let alone = on_threads(1, one);
    for threads in [2, 4] {
        assert!(on_threads(threads, one) == alone);
    }
}

#[test]
fn predictions_have_the_same_bits_on_1_to_4_threads() {
    let test = Mnist::embedded().test;
    let test = Examples::from_bytes(test.pixels(), test.image_len(), test.labels())
        .unwrap()
        .scaled(1.0 / 255.0);
    let one = || {
        let architecture = Architecture::dense(&[784, 100, 10]);
        let mut model = Classifier::<f32>::new(&architecture, digits(), Prior::Flat).unwrap();
        let theta = model.initial(1, 0);
        let evaluation = model.evaluate(&theta, &test).unwrap();
        (evaluation, model.log_probabilities(&theta, &test).unwrap())
    };
    let alone = on_threads(1, one);
    for threads in [2, 4] {
        assert!(on_threads(threads, one) == alone);
    }
}

#[test]
fn a_weight_that_is_infinite_shows_on_any_number_of_threads_alike() {
    let architecture = Architecture::dense(&[4, 3, 2]);
    let one = || {
        // The first input is always zero.
        let pixels: Vec<u8> = (0..64 * 4).map(|i| if i % 4 == 3 { 1 } else { 0 }).collect();
        let data = Examples::from_bytes(pixels, 4, vec![0; 64]).unwrap();
        let mut model = Classifier::<f32>::new(&architecture, data, Prior::Flat).unwrap();
        let mut theta = model.initial(1, 0);
        theta[0] = f32::INFINITY;
        let mut gradient = vec![0.0; theta.len()];
        let loss = model.loss_gradient(&theta, &Batch::full(), &mut gradient).unwrap();
        let bits: Vec<u32> = gradient.iter().map(|g| g.to_bits()).collect();
        (loss.to_bits(), bits)
    };
    let alone = on_threads(1, one);
    for threads in [2, 4] {
        assert!(on_threads(threads, one) == alone);
    }
}
