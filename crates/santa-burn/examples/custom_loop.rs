//! Digits with a loop of one's own and the `ModuleStepper`: it knows every parameter's path and the
//! global step, returns errors, clips the norm of the whole gradient, and can stop and go on exactly.
//!
//! ```text
//! cargo run --release -p santa-burn --example custom_loop
//! ```
//!
//! The second half of the run refines; the example also averages the predictions of the exploring half,
//! which a sampler gives at the price of training.

mod digits;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, activation::softmax};
use digits::{Batch, Digits};
use santa::{Clip, DataSize, Group, Minibatches, Prior, Sampling, Santa, Stage};
use santa_burn::StepperConfig;

// See the example `mnist_learner` for the reason.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EPOCHS: u64 = 10;
const BATCH: usize = 100;
const SEED: u64 = 42;
/// Steps between two predictions that are averaged.
const KEPT_EVERY: u64 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex();
    device.seed(SEED); // the initial weights
    let mnist = digits::mnist();
    let n = DataSize::new(mnist.train.len() as u64)?;
    let mut batches = Minibatches::new(n, BATCH, Sampling::ShuffledEpochs, SEED, 0)?;
    let (per_epoch, steps) = (batches.batches_per_epoch(), EPOCHS * batches.batches_per_epoch());

    let mut model = Digits::new(200, &device.clone().autodiff());
    let mut stepper = StepperConfig::new(Santa::new(1e-3, steps))
        .with_data_size(n.get())
        .with_prior(Prior::gaussian(1.0))
        .with_group(Group::new("*.bias").prior(Prior::Flat))
        .with_clip(Clip::Norm(5.0))
        .with_seed(SEED)
        .init(&model)?;

    let everything: Vec<usize> = (0..mnist.test.len()).collect();
    let test = Batch::of(&mnist.test, &everything, &device);
    let mut average: Option<(Tensor<2>, u32)> = None;
    for step in 1..=steps {
        let which: Vec<usize> = batches.next().iter().map(|i| *i as usize).collect();
        let batch = Batch::of(&mnist.train, &which, &device.clone().autodiff());
        let (loss, _) = model.loss(batch);
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        stepper.step(&mut model, grads)?;

        let exploring = stepper.stepper().stage()? == Stage::Exploring;
        if exploring && step > steps / 4 && step % KEPT_EVERY == 0 {
            let probabilities = softmax(model.valid().forward(test.pixels.clone()), 1);
            average = Some(match average {
                None => (probabilities, 1),
                Some((sum, count)) => (sum + probabilities, count + 1),
            });
        }
        if step % per_epoch != 0 {
            continue;
        }
        println!(
            "epoch {:2}  loss {:.4}  temperature {:.1e}  test accuracy {:.2} %",
            step / per_epoch,
            loss.into_scalar::<f32>(),
            stepper.stepper().temperature()?,
            100.0 * model.valid().accuracy(&mnist.test, &device),
        );
    }
    if let Some((sum, count)) = average {
        let found = sum.argmax(1).squeeze::<1>();
        let right = found.equal(test.labels).int().sum().into_scalar::<i64>();
        let accuracy = 100.0 * right as f64 / mnist.test.len() as f64;
        println!("{count} averaged predictions of the exploring half: {accuracy:.2} %");
    }

    let checkpoint = std::env::temp_dir().join("santa-custom-loop.safetensors");
    stepper.save(&model, &checkpoint)?;
    println!("the checkpoint is {}", checkpoint.display());
    Ok(())
}
