//! A GRU and its training data: a potential.

use super::architecture::{GruArchitecture, GruInitialisation};
use super::gru::{Gru, Nll, Normalisation};
use super::rolls::PianoRolls;
use crate::kernels::{Buffer, Scalar};
use crate::target::check_replacement;
use santa::{Batch, DataSize, Potential, Prior, Result, Target};

/// The negative log-likelihood of sequences under a GRU, through minibatches of whole sequences.
///
/// A datum is a sequence: N is their number, and a [`Batch`] lists sequences. With
/// [`Normalisation::SequenceSum`] the potential is that of the posterior; with the authors'
/// [`Normalisation::SequenceMean`] each sequence's likelihood is taken to the power of one over its
/// length.
///
/// ```
/// use santa::{Batch, Potential, Prior};
/// use santa_nn::{GruArchitecture, Normalisation, PianoRolls, SequenceModel};
///
/// // Two keys in turn.
/// let rolls = PianoRolls::new(2, [1, 0, 0, 1].repeat(8), vec![0, 16])?;
/// let architecture = GruArchitecture { keys: 2, hidden: 8 };
/// let mean = Normalisation::SequenceMean;
/// let mut model = SequenceModel::<f32>::new(architecture, rolls, mean, Prior::Flat)?;
///
/// let mut theta = model.initial(42, 0);
/// let mut adam = santa::dynamics::Adam::new(0.05).init::<f32>(model.target(), 42)?;
/// let mut gradient = vec![0.0; theta.len()];
/// for _ in 0..200 {
///     model.loss_gradient(&theta, &Batch::full(), &mut gradient)?;
///     adam.step(&mut theta, &gradient)?;
/// }
/// let training = model.rolls().clone();
/// assert!(model.nll(&theta, &training)?.per_step() < 0.1);
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Debug)]
pub struct SequenceModel<F: Scalar> {
    gru: Gru<F>,
    rolls: PianoRolls,
    normalisation: Normalisation,
    initialisation: GruInitialisation,
    target: Target,
}

impl<F: Scalar> SequenceModel<F> {
    /// A network on training data, under a prior.
    pub fn new(
        architecture: GruArchitecture,
        rolls: PianoRolls,
        normalisation: Normalisation,
        prior: Prior,
    ) -> Result<Self> {
        let gru = Gru::new(architecture)?;
        gru.check_rolls(&rolls)?;
        let n = DataSize::new(rolls.len() as u64)?;
        let target = Target::new(gru.layout().clone(), n, prior)?;
        let initialisation = GruInitialisation::default();
        Ok(SequenceModel { gru, rolls, normalisation, initialisation, target })
    }

    /// The same model with other groups, priors or learning rates on a target of the same layout and
    /// size.
    pub fn with_target(mut self, target: Target) -> Result<Self> {
        check_replacement(&self.target, &target)?;
        self.target = target;
        Ok(self)
    }

    /// The same model with other initial values than the authors'. What cannot be drawn is refused.
    pub fn with_initialisation(mut self, initialisation: GruInitialisation) -> Result<Self> {
        self.gru.architecture().initial::<F>(initialisation, 0, 0)?;
        self.initialisation = initialisation;
        Ok(self)
    }

    /// The network.
    pub fn gru(&self) -> &Gru<F> {
        &self.gru
    }
    /// The training data.
    pub fn rolls(&self) -> &PianoRolls {
        &self.rolls
    }
    /// What the loss is the mean of.
    pub fn normalisation(&self) -> Normalisation {
        self.normalisation
    }
    /// Initial parameters, as the authors have them or as [`SequenceModel::with_initialisation`] says.
    pub fn initial(&self, seed: u64, chain: u32) -> Buffer<F> {
        let initial = self.gru.architecture().initial(self.initialisation, seed, chain);
        initial.expect("they were drawn when the model was built")
    }

    /// The negative log-likelihood of other sequences.
    pub fn nll(&mut self, theta: &[F], rolls: &PianoRolls) -> Result<Nll> {
        self.gru.nll(theta, rolls)
    }
    /// The probability of each key to be down at each step of other sequences, given the steps before:
    /// [`Gru::probabilities`].
    pub fn probabilities(&mut self, theta: &[F], rolls: &PianoRolls) -> Result<Vec<F>> {
        self.gru.probabilities(theta, rolls)
    }
}

impl<F: Scalar> Potential<F> for SequenceModel<F> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn loss_gradient(&mut self, theta: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        self.gru.loss_gradient(theta, &self.rolls, batch, self.normalisation, gradient)
    }

    fn loss(&mut self, theta: &[F], batch: &Batch<'_>) -> Result<f64> {
        self.gru.loss(theta, &self.rolls, batch, self.normalisation)
    }

    fn weight(&self, batch: &Batch<'_>) -> f64 {
        let sequences = batch.iter(self.rolls.len());
        match self.normalisation {
            Normalisation::StepMean => {
                sequences.map(|i| self.rolls.steps_of(i)).sum::<usize>() as f64
            }
            Normalisation::SequenceMean | Normalisation::SequenceSum => sequences.count() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::{Group, Layout};

    fn model(keys: usize) -> Result<SequenceModel<f64>> {
        let rolls = PianoRolls::new(2, vec![1, 0, 0, 1, 1, 1], vec![0, 1, 3])?;
        let sum = Normalisation::SequenceSum;
        SequenceModel::new(GruArchitecture { keys, hidden: 3 }, rolls, sum, Prior::gaussian(1.0))
    }

    #[test]
    fn the_energy_of_a_sum_is_that_of_the_posterior() {
        let mut model = model(2).unwrap();
        let theta = model.initial(1, 0);
        let rolls = model.rolls().clone();
        let prior = 0.5 * theta.iter().map(|x| x * x).sum::<f64>();
        let expected = model.nll(&theta, &rolls).unwrap().sum + prior;
        assert!((model.energy(&theta).unwrap() - expected).abs() < 1e-13 * expected);
        assert_eq!(model.target().data_size().get(), 2);
    }

    #[test]
    fn data_and_targets_that_do_not_fit_are_refused() {
        assert!(model(3).unwrap_err().to_string().contains("2 keys, the network 3"));
        let model = model(2).unwrap();
        let group = Group { frozen: Some(true), ..Group::new("gru.initial") };
        let target = model.target().clone().with_group(group).unwrap();
        let model = model.with_target(target).unwrap();
        let n = model.target().data_size();
        let other = Target::new(Layout::flat(5).unwrap(), n, Prior::Flat).unwrap();
        assert!(model.with_target(other).unwrap_err().to_string().contains("layout"));
    }
}
