//! What is said of draws, in words, beyond what their summary says: temperatures, the kernel Stein
//! discrepancy and the comparison with exact gradients.

use super::exact::{Comparison, Difference, Off, Slow};
use super::network::CONSTANT_SANTA;
use super::stein::Measured;
use santa_posterior::sampler::{Figures, Sampler, Temperature};

/// Draws whose configurational temperature is off.
pub fn hot_or_cold(temperature: &Temperature, sampler: &Sampler) -> Option<String> {
    if !temperature.is_off(sampler.tolerance) {
        return None;
    }
    if temperature.is_unknown() {
        return Some(format!(
            "The draws do not tell how hot they are: their configurational temperature is {}. Either they \
             are very few, or some chains have run away. Sample longer, or use a smaller step.",
            reading(temperature)
        ));
    }
    if temperature.mean <= 0.0 {
        return Some(format!(
            "The draws are of no law at rest: their configurational temperature is {}, and none that is \
             not positive can be. The chains still move to where the posterior has its mass. Use a longer \
             warm-up.",
            reading(temperature)
        ));
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
         thermostat (--set optimizer=santa {CONSTANT_SANTA}).",
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

/// Draws whose kernel Stein discrepancy is more than chance.
pub fn of_another_law(measured: &Measured) -> Option<String> {
    measured.is_off.then(|| {
        format!(
            "The draws are of another law than was asked for: their kernel Stein discrepancy is {measured}. \
             They are too wide or too narrow, off the middle, or of another shape. Use larger batches or a \
             smaller step (--batch, --largest-step), or a longer warm-up (--warm-up)."
        )
    })
}

/// What is wrong by a comparison with exact gradients.
pub fn compared(comparison: &Comparison) -> Option<String> {
    /// Chains that far apart have not met, however short they were.
    const APART: f64 = 1.5;
    match comparison {
        Comparison::Of(differences) => differ(differences),
        Comparison::NotConverged(Slow { name, r_hat, .. }) if r_hat.is_nan() || *r_hat > APART => {
            Some(format!(
                "A short run with exact gradients, from starts of its own, found chains that do not meet \
                 (R-hat {r_hat:.2} for {name}). The posterior may have several modes, of which these draws \
                 may have seen one: begin more chains further apart, or anneal."
            ))
        }
        Comparison::NotConverged(Slow { name, r_hat, effective, draws }) => Some(format!(
            "Nothing confirms these draws: an exact sampler that was to check them has not converged with \
             {draws} draws of each of its chains (R-hat {r_hat:.2} and an effective sample size of \
             {effective:.0} for {name}). A law that is hard for it may be so for these chains too, and \
             they may agree about too narrow a part of it. Sample many times longer (--draws), see whether \
             other seeds and smaller steps (--largest-step) agree, or describe the model by parameters \
             whose scales do not depend on each other."
        )),
    }
}

/// Modes of a regression that the chains do not see, with their coefficients and shares of the mass.
pub fn other_modes(names: &[String], modes: &[(Vec<f64>, f64)]) -> Option<String> {
    /// Less is of no consequence.
    const LEAST: f64 = 1e-3;
    /// Coefficients that are shown.
    const SHOWN: usize = 4;
    let (values, share) = modes.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if *share < LEAST {
        return None;
    }
    let shown = names.iter().zip(values).take(SHOWN);
    let place: Vec<String> =
        shown.map(|(name, value)| format!("{name} = {}", short(*value))).collect();
    Some(format!(
        "The posterior has several modes, and the chains are around one of them. Another has about {:.1} % of \
         the mass, by its curvature: {}. Different lines fit different rows: look for a column that tells \
         them apart, or use more degrees of freedom (--degrees), which forgive fewer rows.",
        100.0 * share,
        place.join(", ")
    ))
}

fn differ(all: &[Difference]) -> Option<String> {
    let off: Vec<_> = all.iter().filter_map(|one| one.off().map(|off| (one, off))).collect();
    let (worst, (what, _)) = off.iter().max_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b))?;
    let name = &worst.name;
    let example = match what {
        Off::Mean => format!("the mean of {name} by {:.2} of its standard deviations", worst.mean),
        Off::Sd => {
            format!("the standard deviation of {name} by {:+.0} %", 100.0 * (worst.sd_ratio - 1.0))
        }
    };
    Some(format!(
        "The draws differ from those of a short exact run in {} of {} quantities ({example}). Use larger \
         batches or a smaller step (--batch, --largest-step); where the posterior has several modes, \
         neither run may have seen them all.",
        off.len(),
        all.len()
    ))
}

/// Why a step is short that would be longer if minibatch noise were the same in all directions.
pub fn shortened(dim: usize, figures: &Figures) -> Option<String> {
    /// Less is hardly noticed.
    const NOTICEABLE: f64 = 1.25;
    let Figures { step, even_step, noise_unevenness, .. } = *figures;
    if even_step <= NOTICEABLE * step {
        return None;
    }
    let remedy = match dim <= FEW_HUNDRED {
        true => {
            "Larger batches (--batch) or scales with correlations (--metric dense) allow a longer one."
        }
        false => "Larger batches (--batch) allow a longer one.",
    };
    Some(format!(
        "The step is short, {} of the posterior's scales where {} would do, because the noise of the \
         minibatches is not the same in all directions (its spread is {} times its mean) and would make \
         some of them too hot. {remedy}",
        short(step),
        short(even_step),
        short(noise_unevenness)
    ))
}

/// The most parameters for which correlations are still quickly found and used.
const FEW_HUNDRED: usize = 500;

/// What may help a warm-up whose scales are without correlations because there are many parameters.
pub fn without_correlations(dim: usize, figures: &Figures, is_trouble: bool) -> Option<String> {
    if dim > FEW_HUNDRED || !(is_trouble || figures.halvings > 0) {
        return None;
    }
    Some(format!(
        "The scales of the {dim} parameters were found without their correlations. `--metric dense` finds \
         these too: up to a few hundred parameters it is often the quicker way to draws that forget."
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
    fn an_exact_run_that_does_not_converge_is_a_trouble_of_one_kind_or_the_other() {
        let of = |r_hat| {
            let slow = Slow { name: "a".into(), r_hat, effective: 80.0, draws: 500 };
            compared(&Comparison::NotConverged(slow)).unwrap()
        };
        assert!(of(3.0).contains("several modes") && of(f64::NAN).contains("several modes"));
        assert!(
            of(1.08).contains("Nothing confirms") && of(1.0).contains("sample size of 80 for a")
        );
    }

    #[test]
    fn another_mode_is_named_with_its_share_unless_that_is_next_to_nothing() {
        let names = ["intercept", "a"].map(String::from);
        assert_eq!(other_modes(&names, &[]), None);
        assert_eq!(other_modes(&names, &[(vec![1.0, 2.0], 1e-9)]), None);
        let modes = [(vec![1.0, 2.0], 1e-9), (vec![0.5, -4.8], 0.0581)];
        let text = other_modes(&names, &modes).unwrap();
        assert!(text.contains("5.8 % of the mass") && text.contains("a = -4.800"), "{text}");
    }

    #[test]
    fn a_temperature_that_is_unknown_or_not_positive_is_no_percentage() {
        let sampler = Sampler::seeded(1);
        let said = |mean, standard_error| {
            hot_or_cold(&Temperature { mean, standard_error, expected: 1.0 }, &sampler).unwrap()
        };
        for (mean, error) in [(-23.7, 5.0), (1.0, f64::NAN), (f64::INFINITY, 1.0), (20.0, 2.0)] {
            let text = said(mean, error);
            assert!(text.contains("do not tell") && !text.contains('%'), "{text}");
        }
        let text = said(-0.5, 0.1);
        assert!(text.contains("no law at rest") && !text.contains('%'), "{text}");
        assert!(said(1.2, 0.01).contains("wider than the posterior by about 20.00 %"));
        assert!(said(0.8, 0.01).contains("narrower than the posterior by about 20.00 %"));
    }

    #[test]
    fn what_differs_from_an_exact_run_is_named_mean_or_standard_deviation() {
        let of = |name: &str, mean: f64, sd_ratio: f64| Difference {
            name: name.into(),
            mean,
            mean_error: 0.01,
            sd_ratio,
            sd_ratio_error: 0.01,
        };
        assert_eq!(differ(&[of("a", 0.09, 1.04), of("b", -0.09, 0.96)]), None);
        let sd = differ(&[of("a", 0.08, 1.0), of("b", 0.02, 0.93)]).unwrap();
        assert!(sd.contains("1 of 2") && sd.contains("standard deviation of b by -7 %"), "{sd}");
        let mean = differ(&[of("a", 0.3, 1.0), of("b", 0.02, 0.93)]).unwrap();
        assert!(mean.contains("2 of 2") && mean.contains("mean of a by 0.30"), "{mean}");
        let none = differ(&[of("a", 0.3, 1.0), of("b", 0.0, f64::NAN)]).unwrap();
        assert!(none.contains("standard deviation of b"), "{none}");
        // Four standard errors are chance.
        let unsure = Difference { sd_ratio_error: 0.03, ..of("a", 0.0, 1.11) };
        assert_eq!(differ(&[unsure]), None);
    }

    #[test]
    fn scales_without_correlations_are_mentioned_where_they_may_be_the_trouble() {
        let (calm, halved) = (Figures::default(), Figures { halvings: 2, ..Figures::default() });
        assert_eq!(without_correlations(200, &calm, false), None);
        assert_eq!(without_correlations(5_000, &halved, true), None);
        for (figures, is_trouble) in [(&calm, true), (&halved, false)] {
            let advice = without_correlations(200, figures, is_trouble).unwrap();
            assert!(advice.contains("--metric dense"), "{advice}");
        }
    }

    #[test]
    fn a_step_that_uneven_noise_made_short_is_explained_and_no_other() {
        let found =
            Figures { step: 0.04, even_step: 0.3, noise_unevenness: 2.5, ..Figures::default() };
        let text = shortened(200, &found).unwrap();
        for words in
            ["0.040 of the posterior's scales where 0.300", "2.500 times", "--metric dense"]
        {
            assert!(text.contains(words), "{text}");
        }
        assert!(!shortened(5_000, &found).unwrap().contains("dense"));
        assert_eq!(shortened(200, &Figures { even_step: 0.04, ..found }), None);
        assert_eq!(shortened(200, &Figures::default()), None);
    }

    #[test]
    fn another_temperature_is_said() {
        let sampler = Sampler::seeded(1);
        assert_eq!(tempered(&sampler), None);
        let cold = tempered(&Sampler { beta: 1e3, ..sampler }).unwrap();
        assert!(cold.contains("0.001") && cold.contains("narrower"), "{cold}");
    }
}
