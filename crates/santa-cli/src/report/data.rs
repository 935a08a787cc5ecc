//! What the script of the page draws, as JSON.

use super::annealing::{self, Momentum};
use super::calibration::{Reliability, reliability};
use super::curves::{self, Curve, Measure, Part, Prediction};
use super::groups::{Experiment, Group};
use crate::figure::{COLOURS, DASHES};
use crate::run::record::{Bin, QUANTILES};
use santa::Stage;
use serde_json::{Value as Json, json};

/// The data of all experiments.
pub fn of(experiments: &[Experiment<'_>]) -> Json {
    json!({ "experiments": experiments.iter().map(experiment_data).collect::<Vec<_>>() })
}

/// JSON as it may stand in a script element, whatever the texts in it say.
pub fn in_script(value: &Json) -> String {
    // Inside a JSON text these signs can only be part of a string.
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn experiment_data(experiment: &Experiment<'_>) -> Json {
    let groups: Vec<Json> = experiment
        .groups
        .iter()
        .map(|group| {
            json!({
                "label": group.label,
                "colour": group.index % COLOURS.len(),
                "dash": DASHES[group.index % DASHES.len()],
                "band": group.runs.len() > 1,
                "loss": curves::loss(group).map(curve),
                "test": part_data(group, Part::Test),
                "validation": part_data(group, Part::Validation),
                "annealing": annealing_data(group),
                "calibration": {
                    "last": bins(reliability(group, Prediction::Last)),
                    "averaged": bins(reliability(group, Prediction::Averaged)),
                },
            })
        })
        .collect();
    json!({ "name": experiment.name, "groups": groups })
}

fn part_data(group: &Group<'_>, part: Part) -> Json {
    let of = |measure, prediction| curves::scores(group, part, measure, prediction).map(curve);
    let both = |measure| json!({ "last": of(measure, Prediction::Last), "averaged": of(measure, Prediction::Averaged) });
    json!({ "error": both(Measure::Error), "nll": both(Measure::Nll) })
}

fn curve(curve: Curve) -> Json {
    json!({
        "epoch": numbers(curve.epoch),
        "seconds": numbers(curve.seconds),
        "mean": numbers(curve.mean),
        "low": numbers(curve.low),
        "high": numbers(curve.high),
    })
}

fn bins(found: Option<Reliability>) -> Json {
    let Some(found) = found else { return Json::Null };
    let of = |value: fn(&Bin) -> f64| numbers(found.bins.iter().map(value));
    json!({
        "confidence": of(|b| b.confidence),
        "accuracy": of(|b| b.accuracy),
        "count": of(|b| b.count as f64),
    })
}

fn annealing_data(group: &Group<'_>) -> Json {
    let Some(found) = annealing::annealing(group.runs[0]) else { return Json::Null };
    let stages: Vec<Json> = found
        .stages
        .iter()
        .map(|s| {
            let stage = match s.stage {
                Stage::Exploring => "exploring",
                Stage::Refining => "refining",
            };
            json!({ "stage": stage, "from": number(s.from), "to": number(s.to) })
        })
        .collect();
    let layers: Vec<Json> = found
        .momenta
        .into_iter()
        .map(|Momentum { name, times }| {
            json!({
                "name": name,
                "epoch": numbers(times.iter().map(|t| t.0)),
                // One list for each quantile.
                "quantiles": (0..QUANTILES.len()).map(|q| numbers(times.iter().map(|t| t.1[q]))).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "epoch": numbers(found.temperature.iter().map(|t| t.0)),
        "temperature": numbers(found.temperature.iter().map(|t| t.1)),
        "stages": stages,
        "layers": layers,
    })
}

fn numbers(values: impl IntoIterator<Item = f64>) -> Json {
    Json::Array(values.into_iter().map(number).collect())
}

/// A number in as many digits as a figure can show; null if it is not finite.
fn number(value: f64) -> Json {
    let short: f64 = format!("{value:.4e}").parse().unwrap_or(f64::NAN);
    serde_json::Number::from_f64(short).map_or(Json::Null, Json::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_script_it_stands_in() {
        let json = in_script(&json!({ "</script><script>": "<!-- & \u{2028}" }));
        assert!(!json.contains(['<', '>', '&', '\u{2028}']));
        let back: Json = serde_json::from_str(&json).unwrap();
        assert_eq!(back["</script><script>"], "<!-- & \u{2028}");
    }

    #[test]
    fn numbers_that_are_not_finite_become_null() {
        let values = [1.0, f64::NAN, f64::INFINITY, 0.123_456_789, 1e-300];
        assert_eq!(numbers(values).to_string(), "[1.0,null,null,0.12346,1e-300]");
    }
}
