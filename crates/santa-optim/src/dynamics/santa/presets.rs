//! Santa as we recommend it, as the paper prints it, and as its authors ran it.

use super::{
    AlphaInRefinement, Corrections, Diffusion, Exploration, GradientAt, InitialMomentum, Metric,
    NoiseScale, Push, Santa, SecondMomentStart, ThermostatMass, ThermostatReads,
};
use crate::schedule::{InverseTemperature, Schedule};
use crate::target::DataSize;
use crate::units::{Integrator, StepSize};

impl Default for Santa {
    /// An optimizer: no exploration, `lr` 1e-3, a momentum of 0.9. What the other presets start from.
    fn default() -> Self {
        Santa {
            integrator: Integrator::Splitting,
            gradient_at: GradientAt::Midpoint,
            step: StepSize::practical(1e-3, 0.9),
            beta: InverseTemperature::posterior(),
            exploration: Exploration::Never,
            alpha_in_refinement: AlphaInRefinement::Frozen,
            metric: Metric::RmsProp { sigma: 0.99 },
            freeze_metric_after: None,
            second_moment_start: SecondMomentStart::FirstSquaredGradient,
            lambda: 1e-5,
            lambda_refining: None,
            diffusion: Diffusion::MatchFriction,
            noise_scale: NoiseScale::Supplement,
            corrections: Corrections::Off,
            smoothing: 0.0,
            push: Push::Whole,
            rescale: true,
            thermostat_mass: ThermostatMass::Spread(0.1),
            thermostat_reads: ThermostatReads::Momentum,
            friction_floor: Some(0.5),
            friction_ceiling: Some(2.0),
            bounds_while_exploring: false,
            initial_momentum: InitialMomentum::Zero,
            adam_form: false,
        }
    }
}

impl Santa {
    /// Santa in place of Adam: a learning rate as in Adam, a momentum of 0.9, `steps` steps in all,
    /// of which the first half explores at $\beta_t = \sqrt t$ and the second refines. The friction
    /// stays between half and twice its start throughout; the example `defaults` shows why.
    ///
    /// ```
    /// use santa::{DataSize, Layout, Prior, Santa, Target};
    ///
    /// let target = Target::new(Layout::flat(3)?, DataSize::new(1000)?, Prior::gaussian(1.0))?;
    /// let mut santa = Santa::new(1e-2, 1000).init::<f32>(&target, 42)?;
    /// let mut theta = [1.0f32, -2.0, 3.0];
    /// for _ in 0..1000 {
    ///     let mean_gradient = theta; // of sum(theta^2) / 2
    ///     santa.step(&mut theta, &mean_gradient)?;
    /// }
    /// assert!(theta.iter().all(|x| x.abs() < 0.2));
    /// # Ok::<(), santa::Error>(())
    /// ```
    pub fn new(lr: impl Into<Schedule>, steps: u64) -> Self {
        Santa {
            step: StepSize::practical(lr, 0.9),
            beta: InverseTemperature::annealed(Schedule::power(1.0, 0.0, 0.5)),
            exploration: Exploration::Steps(steps / 2),
            bounds_while_exploring: true,
            initial_momentum: InitialMomentum::Thermal,
            ..Santa::default()
        }
    }

    /// Santa as a sampler of the posterior: constant temperature, no refinement, and a metric that
    /// adapts for `warm_up` steps and is then frozen, so that the target is right.
    pub fn sampler(step: StepSize, warm_up: u64) -> Self {
        Santa {
            step,
            exploration: Exploration::Always,
            freeze_metric_after: Some(warm_up),
            initial_momentum: InitialMomentum::Thermal,
            ..Santa::default()
        }
    }

    /// Annealing for a rough function of few parameters: no preconditioner, $\beta$ rising linearly
    /// from `beta.0` to `beta.1` over seven eighths of the steps, then refinement.
    ///
    /// The temperatures are in the units of U: start near the height of its barriers, end where the
    /// difference between its best minima counts. The friction must not be learned too fast, hence
    /// the mass; on the paper's double well these choices bring 99 % of the chains to the global
    /// minimum (example `double_well`).
    pub fn annealing(step: StepSize, beta: (f64, f64), steps: u64) -> Self {
        let exploring = (steps - steps / 8).max(1);
        let slope = (beta.1 - beta.0) / exploring as f64;
        // A slope that is not positive is refused when the dynamics are built.
        let schedule = Schedule::power(slope, beta.0 / slope, 1.0);
        Santa {
            step,
            beta: InverseTemperature::annealed(schedule),
            exploration: Exploration::Steps(exploring),
            metric: Metric::Identity,
            diffusion: Diffusion::MatchFriction,
            thermostat_mass: ThermostatMass::Mass(4.0),
            friction_floor: Some(1.0),
            friction_ceiling: None,
            initial_momentum: InitialMomentum::Thermal,
            ..Santa::default()
        }
    }

    /// The text of the paper, read with its supplement: Algorithm 2, $G_2 = G_1$, $v_0 = 0$,
    /// $\beta_t = t^\gamma$, no corrections, nothing that the paper does not mention.
    pub fn paper(eta: impl Into<Schedule>, c: f64, gamma: f64, exploration: Exploration) -> Self {
        Santa {
            gradient_at: GradientAt::Start,
            step: StepSize::paper(eta, c),
            beta: InverseTemperature::annealed(Schedule::power(1.0, 0.0, gamma)),
            exploration,
            metric: Metric::RmsProp { sigma: 0.99 },
            second_moment_start: SecondMomentStart::Zero,
            diffusion: Diffusion::SameAsMetric,
            rescale: false,
            thermostat_mass: ThermostatMass::Mass(1.0),
            friction_floor: None,
            friction_ceiling: None,
            initial_momentum: InitialMomentum::Thermal,
            ..Santa::default()
        }
    }

    /// What the authors' code ran, by experiment.
    ///
    /// The MNIST runs expect a target with N = 60,000 and a Gaussian prior of precision 1 (weight
    /// decay 1/N). The recurrent ones scale nothing by N: give them [`DataSize::ONE`] and a flat
    /// prior; `steps_per_epoch` is the number of training sequences.
    pub fn authors(run: AuthorsRun, steps_per_epoch: u64) -> Self {
        let (smoothing, sigma, gamma, exploration) = match run {
            AuthorsRun::Fnn400 => (0.4, 0.1, 0.7, steps_per_epoch.saturating_mul(30)),
            AuthorsRun::Fnn800 => (0.5, 0.2, 0.3, steps_per_epoch.saturating_mul(30)),
            AuthorsRun::Cnn => (0.4, 0.8, 0.8, steps_per_epoch / 2),
            AuthorsRun::Rnn { eta, epochs, time_steps } => {
                /// Share of the epochs that explore.
                const EXPLORING: f64 = 0.15;
                let steps = (EXPLORING * epochs as f64 * steps_per_epoch as f64) as u64;
                return Santa::authors_recurrent(eta, time_steps, Exploration::Steps(steps));
            }
            AuthorsRun::RnnRefining { eta } => {
                return Santa {
                    alpha_in_refinement: AlphaInRefinement::Accumulating,
                    noise_scale: NoiseScale::Supplement,
                    ..Santa::authors_recurrent(eta, 1, Exploration::Never)
                };
            }
        };
        /// Halved every so many epochs.
        const BLOCK_EPOCHS: u64 = 20;
        let eta = Schedule::block_decay(4e-11, 0.5, steps_per_epoch.saturating_mul(BLOCK_EPOCHS));
        Santa {
            metric: Metric::RmsProp { sigma },
            second_moment_start: SecondMomentStart::FirstSquaredGradient,
            lambda: 1e-4,
            lambda_refining: Some(1e-5),
            diffusion: Diffusion::Constant(100.0),
            smoothing,
            push: Push::Halves,
            ..Santa::paper(eta, 1000.0, gamma, Exploration::Steps(exploration))
        }
    }

    fn authors_recurrent(eta: f64, time_steps: u64, exploration: Exploration) -> Self {
        /// Their initial friction.
        const ALPHA_0: f64 = 0.5;
        Santa {
            integrator: Integrator::Euler,
            metric: Metric::RmsProp { sigma: 0.95 },
            lambda: 1e-8,
            noise_scale: NoiseScale::SecondMoment { divisor: time_steps as f64 },
            initial_momentum: InitialMomentum::Zero,
            ..Santa::paper(eta, ALPHA_0 / eta.sqrt(), 0.5, exploration)
        }
    }

    /// The Euler scheme with everything else as it is: Santa-E.
    pub fn euler(mut self) -> Self {
        self.integrator = Integrator::Euler;
        self.push = Push::Whole;
        self
    }

    /// Only refinement, with a moving $\alpha$: Santa-r. Its friction may only grow: mind the ceiling.
    pub fn refining_only(mut self, alpha: AlphaInRefinement) -> Self {
        self.exploration = Exploration::Never;
        self.alpha_in_refinement = alpha;
        self
    }

    /// Santa's friction and step in the paper's units, for N data.
    pub fn in_paper_units(&self, n: DataSize) -> crate::Result<(f64, f64)> {
        let step = self.step.at(1, self.integrator, n, 1.0)?;
        Ok((step.eta, step.alpha0 / step.eta.sqrt()))
    }
}

/// The runs that the authors' code describes; see [`Santa::authors`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AuthorsRun {
    /// MNIST, 784-400-400-10.
    Fnn400,
    /// MNIST, 784-800-800-10.
    Fnn800,
    /// MNIST, convolutional.
    Cnn,
    /// Polyphonic music, Santa (`eta` 1e-3) or Santa-s (2e-4).
    Rnn {
        /// Learning rate on the mean gradient.
        eta: f64,
        /// Epochs planned; the first 15 % explore.
        epochs: u64,
        /// Time steps of the training set.
        time_steps: u64,
    },
    /// Polyphonic music, Santa-r.
    RnnRefining {
        /// Learning rate on the mean gradient.
        eta: f64,
    },
}
