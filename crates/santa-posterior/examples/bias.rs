//! The bias of the samplers against exact posteriors, as a function of step size and batch size.
//!
//! ```text
//! cargo run --release -p santa-posterior --example bias -- [--quick] [--json FILE]
//! ```
//!
//! Linear regression (exact posterior) and logistic regression (long Hamiltonian Monte Carlo), 100
//! data, 3 parameters. `h` is in the posterior's own units: $h = \sqrt{\eta\kappa}$ with the mean
//! precision $\kappa$, $h = \sqrt{2\eta\kappa}$ for SGLD, and the friction is 1.5 in the same
//! units. Batches are drawn with replacement.

use santa::dynamics::{Metric, Msgnht, NoiseEstimate, Santa, Sghmc, Sgld, ThermostatMass};
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::{LinearRegression, LogisticRegression};
use santa::potential::{ControlVariate, Potential};
use santa::{Algorithm, Rate, Sampling, StepSize};
use santa_posterior::check::bias::{Bias, Plan, Power, Reference, fit_power};
use santa_posterior::check::{Hmc, Walk, gradient_variance};
use santa_posterior::{Error, Result};
use serde::Serialize;

const N: usize = 100;
const DIM: usize = 3;
const STEPS: [f64; 4] = [0.4, 0.2, 0.1, 0.05];
const BATCHES: [usize; 4] = [N, N / 2, N / 10, 2];
/// Friction in the posterior's units.
const FRICTION: f64 = 1.5;
const RUNS: u32 = 16;
/// Time of all runs together, in the posterior's units.
const TIME: f64 = 12_000.0;
/// What `--quick` divides it by.
const QUICK: f64 = 10.0;
const SEED: u64 = 2016;

/// The samplers, by name, and whether they have a control variate.
const SAMPLERS: [(&str, bool); 8] = [
    ("santa", false),
    ("msgnht (Euler)", false),
    ("sghmc", false),
    ("sghmc, noise known", false),
    ("sgld", false),
    ("santa, control variate", true),
    ("sghmc, control variate", true),
    ("sgld, control variate", true),
];

#[derive(Serialize)]
struct Cell {
    model: &'static str,
    sampler: &'static str,
    batch: usize,
    h: f64,
    bias: Option<Bias>,
    /// Why there is no number.
    note: Option<String>,
}

#[derive(Serialize)]
struct Line {
    model: &'static str,
    sampler: &'static str,
    batch: usize,
    /// Powers of h in the standard deviations' error and in the means'.
    sd_power: Option<Power>,
    mean_power: Option<Power>,
}

#[derive(Serialize)]
struct Results {
    command: String,
    data: usize,
    references: Vec<(&'static str, Reference)>,
    cells: Vec<Cell>,
    powers: Vec<Line>,
}

fn main() -> Result<()> {
    let (mut quick, mut json) = (false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            "--json" => json = arguments.next(),
            other => return Err(Error::Data(format!("`{other}`: only --quick and --json FILE"))),
        }
    }
    let time = if quick { TIME / QUICK } else { TIME };
    let stream = Stream::new(SEED, 0, Purpose::Data);
    let (linear, _) = LinearRegression::synthetic(N, DIM, 1.0, 1.0, &stream)?;
    let (mut logistic, _) = LogisticRegression::synthetic(N, DIM, 1.0, &stream)?;

    let (mean, covariance) = linear.posterior()?;
    let exact = Reference::exact(mean, &covariance)?;
    let draws = if quick { 2_000 } else { 20_000 };
    let hmc = Hmc { draws, seed: SEED, ..Hmc::default() };
    let long = Reference::from_draws(&hmc.run(&mut logistic, &vec![vec![0.0; DIM]; 8])?.draws)?;

    let flag = if quick { "--quick " } else { "" };
    let mut results = Results {
        command: format!(
            "cargo run --release -p santa-posterior --example bias -- {flag}--json FILE"
        ),
        data: N,
        references: vec![("linear", exact.clone()), ("logistic", long.clone())],
        cells: Vec::new(),
        powers: Vec::new(),
    };
    table("linear", &linear, &exact, time, &mut results)?;
    table("logistic", &logistic, &long, time, &mut results)?;
    print(&results);
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&results)
            .map_err(|e| Error::Data(format!("writing the results as JSON: {e}")))?;
        std::fs::write(&file, text + "\n")
            .map_err(|e| Error::Data(format!("writing {file}: {e}")))?;
    }
    Ok(())
}

fn algorithm(sampler: &str, h: f64, precision: f64, variance: f64) -> Algorithm {
    let eta = h * h / precision;
    let step = StepSize::paper(eta, FRICTION * precision.sqrt());
    let thermostat_mass = 1.0 / precision;
    if sampler.starts_with("santa") {
        let thermostat_mass = ThermostatMass::Mass(thermostat_mass);
        Santa { metric: Metric::Identity, thermostat_mass, ..Santa::sampler(step, 1) }.into()
    } else if sampler.starts_with("msgnht") {
        Msgnht { thermostat_mass, ..Msgnht::new(step).euler() }.into()
    } else if sampler.starts_with("sgld") {
        Sgld::new(Rate::eta(eta / 2.0)).into()
    } else if sampler.ends_with("known") {
        Sghmc::new(step).b_hat(NoiseEstimate::GradientVariance(variance)).into()
    } else {
        Sghmc::new(step).into()
    }
}

fn table<P: Potential<f64> + Clone + Sync>(
    model: &'static str,
    posterior: &P,
    reference: &Reference,
    time: f64,
    results: &mut Results,
) -> Result<()> {
    for (sampler, control) in SAMPLERS {
        for batch in BATCHES {
            if batch == N && (control || sampler.ends_with("known")) {
                continue; // nothing to control or to know
            }
            let sampling = if batch == N { Sampling::Full } else { Sampling::WithReplacement };
            let variance = gradient_variance(&mut posterior.clone(), &reference.mean, batch)?;
            let first = results.cells.len();
            for h in STEPS {
                let precision = reference.precision();
                let walk = Walk::new(algorithm(sampler, h, precision, variance), sampling, batch);
                /// A diffusion forgets more slowly than a momentum.
                const DIFFUSION: f64 = 3.0;
                let slower = if sampler.starts_with("sgld") { DIFFUSION } else { 1.0 };
                let steps = (slower * time / (h * f64::from(RUNS))) as u64;
                // Noise of its own for each cell: the fit takes their errors as independent.
                let seed = SEED + results.cells.len() as u64;
                let plan = Plan { runs: RUNS, warm_up: steps / 10, steps, seed };
                let measured = if control {
                    // A new anchor every epoch.
                    let every = (N / batch) as u64;
                    plan.measure(reference, &walk, || {
                        Ok(ControlVariate::<_, f64>::new(posterior.clone(), every)?)
                    })
                } else {
                    plan.measure(reference, &walk, || Ok(posterior.clone()))
                };
                let (bias, note) = match measured {
                    Ok(bias) if bias.sd_ratio.is_finite() => (Some(bias), None),
                    Ok(_) | Err(Error::Santa(santa::Error::NotFinite { .. })) => {
                        (None, Some("diverges".into()))
                    }
                    Err(Error::Santa(santa::Error::Setting { field, .. })) => {
                        (None, Some(format!("{field} refused")))
                    }
                    Err(error) => return Err(error),
                };
                results.cells.push(Cell { model, sampler, batch, h, bias, note });
            }
            let cells = &results.cells[first..];
            let power = |of: &dyn Fn(&Bias) -> (f64, f64)| {
                let points: Vec<_> = cells
                    .iter()
                    .filter_map(|c| c.bias.as_ref().map(|b| (c.h, of(b).0, of(b).1)))
                    .collect();
                fit_power(&points)
            };
            let sd_power = power(&|b| (b.sd_ratio - 1.0, b.sd_error));
            let mean_power =
                power(&|b| (b.mean, (b.mean_error.powi(2) + reference.error.powi(2)).sqrt()));
            results.powers.push(Line { model, sampler, batch, sd_power, mean_power });
        }
    }
    Ok(())
}

/// A number of a cell, with its standard error.
type Value = fn(&Bias) -> (f64, f64);

fn print(results: &Results) {
    println!("# Bias against the exact posterior\n\n`{}`\n", results.command);
    println!(
        "{N} data, {DIM} parameters, batches drawn with replacement. h in the posterior's units \
         (sgld: eta = h^2/2), friction {FRICTION}. Errors are one standard error.\n"
    );
    for (model, reference) in &results.references {
        let titles: [(&str, Value); 2] = [
            ("standard deviation over the exact one, minus 1, in percent", |b| {
                (100.0 * (b.sd_ratio - 1.0), 100.0 * b.sd_error)
            }),
            ("bias of the mean, away from zero, in percent of the standard deviation", |b| {
                (100.0 * b.mean, 100.0 * b.mean_error)
            }),
        ];
        for (k, (title, value)) in titles.into_iter().enumerate() {
            println!(
                "## {model} regression: {title}\n\nStandard error of the reference: {:.2} %.\n",
                100.0 * reference.error
            );
            println!("| sampler | batch | h = 0.4 | 0.2 | 0.1 | 0.05 | power of h |");
            println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
            for line in results.powers.iter().filter(|l| l.model == *model) {
                let cells = results.cells.iter().filter(|c| {
                    (c.model, c.sampler, c.batch) == (line.model, line.sampler, line.batch)
                });
                let texts: Vec<String> = cells
                    .map(|cell| match (&cell.bias, &cell.note) {
                        (Some(bias), _) => {
                            let (value, error) = value(bias);
                            format!("{value:.1} ± {error:.1}")
                        }
                        (None, note) => note.clone().unwrap_or_default(),
                    })
                    .collect();
                let power = if k == 0 { line.sd_power } else { line.mean_power };
                let power =
                    power.map_or("-".into(), |p| format!("{:.1} ± {:.1}", p.power, p.error));
                println!("| {} | {} | {} | {power} |", line.sampler, line.batch, texts.join(" | "));
            }
            println!();
        }
    }
}
