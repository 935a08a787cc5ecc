//! The regression models as potentials.

use super::design::{Design, Frame, Scaling, standardise};
use super::family::{Family, Sigma};
use super::lines::{Arithmetic, Rows};
use super::pass::{Data, Pass, Reference, Workspace};
use crate::error::{Error, Result};
use santa::{Batch, DataSize, Group, Layout, Potential, Prior, Real, Target};
use std::sync::Arc;

/// Name of the parameter $\log\sigma$.
pub const LOG_SIGMA: &str = "log_sigma";
/// Name of $\sigma$ among the quantities on the original scale.
pub const SIGMA: &str = "sigma";
/// Name of the segment with the coefficients of the features.
pub const COEFFICIENTS: &str = "coefficients";
const ANCHOR: &str = "regression.anchor";

/// A regression: a [`Family`] around the linear predictor $z_n = x_n^\top\theta$.
///
/// $$ U(\theta) = -\log p(\theta) + \sum_{n=1}^N \ell(z_n, y_n), \qquad
///    \nabla_\theta \frac1{|B|} \sum_{n \in B} \ell(z_n, y_n)
///    = \frac1{|B|} \sum_{n \in B} \frac{\partial\ell}{\partial z_n} x_n. $$
///
/// The parameters are the coefficients, the intercept first, and $\log\sigma$ last where the noise
/// is unknown, on the scale of the fit (see [`Scaling`]): there the prior holds.
/// [`Regression::original`] takes them to the units of the data. The segments are `intercept`,
/// `coefficients` and `log_sigma`, so that [`Group`]s can give each its own prior;
/// [`Regression::with_named_segments`] makes a segment of every coefficient.
///
/// ```
/// use santa::dynamics::Sgld;
/// use santa::noise::{Purpose, Stream};
/// use santa::{Chain, Potential, Prior, Rate, Sampling};
/// use santa_posterior::regression::{Design, Family, Regression, Scaling};
///
/// // A slope of 2 in the units of the data.
/// let mut noise = vec![0.0; 200];
/// Stream::new(1, 0, Purpose::Data).normals(0, 0, 0, &mut noise);
/// let x: Vec<f64> = (0..200).map(f64::from).collect();
/// let y: Vec<f64> = x.iter().zip(&noise).map(|(x, e)| 2.0 * x + 5.0 + 30.0 * e).collect();
/// let design = Design::new(["x"], &x, true, Scaling::Standardised)?;
/// let model = Regression::<f64>::new(design, &y, Family::linear(), Prior::gaussian(1.0))?;
/// assert_eq!(model.names(), ["intercept", "x", "sigma"]);
///
/// let mode = model.laplace()?;
/// let found = model.original(&mode.mode)?;
/// assert!((found[1] - 2.0).abs() < 0.2 && (found[2] - 30.0).abs() < 5.0);
///
/// // Near the mode, minibatches with an anchor are almost as good as all data.
/// let model = model.with_anchor(&mode.mode)?;
/// let target = Potential::<f64>::target(&model);
/// let stepper = Sgld::new(Rate::eta(1e-3)).init::<f64>(target, 42)?;
/// let mut chain = Chain::new(model, stepper, mode.mode.clone(), Sampling::WithReplacement, 20)?;
/// chain.advance(100)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # The anchor
///
/// With [`Regression::with_anchor`] a minibatch gradient is the estimate
///
/// $$ g = \nabla L(\tilde\theta) + \frac1{|B|} \sum_{n \in B}
///    \left(\frac{\partial\ell}{\partial z_n}(\theta)
///    {} - \frac{\partial\ell}{\partial z_n}(\tilde\theta)\right) x_n, $$
///
/// the same as [`santa::potential::ControlVariate`]'s, but with the derivatives at the anchor
/// $\tilde\theta$ kept for every datum: it costs one more number a row, not a second gradient. The
/// anchor stays where it is, which suits a posterior: put it at the mode. Passes over all data do not
/// need it. Clones share data and anchor.
///
/// # Arithmetic
///
/// `Regression<f64>` and `Regression<f32>` differ in how features are kept and multiplied; both are
/// potentials of chains in either precision, and sum over batches in double precision. Nothing is
/// allocated by a step, and the bits depend neither on the number of threads nor on the instruction
/// set. A residual beyond some 1e19 standard deviations may give an infinite loss.
#[derive(Clone, Debug)]
pub struct Regression<X: Arithmetic = f64> {
    target: Target,
    /// Of the coefficients that no group names.
    prior: Prior,
    data: Arc<Data<X>>,
    family: Family,
    /// Of the noise, where it is known.
    fixed_log_sigma: f64,
    features: Arc<Names>,
    /// Centre and scale of the response.
    response: (f64, f64),
    anchor: Option<Arc<Anchor<X>>>,
    work: Workspace<X>,
}

#[derive(Debug)]
struct Names {
    coefficients: Vec<String>,
    frame: Frame,
}

#[derive(Debug)]
struct Anchor<X> {
    theta: Vec<f64>,
    /// The mean gradient over all data, without sigma's prior.
    gradient: Vec<f64>,
    reference: Reference<X>,
}

impl<X: Arithmetic> Regression<X> {
    /// A regression of `response` on a design; `prior` is that of each coefficient, intercept
    /// included, unless a [group](Regression::with_group) says otherwise.
    pub fn new(design: Design, response: &[f64], family: Family, prior: Prior) -> Result<Self> {
        family.check()?;
        let n = design.rows();
        if response.len() != n {
            return Err(Error::data(format!(
                "{} responses for {n} rows of features",
                response.len()
            )));
        }
        let frame = design.frame().clone();
        let (centre, scale) = response_frame(response, &family, &frame)?;
        let fixed_log_sigma = match family.sigma() {
            Some(Sigma::Fixed { value }) => Real::ln(value / scale),
            _ => 0.0,
        };
        let data = Data {
            features: Rows::new(design.values(), design.columns()),
            columns: design.columns(),
            response: response.iter().map(|y| X::from_f64((y - centre) / scale)).collect(),
        };
        let mut segments = Vec::new();
        if frame.intercept {
            segments.push((super::INTERCEPT, vec![1]));
        }
        segments.push((COEFFICIENTS, vec![frame.features()]));
        if family.has_unknown_sigma() {
            segments.push((LOG_SIGMA, vec![1]));
        }
        let target = Target::new(Layout::new(segments)?, DataSize::new(n as u64)?, prior)?;
        let names = Names { coefficients: design.names().to_vec(), frame };
        let work = Workspace::new(&data);
        Regression {
            target,
            prior,
            data: Arc::new(data),
            family,
            fixed_log_sigma,
            features: Arc::new(names),
            response: (centre, scale),
            anchor: None,
            work,
        }
        .without_prior_of_sigma()
    }

    /// Linear regression: [`Family::linear`] and a standard normal prior.
    pub fn linear(design: Design, response: &[f64]) -> Result<Self> {
        Self::new(design, response, Family::linear(), Prior::gaussian(1.0))
    }
    /// Logistic regression of zeros and ones, with a standard normal prior.
    pub fn logistic(design: Design, response: &[f64]) -> Result<Self> {
        Self::new(design, response, Family::logistic(), Prior::gaussian(1.0))
    }
    /// Robust regression: [`Family::robust`] and a standard normal prior.
    pub fn robust(design: Design, response: &[f64]) -> Result<Self> {
        Self::new(design, response, Family::robust(), Prior::gaussian(1.0))
    }

    /// sigma has its prior in the loss.
    fn without_prior_of_sigma(mut self) -> Result<Self> {
        if self.family.has_unknown_sigma() {
            self.target = self.target.with_group(Group::new(LOG_SIGMA).prior(Prior::Flat))?;
        }
        Ok(self)
    }

    /// Adds a group of parameters, by name.
    pub fn with_group(mut self, group: Group) -> Result<Self> {
        self.target = self.target.with_group(group)?;
        self.without_prior_of_sigma()
    }

    /// Makes a segment of every coefficient, with its name, so that each can have a prior of its
    /// own. A step of the dynamics then costs more: noise is drawn for whole blocks of
    /// [`santa::BLOCK`] elements in every segment. Groups so far are forgotten.
    pub fn with_named_segments(mut self) -> Result<Self> {
        let sigma = self.family.has_unknown_sigma().then_some(LOG_SIGMA);
        let names = self.features.coefficients.iter().map(String::as_str).chain(sigma);
        let layout = Layout::new(names.map(|name| (name, vec![1])))?;
        self.target = Target::new(layout, self.target.data_size(), self.prior)?;
        self.without_prior_of_sigma()
    }

    /// Keeps the gradients at `theta`, to take the noise out of those nearby; one pass over all data.
    ///
    /// The anchor is rounded to single precision, so that checkpoints of either precision hold it
    /// exactly.
    pub fn with_anchor(mut self, theta: &[f64]) -> Result<Self> {
        self.set_anchor(theta)?;
        Ok(self)
    }

    /// The same on a potential in use.
    pub fn set_anchor(&mut self, theta: &[f64]) -> Result<()> {
        self.target.layout().check_len("theta", theta.len())?;
        let theta: Vec<f64> = theta.iter().map(|x| f64::from(*x as f32)).collect();
        if let Some(i) = theta.iter().position(|x| !x.is_finite()) {
            return Err(Error::setting(format!("anchor[{i}]"), theta[i], "it must be finite"));
        }
        let weight = 1.0 / self.data.response.len() as f64;
        let columns = self.data.columns;
        let log_sigma = self.log_sigma(&theta);
        let (pass, work) = self.pass(log_sigma, None, None, true);
        let sums = pass.run(theta.iter().copied(), work);
        let mut gradient: Vec<f64> = sums.gradient[..columns].iter().map(|g| g * weight).collect();
        if pass.family.has_unknown_sigma() {
            gradient.push(sums.scale * weight);
        }
        let reference = pass.reference(theta.iter().copied(), work);
        self.anchor = Some(Arc::new(Anchor { theta, gradient, reference }));
        Ok(())
    }

    /// The anchor, if there is one.
    pub fn anchor(&self) -> Option<&[f64]> {
        self.anchor.as_ref().map(|anchor| &anchor.theta[..])
    }
    /// The target: N, priors, the names of the segments.
    pub fn target(&self) -> &Target {
        &self.target
    }
    /// The family.
    pub fn family(&self) -> &Family {
        &self.family
    }
    /// The scale of the fit.
    pub fn scaling(&self) -> Scaling {
        self.features.frame.scaling
    }
    /// Names of the parameters on the original scale: the coefficients, and `sigma` where it is
    /// unknown.
    pub fn names(&self) -> Vec<String> {
        let sigma = self.family.has_unknown_sigma().then(|| SIGMA.to_string());
        self.features.coefficients.iter().cloned().chain(sigma).collect()
    }

    /// A draw in the units of the data: coefficients, and sigma instead of its logarithm.
    pub fn original(&self, theta: &[f64]) -> Result<Vec<f64>> {
        self.target.layout().check_len("theta", theta.len())?;
        let mut out = vec![0.0; theta.len()];
        let columns = self.data.columns;
        self.features.frame.original(&theta[..columns], self.response, &mut out[..columns]);
        if self.family.has_unknown_sigma() {
            out[columns] = self.response.1 * Real::exp(theta[columns]);
        }
        Ok(out)
    }

    /// The parameters of a draw that is in the units of the data: the inverse of
    /// [`Regression::original`], up to rounding.
    pub fn fitted(&self, original: &[f64]) -> Result<Vec<f64>> {
        self.target.layout().check_len("the draw", original.len())?;
        let mut theta = vec![0.0; original.len()];
        let columns = self.data.columns;
        self.features.frame.fitted(&original[..columns], self.response, &mut theta[..columns]);
        if self.family.has_unknown_sigma() {
            theta[columns] = Real::ln(original[columns] / self.response.1);
        }
        Ok(theta)
    }

    /// The linear predictor of a row of original features, in the units of the response (log odds
    /// for a [`Family::Bernoulli`]).
    pub fn predictor(&self, theta: &[f64], features: &[f64]) -> Result<f64> {
        self.target.layout().check_len("theta", theta.len())?;
        let frame = &self.features.frame;
        if features.len() != frame.features() {
            return Err(Error::data(format!(
                "{} features where the design has {}",
                features.len(),
                frame.features()
            )));
        }
        let mut row = vec![0.0; self.data.columns];
        frame.standardise(features, &mut row);
        let z: f64 = row.iter().zip(theta).map(|(x, b)| x * b).sum();
        Ok(self.response.0 + self.response.1 * z)
    }

    pub(super) fn data(&self) -> &Data<X> {
        &self.data
    }
    pub(super) fn log_sigma<F: Real>(&self, theta: &[F]) -> f64 {
        if self.family.has_unknown_sigma() {
            theta[self.data.columns].to_f64()
        } else {
            self.fixed_log_sigma
        }
    }

    /// Linear predictors of all data on the scale of the fit.
    pub(super) fn predictors(&mut self, theta: &[f64]) -> Vec<f64> {
        let (pass, work) = self.pass(0.0, None, None, false);
        pass.predictors(theta.iter().copied(), work)
    }

    fn pass<'a>(
        &'a mut self,
        log_sigma: f64,
        rows: Option<&'a [u32]>,
        reference: Option<&'a Reference<X>>,
        gradient: bool,
    ) -> (Pass<'a, X>, &'a mut Workspace<X>) {
        let Regression { data, family, work, .. } = self;
        (Pass { data, family, log_sigma, rows, reference, gradient }, work)
    }

    /// sigma's prior and the change of variables, a datum's share of them: value and slope.
    fn sigma_share(&self, log_sigma: f64) -> (f64, f64) {
        let n = self.data.response.len() as f64;
        let [energy, slope, _] = self.family.sigma().map_or([0.0; 3], |s| s.energy(log_sigma));
        (energy / n, slope / n)
    }
}

/// Centre and scale of the response; refuses what the family cannot have.
fn response_frame(response: &[f64], family: &Family, frame: &Frame) -> Result<(f64, f64)> {
    let wrong =
        |fits: &dyn Fn(f64) -> bool, must: &str| match response.iter().position(|y| !fits(*y)) {
            None => Ok(()),
            Some(i) => Err(Error::data(format!(
                "the response is {} in row {}; it must be {must}",
                response[i],
                i + 1
            ))),
        };
    if let Family::Bernoulli = family {
        wrong(&|y| y == 0.0 || y == 1.0, "0 or 1")?;
        return Ok((0.0, 1.0));
    }
    wrong(&f64::is_finite, "finite")?;
    if frame.scaling == Scaling::Original {
        return Ok((0.0, 1.0));
    }
    standardise(response, 1, frame.intercept)[0].ok_or_else(|| {
        Error::data("the response is constant: there is nothing to explain, nor a scale to use")
    })
}

impl<X: Arithmetic, F: Real> Potential<F> for Regression<X> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn loss_gradient(
        &mut self,
        theta: &[F],
        batch: &Batch<'_>,
        gradient: &mut [F],
    ) -> santa::Result<f64> {
        self.target.layout().check_len("theta", theta.len())?;
        self.target.layout().check_len("the gradient", gradient.len())?;
        batch.check(self.target.data_size())?;
        let log_sigma = self.log_sigma(theta);
        let (prior, prior_slope) = self.sigma_share(log_sigma);
        let weight = 1.0 / batch.len(self.data.response.len()) as f64;
        let columns = self.data.columns;
        // Over all data there is no noise to take out.
        let anchor = self.anchor.clone().filter(|_| batch.indices().is_some());
        let reference = anchor.as_deref().map(|anchor| &anchor.reference);
        let (pass, work) = self.pass(log_sigma, batch.indices(), reference, true);
        let sums = pass.run(theta.iter().map(|x| x.to_f64()), work);
        let loss = sums.loss * weight + prior;
        let at_anchor = |i: usize| anchor.as_deref().map_or(0.0, |anchor| anchor.gradient[i]);
        let (coefficients, sigma) = gradient.split_at_mut(columns);
        for (i, (g, sum)) in coefficients.iter_mut().zip(&sums.gradient).enumerate() {
            *g = F::from_f64(sum * weight + at_anchor(i));
        }
        if let [g] = sigma {
            *g = F::from_f64(sums.scale * weight + at_anchor(columns) + prior_slope);
        }
        Ok(loss)
    }

    fn loss(&mut self, theta: &[F], batch: &Batch<'_>) -> santa::Result<f64> {
        self.target.layout().check_len("theta", theta.len())?;
        batch.check(self.target.data_size())?;
        let log_sigma = self.log_sigma(theta);
        let (prior, _) = self.sigma_share(log_sigma);
        let weight = 1.0 / batch.len(self.data.response.len()) as f64;
        let (pass, work) = self.pass(log_sigma, batch.indices(), None, false);
        Ok(pass.run(theta.iter().map(|x| x.to_f64()), work).loss * weight + prior)
    }

    fn state(&self) -> Vec<(&'static str, Vec<F>)> {
        let anchor = self
            .anchor
            .as_ref()
            .map(|anchor| (ANCHOR, anchor.theta.iter().map(|x| F::from_f64(*x)).collect()));
        anchor.into_iter().collect()
    }

    fn restore(&mut self, state: &[(String, Vec<F>)]) -> santa::Result<()> {
        match state {
            [] => self.anchor = None,
            [(name, theta)] if name == ANCHOR => {
                self.target.layout().check_len(ANCHOR, theta.len())?;
                let theta: Vec<f64> = theta.iter().map(|x| x.to_f64()).collect();
                self.set_anchor(&theta).map_err(|error| santa::Error::Checkpoint {
                    path: None,
                    reason: error.to_string(),
                })?;
            }
            _ => {
                let names: Vec<_> = state.iter().map(|(name, _)| name.as_str()).collect();
                return Err(santa::Error::Mismatch {
                    field: "potential's state".into(),
                    saved: names.join(", "),
                    present: format!("`{ANCHOR}` or none"),
                });
            }
        }
        Ok(())
    }
}
