//! The network.

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::Conv2d;
use burn::nn::{Linear, LocalResponseNorm};
use burn::tensor::activation::{log_softmax, relu};
use burn::tensor::module::max_pool2d;
use burn::tensor::ops::MaxPoolOptions;
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};

use crate::auxiliary::{AUXILIARY_WEIGHT, Auxiliary, AuxiliarySizes};
use crate::dropout::Dropout;
use crate::error::{Error, Result};
use crate::filler::{CLASSIFIER_BIAS, Filler};
use crate::inception::{Channels, Inception};
use crate::lrn::local_response_norm;

/// Side of the published network's input, in pixels.
pub const PUBLISHED_SIZE: usize = 224;
/// Classes of the ImageNet challenge.
pub const PUBLISHED_CLASSES: usize = 1000;
/// Below this the last stages have nothing left to look at.
const SMALLEST_SIZE: usize = 64;
/// Share of the last features that training leaves out.
const DROPOUT: f64 = 0.4;

const CONV1: usize = 64;
const CONV2: usize = 192;
const AUXILIARY_CONV: usize = 128;
const AUXILIARY_HIDDEN: usize = 1024;

/// Columns of table 1: 1×1, 3×3 reduce, 3×3, 5×5 reduce, 5×5, pool proj.
const TABLE: [(&str, [usize; 6]); 9] = [
    ("3a", [64, 96, 128, 16, 32, 32]),
    ("3b", [128, 128, 192, 32, 96, 64]),
    ("4a", [192, 96, 208, 16, 48, 64]),
    ("4b", [160, 112, 224, 24, 64, 64]),
    ("4c", [128, 128, 256, 24, 64, 64]),
    ("4d", [112, 144, 288, 32, 64, 64]),
    ("4e", [256, 160, 320, 32, 128, 128]),
    ("5a", [256, 160, 320, 32, 128, 128]),
    ("5b", [384, 192, 384, 48, 128, 128]),
];

/// Sizes of a [`GoogLeNet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoogLeNetConfig {
    /// Number of classes.
    pub classes: usize,
    /// Side of the square input in pixels: 224 as published, 64 at least.
    pub size: usize,
    /// Every number of channels and hidden units is divided by this: 1 as published. For tests.
    pub narrow: usize,
}

impl Default for GoogLeNetConfig {
    fn default() -> Self {
        GoogLeNetConfig { classes: PUBLISHED_CLASSES, size: PUBLISHED_SIZE, narrow: 1 }
    }
}

impl GoogLeNetConfig {
    /// Refuses sizes that cannot work.
    pub fn check(&self) -> Result<()> {
        let refuse = |field, value: usize, allowed: &str| {
            Err(Error::Setting { field, value: value.to_string(), allowed: allowed.into() })
        };
        if self.classes < 2 {
            return refuse("classes", self.classes, "two classes or more");
        }
        if self.size < SMALLEST_SIZE {
            return refuse("size", self.size, "64 pixels or more; the published network has 224");
        }
        if self.narrow == 0 {
            return refuse("narrow", self.narrow, "1 (the published widths) or more");
        }
        Ok(())
    }

    /// Channels after the divisor.
    fn width(&self, channels: usize) -> usize {
        channels.div_ceil(self.narrow)
    }

    /// The row of table 1 that a module has.
    fn channels(&self, module: usize) -> Channels {
        let [conv1x1, conv3x3_reduce, conv3x3, conv5x5_reduce, conv5x5, pool_proj] =
            TABLE[module].1.map(|channels| self.width(channels));
        Channels { conv1x1, conv3x3_reduce, conv3x3, conv5x5_reduce, conv5x5, pool_proj }
    }

    /// The network with Caffe's initial values for a seed. Training needs a device with autodiff.
    pub fn init(&self, seed: u64, device: &Device) -> Result<GoogLeNet> {
        self.check()?;
        let mut filler = Filler::new(seed, device);
        let filler = &mut filler;
        let (conv1, conv2) = (self.width(CONV1), self.width(CONV2));
        let mut inputs = conv2;
        let mut modules = (0..TABLE.len()).map(|module| (module, self.channels(module)));
        let mut inception = |filler: &mut Filler| {
            let (_, channels) = modules.next().expect("table 1 has a row for each module");
            let module = Inception::new(inputs, channels, filler);
            inputs = channels.total();
            module
        };
        // Stages 4 see the image at a sixteenth of its side.
        let side = pooled(pooled(pooled(self.size.div_ceil(2))));
        let auxiliary = |module: usize, filler: &mut Filler| {
            let sizes = AuxiliarySizes {
                inputs: self.channels(module).total(),
                side,
                conv: self.width(AUXILIARY_CONV),
                hidden: self.width(AUXILIARY_HIDDEN),
                classes: self.classes,
            };
            Auxiliary::new(sizes, filler)
        };
        Ok(GoogLeNet {
            conv1: filler.conv([3, conv1], 7, 2),
            conv2_reduce: filler.conv([conv1, conv1], 1, 1),
            conv2: filler.conv([conv1, conv2], 3, 1),
            norm: local_response_norm(),
            inception_3a: inception(filler),
            inception_3b: inception(filler),
            inception_4a: inception(filler),
            inception_4b: inception(filler),
            inception_4c: inception(filler),
            inception_4d: inception(filler),
            inception_4e: inception(filler),
            inception_5a: inception(filler),
            inception_5b: inception(filler),
            loss1: auxiliary(2, filler),
            loss2: auxiliary(5, filler),
            loss3: filler
                .linear([self.channels(TABLE.len() - 1).total(), self.classes], CLASSIFIER_BIAS),
        })
    }
}

/// Side after a maximum over 3×3 at stride 2, in Caffe's convention: the last window may reach over
/// the edge.
fn pooled(side: usize) -> usize {
    (side - 3).div_ceil(2) + 1
}

/// A maximum over 3×3 at stride 2.
fn max_pool(input: Tensor<4>) -> Tensor<4> {
    max_pool2d(input, MaxPoolOptions::new([3, 3]).with_stride([2, 2]).with_ceil_mode(true))
}

/// The 22-layer network of [Szegedy et al.](https://arxiv.org/abs/1409.4842) (2014, table 1), as
/// Caffe's `bvlc_googlenet` has it. The fields have Caffe's names.
///
/// The last average is over all places, which at the published size are 7×7; so are smaller images
/// possible.
#[derive(Module, Debug)]
pub struct GoogLeNet {
    conv1: Conv2d,
    conv2_reduce: Conv2d,
    conv2: Conv2d,
    norm: LocalResponseNorm,
    inception_3a: Inception,
    inception_3b: Inception,
    inception_4a: Inception,
    inception_4b: Inception,
    inception_4c: Inception,
    inception_4d: Inception,
    inception_4e: Inception,
    inception_5a: Inception,
    inception_5b: Inception,
    loss1: Auxiliary,
    loss2: Auxiliary,
    loss3: Linear,
}

/// Logits of the three classifiers.
#[derive(Clone, Debug)]
pub struct Logits {
    /// The classifier at the end.
    pub main: Tensor<2>,
    /// The auxiliary classifiers after the modules 4a and 4d.
    pub auxiliary: [Tensor<2>; 2],
}

/// What the layers with parameters and rectifiers leave to the classifiers.
struct Features {
    after_4a: Tensor<4>,
    after_4d: Tensor<4>,
    /// One value for each channel.
    last: Tensor<2>,
}

impl GoogLeNet {
    /// Logits of the classes for images `[batch, 3, size, size]`, without dropout.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        self.loss3.forward(self.features(images, |_, _| ()).last)
    }

    /// Logits of all three classifiers, with dropout: the samples are those from number `first` of
    /// the run on.
    pub fn forward_training(&self, images: Tensor<4>, seed: u64, first: u64) -> Logits {
        let features = self.features(images, |_, _| ());
        let [drop1, drop2, drop3] = [0, 1, 2].map(|layer| Dropout::new(seed, layer, first));
        Logits {
            main: self.loss3.forward(drop3.apply(features.last, DROPOUT)),
            auxiliary: [
                self.loss1.forward(features.after_4a, &drop1),
                self.loss2.forward(features.after_4d, &drop2),
            ],
        }
    }

    /// Name and output shape of each stage for images `[batch, 3, size, size]`.
    pub fn stages(&self, images: Tensor<4>) -> Vec<(&'static str, [usize; 4])> {
        let mut stages = Vec::new();
        self.features(images, |name, output| stages.push((name, output.dims())));
        stages
    }

    fn features(
        &self,
        images: Tensor<4>,
        mut seen: impl FnMut(&'static str, &Tensor<4>),
    ) -> Features {
        let mut stage = |name, output: Tensor<4>| {
            seen(name, &output);
            output
        };
        let x = stage("conv1", relu(self.conv1.forward(images)));
        let x = stage("pool1", max_pool(x));
        let x = self.norm.forward(x);
        let x = relu(self.conv2_reduce.forward(x));
        let x = stage("conv2", relu(self.conv2.forward(x)));
        let x = stage("pool2", max_pool(self.norm.forward(x)));
        let x = stage("inception_3a", self.inception_3a.forward(x));
        let x = stage("inception_3b", self.inception_3b.forward(x));
        let x = stage("pool3", max_pool(x));
        let after_4a = stage("inception_4a", self.inception_4a.forward(x));
        let x = stage("inception_4b", self.inception_4b.forward(after_4a.clone()));
        let x = stage("inception_4c", self.inception_4c.forward(x));
        let after_4d = stage("inception_4d", self.inception_4d.forward(x));
        let x = stage("inception_4e", self.inception_4e.forward(after_4d.clone()));
        let x = stage("pool4", max_pool(x));
        let x = stage("inception_5a", self.inception_5a.forward(x));
        let x = stage("inception_5b", self.inception_5b.forward(x));
        let [batch, channels, height, width] = x.dims();
        let last = x.reshape([batch, channels, height * width]).mean_dim(2).flatten::<2>(1, 2);
        Features { after_4a, after_4d, last }
    }

    /// Path and number of elements of each parameter, in the order of the layers.
    pub fn parameters(&self) -> Vec<(String, usize)> {
        let mut list = ParameterList::default();
        self.visit(&mut list);
        list.found
    }
}

impl Logits {
    /// The training loss: the main cross-entropy and 0.3 of each auxiliary one, means over the
    /// batch.
    pub fn loss(self, labels: Tensor<1, Int>) -> Tensor<1> {
        let [first, second] = self.auxiliary.map(|logits| cross_entropy(logits, labels.clone()));
        cross_entropy(self.main, labels) + (first + second) * AUXILIARY_WEIGHT
    }
}

/// The mean over the batch of minus the logarithm of the label's probability.
pub fn cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    log_softmax(logits, 1).gather(1, labels.unsqueeze_dim(1)).mean().neg()
}

#[derive(Default)]
struct ParameterList {
    path: Vec<String>,
    found: Vec<(String, usize)>,
}

impl ModuleVisitor for ParameterList {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.push((self.path.join("."), param.dims().iter().product()));
    }
}
