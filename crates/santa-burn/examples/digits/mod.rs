//! The digits and the network of the examples: nothing in here knows of Santa.

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor, TensorData};
use santa_datasets::{Images, Mnist};

/// Pixels of a digit.
pub const PIXELS: usize = 28 * 28;

/// Two hidden layers of rectified units.
#[derive(Module, Debug)]
pub struct Digits {
    hidden1: Linear,
    hidden2: Linear,
    output: Linear,
}

impl Digits {
    pub fn new(width: usize, device: &Device) -> Self {
        Digits {
            hidden1: LinearConfig::new(PIXELS, width).init(device),
            hidden2: LinearConfig::new(width, width).init(device),
            output: LinearConfig::new(width, santa_datasets::mnist::CLASSES).init(device),
        }
    }

    /// Logits.
    pub fn forward(&self, pixels: Tensor<2>) -> Tensor<2> {
        let hidden = relu(self.hidden1.forward(pixels));
        self.output.forward(relu(self.hidden2.forward(hidden)))
    }

    /// The mean loss over a batch, and the logits.
    pub fn loss(&self, batch: Batch) -> (Tensor<1>, Tensor<2>) {
        let logits = self.forward(batch.pixels);
        let loss = CrossEntropyLossConfig::new().init(&logits.device());
        (loss.forward(logits.clone(), batch.labels), logits)
    }

    /// The share of digits that are recognised.
    pub fn accuracy(&self, digits: &Images, device: &Device) -> f64 {
        let all: Vec<usize> = (0..digits.len()).collect();
        let batch = Batch::of(digits, &all, device);
        let found = self.forward(batch.pixels).argmax(1).squeeze::<1>();
        let right = found.equal(batch.labels).int().sum().into_scalar::<i64>();
        right as f64 / digits.len() as f64
    }
}

#[derive(Clone, Debug)]
pub struct Batch {
    pub pixels: Tensor<2>,
    pub labels: Tensor<1, Int>,
}

impl Batch {
    pub fn of(digits: &Images, which: &[usize], device: &Device) -> Self {
        let pixels: Vec<f32> = which
            .iter()
            .flat_map(|i| digits.image(*i).iter().map(|p| f32::from(*p) / 255.0))
            .collect();
        let labels: Vec<i64> = which.iter().map(|i| i64::from(digits.label(*i))).collect();
        let pixels = TensorData::new(pixels, [which.len(), PIXELS]);
        let labels = TensorData::new(labels, [which.len()]);
        Batch {
            pixels: Tensor::from_data(pixels, device),
            labels: Tensor::from_data(labels, device),
        }
    }
}

/// The subset of MNIST that is built in: 10,000 images for training, 2,000 for testing.
pub fn mnist() -> Mnist {
    Mnist::embedded()
}
