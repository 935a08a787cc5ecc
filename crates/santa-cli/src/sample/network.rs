//! The posterior of a network: an experiment whose dynamics sample.

use super::conduct::{Tables, draw};
use super::report::Table;
use super::request::Request;
use super::{Context, Outcome};
use crate::args::Part;
use crate::data::Parts;
use crate::experiment::{self, Draft, Experiment, Precision};
use crate::failure::{Failure, Result};
use crate::train::{Average, ImageModel, Model, MusicModel, classifier, sequence_model};
use santa::average::Pooling;
use santa::{Checkpoint, Clip, Real, Stage};
use santa_nn::{Layer, Scalar};
use santa_posterior::predict::{Predictive, PredictiveState, Scores};
use santa_posterior::sampler::{Cycles, Member, Recorder, Sampler};
use std::ops::Range;

const OPTIONS: [&str; 4] = ["--set", "--batch", "--cycle", "--draws-per-cycle"];
/// Draws of each chain by default.
const DRAWS: u64 = 50;
/// Chains by default; each has a network of its own.
const CHAINS: u32 = 4;
/// Draws of an epoch by default.
const DRAWS_PER_EPOCH: u64 = 2;
/// Epochs of warm-up by default.
const WARM_UP: u64 = 5;
/// Test examples whose log-odds are kept: what the chains must agree on is the function, not the
/// weights, which have many names for one function.
const WATCHED: usize = 10;

/// Samples the posterior of an experiment's network.
pub fn run(request: &Request, context: &Context<'_>) -> Result<Outcome> {
    request.refuse_others("a network", &OPTIONS)?;
    let mut draft = Draft::open(&request.model)?;
    draft.set_all(&request.set)?;
    if let Some(seed) = request.sampler.seed {
        draft.set(&format!("seed={seed}"))?;
    }
    if let Some(batch) = request.sampler.batch {
        draft.set(&format!("batch={batch}"))?;
    }
    let experiment = draft.resolve()?;
    refuse(&experiment)?;
    match experiment.precision {
        Precision::F32 => sample::<f32>(request, &experiment, context),
        Precision::F64 => sample::<f64>(request, &experiment, context),
    }
}

/// What makes a sampler of Santa.
pub const CONSTANT_SANTA: &str = "--set optimizer.exploration=always --set optimizer.beta=1";

/// Refuses what is no sampler.
fn refuse(experiment: &Experiment) -> Result<()> {
    /// Long after any schedule has come to its end.
    const LATE: u64 = 1_000_000_000;
    let algorithm = &experiment.optimizer.algorithm;
    let hint = format!("use a sampler: --set optimizer=sghmc, or Santa with {CONSTANT_SANTA}");
    if algorithm.stage(LATE)? != Stage::Exploring {
        let name = &experiment.optimizer.name;
        return Err(Failure::usage(format!("the optimizer {name:?} ends without noise")).hint(hint));
    }
    let settings = serde_json::to_value(algorithm).map_err(Failure::system)?;
    if settings["beta"]["kind"] != "constant" {
        return Err(Failure::usage(
            "`optimizer.beta` changes from step to step, and the draws would be of many laws",
        )
        .hint("keep it constant: --set optimizer.beta=1 asks for the posterior"));
    }
    if experiment.chains != 1 {
        let text = format!("the experiment has `chains` = {}", experiment.chains);
        return Err(Failure::usage(text)
            .hint("say how many with `--chains`, and leave them out of the experiment"));
    }
    if experiment.variational.is_some() {
        return Err(Failure::usage("Bayes by Backprop has its own posterior")
            .hint("`santa train` fits it; remove the section [variational]"));
    }
    if experiment.clip != Clip::Off {
        return Err(Failure::usage("a clipped gradient is that of another posterior")
            .hint("remove `clip` from the experiment"));
    }
    // The sizes of the data do not matter here.
    let layers = experiment.model.architecture(1, 1).map_or(Vec::new(), |network| network.layers);
    if layers.iter().any(|layer| matches!(layer, Layer::Dropout(_) | Layer::StochasticPool(_))) {
        return Err(Failure::usage("dropout makes the potential another one in every step")
            .hint("remove it from `model`, and stochastic pooling; the posterior needs none"));
    }
    Ok(())
}

fn sample<F: Scalar>(
    request: &Request,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Outcome> {
    let settings = &request.sampler;
    if let Some(period) = settings.cycle {
        check_cycle(experiment, period)?;
    }
    let per_epoch = (experiment.data.training_size() as u64).div_ceil(experiment.batch as u64);
    let beta = experiment.optimizer.algorithm.beta(u64::from(u32::MAX))?;
    let cycles = settings
        .cycle
        .map(|period| Cycles { period, draws: settings.draws_per_cycle.unwrap_or(1) });
    let sampler = Sampler {
        chains: settings.chains.unwrap_or(CHAINS),
        draws: settings.draws.unwrap_or(DRAWS),
        warm_up: settings.warm_up.unwrap_or(WARM_UP * per_epoch),
        thin: Some(settings.thin.unwrap_or((per_epoch / DRAWS_PER_EPOCH).max(1))),
        cycles,
        batch_size: experiment.batch,
        sampling: experiment.data.order,
        beta,
        dynamics: Some(experiment.optimizer.algorithm.clone()),
        ..Sampler::seeded(experiment.seed)
    };
    let mut facts = vec![
        ("experiment".to_string(), experiment.name.clone()),
        ("dynamics".into(), experiment.optimizer.name.clone()),
    ];
    let title = format!("The posterior of {}", experiment.name);
    // Every chain has a model of its own, with data of its own.
    let load = || context.data_sets.load(&experiment.data);
    let chains = sampler.chains_in_team(context.team);
    if let experiment::Model::Gru { .. } = &experiment.model {
        let members = members(chains, &mut facts, |chain| {
            let Parts::Music(parts) = load()? else { return Err(changed()) };
            let (train, rest) = parts.take_apart();
            let model = sequence_model::<F>(experiment, train)?;
            let start = model.initial(experiment.seed, chain).to_vec();
            Ok((MusicModel::new(model, rest), start))
        })?;
        return Ok(draw(sampler, members, title, facts, context)?.1);
    }
    let members = members(chains, &mut facts, |chain| {
        let Parts::Images(parts) = load()? else { return Err(changed()) };
        let (train, rest) = parts.take_apart();
        let model = classifier::<F>(experiment, train)?;
        let start = model.initial(experiment.seed, chain).to_vec();
        Ok((ImageModel::new(model, rest), start))
    })?;
    Ok(draw(sampler, members, title, facts, context)?.1)
}

/// Refuses cycles that the experiment's schedules do not have: draws would be made anywhere.
fn check_cycle(experiment: &Experiment, period: u64) -> Result<()> {
    fn periods(value: &serde_json::Value, found: &mut Vec<u64>) {
        if value["kind"] == "cyclical" {
            found.extend(value["period"].as_u64());
        }
        match value {
            serde_json::Value::Object(fields) => fields.values().for_each(|v| periods(v, found)),
            serde_json::Value::Array(values) => values.iter().for_each(|v| periods(v, found)),
            _ => (),
        }
    }
    let algorithm = serde_json::to_value(&experiment.optimizer.algorithm);
    let mut found = Vec::new();
    periods(&algorithm.map_err(Failure::system)?, &mut found);
    let what = match found.first() {
        _ if found.contains(&period) => return Ok(()),
        Some(other) => format!("has cycles of {other} steps"),
        None => "has no cycles".into(),
    };
    Err(Failure::usage(format!("--cycle {period}: the optimizer's schedule {what}")).hint(format!(
        "give it some: --set 'optimizer.lr={{ kind = \"cyclical\", start = 0.1, end = 0.001, \
         period = {period} }}'"
    )))
}

/// The chains, from models and where they start.
fn members<F: Scalar, M: Model<F> + Send>(
    chains: Range<u32>,
    facts: &mut Vec<(String, String)>,
    mut make: impl FnMut(u32) -> Result<(M, Vec<F>)>,
) -> Result<Vec<Member<F, M, Predictions>>> {
    let mut members = Vec::new();
    for chain in chains {
        let (model, start) = make(chain)?;
        if members.is_empty() {
            facts.push(("parameters".into(), start.len().to_string()));
        }
        let recorder = Predictions::new(&model)?;
        members.push(Member::new(model, recorder, start));
    }
    Ok(members)
}

fn changed() -> Failure {
    Failure::data("the data set is not of the model's kind")
}

/// What is kept of a network's draws: how good each is on test data, and the prediction of all.
#[derive(Clone)]
struct Predictions {
    /// The labels of the test examples; none for music.
    labels: Option<Vec<usize>>,
    gathered: Gathered,
}

enum Gathered {
    Classes(Box<Predictive>),
    Keys { average: Average, score: Option<f64> },
}

impl Clone for Gathered {
    fn clone(&self) -> Self {
        match self {
            Gathered::Classes(predictive) => Gathered::Classes(predictive.clone()),
            Gathered::Keys { average, score } => {
                let average = match average {
                    Average::Classes(average) => Average::Classes(average.clone()),
                    Average::Keys(average) => Average::Keys(average.clone()),
                };
                Gathered::Keys { average, score: *score }
            }
        }
    }
}

impl Predictions {
    fn new<F: Scalar>(model: &impl Model<F>) -> Result<Self> {
        let labels = model.labels(Part::Test)?;
        let gathered = match (&labels, model.average(Part::Test)?) {
            (Some(labels), Average::Classes(average)) => {
                let classes = average.classes();
                Gathered::Classes(Box::new(Predictive::new(labels.len(), classes)?))
            }
            (_, average) => Gathered::Keys { average, score: None },
        };
        Ok(Predictions { labels, gathered })
    }
}

/// Names of the vectors in a checkpoint.
const KEPT: [&str; 5] = ["probabilities", "log_probabilities", "entropy", "squares", "votes"];
const COUNT: &str = "predictive/draws";
const KEYS: &str = "sampled";
const SCORE: &str = "sampled/score";

impl<F: Scalar, M: Model<F> + Send> Recorder<F, M> for Predictions {
    fn names(&self) -> Vec<String> {
        let mut names = vec!["test_nll".to_string()];
        if let Some(labels) = &self.labels {
            names.push("test_error".into());
            names.extend((0..WATCHED.min(labels.len())).map(|i| format!("log_odds[{i}]")));
        }
        names.push("norm".into());
        names
    }

    fn record(&mut self, model: &mut M, theta: &[F], out: &mut [f64]) -> santa::Result<()> {
        let norm = theta.iter().map(|x| x.to_f64().powi(2)).sum::<f64>().sqrt();
        match (&mut self.gathered, &self.labels) {
            (Gathered::Classes(predictive), Some(labels)) => {
                let logs = model.log_probabilities(theta, Part::Test).map_err(refused)?;
                let logs = logs.unwrap_or_default();
                predictive.push(&logs).map_err(refused)?;
                let classes = predictive.classes();
                let (mut nll, mut wrong) = (0.0, 0.0);
                for (i, (row, label)) in logs.chunks_exact(classes).zip(labels).enumerate() {
                    let log = row[*label].to_f64();
                    nll -= log;
                    wrong += f64::from(u8::from(row.iter().any(|x| *x > row[*label])));
                    if i < WATCHED {
                        out[2 + i] = log_odds(row, *label);
                    }
                }
                let count = labels.len() as f64;
                (out[0], out[1]) = (nll / count, wrong / count);
            }
            (Gathered::Keys { average, score }, _) => {
                model.add(theta, Part::Test, average).map_err(refused)?;
                let all = model.score_average(average, Part::Test, Pooling::Probabilities);
                *score = Some(all.map_err(refused)?.nll);
                out[0] = model.score(theta, Part::Test).map_err(refused)?.nll;
            }
            (Gathered::Classes(_), None) => {
                return Err(refused("a prediction of classes without labels"));
            }
        }
        if let Some(last) = out.last_mut() {
            *last = norm;
        }
        Ok(())
    }

    fn save(&self, checkpoint: &mut Checkpoint) -> santa::Result<()> {
        match &self.gathered {
            Gathered::Classes(predictive) => {
                let PredictiveState {
                    draws,
                    probabilities,
                    log_probabilities,
                    entropy,
                    squares,
                    votes,
                } = predictive.state();
                checkpoint.insert_meta(COUNT, &draws)?;
                let vectors = [probabilities, log_probabilities, entropy, squares, votes];
                for (name, vector) in KEPT.iter().zip(vectors) {
                    let name = format!("predictive/{name}");
                    checkpoint.insert_tensor(name, &[vector.len()], &vector)?;
                }
                Ok(())
            }
            Gathered::Keys { average, score } => {
                checkpoint.insert_meta(SCORE, score)?;
                average.save(KEYS, checkpoint).map_err(refused)
            }
        }
    }

    fn restore(&mut self, checkpoint: &Checkpoint) -> santa::Result<()> {
        match &mut self.gathered {
            Gathered::Classes(predictive) => {
                let get = |name: &str| checkpoint.tensor::<f64>(&format!("predictive/{name}"));
                let state = PredictiveState {
                    draws: checkpoint.meta(COUNT)?,
                    probabilities: get(KEPT[0])?,
                    log_probabilities: get(KEPT[1])?,
                    entropy: get(KEPT[2])?,
                    squares: get(KEPT[3])?,
                    votes: get(KEPT[4])?,
                };
                predictive.restore(state).map_err(refused)
            }
            Gathered::Keys { average, score } => {
                // None in a checkpoint without draws.
                *score = checkpoint.meta(SCORE)?;
                average.restore(KEYS, checkpoint).map_err(refused)
            }
        }
    }
}

/// The logarithm of p/(1 - p) of the label, without losing what is close to 1.
fn log_odds<F: Real>(row: &[F], label: usize) -> f64 {
    let others: f64 =
        (row.iter().enumerate()).filter(|(k, _)| *k != label).map(|(_, x)| x.to_f64().exp()).sum();
    row[label].to_f64() - others.max(f64::MIN_POSITIVE).ln()
}

fn refused(why: impl std::fmt::Display) -> santa::Error {
    santa::Error::Structure(why.to_string())
}

impl Tables for Predictions {
    fn tables(recorders: &[Self]) -> Result<Vec<Table>> {
        let classes: Vec<(&Predictive, &[usize])> = recorders
            .iter()
            .filter_map(|one| match (&one.gathered, &one.labels) {
                (Gathered::Classes(predictive), Some(labels)) => {
                    Some((&**predictive, labels.as_slice()))
                }
                _ => None,
            })
            .collect();
        if classes.is_empty() {
            return Ok(music(recorders));
        }
        let mut table = Table {
            title: "Predictions of the test data".into(),
            columns: COLUMNS.map(String::from).to_vec(),
            rows: Vec::new(),
            note: "Entropy: how unsure the mean prediction is, in nats. Mutual information: the part \
                   of it that the draws do not agree about. ECE, ACE: expected and adaptive calibration \
                   error."
                .into(),
            bins: Vec::new(),
        };
        let mut all: Option<Predictive> = None;
        for (chain, (predictive, labels)) in classes.iter().enumerate() {
            table.rows.push(row(&format!("average of chain {chain}"), predictive, labels)?);
            match &mut all {
                None => all = Some((*predictive).clone()),
                Some(all) => all.merge(predictive)?,
            }
        }
        let Some(all) = all else { return Ok(vec![table]) };
        if classes.len() > 1 {
            table.rows.push(row("average of all chains", &all, classes[0].1)?);
        }
        Ok(vec![table, reliability(&all, classes[0].1)?])
    }
}

/// How often predictions of some confidence come true.
fn reliability(predictive: &Predictive, labels: &[usize]) -> Result<Table> {
    let scores = Scores::of(&predictive.probabilities().unwrap_or_default(), labels)?;
    let bins = scores.reliability.iter().filter(|bin| bin.count > 0);
    let percent = |x: f64| format!("{:.1} %", 100.0 * x);
    let rows = bins.map(|bin| {
        let error = (bin.accuracy * (1.0 - bin.accuracy) / bin.count as f64).sqrt();
        let right = format!("{} ± {:.1}", percent(bin.accuracy), 100.0 * error);
        vec![percent(bin.confidence), right, bin.count.to_string()]
    });
    Ok(Table {
        title: "Reliability of the average".into(),
        columns: ["confidence", "right", "predictions"].map(String::from).to_vec(),
        rows: rows.collect(),
        note: "Of predictions about as sure as this, the share that is right, with its standard error: \
               the same number if the average is calibrated."
            .into(),
        bins: scores.reliability.clone(),
    })
}

const COLUMNS: [&str; 9] = [
    "prediction",
    "draws",
    "error",
    "log-likelihood",
    "Brier score",
    "ECE",
    "ACE",
    "entropy",
    "mutual information",
];

fn row(name: &str, predictive: &Predictive, labels: &[usize]) -> Result<Vec<String>> {
    let probabilities = predictive.probabilities().unwrap_or_default();
    let scores = Scores::of(&probabilities, labels)?;
    let uncertainties = predictive.uncertainties();
    let count = uncertainties.len().max(1) as f64;
    let entropy = uncertainties.iter().map(|u| u.entropy).sum::<f64>() / count;
    let information = uncertainties.iter().map(|u| u.mutual_information).sum::<f64>() / count;
    Ok(vec![
        name.into(),
        predictive.draws().to_string(),
        format!("{:.2} %", 100.0 * scores.error()),
        format!("{:.4}", scores.log_likelihood),
        format!("{:.4}", scores.brier),
        format!("{:.4}", scores.expected_calibration_error),
        format!("{:.5}", scores.adaptive_calibration_error),
        format!("{entropy:.4}"),
        format!("{information:.4}"),
    ])
}

/// Music: the likelihood of each chain's average.
fn music(recorders: &[Predictions]) -> Vec<Table> {
    let rows: Vec<Vec<String>> = (recorders.iter().enumerate())
        .filter_map(|(chain, one)| match &one.gathered {
            Gathered::Keys { average, score: Some(score) } => Some(vec![
                format!("average of chain {chain}"),
                average.count().to_string(),
                format!("{score:.4}"),
            ]),
            _ => None,
        })
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    vec![Table {
        title: "Predictions of the test data".into(),
        columns: ["prediction", "draws", "nll per time step"].map(String::from).to_vec(),
        rows,
        ..Table::default()
    }]
}
