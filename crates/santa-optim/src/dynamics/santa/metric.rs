//! The metrics $G_1$ and $G_2$: how far each parameter moves, and how strongly it is shaken.

use crate::error::{Result, check};
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// $G_1$, a diagonal metric with the elements g.
///
/// The adaptive ones are history, not functions of theta: as long as they change, the stationary
/// law is not exactly $e^{-\beta U}$ (see [`Santa`](super::Santa) for how far off). Freeze them
/// after a warm-up with [`Santa::freeze_metric_after`](super::Santa::freeze_metric_after) when
/// samples must be right.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Metric {
    /// $v_t = \sigma v_{t-1} + (1-\sigma) \bar f_t^2$, $g_t = 1/\sqrt{\lambda + \sqrt{v_t}}$.
    RmsProp {
        /// Memory of the squared gradients, in [0, 1).
        sigma: f64,
    },
    /// $v_t = v_{t-1} + \bar f_t^2$, $g_t = 1/\sqrt{\lambda + \sqrt{v_t}}$.
    Adagrad,
    /// g = 1.
    Identity,
    /// A function of theta, handed over as a [`SeparableMetric`] when the dynamics are built.
    Given,
}

impl Metric {
    /// Whether it comes of the gradients seen so far, by way of v.
    pub fn keeps_history(&self) -> bool {
        matches!(self, Metric::RmsProp { .. } | Metric::Adagrad)
    }
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Metric::RmsProp { sigma } => check::fraction("metric.sigma", *sigma),
            _ => Ok(()),
        }
    }
}

/// A metric that is a function of theta, one parameter at a time: $g_i(\theta_i)$.
///
/// With the correction terms on, and this derivative right, Lemma 1 of the paper is exact.
pub trait SeparableMetric<F: Real>: Send + Sync {
    /// Writes $g_i(\theta_i)$, positive, and $dg_i/d\theta_i$ for the parameters `first..`.
    fn evaluate(&self, first: usize, theta: &[F], g: &mut [F], dg: &mut [F]);
}

/// $G_2$, the strength of the noise, and so the mean of the friction $\Xi$.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Diffusion {
    /// $G_2 = G_1$, at the step before, as printed in the paper.
    SameAsMetric,
    /// A constant, the same for all parameters.
    Constant(f64),
    /// The constant that keeps the initial friction: $G_2 = \alpha_0/\sqrt\eta$. The temperature is
    /// then what it says from the first step on.
    MatchFriction,
}

impl Diffusion {
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Diffusion::Constant(g2) => check::positive("diffusion", *g2),
            _ => Ok(()),
        }
    }
}
