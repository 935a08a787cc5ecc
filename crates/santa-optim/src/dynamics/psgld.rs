//! Preconditioned SGLD (Li, Chen, Carlson, Carin, 2016).

use super::engine::{Block, Context, Kernel, LANE, Lane};
use super::santa::SeparableMetric;
use crate::error::{Result, check};
use crate::real::Real;
use crate::schedule::InverseTemperature;
use crate::units::Rate;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Settings of pSGLD.
///
/// $$ v \leftarrow \sigma v + (1-\sigma) \bar f^{\,2}, \qquad G = 1/(\lambda + \sqrt v), \qquad
///    \theta \mathrel{-}= \eta \left( G f - \tfrac1\beta \Gamma \right)
///      - \sqrt{2\eta G/\beta}\;\zeta, \qquad \Gamma_i = \partial G_{ii}/\partial\theta_i $$
///
/// (the published $\epsilon$ is $2\eta$). $\Gamma$ makes up for a metric that varies with theta.
/// For the RMSprop metric, which is history and not a function of theta, it can only be estimated,
/// by the change of G over the change of theta; most implementations leave it out. The law is exact,
/// up to the step's error, for a metric that is frozen, or given as a function with its derivative.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Psgld {
    /// $\eta$, or a learning rate on the mean gradient.
    pub rate: Rate,
    /// $\beta_t$
    pub beta: InverseTemperature,
    /// Where G comes from.
    pub metric: PsgldMetric,
    /// $\sigma$, in [0, 1).
    pub sigma: f64,
    /// $\lambda$
    pub lambda: f64,
    /// From this step on the metric stays as it is.
    pub freeze_metric_after: Option<u64>,
    /// $\Gamma$
    pub gamma: Gamma,
    /// Leave the noise out: RMSprop.
    pub noiseless: bool,
}

/// Where pSGLD's metric comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PsgldMetric {
    /// From the squared gradients.
    #[default]
    RmsProp,
    /// A function, handed over as a [`SeparableMetric`] (its g is G) when the dynamics are built.
    Given,
}

/// The term $\Gamma$ of pSGLD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Gamma {
    /// Left out.
    #[default]
    Off,
    /// $\Delta G/\Delta\theta$ of the last step (for a given metric: its derivative), where
    /// $1/\Delta\theta$ is replaced by $\Delta\theta/(\Delta\theta^2 + \epsilon^2)$ with this share
    /// of the noise, $\epsilon = \mathrm{guard}\sqrt{2\eta G/\beta}$.
    On {
        /// Share of the noise's standard deviation.
        guard: f64,
    },
}

impl Default for Psgld {
    fn default() -> Self {
        Psgld {
            rate: Rate::lr(1e-3),
            beta: InverseTemperature::posterior(),
            metric: PsgldMetric::RmsProp,
            sigma: 0.99,
            lambda: 1e-5,
            freeze_metric_after: None,
            gamma: Gamma::Off,
            noiseless: false,
        }
    }
}

impl Psgld {
    /// A sampler of the posterior.
    pub fn new(rate: Rate) -> Self {
        Psgld { rate, ..Psgld::default() }
    }
    /// At another temperature.
    pub fn beta(mut self, beta: InverseTemperature) -> Self {
        self.beta = beta;
        self
    }
    pub(crate) fn check(&self) -> Result<()> {
        self.rate.check()?;
        self.beta.check()?;
        check::fraction("sigma", self.sigma)?;
        check::positive("lambda", self.lambda)?;
        match self.gamma {
            Gamma::On { guard } => check::positive("gamma.guard", guard),
            Gamma::Off => Ok(()),
        }
    }
    fn estimates_gamma(&self) -> bool {
        self.metric == PsgldMetric::RmsProp && self.gamma != Gamma::Off
    }
    pub(crate) fn slots(&self) -> [&'static str; 2] {
        [
            if self.metric == PsgldMetric::RmsProp { "v" } else { "" },
            if self.estimates_gamma() { "delta" } else { "" },
        ]
    }
}

pub(crate) struct PsgldKernel<F: Real> {
    pub settings: Psgld,
    pub given: Option<Arc<dyn SeparableMetric<F>>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Scalars<F> {
    eta_n: F,
    eta_over_beta: F,
    /// Standard deviation of the noise for G = 1.
    sd: F,
    noisy: bool,
    sigma: F,
    one_minus_sigma: F,
    lambda: F,
    moves: bool,
    /// $\Gamma$ estimated from the history.
    estimated: bool,
    /// $\Gamma$ from the derivative.
    derived: bool,
    guard_square: F,
}

impl<F: Real> Kernel<F, 2> for PsgldKernel<F> {
    type Scalars = Scalars<F>;

    fn scalars(&self, c: &Context<'_>) -> Result<Scalars<F>> {
        let s = &self.settings;
        let n = c.target.data_size();
        let eta = s.rate.eta_at(c.t, n, c.segment.lr_scale)?;
        let beta = s.beta.at(c.t)?;
        let guard = match s.gamma {
            Gamma::On { guard } => guard,
            Gamma::Off => 1.0,
        };
        let variance = 2.0 * eta / beta;
        Ok(Scalars {
            eta_n: F::from_f64(eta * n.as_f64()),
            eta_over_beta: F::from_f64(eta / beta),
            sd: F::from_f64(variance.sqrt()),
            noisy: !s.noiseless,
            sigma: F::from_f64(s.sigma),
            one_minus_sigma: F::from_f64(1.0 - s.sigma),
            lambda: F::from_f64(s.lambda),
            moves: s.freeze_metric_after.is_none_or(|last| c.t <= last),
            estimated: s.estimates_gamma() && !s.noiseless,
            derived: s.metric == PsgldMetric::Given && s.gamma != Gamma::Off && !s.noiseless,
            guard_square: F::from_f64(guard * guard * variance),
        })
    }

    fn writes(s: &Scalars<F>) -> [bool; 2] {
        [s.moves, s.estimated]
    }

    fn noisy(s: &Scalars<F>) -> bool {
        s.noisy
    }

    #[inline(always)]
    fn update(&self, s: &Scalars<F>, block: &mut Block<F, 2>) {
        let Block { theta, f, zeta, state: [v, delta], first } = block;
        let mut g = Lane::splat(F::ONE);
        let mut gamma = Lane::splat(F::ZERO);
        if let Some(given) = &self.given {
            given.evaluate(*first, &theta.0, &mut g.0, &mut gamma.0);
            if !s.derived {
                gamma = Lane::splat(F::ZERO);
            }
        } else {
            let mut before = Lane::splat(F::ZERO);
            if s.estimated {
                for i in 0..LANE {
                    before[i] = F::ONE / (s.lambda + v[i].sqrt());
                }
            }
            if s.moves {
                for i in 0..LANE {
                    v[i] = s.sigma * v[i] + s.one_minus_sigma * f[i] * f[i];
                }
            }
            for i in 0..LANE {
                g[i] = F::ONE / (s.lambda + v[i].sqrt());
            }
            if s.estimated {
                for i in 0..LANE {
                    let spread = s.guard_square * g[i];
                    gamma[i] = (g[i] - before[i]) * delta[i] / (delta[i] * delta[i] + spread);
                }
            }
        }
        let mut change = Lane::splat(F::ZERO);
        for i in 0..LANE {
            change[i] = s.eta_over_beta * gamma[i] - s.eta_n * g[i] * f[i];
        }
        if s.noisy {
            for i in 0..LANE {
                change[i] += s.sd * g[i].sqrt() * zeta[i];
            }
        }
        for i in 0..LANE {
            theta[i] += change[i];
        }
        if s.estimated {
            *delta = change;
        }
    }
}
