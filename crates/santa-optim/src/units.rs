//! The size of a step: in the paper's units, or in those people know from other optimizers.
//!
//! Let $f = \nabla U$ be the gradient of the *sum* over N data and $\bar f = f / N$ the mean one.
//! Second-order dynamics carry $u = p \sqrt\eta$ and $\alpha = \Xi \sqrt\eta$. At rest a constant
//! gradient moves theta in every step by
//!
//! $$ \Delta\theta = -\frac{\eta N}{k}\ g^2 \bar f, \qquad
//!    k = \alpha \text{ (Euler)}, \quad k = 2 \sinh(\alpha / 2) \text{ (splitting)}. $$
//!
//! | variant | given | $\alpha_0$, Euler | $\eta$, Euler | $\alpha_0$, splitting | $\eta$, splitting |
//! | --- | --- | --- | --- | --- | --- |
//! | [`StepSize::Paper`] | $\eta$, C | $C\sqrt\eta$ | $\eta$ | $C\sqrt\eta$ | $\eta$ |
//! | [`StepSize::Practical`] | lr, m | $1 - m$ | $lr\ \alpha_0 / N$ | $-\ln m$ | $lr\ 2\sinh(\alpha_0/2) / N$ |
//! | [`StepSize::HeavyBall`] | lr, m | $1 - m$ | $lr / N$ | $-\ln m$ | $lr / (\sqrt m\ N)$ |
//!
//! Practical: `lr` is what RMSprop and Adam call it, the step at rest is $lr\ g^2 \bar f$. Heavy
//! ball: `lr` is what SGD with momentum calls it, the step at rest is $lr\ \bar f/(1-m)$.
//! The temperature is what it says when the noise fits the friction, $G_2 = \alpha_0 / \sqrt\eta$:
//! [`Diffusion::MatchFriction`](crate::dynamics::Diffusion::MatchFriction).

use crate::error::{Error, Result, check};
use crate::schedule::Schedule;
use crate::target::DataSize;
use serde::{Deserialize, Serialize};

/// How a second-order equation is integrated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Integrator {
    /// Symmetric splitting A-B-O-B-A (the paper's SSS): friction as $e^{-\alpha}$.
    #[default]
    Splitting,
    /// Euler: friction as $1 - \alpha$.
    Euler,
}

/// Step size and friction of second-order dynamics; see the [module](self) for the formulas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "units", rename_all = "snake_case", deny_unknown_fields)]
pub enum StepSize {
    /// The paper's: $\eta$ multiplies the gradient of the sum, $\alpha_0 = C\sqrt\eta$.
    Paper {
        /// $\eta_t$
        eta: Schedule,
        /// C, the initial friction.
        c: f64,
    },
    /// Learning rate as in RMSprop and Adam, and a momentum.
    Practical {
        /// Learning rate on the mean gradient.
        lr: Schedule,
        /// Share of the velocity that survives a step, in (0, 1).
        momentum: f64,
    },
    /// Learning rate as in SGD with momentum, and a momentum.
    HeavyBall {
        /// Learning rate on the mean gradient.
        lr: Schedule,
        /// Share of the velocity that survives a step, in (0, 1).
        momentum: f64,
    },
}

/// What multiplies the learning rate of the settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LrScale {
    /// The factor of the parameter's group.
    pub group: f64,
    /// The factor from outside, for all parameters: see
    /// [`Stepper::set_lr_factor`](crate::Stepper::set_lr_factor).
    pub outside: f64,
}

impl LrScale {
    /// A group's factor, and none from outside.
    pub fn group(group: f64) -> Self {
        LrScale { group, outside: 1.0 }
    }
    /// Both together.
    pub fn product(self) -> f64 {
        self.group * self.outside
    }
}

/// $\eta$ and the base friction $\alpha_0$ at one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub eta: f64,
    pub alpha0: f64,
}

impl StepSize {
    /// $\eta$ and C.
    pub fn paper(eta: impl Into<Schedule>, c: f64) -> Self {
        StepSize::Paper { eta: eta.into(), c }
    }
    /// Learning rate as in RMSprop and Adam.
    pub fn practical(lr: impl Into<Schedule>, momentum: f64) -> Self {
        StepSize::Practical { lr: lr.into(), momentum }
    }
    /// Learning rate as in SGD with momentum.
    pub fn heavy_ball(lr: impl Into<Schedule>, momentum: f64) -> Self {
        StepSize::HeavyBall { lr: lr.into(), momentum }
    }

    /// The learning rate or $\eta$, to change.
    pub(crate) fn rate_mut(&mut self) -> &mut Schedule {
        match self {
            StepSize::Paper { eta: rate, .. }
            | StepSize::Practical { lr: rate, .. }
            | StepSize::HeavyBall { lr: rate, .. } => rate,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self {
            StepSize::Paper { eta, c } => {
                eta.check("step.eta")?;
                check::positive("step.c", *c)
            }
            StepSize::Practical { lr, momentum } | StepSize::HeavyBall { lr, momentum } => {
                lr.check("step.lr")?;
                if *momentum > 0.0 && *momentum < 1.0 {
                    Ok(())
                } else {
                    Err(Error::setting("step.momentum", momentum, "it must lie between 0 and 1"))
                }
            }
        }
    }

    /// $\eta_t$ and $\alpha_0$ with a group's learning-rate factor.
    pub(crate) fn at(
        &self,
        t: u64,
        integrator: Integrator,
        n: DataSize,
        lr_scale: f64,
    ) -> Result<Step> {
        let friction = |momentum: f64| match integrator {
            Integrator::Splitting => -momentum.ln(),
            Integrator::Euler => 1.0 - momentum,
        };
        let step = match self {
            StepSize::Paper { eta, c } => {
                let eta = eta.positive_at("step.eta", t)? * lr_scale;
                Step { eta, alpha0: c * eta.sqrt() }
            }
            StepSize::Practical { lr, momentum } => {
                let alpha0 = friction(*momentum);
                let lr = lr.positive_at("step.lr", t)? * lr_scale;
                Step { eta: lr * rest_factor(integrator, alpha0) / n.as_f64(), alpha0 }
            }
            StepSize::HeavyBall { lr, momentum } => {
                let alpha0 = friction(*momentum);
                let lr = lr.positive_at("step.lr", t)? * lr_scale;
                let eta = match integrator {
                    Integrator::Splitting => lr / (momentum.sqrt() * n.as_f64()),
                    Integrator::Euler => lr / n.as_f64(),
                };
                Step { eta, alpha0 }
            }
        };
        check::positive("step: eta", step.eta)?;
        check::positive("step: alpha_0", step.alpha0)?;
        Ok(step)
    }

    /// Whether the friction is held as a momentum (practical units) or follows $C\sqrt{\eta_t}$.
    pub(crate) fn keeps_momentum(&self) -> bool {
        !matches!(self, StepSize::Paper { .. })
    }
}

/// k of the step at rest: $\alpha$ for Euler, $2\sinh(\alpha/2)$ for the splitting.
pub(crate) fn rest_factor(integrator: Integrator, alpha: f64) -> f64 {
    match integrator {
        Integrator::Splitting => 2.0 * (0.5 * alpha).sinh(),
        Integrator::Euler => alpha,
    }
}

/// Step size of first-order samplers: what multiplies the gradient.
///
/// In files of settings `{ eta = 1e-6 }` or `{ lr = 0.1 }`, with a [`Schedule`] or a number. A number
/// alone is refused: it would not say which of the two it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rate {
    /// $\eta_t$ multiplies the gradient of U, the sum over all N data.
    Eta(Schedule),
    /// `lr` multiplies the mean gradient: $\eta_t = lr_t / N$.
    Lr(Schedule),
}

impl Rate {
    /// $\eta$ on the gradient of the sum.
    pub fn eta(eta: impl Into<Schedule>) -> Self {
        Rate::Eta(eta.into())
    }
    /// Learning rate on the mean gradient.
    pub fn lr(lr: impl Into<Schedule>) -> Self {
        Rate::Lr(lr.into())
    }
    /// The learning rate or $\eta$, to change.
    pub(crate) fn rate_mut(&mut self) -> &mut Schedule {
        match self {
            Rate::Eta(rate) | Rate::Lr(rate) => rate,
        }
    }
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Rate::Eta(s) => s.check("rate.eta"),
            Rate::Lr(s) => s.check("rate.lr"),
        }
    }
    /// $\eta_t$ for N data, with a factor of the learning rate.
    pub fn eta_at(&self, t: u64, n: DataSize, lr_scale: f64) -> Result<f64> {
        let eta = lr_scale
            * match self {
                Rate::Eta(s) => s.positive_at("rate.eta", t)?,
                Rate::Lr(s) => s.positive_at("rate.lr", t)? / n.as_f64(),
            };
        check::positive("rate: eta", eta)?;
        Ok(eta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_units_give_the_same_step_when_translated() {
        let n = DataSize::new(60_000).unwrap();
        for integrator in [Integrator::Splitting, Integrator::Euler] {
            for practical in [StepSize::practical(1e-3, 0.9), StepSize::heavy_ball(0.1, 0.95)] {
                let step = practical.at(1, integrator, n, 1.0).unwrap();
                let paper = StepSize::paper(step.eta, step.alpha0 / step.eta.sqrt());
                let again = paper.at(1, integrator, n, 1.0).unwrap();
                assert!((again.alpha0 / step.alpha0 - 1.0).abs() < 1e-14);
                assert_eq!(again.eta, step.eta);
            }
        }
    }

    #[test]
    fn impossible_momenta_are_refused() {
        for momentum in [0.0, 1.0, -0.1, 1.5, f64::NAN] {
            let message = StepSize::practical(0.1, momentum).check().unwrap_err().to_string();
            assert!(message.contains("step.momentum"), "{message}");
        }
    }
}
