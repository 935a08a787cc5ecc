//! Saying what went wrong with a run that diverged.

use crate::experiment::Experiment;
use crate::failure::{Failure, Kind};
use santa::dynamics::Santa;
use santa::{Algorithm, Clip, Rate, Schedule, StepSize};
use santa_nn::Scalar;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A loss so many times that of the beginning is taken for divergence. A sampler that is hot stays
/// far below.
const DIVERGED: f64 = 100.0;
/// Steps whose mean loss is looked at, so that one bad batch is none.
const RECENT: usize = 10;

/// The loss at the beginning and of late.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pulse {
    /// Of the first step, before anything has moved.
    first: Option<f64>,
    /// Of the last few steps, the newest last.
    recent: VecDeque<f64>,
}

impl Pulse {
    /// Takes the loss of a step in, and says what is wrong if it has exploded.
    pub fn feel(&mut self, loss: f64) -> Option<String> {
        let first = *self.first.get_or_insert(loss);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(loss);
        let mean = self.recent.iter().sum::<f64>() / self.recent.len() as f64;
        exploded(mean, first)
            .then(|| format!("the loss is {mean:.3e}, and was {first:.3e} at the beginning"))
    }
}

/// What is wrong with a likelihood that knowing nothing would have better, by far; if it is so.
pub fn hopeless(part: &str, nll: f64, ignorance: f64) -> Option<String> {
    (!nll.is_finite() || exploded(nll, ignorance)).then(|| {
        format!("the nll of {part} data is {nll:.3e}; that of knowing nothing is {ignorance:.3e}")
    })
}

fn exploded(loss: f64, reference: f64) -> bool {
    loss > DIVERGED * reference.max(1.0)
}

/// A failure that names the parameters, the step and the setting that is likely to blame.
pub fn diverged<F: Scalar>(
    experiment: &Experiment,
    layout: &santa::Layout,
    theta: &[F],
    step: u64,
    what: &str,
) -> Failure {
    let worst = worst_segment(layout, theta);
    let epoch = experiment.epoch_at(step);
    let text = format!("the run diverged at step {step} (epoch {epoch:.2}): {what}{worst}");
    let remedy = match step_size(&experiment.optimizer.algorithm) {
        Some((field, value)) => {
            format!("`optimizer.{field}` = {value} is probably too large: try {}", value / 10.0)
        }
        None => "lower the step size".into(),
    };
    let other = other_remedy(experiment.clip, what).map_or(String::new(), |r| format!("; or {r}"));
    Failure::new(Kind::Numerical, text).hint(remedy + &other)
}

/// What helps beside a smaller step. A gradient that is clipped already and still no number was too large
/// for its format, as long sequences make it while all parameters are moderate: it has no norm to clip.
fn other_remedy(clip: Clip, what: &str) -> Option<&'static str> {
    match clip {
        Clip::Off => Some("bound the gradient with `--set clip.norm=1`"),
        _ if what.starts_with("the gradient is") => {
            Some("leave such steps out with `--set on_trouble.skip.at_most=3`")
        }
        _ => None,
    }
}

/// The segment with a value that is not finite, or else the largest parameters.
fn worst_segment<F: Scalar>(layout: &santa::Layout, theta: &[F]) -> String {
    let mut worst = (f64::NEG_INFINITY, "");
    for segment in layout.segments() {
        let values = &theta[segment.range()];
        if let Some(i) = values.iter().position(|x| !x.is_finite()) {
            return format!("; `{}`[{i}] is {}", segment.name(), values[i]);
        }
        let squares: f64 = values.iter().map(|x| x.to_f64() * x.to_f64()).sum();
        let rms = (squares / values.len().max(1) as f64).sqrt();
        if rms > worst.0 {
            worst = (rms, segment.name());
        }
    }
    format!("; the largest parameters are in `{}` (root mean square {:.3e})", worst.1, worst.0)
}

/// The field that sets the step size, and its first value.
fn step_size(algorithm: &Algorithm) -> Option<(&'static str, f64)> {
    let first = |schedule: &Schedule| schedule.at(1);
    let step = |step: &StepSize| match step {
        StepSize::Paper { eta, .. } => ("step.eta", first(eta)),
        StepSize::Practical { lr, .. } => ("step.lr", first(lr)),
        StepSize::HeavyBall { lr, .. } => ("step.lr", first(lr)),
    };
    let rate = |rate: &Rate| match rate {
        Rate::Eta(eta) => ("rate.eta", first(eta)),
        Rate::Lr(lr) => ("rate.lr", first(lr)),
    };
    Some(match algorithm {
        Algorithm::Santa(Santa { step: size, .. }) => step(size),
        Algorithm::Msgnht(s) => step(&s.step),
        Algorithm::Sghmc(s) => step(&s.step),
        Algorithm::Sgnht(s) => step(&s.step),
        Algorithm::Sgld(s) => rate(&s.rate),
        Algorithm::Psgld(s) => rate(&s.rate),
        Algorithm::Sgd(s) => ("lr", first(&s.lr)),
        Algorithm::Adagrad(s) => ("lr", first(&s.lr)),
        Algorithm::Adadelta(s) => ("lr", first(&s.lr)),
        Algorithm::RmsProp(s) => ("lr", first(&s.lr)),
        Algorithm::Adam(s) => ("lr", first(&s.lr)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explosion_is_noticed_at_once_wherever_it_begins() {
        for quiet in [1, 2, 30] {
            let mut pulse = Pulse::default();
            for _ in 0..quiet {
                assert_eq!(pulse.feel(2.3), None);
            }
            assert!(pulse.feel(1e5).unwrap().contains("2.300e0 at the beginning"));
        }
    }

    #[test]
    fn one_bad_batch_or_a_hot_sampler_is_no_explosion() {
        let mut pulse = Pulse::default();
        for step in 0..100 {
            let loss = if step == 50 { 1000.0 } else { 2.3 + f64::from(step) };
            assert_eq!(pulse.feel(loss), None, "step {step}");
        }
        // A loss that begins near 0 has to reach 100 itself.
        let mut pulse = Pulse::default();
        assert_eq!(pulse.feel(1e-6), None);
        assert_eq!(pulse.feel(50.0), None);
    }

    #[test]
    fn clipping_is_advised_where_there_is_none_and_skipping_where_it_could_not_help() {
        let gradient = "the gradient is NaN in `gru.input`[1200]";
        assert!(other_remedy(Clip::Off, gradient).unwrap().contains("clip.norm"));
        assert!(other_remedy(Clip::Norm(5.0), gradient).unwrap().contains("on_trouble.skip"));
        assert_eq!(other_remedy(Clip::Norm(5.0), "the loss is 1e9"), None);
    }

    #[test]
    fn a_likelihood_without_hope_is_told() {
        assert_eq!(hopeless("test", 200.0, 10f64.ln()), None);
        assert!(hopeless("test", 300.0, 10f64.ln()).is_some());
        assert!(hopeless("test", f64::NAN, 10f64.ln()).unwrap().contains("test data is NaN"));
    }
}
