//! Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox, Guestrin, 2014).

use super::engine::{Block, Context, Kernel, LANE};
use super::{Initial, Physics, Stage};
use crate::error::{Error, Result, check};
use crate::real::Real;
use crate::schedule::InverseTemperature;
use crate::target::{DataSize, Target};
use crate::units::{Integrator, LrScale, StepSize};
use serde::{Deserialize, Serialize};

/// Settings of SGHMC.
///
/// $$ u \leftarrow (1-\alpha)\ u - \eta\ f + \sqrt{2(\alpha - h \hat B)\ \eta/\beta}\ \zeta,
///    \qquad \theta \mathrel{+}= u, \qquad h = \sqrt\eta $$
///
/// Samples $e^{-\beta U}$ when $\hat B$ is what the minibatches add of their own: gradient noise of
/// variance V (per parameter, of the gradient of the sum) acts like a diffusion
/// $B = \beta h V / 2$. With $\hat B = 0$ and minibatches the law is too wide; the thermostats
/// ([`Msgnht`](super::Msgnht), [`Santa`](super::Santa)) find B by themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sghmc {
    /// Step and friction: $\alpha = C\sqrt\eta$, or 1 - momentum.
    pub step: StepSize,
    /// $\beta_t$
    pub beta: InverseTemperature,
    /// $\hat B$
    pub b_hat: NoiseEstimate,
    /// Leave the noise out: SGD with momentum.
    pub noiseless: bool,
}

/// $\hat B$, what is known of the minibatches' noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseEstimate {
    /// Nothing: $\hat B = 0$.
    #[default]
    Zero,
    /// $\hat B$ in the units of C.
    Constant(f64),
    /// The variance V of the stochastic gradient of U: $\hat B = \beta h V/2$.
    GradientVariance(f64),
}

impl Default for Sghmc {
    fn default() -> Self {
        Sghmc {
            step: StepSize::heavy_ball(1e-2, 0.9),
            beta: InverseTemperature::posterior(),
            b_hat: NoiseEstimate::Zero,
            noiseless: false,
        }
    }
}

impl Sghmc {
    /// A sampler of the posterior.
    pub fn new(step: StepSize) -> Self {
        Sghmc { step, ..Sghmc::default() }
    }
    /// At another temperature.
    pub fn beta(mut self, beta: InverseTemperature) -> Self {
        self.beta = beta;
        self
    }
    /// With an estimate of the minibatches' noise.
    pub fn b_hat(mut self, b_hat: NoiseEstimate) -> Self {
        self.b_hat = b_hat;
        self
    }
    pub(crate) fn check(&self, target: &Target) -> Result<()> {
        self.step.check()?;
        self.beta.check()?;
        match self.b_hat {
            NoiseEstimate::Zero => {}
            NoiseEstimate::Constant(b) => check::non_negative("b_hat.constant", b)?,
            NoiseEstimate::GradientVariance(v) => {
                check::non_negative("b_hat.gradient_variance", v)?;
            }
        }
        for i in 0..target.layout().segments().len() {
            let scale = LrScale::group(target.settings(i).lr_scale);
            self.diffusion(&self.physics(1, target.data_size(), scale)?)?;
        }
        Ok(())
    }
    pub(crate) fn slots(&self) -> [&'static str; 1] {
        ["u"]
    }
    pub(crate) fn initial(&self, physics: &Physics) -> Initial {
        if self.noiseless {
            Initial::Zero
        } else {
            Initial::Normal { sd: (physics.eta / physics.beta).sqrt() }
        }
    }
    /// Step size, temperature and friction at step t.
    pub fn physics(&self, t: u64, n: DataSize, lr: LrScale) -> Result<Physics> {
        let step = self.step.at(t, Integrator::Euler, n, lr.product())?;
        Ok(Physics {
            stage: if self.noiseless { Stage::Refining } else { Stage::Exploring },
            eta: step.eta,
            beta: self.beta.at(t)?,
            alpha0: step.alpha0,
            rescale: 1.0,
            mass: 1.0,
        })
    }
    /// $\alpha - h \hat B$; the estimate must not exceed the friction.
    pub fn diffusion(&self, p: &Physics) -> Result<f64> {
        let h = p.eta.sqrt();
        let b = match self.b_hat {
            NoiseEstimate::Zero => 0.0,
            NoiseEstimate::Constant(b) => b,
            NoiseEstimate::GradientVariance(v) => 0.5 * p.beta * h * v,
        };
        let rest = p.alpha0 - h * b;
        if rest < 0.0 {
            let allowed = format!(
                "it exceeds the friction C = {} at this step; raise the friction or lower the step",
                p.alpha0 / h
            );
            return Err(Error::setting("b_hat", b, allowed));
        }
        Ok(rest)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Scalars<F> {
    keep: F,
    eta_n: F,
    sd: F,
    noisy: bool,
}

impl<F: Real> Kernel<F, 1> for Sghmc {
    type Scalars = Scalars<F>;

    fn scalars(&self, c: &Context<'_>) -> Result<Scalars<F>> {
        let n = c.target.data_size();
        let p = self.physics(c.t, n, c.lr)?;
        Ok(Scalars {
            keep: F::from_f64(1.0 - p.alpha0),
            eta_n: F::from_f64(p.eta * n.as_f64()),
            sd: F::from_f64((2.0 * self.diffusion(&p)? * p.eta / p.beta).sqrt()),
            noisy: !self.noiseless,
        })
    }

    fn noisy(s: &Scalars<F>) -> bool {
        s.noisy
    }

    #[inline(always)]
    fn update(&self, s: &Scalars<F>, block: &mut Block<F, 1>) {
        let Block { theta, f, zeta, state: [u], .. } = block;
        for i in 0..LANE {
            u[i] = s.keep * u[i] - s.eta_n * f[i];
        }
        if s.noisy {
            for i in 0..LANE {
                u[i] += s.sd * zeta[i];
            }
        }
        for i in 0..LANE {
            theta[i] += u[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::testing::{Draw, Element, Reference, Start, eta_and_alpha0, follows};

    struct Plain {
        settings: Sghmc,
        n: f64,
        u: Vec<f64>,
        /// Moves theta before u.
        theta_first: bool,
    }

    impl Reference for Plain {
        fn step(&mut self, t: u64, theta: &mut [f64], elements: &[Element]) {
            let s = &self.settings;
            let beta = s.beta.schedule().at(t);
            for e in elements {
                let (eta, alpha) =
                    eta_and_alpha0(&s.step, Integrator::Euler, t, self.n, e.lr_scale);
                let h = eta.sqrt();
                let b_hat = match s.b_hat {
                    NoiseEstimate::Zero => 0.0,
                    NoiseEstimate::Constant(b) => b,
                    NoiseEstimate::GradientVariance(v) => beta * h * v / 2.0,
                };
                let before = self.u[e.i];
                self.u[e.i] = (1.0 - alpha) * before - eta * self.n * e.f;
                if !s.noiseless {
                    self.u[e.i] += (2.0 * (alpha - h * b_hat) * eta / beta).sqrt() * e.zeta;
                }
                theta[e.i] += if self.theta_first { before } else { self.u[e.i] };
            }
        }
        fn state(&self, name: &str) -> Option<&[f64]> {
            (name == "u").then_some(&self.u)
        }
    }

    fn settings(draw: &mut Draw) -> Sghmc {
        let step = draw.step_size();
        // Below the friction of every step and group: C of a step is alpha_0 / h.
        let b = draw.between(0.0, 0.5);
        let variance = draw.between(0.0, 0.1);
        Sghmc {
            b_hat: match &step {
                StepSize::Paper { .. } => draw.one_of(&[
                    NoiseEstimate::Zero,
                    NoiseEstimate::Constant(b),
                    NoiseEstimate::GradientVariance(variance),
                ]),
                _ => draw.one_of(&[NoiseEstimate::Zero, NoiseEstimate::GradientVariance(variance)]),
            },
            step,
            beta: InverseTemperature::fixed(draw.log_between(0.3, 3.0)),
            noiseless: draw.one_of(&[false, false, true]),
        }
    }

    fn plain(settings: &Sghmc, start: &Start<'_>) -> Plain {
        let beta = settings.beta.schedule().at(1);
        let n = start.n();
        let thermal = |scale: f64| {
            (eta_and_alpha0(&settings.step, Integrator::Euler, 1, n, scale).0 / beta).sqrt()
        };
        let u = if settings.noiseless { start.zeros() } else { start.normal(0, thermal) };
        Plain { settings: settings.clone(), n, u, theta_first: false }
    }

    #[test]
    fn the_kernel_follows_the_plain_reference() {
        follows(settings, plain).unwrap();
    }

    #[test]
    fn a_reference_that_moves_theta_first_does_not_match() {
        let swapped = |s: &Sghmc, start: &Start<'_>| Plain { theta_first: true, ..plain(s, start) };
        follows(settings, swapped).unwrap_err();
    }

    #[test]
    fn a_reference_that_ignores_the_noise_estimate_does_not_match() {
        let known = |_: &mut Draw| {
            Sghmc::new(StepSize::paper(1e-2, 3.0)).b_hat(NoiseEstimate::Constant(1.0))
        };
        follows(known, plain).unwrap();
        let ignorant = |s: &Sghmc, start: &Start<'_>| {
            plain(&Sghmc { b_hat: NoiseEstimate::Zero, ..s.clone() }, start)
        };
        follows(known, ignorant).unwrap_err();
    }
}
