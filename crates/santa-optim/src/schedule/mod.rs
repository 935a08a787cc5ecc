//! Values that change with the step: learning rates and inverse temperatures, as plain data.

mod read;

use crate::error::{Error, Result, check};
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// A positive value for each step t = 1, 2, 3, ...
///
/// | kind | value at step t |
/// | --- | --- |
/// | constant | `value` |
/// | power | $a (t + b)^\gamma$ |
/// | block decay | `start` $\cdot$ `factor`$^{\lfloor (t-1)/\mathrm{every} \rfloor}$ |
/// | cosine | from `start` to `end` along half a cosine over `steps`, then `end` |
/// | cyclical | the same, over and over, every `period` steps |
/// | warm-up | the inner schedule times t / `steps` until `steps` |
/// | piecewise | the first piece whose `until` is not below t, else `last` |
///
/// ```
/// use santa::Schedule;
///
/// let beta = Schedule::power(1.0, 0.0, 0.5); // t^0.5
/// assert_eq!(beta.at(100), 10.0);
/// let text = toml::to_string(&beta).unwrap();
/// assert_eq!(text, "kind = \"power\"\na = 1.0\nb = 0.0\ngamma = 0.5\n");
/// ```
///
/// Where a schedule is read, in a file of settings or inside another schedule, a number is a constant.
/// It is written as a table nevertheless: one schedule has one form in checkpoints, whose settings are
/// compared.
///
/// ```
/// use santa::{Schedule, StepSize};
///
/// let step: StepSize = toml::from_str("units = 'practical'\nlr = 0.1\nmomentum = 0.9").unwrap();
/// assert_eq!(step, StepSize::practical(0.1, 0.9));
/// let warm_up: Schedule = toml::from_str("kind = 'warm_up'\nsteps = 100\nthen = 0.1").unwrap();
/// assert_eq!(warm_up, Schedule::constant(0.1).with_warm_up(100));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Schedule {
    /// The same value for ever.
    Constant {
        /// The value.
        value: f64,
    },
    /// a (t + b)^gamma.
    Power {
        /// Factor.
        a: f64,
        /// Offset of the step; above -1.
        b: f64,
        /// Exponent.
        gamma: f64,
    },
    /// Multiplied by `factor` after every `every` steps.
    BlockDecay {
        /// First value.
        start: f64,
        /// Factor at the end of each block.
        factor: f64,
        /// Steps in a block.
        every: u64,
    },
    /// Half a cosine.
    Cosine {
        /// First value.
        start: f64,
        /// Last value, kept afterwards.
        end: f64,
        /// Steps between them.
        steps: u64,
    },
    /// Half a cosine, again and again: the schedule of cyclical SG-MCMC.
    Cyclical {
        /// Value at the beginning of each cycle.
        start: f64,
        /// Value that each cycle falls towards.
        end: f64,
        /// Steps in a cycle.
        period: u64,
    },
    /// A linear rise into another schedule.
    WarmUp {
        /// Steps of the rise.
        steps: u64,
        /// What is risen into.
        then: Box<Schedule>,
    },
    /// One schedule after another, each on the global step.
    Piecewise {
        /// Schedules with the last step of each, in rising order.
        pieces: Vec<Piece>,
        /// What follows the last piece.
        last: Box<Schedule>,
    },
}

/// A part of [`Schedule::Piecewise`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// The last step of this piece.
    pub until: u64,
    /// Its schedule.
    pub schedule: Schedule,
}

impl Schedule {
    /// The same value for ever.
    pub fn constant(value: f64) -> Self {
        Schedule::Constant { value }
    }
    /// $a (t + b)^\gamma$, the paper's annealing sequence.
    pub fn power(a: f64, b: f64, gamma: f64) -> Self {
        Schedule::Power { a, b, gamma }
    }
    /// Multiplied by `factor` after every `every` steps.
    pub fn block_decay(start: f64, factor: f64, every: u64) -> Self {
        Schedule::BlockDecay { start, factor, every }
    }
    /// Half a cosine from `start` to `end`.
    pub fn cosine(start: f64, end: f64, steps: u64) -> Self {
        Schedule::Cosine { start, end, steps }
    }
    /// Half a cosine from `start` to `end` every `period` steps.
    pub fn cyclical(start: f64, end: f64, period: u64) -> Self {
        Schedule::Cyclical { start, end, period }
    }
    /// A linear rise over `steps` into this schedule.
    pub fn with_warm_up(self, steps: u64) -> Self {
        Schedule::WarmUp { steps, then: Box::new(self) }
    }

    /// The value at step `t`, counted from 1; step 0 counts as 1.
    pub fn at(&self, t: u64) -> f64 {
        let t = t.max(1);
        match self {
            Schedule::Constant { value } => *value,
            Schedule::Power { a, b, gamma } => a * (t as f64 + b).powf(*gamma),
            Schedule::BlockDecay { start, factor, every } => {
                let blocks = (t - 1) / every.max(&1);
                start * factor.powi(blocks.min(i32::MAX as u64) as i32)
            }
            Schedule::Cosine { start, end, steps } => {
                half_cosine(*start, *end, (t - 1).min(*steps), *steps)
            }
            Schedule::Cyclical { start, end, period } => {
                half_cosine(*start, *end, (t - 1) % period.max(&1), *period)
            }
            Schedule::WarmUp { steps, then } => {
                then.at(t) * if t < *steps { t as f64 / *steps as f64 } else { 1.0 }
            }
            Schedule::Piecewise { pieces, last } => {
                pieces.iter().find(|p| t <= p.until).map_or(last.as_ref(), |p| &p.schedule).at(t)
            }
        }
    }

    /// Refuses a schedule that is not positive and finite at every step; `field` names it in the
    /// message. Values that underflow or overflow later are noticed at the step that meets them.
    pub fn check(&self, field: &str) -> Result<()> {
        let sub = |name: &str| format!("{field}.{name}");
        let count = |name: &str, n: u64| {
            if n == 0 { Err(Error::setting(sub(name), n, "it must be at least 1")) } else { Ok(()) }
        };
        match self {
            Schedule::Constant { value } => check::positive(field, *value),
            Schedule::Power { a, b, gamma } => {
                check::positive(&sub("a"), *a)?;
                if !(*b > -1.0 && b.is_finite()) {
                    return Err(Error::setting(sub("b"), b, "t + b must be positive at t = 1"));
                }
                if !gamma.is_finite() {
                    return Err(Error::setting(sub("gamma"), gamma, "it must be finite"));
                }
                Ok(())
            }
            Schedule::BlockDecay { start, factor, every } => {
                check::positive(&sub("start"), *start)?;
                check::positive(&sub("factor"), *factor)?;
                count("every", *every)
            }
            Schedule::Cosine { start, end, steps } => {
                check::positive(&sub("start"), *start)?;
                check::positive(&sub("end"), *end)?;
                count("steps", *steps)
            }
            Schedule::Cyclical { start, end, period } => {
                check::positive(&sub("start"), *start)?;
                check::positive(&sub("end"), *end)?;
                count("period", *period)
            }
            Schedule::WarmUp { steps, then } => {
                count("steps", *steps)?;
                then.check(&sub("then"))
            }
            Schedule::Piecewise { pieces, last } => {
                for (i, piece) in pieces.iter().enumerate() {
                    let field = sub(&format!("pieces[{i}]"));
                    if i > 0 && piece.until <= pieces[i - 1].until {
                        let allowed = "each piece must end after the one before";
                        return Err(Error::setting(field + ".until", piece.until, allowed));
                    }
                    piece.schedule.check(&field)?;
                }
                last.check(&sub("last"))
            }
        }
    }

    /// [`Schedule::at`], refusing a value that has become zero, infinite or NaN.
    pub fn positive_at(&self, field: &str, t: u64) -> Result<f64> {
        let value = self.at(t);
        if value > 0.0 && value.is_finite() {
            Ok(value)
        } else {
            let allowed = format!("it left the positive numbers at step {t}");
            Err(Error::setting(field, value, allowed))
        }
    }
}

fn half_cosine(start: f64, end: f64, step: u64, steps: u64) -> f64 {
    end + 0.5 * (start - end) * (1.0 + (PI * step as f64 / steps as f64).cos())
}

impl From<f64> for Schedule {
    fn from(value: f64) -> Self {
        Schedule::Constant { value }
    }
}

/// One over the temperature, as the dynamics follow it.
///
/// Temperature is a type of its own so that it cannot be mistaken for a learning rate, and so that
/// a posterior (beta = 1) has to be asked for by its name. In files it is written as its schedule:
/// `beta = 1` there is a posterior.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InverseTemperature(Schedule);

impl InverseTemperature {
    /// beta = 1: samples of the posterior.
    pub fn posterior() -> Self {
        InverseTemperature(Schedule::constant(1.0))
    }
    /// A constant beta: samples of exp(-beta U).
    pub fn fixed(beta: f64) -> Self {
        InverseTemperature(Schedule::constant(beta))
    }
    /// A constant temperature T = 1 / beta.
    pub fn temperature(temperature: f64) -> Self {
        InverseTemperature(Schedule::constant(1.0 / temperature))
    }
    /// beta_t along a schedule.
    pub fn annealed(beta: Schedule) -> Self {
        InverseTemperature(beta)
    }
    /// The schedule of beta.
    pub fn schedule(&self) -> &Schedule {
        &self.0
    }
    pub(crate) fn check(&self) -> Result<()> {
        self.0.check("beta")
    }
    /// beta at step t, refusing a value that has become zero, infinite or NaN.
    pub fn at(&self, t: u64) -> Result<f64> {
        self.0.positive_at("beta", t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_the_values_that_their_formulas_say() {
        let close = |s: &Schedule, t, v: f64| assert!((s.at(t) - v).abs() < 1e-12, "{s:?} at {t}");
        close(&Schedule::power(2.0, 3.0, -0.5), 1, 1.0);
        let decay = Schedule::block_decay(8.0, 0.5, 10);
        for (t, v) in [(1, 8.0), (10, 8.0), (11, 4.0), (21, 2.0)] {
            close(&decay, t, v);
        }
        let cosine = Schedule::cosine(1.0, 0.2, 100);
        for (t, v) in [(1, 1.0), (51, 0.6), (101, 0.2), (1000, 0.2)] {
            close(&cosine, t, v);
        }
        let cyclical = Schedule::cyclical(1.0, 0.2, 100);
        for (t, v) in [(1, 1.0), (51, 0.6), (101, 1.0), (151, 0.6)] {
            close(&cyclical, t, v);
        }
        let warm = Schedule::constant(3.0).with_warm_up(10);
        for (t, v) in [(1, 0.3), (5, 1.5), (10, 3.0), (11, 3.0)] {
            close(&warm, t, v);
        }
        let pieces = Schedule::Piecewise {
            pieces: vec![
                Piece { until: 5, schedule: 1.0.into() },
                Piece { until: 9, schedule: 2.0.into() },
            ],
            last: Box::new(3.0.into()),
        };
        for (t, v) in [(1, 1.0), (5, 1.0), (6, 2.0), (9, 2.0), (10, 3.0)] {
            close(&pieces, t, v);
        }
        let text = serde_json::to_string(&pieces).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), pieces);
    }

    #[test]
    fn impossible_schedules_are_refused_with_the_fields_name() {
        for (schedule, field) in [
            (Schedule::constant(0.0), "lr "),
            (Schedule::constant(f64::NAN), "lr"),
            (Schedule::power(1.0, -1.0, 1.0), "lr.b"),
            (Schedule::power(-1.0, 0.0, 1.0), "lr.a"),
            (Schedule::power(1.0, 0.0, f64::INFINITY), "lr.gamma"),
            (Schedule::block_decay(1.0, 0.5, 0), "lr.every"),
            (Schedule::cosine(1.0, 0.0, 10), "lr.end"),
            (Schedule::cyclical(1.0, 0.1, 0), "lr.period"),
            (Schedule::constant(-1.0).with_warm_up(3), "lr.then"),
        ] {
            let message = schedule.check("lr").unwrap_err().to_string();
            assert!(message.contains(field.trim()), "{message}");
        }
        assert!(Schedule::power(1.0, 0.0, -400.0).positive_at("lr", 1000).is_err());
    }
}
