//! What is said of draws, in words, beyond what their summary says: temperatures and the comparison with
//! exact gradients.

use super::exact::{Comparison, Difference};
use santa_posterior::sampler::{Sampler, Temperature};

/// Draws whose configurational temperature is off.
pub fn hot_or_cold(temperature: &Temperature, sampler: &Sampler) -> Option<String> {
    if !temperature.is_off(sampler.tolerance) {
        return None;
    }
    let share = 100.0 * (temperature.mean / temperature.expected - 1.0);
    let (how, what) = match share > 0.0 {
        true => ("hot", "wider"),
        false => ("cold", "narrower"),
    };
    Some(format!(
        "The draws are too {how}: their configurational temperature is {}, so they are {what} than the \
         posterior by about {} % in variance. Use larger batches, a smaller step, or a longer warm-up.",
        reading(temperature),
        short(share.abs())
    ))
}

/// Momenta of given dynamics that the minibatches' noise has heated. The step of such dynamics is not
/// found by a warm-up, and nothing else would say that it is too large.
pub fn heated(kinetic: &Temperature, sampler: &Sampler) -> Option<String> {
    /// Relative: integrators differ in what they call the momentum of a step.
    const TOLERANCE: f64 = 0.25;
    let judged = sampler.dynamics.is_some() && kinetic.mean.is_finite();
    if !judged || kinetic.mean <= kinetic.expected || !kinetic.is_off(TOLERANCE) {
        return None;
    }
    Some(format!(
        "The noise of the minibatches heats the chains: their kinetic temperature is {}. They walk about \
         more widely than the law that was asked for. Use a smaller learning rate, larger batches, or a \
         thermostat (--set optimizer=santa with --set optimizer.exploration=always).",
        reading(kinetic)
    ))
}

/// That this is another law than the posterior.
pub fn tempered(sampler: &Sampler) -> Option<String> {
    if sampler.beta == 1.0 {
        return None;
    }
    let (temperature, how) =
        (1.0 / sampler.beta, if sampler.beta > 1.0 { "narrower" } else { "wider" });
    let remedy = match sampler.dynamics {
        Some(_) => "`--set optimizer.beta=1`",
        None => "`--temperature 1`",
    };
    Some(format!(
        "These are draws at temperature {}, not of the posterior: of a law that is {how} than it. {remedy} \
         asks for the posterior itself.",
        plain(temperature)
    ))
}

/// What a comparison with exact gradients shows: troubles, and what is only to be known.
pub fn compared(comparison: &Comparison) -> (Option<String>, Option<String>) {
    /// Chains that far apart have not met, however short they were.
    const APART: f64 = 1.5;
    match comparison {
        Comparison::Of(differences) => (differ(differences), None),
        Comparison::NotConverged { name, r_hat } if r_hat.is_nan() || *r_hat > APART => {
            let sentence = format!(
                "A short run with exact gradients, from starts of its own, found chains that do not meet \
                 (R-hat {r_hat:.2} for {name}). The posterior may have several modes, of which these draws \
                 may have seen one: begin more chains further apart, or anneal."
            );
            (Some(sentence), None)
        }
        Comparison::NotConverged { name, r_hat } => {
            let sentence = format!(
                "There is no comparison with exact gradients: a short run of them did not converge itself \
                 (R-hat {r_hat:.2} for {name})."
            );
            (None, Some(sentence))
        }
    }
}

fn differ(all: &[Difference]) -> Option<String> {
    let off: Vec<&Difference> = all.iter().filter(|difference| difference.is_off()).collect();
    let worst = off.iter().max_by(|a, b| a.mean.abs().total_cmp(&b.mean.abs()))?;
    Some(format!(
        "The draws differ from those of a short exact run in {} of {} quantities (the mean of {} by \
         {:.2} of its standard deviations). Use larger batches or a smaller step (--batch, \
         --largest-step); where the posterior has several modes, neither run may have seen them all.",
        off.len(),
        all.len(),
        worst.name,
        worst.mean
    ))
}

/// A temperature with its error, and what it should be.
pub fn reading(temperature: &Temperature) -> String {
    let Temperature { mean, standard_error, expected } = *temperature;
    format!("{} ± {} where it should be {}", short(mean), short(standard_error), plain(expected))
}

/// A number with some digits, and with its power of ten where zeros would fill the line.
pub fn short(x: f64) -> String {
    /// Behind the point of a number of order one.
    const DECIMALS: i32 = 3;
    const LARGEST: f64 = 1e6;
    const LEAST: f64 = 1e-3;
    if !x.is_finite() || x == 0.0 {
        return x.to_string();
    }
    if x.abs() >= LARGEST || x.abs() < LEAST {
        return format!("{x:.2e}");
    }
    let order = x.abs().log10().floor() as i32;
    // Two digits of what is small.
    let decimals = (DECIMALS - order.max(0)).max(1 - order).max(0);
    format!("{x:.*}", decimals as usize)
}

/// The same of a setting, without zeros at its end.
pub fn plain(x: f64) -> String {
    let text = short(x);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::Algorithm;

    fn at(mean: f64, expected: f64) -> Temperature {
        Temperature { mean, standard_error: 0.01 * expected, expected }
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (1.0, "1.000", "1"),
            (553.21, "553.2", "553.2"),
            (2.5e242, "2.50e242", "2.50e242"),
            (0.001, "0.0010", "0.001"),
            (0.0074, "0.0074", "0.0074"),
            (1e-4, "1.00e-4", "1.00e-4"),
            (0.0, "0", "0"),
        ];
        for (x, measured, set) in cases {
            assert_eq!((short(x).as_str(), plain(x).as_str()), (measured, set));
        }
    }

    #[test]
    fn heat_of_given_dynamics_is_noticed_and_that_of_none_is_not() {
        let found = Sampler::seeded(1);
        let given = Sampler {
            dynamics: Some(Algorithm::from(santa::dynamics::Sghmc::default())),
            ..found.clone()
        };
        assert!(
            heated(&at(7e-3, 1e-3), &given)
                .unwrap()
                .contains("0.0070 ± 1.00e-5 where it should be 0.001")
        );
        assert_eq!(heated(&at(7e-3, 1e-3), &found), None);
        assert_eq!(heated(&at(1.1e-3, 1e-3), &given), None);
        // Without momenta there is no such temperature.
        assert_eq!(heated(&at(f64::NAN, 1e-3), &given), None);
    }

    #[test]
    fn chains_that_no_exact_run_brings_together_are_a_trouble_and_slow_ones_a_note() {
        let of = |r_hat| compared(&Comparison::NotConverged { name: "a".into(), r_hat });
        assert!(matches!(of(3.0), (Some(_), None)));
        assert!(matches!(of(f64::NAN), (Some(_), None)));
        assert!(matches!(of(1.08), (None, Some(_))));
    }

    #[test]
    fn another_temperature_is_said() {
        let sampler = Sampler::seeded(1);
        assert_eq!(tempered(&sampler), None);
        let cold = tempered(&Sampler { beta: 1e3, ..sampler }).unwrap();
        assert!(cold.contains("0.001") && cold.contains("narrower"), "{cold}");
    }
}
