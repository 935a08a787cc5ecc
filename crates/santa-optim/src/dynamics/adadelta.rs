//! Adadelta (Zeiler, 2012).

use super::engine::{Block, Context, Kernel, LANE};
use crate::error::{Result, check};
use crate::real::Real;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// Settings of Adadelta.
///
/// $$ v \leftarrow \rho v + (1-\rho) \bar f^2, \qquad
///    \delta = \bar f \sqrt{d + \epsilon} / \sqrt{v + \epsilon}, \qquad
///    d \leftarrow \rho d + (1-\rho) \delta^2, \qquad \theta \mathrel{-}= lr\ \delta $$
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
            lr: F::from_f64(self.lr.positive_at("lr", c.t)? * c.lr.product()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::testing::{Draw, Element, Reference, Start, follows};

    struct Plain {
        settings: Adadelta,
        v: Vec<f64>,
        d: Vec<f64>,
        /// Updates d before it is used.
        early: bool,
    }

    impl Reference for Plain {
        fn step(&mut self, t: u64, theta: &mut [f64], elements: &[Element]) {
            let Adadelta { lr, rho, epsilon } = &self.settings;
            for e in elements {
                let (v, d) = (&mut self.v[e.i], &mut self.d[e.i]);
                *v = rho * *v + (1.0 - rho) * e.f.powi(2);
                let mut delta = e.f * (*d + epsilon).sqrt() / (*v + epsilon).sqrt();
                *d = rho * *d + (1.0 - rho) * delta.powi(2);
                if self.early {
                    delta = e.f * (*d + epsilon).sqrt() / (*v + epsilon).sqrt();
                }
                theta[e.i] -= lr.at(t) * e.lr_scale * delta;
            }
        }
        fn state(&self, name: &str) -> Option<&[f64]> {
            match name {
                "v" => Some(&self.v),
                "d" => Some(&self.d),
                _ => None,
            }
        }
    }

    fn settings(draw: &mut Draw) -> Adadelta {
        Adadelta {
            lr: draw.log_between(0.1, 10.0).into(),
            rho: draw.between(0.0, 0.99),
            epsilon: draw.log_between(1e-6, 1e-2),
        }
    }

    fn plain(early: bool) -> impl Fn(&Adadelta, &Start<'_>) -> Plain {
        move |settings, start| Plain {
            settings: settings.clone(),
            v: start.zeros(),
            d: start.zeros(),
            early,
        }
    }

    #[test]
    fn the_kernel_follows_the_plain_reference() {
        follows(settings, plain(false)).unwrap();
    }

    #[test]
    fn a_reference_that_updates_d_too_early_does_not_match() {
        follows(settings, plain(true)).unwrap_err();
    }
}
