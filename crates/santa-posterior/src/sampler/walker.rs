//! One chain at work.

use super::curvature::largest_frequency;
use super::noise::GradientNoise;
use super::scales::Scales;
use super::tuning::Figures;
use super::whitened::Whitened;
use super::{MAX_CHAINS, Sampler};
use crate::error::{Error, Result};
use santa::dynamics::{
    Algorithm, Diffusion, Exploration, InitialMomentum, Metric, ThermostatMass, ThermostatReads,
};
use santa::{
    Batch, Chain, DataSize, InverseTemperature, Minibatches, Potential, Real, Sampling, Santa,
    StepSize, Stepper,
};

/// With more parameters than this the temperature is read at draws only, not at every step.
const READ_EVERY_STEP_UP_TO: usize = 4096;
/// Spread of the frictions that the thermostats find, relative to C.
const FRICTION_SPREAD: f64 = 0.1;

/// A chain that reads its own configurational temperature as it goes.
pub struct Walker<F: Real, P: Potential<F>> {
    chain: Chain<F, Whitened<P, F>>,
    /// The parameters before the last step, where its gradient was taken.
    before: Vec<F>,
    /// u before the last step, for dynamics whose draws are the ends of steps: there, theta is held at
    /// the middle of the next one, $u/2$ further on.
    u_before: Option<Vec<F>>,
    /// That gradient with the prior.
    slope: Vec<F>,
    /// The fixed point about which the temperature is read.
    reference: Vec<F>,
    /// The first reading of it.
    first: Option<f64>,
    /// Parameters that move.
    moving: usize,
}

/// Means over the steps since the last draw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// The configurational temperature.
    pub temperature: f64,
    /// The kinetic one, at the last step; NaN for dynamics without momenta.
    pub kinetic: f64,
    /// The loss of the last minibatch.
    pub loss: f64,
}

/// The dynamics of a run: Santa in whitened coordinates, or what was given.
pub fn dynamics(settings: &Sampler, figures: &Figures) -> Algorithm {
    match &settings.dynamics {
        Some(Algorithm::Santa(santa)) => {
            let mut santa = santa.clone();
            let adapts = !matches!(santa.metric, Metric::Identity | Metric::Given);
            if adapts && santa.freeze_metric_after.is_none() {
                santa.freeze_metric_after = Some(settings.warm_up);
            }
            santa.into()
        }
        Some(other) => other.clone(),
        None => Santa {
            step: StepSize::paper(figures.step * figures.step, settings.friction),
            beta: InverseTemperature::fixed(settings.beta),
            exploration: Exploration::Always,
            metric: Metric::Identity,
            diffusion: Diffusion::MatchFriction,
            thermostat_mass: ThermostatMass::Spread(FRICTION_SPREAD),
            thermostat_reads: ThermostatReads::Velocity,
            initial_momentum: InitialMomentum::Thermal,
            ..Santa::default()
        }
        .into(),
    }
}

impl<F: Real, P: Potential<F>> Walker<F, P> {
    /// A chain from `theta`, of the stream of noise number `stream`.
    pub fn new(
        settings: &Sampler,
        potential: P,
        scales: Scales<F>,
        theta: &[F],
        figures: &Figures,
        stream: u32,
    ) -> Result<Self> {
        let z = scales.to_z(theta);
        let potential = Whitened::new(potential, scales)?;
        let target = potential.target().clone();
        let stepper = Stepper::new(dynamics(settings, figures), &target, settings.seed, stream)?;
        let moving = (target.layout().segments().iter().enumerate())
            .filter(|(i, _)| !target.settings(*i).frozen)
            .map(|(_, segment)| segment.range().len())
            .sum::<usize>()
            .max(1);
        let reference = vec![F::ZERO; z.len()];
        let (before, slope) = (z.clone(), z.clone());
        let at_ends = settings.dynamics.is_none();
        let u_before = at_ends.then(|| vec![F::ZERO; z.len()]);
        let n = target.data_size();
        let minibatches = minibatches(settings, n, stream)?;
        let chain = Chain::with_minibatches(potential, stepper, z, minibatches)?;
        Ok(Walker { chain, before, u_before, slope, reference, first: None, moving })
    }

    /// Makes `steps` steps.
    pub fn advance(&mut self, steps: u64) -> Result<Pace> {
        let every_step = self.before.len() <= READ_EVERY_STEP_UP_TO;
        let (mut sum, mut readings) = (0.0, 0u64);
        for left in (0..steps).rev() {
            let read = every_step || left == 0;
            if read {
                self.before.copy_from_slice(self.chain.theta());
                if let (Some(before), Some(u)) = (&mut self.u_before, momentum(&self.chain)) {
                    before.copy_from_slice(u);
                }
            }
            self.chain.advance(1)?;
            if read {
                let reading = self.reading();
                self.first.get_or_insert(reading);
                sum += reading;
                readings += 1;
            }
        }
        Ok(Pace {
            temperature: sum / readings as f64,
            kinetic: self.kinetic().unwrap_or(f64::NAN),
            loss: self.chain.last_loss().unwrap_or(f64::NAN),
        })
    }

    /// $(z - c)^\top \nabla U / d$ at the parameters before the last step.
    ///
    /// Where draws are the ends of steps, z is the end before the gradient was taken. On a harmonic
    /// potential its covariance with the point of the gradient is its own variance, whatever the step.
    fn reading(&mut self) -> f64 {
        let target = self.chain.potential().target();
        let mut gradient = self.chain.gradient();
        if !target.is_flat() {
            self.slope.copy_from_slice(gradient);
            target.add_prior(&self.before, &mut self.slope);
            gradient = &self.slope;
        }
        let mut sum = 0.0;
        for ((z, c), g) in self.before.iter().zip(&self.reference).zip(gradient) {
            sum += (*z - *c).to_f64() * g.to_f64();
        }
        if let Some(u) = &self.u_before {
            for (u, g) in u.iter().zip(gradient) {
                sum -= 0.5 * u.to_f64() * g.to_f64();
            }
        }
        sum * target.data_size().as_f64() / self.moving as f64
    }

    /// The mean of $u^2/\eta$, for dynamics that have a momentum; where draws are the ends of steps,
    /// that of the velocity between them, $((u_{t-1} + u_t)/2)^2 e^{\alpha/2}/\eta$.
    fn kinetic(&self) -> Option<f64> {
        let stepper = self.chain.stepper();
        let u = momentum(&self.chain)?;
        let eta = stepper.physics(0).ok()??.eta;
        let sum: f64 = match (&self.u_before, stepper.friction()) {
            (Some(before), Ok(Some(alpha))) => (u.iter().zip(before).zip(alpha))
                .map(|((u, before), alpha)| {
                    (0.5 * (u.to_f64() + before.to_f64())).powi(2) * (0.5 * alpha).exp()
                })
                .sum(),
            _ => u.iter().map(|u| u.to_f64().powi(2)).sum(),
        };
        Some(sum / eta / self.moving as f64)
    }

    /// The parameters, in their own coordinates.
    pub fn theta(&self, theta: &mut [F]) {
        let scales = self.chain.potential().scales();
        let held = self.chain.theta();
        match (&self.u_before, momentum(&self.chain)) {
            (Some(_), Some(u)) => {
                let end: Vec<F> = held.iter().zip(u).map(|(z, u)| *z - F::HALF * *u).collect();
                scales.to_theta(&end, theta);
            }
            _ => scales.to_theta(held, theta),
        }
    }
    /// The first reading of the configurational temperature; NaN before the first step.
    pub fn first_reading(&self) -> f64 {
        self.first.unwrap_or(f64::NAN)
    }
    /// The point about which the temperature is read.
    pub fn reference(&self) -> &[F] {
        &self.reference
    }
    /// Reads it about another.
    pub fn set_reference(&mut self, reference: &[F]) -> Result<()> {
        self.chain.potential().target().layout().check_len("the reference", reference.len())?;
        self.reference.copy_from_slice(reference);
        Ok(())
    }
    /// The chain.
    pub fn chain(&self) -> &Chain<F, Whitened<P, F>> {
        &self.chain
    }
    /// The chain, to restore it or to evaluate its potential.
    pub fn chain_mut(&mut self) -> &mut Chain<F, Whitened<P, F>> {
        &mut self.chain
    }
    /// The potential, with nothing around it.
    pub fn into_potential(self) -> P {
        self.chain.into_parts().0.into_inner()
    }

    /// The frequency of the stiffest direction at the present point.
    pub fn largest_frequency(&mut self, settings: &Sampler) -> Result<f64> {
        let (z, stream) = (self.chain.theta().to_vec(), self.chain.stepper().chain());
        largest_frequency(self.chain.potential_mut(), &z, settings.seed, stream)
    }

    /// The noise of the minibatch gradient of U at the present point. One that is not finite is a
    /// divergence.
    pub fn gradient_noise(&mut self, settings: &Sampler) -> Result<GradientNoise> {
        let target = self.chain.potential().target().clone();
        let n = target.data_size();
        let (sampling, size) = batches(settings, n.get());
        if sampling == Sampling::Full {
            return Ok(GradientNoise::NONE);
        }
        let stream = self.chain.stepper().chain();
        // Far from the batches of the run, by their place.
        let mut minibatches =
            Minibatches::new(n, size, Sampling::WithReplacement, !settings.seed, stream)?;
        let at = self.chain.theta().to_vec();
        let step = self.chain.steps().max(1);
        // Correlations in the scales are there to make it even.
        let is_even = matches!(self.chain.potential().scales(), Scales::Dense { .. });
        let noise = GradientNoise::estimate(at.len(), self.moving, !is_even, |gradient| {
            let batch = Batch::of(minibatches.next()).seeded(settings.seed, stream).at_step(step);
            self.chain.potential_mut().loss_gradient(&at, &batch, gradient)?;
            gradient.iter_mut().for_each(|g: &mut F| *g *= F::from_f64(n.as_f64()));
            Ok(())
        })?;
        noise.map_err(|(place, variance)| {
            Error::Diverged(format!(
                "chain {}: the variance of the minibatch gradient is {variance} in coordinate {place}",
                stream % MAX_CHAINS,
            ))
        })
    }
}

/// u, for dynamics that have one.
fn momentum<F: Real, P: Potential<F>>(chain: &Chain<F, P>) -> Option<&[F]> {
    chain.stepper().state_vector("u")
}

/// The minibatches of a chain.
pub fn minibatches(settings: &Sampler, n: DataSize, stream: u32) -> Result<Minibatches> {
    let (sampling, size) = batches(settings, n.get());
    Ok(Minibatches::new(n, size, sampling, settings.seed, stream)?)
}

/// How batches are drawn, and their size: all data if they are no more than a batch.
fn batches(settings: &Sampler, n: u64) -> (Sampling, usize) {
    if settings.batch_size as u64 >= n {
        (Sampling::Full, 1)
    } else {
        (settings.sampling, settings.batch_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::{Layout, Prior, Target};

    const N: u64 = 50;

    /// The noise of a gradient that is `bad` for batches with one of the data, in the second coordinate.
    fn noise(bad: f64) -> Result<f64> {
        let n = DataSize::new(N).unwrap();
        let target = Target::new(Layout::flat(3).unwrap(), n, Prior::Flat).unwrap();
        let potential =
            santa::potential::from_data(target, move |_: &[f64], batch: &[u32], g: &mut [f64]| {
                g.fill(1.0);
                g[1] = if batch.contains(&7) { bad } else { 1.0 };
                0.0
            });
        let settings = Sampler { batch_size: 10, ..Sampler::seeded(1) };
        let figures = Figures { step: 0.1, thin: 1, ..Figures::default() };
        let stream = 2 * MAX_CHAINS + 3;
        let mut walker =
            Walker::new(&settings, potential, Scales::Identity, &[0.0; 3], &figures, stream)?;
        walker.gradient_noise(&settings).map(|noise| noise.variance)
    }

    #[test]
    fn noise_that_is_no_number_is_a_divergence_which_names_the_place() {
        for bad in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1e200] {
            let error = noise(bad).unwrap_err();
            assert!(error.is_divergence(), "{bad}: {error}");
            let text = error.to_string();
            assert!(text.contains("chain 3:") && text.contains("coordinate 1"), "{text}");
        }
    }

    #[test]
    fn where_the_data_agree_there_is_no_noise_and_elsewhere_there_is() {
        assert_eq!(noise(1.0).unwrap(), 0.0);
        assert!(noise(2.0).unwrap() > 0.0);
    }
}
