//! The diagnostics against ArviZ, and the Stein discrepancy against NumPy, number by number.
//!
//! `golden/arviz.json` holds the draws and the values, `golden/arviz_table.py` made them and says how.

use santa_posterior::diagnostics::{
    Scale, SteinSettings, autocorrelation, ess_bulk, ess_mean, ess_quantile, ess_sd, ess_tail,
    integrated_time, mcse_mean, mcse_quantile, mcse_sd, r_hat, stein_discrepancy,
};
use serde::Deserialize;

/// Relative error that rounding explains.
const TOLERANCE: f64 = 1e-10;

#[derive(Deserialize)]
struct Golden {
    probabilities: Vec<f64>,
    cases: Vec<Case>,
    stein: Vec<SteinCase>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    draws: Vec<Vec<f64>>,
    r_hat: Option<f64>,
    ess_bulk: Option<f64>,
    ess_tail: Option<f64>,
    ess_mean: Option<f64>,
    ess_sd: Option<f64>,
    ess_quantile: Vec<Option<f64>>,
    mcse_mean: Option<f64>,
    mcse_sd: Option<f64>,
    mcse_quantile: Vec<Option<f64>>,
    autocorrelation: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct SteinCase {
    name: String,
    points: Vec<Vec<f64>>,
    beta: f64,
    given_scale: Option<f64>,
    scale: f64,
    discrepancy: f64,
    unbiased_square: f64,
}

impl Golden {
    fn load() -> Self {
        serde_json::from_str(include_str!("golden/arviz.json")).unwrap()
    }
}

fn compare(what: &str, case: &str, found: f64, expected: Option<f64>) {
    let agree = match expected {
        None => found.is_nan(),
        Some(expected) => (found - expected).abs() <= TOLERANCE * expected.abs(),
    };
    assert!(agree, "{what} of `{case}` is {found}, ArviZ has {expected:?}");
}

#[test]
fn diagnostics_have_the_values_of_arviz() {
    let golden = Golden::load();
    for case in &golden.cases {
        let (name, draws) = (case.name.as_str(), &case.draws);
        compare("R-hat", name, r_hat(draws), case.r_hat);
        compare("bulk ESS", name, ess_bulk(draws), case.ess_bulk);
        compare("tail ESS", name, ess_tail(draws), case.ess_tail);
        compare("ESS of the mean", name, ess_mean(draws), case.ess_mean);
        compare("ESS of the sd", name, ess_sd(draws), case.ess_sd);
        compare("MCSE of the mean", name, mcse_mean(draws), case.mcse_mean);
        compare("MCSE of the sd", name, mcse_sd(draws), case.mcse_sd);
        for (i, &p) in golden.probabilities.iter().enumerate() {
            let what = format!("ESS of the quantile {p}");
            compare(&what, name, ess_quantile(draws, p), case.ess_quantile[i]);
            let what = format!("MCSE of the quantile {p}");
            compare(&what, name, mcse_quantile(draws, p), case.mcse_quantile[i]);
        }
        let correlation = autocorrelation(&draws[0]);
        for (lag, expected) in case.autocorrelation.iter().enumerate() {
            // Small differences of large products: the error is relative to the lag 0.
            let shift = |x: f64| x + 2.0;
            let what = format!("autocorrelation at lag {lag}");
            compare(&what, name, shift(correlation[lag]), expected.map(shift));
        }
        let halves = (draws.len() * (draws[0].len() / 2 * 2)) as f64;
        let time = case.ess_mean.map(|ess| halves / ess);
        compare("integrated time", name, integrated_time(draws), time);
    }
}

#[test]
fn a_diagnostic_of_other_draws_has_another_value() {
    let case = &Golden::load().cases[0];
    let mut draws = case.draws.clone();
    draws[0].swap(10, 11);
    assert!((ess_bulk(&draws) / case.ess_bulk.unwrap() - 1.0).abs() > TOLERANCE);
}

#[test]
fn stein_discrepancies_are_those_of_a_plain_double_loop() {
    for case in Golden::load().stein {
        let points = case.points.concat();
        let settings = SteinSettings {
            scale: case.given_scale.map_or(Scale::Median, Scale::Given),
            beta: case.beta,
            ..SteinSettings::default()
        };
        let dim = case.points[0].len();
        let stein = stein_discrepancy(&points, &points, dim, &settings).unwrap();
        compare("scale", &case.name, stein.scale, Some(case.scale));
        compare("discrepancy", &case.name, stein.discrepancy, Some(case.discrepancy));
        compare("U-statistic", &case.name, stein.unbiased_square, Some(case.unbiased_square));
    }
}
