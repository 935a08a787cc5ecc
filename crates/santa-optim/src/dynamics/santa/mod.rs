//! Santa: Stochastic AnNealing Thermostats with Adaptive momentum (Chen, Carlson, Gan, Li, Carin,
//! AISTATS 2016).

mod bound;
mod kernel;
mod metric;
mod midpoint;
mod presets;
#[cfg(test)]
mod reference;

pub use metric::{Diffusion, Metric, SeparableMetric};
pub use presets::AuthorsRun;

pub(crate) use kernel::{SLOTS, SantaKernel};

use super::{Initial, Physics, Stage};
use crate::error::{Error, Result, check};
use crate::schedule::InverseTemperature;
use crate::target::{DataSize, Target};
use crate::units::{Integrator, LrScale, StepSize, rest_factor};
use serde::{Deserialize, Serialize};

/// Settings of Santa.
///
/// A thermostatted sampler with a preconditioner while it *explores*, cooling along $\beta_t$; an
/// optimizer whose every parameter has a momentum weight of its own once it *refines*. At a constant
/// $\beta$, exploring for ever, it samples $e^{-\beta U}$.
///
/// # Equations
///
/// With $f = \nabla U(\theta)$ (sum over N data), $\bar f = f/N$, $u = p\sqrt\eta$,
/// $\alpha = \Xi\sqrt\eta$, $\zeta \sim N(0, I)$ and the thermostat's mass $\mu$ (1 in the paper):
///
/// $$ v_t = \sigma v_{t-1} + (1-\sigma)\ \bar f_t^2, \qquad
///    g_t = 1 / \sqrt{\lambda + \sqrt{v_t}} $$
///
/// **Symmetric splitting** (Algorithm 2, Exploration_S): the five steps A B O B A,
///
/// $$ \begin{aligned}
/// A:\quad & \theta \mathrel{+}= g_t u / 2, \qquad \alpha \mathrel{+}= (u^2 - \eta/\beta_t)/(2\mu) \cr
/// B:\quad & u \leftarrow e^{-\alpha/2} u \cr
/// O:\quad & u \mathrel{-}= \eta\ g_t f_t - \sqrt{2 G_2\ \eta^{3/2}/\beta_t}\ \zeta_t
///           - \eta \left[ \tfrac{1}{\beta_t} \nabla G_1 + \mu G_1 (\Xi - G_2) \nabla G_2 \right] \cr
/// B:\quad & u \leftarrow e^{-\alpha/2} u \cr
/// A:\quad & \alpha \mathrel{+}= (u^2 - \eta/\beta_t)/(2\mu), \qquad \theta \mathrel{+}= g_t u / 2
/// \end{aligned} $$
///
/// As printed, $f_t$ is taken at $\theta_{t-1}$, before the first A: first order in
/// $h = \sqrt\eta$. With [`GradientAt::Midpoint`] it is taken after it, where O acts: second order,
/// at the same cost. The parameters you hold between steps are then those after the first A; the two
/// halves of A that meet there are done as one.
///
/// **What the thermostat reads.** Where a friction acts on directions of different stiffness, the stiff
/// ones have more than their share of $u^2$ at a finite step, and a thermostat that holds the mean
/// makes the soft ones too cold. [`ThermostatReads::Velocity`] reads the velocity between the ends
/// of two steps instead, which is the same for all of them.
///
/// **Euler** (Algorithm 1, Exploration_E):
///
/// $$ \alpha_t = \alpha_{t-1} + (u_{t-1}^2 - \eta/\beta_t)/\mu, \quad
///    u_t = (1-\alpha_t) u_{t-1} - \eta g_t f_t + \sqrt{2 G_2 \eta^{3/2}/\beta_t}\ \zeta_t + \eta[\cdot], \quad
///    \theta_t = \theta_{t-1} + g_t u_t $$
///
/// **Refinement** is the limit $\beta\to\infty$: no noise, no corrections, $\alpha$ frozen.
///
/// # What it samples
///
/// At constant $\beta$ and for metrics that are constant, or functions of theta with the corrections
/// on: $\theta \sim e^{-\beta U}$, $u \sim N(0, \eta/\beta)$, $\Xi \sim N(G_2, 1/(\beta\mu))$
/// (Lemma 1), up to the integrator's error. The RMSprop metric is neither: its bias is measured by
/// the example `metric_bias` and listed in the guide. [`Santa::sampler`] freezes the metric.
///
/// # In single precision
///
/// $\alpha$ moves by as little as $\eta/\beta$ a step, often less than an `f32` of the size of
/// $\alpha$ can resolve. What is stored is therefore $\alpha - \alpha_0$, not $\alpha$.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Santa {
    /// Splitting or Euler.
    pub integrator: Integrator,
    /// Where the splitting takes the gradient. Euler has only the start.
    pub gradient_at: GradientAt,
    /// $\eta$ and C, or learning rate and momentum.
    pub step: StepSize,
    /// $\beta_t$
    pub beta: InverseTemperature,
    /// How long it explores.
    pub exploration: Exploration,
    /// What $\alpha$ does in refinement: frozen, or moving as in Santa-r.
    pub alpha_in_refinement: AlphaInRefinement,
    /// $G_1$
    pub metric: Metric,
    /// From this step on the metric stays as it is.
    pub freeze_metric_after: Option<u64>,
    /// $v_0$
    pub second_moment_start: SecondMomentStart,
    /// $\lambda$ while exploring.
    pub lambda: f64,
    /// $\lambda$ while refining; `None` for the same.
    pub lambda_refining: Option<f64>,
    /// $G_2$
    pub diffusion: Diffusion,
    /// Which of the paper's two noise scales.
    pub noise_scale: NoiseScale,
    /// The terms in $\nabla G_1$ and $\nabla G_2$.
    pub corrections: Corrections,
    /// a of $f \leftarrow a f_{t-1} + (1-a) f_t$; 0 for none.
    pub smoothing: f64,
    /// The gradient's push in one piece, or half after each half of the friction.
    pub push: Push,
    /// Rescale u and $\alpha - \alpha_0$ by $\sqrt{\eta_t/\eta_{t-1}}$ while exploring, which keeps p and
    /// $\Xi - \Xi_0$ continuous when $\eta$ changes; in the paper's units $\Xi_0 = C$ stays as well.
    pub rescale: bool,
    /// $\mu$: how slowly the friction reacts.
    pub thermostat_mass: ThermostatMass,
    /// What the thermostat holds at the temperature.
    #[serde(skip_serializing_if = "ThermostatReads::is_momentum")]
    pub thermostat_reads: ThermostatReads,
    /// Least friction, as a multiple of $\alpha_0$; `None` (in files `"none"`) for no bound. An element that left exploration with
    /// $\alpha \le 0$ would never be damped.
    #[serde(with = "bound")]
    pub friction_floor: Option<f64>,
    /// Largest friction, as a multiple of $\alpha_0$; `None` (in files `"none"`) for no bound. Euler is unstable from
    /// $\alpha = 2$ on.
    #[serde(with = "bound")]
    pub friction_ceiling: Option<f64>,
    /// Whether the bounds hold while exploring, too. A long descent heats the momentum, and the
    /// thermostat answers with friction that refinement would keep; bounds prevent that. A sampler
    /// needs them off: they cut the law of $\Xi$.
    pub bounds_while_exploring: bool,
    /// Where the momentum starts.
    pub initial_momentum: InitialMomentum,
    /// Multiply the gradient by the momentum weight (supplement, section "Relationship to Adam"):
    /// $\alpha$ for Euler, $2\sinh(\alpha/2)$ for the splitting. Only without exploration.
    pub adam_form: bool,
}

/// Where the gradient of a splitting step is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GradientAt {
    /// At $\theta_{t-1}$, as printed: first order.
    Start,
    /// After the first half of A: second order.
    #[default]
    Midpoint,
}

/// How long Santa explores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exploration {
    /// The steps 1 to this one.
    Steps(u64),
    /// For ever: a sampler.
    Always,
    /// Not at all: an optimizer.
    Never,
}

impl Exploration {
    fn is_exploring(&self, t: u64) -> bool {
        match self {
            Exploration::Steps(n) => t <= *n,
            Exploration::Always => true,
            Exploration::Never => false,
        }
    }
}

/// What $\alpha$ does in refinement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlphaInRefinement {
    /// Stays: Santa.
    #[default]
    Frozen,
    /// $\alpha \mathrel{+}= u^2 - \eta/\beta_t$: Santa-r in the words of the paper.
    WithTemperature,
    /// $\alpha \mathrel{+}= u^2$: Santa-r as the authors ran it.
    Accumulating,
}

/// Start of the second moment v.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecondMomentStart {
    /// $v_0 = 0$
    Zero,
    /// $v_1 = \bar f_1^2$
    #[default]
    FirstSquaredGradient,
}

/// Variance of the noise on u.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum NoiseScale {
    /// $2 G_2 \eta^{3/2}/\beta$: the supplement's, and the right one.
    #[default]
    Supplement,
    /// $2 G_2 \eta/\beta$: the main text's, which is not that of the equation it discretises.
    MainText,
    /// $2 \eta v_t / (\beta \cdot \mathrm{divisor})$: what the authors' recurrent experiment drew.
    SecondMoment {
        /// Their number of time steps.
        divisor: f64,
    },
}

/// The correction terms of a metric that changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Corrections {
    /// Left out, as in the paper's practice.
    #[default]
    Off,
    /// For the adaptive metrics by the paper's difference quotient
    /// $\nabla G \approx (g_t - g_{t-1}) / (g_t u_{t-1})$, for a given one by its derivative.
    On {
        /// 1/u is replaced by $u/(u^2 + \epsilon^2)$ with this share of the thermal momentum,
        /// $\epsilon = \mathrm{guard} \sqrt{\eta/\beta}$.
        guard: f64,
    },
}

/// The gradient's push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Push {
    /// Between the two halves of the friction.
    #[default]
    Whole,
    /// Half after each of them, as the authors' MNIST code.
    Halves,
}

/// $\mu$, the inertia of the friction: $\Xi \sim N(G_2, 1/(\beta\mu))$.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThermostatMass {
    /// $\mu$ itself; 1 in the paper.
    Mass(f64),
    /// By what it does: the standard deviation of $\Xi$ at $\beta = 1$, as a share of $\Xi_0$.
    Spread(f64),
}

/// What the thermostat holds at the temperature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThermostatReads {
    /// The momentum, as in the paper: $\alpha \mathrel{+}= (u^2 - \eta/\beta)/\mu$.
    #[default]
    Momentum,
    /// The velocity between the ends of two steps, for samplers:
    ///
    /// $$ \alpha \mathrel{+}= \frac1\mu \left[ \left(\frac{u_{t-1} + u_t}{2}\right)^2
    ///    {} - \frac\eta\beta\ e^{-\alpha/2} \right]. $$
    ///
    /// With a harmonic potential of *any* frequencies $\omega$, friction $\alpha$ and noise of
    /// variance $s^2$ in u, the ends of the steps, $\theta - g u/2$ with the theta that is held
    /// between steps, have the variance
    ///
    /// $$ \mathrm{Var}[\theta_{\text{end}}] = \frac{s^2}{4 \eta\ \omega^2 \sinh(\alpha/2)},
    ///    \qquad \mathbb{E}\left[\left(\tfrac{u_{t-1} + u_t}{2}\right)^2\right]
    ///    = \eta\ \omega^2 e^{-\alpha/2}\ \mathrm{Var}[\theta_{\text{end}}], $$
    ///
    /// so that holding this velocity gives every direction its own variance, $1/(\beta\omega^2)$,
    /// whatever the step. The variance of u, in contrast, grows with $\omega$, without bound at
    /// $\omega\sqrt\eta = 2$, and so does that of the theta between steps. (From about
    /// $\omega\sqrt\eta = 1$ on the thermostats of coupled coordinates disturb each other, and the
    /// directions have different temperatures after all.)
    ///
    /// Only for the splitting with the gradient at the midpoint.
    Velocity,
}

impl ThermostatReads {
    fn is_momentum(&self) -> bool {
        *self == ThermostatReads::Momentum
    }
}

/// Start of u.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitialMomentum {
    /// $u_0 \sim N(0, \eta/\beta_1)$
    #[default]
    Thermal,
    /// $u_0 = 0$
    Zero,
}

impl Santa {
    pub(crate) fn check(&self, target: &Target) -> Result<()> {
        self.step.check()?;
        self.beta.check()?;
        self.metric.check()?;
        self.diffusion.check()?;
        check::positive("lambda", self.lambda)?;
        if let Some(lambda) = self.lambda_refining {
            check::positive("lambda_refining", lambda)?;
        }
        check::fraction("smoothing", self.smoothing)?;
        match self.thermostat_mass {
            ThermostatMass::Mass(m) => check::positive("thermostat_mass.mass", m)?,
            ThermostatMass::Spread(r) => check::positive("thermostat_mass.spread", r)?,
        }
        if let Some(floor) = self.friction_floor {
            check::non_negative("friction_floor", floor)?;
        }
        if let Some(ceiling) = self.friction_ceiling
            && !(ceiling >= self.friction_floor.unwrap_or(0.0) && ceiling.is_finite())
        {
            let allowed = "it must be finite and not below friction_floor";
            return Err(Error::setting("friction_ceiling", ceiling, allowed));
        }
        if self.freeze_metric_after == Some(0) && self.metric.keeps_history() {
            let allowed = "the metric would be frozen before it has seen a gradient; at least 1";
            return Err(Error::setting("freeze_metric_after", 0, allowed));
        }
        if let NoiseScale::SecondMoment { divisor } = self.noise_scale {
            check::positive("noise_scale.divisor", divisor)?;
            if !self.metric.keeps_history() {
                let allowed = "it needs a metric with a second moment (rms_prop or adagrad)";
                return Err(Error::setting("noise_scale", "second_moment", allowed));
            }
        }
        if let Corrections::On { guard } = self.corrections {
            check::non_negative("corrections.guard", guard)?;
        }
        let splitting = self.integrator == Integrator::Splitting;
        let at_midpoint = splitting && self.gradient_at == GradientAt::Midpoint;
        if !self.thermostat_reads.is_momentum() && !at_midpoint {
            let allowed =
                "only the splitting with the gradient at the midpoint has it; use `momentum`";
            return Err(Error::setting("thermostat_reads", "velocity", allowed));
        }
        if self.integrator == Integrator::Euler {
            if self.push == Push::Halves {
                let allowed = "only the splitting has two halves; use `whole`";
                return Err(Error::setting("push", "halves", allowed));
            }
            for (i, segment) in target.layout().segments().iter().enumerate() {
                let scale = target.settings(i).lr_scale;
                let step = self.step.at(1, self.integrator, target.data_size(), scale)?;
                if step.alpha0 >= 2.0 {
                    let allowed = format!(
                        "alpha_0 = {} for segment `{}`: Euler needs it below 2",
                        step.alpha0,
                        segment.name()
                    );
                    return Err(Error::setting("step", format!("{:?}", self.step), allowed));
                }
            }
        }
        if self.adam_form && self.exploration != Exploration::Never {
            let allowed = "it scales the gradient but not the noise: only with exploration = never";
            return Err(Error::setting("adam_form", true, allowed));
        }
        Ok(())
    }

    /// Names of the state vectors; an empty name is a vector that these settings do without.
    pub(crate) fn slots(&self) -> [&'static str; SLOTS] {
        [
            "u",
            "alpha_shift",
            if self.metric.keeps_history() { "v" } else { "" },
            if self.smoothing > 0.0 { "f_smooth" } else { "" },
        ]
    }

    pub(crate) fn initial(&self, slot: &str, physics: &Physics) -> Initial {
        if slot == "u" && self.initial_momentum == InitialMomentum::Thermal {
            Initial::Normal { sd: (physics.eta / physics.beta).sqrt() }
        } else {
            Initial::Zero
        }
    }

    /// Exploring or refining at step t.
    pub fn stage(&self, t: u64) -> Stage {
        if self.exploration.is_exploring(t) { Stage::Exploring } else { Stage::Refining }
    }

    /// Step size, temperature and base friction at step t.
    pub fn physics(&self, t: u64, n: DataSize, lr: LrScale) -> Result<Physics> {
        let at = |t: u64| {
            self.step.at(t, self.integrator, n, lr.product()).map(|mut step| {
                if self.adam_form && matches!(self.step, StepSize::Practical { .. }) {
                    // The momentum weight multiplies the gradient already.
                    step.eta /= rest_factor(self.integrator, step.alpha0);
                }
                step
            })
        };
        let now = at(t)?;
        let stage = self.stage(t);
        let alpha0 = if self.step.keeps_momentum() {
            now.alpha0
        } else {
            // alpha_0 = C sqrt(eta) follows eta only as long as alpha itself is rescaled.
            let last_rescaled = match self.exploration {
                _ if !self.rescale => 1,
                Exploration::Steps(n) => t.min(n).max(1),
                Exploration::Always => t,
                Exploration::Never => 1,
            };
            at(last_rescaled)?.alpha0
        };
        let rescale = if self.rescale && stage == Stage::Exploring && t > 1 {
            (now.eta / at(t - 1)?.eta).sqrt()
        } else {
            1.0
        };
        let mass = match self.thermostat_mass {
            ThermostatMass::Mass(mass) => mass,
            ThermostatMass::Spread(share) => now.eta / (share * alpha0).powi(2),
        };
        Ok(Physics { stage, eta: now.eta, beta: self.beta.at(t)?, alpha0, rescale, mass })
    }

    /// Bounds of alpha where they hold: in refinement, and while exploring if so set.
    pub fn friction_bounds(&self, physics: &Physics) -> Option<(f64, f64)> {
        let hold = physics.stage == Stage::Refining || self.bounds_while_exploring;
        let floor = self.friction_floor.map_or(f64::NEG_INFINITY, |x| x * physics.alpha0);
        let ceiling = self.friction_ceiling.map_or(f64::INFINITY, |x| x * physics.alpha0);
        hold.then_some((floor, ceiling))
    }

    /// Whether step t updates v.
    pub fn metric_moves(&self, t: u64) -> bool {
        self.freeze_metric_after.is_none_or(|last| t <= last)
    }

    /// $\lambda$ at step t. A frozen metric keeps that of the step it was frozen after.
    pub fn lambda_at(&self, t: u64) -> f64 {
        match (self.stage(t), self.lambda_refining) {
            (Stage::Refining, Some(lambda)) => lambda,
            _ => self.lambda,
        }
    }
}
