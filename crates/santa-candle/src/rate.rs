//! Where each algorithm keeps its learning rate.

use santa::{Algorithm, Rate, Schedule, StepSize};

/// The learning rate of the settings, in the units that it has there.
pub(crate) fn schedule(algorithm: &Algorithm) -> santa::Result<&Schedule> {
    if let Some(step) = algorithm.step_size() {
        return Ok(match step {
            StepSize::Paper { eta: rate, .. }
            | StepSize::Practical { lr: rate, .. }
            | StepSize::HeavyBall { lr: rate, .. } => rate,
        });
    }
    let of = |rate| match rate {
        &Rate::Eta(ref rate) | &Rate::Lr(ref rate) => rate,
    };
    Ok(match algorithm {
        Algorithm::Sgld(s) => of(&s.rate),
        Algorithm::Psgld(s) => of(&s.rate),
        Algorithm::Sgd(s) => &s.lr,
        Algorithm::Adagrad(s) => &s.lr,
        Algorithm::Adadelta(s) => &s.lr,
        Algorithm::RmsProp(s) => &s.lr,
        Algorithm::Adam(s) => &s.lr,
        other => {
            let name = other.name();
            let reason = format!("this version of santa-candle does not know `{name}`; update it");
            return Err(santa::Error::Structure(reason));
        }
    })
}

/// Refuses a learning rate that no step can have.
pub(crate) fn check(lr: f64) -> santa::Result<()> {
    if lr > 0.0 && lr.is_finite() {
        return Ok(());
    }
    Err(santa::Error::Setting {
        field: "learning_rate".into(),
        value: lr.to_string(),
        allowed: "it must be positive and finite; leave the step out instead of making it with 0"
            .into(),
    })
}
