//! Bayes by Backprop: a classifier with a Gaussian for every weight.

use super::average::Average;
use super::model::{ImageModel, Model};
use super::{grouped, misfit};
use crate::args::Part;
use crate::experiment::{self, Experiment};
use crate::failure::Result;
use crate::run::record::{Calibration, Score};
use santa::average::Pooling;
use santa::{Batch, Potential, Target};
use santa_nn::{Scalar, Variational};

/// A classifier whose weights are drawn, and its data. The means stand for the parameters wherever one
/// prediction is wanted; into an average goes that of a draw.
pub struct VariationalModel<F: Scalar> {
    model: Variational<F, ImageModel<F>>,
    settings: experiment::Variational,
    /// Of the draws for averages.
    seed: u64,
}

impl<F: Scalar> VariationalModel<F> {
    /// The model of an experiment with a section `variational`, around its classifier.
    pub fn new(experiment: &Experiment, classifier: ImageModel<F>) -> santa::Result<Self> {
        let settings = experiment.variational.ok_or_else(misfit)?;
        let model = Variational::new(classifier, settings.prior, settings.kl_weight)?;
        let target = grouped(model.target(), &experiment.groups)?;
        let model = model.with_target(target)?;
        // What no chain can begin with is refused here, whatever its means.
        let means = vec![F::ZERO; model.target().dim() / 2];
        model.initial(&means, settings.rho)?;
        Ok(VariationalModel { model, settings, seed: experiment.seed })
    }
}

impl<F: Scalar> Potential<F> for VariationalModel<F> {
    fn target(&self) -> &Target {
        self.model.target()
    }
    fn loss_gradient(
        &mut self,
        theta: &[F],
        batch: &Batch<'_>,
        gradient: &mut [F],
    ) -> santa::Result<f64> {
        self.model.loss_gradient(theta, batch, gradient)
    }
    fn loss(&mut self, theta: &[F], batch: &Batch<'_>) -> santa::Result<f64> {
        self.model.loss(theta, batch)
    }
    fn energy(&mut self, theta: &[F]) -> santa::Result<f64> {
        self.model.energy(theta)
    }
    fn state(&self) -> Vec<(&'static str, Vec<F>)> {
        self.model.state()
    }
    fn restore(&mut self, state: &[(String, Vec<F>)]) -> santa::Result<()> {
        self.model.restore(state)
    }
}

impl<F: Scalar> Model<F> for VariationalModel<F> {
    /// Around those of the classifier.
    fn initial(&self, seed: u64, chain: u32) -> Result<Vec<F>> {
        let mu = self.model.inner().initial(seed, chain)?;
        Ok(self.model.initial(&mu, self.settings.rho)?.to_vec())
    }
    fn has(&self, part: Part) -> bool {
        self.model.inner().has(part)
    }
    fn score(&mut self, theta: &[F], part: Part) -> Result<Score> {
        let mean = self.model.mean(theta);
        self.model.inner_mut().score(mean, part)
    }
    fn ignorance(&self) -> f64 {
        self.model.inner().ignorance()
    }
    fn average(&self, part: Part) -> Result<Average> {
        self.model.inner().average(part)
    }
    fn add(&mut self, theta: &[F], part: Part, average: &mut Average) -> Result<()> {
        let mean = self.model.mean(theta);
        self.model.inner_mut().add(mean, part, average)
    }
    fn add_kept(
        &mut self,
        theta: &[F],
        step: u64,
        part: Part,
        average: &mut Average,
    ) -> Result<()> {
        let weights = self.model.draw(theta, self.seed, 0, step)?.to_vec();
        self.model.inner_mut().add(&weights, part, average)
    }
    fn labels(&self, part: Part) -> Result<Option<Vec<usize>>> {
        self.model.inner().labels(part)
    }
    fn score_average(&self, average: &Average, part: Part, pooling: Pooling) -> Result<Score> {
        self.model.inner().score_average(average, part, pooling)
    }
    fn calibration(&self, average: &Average, part: Part, pooling: Pooling) -> Option<Calibration> {
        self.model.inner().calibration(average, part, pooling)
    }
}

#[cfg(test)]
mod tests {
    use super::super::classifier;
    use super::*;
    use crate::data::PIXELS;
    use crate::experiment::Draft;
    use santa_nn::Examples;

    /// A model of one example, its initial parameters, and those of its classifier.
    fn model(rho: f64) -> (VariationalModel<f64>, Vec<f64>, Vec<f64>) {
        let text = format!(
            "name = \"one\"\nepochs = 1\noptimizer = \"sgd\"\nvariational.rho = {rho}\n\
             data.set = \"mnist-subset\"\nmodel = {{ kind = \"dense\", hidden = [3] }}"
        );
        let experiment = Draft::parse("one", &text).unwrap().resolve().unwrap();
        let example = || Examples::from_bytes(vec![255; PIXELS], PIXELS, vec![0]).unwrap();
        let classifier = classifier(&experiment, example()).unwrap();
        let model = ImageModel::new(classifier, (None, example()));
        let mu = model.initial(experiment.seed, 0).unwrap();
        let model = VariationalModel::new(&experiment, model).unwrap();
        let theta = model.initial(experiment.seed, 0).unwrap();
        (model, theta, mu)
    }

    fn nll(model: &VariationalModel<f64>, average: &Average) -> f64 {
        let pooling = Pooling::default();
        model.score_average(average, Part::Test, pooling).unwrap().nll
    }

    #[test]
    fn an_average_takes_in_a_draw_that_is_a_function_of_the_step() {
        let (mut model, theta, _) = model(-3.0);
        let mut kept = |step| {
            let mut average = model.average(Part::Test).unwrap();
            model.add_kept(&theta, step, Part::Test, &mut average).unwrap();
            nll(&model, &average)
        };
        let first = kept(1);
        assert_ne!(first, kept(2));
        assert_eq!(first, kept(1));
    }

    #[test]
    fn a_prediction_alone_is_that_of_the_means() {
        let (mut model, theta, mu) = model(-3.0);
        let of_means = model.model.inner_mut().score(&mu, Part::Test).unwrap();
        assert_eq!(model.score(&theta, Part::Test).unwrap(), of_means);
        let mut average = model.average(Part::Test).unwrap();
        model.add(&theta, Part::Test, &mut average).unwrap();
        assert!((nll(&model, &average) - of_means.nll).abs() < 1e-12);
    }
}
