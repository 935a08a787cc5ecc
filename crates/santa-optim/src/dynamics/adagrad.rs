//! Adagrad (Duchi, Hazan, Singer, 2011).

use super::engine::{Block, Context, Kernel, LANE};
use crate::error::{Result, check};
use crate::real::Real;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// Settings of Adagrad.
///
/// $$ v \mathrel{+}= \bar f^{\,2}, \qquad \theta \mathrel{-}= lr\, \bar f / (\sqrt v + \epsilon) $$
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adagrad {
    /// Learning rate.
    pub lr: Schedule,
    /// $\epsilon$
    pub epsilon: f64,
    /// $v_0$
    pub initial_v: f64,
}

impl Default for Adagrad {
    fn default() -> Self {
        Adagrad { lr: 1e-2.into(), epsilon: 1e-10, initial_v: 0.0 }
    }
}

impl Adagrad {
    /// With the usual $\epsilon$.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        Adagrad { lr: lr.into(), ..Adagrad::default() }
    }
    pub(crate) fn check(&self) -> Result<()> {
        self.lr.check("lr")?;
        check::positive("epsilon", self.epsilon)?;
        check::non_negative("initial_v", self.initial_v)
    }
    pub(crate) fn slots(&self) -> [&'static str; 1] {
        ["v"]
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Scalars<F> {
    lr: F,
    epsilon: F,
}

impl<F: Real> Kernel<F, 1> for Adagrad {
    type Scalars = Scalars<F>;

    fn scalars(&self, c: &Context<'_>) -> Result<Scalars<F>> {
        Ok(Scalars {
            lr: F::from_f64(self.lr.positive_at("lr", c.t)? * c.segment.lr_scale),
            epsilon: F::from_f64(self.epsilon),
        })
    }

    #[inline(always)]
    fn update(&self, s: &Scalars<F>, block: &mut Block<F, 1>) {
        let Block { theta, f, state: [v], .. } = block;
        for i in 0..LANE {
            v[i] += f[i] * f[i];
            theta[i] -= s.lr * f[i] / (v[i].sqrt() + s.epsilon);
        }
    }
}
