//! Stochastic gradient descent, plain or with momentum.

use super::engine::{Block, Context, Kernel, LANE};
use crate::error::{Result, check};
use crate::real::Real;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// Settings of SGD.
///
/// $$ \text{plain: } \theta \mathrel{-}= lr\ \bar f \qquad
///    \text{momentum: } b \leftarrow m b + \bar f, \quad
///    \theta \mathrel{-}= lr\ b \ \text{ (heavy ball) or }\ lr\ (\bar f + m b)
///    \ \text{ (Nesterov)} $$
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
            lr: F::from_f64(self.lr.positive_at("lr", c.t)? * c.lr.product()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::testing::{Draw, Element, Reference, Start, follows};

    struct Plain {
        settings: Sgd,
        b: Vec<f64>,
    }

    impl Reference for Plain {
        fn step(&mut self, t: u64, theta: &mut [f64], elements: &[Element]) {
            let m = self.settings.momentum;
            for e in elements {
                let lr = self.settings.lr.at(t) * e.lr_scale;
                self.b[e.i] = m * self.b[e.i] + e.f;
                let step = if self.settings.nesterov { e.f + m * self.b[e.i] } else { self.b[e.i] };
                theta[e.i] -= lr * step;
            }
        }
        fn state(&self, name: &str) -> Option<&[f64]> {
            (name == "momentum").then_some(&self.b)
        }
    }

    fn settings(draw: &mut Draw) -> Sgd {
        let lr = draw.log_between(1e-3, 0.3);
        Sgd {
            lr: draw.one_of(&[Schedule::constant(lr), Schedule::power(lr, 1.0, -0.5)]),
            momentum: draw.one_of(&[0.0, 0.5, 0.9]),
            nesterov: draw.one_of(&[false, true]),
        }
    }

    fn plain(settings: &Sgd, start: &Start<'_>) -> Plain {
        Plain { settings: settings.clone(), b: start.zeros() }
    }

    #[test]
    fn the_kernel_follows_the_plain_reference() {
        follows(settings, plain).unwrap();
    }

    #[test]
    fn a_reference_that_damps_the_gradient_does_not_match() {
        struct Damped(Plain);
        impl Reference for Damped {
            fn step(&mut self, t: u64, theta: &mut [f64], elements: &[Element]) {
                let share = 1.0 - self.0.settings.momentum;
                let damped: Vec<_> =
                    elements.iter().map(|e| Element { f: share * e.f, ..*e }).collect();
                self.0.step(t, theta, &damped);
            }
            fn state(&self, name: &str) -> Option<&[f64]> {
                self.0.state(name)
            }
        }
        follows(|_| Sgd::new(0.1).momentum(0.9), |s, start| Damped(plain(s, start))).unwrap_err();
    }
}
