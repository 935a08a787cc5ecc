//! RMSprop (Tieleman and Hinton, 2012).

use super::engine::{Block, Context, Kernel, LANE, Lane};
use crate::error::{Result, check};
use crate::real::Real;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// Settings of RMSprop.
///
/// $$ v \leftarrow \rho v + (1-\rho) \bar f^2, \qquad
///    \theta \mathrel{-}= lr\ \bar f / (\sqrt v + \epsilon)
///    \ \text{ or }\ lr\ \bar f / \sqrt{v + \epsilon} $$
///
/// and with momentum $b \leftarrow m b + (\cdot)$, $\theta \mathrel{-}= lr\ b$.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RmsProp {
    /// Learning rate.
    pub lr: Schedule,
    /// $\rho$, in [0, 1).
    pub rho: f64,
    /// $\epsilon$
    pub epsilon: f64,
    /// $\epsilon$ under the root, as the authors of Santa have it, or beside it.
    pub epsilon_inside_root: bool,
    /// m, in [0, 1).
    pub momentum: f64,
}

impl Default for RmsProp {
    fn default() -> Self {
        RmsProp {
            lr: 1e-2.into(),
            rho: 0.99,
            epsilon: 1e-8,
            epsilon_inside_root: false,
            momentum: 0.0,
        }
    }
}

impl RmsProp {
    /// With the usual $\rho$ and $\epsilon$, without momentum.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        RmsProp { lr: lr.into(), ..RmsProp::default() }
    }
    pub(crate) fn check(&self) -> Result<()> {
        self.lr.check("lr")?;
        check::fraction("rho", self.rho)?;
        check::positive("epsilon", self.epsilon)?;
        check::fraction("momentum", self.momentum)
    }
    pub(crate) fn slots(&self) -> [&'static str; 2] {
        ["v", if self.momentum > 0.0 { "momentum" } else { "" }]
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Scalars<F> {
    lr: F,
    rho: F,
    one_minus_rho: F,
    epsilon: F,
    inside: bool,
    momentum: F,
}

impl<F: Real> Kernel<F, 2> for RmsProp {
    type Scalars = Scalars<F>;

    fn scalars(&self, c: &Context<'_>) -> Result<Scalars<F>> {
        Ok(Scalars {
            lr: F::from_f64(self.lr.positive_at("lr", c.t)? * c.lr.product()),
            rho: F::from_f64(self.rho),
            one_minus_rho: F::from_f64(1.0 - self.rho),
            epsilon: F::from_f64(self.epsilon),
            inside: self.epsilon_inside_root,
            momentum: F::from_f64(self.momentum),
        })
    }

    fn writes(s: &Scalars<F>) -> [bool; 2] {
        [true, s.momentum != F::ZERO]
    }

    #[inline(always)]
    fn update(&self, s: &Scalars<F>, block: &mut Block<F, 2>) {
        let Block { theta, f, state: [v, b], .. } = block;
        for i in 0..LANE {
            v[i] = s.rho * v[i] + s.one_minus_rho * f[i] * f[i];
        }
        let mut direction = Lane::splat(F::ZERO);
        if s.inside {
            for i in 0..LANE {
                direction[i] = f[i] / (v[i] + s.epsilon).sqrt();
            }
        } else {
            for i in 0..LANE {
                direction[i] = f[i] / (v[i].sqrt() + s.epsilon);
            }
        }
        if s.momentum != F::ZERO {
            for i in 0..LANE {
                b[i] = s.momentum * b[i] + direction[i];
                theta[i] -= s.lr * b[i];
            }
        } else {
            for i in 0..LANE {
                theta[i] -= s.lr * direction[i];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::testing::{Draw, Element, Reference, Start, follows};

    struct Plain {
        settings: RmsProp,
        v: Vec<f64>,
        b: Vec<f64>,
    }

    impl Reference for Plain {
        fn step(&mut self, t: u64, theta: &mut [f64], elements: &[Element]) {
            let s = &self.settings;
            for e in elements {
                let (v, b) = (&mut self.v[e.i], &mut self.b[e.i]);
                *v = s.rho * *v + (1.0 - s.rho) * e.f.powi(2);
                let root = if s.epsilon_inside_root {
                    (*v + s.epsilon).sqrt()
                } else {
                    v.sqrt() + s.epsilon
                };
                *b = s.momentum * *b + e.f / root;
                theta[e.i] -= s.lr.at(t) * e.lr_scale * *b;
            }
        }
        fn state(&self, name: &str) -> Option<&[f64]> {
            match name {
                "v" => Some(&self.v),
                "momentum" => Some(&self.b),
                _ => None,
            }
        }
    }

    fn settings(draw: &mut Draw) -> RmsProp {
        RmsProp {
            lr: draw.log_between(1e-3, 0.1).into(),
            rho: draw.between(0.0, 0.999),
            epsilon: draw.log_between(1e-8, 1e-2),
            epsilon_inside_root: draw.one_of(&[false, true]),
            momentum: draw.one_of(&[0.0, 0.9]),
        }
    }

    fn plain(settings: &RmsProp, start: &Start<'_>) -> Plain {
        Plain { settings: settings.clone(), v: start.zeros(), b: start.zeros() }
    }

    #[test]
    fn the_kernel_follows_the_plain_reference() {
        follows(settings, plain).unwrap();
    }

    #[test]
    fn a_reference_with_epsilon_on_the_other_side_of_the_root_does_not_match() {
        let other_side = |s: &RmsProp, start: &Start<'_>| {
            let epsilon_inside_root = !s.epsilon_inside_root;
            plain(&RmsProp { epsilon_inside_root, ..s.clone() }, start)
        };
        follows(settings, other_side).unwrap_err();
    }
}
