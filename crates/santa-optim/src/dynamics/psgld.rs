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
/// $$ v \leftarrow \sigma v + (1-\sigma) \bar f^2, \qquad G = 1/(\lambda + \sqrt v), \qquad
///    \theta \mathrel{-}= \eta \left( G f - \tfrac1\beta \Gamma \right)
///      - \sqrt{2\eta G/\beta}\ \zeta, \qquad \Gamma_i = \partial G_{ii}/\partial\theta_i $$
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
    /// Whether $\Gamma$ is estimated from the last step, which is then kept.
    pub fn estimates_gamma(&self) -> bool {
        self.metric == PsgldMetric::RmsProp && self.gamma != Gamma::Off
    }
    pub(crate) fn slots(&self) -> [&'static str; 2] {
        [
            if self.metric == PsgldMetric::RmsProp { "v" } else { "" },
            if self.estimates_gamma() { "delta" } else { "" },
        ]
    }
}

#[derive(Clone)]
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
        let eta = s.rate.eta_at(c.t, n, c.lr.product())?;
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
        let Block { theta, f, zeta, state: [v, delta], first, filled } = block;
        let mut g = Lane::splat(F::ONE);
        let mut gamma = Lane::splat(F::ZERO);
        if let Some(given) = &self.given {
            let here = ..*filled;
            given.evaluate(*first, &theta.0[here], &mut g.0[here], &mut gamma.0[here]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::Stepper;
    use crate::dynamics::testing::{Draw, Element, Reference, Start, cases, follow, follows};
    use crate::schedule::Schedule;

    /// A function of theta for a metric, and its derivative.
    fn hill(theta: f64) -> (f64, f64) {
        (1.0 + 0.5 * theta.sin(), 0.5 * theta.cos())
    }
    struct Hill;
    impl<F: Real> SeparableMetric<F> for Hill {
        fn evaluate(&self, _: usize, theta: &[F], g: &mut [F], dg: &mut [F]) {
            for (k, x) in theta.iter().enumerate() {
                let (value, slope) = hill(x.to_f64());
                g[k] = F::from_f64(value);
                dg[k] = F::from_f64(slope);
            }
        }
    }

    struct Plain {
        settings: Psgld,
        n: f64,
        v: Vec<f64>,
        delta: Vec<f64>,
        /// The noise is scaled by G instead of its root.
        rootless: bool,
    }

    impl Reference for Plain {
        fn step(&mut self, t: u64, theta: &mut [f64], elements: &[Element]) {
            let s = &self.settings;
            let beta = s.beta.schedule().at(t);
            for e in elements {
                let eta = e.lr_scale
                    * match &s.rate {
                        Rate::Eta(eta) => eta.at(t),
                        Rate::Lr(lr) => lr.at(t) / self.n,
                    };
                let (v, delta) = (&mut self.v[e.i], &mut self.delta[e.i]);
                let metric = |v: f64| 1.0 / (s.lambda + v.sqrt());
                let (g, gamma) = match s.metric {
                    PsgldMetric::Given => hill(theta[e.i]),
                    PsgldMetric::RmsProp => {
                        let before = metric(*v);
                        if s.freeze_metric_after.is_none_or(|last| t <= last) {
                            *v = s.sigma * *v + (1.0 - s.sigma) * e.f.powi(2);
                        }
                        let g = metric(*v);
                        let guard = match s.gamma {
                            Gamma::On { guard } => guard,
                            Gamma::Off => 1.0,
                        };
                        let epsilon = guard * (2.0 * eta * g / beta).sqrt();
                        (g, (g - before) * *delta / (delta.powi(2) + epsilon.powi(2)))
                    }
                };
                let gamma = if s.gamma == Gamma::Off || s.noiseless { 0.0 } else { gamma };
                let mut change = -eta * (g * self.n * e.f - gamma / beta);
                if !s.noiseless {
                    let spread = if self.rootless { g } else { g.sqrt() };
                    change += (2.0 * eta / beta).sqrt() * spread * e.zeta;
                }
                theta[e.i] += change;
                if s.gamma != Gamma::Off && !s.noiseless {
                    *delta = change;
                }
            }
        }
        fn state(&self, name: &str) -> Option<&[f64]> {
            match name {
                "v" => Some(&self.v),
                "delta" => Some(&self.delta),
                _ => None,
            }
        }
    }

    fn settings(draw: &mut Draw) -> Psgld {
        let size = draw.log_between(1e-4, 1e-2);
        Psgld {
            rate: draw.one_of(&[Rate::eta(size), Rate::lr(Schedule::block_decay(size, 0.5, 2))]),
            beta: InverseTemperature::fixed(draw.log_between(0.1, 10.0)),
            metric: PsgldMetric::RmsProp,
            sigma: draw.between(0.5, 0.99),
            lambda: draw.log_between(1e-2, 1.0),
            freeze_metric_after: draw.one_of(&[None, Some(3)]),
            gamma: Gamma::Off,
            noiseless: draw.one_of(&[false, false, true]),
        }
    }

    fn with_gamma(draw: &mut Draw) -> Psgld {
        let gamma = Gamma::On { guard: draw.between(0.3, 2.0) };
        Psgld { gamma, ..settings(draw) }
    }

    fn plain(settings: &Psgld, start: &Start<'_>) -> Plain {
        Plain {
            settings: settings.clone(),
            n: start.n(),
            v: start.zeros(),
            delta: start.zeros(),
            rootless: false,
        }
    }

    #[test]
    fn the_kernel_follows_the_plain_reference_without_gamma() {
        follows(settings, plain).unwrap();
    }

    #[test]
    fn the_kernel_follows_the_plain_reference_with_gamma() {
        follows(with_gamma, plain).unwrap();
    }

    #[test]
    fn a_reference_without_gamma_does_not_match_a_kernel_with_it() {
        let forgetful =
            |s: &Psgld, start: &Start<'_>| plain(&Psgld { gamma: Gamma::Off, ..s.clone() }, start);
        follows(|draw| Psgld { noiseless: false, ..with_gamma(draw) }, forgetful).unwrap_err();
    }

    #[test]
    fn a_reference_that_forgets_the_root_in_the_noise_does_not_match() {
        let rootless = |s: &Psgld, start: &Start<'_>| Plain { rootless: true, ..plain(s, start) };
        follows(|draw| Psgld { noiseless: false, ..settings(draw) }, rootless).unwrap_err();
    }

    #[test]
    fn the_kernel_takes_gamma_from_the_derivative_of_a_given_metric() {
        fn run<F: Real>(gamma: Gamma, reference: Gamma) -> Result<(), String> {
            for case in cases() {
                let mut settings = settings(&mut Draw::new(case.seed));
                settings.metric = PsgldMetric::Given;
                settings.noiseless = false;
                settings.gamma = gamma;
                let expected = Psgld { gamma: reference, ..settings.clone() };
                let (seed, chain) = (case.seed, case.chain);
                let stepper =
                    Stepper::<F>::with_metric(settings, &case.target, seed, chain, Arc::new(Hill));
                follow(&case, stepper.unwrap(), |start| Box::new(plain(&expected, start)))?;
            }
            Ok(())
        }
        let on = Gamma::On { guard: 1.0 };
        for gamma in [Gamma::Off, on] {
            run::<f64>(gamma, gamma).unwrap();
            run::<f32>(gamma, gamma).unwrap();
        }
        run::<f64>(Gamma::Off, on).unwrap_err();
    }
}
