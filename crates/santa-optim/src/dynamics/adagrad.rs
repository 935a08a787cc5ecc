//! Adagrad (Duchi, Hazan, Singer, 2011).

use super::engine::{Block, Context, Kernel, LANE};
use crate::error::{Result, check};
use crate::real::Real;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// Settings of Adagrad.
///
/// $$ v \mathrel{+}= \bar f^2, \qquad \theta \mathrel{-}= lr\ \bar f / (\sqrt v + \epsilon) $$
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
            lr: F::from_f64(self.lr.positive_at("lr", c.t)? * c.lr.product()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::testing::{Draw, Element, Reference, Start, follows};

    struct Plain {
        settings: Adagrad,
        v: Vec<f64>,
        /// Divides by the root of v before this step's gradient is in it.
        late: bool,
    }

    impl Reference for Plain {
        fn step(&mut self, t: u64, theta: &mut [f64], elements: &[Element]) {
            let s = &self.settings;
            for e in elements {
                let before = self.v[e.i];
                self.v[e.i] += e.f * e.f;
                let v = if self.late { before } else { self.v[e.i] };
                theta[e.i] -= s.lr.at(t) * e.lr_scale * e.f / (v.sqrt() + s.epsilon);
            }
        }
        fn state(&self, name: &str) -> Option<&[f64]> {
            (name == "v").then_some(&self.v)
        }
    }

    fn settings(draw: &mut Draw) -> Adagrad {
        Adagrad {
            lr: draw.log_between(1e-3, 0.3).into(),
            epsilon: draw.log_between(1e-10, 1e-2),
            initial_v: draw.one_of(&[0.0, 0.1, 2.0]),
        }
    }

    fn plain(late: bool) -> impl Fn(&Adagrad, &Start<'_>) -> Plain {
        move |settings, start| Plain {
            settings: settings.clone(),
            v: start.zeros().into_iter().map(|_| settings.initial_v).collect(),
            late,
        }
    }

    #[test]
    fn the_kernel_follows_the_plain_reference() {
        follows(settings, plain(false)).unwrap();
    }

    #[test]
    fn a_reference_that_accumulates_after_the_step_does_not_match() {
        follows(settings, plain(true)).unwrap_err();
    }
}
