//! Fine-tuning: train on some digits, freeze the first layers, go on with the head on all digits,
//! save in the middle and resume.
//!
//! ```text
//! cargo run --release -p santa-candle --example fine_tune
//! ```

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::{Linear, Module, Optimizer, VarBuilder, VarMap, linear, loss};
use santa_candle::santa::{DataSize, Group, Minibatches, Prior, Sampling, Santa};
use santa_candle::{Dynamics, InitialWeights, ParamsDynamics, initialise};
use santa_datasets::{Images, Mnist};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc; // the example `mnist` says why

const BATCH: usize = 100;
const SEED: u64 = 42;
/// Steps of each part.
const PRETRAINING: u64 = 400;
const FINE_TUNING: u64 = 400;

type Fallible<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible {
    let mnist = Mnist::embedded();
    let all = Digits::new(&mnist.train)?;
    let test = Digits::new(&mnist.test)?;
    let low: Vec<u32> =
        (0..).zip(mnist.train.labels()).filter(|(_, l)| **l < 5).map(|(i, _)| i).collect();
    let low = Digits::new(&mnist.train.subset(&low)?)?;

    let (model, vars) = build()?;
    println!("before           test accuracy {:5.2} %", 100.0 * model.accuracy(&test)?);

    // All layers, on the digits 0 to 4.
    let params = ParamsDynamics {
        prior: Prior::gaussian(1.0),
        seed: SEED,
        ..ParamsDynamics::new(Santa::new(1e-3, PRETRAINING), low.data_size()?)
    };
    let mut santa = Dynamics::from_varmap(&vars, params)?;
    model.train(&mut santa, &low, 0..PRETRAINING)?;
    println!("digits 0 to 4    test accuracy {:5.2} %", 100.0 * model.accuracy(&test)?);
    let body = vars_of(&vars, "body.");

    // The head alone, on all digits. Its bias moves at twice the rate and has no prior.
    let params = ParamsDynamics {
        prior: Prior::gaussian(1.0),
        groups: vec![
            Group::new("body.*").frozen(),
            Group::new("head.bias").lr_scale(2.0).prior(Prior::Flat),
        ],
        seed: SEED + 1,
        ..ParamsDynamics::new(Santa::new(3e-3, FINE_TUNING), all.data_size()?)
    };
    let mut santa = Dynamics::from_varmap(&vars, params.clone())?;
    let half = FINE_TUNING / 2;
    model.train(&mut santa, &all, 0..half)?;
    println!("head, half-way   test accuracy {:5.2} %", 100.0 * model.accuracy(&test)?);

    // The file has the model's variables too: this is all that a resumed run needs.
    let file = tempfile::NamedTempFile::new()?;
    santa.save(file.path())?;
    model.train(&mut santa, &all, half..FINE_TUNING)?;
    println!("head, all digits test accuracy {:5.2} %", 100.0 * model.accuracy(&test)?);
    assert_eq!(body, vars_of(&vars, "body."), "frozen layers stay as they are");

    let (model, vars) = build()?; // as in another process
    let mut resumed = Dynamics::from_varmap(&vars, params)?;
    resumed.load(file.path())?;
    model.train(&mut resumed, &all, half..FINE_TUNING)?;
    println!("resumed          test accuracy {:5.2} %", 100.0 * model.accuracy(&test)?);
    println!("same parameters  {}", resumed.theta()? == santa.theta()?);
    Ok(())
}

struct Model {
    body: [Linear; 2],
    head: Linear,
}

fn build() -> Fallible<(Model, VarMap)> {
    let vars = VarMap::new();
    let builder = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    let body = builder.pp("body");
    let model = Model {
        body: [linear(784, 200, body.pp("0"))?, linear(200, 100, body.pp("1"))?],
        head: linear(100, 10, builder.pp("head"))?,
    };
    initialise(&vars, InitialWeights::HeNormal, SEED)?;
    Ok((model, vars))
}

impl Module for Model {
    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        let [first, second] = &self.body;
        let features = second.forward(&first.forward(images)?.relu()?)?.relu()?;
        self.head.forward(&features)
    }
}

impl Model {
    /// Makes the steps of a range; the batches are a function of the step.
    fn train(
        &self,
        santa: &mut Dynamics,
        digits: &Digits,
        steps: std::ops::Range<u64>,
    ) -> Fallible {
        let mut batches =
            Minibatches::new(digits.data_size()?, BATCH, Sampling::ShuffledEpochs, SEED, 0)?;
        batches.seek(steps.start);
        for _ in steps {
            let indices = Tensor::new(batches.next(), &Device::Cpu)?;
            let images = digits.images.index_select(&indices, 0)?;
            let labels = digits.labels.index_select(&indices, 0)?;
            santa.backward_step(&loss::cross_entropy(&self.forward(&images)?, &labels)?)?;
        }
        Ok(())
    }

    fn accuracy(&self, digits: &Digits) -> Result<f32> {
        let found = self.forward(&digits.images)?.argmax(D::Minus1)?;
        found.eq(&digits.labels)?.to_dtype(DType::F32)?.mean_all()?.to_scalar()
    }
}

struct Digits {
    images: Tensor,
    labels: Tensor,
}

impl Digits {
    fn new(images: &Images) -> Result<Self> {
        let pixels: Vec<f32> = images.pixels().iter().map(|p| f32::from(*p) / 255.0).collect();
        let labels: Vec<u32> = images.labels().iter().map(|l| u32::from(*l)).collect();
        Ok(Digits {
            images: Tensor::from_vec(pixels, (images.len(), images.image_len()), &Device::Cpu)?,
            labels: Tensor::from_vec(labels, images.len(), &Device::Cpu)?,
        })
    }

    fn data_size(&self) -> Fallible<DataSize> {
        Ok(DataSize::new(self.labels.elem_count() as u64)?)
    }
}

/// The values of the variables whose names begin with a prefix.
fn vars_of(vars: &VarMap, prefix: &str) -> std::collections::BTreeMap<String, Vec<f32>> {
    let map = vars.data().lock().expect("no thread has panicked");
    map.iter()
        .filter(|(name, _)| name.starts_with(prefix))
        .map(|(name, var)| {
            let values = var.flatten_all().and_then(|v| v.to_vec1());
            (name.clone(), values.expect("a variable of f32"))
        })
        .collect()
}
