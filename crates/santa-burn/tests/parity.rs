//! The same network, initial values, batches and seed, natively and in Burn: the same parameters.
//!
//! Both keep the weights of a layer as inputs x outputs, row by row, and then its biases, so an
//! element has the same place in both, and with it the same noise. The gradients differ by their
//! rounding alone.

mod common;

use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::GradientsParams;
use burn::tensor::{Int, Tensor, TensorData};
use common::{Net, device, net_of, theta};
use santa::noise::{Purpose, Stream};
use santa::{Batch, Potential, Prior, Santa, Stepper};
use santa_burn::{SantaConfig, StepperConfig};
use santa_nn::{Architecture, Classifier, Examples};

const SIZES: [usize; 3] = [6, 16, 3];
const DATA: usize = 64;
const BATCH: usize = 16;
const STEPS: u64 = 100;
const LR: f64 = 1e-2;
const SEED: u64 = 42;
const DECAY: f64 = 1e-3;
/// Of parameters of about 1 after a hundred steps in single precision.
const TOLERANCE: f32 = 2e-5;

struct Data {
    inputs: Vec<f32>,
    labels: Vec<u8>,
}

impl Data {
    fn new() -> Self {
        let stream = Stream::new(5, 0, Purpose::Data);
        let mut inputs = vec![0.0; DATA * SIZES[0]];
        stream.normals(0, 0, 0, &mut inputs);
        let labels = inputs.chunks(SIZES[0]).map(|x| match x[0] + x[1] * x[2] {
            y if y < -0.5 => 0,
            y if y < 0.5 => 1,
            _ => 2,
        });
        Data { labels: labels.collect(), inputs }
    }

    fn batch(&self, t: u64) -> Vec<u32> {
        let mut indices = vec![0; BATCH];
        Stream::new(6, 0, Purpose::Shuffling).fill_below(t, 0, DATA as u32, &mut indices);
        indices
    }

    fn gradients(&self, net: &Net, t: u64) -> GradientsParams {
        let indices = self.batch(t);
        let width = SIZES[0];
        let rows = indices.iter().map(|i| *i as usize);
        let x: Vec<f32> =
            rows.clone().flat_map(|i| self.inputs[i * width..(i + 1) * width].to_vec()).collect();
        let y: Vec<i64> = rows.map(|i| self.labels[i].into()).collect();
        let x = Tensor::<2>::from_data(TensorData::new(x, [BATCH, width]), &device());
        let y = Tensor::<1, Int>::from_data(TensorData::new(y, [BATCH]), &device());
        let loss = CrossEntropyLossConfig::new().init(&device()).forward(net.forward(x), y);
        GradientsParams::from_grads(loss.backward(), net)
    }
}

fn native(data: &Data, seed: u64) -> (Vec<f32>, Vec<f32>) {
    let examples = Examples::from_f32(data.inputs.clone(), SIZES[0], data.labels.clone()).unwrap();
    let prior = Prior::gaussian(DECAY * DATA as f64);
    let mut model = Classifier::<f32>::new(&Architecture::dense(&SIZES), examples, prior).unwrap();
    let start = model.initial(1, 0).to_vec();
    let mut parameters = start.clone();
    let mut stepper: Stepper<f32> = Santa::new(1.0, STEPS).init(model.target(), seed).unwrap();
    stepper.set_lr_factor(LR).unwrap();
    let mut gradient = vec![0.0; parameters.len()];
    for t in 1..=STEPS {
        let indices = data.batch(t);
        model.loss_gradient(&parameters, &Batch::of(&indices), &mut gradient).unwrap();
        stepper.step(&mut parameters, &gradient).unwrap();
    }
    (start, parameters)
}

fn farthest(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn a_hundred_noisy_steps_end_where_the_native_ones_end() {
    let data = Data::new();
    let (start, expected) = native(&data, SEED);

    let mut net = net_of(SIZES, &start);
    let mut optimizer = SantaConfig::new()
        .with_data_size(Some(DATA as u64))
        .with_steps(Some(STEPS))
        .with_weight_decay(Some(DECAY))
        .with_seed(SEED)
        .init();
    for t in 1..=STEPS {
        let grads = data.gradients(&net, t);
        net = optimizer.step(LR, net, grads);
    }
    let apart = farthest(&theta(&net), &expected);
    println!("module optimizer: {apart:e}");
    assert!(apart < TOLERANCE, "{apart}");

    let mut net = net_of(SIZES, &start);
    let mut stepper = StepperConfig::new(Santa::new(LR, STEPS))
        .with_data_size(DATA as u64)
        .with_prior(Prior::gaussian(DECAY * DATA as f64))
        .with_seed(SEED)
        .init(&net)
        .unwrap();
    for t in 1..=STEPS {
        let grads = data.gradients(&net, t);
        stepper.step(&mut net, grads).unwrap();
    }
    let apart = farthest(&theta(&net), &expected);
    println!("module stepper: {apart:e}");
    assert!(apart < TOLERANCE, "{apart}");

    // The control: with other noise the parameters end elsewhere, and they have all moved.
    let (_, other) = native(&data, SEED + 1);
    assert!(farthest(&other, &expected) > 100.0 * TOLERANCE);
    assert!(farthest(&start, &expected) > 100.0 * TOLERANCE);
}
