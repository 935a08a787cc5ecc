//! Convolution blocks of the paper's networks: forward and backward on one thread.
//!
//! ```sh
//! cargo bench -p santa-nn --bench conv
//! cargo bench -p santa-nn --bench conv -- paper    # the blocks of that name
//! ```

#![allow(dead_code, unused_imports)]

mod kernels {
    pub use santa_nn::kernels::*;
}
// The layers are not public; this compiles them once more, for this benchmark.
#[path = "../src/layers/mod.rs"]
mod layers;
#[path = "../src/parallel.rs"]
mod parallel;

use kernels::{Buffer, zeros};
use layers::conv2d::{Conv2d, Image, Window};
use layers::{Layer, Pass};
use std::time::Instant;

/// Examples of a shard.
const EXAMPLES: usize = 25;
/// Runs, of which the best counts.
const RUNS: usize = 100;

fn main() {
    let image = |height, width, channels| Image { height, width, channels };
    let window = |size: usize, padding: usize| Window {
        size: [size; 2],
        stride: [1, 1],
        padding: [padding; 2],
    };
    let wanted = std::env::args().skip(1).find(|argument| argument != "--bench");
    println!(
        "{:>36} {:>11} {:>9} {:>11} {:>9}",
        "block", "forward ms", "GFLOP/s", "backward ms", "GFLOP/s"
    );
    for (name, input, filters, window, pool) in [
        ("paper 28x28x1, 5x5x32, pool", image(28, 28, 1), 32, window(5, 2), true),
        ("paper 14x14x32, 5x5x64, pool", image(14, 14, 32), 64, window(5, 2), true),
        ("authors 28x28x1, 5x5x32, pool", image(28, 28, 1), 32, window(5, 4), true),
        ("authors 16x16x32, 5x5x64, pool", image(16, 16, 32), 64, window(5, 4), true),
        ("14x14x32, 5x5x64", image(14, 14, 32), 64, window(5, 2), false),
        ("14x14x32, 3x3x64, pool", image(14, 14, 32), 64, window(3, 1), true),
    ] {
        if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted)) {
            continue;
        }
        let pool = pool.then_some(Window::tiling([2, 2]));
        let layer = Conv2d::new(input, filters, window, pool).expect("the windows fit");
        let macs = window.output(input, filters).expect("fits").pixels()
            * filters
            * window.size[0]
            * window.size[1]
            * input.channels;
        let flops = 2.0 * (macs * EXAMPLES) as f64;
        // The first layer needs no derivatives by its input.
        let inner = input.channels > 1;
        let [forward, backward] = times(&layer, inner);
        let back = flops * if inner { 2.0 } else { 1.0 };
        println!(
            "{name:>36} {:>11.3} {:>9.1} {:>11.3} {:>9.1}",
            forward * 1e3,
            flops / forward / 1e9,
            backward * 1e3,
            back / backward / 1e9
        );
    }
    println!("{EXAMPLES} examples, f32, best of {RUNS} runs; FLOP of the direct convolution");
}

/// The best times of a forward and a backward pass.
fn times(layer: &dyn Layer<f32>, inner: bool) -> [f64; 2] {
    let sizes = layer.sizes(EXAMPLES);
    let numbers = |len: usize| {
        let mut numbers: Buffer<f32> = zeros(len);
        let values = (0..len).map(|i| (i * 7919 % 1000) as f32 / 1000.0 - 0.5);
        numbers.iter_mut().zip(values).for_each(|(to, from)| *to = from);
        numbers
    };
    let (parameters, input) = (numbers(sizes.parameters), numbers(EXAMPLES * sizes.input));
    let (mut shared, mut scratch) = (zeros(sizes.shared), zeros(sizes.scratch));
    let (mut output, mut d_output) =
        (zeros(EXAMPLES * sizes.output), numbers(EXAMPLES * sizes.output));
    let (mut kept, mut d_input) = (zeros(EXAMPLES * sizes.kept), zeros(EXAMPLES * sizes.input));
    let mut partial = zeros(sizes.partial);
    layer.prepare(&parameters, true, &mut shared);
    let pass = Pass::prediction();
    let mut best = [f64::INFINITY; 2];
    for _ in 0..RUNS {
        let begin = Instant::now();
        layer.forward(&pass, &parameters, &shared, &input, &mut output, &mut kept, &mut scratch);
        let middle = Instant::now();
        layer.backward(
            &pass,
            &parameters,
            &shared,
            &input,
            &output,
            &kept,
            &mut d_output,
            inner.then_some(&mut d_input[..]),
            &mut partial,
            &mut scratch,
        );
        best[0] = best[0].min((middle - begin).as_secs_f64());
        best[1] = best[1].min(middle.elapsed().as_secs_f64());
    }
    best
}
