//! Saying what went wrong with a run that diverged.

use crate::experiment::Experiment;
use crate::failure::{Failure, Kind};
use santa::dynamics::Santa;
use santa::{Algorithm, Rate, Schedule, StepSize};
use santa_nn::Scalar;

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
        Some((field, value)) => format!(
            "`optimizer.{field}` = {value} is probably too large: try {}; or bound the gradient \
             with `--set clip.norm=1`",
            value / 10.0
        ),
        None => "lower the step size, or bound the gradient with `--set clip.norm=1`".into(),
    };
    Failure::new(Kind::Numerical, text).hint(remedy)
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
