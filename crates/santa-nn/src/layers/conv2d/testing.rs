//! Runs a layer as a network would, on buffers full of NaN, and differentiates it numerically.

use super::super::{Layer, Pass, Record};
use crate::kernels::{Scalar, zeros};
use santa::noise::{Purpose, Stream};

/// What a step yields for the loss $\sum_i w_i y_i$.
#[derive(Debug, PartialEq)]
pub(in crate::layers) struct Run<F> {
    pub output: Vec<F>,
    pub d_input: Vec<F>,
    pub gradient: Vec<F>,
}

pub(in crate::layers) fn normals<F: Scalar>(len: usize, segment: u32) -> Vec<F> {
    let mut numbers = vec![F::ZERO; len];
    Stream::new(3, 0, Purpose::Custom(2)).normals(0, segment, 0, &mut numbers);
    numbers
}

pub(in crate::layers) fn training() -> Pass {
    Pass { training: true, stream: Stream::new(5, 0, Purpose::Dropout), step: 7, first: 0 }
}

/// A step on shards of a few examples; `w` are the derivatives by the output.
pub(in crate::layers) fn run<F: Scalar>(
    layer: &dyn Layer<F>,
    pass: Pass,
    in_shard: usize,
    parameters: &[F],
    input: &[F],
    w: &[F],
) -> Run<F> {
    let garbage = |len: usize| {
        let mut buffer = zeros::<F>(len);
        buffer.fill(F::from_f64(f64::NAN));
        buffer
    };
    let sizes = layer.sizes(in_shard);
    assert_eq!(parameters.len(), sizes.parameters);
    let mut shared = garbage(sizes.shared);
    layer.prepare(parameters, true, &mut shared);
    let mut result = Run { output: vec![], d_input: vec![], gradient: vec![] };
    let (mut d_outputs, mut partials) = (vec![], vec![]);
    let shards = input.chunks(in_shard * sizes.input).zip(w.chunks(in_shard * sizes.output));
    for (index, (input, w)) in shards.enumerate() {
        let pass = Pass { first: index * in_shard, ..pass };
        let examples = input.len() / sizes.input;
        let mut output = garbage(examples * sizes.output);
        let (mut kept, mut scratch) = (garbage(examples * sizes.kept), garbage(sizes.scratch));
        layer.forward(&pass, parameters, &shared, input, &mut output, &mut kept, &mut scratch);
        let mut d_input = garbage(input.len());
        let mut partial = garbage(sizes.partial);
        let mut d_output = garbage(w.len());
        let mut scratch = garbage(sizes.scratch);
        let mut sums = vec![];
        for wanted in [true, false] {
            d_output.copy_from_slice(w);
            let d_input = wanted.then_some(&mut d_input[..]);
            layer.backward(
                &pass,
                parameters,
                &shared,
                input,
                &output,
                &kept,
                &mut d_output,
                d_input,
                &mut partial,
                &mut scratch,
            );
            sums.push(partial.to_vec());
        }
        // The parameters' derivatives do not depend on whether those of the input are asked for.
        assert!(distance(&sums[0], &sums[1]) < 1e-5);
        result.output.extend_from_slice(&output);
        result.d_input.extend_from_slice(&d_input);
        d_outputs.extend_from_slice(&d_output);
        partials.extend_from_slice(&partial);
    }
    let examples = input.len() / sizes.input;
    let batch = Record { examples, input, d_output: &d_outputs, partials: &partials };
    for piece in layer.pieces() {
        assert_eq!(piece.start, result.gradient.len());
        let mut gradient = garbage(piece.len());
        layer.gradient(piece, &batch, &mut gradient);
        result.gradient.extend_from_slice(&gradient);
    }
    assert_eq!(result.gradient.len(), sizes.parameters);
    result
}

/// Compares all derivatives with central differences.
pub(in crate::layers) fn derivatives_match(
    layer: &dyn Layer<f64>,
    pass: Pass,
    parameters: &[f64],
    input: &[f64],
) {
    const STEP: f64 = 1e-5;
    const BOUND: f64 = 1e-7;
    let examples = input.len() / layer.sizes(1).input;
    let w = normals::<f64>(examples * layer.sizes(1).output, 9);
    let result = run(layer, pass, 2, parameters, input, &w);
    let loss = |parameters: &[f64], input: &[f64]| {
        let y = run(layer, pass, 2, parameters, input, &w).output;
        y.iter().zip(&w).map(|(y, w)| y * w).sum::<f64>()
    };
    let compare = |what: &str, at: usize, exact: f64, losses: [f64; 2]| {
        let numeric = (losses[1] - losses[0]) / (2.0 * STEP);
        let scale = 1.0 + exact.abs();
        assert!((numeric - exact).abs() < BOUND * scale, "{what} {at}: {exact}, not {numeric}");
    };
    let moved = |values: &[f64], at: usize, by: f64| {
        let mut values = values.to_vec();
        values[at] += by;
        values
    };
    // A prime stride visits all residues of the sizes at hand.
    let some = |len: usize| (0..len).step_by(if len > 200 { 13 } else { 1 });
    for i in some(parameters.len()) {
        let losses = [-STEP, STEP].map(|by| loss(&moved(parameters, i, by), input));
        compare("parameter", i, result.gradient[i], losses);
    }
    for i in some(input.len()) {
        let losses = [-STEP, STEP].map(|by| loss(parameters, &moved(input, i, by)));
        compare("input", i, result.d_input[i], losses);
    }
}

/// The largest difference, relative to the root mean square of `exact`.
pub(in crate::layers) fn distance<F: Scalar, G: Scalar>(x: &[F], exact: &[G]) -> f64 {
    assert_eq!(x.len(), exact.len());
    if exact.is_empty() {
        return 0.0;
    }
    let exact: Vec<f64> = exact.iter().map(|x| x.to_f64()).collect();
    let square = exact.iter().map(|x| x * x).sum::<f64>() / exact.len() as f64;
    let differences = x.iter().zip(&exact).map(|(x, exact)| (x.to_f64() - exact).abs());
    // A NaN anywhere has to show.
    differences.fold(0.0, |most, d| if d <= most { most } else { d }) / square.sqrt()
}
