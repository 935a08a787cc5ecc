//! Gradients with less minibatch noise, by a control variate.

use super::{Batch, Potential, check_lengths};
use crate::dynamics::{Buffer, zeros};
use crate::error::{Error, Result, check};
use crate::real::Real;
use crate::target::Target;

/// Wraps a potential so that its minibatch gradients vary less, at twice the cost of a gradient
/// and a pass over all data now and then (as in SVRG; Johnson and Zhang, 2013).
///
/// $$ g = g_B(\theta) - g_B(\tilde\theta) + g(\tilde\theta) $$
///
/// $g_B$ is the mean gradient over the batch and $g$ the one over all data, kept for an anchor
/// $\tilde\theta$: the theta of every m-th step. For batches drawn uniformly the estimate is
/// unbiased, and its variance falls with the distance from the anchor. The loss that comes with it
/// is the batch's own.
///
/// The anchor follows [`Batch::step`]; outside a run, where the step does not move, call
/// [`ControlVariate::refresh`]. The inner potential must give the same function for the same step:
/// one that draws dropout masks is only unbiased if its full gradient averages over them.
///
/// ```
/// use santa::noise::{Purpose, Stream};
/// use santa::potential::{ControlVariate, analytic::LogisticRegression};
///
/// let stream = Stream::new(1, 0, Purpose::Data);
/// let (model, _) = LogisticRegression::synthetic(1_000, 5, 1.0, &stream)?;
/// let quiet = ControlVariate::<_, f64>::new(model, 100)?; // a new anchor every 100 steps
/// # let _ = quiet;
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Debug)]
pub struct ControlVariate<P, F: Real> {
    inner: P,
    every: u64,
    /// The step of the anchor, once there is one.
    anchored_at: Option<u64>,
    anchor: Buffer<F>,
    /// The mean gradient over all data at the anchor.
    full: Buffer<F>,
    /// The mean gradient over the batch at the anchor.
    batch_at_anchor: Buffer<F>,
}

const ANCHOR: &str = "control_variate.anchor";
const FULL: &str = "control_variate.gradient";
const STEP: &str = "control_variate.step";

impl<F: Real, P: Potential<F>> ControlVariate<P, F> {
    /// A new anchor every `every` steps; about one epoch is usual.
    pub fn new(inner: P, every: u64) -> Result<Self> {
        if every == 0 {
            return Err(Error::setting("control_variate.every", every, "it must be at least 1"));
        }
        let dim = inner.target().dim();
        let (anchor, full, batch_at_anchor) = (zeros(dim), zeros(dim), zeros(dim));
        Ok(ControlVariate { inner, every, anchored_at: None, anchor, full, batch_at_anchor })
    }

    /// Makes `theta` the anchor, with one pass over all data. `batch` says at which step.
    pub fn refresh(&mut self, theta: &[F], batch: &Batch<'_>) -> Result<()> {
        self.inner.target().layout().check_len("theta", theta.len())?;
        self.anchored_at = None; // an error below must not leave half an anchor
        self.anchor.copy_from_slice(theta);
        self.inner.loss_gradient(theta, &batch.widened(), &mut self.full)?;
        self.anchored_at = Some(batch.step());
        Ok(())
    }

    /// The anchor, once there is one.
    pub fn anchor(&self) -> Option<&[F]> {
        self.anchored_at.map(|_| &*self.anchor)
    }
    /// The potential inside.
    pub fn inner(&self) -> &P {
        &self.inner
    }
    /// The potential inside, to change.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }
    /// Takes the wrapping off.
    pub fn into_inner(self) -> P {
        self.inner
    }

    fn is_due(&self, step: u64) -> bool {
        self.anchored_at.is_none_or(|at| step >= at.saturating_add(self.every))
    }
}

impl<F: Real, P: Potential<F>> Potential<F> for ControlVariate<P, F> {
    fn target(&self) -> &Target {
        self.inner.target()
    }

    fn loss_gradient(&mut self, theta: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        check_lengths(self.inner.target(), theta, gradient)?;
        if batch.indices().is_none() {
            return self.inner.loss_gradient(theta, batch, gradient);
        }
        if self.is_due(batch.step()) {
            self.refresh(theta, batch)?;
        }
        self.inner.loss_gradient(&self.anchor, batch, &mut self.batch_at_anchor)?;
        let loss = self.inner.loss_gradient(theta, batch, gradient)?;
        for ((g, at_anchor), full) in
            gradient.iter_mut().zip(&*self.batch_at_anchor).zip(&*self.full)
        {
            *g = (*g - *at_anchor) + *full;
        }
        Ok(loss)
    }

    fn loss(&mut self, theta: &[F], batch: &Batch<'_>) -> Result<f64> {
        self.inner.loss(theta, batch)
    }

    fn state(&self) -> Vec<(&'static str, Vec<F>)> {
        let mut state = self.inner.state();
        if let Some(step) = self.anchored_at {
            state.push((ANCHOR, self.anchor.to_vec()));
            state.push((FULL, self.full.to_vec()));
            state.push((STEP, split_step(step)));
        }
        state
    }

    fn restore(&mut self, state: &[(String, Vec<F>)]) -> Result<()> {
        let mine = |name: &str| state.iter().find(|(n, _)| n == name).map(|(_, vector)| vector);
        let restored = match (mine(ANCHOR), mine(FULL), mine(STEP)) {
            (None, None, None) => None,
            (Some(anchor), Some(full), Some(step)) => {
                check_lengths(self.inner.target(), anchor, full)?;
                Some((anchor, full, join_step(step)?))
            }
            _ => {
                return Err(Error::Checkpoint {
                    path: None,
                    reason: format!("{ANCHOR}, {FULL} and {STEP} belong together, one is missing"),
                });
            }
        };
        let theirs: Vec<(String, Vec<F>)> = state
            .iter()
            .filter(|(name, _)| ![ANCHOR, FULL, STEP].contains(&name.as_str()))
            .cloned()
            .collect();
        self.inner.restore(&theirs)?;
        self.anchored_at = restored.map(|(anchor, full, step)| {
            self.anchor.copy_from_slice(anchor);
            self.full.copy_from_slice(full);
            step
        });
        Ok(())
    }
}

/// Bits of a step that go into one number of the state: few enough for an `f32`.
const BITS: u32 = 16;
/// Numbers that a step takes.
const PARTS: u32 = u64::BITS / BITS;

fn split_step<F: Real>(step: u64) -> Vec<F> {
    let mask = (1 << BITS) - 1;
    (0..PARTS).map(|k| F::from_f64((step >> (k * BITS) & mask) as f64)).collect()
}

fn join_step<F: Real>(parts: &[F]) -> Result<u64> {
    let wrong = |reason: &str| Error::Checkpoint { path: None, reason: format!("{STEP} {reason}") };
    if parts.len() != PARTS as usize {
        return Err(wrong("has another length than a step"));
    }
    let mut step = 0;
    for (k, part) in parts.iter().enumerate() {
        let part = part.to_f64();
        check::non_negative(STEP, part)?;
        if part.fract() != 0.0 || part >= f64::from(1 << BITS) {
            return Err(wrong("is no step"));
        }
        step |= (part as u64) << (k as u32 * BITS);
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::super::analytic::LogisticRegression;
    use super::*;
    use crate::noise::{Purpose, Stream};
    use crate::stats::Moments;

    const N: usize = 60;
    const DIM: usize = 3;
    const BATCH: usize = 6;

    fn model() -> LogisticRegression {
        let stream = Stream::new(3, 0, Purpose::Data);
        LogisticRegression::synthetic(N, DIM, 1.0, &stream).unwrap().0
    }

    /// The gradients of all batches that split the data evenly.
    fn gradients(potential: &mut impl Potential<f64>, theta: &[f64], step: u64) -> Vec<Vec<f64>> {
        let all: Vec<u32> = (0..N as u32).collect();
        let mut gradient = vec![0.0; DIM];
        all.chunks(BATCH)
            .map(|batch| {
                let batch = Batch::of(batch).at_step(step);
                potential.loss_gradient(theta, &batch, &mut gradient).unwrap();
                gradient.clone()
            })
            .collect()
    }

    fn full_gradient(theta: &[f64]) -> Vec<f64> {
        let mut gradient = vec![0.0; DIM];
        model().loss_gradient(theta, &Batch::full(), &mut gradient).unwrap();
        gradient
    }

    fn variance(gradients: &[Vec<f64>]) -> f64 {
        (0..DIM).map(|i| gradients.iter().map(|g| g[i]).collect::<Moments>().variance()).sum()
    }

    #[test]
    fn the_estimate_is_unbiased_and_quiet_near_the_anchor() {
        let (anchor, near, far) = ([0.5, -0.5, 1.0], [0.51, -0.49, 1.01], [-2.0, 2.0, 3.0]);
        let mut quiet = ControlVariate::new(model(), 1_000).unwrap();
        quiet.refresh(&anchor, &Batch::full()).unwrap();
        for theta in [near, far] {
            let list = gradients(&mut quiet, &theta, 1);
            for (i, expected) in full_gradient(&theta).iter().enumerate() {
                let mean = list.iter().map(|g| g[i]).sum::<f64>() / list.len() as f64;
                assert!((mean - expected).abs() < 1e-12, "{mean} {expected}");
            }
        }
        let plain = variance(&gradients(&mut model(), &near, 1));
        assert!(variance(&gradients(&mut quiet, &near, 1)) < 1e-3 * plain);
        // Negative control: far from the anchor it is no longer quiet.
        assert!(variance(&gradients(&mut quiet, &far, 1)) > 1e-2 * plain);
    }

    #[test]
    fn at_the_anchor_it_is_the_full_gradient_exactly() {
        let theta = [0.5, -0.5, 1.0];
        let mut quiet = ControlVariate::new(model(), 10).unwrap();
        for gradient in gradients(&mut quiet, &theta, 1) {
            assert_eq!(gradient, full_gradient(&theta));
        }
    }

    #[test]
    fn the_anchor_moves_every_so_many_steps() {
        let mut quiet = ControlVariate::new(model(), 3).unwrap();
        let mut anchors = Vec::new();
        for step in 1..=7 {
            let theta = [step as f64, 0.0, 0.0];
            gradients(&mut quiet, &theta, step);
            anchors.push(quiet.anchor().unwrap()[0]);
        }
        assert_eq!(anchors, [1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 7.0]);
        assert!(ControlVariate::<_, f64>::new(model(), 0).is_err());
    }

    #[test]
    fn it_resumes_where_it_was() {
        fn resumes<F: Real>()
        where
            LogisticRegression: Potential<F>,
        {
            let start = (1 << 40) + 5; // beyond what a float of 32 bits holds
            let batch = |step| Batch::of(&[1, 2, 3, 4]).at_step(step);
            let theta = |step: u64| [F::from_f64(0.1 * (step - start) as f64), F::ONE, F::HALF];
            let mut whole = ControlVariate::new(model(), 3).unwrap();
            let mut resumed = ControlVariate::new(model(), 3).unwrap();
            let (mut a, mut b) = ([F::ZERO; DIM], [F::ZERO; DIM]);
            for step in start..start + 8 {
                if step == start + 4 {
                    let state: Vec<_> =
                        whole.state().into_iter().map(|(n, v)| (n.to_string(), v)).collect();
                    resumed.restore(&state).unwrap();
                }
                whole.loss_gradient(&theta(step), &batch(step), &mut a).unwrap();
                if step >= start + 4 {
                    resumed.loss_gradient(&theta(step), &batch(step), &mut b).unwrap();
                    assert_eq!(a, b);
                }
            }
        }
        resumes::<f32>();
        resumes::<f64>();
    }

    #[test]
    fn half_a_state_is_refused() {
        let mut quiet = ControlVariate::<_, f64>::new(model(), 3).unwrap();
        let piece = |name: &str, v: Vec<f64>| (name.to_string(), v);
        assert!(quiet.restore(&[piece(ANCHOR, vec![0.0; DIM])]).is_err());
        let whole = |anchor: usize, step: Vec<f64>| {
            [piece(ANCHOR, vec![0.0; anchor]), piece(FULL, vec![0.0; DIM]), piece(STEP, step)]
        };
        assert!(quiet.restore(&whole(DIM + 1, vec![0.0; 4])).is_err());
        assert!(quiet.restore(&whole(DIM, vec![0.5; 4])).is_err());
        assert!(quiet.restore(&whole(DIM, vec![0.0; 3])).is_err());
        assert!(quiet.restore(&whole(DIM, vec![f64::NAN; 4])).is_err());
        assert!(quiet.anchor().is_none());
        assert!(quiet.restore(&whole(DIM, vec![1.0; 4])).is_ok() && quiet.anchor().is_some());
        assert!(quiet.restore(&[piece("other", vec![1.0])]).is_err());
    }
}
