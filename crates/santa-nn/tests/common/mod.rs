//! What several test files share.
#![allow(dead_code)]

use santa::noise::{Purpose, Stream};
use santa::{Batch, Potential, Prior};
use santa_nn::{Architecture, Classifier, Examples, Scalar};

/// Standard normal numbers.
pub fn normals<F: Scalar>(len: usize, segment: u32) -> Vec<F> {
    let mut numbers = vec![F::ZERO; len];
    Stream::new(1, 0, Purpose::Custom(1)).normals(0, segment, 0, &mut numbers);
    numbers
}

/// Random examples for a network.
pub fn examples(architecture: &Architecture, len: usize) -> Examples {
    let width: usize = architecture.input.iter().product();
    let classes = architecture.classes().unwrap() as u64;
    let stream = Stream::new(2, 0, Purpose::Custom(1));
    let labels: Vec<u8> = (0..len as u32).map(|i| stream.below(0, 0, i, classes) as u8).collect();
    Examples::from_f64(normals::<f64>(len * width, 1), width, labels).unwrap()
}

/// A network on random examples.
pub fn model<F: Scalar>(architecture: &Architecture, len: usize) -> Classifier<F> {
    Classifier::new(architecture, examples(architecture, len), Prior::Flat).unwrap()
}

/// Compares a gradient with central differences, along every parameter or, where there are many,
/// along a sample of them.
pub fn gradient_matches_differences(
    what: &str,
    potential: &mut impl Potential<f64>,
    theta: &[f64],
    batch: &Batch<'_>,
) {
    /// Small, lest it steps over the kink of a ReLU or a maximum; rounding is 1e-16 over it.
    const STEP: f64 = 1e-6;
    const TOLERANCE: f64 = 1e-7;
    const AT_MOST: usize = 400;
    let dim = theta.len();
    let mut gradient = vec![f64::NAN; dim];
    let loss = potential.loss_gradient(theta, batch, &mut gradient).unwrap();
    let again = potential.loss(theta, batch).unwrap();
    assert!((loss - again).abs() <= 1e-13 * loss.abs(), "{what}: {loss} and {again}");
    for i in (0..dim).step_by(dim.div_ceil(AT_MOST)) {
        let mut at = |x: f64| {
            let mut moved = theta.to_vec();
            moved[i] = x;
            potential.loss(&moved, batch).unwrap()
        };
        let slope = (at(theta[i] + STEP) - at(theta[i] - STEP)) / (2.0 * STEP);
        let error = (slope - gradient[i]).abs();
        let allowed = TOLERANCE * (1.0 + loss.abs() + slope.abs());
        assert!(error < allowed, "{what}, parameter {i}: {slope} {}", gradient[i]);
    }
}
