//! The configurational temperature: what law the parameters themselves follow.
//!
//! For any fixed point c, under the density proportional to $e^{-\beta U(\theta)}$ on
//! $\mathbb{R}^d$,
//!
//! $$ \mathbb{E}\left[ (\theta - c)^\top \nabla U(\theta) \right] = \frac{d}{\beta}. $$
//!
//! It is an integration by parts, one coordinate at a time:
//!
//! $$ \int (\theta_i - c_i)\  \partial_i U\  e^{-\beta U} d\theta_i
//!    = -\frac1\beta \int (\theta_i - c_i)\  \partial_i e^{-\beta U} d\theta_i
//!    = \frac1\beta \int e^{-\beta U} d\theta_i. $$
//!
//! Two conditions: $(\theta_i - c_i)\  e^{-\beta U}$ vanishes at infinity, so that the boundary term
//! does, and U is absolutely continuous along each coordinate. Kinks are no harm: a Laplace prior and
//! rectifiers satisfy it. A direction in which the posterior is flat for ever does not, nor does a
//! potential that jumps.
//!
//! Thermostats hide mistakes: they hold the momenta at the right temperature although the parameters
//! follow another law. The kinetic temperature is then right and the configurational one is not. The
//! reverse does not hold: this is one number of the law, and a wrong law may have it right.
//!
//! # Minibatches
//!
//! The reading is linear in the gradient, so an unbiased gradient leaves it unbiased, however noisy:
//! given theta, the mean over batches drawn independently of theta is the gradient itself. That is
//! exactly so for draws with replacement. Within a shuffled epoch the batch is one that theta has not
//! met yet, and the dependence is of the order of the step size.

use crate::dynamics::engine::{Chunk, chunks};
use crate::dynamics::{Buffer, zeros};
use crate::error::{Error, Result};
use crate::health::first_not_finite;
use crate::real::Real;
use crate::reduce::{LANES, each_chunk};
use crate::target::Target;
use serde::Serialize;
use std::ops::Range;

/// Measures the configurational temperature of a run; see the [module](self) for what that is.
///
/// The centre c may be any point that does not move with the run. Near the mean of theta the readings
/// scatter least: hand the parameters of the warm-up to [`Thermometer::warm_up`].
///
/// ```
/// use santa::dynamics::Msgnht;
/// use santa::{StepSize, Target, Thermometer};
///
/// // Many independent normals of variance 1, at temperature 1.
/// let target = Target::density(1000)?;
/// let mut stepper = Msgnht::new(StepSize::paper(0.01, 1.0)).init::<f64>(&target, 42)?;
/// let mut theta = vec![0.0; 1000];
/// let mut thermometer = Thermometer::new(&target, &theta)?;
/// for t in 0..2000 {
///     let gradient = theta.clone();
///     if t >= 500 && t % 10 == 0 {
///         thermometer.observe(&theta, &gradient)?; // before the step: they belong together
///     }
///     stepper.step(&mut theta, &gradient)?;
/// }
/// let reading = thermometer.temperature();
/// assert!((reading.temperature - 1.0).abs() < 0.1);
/// # Ok::<(), santa::Error>(())
/// ```
///
/// Frozen segments are left out. An observation allocates nothing, and gives the same bits for any
/// number of threads.
#[derive(Clone, Debug)]
pub struct Thermometer<F: Real> {
    target: Target,
    centre: Buffer<F>,
    /// Parameters that the centre is the mean of, since [`Thermometer::warm_up`] began.
    warm_ups: u64,
    chunks: Vec<Chunk>,
    /// The chunks of each moving segment, with its number.
    segments: Vec<(usize, Range<usize>)>,
    scratch: Vec<f64>,
    readings: Vec<BatchMeans>,
    overall: BatchMeans,
    arch: pulp::Arch,
}

/// A temperature with its uncertainty.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Reading {
    /// The segment's name, `overall` for all.
    pub name: String,
    /// Moving parameters.
    pub dim: usize,
    /// Observations.
    pub observations: u64,
    /// Mean of $(\theta - c)^\top \nabla U / d$; NaN without observations.
    pub temperature: f64,
    /// Standard error of that mean by batch means: from the scatter of the means of 32 to 64 batches
    /// of consecutive observations. It accounts for correlations that are shorter than a batch; with
    /// fewer than 64 observations a batch is a single one, and it is too small for correlated ones.
    /// `None` below two observations.
    pub standard_error: Option<f64>,
}

impl Reading {
    /// How many standard errors the reading lies above the temperature $1/\beta$; `None` without a
    /// standard error.
    pub fn score(&self, beta: f64) -> Option<f64> {
        self.standard_error.map(|error| (self.temperature - 1.0 / beta) / error)
    }
}

impl<F: Real> Thermometer<F> {
    /// A thermometer for the parameters of a target, around a centre.
    pub fn new(target: &Target, centre: &[F]) -> Result<Self> {
        let chunks = chunks(target);
        let segments: Vec<_> = (0..target.layout().segments().len())
            .map(|i| {
                let first = chunks.partition_point(|c| (c.segment as usize) < i);
                (i, first..chunks.partition_point(|c| c.segment as usize <= i))
            })
            .filter(|(_, mine)| !mine.is_empty())
            .collect();
        let mut thermometer = Thermometer {
            target: target.clone(),
            centre: zeros(target.dim()),
            warm_ups: 0,
            scratch: vec![0.0; chunks.len()],
            chunks,
            readings: vec![BatchMeans::default(); segments.len()],
            segments,
            overall: BatchMeans::default(),
            arch: pulp::Arch::new(),
        };
        thermometer.reset(centre)?;
        Ok(thermometer)
    }

    /// Forgets all readings and measures around another centre from now on.
    pub fn reset(&mut self, centre: &[F]) -> Result<()> {
        self.target.layout().check_len("the centre", centre.len())?;
        if let Some((segment, index, value)) =
            first_not_finite(&self.target, |range, i| centre[range][i].to_f64())
        {
            let field = format!("centre of segment `{segment}`, element {index}");
            return Err(Error::setting(field, value, "it must be finite"));
        }
        self.centre.copy_from_slice(centre);
        self.warm_ups = 0;
        self.forget();
        Ok(())
    }

    /// Moves the centre to the mean of all parameters handed to this function since the thermometer
    /// was made or reset, and forgets the readings, which belong to another centre.
    ///
    /// For the warm-up of a run, every so many steps; then go on with [`Thermometer::observe`] alone,
    /// so that the centre stays where it is. How exactly the mean is met does not matter.
    pub fn warm_up(&mut self, theta: &[F]) -> Result<()> {
        self.target.layout().check_len("theta", theta.len())?;
        self.warm_ups += 1;
        let weight = F::from_f64(1.0 / self.warm_ups as f64);
        for (c, x) in self.centre.iter_mut().zip(theta) {
            // The first one replaces the centre, whatever that was.
            *c = if self.warm_ups == 1 { *x } else { *c + weight * (*x - *c) };
        }
        self.forget();
        Ok(())
    }

    fn forget(&mut self) {
        self.readings.iter_mut().for_each(BatchMeans::clear);
        self.overall.clear();
    }

    /// Takes in a theta and the mean gradient *at this theta*, as they go into
    /// [`Stepper::step`](crate::Stepper::step): over a minibatch, without the prior. N and the prior
    /// come from the target.
    ///
    /// Call it before the step. Afterwards theta has moved on from where the gradient was taken, and
    /// the reading is off by the order of the step size.
    ///
    /// Numbers that are not finite are refused, and leave the readings as they were.
    pub fn observe(&mut self, theta: &[F], mean_gradient: &[F]) -> Result<()> {
        self.target.layout().check_len("theta", theta.len())?;
        self.target.layout().check_len("the gradient", mean_gradient.len())?;
        let Thermometer { target, centre, chunks, scratch, arch, .. } = self;
        let n = target.data_size();
        each_chunk(chunks, scratch, |chunk| {
            let here = chunk.range.clone();
            let (ridge, lasso) = target.settings(chunk.segment as usize).prior.mean_gradient(n);
            arch.dispatch(Virial {
                theta: &theta[here.clone()],
                centre: &centre[here.clone()],
                gradient: &mean_gradient[here],
                ridge,
                lasso,
            })
        });
        let total: f64 = self.scratch.iter().sum();
        if !total.is_finite() {
            return Err(self.refusal(theta, mean_gradient));
        }
        if self.segments.is_empty() {
            return Ok(()); // all is frozen
        }
        let (mut sum, mut dim) = (0.0, 0);
        for ((segment, mine), readings) in self.segments.iter().zip(&mut self.readings) {
            let here: f64 = self.scratch[mine.clone()].iter().sum();
            let len = self.target.layout().segments()[*segment].range().len();
            readings.push(n.as_f64() * here / len as f64);
            sum += here;
            dim += len;
        }
        self.overall.push(n.as_f64() * sum / dim as f64);
        Ok(())
    }

    /// Names what is not finite.
    fn refusal(&self, theta: &[F], gradient: &[F]) -> Error {
        for (what, vector) in
            [("theta", theta), ("the gradient", gradient), ("the centre", &self.centre)]
        {
            let found = first_not_finite(&self.target, |range, i| vector[range][i].to_f64());
            if let Some((segment, index, value)) = found {
                return Error::Structure(format!(
                    "an observation in which {what} is {value} in segment `{segment}`, element \
                     {index}; leave such observations out, or find out why the run diverges"
                ));
            }
        }
        Error::Structure(
            "an observation that overflows although all its numbers are finite; \
             find out why the run diverges"
                .into(),
        )
    }

    /// The temperature over all moving parameters.
    pub fn temperature(&self) -> Reading {
        let dim = self.segments.iter().map(|(i, _)| self.len(*i)).sum();
        self.overall.reading("overall", dim)
    }

    /// The temperature of each moving segment, in the layout's order.
    pub fn segments(&self) -> Vec<Reading> {
        let names = self.target.layout().segments();
        let both = self.segments.iter().zip(&self.readings);
        both.map(|((i, _), means)| means.reading(names[*i].name(), self.len(*i))).collect()
    }

    fn len(&self, segment: usize) -> usize {
        self.target.layout().segments()[segment].range().len()
    }

    /// The centre.
    pub fn centre(&self) -> &[F] {
        &self.centre
    }
    /// Observations since the centre was last set.
    pub fn observations(&self) -> u64 {
        self.overall.observations
    }
}

/// $\sum_i (\theta_i - c_i)(\bar f_i + \mathrm{ridge}\ \theta_i + \mathrm{lasso}\ \mathrm{sign}\ \theta_i)$
struct Virial<'a, F> {
    theta: &'a [F],
    centre: &'a [F],
    gradient: &'a [F],
    ridge: f64,
    lasso: f64,
}

impl<F: Real> pulp::WithSimd for Virial<'_, F> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> f64 {
        let Virial { ridge, lasso, .. } = self;
        let term = |x: F, c: F, f: F| {
            let wide = x.to_f64();
            (wide - c.to_f64()) * (f.to_f64() + ridge * wide + lasso * x.sign().to_f64())
        };
        let (theta, theta_rest) = self.theta.as_chunks::<LANES>();
        let (centre, centre_rest) = self.centre.as_chunks::<LANES>();
        let (gradient, gradient_rest) = self.gradient.as_chunks::<LANES>();
        let mut sums = [0.0f64; LANES];
        for ((x, c), f) in theta.iter().zip(centre).zip(gradient) {
            for l in 0..LANES {
                sums[l] += term(x[l], c[l], f[l]);
            }
        }
        let rest = theta_rest.iter().zip(centre_rest).zip(gradient_rest);
        sums.iter().sum::<f64>() + rest.map(|((x, c), f)| term(*x, *c, *f)).sum::<f64>()
    }
}

/// Batches that are kept; when there are as many, neighbours are merged.
const MOST_BATCHES: usize = 64;

/// Mean of a stream of unknown length, and its standard error by batch means.
#[derive(Clone, Copy, Debug)]
struct BatchMeans {
    observations: u64,
    sum: f64,
    /// Sums of complete batches of `size` observations each.
    batches: [f64; MOST_BATCHES],
    complete: usize,
    size: u64,
    /// The batch being filled.
    current: f64,
    filled: u64,
}

impl Default for BatchMeans {
    fn default() -> Self {
        BatchMeans {
            observations: 0,
            sum: 0.0,
            batches: [0.0; MOST_BATCHES],
            complete: 0,
            size: 1,
            current: 0.0,
            filled: 0,
        }
    }
}

impl BatchMeans {
    fn clear(&mut self) {
        *self = BatchMeans::default();
    }

    fn push(&mut self, x: f64) {
        self.observations += 1;
        self.sum += x;
        self.current += x;
        self.filled += 1;
        if self.filled < self.size {
            return;
        }
        if self.complete == MOST_BATCHES {
            for i in 0..MOST_BATCHES / 2 {
                self.batches[i] = self.batches[2 * i] + self.batches[2 * i + 1];
            }
            self.complete = MOST_BATCHES / 2;
            self.size *= 2;
            return; // the current batch is now half full
        }
        self.batches[self.complete] = self.current;
        self.complete += 1;
        (self.current, self.filled) = (0.0, 0);
    }

    fn mean(&self) -> f64 {
        self.sum / self.observations as f64
    }

    fn standard_error(&self) -> Option<f64> {
        if self.complete < 2 {
            return None;
        }
        let batches = &self.batches[..self.complete];
        let moments: crate::stats::Moments = batches.iter().map(|s| s / self.size as f64).collect();
        // The batch being filled counts in the mean, not yet in the scatter.
        let per_observation = moments.variance() * self.size as f64;
        Some((per_observation / self.observations as f64).sqrt())
    }

    fn reading(&self, name: &str, dim: usize) -> Reading {
        Reading {
            name: name.into(),
            dim,
            observations: self.observations,
            temperature: self.mean(),
            standard_error: self.standard_error(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Purpose, Stream};
    use crate::stats::Moments;
    use crate::{DataSize, Group, Layout, Prior};

    fn close(x: f64, y: f64) -> bool {
        (x - y).abs() < 1e-12 * (1.0 + y.abs())
    }

    #[test]
    fn readings_are_what_the_formula_says() {
        let layout = [("ridge", vec![2]), ("frozen", vec![2]), ("lasso", vec![1])];
        let n = DataSize::new(10).unwrap();
        let target = Target::new(Layout::new(layout).unwrap(), n, Prior::gaussian(3.0))
            .unwrap()
            .with_group(Group::new("frozen").frozen())
            .unwrap()
            .with_group(Group::new("lasso").prior(Prior::laplace(0.5)))
            .unwrap();
        let centre = [1.0, 0.0, 5.0, 5.0, 1.0];
        let mut thermometer = Thermometer::new(&target, &centre).unwrap();
        assert!(thermometer.temperature().temperature.is_nan());
        let theta = [2.0, -1.0, 7.0, f64::NAN, -3.0];
        let gradient = [0.5, 0.25, 7.0, f64::NAN, 0.125];
        thermometer.observe(&theta, &gradient).unwrap();
        // N f + theta * precision, and N f + sign(theta) / scale.
        let first = 1.0 * (5.0 + 6.0) - 1.0 * (2.5 - 3.0);
        let last = -4.0 * (1.25 - 2.0);
        let readings = thermometer.segments();
        assert_eq!((readings[0].name.as_str(), readings[1].name.as_str()), ("ridge", "lasso"));
        assert!(close(readings[0].temperature, first / 2.0), "{readings:?}");
        assert!(close(readings[1].temperature, last), "{readings:?}");
        let overall = thermometer.temperature();
        assert!(close(overall.temperature, (first + last) / 3.0));
        assert_eq!((overall.dim, overall.observations, overall.standard_error), (3, 1, None));

        // The gradient is the one that the dynamics use.
        let mut full = gradient;
        target.full_gradient(&theta, &mut full);
        let direct = (theta[0] - 1.0) * full[0] + theta[1] * full[1];
        assert!(close(readings[0].temperature, direct / 2.0));
    }

    #[test]
    fn what_is_not_finite_is_refused_and_leaves_no_trace() {
        let target = Target::density(3).unwrap();
        let mut thermometer = Thermometer::new(&target, &[0.0f32; 3]).unwrap();
        thermometer.observe(&[1.0; 3], &[2.0; 3]).unwrap();
        let before = thermometer.temperature();
        let message =
            thermometer.observe(&[1.0; 3], &[0.0, f32::NAN, 0.0]).unwrap_err().to_string();
        assert!(
            message.contains("the gradient is NaN") && message.contains("element 1"),
            "{message}"
        );
        assert!(thermometer.observe(&[1.0; 2], &[0.0; 3]).is_err());
        assert_eq!(thermometer.temperature(), before);
        assert!(Thermometer::new(&target, &[0.0f32; 2]).is_err());
        assert!(Thermometer::new(&target, &[f32::INFINITY; 3]).is_err());
    }

    #[test]
    fn a_warm_up_moves_the_centre_to_its_mean_and_forgets() {
        let target = Target::density(2).unwrap();
        let mut thermometer = Thermometer::new(&target, &[9.0f64, 9.0]).unwrap();
        thermometer.observe(&[1.0, 1.0], &[1.0, 1.0]).unwrap();
        for theta in [[1.0, 0.0], [2.0, 3.0], [6.0, 3.0]] {
            thermometer.warm_up(&theta).unwrap();
        }
        assert_eq!(thermometer.observations(), 0);
        assert!(close(thermometer.centre()[0], 3.0) && close(thermometer.centre()[1], 2.0));
        thermometer.reset(&[0.0, 0.0]).unwrap();
        thermometer.warm_up(&[5.0, 5.0]).unwrap();
        assert_eq!(thermometer.centre(), [5.0, 5.0]);
    }

    #[test]
    fn a_target_that_is_frozen_altogether_has_no_temperature() {
        let target = Target::density(2).unwrap().with_group(Group::new("*").frozen()).unwrap();
        let mut thermometer = Thermometer::new(&target, &[0.0f64; 2]).unwrap();
        thermometer.observe(&[1.0; 2], &[1.0; 2]).unwrap();
        let reading = thermometer.temperature();
        assert!(reading.temperature.is_nan() && reading.dim == 0);
        assert!(thermometer.segments().is_empty());
    }

    /// An autoregressive series of coefficient a has a mean whose variance is larger than that of
    /// independent numbers by (1 + a) / (1 - a).
    #[test]
    fn batch_means_see_correlations() {
        const LEN: usize = 64_000;
        const A: f64 = 0.9;
        let mut z = vec![0.0f64; LEN];
        Stream::new(5, 0, Purpose::Data).normals(0, 0, 0, &mut z);
        let (mut means, mut naive, mut x) = (BatchMeans::default(), Moments::default(), 0.0);
        for z in z {
            x = A * x + (1.0 - A * A).sqrt() * z;
            means.push(x);
            naive.push(x);
        }
        assert!(means.complete > MOST_BATCHES / 2 && means.complete <= MOST_BATCHES);
        assert!(close(means.mean(), naive.mean()));
        let right = ((1.0 + A) / (1.0 - A) / LEN as f64).sqrt();
        // An estimate from 32 batches or more has a relative error of 1 / sqrt(2 * 31) = 0.13.
        let ratio = means.standard_error().unwrap() / right;
        assert!((0.5..1.5).contains(&ratio), "{ratio}");
        // Negative control: independent numbers are not what these are.
        assert!(naive.standard_error() / right < 0.5);
    }

    #[test]
    fn every_observation_counts_once_whatever_their_number() {
        for len in [1, 2, 63, 64, 65, 128, 129, 1000] {
            let mut means = BatchMeans::default();
            (0..len).for_each(|i| means.push(f64::from(i)));
            assert!(close(means.mean(), f64::from(len - 1) / 2.0), "{len}");
            let batched: f64 = means.batches[..means.complete].iter().sum();
            assert!(close(batched + means.current, f64::from(len * (len - 1) / 2)), "{len}");
            assert_eq!(means.complete as u64 * means.size + means.filled, len as u64);
        }
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        const DIM: usize = 500_001;
        let target = Target::density(DIM).unwrap();
        let mut theta = vec![0.0f32; DIM];
        Stream::new(1, 0, Purpose::Data).normals(0, 0, 0, &mut theta);
        let measure = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut thermometer = Thermometer::new(&target, &vec![0.5; DIM]).unwrap();
            pool.install(|| thermometer.observe(&theta, &theta).unwrap());
            thermometer.temperature().temperature.to_bits()
        };
        assert_eq!(measure(1), measure(2));
        assert_eq!(measure(1), measure(5));
    }
}
