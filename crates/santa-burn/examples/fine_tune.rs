//! Fine-tuning with frozen groups: a network that knows the digits 0 to 4 learns all ten, first with
//! its new output layer alone, then with everything at a tenth of the rate.
//!
//! ```text
//! cargo run --release -p santa-burn --example fine_tune
//! ```

mod digits;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Device;
use digits::{Batch, Digits};
use santa::{DataSize, Group, Minibatches, Prior, Sampling, Santa};
use santa_burn::StepperConfig;
use santa_datasets::Images;

// See the example `mnist_learner` for the reason.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH: usize = 100;
const SEED: u64 = 42;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// One stage of the training, with groups of its own.
fn train(
    model: Digits,
    digits: &Images,
    lr: f64,
    epochs: u64,
    groups: &[Group],
) -> Outcome<Digits> {
    let device = Device::flex().autodiff();
    let n = DataSize::new(digits.len() as u64)?;
    let mut batches = Minibatches::new(n, BATCH, Sampling::ShuffledEpochs, SEED, 0)?;
    let steps = epochs * batches.batches_per_epoch();
    let config = StepperConfig::new(Santa::new(lr, steps))
        .with_data_size(n.get())
        .with_prior(Prior::gaussian(1.0))
        .with_seed(SEED);
    let config = groups.iter().fold(config, |config, group| config.with_group(group.clone()));
    let mut model = model;
    let mut stepper = config.init(&model)?;
    for _ in 0..steps {
        let which: Vec<usize> = batches.next().iter().map(|i| *i as usize).collect();
        let (loss, _) = model.loss(Batch::of(digits, &which, &device));
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        stepper.step(&mut model, grads)?;
    }
    Ok(model)
}

fn main() -> Outcome<()> {
    let device = Device::flex();
    device.seed(SEED);
    let mnist = digits::mnist();
    let few: Vec<u32> =
        (0..mnist.train.len() as u32).filter(|i| mnist.train.label(*i as usize) < 5).collect();
    let report = |what: &str, model: &Digits| {
        let accuracy = 100.0 * model.valid().accuracy(&mnist.test, &device);
        println!("{what:34} {accuracy:.2} % of all ten digits");
    };

    let model = Digits::new(200, &device.clone().autodiff());
    let model = train(model, &mnist.train.subset(&few)?, 1e-3, 5, &[])?;
    report("0 to 4 alone:", &model);

    let frozen = [Group::new("hidden*").frozen()];
    let model = train(model, &mnist.train, 1e-3, 3, &frozen)?;
    report("all digits, output layer alone:", &model);

    let slow = [Group::new("hidden*").lr_scale(0.1)];
    let model = train(model, &mnist.train, 1e-3, 5, &slow)?;
    report("everything, the rest at a tenth:", &model);
    Ok(())
}
