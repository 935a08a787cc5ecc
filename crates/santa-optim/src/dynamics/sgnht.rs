//! The stochastic gradient Nose-Hoover thermostat (Ding and others, 2014): one friction for all.

use super::engine::{Block, Context, Kernel, LANE};
use super::{Initial, Physics, Stage};
use crate::error::{Result, check};
use crate::real::Real;
use crate::schedule::InverseTemperature;
use crate::target::DataSize;
use crate::units::{Integrator, LrScale, StepSize};
use serde::{Deserialize, Serialize};

/// Settings of SGNHT.
///
/// $$ u \leftarrow (1 - h\xi)\ u - \eta\ f + \sqrt{2 A\ \eta^{3/2}/\beta}\ \zeta, \qquad
///    \theta \mathrel{+}= u, \qquad
///    \xi \mathrel{+}= \frac{h}{\mu}\left( \frac{u^\top u}{n \eta} - \frac1\beta \right),
///    \qquad h = \sqrt\eta $$
///
/// for n moving parameters. A, the diffusion, is C of the [`StepSize`] and the start of $\xi$. One
/// friction must fit all parameters, so the law is right only where the minibatch noise is the same
/// for all; $\xi \sim N(A, 1/(n\beta\mu))$ without it. A group with a learning-rate factor c runs on a
/// clock of its own, $h_c = \sqrt c\ h$, with the same A and $\xi$; its momenta count $\sqrt c$ times in
/// the thermostat's mean, which keeps the law.
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
    /// Step size, temperature and $\alpha_0 = A h$ at step t.
    pub fn physics(&self, t: u64, n: DataSize, lr: LrScale) -> Result<Physics> {
        let step = self.step.at(t, Integrator::Euler, n, lr.product())?;
        // One A for all: alpha_0 = A h in every group.
        let base = self.step.at(t, Integrator::Euler, n, lr.outside)?;
        Ok(Physics {
            stage: Stage::Exploring,
            eta: step.eta,
            beta: self.beta.at(t)?,
            alpha0: base.alpha0 * (step.eta / base.eta).sqrt(),
            rescale: 1.0,
            mass: self.thermostat_mass,
        })
    }
}

/// SGNHT with its friction.
#[derive(Clone)]
pub(crate) struct SgnhtKernel {
    pub settings: Sgnht,
    /// Number of moving parameters, each counted with the root of its group's learning-rate factor.
    pub n: f64,
    /// $\xi - A$, so that small changes are not lost.
    pub shift: f64,
}

#[derive(Clone, Copy)]
pub(crate) struct Scalars<F> {
    keep: F,
    eta_n: F,
    sd: F,
    /// Weight of $u^2$ in the thermostat's mean.
    weight: f64,
}

impl<F: Real> Kernel<F, 1> for SgnhtKernel {
    type Scalars = Scalars<F>;

    fn scalars(&self, c: &Context<'_>) -> Result<Scalars<F>> {
        let n = c.target.data_size();
        let p = self.settings.physics(c.t, n, c.lr)?;
        let h = p.eta.sqrt();
        Ok(Scalars {
            keep: F::from_f64(1.0 - p.alpha0 - h * self.shift),
            eta_n: F::from_f64(p.eta * n.as_f64()),
            // A eta^(3/2) = (A h) eta = alpha_0 eta
            sd: F::from_f64((2.0 * p.alpha0 * p.eta / p.beta).sqrt()),
            weight: c.lr.group.sqrt() / p.eta,
        })
    }

    fn noisy(_: &Scalars<F>) -> bool {
        true
    }

    #[inline(always)]
    fn update(&self, s: &Scalars<F>, block: &mut Block<F, 1>) {
        let Block { theta, f, zeta, state: [u], .. } = block;
        for i in 0..LANE {
            u[i] = s.keep * u[i] - s.eta_n * f[i] + s.sd * zeta[i];
            theta[i] += u[i];
        }
    }

    /// $p^\top p$ of the block.
    #[inline(always)]
    fn partial(s: &Scalars<F>, block: &Block<F, 1>, filled: usize) -> f64 {
        let mut sum = 0.0;
        for u in &block.state[0].0[..filled] {
            sum += u.to_f64() * u.to_f64();
        }
        sum * s.weight
    }

    fn finish(&mut self, total: f64, c: &Context<'_>) -> Result<()> {
        if self.n == 0.0 {
            return Ok(());
        }
        let p = self.settings.physics(c.t, c.target.data_size(), LrScale { group: 1.0, ..c.lr })?;
        self.shift += p.eta.sqrt() / p.mass * (total / self.n - 1.0 / p.beta);
        Ok(())
    }

    fn carried(&self) -> Option<f64> {
        Some(self.shift)
    }
    fn carry(&mut self, value: f64) {
        self.shift = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::testing::{Draw, Element, Reference, Start, eta_and_alpha0, follows};

    struct Plain {
        settings: Sgnht,
        n: f64,
        u: Vec<f64>,
        /// $\xi - A$
        shift: f64,
        /// Averages over all parameters, the frozen ones included.
        counts_frozen: bool,
    }

    impl Reference for Plain {
        fn step(&mut self, t: u64, theta: &mut [f64], elements: &[Element]) {
            let s = &self.settings;
            let beta = s.beta.schedule().at(t);
            let (base_eta, alpha0) = eta_and_alpha0(&s.step, Integrator::Euler, t, self.n, 1.0);
            let diffusion = alpha0 / base_eta.sqrt();
            let (mut kinetic, mut count) = (0.0, 0.0); // p^T p and n, on the clocks of the groups
            for e in elements {
                let (eta, _) = eta_and_alpha0(&s.step, Integrator::Euler, t, self.n, e.lr_scale);
                let h = eta.sqrt();
                let xi = diffusion + self.shift;
                self.u[e.i] = (1.0 - h * xi) * self.u[e.i] - eta * self.n * e.f
                    + (2.0 * diffusion * eta.powf(1.5) / beta).sqrt() * e.zeta;
                theta[e.i] += self.u[e.i];
                let clock = h / base_eta.sqrt();
                kinetic += clock * self.u[e.i].powi(2) / eta;
                count += clock;
            }
            if self.counts_frozen {
                count += (theta.len() - elements.len()) as f64;
            }
            self.shift += base_eta.sqrt() / s.thermostat_mass * (kinetic / count - 1.0 / beta);
        }
        fn state(&self, name: &str) -> Option<&[f64]> {
            (name == "u").then_some(&self.u)
        }
        fn carried(&self) -> Option<f64> {
            Some(self.shift)
        }
    }

    fn settings(draw: &mut Draw) -> Sgnht {
        Sgnht {
            step: draw.step_size(),
            beta: InverseTemperature::fixed(draw.log_between(0.3, 3.0)),
            thermostat_mass: draw.log_between(0.5, 10.0),
        }
    }

    fn plain(settings: &Sgnht, start: &Start<'_>) -> Plain {
        let beta = settings.beta.schedule().at(1);
        let n = start.n();
        let thermal = |scale: f64| {
            (eta_and_alpha0(&settings.step, Integrator::Euler, 1, n, scale).0 / beta).sqrt()
        };
        let u = start.normal(0, thermal);
        Plain { settings: settings.clone(), n, u, shift: 0.0, counts_frozen: false }
    }

    #[test]
    fn the_kernel_follows_the_plain_reference() {
        follows(settings, plain).unwrap();
    }

    #[test]
    fn a_reference_that_counts_frozen_parameters_does_not_match() {
        let wrong = |s: &Sgnht, start: &Start<'_>| Plain { counts_frozen: true, ..plain(s, start) };
        follows(settings, wrong).unwrap_err();
    }
}
