//! Chains that have run away.
//!
//! An unstable step takes a chain away from the posterior's mass, faster with each step, until numbers
//! overflow or until the thermostats, which answer with friction, hold it wherever it is. The second
//! leaves every number finite. What gives it away is the configurational temperature
//! $(z - c)^\top \nabla U/d$: about kU/d far out where U grows like $|z|^k$, and so a measure of how
//! improbable a place is.

use super::walker::Pace;

/// A single draw at so many times the temperature of the target is none of it: its density there is
/// lower by $e^{-10^6}$ or so. Below zero, it is of a chain that falls for ever.
const OF_A_DRAW: f64 = 1e6;
/// Nor is a chain all of whose draws are at so many times that temperature on average.
const OF_A_CHAIN: f64 = 100.0;

/// Whether the temperature of a draw says that its chain has run away.
///
/// `first` is the first reading of the chain: one that starts far out is hot at first.
pub fn in_draw(pace: &Pace, first: f64, beta: f64) -> bool {
    exceeds(beta * pace.temperature.abs(), OF_A_DRAW, beta * first)
}

/// Whether the temperatures of many draws say so. On its way down from a start that is also the centre
/// a chain reads less than zero, and that is no harm.
pub fn in_chain(temperatures: &[f64], first: f64, beta: f64) -> bool {
    let mean = temperatures.iter().sum::<f64>() / temperatures.len() as f64;
    exceeds(beta * mean, OF_A_CHAIN, beta * first)
}

/// True of a NaN and of an infinity, too.
fn exceeds(temperature: f64, times: f64, first: f64) -> bool {
    let allowed = times * if first > 1.0 { first } else { 1.0 };
    !(temperature.is_finite() && temperature <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(temperature: f64) -> Pace {
        Pace { temperature, ..Pace::default() }
    }

    #[test]
    fn hot_is_not_yet_run_away_and_no_number_is() {
        for temperature in [-1e5, 0.0, 1.0, 1e5] {
            assert!(!in_draw(&draw(temperature), f64::NAN, 1.0), "{temperature}");
        }
        for temperature in [1e7, -1e7, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert!(in_draw(&draw(temperature), 0.0, 1.0), "{temperature}");
        }
        assert!(!in_chain(&[0.5, 150.0, 3.0], 0.0, 1.0) && !in_chain(&[-1e4], 0.0, 1.0));
        assert!(in_chain(&[0.5, 15_000.0, 3.0], 0.0, 1.0));
        assert!(in_chain(&[1.0, f64::NAN], 0.0, 1.0) && in_chain(&[], 0.0, 1.0));
    }

    #[test]
    fn it_is_judged_by_the_temperature_of_the_target_and_by_the_start() {
        assert!(in_chain(&[15.0], 0.0, 10.0) && !in_chain(&[5.0], 0.0, 10.0));
        assert!(!in_chain(&[1_000.0], 20.0, 1.0));
        assert!(!in_draw(&draw(1e7), 20.0, 1.0));
    }
}
