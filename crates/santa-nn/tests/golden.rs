//! Losses and gradients against PyTorch's; `golden/generate.py` makes the table.

use santa::{Batch, Potential, Prior};
use santa_nn::{Architecture, Classifier, Examples, Scalar};
use serde_json::Value;

/// Rounding of the table, and of sums in another order.
const ABSOLUTE: f64 = 1e-12;

fn table() -> Value {
    serde_json::from_str(include_str!("golden/models.json")).unwrap()
}

fn numbers<F: Scalar>(value: &Value) -> Vec<F> {
    value.as_array().unwrap().iter().map(|x| F::from_f64(x.as_f64().unwrap())).collect()
}

/// The largest difference, relative to the largest number or to 1.
fn distance<F: Scalar>(found: &[F], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1.0f64, |scale, x| scale.max(x.abs()));
    let pairs = found.iter().zip(expected);
    pairs.map(|(x, y)| (x.to_f64() - y).abs() / scale).fold(0.0, f64::max)
}

fn feed_forward_networks_agree<F: Scalar>(tolerance: f64) {
    let table = table();
    for case in table["feed_forward"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let architecture: Architecture =
            serde_json::from_value(case["architecture"].clone()).unwrap();
        let labels: Vec<u8> = numbers::<f64>(&case["labels"]).iter().map(|x| *x as u8).collect();
        let inputs = numbers::<f64>(&case["inputs"]);
        let width = inputs.len() / labels.len();
        let examples = Examples::from_f64(inputs, width, labels).unwrap();
        let mut model = Classifier::<F>::new(&architecture, examples.clone(), Prior::Flat).unwrap();

        let layout: Vec<(String, Vec<usize>)> =
            serde_json::from_value(case["layout"].clone()).unwrap();
        assert_eq!(Vec::from(model.target().layout().clone()), layout, "{name}");

        let theta = numbers::<F>(&case["parameters"]);
        let mut gradient = vec![F::ZERO; theta.len()];
        let loss = model.loss_gradient(&theta, &Batch::full(), &mut gradient).unwrap();
        let expected = case["loss"].as_f64().unwrap();
        assert!((loss - expected).abs() <= tolerance * (1.0 + expected.abs()), "{name}: {loss}");
        let off = distance(&gradient, &numbers::<f64>(&case["gradient"]));
        assert!(off <= tolerance, "{name}: the gradient is off by {off:e}");

        let classes = model.network().classes();
        let mut expected = numbers::<f64>(&case["outputs"]);
        for row in expected.chunks_exact_mut(classes) {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let log = largest + row.iter().map(|z| (z - largest).exp()).sum::<f64>().ln();
            row.iter_mut().for_each(|z| *z -= log);
        }
        let found = model.log_probabilities(&theta, &examples).unwrap();
        let off = distance(&found, &expected);
        assert!(off <= tolerance, "{name}: the prediction is off by {off:e}");
    }
}

#[test]
fn feed_forward_networks_agree_with_pytorch_in_double_precision() {
    feed_forward_networks_agree::<f64>(ABSOLUTE);
}

#[test]
fn feed_forward_networks_agree_with_pytorch_in_single_precision() {
    feed_forward_networks_agree::<f32>(2e-5);
}
