//! Handwritten digits with AdamW or with Santa: a loop to copy.
//!
//! ```text
//! cargo run --release -p santa-candle --example mnist            # Santa
//! cargo run --release -p santa-candle --example mnist -- adamw   # candle-nn's AdamW
//! ```
//!
//! The images are the subset of MNIST that `santa-datasets` has built in: 10,000 for training, 2,000
//! for testing. The only difference between the two runs is the optimizer's constructor.

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::{AdamW, Module, Optimizer, ParamsAdamW, VarBuilder, VarMap, linear, loss, seq};
use santa_candle::santa::{DataSize, Minibatches, Prior, Sampling, Santa};
use santa_candle::{Dynamics, InitialWeights, ParamsDynamics, initialise};
use santa_datasets::{Images, Mnist};

// Candle allocates every intermediate tensor anew. The system's allocator gives large ones back to
// the kernel at once, and clearing their pages again takes as long as the arithmetic; mimalloc keeps
// them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EPOCHS: u64 = 10;
const BATCH: usize = 100;
const LR: f64 = 1e-3;
const SEED: u64 = 42;

fn main() -> Result<()> {
    let mnist = Mnist::embedded();
    let (images, labels) = tensors(&mnist.train)?;
    let n = DataSize::new(mnist.train.len() as u64).map_err(candle_core::Error::wrap)?;
    let steps = EPOCHS * (mnist.train.len() / BATCH) as u64;

    // The model as in any Candle program, with initial values that the seed decides.
    let vars = VarMap::new();
    let builder = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    let model = seq()
        .add(linear(784, 200, builder.pp("hidden1"))?)
        .add(|x: &Tensor| x.relu())
        .add(linear(200, 200, builder.pp("hidden2"))?)
        .add(|x: &Tensor| x.relu())
        .add(linear(200, 10, builder.pp("output"))?);
    initialise(&vars, InitialWeights::HeNormal, SEED)?;

    let batches = Minibatches::new(n, BATCH, Sampling::ShuffledEpochs, SEED, 0)
        .map_err(candle_core::Error::wrap)?;
    let run = Run { model, images, labels, test: tensors(&mnist.test)?, batches, steps };
    match std::env::args().nth(1).as_deref().unwrap_or("santa") {
        "adamw" => {
            let params = ParamsAdamW { lr: LR, ..ParamsAdamW::default() };
            run.train(AdamW::new(vars.all_vars(), params)?)
        }
        "santa" => {
            let params = ParamsDynamics {
                prior: Prior::gaussian(1.0),
                seed: SEED,
                ..ParamsDynamics::new(Santa::new(LR, steps), n)
            };
            run.train(Dynamics::from_varmap(&vars, params)?)
        }
        other => candle_core::bail!("`{other}` is not an optimizer here; say `santa` or `adamw`"),
    }
}

struct Run<M> {
    model: M,
    images: Tensor,
    labels: Tensor,
    test: (Tensor, Tensor),
    batches: Minibatches,
    steps: u64,
}

impl<M: Module> Run<M> {
    /// Knows the optimizer by Candle's trait alone.
    fn train(mut self, mut optimizer: impl Optimizer) -> Result<()> {
        let per_epoch = self.batches.batches_per_epoch();
        let mut loss_of_epoch = 0.0;
        for step in 0..self.steps {
            optimizer.set_learning_rate(cosine(step, self.steps));
            let indices = Tensor::new(self.batches.next(), &Device::Cpu)?;
            let images = self.images.index_select(&indices, 0)?;
            let labels = self.labels.index_select(&indices, 0)?;
            let loss = loss::cross_entropy(&self.model.forward(&images)?, &labels)?;
            optimizer.backward_step(&loss)?;

            loss_of_epoch += f64::from(loss.to_scalar::<f32>()?) / per_epoch as f64;
            if (step + 1) % per_epoch == 0 {
                let epoch = (step + 1) / per_epoch;
                let accuracy = 100.0 * self.accuracy()?;
                println!("epoch {epoch:2}  loss {loss_of_epoch:.4}  test accuracy {accuracy:.2} %");
                loss_of_epoch = 0.0;
            }
        }
        Ok(())
    }

    fn accuracy(&self) -> Result<f32> {
        let (images, labels) = &self.test;
        let found = self.model.forward(images)?.argmax(D::Minus1)?;
        found.eq(labels)?.to_dtype(DType::F32)?.mean_all()?.to_scalar()
    }
}

/// From [`LR`] down to a hundredth of it: an optimizer of ours takes no learning rate of 0.
fn cosine(step: u64, steps: u64) -> f64 {
    const FLOOR: f64 = 0.01;
    let phase = std::f64::consts::PI * step as f64 / steps as f64;
    LR * (FLOOR + (1.0 - FLOOR) * (1.0 + phase.cos()) / 2.0)
}

/// Pixels between 0 and 1, and labels.
fn tensors(images: &Images) -> Result<(Tensor, Tensor)> {
    let pixels: Vec<f32> = images.pixels().iter().map(|p| f32::from(*p) / 255.0).collect();
    let labels: Vec<u32> = images.labels().iter().map(|l| u32::from(*l)).collect();
    Ok((
        Tensor::from_vec(pixels, (images.len(), images.image_len()), &Device::Cpu)?,
        Tensor::from_vec(labels, images.len(), &Device::Cpu)?,
    ))
}
