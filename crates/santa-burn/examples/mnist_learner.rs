//! Digits with Burn's `Learner`: Santa in the place of Adam, and nothing else changed.
//!
//! ```text
//! cargo run --release -p santa-burn --example mnist_learner --features learner
//! cargo run --release -p santa-burn --example mnist_learner --features dashboard   # in the terminal
//! cargo run --release -p santa-burn --example mnist_learner --features learner -- adam
//! ```

mod digits;

use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::Device;
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{
    ClassificationOutput, InferenceStep, Learner, SupervisedTraining, TrainOutput, TrainStep,
};
use digits::{Batch, Digits};
use santa_burn::SantaConfig;
use santa_datasets::Images;

// Burn allocates every intermediate tensor anew. The system's allocator gives large ones back to the
// kernel at once, and their pages are cleared again at every step; mimalloc keeps them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EPOCHS: usize = 10;
const BATCH: usize = 100;
const LR: f64 = 1e-3;
const SEED: u64 = 42;

/// Batches of digits by their numbers, for Burn's data loader.
struct Digit(Images);

impl Batcher<usize, Batch> for Digit {
    fn batch(&self, which: Vec<usize>, device: &Device) -> Batch {
        Batch::of(&self.0, &which, device)
    }
}

impl TrainStep for Digits {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let labels = batch.labels.clone();
        let (loss, logits) = self.loss(batch);
        let output = ClassificationOutput::new(loss.clone(), logits, labels);
        TrainOutput::new(self, loss.backward(), output)
    }
}

impl InferenceStep for Digits {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        let labels = batch.labels.clone();
        let (loss, logits) = self.loss(batch);
        ClassificationOutput::new(loss, logits, labels)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex();
    device.seed(SEED); // the initial weights
    let mnist = digits::mnist();
    let (data, steps) = (mnist.train.len(), mnist.train.len() / BATCH * EPOCHS);

    let optimizer: ModuleOptimizer = match std::env::args().nth(1).as_deref() {
        Some("adam") => AdamConfig::new().init(),
        None | Some("santa") => SantaConfig::new()
            .with_data_size(Some(data as u64))
            .with_steps(Some(steps as u64))
            .with_prior_precision(Some(1.0))
            .with_seed(SEED)
            .init(),
        Some(other) => {
            return Err(format!("`{other}` is no optimizer here; say `santa` or `adam`").into());
        }
    };

    let numbers = |n: usize| InMemDataset::new((0..n).collect());
    let train = DataLoaderBuilder::new(Digit(mnist.train.clone()))
        .batch_size(BATCH)
        .shuffle(SEED)
        .build(numbers(mnist.train.len()));
    let test = DataLoaderBuilder::new(Digit(mnist.test.clone()))
        .batch_size(BATCH)
        .build(numbers(mnist.test.len()));
    let schedule =
        CosineAnnealingLrSchedulerConfig::new(LR, steps).with_min_lr(LR / 100.0).init()?;
    let out = std::env::temp_dir().join("santa-mnist-learner");
    let result = SupervisedTraining::new(&out, train, test)
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .with_default_checkpointers()
        .num_epochs(EPOCHS)
        .summary()
        .launch(Learner::new(Digits::new(200, &device.clone().autodiff()), optimizer, schedule));
    if let Some(error) = result.error {
        return Err(error.to_string().into());
    }
    println!("test accuracy {:.2} %", 100.0 * result.model.accuracy(&mnist.test, &device));
    println!("checkpoints and logs are in {}", out.display());
    Ok(())
}
