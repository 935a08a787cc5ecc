//! A network and its training data: a potential.

use crate::architecture::Architecture;
use crate::examples::{Examples, Selection};
use crate::kernels::{Buffer, Scalar};
use crate::layers::Pass;
use crate::loss;
use crate::network::Network;
use crate::smoothness::{Fields, Smoothness};
use crate::target::check_replacement;
use santa::noise::Purpose;
use santa::{Batch, DataSize, Potential, Prior, Result, Target};

/// The negative log-likelihood of a data set under a classifying network, through minibatches.
///
/// ```
/// use santa::{Batch, Potential, Prior};
/// use santa_nn::{Architecture, Classifier, Examples};
///
/// // The exclusive or.
/// let data = Examples::from_bytes([0, 0, 0, 1, 1, 0, 1, 1], 2, [0, 1, 1, 0])?;
/// let mut model = Classifier::<f32>::new(&Architecture::dense(&[2, 8, 2]), data, Prior::Flat)?;
///
/// let mut theta = model.initial(42, 0);
/// let mut adam = santa::dynamics::Adam::new(0.05).init::<f32>(model.target(), 42)?;
/// let mut gradient = vec![0.0; theta.len()];
/// for _ in 0..300 {
///     model.loss_gradient(&theta, &Batch::full(), &mut gradient)?;
///     adam.step(&mut theta, &gradient)?;
/// }
/// let training = model.examples().clone();
/// assert_eq!(model.evaluate(&theta, &training)?.error, 0.0);
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Debug)]
pub struct Classifier<F: Scalar> {
    network: Network<F>,
    examples: Examples,
    target: Target,
    fields: Fields,
}

/// How well a network predicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Mean of $-\log p(y \mid x)$.
    pub nll: f64,
    /// Share of examples whose likeliest class is a wrong one.
    pub error: f64,
}

impl<F: Scalar> Classifier<F> {
    /// A network on training data, under a prior.
    pub fn new(architecture: &Architecture, examples: Examples, prior: Prior) -> Result<Self> {
        let network = Network::new(architecture)?;
        examples.check(network.input_len(), network.classes())?;
        let n = DataSize::new(examples.len() as u64)?;
        let target = Target::new(network.layout().clone(), n, prior)?;
        Ok(Classifier { network, examples, target, fields: Fields::default() })
    }

    /// The same model with other groups, priors or learning rates on a target of the same layout and
    /// size.
    pub fn with_target(mut self, target: Target) -> Result<Self> {
        check_replacement(&self.target, &target)?;
        self.target = target;
        Ok(self)
    }

    /// The same model with weights on grids that are alike where they are neighbours, besides the
    /// target's prior: $-\log p$ of the field, divided by N, is part of the loss from then on.
    ///
    /// $$ -\log p(W) = \frac{\kappa}{2} \sum_{p \sim q} \Vert W_p - W_q \Vert^2 $$
    ///
    /// for the weights $W_p$ of each place p of a convolution's kernel, or of the image that a fully
    /// connected layer sees, and $\kappa$ the precision; the sum is over pairs of neighbours.
    pub fn with_smoothness(mut self, smoothness: &[Smoothness]) -> Result<Self> {
        self.fields = Fields::new(&self.network, smoothness)?;
        Ok(self)
    }

    /// The network.
    pub fn network(&self) -> &Network<F> {
        &self.network
    }
    /// The training data.
    pub fn examples(&self) -> &Examples {
        &self.examples
    }
    /// Initial parameters; see [`Network::initial`].
    pub fn initial(&self, seed: u64, chain: u32) -> Buffer<F> {
        self.network.initial(seed, chain)
    }

    /// Likelihood and error on other data, without dropout.
    pub fn evaluate(&mut self, theta: &[F], examples: &Examples) -> Result<Evaluation> {
        self.network.evaluate(theta, examples)
    }

    /// Log probabilities of the classes of each example, one row each, for
    /// [`PredictionAverage`](santa::average::PredictionAverage).
    pub fn log_probabilities(&mut self, theta: &[F], examples: &Examples) -> Result<Vec<F>> {
        self.network.log_probabilities(theta, examples)
    }
}

fn pass_of(batch: &Batch<'_>) -> Pass {
    let stream = batch.stream(Purpose::Dropout);
    Pass { training: true, stream, step: batch.step(), first: batch.first() }
}

impl<F: Scalar> Network<F> {
    /// The mean loss over some of the examples, and its gradient: for data that do not stay in memory,
    /// such as images that are read as training goes on. With dropout, by the batch's seed and step.
    pub fn loss_gradient(
        &mut self,
        theta: &[F],
        examples: &Examples,
        batch: &Batch<'_>,
        gradient: &mut [F],
    ) -> Result<f64> {
        self.layout().check_len("theta", theta.len())?;
        self.layout().check_len("the gradient", gradient.len())?;
        examples.check(self.input_len(), self.classes())?;
        batch.check(DataSize::new(examples.len() as u64)?)?;
        let selection = Selection { examples, indices: batch.indices() };
        Ok(self.gradient_of(theta, &selection, pass_of(batch), gradient))
    }

    /// Likelihood and error on a data set, without dropout.
    pub fn evaluate(&mut self, theta: &[F], examples: &Examples) -> Result<Evaluation> {
        let classes = self.classes();
        self.layout().check_len("theta", theta.len())?;
        examples.check(self.input_len(), classes)?;
        let all = Selection { examples, indices: None };
        let shards = self.predict(theta, &all, |first, logits| {
            let rows = logits.len() / classes;
            let labels = (first..first + rows).map(|i| examples.label(i));
            let mut losses = vec![0.0; rows];
            let wrong = loss::evaluate(logits, labels, classes, &mut losses);
            (losses.iter().sum::<f64>(), wrong)
        });
        let n = examples.len() as f64;
        Ok(Evaluation {
            nll: shards.iter().map(|shard| shard.0).sum::<f64>() / n,
            error: shards.iter().map(|shard| shard.1).sum::<usize>() as f64 / n,
        })
    }

    /// Log probabilities of the classes of each example, one row each, without dropout.
    pub fn log_probabilities(&mut self, theta: &[F], examples: &Examples) -> Result<Vec<F>> {
        let classes = self.classes();
        self.layout().check_len("theta", theta.len())?;
        examples.check(self.input_len(), classes)?;
        let all = Selection { examples, indices: None };
        let shards = self.predict(theta, &all, |_, logits| {
            loss::log_softmax(logits, classes);
            logits.to_vec()
        });
        Ok(shards.concat())
    }
}

impl<F: Scalar> Potential<F> for Classifier<F> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn loss_gradient(&mut self, theta: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        self.target.layout().check_len("theta", theta.len())?;
        self.target.layout().check_len("the gradient", gradient.len())?;
        batch.check(self.target.data_size())?;
        let selection = Selection { examples: &self.examples, indices: batch.indices() };
        let loss = self.network.gradient_of(theta, &selection, pass_of(batch), gradient);
        let n = self.target.data_size().as_f64();
        self.fields.add_gradient(theta, n, 0, gradient);
        Ok(loss + self.fields.energy(theta) / n)
    }

    fn loss_gradient_pieces<'g>(
        &mut self,
        theta: &[F],
        batch: &Batch<'_>,
        gradient: &'g mut [F],
        ready: &mut dyn FnMut(usize, &'g mut [F]),
    ) -> Result<f64> {
        self.target.layout().check_len("theta", theta.len())?;
        self.target.layout().check_len("the gradient", gradient.len())?;
        batch.check(self.target.data_size())?;
        let selection = Selection { examples: &self.examples, indices: batch.indices() };
        let (fields, n) = (&self.fields, self.target.data_size().as_f64());
        let mut ready = |first: usize, piece: &'g mut [F]| {
            fields.add_gradient(theta, n, first, piece);
            ready(first, piece);
        };
        let pass = pass_of(batch);
        let loss = self.network.gradient_in_pieces(theta, &selection, pass, gradient, &mut ready);
        Ok(loss + self.fields.energy(theta) / n)
    }

    /// With the dropout masks of the batch's step, as [`Potential::loss_gradient`] has them.
    fn loss(&mut self, theta: &[F], batch: &Batch<'_>) -> Result<f64> {
        self.target.layout().check_len("theta", theta.len())?;
        batch.check(self.target.data_size())?;
        let selection = Selection { examples: &self.examples, indices: batch.indices() };
        let loss = self.network.training_loss(theta, &selection, pass_of(batch));
        Ok(loss + self.fields.energy(theta) / self.target.data_size().as_f64())
    }
}
