//! Stochastic gradient Langevin dynamics (Welling and Teh, 2011).

use super::engine::{Block, Context, Kernel, LANE};
use crate::error::Result;
use crate::real::Real;
use crate::schedule::InverseTemperature;
use crate::units::Rate;
use serde::{Deserialize, Serialize};

/// Settings of SGLD.
///
/// $$ \theta \mathrel{-}= \eta\, f - \sqrt{2\eta/\beta}\;\zeta $$
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
        let eta = self.rate.eta_at(c.t, n, c.segment.lr_scale)?;
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
