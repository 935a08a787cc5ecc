//! The stochastic gradient Nose-Hoover thermostat (Ding and others, 2014): one friction for all.

use super::engine::{Block, Context, Kernel};
use super::{Initial, Physics, Stage};
use crate::error::{Result, check};
use crate::real::{BLOCK, Real};
use crate::schedule::InverseTemperature;
use crate::target::DataSize;
use crate::units::{Integrator, StepSize};
use serde::{Deserialize, Serialize};

/// Settings of SGNHT.
///
/// $$ u \leftarrow (1 - h\xi)\, u - \eta\, f + \sqrt{2 A\, \eta^{3/2}/\beta}\;\zeta, \qquad
///    \theta \mathrel{+}= u, \qquad
///    \xi \mathrel{+}= \frac{h}{\mu}\left( \frac{u^\top u}{n \eta} - \frac1\beta \right),
///    \qquad h = \sqrt\eta $$
///
/// for n moving parameters. A, the diffusion, is C of the [`StepSize`] and the start of $\xi$. One
/// friction must fit all parameters, so the law is right only where the minibatch noise is the same
/// for all; $\xi \sim N(A, 1/(n\beta\mu))$ without it. One $\eta$ for all: a group's learning-rate
/// factor scales it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sgnht {
    /// Step and diffusion: A = C.
    pub step: StepSize,
    /// $\beta_t$
    pub beta: InverseTemperature,
    /// $\mu$
    pub thermostat_mass: f64,
}

impl Default for Sgnht {
    fn default() -> Self {
        Sgnht {
            step: StepSize::heavy_ball(1e-2, 0.9),
            beta: InverseTemperature::posterior(),
            thermostat_mass: 1.0,
        }
    }
}

impl Sgnht {
    /// A sampler of the posterior.
    pub fn new(step: StepSize) -> Self {
        Sgnht { step, ..Sgnht::default() }
    }
    /// At another temperature.
    pub fn beta(mut self, beta: InverseTemperature) -> Self {
        self.beta = beta;
        self
    }
    pub(crate) fn check(&self) -> Result<()> {
        self.step.check()?;
        self.beta.check()?;
        check::positive("thermostat_mass", self.thermostat_mass)
    }
    pub(crate) fn slots(&self) -> [&'static str; 1] {
        ["u"]
    }
    pub(crate) fn initial(&self, physics: &Physics) -> Initial {
        Initial::Normal { sd: (physics.eta / physics.beta).sqrt() }
    }
    pub(crate) fn physics(&self, t: u64, n: DataSize, lr_scale: f64) -> Result<Physics> {
        let step = self.step.at(t, Integrator::Euler, n, lr_scale)?;
        Ok(Physics {
            stage: Stage::Exploring,
            eta: step.eta,
            beta: self.beta.at(t)?,
            alpha0: step.alpha0,
            rescale: 1.0,
            mass: self.thermostat_mass,
        })
    }
}

/// SGNHT with its friction.
pub(crate) struct SgnhtKernel {
    pub settings: Sgnht,
    /// Number of moving parameters.
    pub n: usize,
    /// $\xi - A$, so that small changes are not lost.
    pub shift: f64,
}

#[derive(Clone, Copy)]
pub(crate) struct Scalars<F> {
    keep: F,
    eta_n: F,
    sd: F,
    inverse_eta: f64,
}

impl<F: Real> Kernel<F, 1> for SgnhtKernel {
    type Scalars = Scalars<F>;

    fn scalars(&self, c: &Context<'_>) -> Result<Scalars<F>> {
        let n = c.target.data_size();
        let p = self.settings.physics(c.t, n, c.segment.lr_scale)?;
        let h = p.eta.sqrt();
        Ok(Scalars {
            keep: F::from_f64(1.0 - p.alpha0 - h * self.shift),
            eta_n: F::from_f64(p.eta * n.as_f64()),
            // A eta^(3/2) = (A h) eta = alpha_0 eta
            sd: F::from_f64((2.0 * p.alpha0 * p.eta / p.beta).sqrt()),
            inverse_eta: 1.0 / p.eta,
        })
    }

    fn noisy(_: &Scalars<F>) -> bool {
        true
    }

    #[inline(always)]
    fn update(&self, s: &Scalars<F>, block: &mut Block<F, 1>) {
        let Block { theta, f, zeta, state: [u], .. } = block;
        for i in 0..BLOCK {
            u[i] = s.keep * u[i] - s.eta_n * f[i] + s.sd * zeta[i];
            theta[i] += u[i];
        }
    }

    /// $p^\top p$ of the block.
    #[inline(always)]
    fn partial(s: &Scalars<F>, block: &Block<F, 1>, filled: usize) -> f64 {
        let mut sum = 0.0;
        for u in &block.state[0][..filled] {
            sum += u.to_f64() * u.to_f64();
        }
        sum * s.inverse_eta
    }

    fn finish(&mut self, total: f64, c: &Context<'_>) -> Result<()> {
        if self.n == 0 {
            return Ok(());
        }
        let p = self.settings.physics(c.t, c.target.data_size(), 1.0)?;
        self.shift += p.eta.sqrt() / p.mass * (total / self.n as f64 - 1.0 / p.beta);
        Ok(())
    }

    fn carried(&self) -> Option<f64> {
        Some(self.shift)
    }
    fn carry(&mut self, value: f64) {
        self.shift = value;
    }
}
