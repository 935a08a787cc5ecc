//! Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019).

use super::engine::{Block, Context, Kernel, LANE};
use crate::error::{Error, Result, check};
use crate::real::Real;
use crate::schedule::Schedule;
use crate::target::Target;
use serde::{Deserialize, Serialize};

/// Settings of Adam and AdamW.
///
/// $$ m \leftarrow \beta_1 m + (1-\beta_1) \bar f, \qquad
///    v \leftarrow \beta_2 v + (1-\beta_2) \bar f^2, \qquad
///    \theta \mathrel{-}= lr\ \frac{\hat m}{\sqrt{\hat v} + \epsilon}, \qquad
///    \hat m = \frac{m}{1-\beta_1^t},\quad \hat v = \frac{v}{1-\beta_2^t} $$
///
/// AdamW first shrinks the parameters themselves, $\theta \mathrel{-}= lr\ w\ \theta$. That is a
/// prior by another road: it is refused together with a [`Prior`](crate::Prior).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adam {
    /// Learning rate.
    pub lr: Schedule,
    /// $\beta_1$, in [0, 1).
    pub beta1: f64,
    /// $\beta_2$, in [0, 1).
    pub beta2: f64,
    /// $\epsilon$
    pub epsilon: f64,
    /// Which correction of the start from zero.
    pub bias_correction: BiasCorrection,
    /// w of AdamW.
    pub decoupled_weight_decay: f64,
}

/// How Adam makes up for m and v starting at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BiasCorrection {
    /// As published.
    #[default]
    Published,
    /// None.
    Off,
    /// As in the authors' recurrent experiment, with $1-\beta$ in place of $\beta$:
    /// $lr \sqrt{1-(1-\beta_2)^t} / (1-(1-\beta_1)^t)$, which is next to none.
    SwappedRates,
}

impl Default for Adam {
    fn default() -> Self {
        Adam {
            lr: 1e-3.into(),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            bias_correction: BiasCorrection::Published,
            decoupled_weight_decay: 0.0,
        }
    }
}

impl Adam {
    /// With the published $\beta_1$, $\beta_2$, $\epsilon$.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        Adam { lr: lr.into(), ..Adam::default() }
    }
    /// AdamW.
    pub fn with_decoupled_weight_decay(mut self, weight_decay: f64) -> Self {
        self.decoupled_weight_decay = weight_decay;
        self
    }
    pub(crate) fn check(&self, target: &Target) -> Result<()> {
        self.lr.check("lr")?;
        check::fraction("beta1", self.beta1)?;
        check::fraction("beta2", self.beta2)?;
        check::positive("epsilon", self.epsilon)?;
        check::non_negative("decoupled_weight_decay", self.decoupled_weight_decay)?;
        if self.decoupled_weight_decay > 0.0 && !target.is_flat() {
            return Err(Error::setting(
                "decoupled_weight_decay",
                self.decoupled_weight_decay,
                "the target has a prior already; weight decay would count twice",
            ));
        }
        Ok(())
    }
    pub(crate) fn slots(&self) -> [&'static str; 2] {
        ["m", "v"]
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Scalars<F> {
    keep: F,
    beta1: F,
    one_minus_beta1: F,
    beta2: F,
    one_minus_beta2: F,
    /// lr / (1 - beta1^t)
    rate: F,
    /// 1 / sqrt(1 - beta2^t)
    root: F,
    epsilon: F,
}

impl<F: Real> Kernel<F, 2> for Adam {
    type Scalars = Scalars<F>;

    fn scalars(&self, c: &Context<'_>) -> Result<Scalars<F>> {
        let lr = self.lr.positive_at("lr", c.t)? * c.lr.product();
        let t = c.t.min(i32::MAX as u64) as i32;
        let (first, second) = match self.bias_correction {
            BiasCorrection::Published => (1.0 - self.beta1.powi(t), 1.0 - self.beta2.powi(t)),
            BiasCorrection::Off => (1.0, 1.0),
            BiasCorrection::SwappedRates => {
                (1.0 - (1.0 - self.beta1).powi(t), 1.0 - (1.0 - self.beta2).powi(t))
            }
        };
        // Their epsilon stands beside the uncorrected root.
        let (rate, root) = match self.bias_correction {
            BiasCorrection::SwappedRates => (lr * second.sqrt() / first, 1.0),
            _ => (lr / first, 1.0 / second.sqrt()),
        };
        Ok(Scalars {
            keep: F::from_f64(1.0 - lr * self.decoupled_weight_decay),
            beta1: F::from_f64(self.beta1),
            one_minus_beta1: F::from_f64(1.0 - self.beta1),
            beta2: F::from_f64(self.beta2),
            one_minus_beta2: F::from_f64(1.0 - self.beta2),
            rate: F::from_f64(rate),
            root: F::from_f64(root),
            epsilon: F::from_f64(self.epsilon),
        })
    }

    #[inline(always)]
    fn update(&self, s: &Scalars<F>, block: &mut Block<F, 2>) {
        let Block { theta, f, state: [m, v], .. } = block;
        for i in 0..LANE {
            m[i] = s.beta1 * m[i] + s.one_minus_beta1 * f[i];
            v[i] = s.beta2 * v[i] + s.one_minus_beta2 * f[i] * f[i];
            let denominator = v[i].sqrt() * s.root + s.epsilon;
            theta[i] = s.keep * theta[i] - s.rate * m[i] / denominator;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamics::testing::{Draw, Element, Reference, Start, follow, follows};
    use crate::layout::Layout;
    use crate::target::{DataSize, Prior};

    struct Plain {
        settings: Adam,
        m: Vec<f64>,
        v: Vec<f64>,
    }

    impl Reference for Plain {
        fn step(&mut self, t: u64, theta: &mut [f64], elements: &[Element]) {
            let s = &self.settings;
            let power = |x: f64| x.powf(t as f64);
            for e in elements {
                let lr = s.lr.at(t) * e.lr_scale;
                let (m, v) = (&mut self.m[e.i], &mut self.v[e.i]);
                *m = s.beta1 * *m + (1.0 - s.beta1) * e.f;
                *v = s.beta2 * *v + (1.0 - s.beta2) * e.f.powi(2);
                theta[e.i] -= lr * s.decoupled_weight_decay * theta[e.i];
                theta[e.i] -= match s.bias_correction {
                    BiasCorrection::Published => {
                        let m_hat = *m / (1.0 - power(s.beta1));
                        let v_hat = *v / (1.0 - power(s.beta2));
                        lr * m_hat / (v_hat.sqrt() + s.epsilon)
                    }
                    BiasCorrection::Off => lr * *m / (v.sqrt() + s.epsilon),
                    BiasCorrection::SwappedRates => {
                        let rate =
                            lr * (1.0 - power(1.0 - s.beta2)).sqrt() / (1.0 - power(1.0 - s.beta1));
                        rate * *m / (v.sqrt() + s.epsilon)
                    }
                };
            }
        }
        fn state(&self, name: &str) -> Option<&[f64]> {
            match name {
                "m" => Some(&self.m),
                "v" => Some(&self.v),
                _ => None,
            }
        }
    }

    const CORRECTIONS: [BiasCorrection; 3] =
        [BiasCorrection::Published, BiasCorrection::Off, BiasCorrection::SwappedRates];

    fn settings(draw: &mut Draw) -> Adam {
        Adam {
            lr: draw.log_between(1e-3, 0.1).into(),
            beta1: draw.between(0.5, 0.99),
            beta2: draw.between(0.5, 0.999),
            epsilon: draw.log_between(1e-8, 1e-2),
            bias_correction: draw.one_of(&CORRECTIONS),
            decoupled_weight_decay: 0.0,
        }
    }

    fn plain(settings: &Adam, start: &Start<'_>) -> Plain {
        Plain { settings: settings.clone(), m: start.zeros(), v: start.zeros() }
    }

    #[test]
    fn the_kernel_follows_the_plain_reference() {
        follows(settings, plain).unwrap();
    }

    #[test]
    fn a_reference_with_another_bias_correction_does_not_match() {
        for (k, bias_correction) in CORRECTIONS.into_iter().enumerate() {
            let other = CORRECTIONS[(k + 1) % CORRECTIONS.len()];
            follows(
                |draw| Adam { bias_correction, ..settings(draw) },
                |s, start| plain(&Adam { bias_correction: other, ..s.clone() }, start),
            )
            .unwrap_err();
        }
    }

    /// On a target without a prior, the only one that takes it.
    #[test]
    fn the_kernel_shrinks_the_parameters_as_the_plain_adamw() {
        let mut case = crate::dynamics::testing::cases().pop().unwrap();
        let layout = Layout::flat(case.theta0.len()).unwrap();
        case.target = Target::new(layout, DataSize::new(50).unwrap(), Prior::Flat).unwrap();
        let adamw = Adam::new(0.05).with_decoupled_weight_decay(0.3);
        let run = |mistaken: f64| {
            let mut reference = adamw.clone();
            reference.decoupled_weight_decay *= mistaken;
            let stepper = adamw.clone().init::<f64>(&case.target, case.seed).unwrap();
            follow(&case, stepper, |start| Box::new(plain(&reference, start)))
        };
        run(1.0).unwrap();
        run(1.001).unwrap_err();
    }
}
