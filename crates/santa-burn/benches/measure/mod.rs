//! The time of one optimizer step, gradients at hand, on the paper's fully connected networks.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor, TensorData};
use santa::noise::{Purpose, Stream};
use santa::{Santa, Stepper};
use santa_burn::{SantaConfig, StepperConfig};
use std::hint::black_box;
use std::time::{Duration, Instant};

const INPUTS: usize = 784;
const CLASSES: usize = 10;
const HIDDEN: [usize; 2] = [400, 800];
const DATA: u64 = 60_000;
const LR: f64 = 1e-3;
/// Rounds that are not counted, and rounds that are. In a round every contender makes a step.
const WARM_UP: usize = 20;
const ROUNDS: usize = 200;
/// Long enough that every measured step explores, noise included.
const STEPS: u64 = 1_000_000;

#[derive(Module, Debug)]
struct Fnn {
    layers: Vec<Linear>,
}

impl Fnn {
    fn new(hidden: usize) -> Self {
        let sizes = [INPUTS, hidden, hidden, CLASSES];
        let device = Device::flex().autodiff();
        let layers = sizes.windows(2).map(|s| LinearConfig::new(s[0], s[1]).init(&device));
        Fnn { layers: layers.collect() }
    }

    /// Gradients that nobody else holds, as a backward pass leaves them.
    fn gradients(&self, round: usize) -> GradientsParams {
        let mut grads = GradientsParams::new();
        for (i, layer) in self.layers.iter().enumerate() {
            let bias = layer.bias.as_ref().expect("LinearConfig gives a bias");
            grads.register(layer.weight.id, normals::<2>(layer.weight.dims(), round, 2 * i));
            grads.register(bias.id, normals::<1>(bias.dims(), round, 2 * i + 1));
        }
        grads
    }
}

fn normals<const D: usize>(shape: [usize; D], round: usize, segment: usize) -> Tensor<D> {
    let mut numbers = vec![0f32; shape.iter().product()];
    let stream = Stream::new(1, 0, Purpose::Data);
    stream.normals(round as u64, segment as u32, 0, &mut numbers);
    Tensor::from_data(TensorData::new(numbers, shape), &Device::flex())
}

/// A module, how it is stepped, and how long that took.
struct Contender {
    name: &'static str,
    step: Box<dyn FnMut(usize) -> Duration>,
    times: Vec<Duration>,
}

impl Contender {
    fn new(name: &'static str, step: impl FnMut(usize) -> Duration + 'static) -> Self {
        Contender { name, step: Box::new(step), times: Vec::new() }
    }

    fn optimizer(name: &'static str, hidden: usize, mut optimizer: ModuleOptimizer) -> Self {
        let mut net = Some(Fnn::new(hidden));
        Contender::new(name, move |round| {
            let module = net.take().expect("it is put back after every step");
            let grads = module.gradients(round);
            let start = Instant::now();
            let module = optimizer.step(LR, module, grads);
            let time = start.elapsed();
            net = Some(black_box(module));
            time
        })
    }

    fn median(&mut self) -> Duration {
        self.times.sort();
        self.times[self.times.len() / 2]
    }
}

fn contenders(hidden: usize) -> Vec<Contender> {
    let config = SantaConfig::new().with_data_size(Some(DATA));
    let santa = Santa::new(LR, STEPS);

    let mut net = Fnn::new(hidden);
    let built = StepperConfig::new(santa.clone()).with_data_size(DATA).init(&net);
    let mut stepper = built.expect("the settings work");
    let target = stepper.stepper().target().clone();
    let module_stepper = Contender::new("Santa, `ModuleStepper`", move |round| {
        let grads = net.gradients(round);
        let start = Instant::now();
        stepper.step(&mut net, grads).expect("the gradients are finite");
        start.elapsed()
    });

    let mut native: Stepper<f32> = santa.init(&target, 0).expect("the settings work");
    let mut theta = vec![0f32; target.dim()];
    let mut gradient = vec![0f32; target.dim()];
    let native = Contender::new("Santa, the native `Stepper`", move |round| {
        Stream::new(1, 0, Purpose::Data).normals(round as u64, 0, 0, &mut gradient);
        let start = Instant::now();
        native.step(&mut theta, &gradient).expect("the gradients are finite");
        start.elapsed()
    });

    let exploring = config.clone().with_steps(Some(STEPS)).init();
    vec![
        Contender::optimizer("Burn's Adam", hidden, AdamConfig::new().init()),
        Contender::optimizer("Santa exploring, `ModuleOptimizer`", hidden, exploring),
        Contender::optimizer("Santa refining, `ModuleOptimizer`", hidden, config.init()),
        module_stepper,
        native,
    ]
}

pub fn run(allocator: &str) {
    println!("One step, median of {ROUNDS}, allocator: {allocator}\n");
    println!("| network | optimizer | ms | of Adam's |");
    println!("| --- | --- | ---: | ---: |");
    for hidden in HIDDEN {
        let mut contenders = contenders(hidden);
        for round in 0..WARM_UP + ROUNDS {
            for contender in &mut contenders {
                let time = (contender.step)(round);
                if round >= WARM_UP {
                    contender.times.push(time);
                }
            }
        }
        let adam = contenders[0].median();
        for contender in &mut contenders {
            let time = contender.median();
            println!(
                "| {INPUTS}-{hidden}-{hidden}-{CLASSES} | {} | {:.3} | {:.2} |",
                contender.name,
                time.as_secs_f64() * 1e3,
                time.as_secs_f64() / adam.as_secs_f64()
            );
        }
    }
}
