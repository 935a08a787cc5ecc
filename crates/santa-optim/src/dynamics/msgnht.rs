//! The multivariate stochastic gradient Nose-Hoover thermostat (Gan and others, 2015).

use super::santa::{
    Corrections, Diffusion, Exploration, GradientAt, InitialMomentum, Metric, Santa, ThermostatMass,
};
use crate::schedule::InverseTemperature;
use crate::units::{Integrator, StepSize};
use serde::{Deserialize, Serialize};

/// Settings of mSGNHT: a friction for each parameter, no preconditioner.
///
/// Euler, with $h = \sqrt\eta$ (the paper's preliminaries write $\eta$ for h):
///
/// $$ \alpha \mathrel{+}= (u^2 - \eta/\beta)/\mu, \qquad
///    u \leftarrow (1-\alpha)\ u - \eta\ f + \sqrt{2 A\ \eta^{3/2}/\beta}\ \zeta, \qquad
///    \theta \mathrel{+}= u $$
///
/// and the symmetric splitting with the same right-hand side. A, the diffusion, is C of the
/// [`StepSize`] and the start of $\Xi = \alpha/h$; $\Xi \sim N(A, 1/(\beta\mu))$.
///
/// This *is* Santa with the identity metric, a constant $G_2$ and no annealing, and runs on its
/// kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Msgnht {
    /// Splitting or Euler.
    pub integrator: Integrator,
    /// Where the splitting takes the gradient.
    pub gradient_at: GradientAt,
    /// Step and diffusion: A = C.
    pub step: StepSize,
    /// $\beta_t$
    pub beta: InverseTemperature,
    /// $\mu$
    pub thermostat_mass: f64,
}

impl Default for Msgnht {
    fn default() -> Self {
        Msgnht {
            integrator: Integrator::Splitting,
            gradient_at: GradientAt::Midpoint,
            step: StepSize::heavy_ball(1e-2, 0.9),
            beta: InverseTemperature::posterior(),
            thermostat_mass: 1.0,
        }
    }
}

impl Msgnht {
    /// A sampler of the posterior, by symmetric splitting.
    pub fn new(step: StepSize) -> Self {
        Msgnht { step, ..Msgnht::default() }
    }
    /// By Euler's scheme.
    pub fn euler(mut self) -> Self {
        self.integrator = Integrator::Euler;
        self
    }
    /// At another temperature.
    pub fn beta(mut self, beta: InverseTemperature) -> Self {
        self.beta = beta;
        self
    }

    /// The Santa that it is.
    pub fn as_santa(&self) -> Santa {
        Santa {
            integrator: self.integrator,
            gradient_at: self.gradient_at,
            step: self.step.clone(),
            beta: self.beta.clone(),
            exploration: Exploration::Always,
            metric: Metric::Identity,
            diffusion: Diffusion::MatchFriction,
            corrections: Corrections::Off,
            thermostat_mass: ThermostatMass::Mass(self.thermostat_mass),
            initial_momentum: InitialMomentum::Thermal,
            rescale: true,
            ..Santa::default()
        }
    }
}
