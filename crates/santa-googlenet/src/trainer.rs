//! The network, its optimizer, and one step of both.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer, MultiGradientsParams};
use burn::tensor::{Device, Tensor};

use crate::batches::{Batch, Batches};
use crate::checkpoint::{self, Run};
use crate::error::{Error, Result};
use crate::images::ImageFolder;
use crate::model::{GoogLeNet, cross_entropy};
use crate::optimizer;
use crate::settings::Settings;

/// Ranks that count for the top-5 accuracy.
const TOP: usize = 5;

/// A run between two steps.
pub struct Trainer {
    settings: Settings,
    /// With autodiff; the first is the main one.
    devices: Vec<Device>,
    classes: Vec<String>,
    images: u64,
    model: GoogLeNet,
    optimizer: ModuleOptimizer,
    iteration: u64,
}

/// What a test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Number of images.
    pub images: usize,
    /// Mean cross-entropy of the main classifier.
    pub loss: f64,
    /// Share of the images whose label is the most probable class.
    pub top1: f64,
    /// Share of the images whose label is among the five most probable classes.
    pub top5: f64,
}

impl Trainer {
    /// A new run on the images of a folder; the number of classes is the folder's. Several devices
    /// share each batch.
    pub fn new(mut settings: Settings, images: &ImageFolder, devices: &[Device]) -> Result<Self> {
        settings.net.classes = images.classes().len();
        settings.check()?;
        let devices: Vec<Device> = devices.iter().map(|device| device.clone().autodiff()).collect();
        let Some(main) = devices.first() else {
            let reason = "one is needed at least".into();
            return Err(Error::Device { name: String::new(), reason });
        };
        if settings.batch < devices.len() {
            return Err(Error::Setting {
                field: "batch",
                value: settings.batch.to_string(),
                allowed: format!("at least one image for each of the {} devices", devices.len()),
            });
        }
        let model = settings.net.init(settings.seed, main)?;
        let optimizer = optimizer::build(&settings, images.len() as u64)?;
        let classes = images.classes().to_vec();
        let images = images.len() as u64;
        Ok(Trainer { settings, devices, classes, images, model, optimizer, iteration: 0 })
    }

    /// The run of a checkpoint, from the same settings and images as before.
    pub fn resume(
        settings: Settings,
        images: &ImageFolder,
        devices: &[Device],
        checkpoint: &Path,
    ) -> Result<Self> {
        let fresh = Trainer::new(settings, images, devices)?;
        let saved = checkpoint::read(checkpoint)?;
        let refuse = |what: &str, was: String, is: String| {
            let reason = format!("it was made with {what} {was}, not {is}; resume with the same");
            Err(Error::Checkpoint { path: checkpoint.into(), reason })
        };
        if let Some((setting, was, is)) = saved.settings.difference(&fresh.settings) {
            return refuse(&setting, was, is);
        }
        if saved.images != fresh.images {
            return refuse("images", saved.images.to_string(), fresh.images.to_string());
        }
        if saved.classes != fresh.classes {
            return refuse("classes", saved.classes.join(", "), fresh.classes.join(", "));
        }
        let (model, optimizer) = checkpoint::load(checkpoint, fresh.model, fresh.optimizer)?;
        Ok(Trainer { model, optimizer, iteration: saved.iteration, ..fresh })
    }

    /// Writes a checkpoint into a folder of checkpoints.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let (classes, settings) = (self.classes.clone(), self.settings.clone());
        let run = Run::new(self.iteration, self.images, classes, settings);
        checkpoint::save(folder, &run, self.model.clone(), &self.optimizer)?;
        Ok(())
    }

    /// Steps made so far.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// The settings, with the number of classes.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The network.
    pub fn model(&self) -> &GoogLeNet {
        &self.model
    }

    /// One step on a batch. The loss stays on the device until somebody reads it.
    pub fn step(self, batch: &Batch) -> (Self, Tensor<1>) {
        let Trainer { settings, devices, classes, images, model, mut optimizer, iteration } = self;
        let lr = optimizer::learning_rate(&settings, iteration);
        let (model, loss) = if let [device] = &devices[..] {
            let (gradients, loss) = gradients(&model, batch, 0..batch.len(), settings.seed, device);
            (optimizer.step(lr, model, gradients), loss)
        } else {
            let (gradients, loss) = shared_gradients(&model, batch, settings.seed, &devices);
            let model = optimizer.step_multi(lr, model, gradients);
            // Burn spreads the parameters over the devices.
            (model.fork(&devices[0]), loss)
        };
        let iteration = iteration + 1;
        (Trainer { settings, devices, classes, images, model, optimizer, iteration }, loss)
    }

    /// Tests the network on all images of a folder.
    pub fn evaluate(&self, folder: &Arc<ImageFolder>) -> Result<Evaluation> {
        let device = self.devices[0].clone().inner();
        let model = self.model.valid();
        let (size, batch) = (self.settings.net.size, self.settings.batch);
        let (mut loss, mut top1, mut top5) = (0.0, 0, 0);
        for batch in Batches::testing(folder.clone(), size, batch) {
            let batch = batch?;
            let (images, labels) = batch.tensors(0..batch.len(), &device);
            let logits = model.forward(images);
            let values: Vec<f32> = numbers(logits.clone());
            for (row, label) in values.chunks_exact(self.classes.len()).zip(&batch.labels) {
                let rank = rank(row, *label as usize);
                top1 += usize::from(rank == 0);
                top5 += usize::from(rank < TOP);
            }
            loss += f64::from(numbers(cross_entropy(logits, labels))[0]) * batch.len() as f64;
        }
        let images = folder.len();
        let share = |count: usize| count as f64 / images as f64;
        Ok(Evaluation { images, loss: loss / images as f64, top1: share(top1), top5: share(top5) })
    }
}

/// How many other classes are not less probable than the label. A NaN is not less than anything, so
/// that a network that is lost is not right by accident.
fn rank(logits: &[f32], label: usize) -> usize {
    let less = logits.iter().filter(|logit| **logit < logits[label]).count();
    logits.len() - 1 - less
}

/// The numbers of a tensor on the host.
pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.try_into_vec_as().expect("the network computes in f32")
}

/// Gradient and loss of a part of a batch: means over the whole batch of which the others are left
/// out, so that the parts add up.
fn gradients(
    model: &GoogLeNet,
    batch: &Batch,
    part: Range<usize>,
    seed: u64,
    device: &Device,
) -> (GradientsParams, Tensor<1>) {
    let share = part.len() as f64 / batch.len() as f64;
    let first = batch.first + part.start as u64;
    let (images, labels) = batch.tensors(part, device);
    let loss = model.forward_training(images, seed, first).loss(labels);
    let loss = if share == 1.0 { loss } else { loss * share };
    let value = loss.clone().inner();
    (GradientsParams::from_grads(loss.backward(), model), value)
}

/// The same for the whole batch, split over devices, a thread for each.
fn shared_gradients(
    model: &GoogLeNet,
    batch: &Batch,
    seed: u64,
    devices: &[Device],
) -> (MultiGradientsParams, Tensor<1>) {
    let count = devices.len();
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = devices
            .iter()
            .enumerate()
            .map(|(i, device)| {
                let part = batch.len() * i / count..batch.len() * (i + 1) / count;
                let model = model.clone();
                scope.spawn(move || gradients(&model.fork(device), batch, part, seed, device))
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    let main = devices[0].clone().inner();
    let mut sum = MultiGradientsParams::default();
    let mut loss: Option<Tensor<1>> = None;
    for ((gradients, part), device) in parts.into_iter().zip(devices) {
        sum.grads.push((gradients, device.clone().inner()));
        let part = part.to_device(&main);
        loss = Some(match loss {
            Some(loss) => loss + part,
            None => part,
        });
    }
    (sum, loss.expect("there is a device"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_and_nans_are_no_success() {
        assert_eq!(rank(&[1.0, 3.0, 2.0], 1), 0);
        assert_eq!(rank(&[1.0, 3.0, 2.0], 0), 2);
        assert_eq!(rank(&[3.0, 3.0, 2.0], 0), 1);
        assert_eq!(rank(&[f32::NAN, 3.0, 2.0], 1), 1);
        assert_eq!(rank(&[f32::NAN; 3], 1), 2);
    }
}
