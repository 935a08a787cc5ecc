//! Stochastic gradient Langevin dynamics (Welling and Teh, 2011).

use super::engine::{Block, Context, Kernel, LANE};
use crate::error::Result;
use crate::real::Real;
use crate::schedule::InverseTemperature;
use crate::units::Rate;
use serde::{Deserialize, Serialize};

/// Settings of SGLD.
///
/// $$ \theta \mathrel{-}= \eta\ f - \sqrt{2\eta/\beta}\ \zeta $$
///
/// with $f = N \bar f$ the gradient of the sum. Samples $e^{-\beta U}$ up to an error of first
/// order in $\eta$: for $U = \kappa\theta^2/2$ the variance is
/// $1/(\beta\kappa(1 - \eta\kappa/2))$. Minibatch noise adds to the temperature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sgld {
    /// $\eta$, or a learning rate on the mean gradient.
    pub rate: Rate,
    /// $\beta_t$
    pub beta: InverseTemperature,
}

impl Default for Sgld {
    fn default() -> Self {
        Sgld { rate: Rate::lr(1e-2), beta: InverseTemperature::posterior() }
    }
}

impl Sgld {
    /// A sampler of the posterior.
    pub fn new(rate: Rate) -> Self {
        Sgld { rate, ..Sgld::default() }
    }
    /// At another temperature.
    pub fn beta(mut self, beta: InverseTemperature) -> Self {
        self.beta = beta;
        self
    }
    pub(crate) fn check(&self) -> Result<()> {
        self.rate.check()?;
        self.beta.check()
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Scalars<F> {
    eta_n: F,
    sd: F,
}

impl<F: Real> Kernel<F, 0> for Sgld {
    type Scalars = Scalars<F>;

    fn scalars(&self, c: &Context<'_>) -> Result<Scalars<F>> {
        let n = c.target.data_size();
        let eta = self.rate.eta_at(c.t, n, c.lr.product())?;
        Ok(Scalars {
            eta_n: F::from_f64(eta * n.as_f64()),
            sd: F::from_f64((2.0 * eta / self.beta.at(c.t)?).sqrt()),
        })
    }

    fn noisy(_: &Scalars<F>) -> bool {
        true
    }

    #[inline(always)]
    fn update(&self, s: &Scalars<F>, block: &mut Block<F, 0>) {
        let Block { theta, f, zeta, .. } = block;
        for i in 0..LANE {
            theta[i] += s.sd * zeta[i] - s.eta_n * f[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::testing::{Draw, Element, Reference, Start, follows};
    use crate::schedule::Schedule;

    struct Plain {
        settings: Sgld,
        n: f64,
        /// 2 in the variance of the noise.
        two: f64,
    }

    impl Reference for Plain {
        fn step(&mut self, t: u64, theta: &mut [f64], elements: &[Element]) {
            let beta = self.settings.beta.schedule().at(t);
            for e in elements {
                let eta = e.lr_scale
                    * match &self.settings.rate {
                        Rate::Eta(eta) => eta.at(t),
                        Rate::Lr(lr) => lr.at(t) / self.n,
                    };
                theta[e.i] -= eta * self.n * e.f - (self.two * eta / beta).sqrt() * e.zeta;
            }
        }
        fn state(&self, _: &str) -> Option<&[f64]> {
            None
        }
    }

    fn settings(draw: &mut Draw) -> Sgld {
        let size = draw.log_between(1e-4, 1e-2);
        let beta = Schedule::power(draw.log_between(0.1, 10.0), 1.0, 0.5);
        Sgld {
            rate: draw.one_of(&[
                Rate::eta(size),
                Rate::lr(size),
                Rate::lr(Schedule::block_decay(size, 0.5, 2)),
            ]),
            beta: draw
                .one_of(&[InverseTemperature::posterior(), InverseTemperature::annealed(beta)]),
        }
    }

    fn plain(two: f64) -> impl Fn(&Sgld, &Start<'_>) -> Plain {
        move |settings, start| Plain { settings: settings.clone(), n: start.n(), two }
    }

    #[test]
    fn the_kernel_follows_the_plain_reference() {
        follows(settings, plain(2.0)).unwrap();
    }

    #[test]
    fn a_reference_with_half_the_variance_does_not_match() {
        follows(settings, plain(1.0)).unwrap_err();
    }
}
