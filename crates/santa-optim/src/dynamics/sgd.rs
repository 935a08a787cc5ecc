//! Stochastic gradient descent, plain or with momentum.

use super::engine::{Block, Context, Kernel, LANE};
use crate::error::{Result, check};
use crate::real::Real;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// Settings of SGD.
///
/// $$ \text{plain: } \theta \mathrel{-}= lr\, \bar f \qquad
///    \text{momentum: } b \leftarrow m b + \bar f, \quad
///    \theta \mathrel{-}= lr\, b \;\text{ (heavy ball) or }\; lr\,(\bar f + m b)
///    \;\text{ (Nesterov)} $$
///
/// $\bar f$ is the mean gradient of U, prior included: a framework's `weight_decay` is a Gaussian
/// [`Prior`](crate::Prior) of precision `weight_decay` * N.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sgd {
    /// Learning rate on the mean gradient.
    pub lr: Schedule,
    /// m, in [0, 1); 0 for plain SGD.
    pub momentum: f64,
    /// Nesterov's look-ahead.
    pub nesterov: bool,
}

impl Default for Sgd {
    fn default() -> Self {
        Sgd { lr: 1e-2.into(), momentum: 0.0, nesterov: false }
    }
}

impl Sgd {
    /// Plain SGD.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        Sgd { lr: lr.into(), ..Sgd::default() }
    }
    /// With heavy-ball momentum.
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
    }
    /// With Nesterov's look-ahead.
    pub fn nesterov(mut self) -> Self {
        self.nesterov = true;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.lr.check("lr")?;
        check::fraction("momentum", self.momentum)
    }
    pub(crate) fn slots(&self) -> [&'static str; 1] {
        [if self.momentum > 0.0 { "momentum" } else { "" }]
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Scalars<F> {
    lr: F,
    momentum: F,
    nesterov: bool,
}

impl<F: Real> Kernel<F, 1> for Sgd {
    type Scalars = Scalars<F>;

    fn scalars(&self, c: &Context<'_>) -> Result<Scalars<F>> {
        Ok(Scalars {
            lr: F::from_f64(self.lr.positive_at("lr", c.t)? * c.segment.lr_scale),
            momentum: F::from_f64(self.momentum),
            nesterov: self.nesterov,
        })
    }

    fn writes(s: &Scalars<F>) -> [bool; 1] {
        [s.momentum != F::ZERO]
    }

    #[inline(always)]
    fn update(&self, s: &Scalars<F>, block: &mut Block<F, 1>) {
        let Block { theta, f, state: [b], .. } = block;
        if s.momentum == F::ZERO {
            for i in 0..LANE {
                theta[i] -= s.lr * f[i];
            }
            return;
        }
        for i in 0..LANE {
            b[i] = s.momentum * b[i] + f[i];
        }
        if s.nesterov {
            for i in 0..LANE {
                theta[i] -= s.lr * (f[i] + s.momentum * b[i]);
            }
        } else {
            for i in 0..LANE {
                theta[i] -= s.lr * b[i];
            }
        }
    }
}
