//! Bayes by Backprop: a Gaussian for every weight (Blundell et al., 2015).
//!
//! The weights of any potential are drawn anew for every minibatch,
//!
//! $$ w = \mu + s \epsilon, \qquad s = \log(1 + e^\rho), \qquad \epsilon \sim N(0, I), $$
//!
//! and $\mu$ and $\rho$ are trained on the mean loss of the minibatch plus their share of the
//! divergence from the prior,
//!
//! $$ L = \ell(w) + \frac{\kappa}{N} \left(\log q(w) - \log p(w)\right), \qquad
//! p(w) = \prod_i \pi N(w_i; 0, \sigma_1^2) + (1 - \pi) N(w_i; 0, \sigma_2^2). $$
//!
//! Derivatives go through the draw. With $f = \partial \ell / \partial w
//! {} - (\kappa / N) \partial \log p / \partial w$ and $s' = 1 / (1 + e^{-\rho})$,
//!
//! $$ \frac{\partial L}{\partial \mu} = f, \qquad
//! \frac{\partial L}{\partial \rho} = \left(f \epsilon - \frac{\kappa}{N s}\right) s'. $$

use crate::kernels::{Buffer, Scalar, sigmoid, softplus, vectorised, zeros};
use crate::parallel;
use crate::target::check_replacement;
use santa::noise::{MAX_STEPS, Purpose, Stream};
use santa::{Batch, Error, Layout, Potential, Prior, Result, Target};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Elements that a thread works on at a time.
const CHUNK: usize = 1 << 14;

/// Sums that are taken side by side, for the compiler to vectorise.
const SUMS: usize = 64;

/// A mixture of a wide and a narrow Gaussian, around zero, for every weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleMixture {
    /// Share of the first one, between 0 and 1.
    pub pi: f64,
    /// Standard deviation of the first one.
    pub sigma1: f64,
    /// Standard deviation of the second one.
    pub sigma2: f64,
}

impl Default for ScaleMixture {
    /// A middle one of those that Blundell et al. tried: 1/2, 1, e^-6.
    fn default() -> Self {
        ScaleMixture { pi: 0.5, sigma1: 1.0, sigma2: (-6.0f64).exp() }
    }
}

/// How much of the divergence a minibatch bears: kappa above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KlWeight {
    /// Each the same: 1.
    #[default]
    Uniform,
    /// The first minibatches of an epoch more than the last: minibatch i of M bears
    /// $M 2^{M-i} / (2^M - 1)$.
    Geometric {
        /// M: minibatches of an epoch.
        batches: u64,
    },
    /// Always this much: below 1 for a colder posterior.
    Constant(f64),
}

/// Any potential with a Gaussian for each of its weights. Its own parameters are all the `.mu`, then
/// all the `.rho`.
///
/// ```
/// use santa::{Batch, Potential, Prior};
/// use santa_nn::{Architecture, Classifier, Examples, KlWeight, ScaleMixture, Variational};
///
/// let data = Examples::from_bytes([0, 0, 0, 1, 1, 0, 1, 1], 2, [0, 1, 1, 0])?;
/// let network = Classifier::<f32>::new(&Architecture::dense(&[2, 8, 2]), data, Prior::Flat)?;
/// let mu = network.initial(42, 0);
/// let mut model = Variational::new(network, ScaleMixture::default(), KlWeight::Uniform)?;
/// let theta = model.initial(&mu, -3.0)?;
/// let mut gradient = vec![0.0; theta.len()];
/// let loss = model.loss_gradient(&theta, &Batch::full().at_step(1), &mut gradient)?;
/// assert!(loss.is_finite());
/// assert_eq!(model.mean(&theta), &mu[..]);
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Debug)]
pub struct Variational<F: Scalar, P> {
    inner: P,
    target: Target,
    prior: ScaleMixture,
    weight: KlWeight,
    epsilon: Buffer<F>,
    weights: Buffer<F>,
    /// By the weights.
    gradient: Buffer<F>,
}

impl<F: Scalar, P: Potential<F>> Variational<F, P> {
    /// Puts a Gaussian on each weight of a potential. The potential's own prior must be flat: the
    /// mixture takes its place.
    pub fn new(inner: P, prior: ScaleMixture, weight: KlWeight) -> Result<Self> {
        let ScaleMixture { pi, sigma1, sigma2 } = prior;
        if !(0.0..=1.0).contains(&pi) {
            return refuse("pi", pi, "it must be within 0 and 1");
        }
        for (field, sigma) in [("sigma1", sigma1), ("sigma2", sigma2)] {
            if !(sigma > 0.0 && sigma.is_finite() && F::from_f64(sigma.powi(-2)).is_finite()) {
                return refuse(
                    field,
                    sigma,
                    "it must be positive, with a finite square and inverse",
                );
            }
        }
        match weight {
            KlWeight::Constant(kappa) if !(kappa >= 0.0 && kappa.is_finite()) => {
                return refuse(
                    "kl_weight.constant",
                    kappa,
                    "it must be zero or positive, and finite",
                );
            }
            KlWeight::Geometric { batches: 0 } => {
                let allowed = "an epoch has at least one minibatch";
                return refuse("kl_weight.batches", 0.0, allowed);
            }
            _ => (),
        }
        refuse_prior("the potential", inner.target())?;
        let layout = inner.target().layout();
        let named = |part: &'static str| {
            let segments = layout.segments().iter();
            segments.map(move |s| (format!("{}.{part}", s.name()), s.shape().to_vec()))
        };
        let both = Layout::new(named("mu").chain(named("rho")))?;
        let dim = layout.dim();
        let target = Target::new(both, inner.target().data_size(), Prior::Flat)?;
        let [epsilon, weights, gradient] = [zeros(dim), zeros(dim), zeros(dim)];
        Ok(Variational { inner, target, prior, weight, epsilon, weights, gradient })
    }

    /// The same model with other groups or learning rates, of `.mu` and `.rho`, on a target of the
    /// same layout and size. Its priors must be flat.
    pub fn with_target(mut self, target: Target) -> Result<Self> {
        check_replacement(&self.target, &target)?;
        refuse_prior("the target", &target)?;
        self.target = target;
        Ok(self)
    }

    /// The potential whose weights are drawn.
    pub fn inner(&self) -> &P {
        &self.inner
    }
    /// The potential, to evaluate [`Variational::mean`] or [`Variational::draw`] with.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// Parameters around `mu`, with the same `rho` for all: standard deviation log(1 + e^rho).
    pub fn initial(&self, mu: &[F], rho: f64) -> Result<Buffer<F>> {
        self.inner.target().layout().check_len("mu", mu.len())?;
        if !F::from_f64(rho).is_finite() {
            return refuse("rho", rho, "it must be finite");
        }
        let mut theta = zeros(2 * mu.len());
        let (means, rhos) = theta.split_at_mut(mu.len());
        means.copy_from_slice(mu);
        rhos.fill(F::from_f64(rho));
        Ok(theta)
    }

    /// The means, as weights of the inner potential.
    pub fn mean<'t>(&self, theta: &'t [F]) -> &'t [F] {
        &theta[..theta.len() / 2]
    }

    /// Weights drawn from the Gaussians: a function of seed, chain and number, and none of the draws
    /// that training made.
    pub fn draw(&mut self, theta: &[F], seed: u64, chain: u32, number: u64) -> Result<&[F]> {
        self.target.layout().check_len("theta", theta.len())?;
        // The upper half of the steps is for prediction; no run gets there.
        let number = MAX_STEPS / 2 + number % (MAX_STEPS / 2);
        self.draw_weights(theta, Stream::new(seed, chain, Purpose::Variational), number);
        Ok(&self.weights)
    }

    fn draw_weights(&mut self, theta: &[F], stream: Stream, step: u64) {
        let layout = self.inner.target().layout();
        let mut rest = &mut self.epsilon[..];
        let mut jobs = Vec::new();
        for (segment, chunk) in chunks(layout) {
            let (front, after) = rest.split_at_mut(chunk.len());
            rest = after;
            let first = chunk.start - layout.segments()[segment].range().start;
            jobs.push((segment, first, front));
        }
        parallel::for_each(&mut jobs, |(segment, first, epsilon)| {
            stream.normals(step, *segment as u32, *first, epsilon);
        });
        self.weights_from_draw(theta);
    }

    /// w from mu, rho and epsilon.
    fn weights_from_draw(&mut self, theta: &[F]) {
        let (mu, rho) = theta.split_at(self.weights.len());
        let epsilon = &self.epsilon;
        let mut jobs: Vec<_> = self.weights.chunks_mut(CHUNK).enumerate().collect();
        parallel::for_each(&mut jobs, |(i, weights)| {
            let chunk = *i * CHUNK..*i * CHUNK + weights.len();
            let (mu, rho, epsilon) = (&mu[chunk.clone()], &rho[chunk.clone()], &epsilon[chunk]);
            vectorised(
                #[inline(always)]
                || draw(mu, rho, epsilon, weights),
            );
        });
    }

    fn kappa(&self, step: u64) -> f64 {
        match self.weight {
            KlWeight::Uniform => 1.0,
            KlWeight::Constant(kappa) => kappa,
            KlWeight::Geometric { batches } => {
                let i = (step.max(1) - 1) % batches + 1;
                let m = batches as f64;
                // 2^(M-i) / (2^M - 1), without overflow.
                m * (-(i as f64)).exp2() / (1.0 - (-m).exp2())
            }
        }
    }

    /// log q(w) - log p(w), times `scale`; with derivatives, where `gradient` has those by mu and rho.
    fn divergence(&mut self, theta: &[F], scale: f64, gradient: Option<&mut [F]>) -> f64 {
        let dim = self.weights.len();
        let rho = &theta[dim..];
        let layout = self.inner.target().layout();
        let density = Density::new(self.prior);
        let (w, epsilon, inner) = (&self.weights[..], &self.epsilon[..], &self.gradient[..]);
        let mut halves = gradient.map(|gradient| gradient.split_at_mut(dim));
        let mut jobs = Vec::new();
        for (_, chunk) in chunks(layout) {
            let parts = halves.take().map(|(d_mu, d_rho)| {
                let (front_mu, rest_mu) = d_mu.split_at_mut(chunk.len());
                let (front_rho, rest_rho) = d_rho.split_at_mut(chunk.len());
                halves = Some((rest_mu, rest_rho));
                (front_mu, front_rho)
            });
            jobs.push((chunk, parts, 0.0));
        }
        parallel::for_each(&mut jobs, |(chunk, parts, sum)| {
            let drawn = Drawn {
                rho: &rho[chunk.clone()],
                epsilon: &epsilon[chunk.clone()],
                w: &w[chunk.clone()],
            };
            let inner = &inner[chunk.clone()];
            let scale = F::from_f64(scale);
            *sum = vectorised(
                #[inline(always)]
                || {
                    if let Some((d_mu, d_rho)) = parts {
                        drawn.slopes(&density, scale, inner, d_mu, d_rho);
                    }
                    drawn.divergence(&density)
                },
            );
        });
        let constant = -0.5 * (2.0 * std::f64::consts::PI).ln() * dim as f64;
        scale * (jobs.iter().map(|job| job.2).sum::<f64>() + constant)
    }
}

impl<F: Scalar, P: Potential<F>> Potential<F> for Variational<F, P> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn loss_gradient(&mut self, theta: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        self.target.layout().check_len("theta", theta.len())?;
        self.target.layout().check_len("the gradient", gradient.len())?;
        self.draw_weights(theta, batch.stream(Purpose::Variational), batch.step());
        let loss = self.inner.loss_gradient(&self.weights, batch, &mut self.gradient)?;
        let scale = self.kappa(batch.step()) / self.target.data_size().as_f64();
        Ok(loss + self.divergence(theta, scale, Some(gradient)))
    }

    fn loss(&mut self, theta: &[F], batch: &Batch<'_>) -> Result<f64> {
        self.target.layout().check_len("theta", theta.len())?;
        self.draw_weights(theta, batch.stream(Purpose::Variational), batch.step());
        let loss = self.inner.loss(&self.weights, batch)?;
        let scale = self.kappa(batch.step()) / self.target.data_size().as_f64();
        Ok(loss + self.divergence(theta, scale, None))
    }

    fn state(&self) -> Vec<(&'static str, Vec<F>)> {
        self.inner.state()
    }

    fn restore(&mut self, state: &[(String, Vec<F>)]) -> Result<()> {
        self.inner.restore(state)
    }
}

fn refuse<T>(field: &str, value: f64, allowed: &str) -> Result<T> {
    let (field, allowed) = (field.into(), allowed.into());
    Err(Error::Setting { field, value: value.to_string(), allowed })
}

fn refuse_prior(whose: &str, target: &Target) -> Result<()> {
    let segments = target.layout().segments().len();
    if (0..segments).all(|i| target.settings(i).prior == Prior::Flat) {
        return Ok(());
    }
    Err(Error::Structure(format!(
        "{whose} has a prior of its own, and the mixture would come on top of it: build it with \
         `Prior::Flat`"
    )))
}

/// Pieces of the parameters with the index of their segment: fixed, whatever the threads.
fn chunks(layout: &Layout) -> impl Iterator<Item = (usize, Range<usize>)> {
    layout.segments().iter().enumerate().flat_map(|(i, segment)| {
        let Range { start, end } = segment.range();
        (start..end).step_by(CHUNK).map(move |from| (i, from..end.min(from + CHUNK)))
    })
}

/// $w = \mu + s \epsilon$, by lines.
#[inline(always)]
fn draw<F: Scalar>(mu: &[F], rho: &[F], epsilon: &[F], w: &mut [F]) {
    let (mu, mu_rest) = mu.as_chunks::<SUMS>();
    let (rho, rho_rest) = rho.as_chunks::<SUMS>();
    let (epsilon, epsilon_rest) = epsilon.as_chunks::<SUMS>();
    let (lines, rest) = w.as_chunks_mut::<SUMS>();
    for (((w, mu), rho), epsilon) in lines.iter_mut().zip(mu).zip(rho).zip(epsilon) {
        for j in 0..SUMS {
            w[j] = softplus(rho[j]).fma(epsilon[j], mu[j]);
        }
    }
    for (j, w) in rest.iter_mut().enumerate() {
        *w = softplus(rho_rest[j]).fma(epsilon_rest[j], mu_rest[j]);
    }
}

/// Some weights, and what they were drawn with.
struct Drawn<'a, F> {
    rho: &'a [F],
    epsilon: &'a [F],
    w: &'a [F],
}

/// By lines of [`SUMS`] elements, in arrays that the compiler knows to be whole and apart: loops over slices
/// would not be vectorised.
impl<F: Scalar> Drawn<'_, F> {
    /// The sum of log q - log p, without the normals' constants.
    #[inline(always)]
    fn divergence(&self, density: &Density<F>) -> f64 {
        let mut sums = [0.0; SUMS];
        let (rho, rho_rest) = self.rho.as_chunks::<SUMS>();
        let (epsilon, epsilon_rest) = self.epsilon.as_chunks::<SUMS>();
        let (w, w_rest) = self.w.as_chunks::<SUMS>();
        for ((rho, epsilon), w) in rho.iter().zip(epsilon).zip(w) {
            let mut terms = [F::ZERO; SUMS];
            for j in 0..SUMS {
                terms[j] = divergence(density, rho[j], epsilon[j], w[j]);
            }
            for j in 0..SUMS {
                sums[j] += terms[j].to_f64();
            }
        }
        for (j, sum) in (0..w_rest.len()).zip(&mut sums) {
            *sum += divergence(density, rho_rest[j], epsilon_rest[j], w_rest[j]).to_f64();
        }
        sums.iter().sum()
    }

    /// The derivatives by mu and rho, from those of the loss by the weights.
    #[inline(always)]
    fn slopes(&self, density: &Density<F>, scale: F, inner: &[F], d_mu: &mut [F], d_rho: &mut [F]) {
        let (rho, rho_rest) = self.rho.as_chunks::<SUMS>();
        let (epsilon, epsilon_rest) = self.epsilon.as_chunks::<SUMS>();
        let (w, w_rest) = self.w.as_chunks::<SUMS>();
        let (inner, inner_rest) = inner.as_chunks::<SUMS>();
        let (mu_lines, d_mu_rest) = d_mu.as_chunks_mut::<SUMS>();
        let (rho_lines, d_rho_rest) = d_rho.as_chunks_mut::<SUMS>();
        for (i, (d_mu, d_rho)) in mu_lines.iter_mut().zip(rho_lines).enumerate() {
            let (rho, epsilon, w, inner) = (&rho[i], &epsilon[i], &w[i], &inner[i]);
            for j in 0..SUMS {
                d_mu[j] = scale.fma(-density.slope(w[j]), inner[j]);
            }
            for j in 0..SUMS {
                d_rho[j] = slope_by_rho(d_mu[j], scale, rho[j], epsilon[j]);
            }
        }
        for (i, (d_mu, d_rho)) in d_mu_rest.iter_mut().zip(d_rho_rest).enumerate() {
            *d_mu = scale.fma(-density.slope(w_rest[i]), inner_rest[i]);
            *d_rho = slope_by_rho(*d_mu, scale, rho_rest[i], epsilon_rest[i]);
        }
    }
}

#[inline(always)]
fn divergence<F: Scalar>(density: &Density<F>, rho: F, epsilon: F, w: F) -> F {
    let log_q = -softplus(rho).ln() - F::HALF * epsilon * epsilon;
    log_q - density.log(w)
}

/// From the derivative by mu.
#[inline(always)]
fn slope_by_rho<F: Scalar>(by_mu: F, scale: F, rho: F, epsilon: F) -> F {
    (by_mu * epsilon - scale / softplus(rho)) * sigmoid(rho)
}

/// The log density of the scale mixture at a weight, and its derivative.
#[derive(Clone, Copy)]
struct Density<F> {
    /// log of a share over its standard deviation, without the normal's constant.
    log: [F; 2],
    /// Inverse variances.
    precision: [F; 2],
    constant: F,
}

impl<F: Scalar> Density<F> {
    fn new(prior: ScaleMixture) -> Self {
        // A share of 0 becomes a log density that no weight can make up for.
        const NEVER: f64 = -1e30;
        let log = |share: f64, sigma: f64| {
            F::from_f64(if share > 0.0 { (share / sigma).ln() } else { NEVER })
        };
        Density {
            log: [log(prior.pi, prior.sigma1), log(1.0 - prior.pi, prior.sigma2)],
            precision: [prior.sigma1, prior.sigma2].map(|sigma| F::from_f64(sigma.powi(-2))),
            constant: F::from_f64(-0.5 * (2.0 * std::f64::consts::PI).ln()),
        }
    }

    #[inline(always)]
    fn parts(&self, w: F) -> [F; 2] {
        let square = -F::HALF * w * w;
        [square.fma(self.precision[0], self.log[0]), square.fma(self.precision[1], self.log[1])]
    }

    #[inline(always)]
    fn log(&self, w: F) -> F {
        let [a, b] = self.parts(w);
        let larger = if a > b { a } else { b };
        self.constant + larger + softplus(-(a - b).abs())
    }

    #[inline(always)]
    fn slope(&self, w: F) -> F {
        let [a, b] = self.parts(w);
        let first = sigmoid(a - b);
        -w * first.fma(self.precision[0] - self.precision[1], self.precision[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture, Classifier, Examples};
    use santa::Group;
    use serde_json::Value;

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    }

    fn table() -> Value {
        serde_json::from_str(include_str!("../tests/golden/models.json")).unwrap()
    }

    fn prior_of(case: &Value) -> ScaleMixture {
        serde_json::from_value(case["prior"].clone()).unwrap()
    }

    #[test]
    fn losses_and_gradients_agree_with_pytorch() {
        const TOLERANCE: f64 = 1e-11;
        let table = table();
        for case in table["bayes"].as_array().unwrap() {
            let name = &case["name"];
            let labels: Vec<u8> = numbers(&case["labels"]).iter().map(|x| *x as u8).collect();
            let inputs = numbers(&case["inputs"]);
            let width = inputs.len() / labels.len();
            let data = Examples::from_f64(inputs, width, labels).unwrap();
            let architecture: Architecture =
                serde_json::from_value(case["architecture"].clone()).unwrap();
            let network = Classifier::<f64>::new(&architecture, data, Prior::Flat).unwrap();
            let mut model = Variational::new(network, prior_of(case), KlWeight::Uniform).unwrap();
            let theta = [numbers(&case["mu"]), numbers(&case["rho"])].concat();
            model.epsilon.copy_from_slice(&numbers(&case["eps"]));
            model.weights_from_draw(&theta);
            let nll = model
                .inner
                .loss_gradient(&model.weights, &Batch::full(), &mut model.gradient)
                .unwrap();
            let scale = case["weight"].as_f64().unwrap() / case["n_data"].as_f64().unwrap();
            let mut gradient = vec![f64::NAN; theta.len()];
            let loss = nll + model.divergence(&theta, scale, Some(&mut gradient));
            let expected = case["loss"].as_f64().unwrap();
            assert!((loss - expected).abs() < TOLERANCE * (1.0 + expected.abs()), "{name}");
            let expected = [numbers(&case["gradient_mu"]), numbers(&case["gradient_rho"])].concat();
            for (found, expected) in gradient.iter().zip(expected) {
                let allowed = TOLERANCE * (1.0 + expected.abs());
                assert!((found - expected).abs() < allowed, "{name}: {found} {expected}");
            }
        }
    }

    #[test]
    fn the_mixture_s_density_agrees_with_pytorch_far_out() {
        let table = table();
        for case in table["mixture"].as_array().unwrap() {
            let density = Density::<f64>::new(prior_of(case));
            let (log, slope) = (numbers(&case["log_p"]), numbers(&case["gradient"]));
            for ((w, log), slope) in numbers(&case["w"]).iter().zip(log).zip(slope) {
                assert!((density.log(*w) - log).abs() < 1e-12 * (1.0 + log.abs()), "{w}");
                assert!((density.slope(*w) - slope).abs() < 1e-12 * (1.0 + slope.abs()), "{w}");
            }
        }
    }

    #[test]
    fn a_share_of_zero_or_one_is_a_single_gaussian() {
        for (pi, sigma) in [(1.0, 0.5), (0.0, 2.0)] {
            let prior = ScaleMixture { pi, sigma1: 0.5, sigma2: 2.0 };
            let density = Density::<f64>::new(prior);
            let w = 1.3f64;
            let log =
                -0.5 * (w / sigma).powi(2) - f64::ln(sigma * (2.0 * std::f64::consts::PI).sqrt());
            assert!((density.log(w) - log).abs() < 1e-12);
            assert!((density.slope(w) + w / sigma.powi(2)).abs() < 1e-12);
        }
    }

    /// The smallest one.
    fn network() -> Classifier<f32> {
        let data = Examples::from_bytes([1, 2], 1, [0, 1]).unwrap();
        Classifier::new(&Architecture::dense(&[1, 2]), data, Prior::Flat).unwrap()
    }

    #[test]
    fn groups_are_of_mu_and_rho_and_bring_no_prior() {
        let model = || Variational::new(network(), ScaleMixture::default(), KlWeight::Uniform);
        let target = model().unwrap().target().clone();
        let frozen = target.clone().with_group(Group::new("*.rho").frozen()).unwrap();
        let model_of = |target| model().unwrap().with_target(target);
        assert_eq!(model_of(frozen.clone()).unwrap().target(), &frozen);
        let prior = target.with_group(Group::new("*.mu").prior(Prior::gaussian(1.0))).unwrap();
        assert!(model_of(prior).unwrap_err().to_string().contains("Prior::Flat"));
        let inner = network().target().clone();
        assert!(model_of(inner).unwrap_err().to_string().contains("another layout"));
    }

    #[test]
    fn a_rho_that_is_not_finite_is_refused() {
        let model = Variational::new(network(), ScaleMixture::default(), KlWeight::Uniform);
        let model = model.unwrap();
        let mu = network().initial(1, 0);
        // The last one is beyond single precision.
        for rho in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
            let message = model.initial(&mu, rho).unwrap_err().to_string();
            assert!(message.contains("rho"), "{message}");
        }
    }

    #[test]
    fn impossible_settings_are_refused_by_name() {
        let good = ScaleMixture::default();
        for (prior, weight, word) in [
            (ScaleMixture { pi: 1.5, ..good }, KlWeight::Uniform, "pi"),
            (ScaleMixture { sigma1: 0.0, ..good }, KlWeight::Uniform, "sigma1"),
            (ScaleMixture { sigma2: f64::NAN, ..good }, KlWeight::Uniform, "sigma2"),
            (ScaleMixture { sigma2: 1e-20, ..good }, KlWeight::Uniform, "sigma2"),
            (good, KlWeight::Constant(-1.0), "kl_weight.constant"),
            (good, KlWeight::Geometric { batches: 0 }, "kl_weight.batches"),
        ] {
            let message = Variational::new(network(), prior, weight).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
        let data = Examples::from_bytes([1, 2], 1, [0, 1]).unwrap();
        let with_prior =
            Classifier::<f32>::new(&Architecture::dense(&[1, 2]), data, Prior::gaussian(1.0));
        let message = Variational::new(with_prior.unwrap(), good, KlWeight::Uniform);
        assert!(message.unwrap_err().to_string().contains("Prior::Flat"));
    }
}
