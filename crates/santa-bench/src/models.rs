//! A training step of the paper's models: forward, backward, optimizer.

use crate::clock::{Effort, best, page_faults};
use crate::data;
use santa::dynamics::AlphaInRefinement;
use santa::{Batch, Potential, Prior, Result, Santa, Stepper};
use santa_nn::{
    Architecture, Buffer, Classifier, GruArchitecture, Normalisation, SequenceModel, zeros,
};
use std::hint::black_box;
use std::time::Instant;

/// Images of a step.
const BATCH: usize = 100;
/// Steps of a sequence.
const SEQUENCE: usize = 500;
/// Keys of a piano.
const KEYS: usize = 88;
/// Pixels of a digit.
const PIXELS: usize = 784;

/// So small that the parameters hardly move: a network that has learned its data by heart has
/// gradients of almost nothing, which processors compute slowly.
const RATE: f64 = 1e-6;
/// More steps than are made, so that all of them explore.
const EXPLORING: u64 = 1_000_000_000;

/// The times of a step, in seconds, each the best of many.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The loss alone.
    pub forward: f64,
    /// The optimizer, exploring, with noise.
    pub optimizer: f64,
    /// All of a step that explores.
    pub total: f64,
    /// All of a step that refines, without noise.
    pub refining: f64,
    /// Page faults of a step, where the system tells.
    pub faults: f64,
    /// Parameters of the model.
    pub parameters: usize,
}

/// A model and its data.
#[derive(Clone, Debug)]
pub struct Model {
    name: &'static str,
    flops: f64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Classifier { architecture: Architecture, images: Images },
    Gru(GruArchitecture),
}

#[derive(Clone, Copy, Debug)]
enum Images {
    Digits,
    Noise,
}

impl Model {
    /// The models that are measured. `fnn-400-noise` has images without zeros.
    pub fn all() -> Vec<Model> {
        let classifier = |name, architecture, flops, images| Model {
            name,
            flops,
            kind: Kind::Classifier { architecture, images },
        };
        let small = [PIXELS, 400, 400, 10];
        let large = [PIXELS, 800, 800, 10];
        let (paper, authors) = (Architecture::paper_cnn(), Architecture::authors_cnn());
        vec![
            classifier("fnn-400", Architecture::dense(&small), dense(&small), Images::Digits),
            classifier("fnn-400-noise", Architecture::dense(&small), dense(&small), Images::Noise),
            classifier("fnn-800", Architecture::dense(&large), dense(&large), Images::Digits),
            classifier("cnn-paper", paper, cnn(28, 14, &[3136, 200, 200, 10]), Images::Digits),
            classifier("cnn-authors", authors, cnn(32, 20, &[6400, 500, 10]), Images::Digits),
            gru("gru-200", GruArchitecture { keys: KEYS, hidden: 200 }),
        ]
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Floating-point operations of a step without the optimizer, by the plain definition: dense
    /// products and direct convolutions. Work that a kernel avoids counts, and shows as speed.
    pub fn flops(&self) -> f64 {
        self.flops
    }

    /// Measures its steps; with the times, the megabytes of its buffers.
    pub fn measure(&self, effort: Effort) -> Result<(Times, f64)> {
        const MEGABYTE: f64 = 1e6;
        let prior = Prior::gaussian(1.0);
        match &self.kind {
            Kind::Classifier { architecture, images } => {
                let images = match images {
                    Images::Digits => data::digits()?,
                    Images::Noise => data::noise(PIXELS)?,
                };
                let mut model = Classifier::<f32>::new(architecture, images, prior)?;
                let theta = model.initial(1, 0);
                let times = measure(&mut model, theta, BATCH, effort)?;
                Ok((times, model.network().memory() as f64 / MEGABYTE))
            }
            Kind::Gru(architecture) => {
                let rolls = data::rolls(architecture.keys, SEQUENCE)?;
                let normalisation = Normalisation::default();
                let mut model =
                    SequenceModel::<f32>::new(*architecture, rolls, normalisation, prior)?;
                let theta = model.initial(1, 0);
                let times = measure(&mut model, theta, 1, effort)?;
                Ok((times, model.gru().memory() as f64 / MEGABYTE))
            }
        }
    }
}

/// Operations of dense layers: multiply-adds of forward, of the weights' gradient and, but for the
/// first layer, of the inputs' gradient.
fn dense(sizes: &[usize]) -> f64 {
    let products = sizes.windows(2).map(|pair| pair[0] * pair[1]);
    let passes = products.enumerate().map(|(i, n)| if i == 0 { 2 * n } else { 3 * n });
    2.0 * (BATCH * passes.sum::<usize>()) as f64
}

/// Operations of two 5x5 convolutions with 32 and 64 channels on maps of these sides, then dense
/// layers, of which the first has an inputs' gradient, too.
fn cnn(first: usize, second: usize, sizes: &[usize]) -> f64 {
    const PATCH: usize = 5 * 5;
    const CHANNELS: [usize; 2] = [32, 64];
    let macs = 2 * first * first * PATCH * CHANNELS[0]
        + 3 * second * second * PATCH * CHANNELS[0] * CHANNELS[1];
    2.0 * (BATCH * (macs + sizes[0] * sizes[1])) as f64 + dense(sizes)
}

/// A GRU: forward and the weights' gradient for the inputs, the states' derivatives as well for the
/// rest.
fn gru(name: &'static str, architecture: GruArchitecture) -> Model {
    const GATES: usize = 3;
    let GruArchitecture { keys, hidden } = architecture;
    let macs = 2 * keys * GATES * hidden + 3 * hidden * GATES * hidden + 3 * hidden * keys;
    Model { name, flops: 2.0 * (SEQUENCE * macs) as f64, kind: Kind::Gru(architecture) }
}

/// Measures the parts of a step with Santa, on batches of so many examples.
pub fn measure(
    model: &mut impl Potential<f32>,
    mut theta: Buffer<f32>,
    batch: usize,
    effort: Effort,
) -> Result<Times> {
    let n = model.target().data_size().get();
    let santa = Santa::new(RATE, EXPLORING);
    let mut exploring = santa.clone().init::<f32>(model.target(), 1)?;
    let refining = santa.refining_only(AlphaInRefinement::Frozen);
    let mut refining = refining.init::<f32>(model.target(), 1)?;
    let mut gradient = zeros::<f32>(theta.len());
    // Examples from all over the data, others in each step.
    let examples = |i: u64| (0..batch as u64).map(move |j| ((i * 9973 + j * 31) % n) as u32);
    let mut batches = (0u64..).map(|i| examples(i).collect::<Vec<_>>());
    let mut next = || batches.next().unwrap_or_default();

    // The first step does not count: buffers are made in it, and mistakes come to light.
    model.loss_gradient(&theta, &Batch::of(&next()), &mut gradient)?;
    exploring.step(&mut theta, &gradient)?;
    refining.step(&mut theta, &gradient)?;

    let mut failure = None;
    let forward = best(effort, || {
        let batch = next();
        let start = Instant::now();
        let loss = model.loss(&theta, &Batch::of(&batch));
        let time = start.elapsed();
        failure = failure.take().or(black_box(loss).err());
        time
    });
    let mut step = |santa: &mut Stepper<f32>, optimizer: &mut f64| {
        let batch = next();
        let start = Instant::now();
        let loss = model.loss_gradient(&theta, &Batch::of(&batch), &mut gradient);
        let gradient_done = start.elapsed();
        let moved = santa.step(&mut theta, &gradient);
        let all = start.elapsed();
        *optimizer = optimizer.min((all - gradient_done).as_secs_f64());
        failure = failure.take().or(loss.err()).or(moved.err());
        all
    };
    let mut optimizer = f64::INFINITY;
    let (before, mut steps) = (page_faults(), 0);
    let total = best(effort, || {
        steps += 1;
        step(&mut exploring, &mut optimizer)
    });
    let faults = (page_faults() - before) as f64 / f64::from(steps);
    let mut unused = f64::INFINITY;
    let refining = best(effort, || step(&mut refining, &mut unused));
    match failure {
        Some(error) => Err(error),
        None => Ok(Times { forward, optimizer, total, refining, faults, parameters: theta.len() }),
    }
}
