//! The GRU in double precision, one number at a time, straight from the equations.

use super::architecture::{GruArchitecture, Parameters};

/// Losses of the steps of one sequence, steps x keys.
pub fn step_losses(
    architecture: GruArchitecture,
    theta: &[f64],
    sequence: &[u8],
    mut visit: impl FnMut(&[f64]),
) -> Vec<f64> {
    let GruArchitecture { keys, hidden } = architecture;
    let p = Parameters::new(architecture, theta);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let mut h: Vec<f64> = p.initial.iter().map(|b| b.tanh()).collect();
    let mut losses = Vec::new();
    for x in sequence.chunks_exact(keys) {
        visit(&h);
        let mut loss = 0.0;
        for k in 0..keys {
            let logit: f64 =
                p.output_bias[k] + (0..hidden).map(|j| h[j] * p.output[j * keys + k]).sum::<f64>();
            let probability = if x[k] == 1 { sigmoid(logit) } else { sigmoid(-logit) };
            loss -= probability.ln();
        }
        losses.push(loss);
        let column = |j: usize| {
            let input: f64 = (0..keys).map(|k| f64::from(x[k]) * p.input[k * 3 * hidden + j]).sum();
            let recurrent: f64 = (0..hidden).map(|k| h[k] * p.recurrent[k * 3 * hidden + j]).sum();
            (input + p.bias[j], recurrent)
        };
        h = (0..hidden)
            .map(|j| {
                let [r, z] = [j, hidden + j].map(|column_of| {
                    let (input, recurrent) = column(column_of);
                    sigmoid(input + recurrent)
                });
                let (input, recurrent) = column(2 * hidden + j);
                let c = (r * recurrent + input).tanh();
                z * h[j] + (1.0 - z) * c
            })
            .collect();
    }
    losses
}
