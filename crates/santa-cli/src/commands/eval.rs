//! `santa eval`: weights tried on a data set.

use super::set_threads;
use super::table::{Table, nll, percent};
use crate::args::{Eval, Global, Part};
use crate::console::Console;
use crate::data::{Library, Parts};
use crate::experiment::{Data, Draft, Experiment, Precision, Set};
use crate::failure::{Failure, Result};
use crate::run::record::Score;
use crate::train::{ImageModel, Model, MusicModel, VariationalModel, classifier, sequence_model};
use crate::weights::{Weights, stored_experiment};
use santa::{Prior, Sampling};
use santa_nn::{Normalisation, Scalar, SequenceModel};
use serde_json::json;

pub fn run(args: &Eval, global: &Global, console: &Console) -> Result<()> {
    set_threads(global)?;
    let weights = Weights::read(&args.weights)?;
    let experiment = experiment(args, &weights)?;
    let set = args.data.as_deref().map(Set::by_name).transpose()?;
    let library = Library::new(global)?;
    let (data, score) = match experiment {
        // They say themselves what model they are for, whatever the experiment's would be.
        Some(experiment) if weights.are_the_authors_gru() => {
            of_authors(set.or(Some(experiment.data.set)), &weights, &library, args.split)?
        }
        Some(experiment) => of_experiment(experiment, set, &weights, &library, args.split)?,
        None => of_authors(set, &weights, &library, args.split)?,
    };
    let name = Set::ALL.iter().find(|(_, set)| *set == data).map_or("", |(name, _)| name);
    let part = match args.split {
        Part::Train => "train",
        Part::Validation => "validation",
        Part::Test => "test",
    };
    let mut table = Table::new(["data", "part", "nll", "error"]);
    table.row([name.into(), part.into(), nll(Some(&score)), percent(score.error)]);
    console.result(table)?;
    console.object(&json!({
        "weights": weights.path(), "data": name, "split": part,
        "nll": score.nll, "error": score.error,
    }))
}

/// Whose model it is: the one that was asked for, or that of the run that wrote the weights.
fn experiment(args: &Eval, weights: &Weights) -> Result<Option<Experiment>> {
    if let Some(name) = &args.experiment {
        return Draft::open(name)?.resolve().map(Some);
    }
    match weights.run() {
        Some(run) => stored_experiment(&run).map(Some),
        None if weights.are_the_authors_gru() => Ok(None),
        None => {
            let text = format!("{} does not say what model it is for", weights.path().display());
            Err(Failure::usage(text).hint("name it with `--experiment`"))
        }
    }
}

fn of_experiment(
    experiment: Experiment,
    set: Option<Set>,
    weights: &Weights,
    library: &Library,
    part: Part,
) -> Result<(Set, Score)> {
    let mut data = experiment.data.clone();
    data.set = set.unwrap_or(data.set);
    refuse_misfit(&experiment, data.set)?;
    if data.set != experiment.data.set {
        data.validation = 0;
    }
    let parts = library.load(&data)?;
    // In the precision that the run had: the same bits as its own scores.
    let score = match experiment.precision {
        Precision::F32 => score::<f32>(&experiment, weights, parts, part)?,
        Precision::F64 => score::<f64>(&experiment, weights, parts, part)?,
    };
    Ok((data.set, score))
}

/// A network for images cannot be tried on music, nor one for music on images.
fn refuse_misfit(experiment: &Experiment, set: Set) -> Result<()> {
    let music = experiment.data.set.is_music();
    if music == set.is_music() {
        return Ok(());
    }
    let (its, other) = if music { ("music", "images") } else { ("images", "music") };
    let fitting = Set::ALL.iter().filter(|(_, set)| set.is_music() == music).map(|(name, _)| *name);
    let fitting: Vec<&str> = fitting.collect();
    let text = format!("--data: the model of {:?} is for {its}, not for {other}", experiment.name);
    Err(Failure::usage(text).hint(format!("`--data` may be {}", fitting.join(", "))))
}

fn score<F: Scalar>(
    experiment: &Experiment,
    weights: &Weights,
    parts: Parts,
    part: Part,
) -> Result<Score> {
    match parts {
        Parts::Images(parts) => {
            let (train, rest) = parts.take_apart();
            let model = ImageModel::new(classifier::<F>(experiment, train)?, rest);
            match experiment.variational {
                Some(_) => of_model(VariationalModel::new(experiment, model)?, weights, part),
                None => of_model(model, weights, part),
            }
        }
        Parts::Music(parts) => {
            let (train, rest) = parts.take_apart();
            let model = sequence_model::<F>(experiment, train)?;
            of_model(MusicModel::new(model, rest), weights, part)
        }
    }
}

fn of_model<F: Scalar>(mut model: impl Model<F>, weights: &Weights, part: Part) -> Result<Score> {
    let theta = weights.parameters(model.target().layout())?;
    model.score(&theta, part)
}

/// A recurrent network that says itself what it is; only the data must be named.
fn of_authors(
    set: Option<Set>,
    weights: &Weights,
    library: &Library,
    part: Part,
) -> Result<(Set, Score)> {
    let set = set.ok_or_else(|| {
        let text = format!("{} does not say what music it is for", weights.path().display());
        Failure::usage(text).hint("name it: `--data jsb` (or nottingham, musedata, piano-midi)")
    })?;
    let (architecture, theta) = weights.gru()?;
    let order = Sampling::default();
    let data = Data { set, validation: 0, split_seed: 0, limit: None, divisor: 255.0, order };
    let Parts::Music(parts) = library.load(&data)? else {
        return Err(Failure::usage("a recurrent network needs music, not images")
            .hint("`--data jsb`, nottingham, musedata or piano-midi"));
    };
    let (train, rest) = parts.take_apart();
    let mean = Normalisation::default();
    let model = SequenceModel::<f64>::new(architecture, train, mean, Prior::Flat)?;
    Ok((set, MusicModel::new(model, rest).score(&theta, part)?))
}
