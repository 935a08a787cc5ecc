//! Losses and gradients of the GRU as PyTorch computes them (`golden/generate.py`).

use santa::Batch;
use santa_nn::{Gru, GruArchitecture, Normalisation, PianoRolls};
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn losses_and_gradients_are_those_of_pytorch() {
    const TOLERANCE: f64 = 1e-11;
    let golden: Value = serde_json::from_str(include_str!("golden/models.json")).unwrap();
    let cases = golden["gru"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let name = &case["name"];
        let architecture: GruArchitecture =
            serde_json::from_value(case["architecture"].clone()).unwrap();
        let mut gru = Gru::<f64>::new(architecture).unwrap();
        assert_eq!(serde_json::to_value(gru.layout()).unwrap(), case["layout"], "{name}");
        let values: Vec<u8> = numbers(&case["inputs"]).iter().map(|x| *x as u8).collect();
        let mut offsets = vec![0];
        for length in numbers(&case["lengths"]) {
            offsets.push(offsets[offsets.len() - 1] + length as usize);
        }
        let rolls = PianoRolls::new(architecture.keys, values, offsets).unwrap();
        let theta = numbers(&case["parameters"]);
        for (kind, normalisation) in
            [("sequence_mean", Normalisation::SequenceMean), ("step_mean", Normalisation::StepMean)]
        {
            let mut gradient = vec![f64::NAN; theta.len()];
            let loss = gru
                .loss_gradient(&theta, &rolls, &Batch::full(), normalisation, &mut gradient)
                .unwrap();
            let expected = case[format!("loss_{kind}")].as_f64().unwrap();
            assert!((loss - expected).abs() < TOLERANCE * expected, "{name}: {loss} {expected}");
            let expected = numbers(&case[format!("gradient_{kind}")]);
            for (i, (found, expected)) in gradient.iter().zip(&expected).enumerate() {
                let error = (found - expected).abs();
                assert!(error < TOLERANCE * (1.0 + expected.abs()), "{name}, {kind}, {i}: {error}");
            }
        }
    }
}
