//! Which steps of a chain become draws.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Which steps of a chain become draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Plan {
    /// Every so many steps.
    Every(u64),
    /// A few at the end of each cycle of a cyclical schedule: one set of draws per cycle.
    Cycles {
        /// Steps of a cycle.
        period: u64,
        /// Draws of each cycle; the last is at its last step.
        draws: u64,
        /// Steps between them.
        every: u64,
    },
}

impl Plan {
    /// Refuses a plan that cannot be followed.
    pub fn check(&self) -> Result<()> {
        let positive = |field: &str, value: u64| {
            if value > 0 {
                return Ok(());
            }
            Err(Error::setting(field, value, "it must be at least 1"))
        };
        match *self {
            Plan::Every(every) => positive("thin", every),
            Plan::Cycles { period, draws, every } => {
                positive("cycles.period", period)?;
                positive("cycles.draws", draws)?;
                positive("cycles.every", every)?;
                if (draws - 1).checked_mul(every).is_none_or(|span| span >= period) {
                    let allowed = format!(
                        "with {every} steps between them they do not fit a cycle of {period}"
                    );
                    return Err(Error::setting("cycles.draws", draws, allowed));
                }
                Ok(())
            }
        }
    }

    /// Steps after which draw number `draw` (from 0) is taken, counted from the end of the warm-up.
    pub fn step_of(&self, draw: u64) -> u64 {
        match *self {
            Plan::Every(every) => (draw + 1) * every,
            Plan::Cycles { period, draws, every } => {
                let (cycle, within) = (draw / draws, draw % draws);
                (cycle + 1) * period - (draws - 1 - within) * every
            }
        }
    }

    /// The cycle that a draw belongs to; 0 where there are no cycles.
    pub fn cycle_of(&self, draw: u64) -> u64 {
        match *self {
            Plan::Every(_) => 0,
            Plan::Cycles { draws, .. } => draw / draws,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_draw_of_a_cycle_is_its_last_step() {
        let plan = Plan::Cycles { period: 100, draws: 3, every: 10 };
        let steps: Vec<u64> = (0..6).map(|draw| plan.step_of(draw)).collect();
        assert_eq!(steps, [80, 90, 100, 180, 190, 200]);
        assert_eq!((plan.cycle_of(2), plan.cycle_of(3)), (0, 1));
        assert_eq!(Plan::Every(5).step_of(2), 15);
    }

    #[test]
    fn plans_that_do_not_fit_are_refused() {
        assert!(Plan::Every(0).check().is_err());
        assert!(Plan::Cycles { period: 20, draws: 3, every: 10 }.check().is_err());
        assert!(Plan::Cycles { period: 21, draws: 3, every: 10 }.check().is_ok());
        assert!(Plan::Cycles { period: 9, draws: u64::MAX, every: 9 }.check().is_err());
    }
}
