//! Adadelta (Zeiler, 2012).

use super::engine::{Block, Context, Kernel, LANE};
use crate::error::{Result, check};
use crate::real::Real;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// Settings of Adadelta.
///
/// $$ v \leftarrow \rho v + (1-\rho) \bar f^{\,2}, \qquad
///    \delta = \bar f \sqrt{d + \epsilon} / \sqrt{v + \epsilon}, \qquad
///    d \leftarrow \rho d + (1-\rho) \delta^2, \qquad \theta \mathrel{-}= lr\, \delta $$
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adadelta {
    /// Learning rate; 1 in the paper.
    pub lr: Schedule,
    /// $\rho$, in [0, 1).
    pub rho: f64,
    /// $\epsilon$
    pub epsilon: f64,
}

impl Default for Adadelta {
    fn default() -> Self {
        Adadelta { lr: 1.0.into(), rho: 0.9, epsilon: 1e-6 }
    }
}

impl Adadelta {
    /// With the usual $\rho$ and $\epsilon$.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        Adadelta { lr: lr.into(), ..Adadelta::default() }
    }
    pub(crate) fn check(&self) -> Result<()> {
        self.lr.check("lr")?;
        check::fraction("rho", self.rho)?;
        check::positive("epsilon", self.epsilon)
    }
    pub(crate) fn slots(&self) -> [&'static str; 2] {
        ["v", "d"]
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Scalars<F> {
    lr: F,
    rho: F,
    one_minus_rho: F,
    epsilon: F,
}

impl<F: Real> Kernel<F, 2> for Adadelta {
    type Scalars = Scalars<F>;

    fn scalars(&self, c: &Context<'_>) -> Result<Scalars<F>> {
        Ok(Scalars {
            lr: F::from_f64(self.lr.positive_at("lr", c.t)? * c.segment.lr_scale),
            rho: F::from_f64(self.rho),
            one_minus_rho: F::from_f64(1.0 - self.rho),
            epsilon: F::from_f64(self.epsilon),
        })
    }

    #[inline(always)]
    fn update(&self, s: &Scalars<F>, block: &mut Block<F, 2>) {
        let Block { theta, f, state: [v, d], .. } = block;
        for i in 0..LANE {
            v[i] = s.rho * v[i] + s.one_minus_rho * f[i] * f[i];
            let delta = f[i] * ((d[i] + s.epsilon) / (v[i] + s.epsilon)).sqrt();
            d[i] = s.rho * d[i] + s.one_minus_rho * delta * delta;
            theta[i] -= s.lr * delta;
        }
    }
}
