//! Who knows that it does not know? Networks that have seen upright digits are shown turned ones.
//!
//! ```sh
//! cargo run --release -p santa-cli --example rotated_digits [-- --seeds 5 --out rotated.json]
//! ```
//!
//! A single network under two priors, dropout, Monte Carlo dropout (Gal and Ghahramani, 2016) and two chains of Santa
//! that go on exploring: one cold, one at the temperature of the posterior. On the embedded subset of
//! MNIST, with 100-100 hidden units; if `SANTA_DATA` names a folder that has it, on the full set,
//! with 400-400. The rates of dropout are chosen on a sixth of the training data; nothing else is
//! chosen here. Nothing shows that the chains have converged: what is compared are predictions.
//! It prints the page `results/sampling/rotated-digits.md`.

use clap::Parser;
use santa::dynamics::{Exploration, InitialMomentum, Metric, Sgd};
use santa::noise::{Purpose, Stream};
use santa::stats::Moments;
use santa::{
    Algorithm, Chain, InverseTemperature, Layout, Potential, Prior, Sampling, Santa, StepSize,
    Stepper,
};
use santa_datasets::{Images, Mnist, Store};
use santa_nn::{Architecture, Classifier, Examples};
use santa_posterior::predict::{Detection, Predictive, Scores, Uncertainty, rotate};
use serde::Serialize;
use std::path::PathBuf;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const BATCH: usize = 100;
/// Probabilities of dropping a pixel and a hidden unit to choose from: what is usual for layers of a
/// thousand units (Srivastava et al., 2014), and less for small ones.
const DROPOUT: [[f64; 2]; 3] = [[0.2, 0.5], [0.1, 0.25], [0.05, 0.1]];
/// One of so many training examples is set aside to choose them by.
const SET_ASIDE: u32 = 6;
/// Learning rate and momentum of plain descent; its prior has precision 1, or that of the chains.
const DESCENT: (f64, f64) = (0.1, 0.9);
/// Those of the chains, and the precision of their prior, as in the reproduction of the paper's
/// Table 1 (`experiments/table1.toml`).
const CHAIN: (f64, f64) = (0.2, 0.9);
const CHAIN_PRECISION: f64 = 10.0;
/// Share of a chain's steps before its first draw.
const BURN_IN: f64 = 0.3;
/// Degrees from one rotation to the next.
const TURN: f64 = 15.0;
/// The rotation that is to be told from none.
const STRANGE: f64 = 90.0;

#[derive(Parser)]
#[command(about = "Shows turned digits to networks that have seen upright ones")]
struct Arguments {
    /// The first seed, of the initial weights, the minibatches and all noise.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// How many seeds, one after the other.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Passes through the training data.
    #[arg(long, default_value_t = 40)]
    epochs: u64,
    /// Draws from each posterior.
    #[arg(long, default_value_t = 30)]
    draws: u64,
    /// A file for all numbers, as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let full = std::env::var_os(santa_datasets::store::ENVIRONMENT).is_some();
    let mnist = match full {
        true => Mnist::load(&Store::new(None)?.offline())?,
        false => Mnist::embedded(),
    };
    let settings = Settings {
        hidden: if full { vec![400, 400] } else { vec![100, 100] },
        epochs: arguments.epochs,
        draws: arguments.draws,
        seed: arguments.seed,
        turns: (180.0 / TURN) as u32,
    };
    let mut studies = Vec::new();
    for seed in arguments.seed..arguments.seed + arguments.seeds {
        studies.push(study(&Settings { seed, ..settings.clone() }, &mnist)?);
    }
    print!("{}", page(&settings, &mnist, &studies, full));
    if let Some(path) = arguments.out {
        std::fs::write(path, serde_json::to_string_pretty(&(settings, studies))?)?;
    }
    Ok(())
}

#[derive(Clone, Debug, Serialize)]
struct Settings {
    /// Units of the hidden layers.
    hidden: Vec<usize>,
    epochs: u64,
    /// From each posterior.
    draws: u64,
    /// The first, where there are several.
    seed: u64,
    /// Rotations besides the upright digits, [`TURN`] degrees apart.
    turns: u32,
}

/// What came of one way to predict.
#[derive(Debug, PartialEq, Serialize)]
struct Outcome {
    name: String,
    draws: u64,
    /// Of dropout: of a pixel, of a hidden unit.
    rates: Option<[f64; 2]>,
    /// On the upright test digits.
    scores: Scores,
    rotations: Vec<Rotation>,
    /// Upright against turned by [`STRANGE`] degrees.
    by_entropy: Detection,
    /// None for a single network, which has no mutual information.
    by_mutual_information: Option<Detection>,
}

/// The test digits, turned.
#[derive(Debug, PartialEq, Serialize)]
struct Rotation {
    degrees: f64,
    error: f64,
    /// Means over the digits.
    log_likelihood: f64,
    entropy: f64,
    mutual_information: f64,
}

/// All ways to predict, on the same data.
fn study(settings: &Settings, mnist: &Mnist) -> Result<Vec<Outcome>> {
    let train = examples(&mnist.train, 0.0)?;
    let angles: Vec<f64> = (0..=settings.turns).map(|turn| TURN * f64::from(turn)).collect();
    let test = angles.iter().map(|a| examples(&mnist.test, *a)).collect::<Result<Vec<_>>>()?;
    let sizes = [&[train.width()], &settings.hidden[..], &[mnist.train.classes()]].concat();
    let network = Architecture::dense(&sizes);
    let steps = settings.epochs * train.len().div_ceil(BATCH) as u64;
    let run_on =
        |train: &Examples, network: &Architecture, algorithm: Algorithm, precision: f64| {
            let model = Classifier::<f32>::new(network, train.clone(), Prior::gaussian(precision))?;
            let theta = model.initial(settings.seed, 0).to_vec();
            let stepper = Stepper::new(algorithm, model.target(), settings.seed, 0)?;
            Chain::new(model, stepper, theta, Sampling::ShuffledEpochs, BATCH)
        };
    let run = |network: &Architecture, algorithm: Algorithm, precision: f64| {
        run_on(&train, network, algorithm, precision)
    };
    let mut outcomes = Vec::new();

    let descent: Algorithm = Sgd::new(DESCENT.0).momentum(DESCENT.1).into();
    for (name, precision) in [("SGD-M", 1.0), ("SGD-M, the chains' prior", CHAIN_PRECISION)] {
        let mut chain = run(&network, descent.clone(), precision)?;
        chain.advance(steps)?;
        let mut one = Turned::new(&test, &angles)?;
        let (theta, model) = chain.theta_and_potential();
        one.add(model, theta)?;
        outcomes.push(one.outcome(name, None)?);
    }

    let with_dropout = |rates: [f64; 2]| network.clone().with_dropout(rates[0], rates[1]);
    let (aside, rest): (Vec<u32>, Vec<u32>) =
        (0..train.len() as u32).partition(|i| i.is_multiple_of(SET_ASIDE));
    let (aside, rest) = (train.select(&aside)?, train.select(&rest)?);
    let mut rates = (f64::INFINITY, DROPOUT[0]);
    for candidate in DROPOUT {
        let mut chain = run_on(&rest, &with_dropout(candidate), descent.clone(), 1.0)?;
        chain.advance(steps)?;
        let (theta, model) = chain.theta_and_potential();
        let nll = model.evaluate(theta, &aside)?.nll;
        if nll < rates.0 {
            rates = (nll, candidate);
        }
    }
    let rates = rates.1;
    let mut chain = run(&with_dropout(rates), descent, 1.0)?;
    chain.advance(steps)?;
    let (mut usual, mut random) = (Turned::new(&test, &angles)?, Turned::new(&test, &angles)?);
    let (theta, model) = chain.theta_and_potential();
    usual.add(model, theta)?;
    for draw in 0..settings.draws {
        let thinned = drop_units(theta, model.network().layout(), rates, settings.seed, draw);
        random.add(model, &thinned)?;
    }
    outcomes.push(usual.outcome("Dropout", Some(rates))?);
    outcomes.push(random.outcome("Monte Carlo dropout", Some(rates))?);

    for (name, beta) in [("Santa, beta = 1000", 1_000.0), ("Santa, beta = 1", 1.0)] {
        let sampler = Santa {
            metric: Metric::Identity,
            step: StepSize::heavy_ball(CHAIN.0, CHAIN.1),
            beta: InverseTemperature::fixed(beta),
            exploration: Exploration::Always,
            // A chain that stands for the posterior must not have its friction cut.
            bounds_while_exploring: beta > 1.0,
            initial_momentum: InitialMomentum::Thermal,
            ..Santa::default()
        };
        let mut chain = run(&network, sampler.into(), CHAIN_PRECISION)?;
        let burn_in = (BURN_IN * steps as f64) as u64;
        chain.advance(burn_in)?;
        let mut posterior = Turned::new(&test, &angles)?;
        for _ in 0..settings.draws {
            chain.advance((steps - burn_in) / settings.draws)?;
            let (theta, model) = chain.theta_and_potential();
            posterior.add(model, theta)?;
        }
        outcomes.push(posterior.outcome(name, None)?);
    }
    Ok(outcomes)
}

/// Images turned by some degrees, scaled to [0, 1].
fn examples(images: &Images, degrees: f64) -> Result<Examples> {
    let pixels = rotate(images.pixels(), images.width(), degrees)?;
    Ok(Examples::from_bytes(pixels, images.image_len(), images.labels())?.scaled(1.0 / 255.0))
}

/// A draw of the weights under dropout: pixels and hidden units are dropped by leaving out what they
/// send to the next layer. One draw serves all examples.
fn drop_units(theta: &[f32], layout: &Layout, rates: [f64; 2], seed: u64, draw: u64) -> Vec<f32> {
    let stream = Stream::new(seed, 0, Purpose::Custom(0));
    let mut theta = theta.to_vec();
    let weights = layout.segments().iter().filter(|segment| segment.shape().len() == 2);
    for (layer, segment) in (0u32..).zip(weights) {
        let rate = rates[usize::from(layer > 0)];
        let outgoing = theta[segment.range()].chunks_mut(segment.shape()[1]);
        for (unit, weights) in (0u32..).zip(outgoing) {
            let dropped = stream.uniform(draw, layer, unit) < rate;
            let factor = if dropped { 0.0 } else { 1.0 / (1.0 - rate) };
            weights.iter_mut().for_each(|w| *w *= factor as f32);
        }
    }
    theta
}

const NO_DRAWS: &str = "there are no draws; ask for some";

/// The predictions of the test digits at every angle.
struct Turned<'a> {
    test: &'a [Examples],
    angles: &'a [f64],
    predictives: Vec<Predictive>,
}

impl<'a> Turned<'a> {
    fn new(test: &'a [Examples], angles: &'a [f64]) -> Result<Self> {
        /// Digits.
        const CLASSES: usize = 10;
        let predictives = test
            .iter()
            .map(|t| Predictive::new(t.len(), CLASSES))
            .collect::<santa_posterior::Result<_>>()?;
        Ok(Turned { test, angles, predictives })
    }

    /// Takes in a draw.
    fn add(&mut self, model: &mut Classifier<f32>, theta: &[f32]) -> Result<()> {
        for (examples, predictive) in self.test.iter().zip(&mut self.predictives) {
            predictive.push(&model.log_probabilities(theta, examples)?)?;
        }
        Ok(())
    }

    fn outcome(&self, name: &str, rates: Option<[f64; 2]>) -> Result<Outcome> {
        let labels: Vec<usize> = self.test[0].labels().collect();
        let mut rotations = Vec::new();
        for (predictive, degrees) in self.predictives.iter().zip(self.angles) {
            let of = predictive.uncertainties();
            let probabilities = predictive.probabilities().ok_or(NO_DRAWS)?;
            let wrong = of.iter().zip(&labels).filter(|(u, label)| u.class != **label).count();
            let mean = |f: fn(&Uncertainty) -> f64| of.iter().map(f).sum::<f64>() / of.len() as f64;
            rotations.push(Rotation {
                degrees: *degrees,
                error: wrong as f64 / of.len() as f64,
                log_likelihood: Scores::of(&probabilities, &labels)?.log_likelihood,
                entropy: mean(|u| u.entropy),
                mutual_information: mean(|u| u.mutual_information),
            });
        }
        let strange = self.angles.iter().position(|a| *a == STRANGE).unwrap_or(0);
        let detection = |f: fn(&Uncertainty) -> f64| {
            let [familiar, strange] = [0, strange].map(|i| -> Vec<f64> {
                self.predictives[i].uncertainties().iter().map(f).collect()
            });
            Detection::between(&familiar, &strange)
        };
        let upright = &self.predictives[0];
        let probabilities = upright.probabilities().ok_or(NO_DRAWS)?;
        Ok(Outcome {
            name: name.into(),
            draws: upright.draws(),
            rates,
            scores: Scores::of(&probabilities, &labels)?,
            rotations,
            by_entropy: detection(|u| u.entropy)?,
            by_mutual_information: match upright.draws() {
                1 => None,
                _ => Some(detection(|u| u.mutual_information)?),
            },
        })
    }
}

/// The page: what was run, and what came of it.
fn page(settings: &Settings, mnist: &Mnist, studies: &[Vec<Outcome>], full: bool) -> String {
    let Settings { hidden, epochs, draws, seed, .. } = settings;
    let (seeds, last) = (studies.len(), seed + studies.len() as u64 - 1);
    let data = if full { "SANTA_DATA=FOLDER " } else { "" };
    let mut rates: Vec<String> = studies
        .iter()
        .flatten()
        .filter(|outcome| outcome.draws == 1)
        .filter_map(|outcome| outcome.rates.map(|[pixel, unit]| format!("{pixel} / {unit}")))
        .collect();
    rates.sort();
    rates.dedup();
    format!(
        "# Turned digits\n\n`{data}cargo run --release -p santa-cli --example rotated_digits -- \
         --seed {seed} --seeds {seeds} --epochs {epochs} --draws {draws}`\n\n{} training and {} \
         test digits of MNIST, hidden units {hidden:?}, {epochs} epochs, seeds {seed} to {last}. The \
         weights' prior has precision {CHAIN_PRECISION} for the chains, 1 for the others unless they say otherwise. \
         Dropout (pixels / hidden units) chosen on a sixth of the training data: {}. AUROC: how \
         well the entropy or the mutual information tells upright digits from those turned by \
         {STRANGE} degrees; 0.5 is chance. Means over the seeds ± their standard deviation.\n\n{}",
        mnist.train.len(),
        mnist.test.len(),
        rates.join(", "),
        table(studies)
    )
}

/// The mean over the studies ± the standard deviation, where there are several.
fn spread(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let values: Moments = values.collect();
    match values.count() {
        0 => "–".into(),
        1 => format!("{:.digits$}", values.mean()),
        _ => format!("{:.digits$} ± {:.digits$}", values.mean(), values.variance().sqrt()),
    }
}

/// All that [`study`] finds with one seed or several, in Markdown.
fn table(studies: &[Vec<Outcome>]) -> String {
    let mut text = String::from(
        "| upright | draws | error, % | log-likelihood | Brier | ECE | ACE | AUROC by entropy \
         | AUROC by mutual information |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let first = studies.first().map_or(&[][..], |study| study);
    for (k, Outcome { name, draws, .. }) in first.iter().enumerate() {
        let of = |f: fn(&Outcome) -> Option<f64>, digits| {
            spread(studies.iter().filter_map(|study| f(&study[k])), digits)
        };
        let cells = [
            of(|o| Some(100.0 * o.scores.error()), 2),
            of(|o| Some(o.scores.log_likelihood), 4),
            of(|o| Some(o.scores.brier), 4),
            of(|o| Some(o.scores.expected_calibration_error), 4),
            of(|o| Some(o.scores.adaptive_calibration_error), 4),
            of(|o| Some(o.by_entropy.auroc), 3),
            of(|o| o.by_mutual_information.map(|detection| detection.auroc), 3),
        ];
        text += &format!("| {name} | {draws} | {} |\n", cells.join(" | "));
    }
    text +=
        "\nError, and means of log-likelihood, entropy / mutual information (nats):\n\n| degrees |";
    first.iter().for_each(|outcome| text += &format!(" {} |", outcome.name));
    text += &format!("\n|---|{}\n", "---|".repeat(first.len()));
    for i in 0..first.first().map_or(0, |outcome| outcome.rotations.len()) {
        text += &format!("| {} |", first[0].rotations[i].degrees);
        for k in 0..first.len() {
            let mean = |f: fn(&Rotation) -> f64| {
                studies.iter().map(|study| f(&study[k].rotations[i])).sum::<f64>()
                    / studies.len() as f64
            };
            text += &format!(
                " {:.1} %, {:.2}, {:.3} / {:.3} |",
                100.0 * mean(|r| r.error),
                mean(|r| r.log_likelihood),
                mean(|r| r.entropy),
                mean(|r| r.mutual_information)
            );
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_study_is_a_function_of_its_seed_and_shows_every_way_to_predict() {
        let all = Mnist::embedded();
        let every = |images: &Images, n: usize| {
            let indices: Vec<u32> = (0..images.len() as u32).step_by(images.len() / n).collect();
            images.subset(&indices).unwrap()
        };
        let mnist = Mnist { train: every(&all.train, 500), test: every(&all.test, 50) };
        let mut settings = Settings { hidden: vec![16], epochs: 4, draws: 3, seed: 1, turns: 6 };
        let outcomes = study(&settings, &mnist).unwrap();
        assert_eq!(outcomes, study(&settings, &mnist).unwrap());
        assert_eq!(outcomes.iter().map(|o| o.draws).collect::<Vec<_>>(), [1, 1, 1, 3, 3, 3]);
        for outcome in &outcomes {
            let [upright, .., turned] = &outcome.rotations[..] else { panic!() };
            assert_eq!((upright.degrees, turned.degrees), (0.0, STRANGE));
            assert!((upright.error - outcome.scores.error()).abs() < 1e-12);
            assert_eq!(upright.log_likelihood, outcome.scores.log_likelihood);
            assert_eq!(outcome.by_mutual_information.is_some(), upright.mutual_information > 1e-9);
        }
        assert!(outcomes[0].rotations[0].error < 0.6 && outcomes[0].rotations[6].error > 0.6);
        let ways = outcomes.len();
        settings.seed = 2;
        let other = study(&settings, &mnist).unwrap();
        assert_ne!(outcomes, other);
        let text = table(&[outcomes, other]);
        assert_eq!(text.lines().count(), 2 + ways + 3 + 2 + 7);
        assert!(text.contains('±'));
    }

    #[test]
    fn a_dropped_unit_sends_nothing_and_the_others_send_more() {
        let layout =
            Layout::new([("a", vec![1_000, 2]), ("b", vec![2]), ("c", vec![1_000, 1])]).unwrap();
        let theta = vec![1.0; layout.dim()];
        let rates = DROPOUT[0];
        let thinned = drop_units(&theta, &layout, rates, 7, 0);
        assert_ne!(thinned, drop_units(&theta, &layout, rates, 7, 1));
        for (segment, rate) in [(0, Some(rates[0])), (1, None), (2, Some(rates[1]))] {
            let segment = &layout.segments()[segment];
            let weights = &thinned[segment.range()];
            let Some(rate) = rate else {
                assert_eq!(weights, [1.0; 2]);
                continue;
            };
            let kept = (1.0 / (1.0 - rate)) as f32;
            assert!(weights.iter().all(|w| *w == 0.0 || *w == kept));
            assert!(weights.chunks(segment.shape()[1]).all(|unit| unit[0] == unit[unit.len() - 1]));
            let dropped = weights.iter().filter(|w| **w == 0.0).count() as f64;
            assert!((dropped / weights.len() as f64 - rate).abs() < 0.08);
        }
    }
}
