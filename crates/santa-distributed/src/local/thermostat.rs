//! Thermostats that read the momentum of the team.
//!
//! A member's momentum is hotter than the mean of all momenta, by the variance between them, and what
//! its thermostat learns in a round is how to cool that: the averages would be too cold. Their thermostats
//! therefore begin where the round began, and are moved by the heat of
//! the averaged momentum, counted once for each of the H steps:
//!
//! $$ \alpha \mathrel{+}= \frac H\mu \left( \bar u^2 - \frac\eta\beta \right) $$

use crate::error::Result;
use crate::team::Number;
use santa::dynamics::Position;
use santa::{Algorithm, Stage, Stepper};

/// What the thermostats of a stepper were.
pub(super) struct Thermostats<F> {
    /// $\alpha - \alpha_0$ of each parameter; empty without such thermostats.
    shift: Vec<F>,
    /// $\xi - A$
    carried: Option<f64>,
    /// $\eta$ of each segment.
    eta: Vec<f64>,
}

impl<F: Number> Thermostats<F> {
    /// As they are.
    pub fn of(stepper: &Stepper<F>) -> Result<Self> {
        let mut eta = Vec::new();
        for i in 0..stepper.target().layout().segments().len() {
            eta.push(stepper.physics(i)?.map_or(1.0, |p| p.eta));
        }
        let shift = stepper.state_vector(SHIFT).unwrap_or_default().to_vec();
        Ok(Thermostats { shift, carried: stepper.carried(), eta })
    }

    /// Moves them by the momenta of a position, which are averages, after so many steps. Those that do not
    /// move, because the dynamics refine, stay as the position has them.
    pub fn read(&self, stepper: &Stepper<F>, steps: u64, position: &mut Position<F>) -> Result<()> {
        let Some(u) = vector(position, MOMENTUM).cloned() else { return Ok(()) };
        let target = stepper.target();
        let steps = steps as f64;
        let rescales = match stepper.algorithm() {
            Algorithm::Santa(santa) => santa.rescale,
            Algorithm::Msgnht(msgnht) => msgnht.as_santa().rescale,
            _ => false,
        };
        // Of all parameters together: their heat and number, the clock of one thermostat, 1/beta.
        let (mut heat, mut count, mut clock, mut temperature) = (0.0, 0.0, 0.0, 0.0);
        for (i, segment) in target.layout().segments().iter().enumerate() {
            let settings = target.settings(i);
            let Some(p) = stepper.physics(i)?.filter(|p| p.stage == Stage::Exploring) else {
                continue;
            };
            if settings.frozen {
                continue;
            }
            let u = &u[segment.range()];
            if let (false, Some(shift)) = (self.shift.is_empty(), vector(position, SHIFT)) {
                let scale = if rescales { (p.eta / self.eta[i]).sqrt() } else { 1.0 };
                let before = &self.shift[segment.range()];
                for ((shift, before), u) in shift[segment.range()].iter_mut().zip(before).zip(u) {
                    let heat = u.to_f64() * u.to_f64() - p.eta / p.beta;
                    *shift = F::from_f64(scale * before.to_f64() + steps / p.mass * heat);
                }
            }
            let weight = settings.lr_scale.sqrt();
            heat += weight / p.eta * u.iter().map(|u| u.to_f64() * u.to_f64()).sum::<f64>();
            count += weight * u.len() as f64;
            clock = (p.eta / settings.lr_scale).sqrt() / p.mass;
            temperature = 1.0 / p.beta;
        }
        if let Some(before) = self.carried.filter(|_| count > 0.0) {
            position.carried = Some(before + steps * clock * (heat / count - temperature));
        }
        Ok(())
    }
}

/// Names of state vectors.
const MOMENTUM: &str = "u";
const SHIFT: &str = "alpha_shift";

fn vector<'p, F>(position: &'p mut Position<F>, name: &str) -> Option<&'p mut Vec<F>> {
    position.state.iter_mut().find(|(n, _)| n == name).map(|(_, vector)| vector)
}
