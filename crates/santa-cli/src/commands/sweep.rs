//! `santa sweep`: a search over settings, chosen on validation data. Test data are not touched.

use super::table::Table;
use super::{label, listed, refuse_too_many, set_threads};
use crate::args::{Global, Score as By, Sweep};
use crate::console::Console;
use crate::data::Library;
use crate::experiment::{Draft, Experiment, parse_value};
use crate::failure::{Failure, Kind, Result};
use crate::interrupt;
use crate::run::folder::{write, write_json};
use crate::run::record::{Score, Summary};
use crate::train::Plan;
use crate::train::fleet::{Outcome, run_all};
use clap::ValueEnum;
use santa::noise::{Purpose, Stream};
use santa::stats::Moments;
use serde_json::json;
use std::path::{Path, PathBuf};
use toml::Value;

/// Distinguishes the search's random numbers from those of the runs.
const SEARCH: Purpose = Purpose::Custom(0x5E);

pub fn run(args: &Sweep, global: &Global, console: &Console) -> Result<()> {
    if args.seeds == 0 {
        return Err(Failure::usage("--seeds 0: there must be at least one"));
    }
    let mut draft = Draft::open(&args.experiment)?;
    draft.set_all(&args.set)?;
    let experiment = draft.resolve()?;
    let settings = settings(args, experiment.seed)?;
    let runs = (settings.len() as u64).saturating_mul(args.seeds);
    refuse_too_many(runs)?;
    let out = args.out.clone().unwrap_or_else(|| Path::new("sweeps").join(&experiment.name));
    let plans = plan(&draft, &experiment, &settings, args, &out)?;
    // One score for all of them.
    let by = match args.by {
        By::Auto => automatic(&experiment),
        by => by,
    };
    plans.iter().try_for_each(|plan| check(by, &plan.experiment))?;

    set_threads(global)?;
    interrupt::listen(console)?;
    let library = Library::new(global)?;
    let jobs = args.jobs.unwrap_or_else(rayon::current_num_threads);
    console.note(format_args!("{} runs, {jobs} at a time, in {}", plans.len(), out.display()));
    let outcomes = run_all(&plans, &library, jobs, console)?;
    let trials = trials(args.seeds, by, settings, &outcomes);
    show(&trials, by, &draft, &out, console)
}

/// The averaged prediction if there is one, by its error if it has one.
fn automatic(experiment: &Experiment) -> By {
    match (experiment.averaging.is_some(), experiment.data.set.is_music()) {
        (true, true) => By::NllAveraged,
        (true, false) => By::ErrorAveraged,
        (false, true) => By::NllBest,
        (false, false) => By::ErrorLast,
    }
}

/// As `--by` names it.
fn name_of(by: By) -> String {
    by.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
}

fn check(by: By, experiment: &Experiment) -> Result<()> {
    if experiment.data.validation == 0 && !experiment.data.set.is_music() {
        let sixth = experiment.data.set.training_size() / 6;
        return Err(Failure::usage("there are no validation data to choose by")
            .hint(format!("set some aside: `--set data.validation={sixth}`")));
    }
    let averaged = matches!(by, By::ErrorAveraged | By::NllAveraged);
    let first =
        experiment.averaging.map(|averaging| averaging.from.saturating_add(averaging.every));
    if averaged && first.is_none_or(|first| first > experiment.chain_steps()) {
        return Err(Failure::usage("the experiment averages no predictions to choose by")
            .hint("set `averaging.from` and `averaging.every`, or choose `--by error-last`"));
    }
    let error = matches!(by, By::ErrorLast | By::ErrorAveraged);
    if error && experiment.data.set.is_music() {
        return Err(Failure::usage("music has no error to choose by").hint("use `--by nll-best`"));
    }
    Ok(())
}

/// Fields and their values, for one trial.
type Settings = Vec<(String, Value)>;

enum Choice {
    List(Vec<Value>),
    Uniform(f64, f64),
    Log(f64, f64),
    Int(f64, f64),
}

impl Choice {
    fn parse(text: &str, whole: &str) -> Result<Choice> {
        let interval = |name: &str| -> Option<Result<(f64, f64)>> {
            let inner = text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?;
            let numbers: Vec<f64> =
                inner.split(',').filter_map(|x| x.trim().parse().ok()).collect();
            Some(match numbers[..] {
                [low, high] if low < high && high.is_finite() && (name != "log" || low > 0.0) => {
                    Ok((low, high))
                }
                _ => Err(Failure::usage(format!(
                    "--over {whole}: an interval is two rising numbers"
                ))
                .hint(format!("e.g. `{name}(1e-4,1e-1)`"))),
            })
        };
        if let Some(interval) = interval("log") {
            return interval.map(|(low, high)| Choice::Log(low, high));
        }
        if let Some(interval) = interval("uniform") {
            return interval.map(|(low, high)| Choice::Uniform(low, high));
        }
        if let Some(interval) = interval("int") {
            return interval.map(|(low, high)| Choice::Int(low, high));
        }
        let (_, values) = listed("--over", whole)?;
        let mut list: Vec<Value> = Vec::new();
        for value in values.iter().map(|value| parse_value(value)) {
            if !list.contains(&value) {
                list.push(value);
            }
        }
        Ok(Choice::List(list))
    }

    /// By a number in [0, 1).
    fn draw(&self, u: f64) -> Value {
        match self {
            Choice::List(values) => values[(u * values.len() as f64) as usize].clone(),
            Choice::Uniform(low, high) => rounded(low + u * (high - low)),
            Choice::Log(low, high) => rounded((low.ln() + u * (high / low).ln()).exp()),
            Choice::Int(low, high) => {
                let (low, high) = (low.ceil(), high.floor());
                Value::Integer((low + u * (high - low + 1.0)).floor() as i64)
            }
        }
    }
}

/// To four digits: enough for a search, and readable.
fn rounded(x: f64) -> Value {
    Value::Float(format!("{x:.3e}").parse().unwrap_or(x))
}

fn settings(args: &Sweep, seed: u64) -> Result<Vec<Settings>> {
    let mut choices = Vec::new();
    for over in &args.over {
        let (key, values) = over.split_once('=').ok_or_else(|| {
            Failure::usage(format!("--over {over}: there is no `=`"))
                .hint("write `--over KEY=V1,V2,...` or `--over KEY=log(LOW,HIGH)`")
        })?;
        choices.push((key.trim().to_string(), Choice::parse(values.trim(), over)?));
    }
    let Some(samples) = args.samples else { return grid(&choices) };
    if samples == 0 {
        return Err(Failure::usage("--samples 0: there must be at least one"));
    }
    // A function of the trial's number: asking for more keeps those that are there.
    let stream = Stream::new(seed, 0, SEARCH);
    let draw = |trial: u64| {
        let fields = choices.iter().enumerate();
        fields.map(|(i, (k, c))| (k.clone(), c.draw(stream.uniform(trial, i as u32, 0)))).collect()
    };
    let mut drawn: Vec<Settings> = Vec::new();
    for trial in 0..samples {
        let settings = draw(trial);
        if !drawn.contains(&settings) {
            drawn.push(settings);
        }
    }
    Ok(drawn)
}

fn grid(choices: &[(String, Choice)]) -> Result<Vec<Settings>> {
    let mut all: Vec<Settings> = vec![Vec::new()];
    for (key, choice) in choices {
        let Choice::List(values) = choice else {
            return Err(Failure::usage(format!("`{key}` is searched in an interval"))
                .hint("say how many settings to draw with `--samples`"));
        };
        let with = |settings: &Settings| -> Vec<Settings> {
            let add = |value: &Value| {
                let mut settings = settings.clone();
                settings.push((key.clone(), value.clone()));
                settings
            };
            values.iter().map(add).collect()
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(all)
}

/// `lr=0.001 batch=50`
fn labels(settings: &Settings) -> String {
    let keys: Vec<&str> = settings.iter().map(|(key, _)| key.as_str()).collect();
    let one = |(key, value): &(String, Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), String::from);
        label(key, &keys, &text).unwrap_or(text)
    };
    settings.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn apply(draft: &Draft, settings: &Settings) -> Result<Draft> {
    let mut draft = draft.clone();
    for (key, value) in settings {
        draft.insert(key, value.clone(), &format!("--over {key}={value}"))?;
    }
    Ok(draft)
}

fn plan(
    draft: &Draft,
    experiment: &Experiment,
    settings: &[Settings],
    args: &Sweep,
    out: &Path,
) -> Result<Vec<Plan>> {
    let mut plans = Vec::new();
    for settings in settings {
        let mut draft = apply(draft, settings)?;
        draft.insert("evaluation.test", Value::Boolean(false), "santa sweep")?;
        let name = format!("{} {}", draft.resolve()?.optimizer.name, labels(settings));
        draft.insert("optimizer.name", Value::String(name), "santa sweep")?;
        for seed in experiment.seed..experiment.seed.saturating_add(args.seeds) {
            draft.insert("seed", Value::Integer(seed as i64), "--seeds")?;
            plans.push(Plan::new(draft.clone(), out)?);
        }
    }
    Ok(plans)
}

struct Trial {
    settings: Settings,
    /// Of each seed.
    scores: Vec<Scored>,
}

/// What a run is worth.
#[derive(Clone, Copy)]
enum Scored {
    /// So much; the smaller the better.
    At(f64),
    /// The run diverged.
    Diverged,
    /// The run stopped before there was a score.
    Nothing,
}

impl Scored {
    fn number(self) -> Option<f64> {
        match self {
            Scored::At(score) => Some(score),
            Scored::Diverged | Scored::Nothing => None,
        }
    }
}

impl Trial {
    /// The mean over the seeds; infinite if one of them has none.
    fn score(&self) -> f64 {
        let scores: Option<Vec<f64>> = self.scores.iter().map(|score| score.number()).collect();
        scores.map_or(f64::INFINITY, |scores| scores.into_iter().collect::<Moments>().mean())
    }

    fn count(&self, kind: fn(&Scored) -> bool) -> usize {
        self.scores.iter().filter(|score| kind(score)).count()
    }
}

fn trials(seeds: u64, by: By, settings: Vec<Settings>, outcomes: &[Outcome]) -> Vec<Trial> {
    let by_settings = settings.into_iter().zip(outcomes.chunks(seeds as usize));
    let mut trials: Vec<Trial> = by_settings
        .map(|(settings, outcomes)| {
            let scored = |outcome: &Outcome| match outcome.summary() {
                None => Scored::Diverged,
                Some(summary) => match score(summary, by) {
                    Some(score) if score.is_finite() => Scored::At(score),
                    Some(_) => Scored::Diverged,
                    None => Scored::Nothing,
                },
            };
            Trial { settings, scores: outcomes.iter().map(scored).collect() }
        })
        .collect();
    trials.sort_by(|a, b| a.score().total_cmp(&b.score()));
    trials
}

/// On validation data; the smaller the better.
fn score(summary: &Summary, by: By) -> Option<f64> {
    let last = summary.last.validation;
    let averaged = summary.averaged.and_then(|averaged| averaged.scores.validation);
    let best = summary.best.and_then(|best| best.scores.validation);
    let error = |score: Option<Score>| score?.error;
    let nll = |score: Option<Score>| Some(score?.nll);
    match by {
        By::Auto => None,
        By::ErrorLast => error(last),
        By::ErrorAveraged => error(averaged),
        By::NllLast => nll(last),
        By::NllAveraged => nll(averaged),
        By::NllBest => nll(best),
    }
}

fn show(trials: &[Trial], by: By, draft: &Draft, out: &Path, console: &Console) -> Result<()> {
    let best = trials.first().filter(|trial| trial.score().is_finite());
    let by = name_of(by);
    let title = format!("validation {}", by.replace('-', " "));
    let mut table = Table::new(["setting", &title, "sd", "seeds"]);
    for trial in trials {
        let scores: Moments = trial.scores.iter().filter_map(|score| score.number()).collect();
        let sd = match scores.count() {
            0 | 1 => "-".into(),
            _ => format!("{:.5}", scores.variance().sqrt()),
        };
        let diverged = trial.count(|score| matches!(score, Scored::Diverged));
        let nothing = trial.count(|score| matches!(score, Scored::Nothing));
        let mean = match (diverged, nothing) {
            (0, 0) => format!("{:.5}", trial.score()),
            (0, _) => format!("{nothing} without a score"),
            _ => format!("{diverged} diverged"),
        };
        table.row([labels(&trial.settings), mean, sd, trial.scores.len().to_string()]);
    }
    console.result(&table)?;
    write(&out.join("results.md"), table.markdown().as_bytes())?;
    let object = |trial: &Trial| {
        let settings: serde_json::Map<String, serde_json::Value> =
            trial.settings.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let score = Some(trial.score()).filter(|score| score.is_finite());
        let scores: Vec<Option<f64>> = trial.scores.iter().map(|score| score.number()).collect();
        json!({ "settings": settings, "score": score, "scores": scores })
    };
    let path: Option<PathBuf> = match best {
        None => None,
        Some(best) => {
            let path = out.join("best.toml");
            write(&path, apply(draft, &best.settings)?.to_toml()?.as_bytes())?;
            console.note(format_args!("the best setting as an experiment: {}", path.display()));
            Some(path)
        }
    };
    let value = json!({
        "by": by,
        "best": best.map(object),
        "experiment": path,
        "trials": trials.iter().map(object).collect::<Vec<_>>(),
    });
    write_json(&out.join("results.json"), &value)?;
    console.object(&value)?;
    match best {
        Some(_) => Ok(()),
        None => Err(Failure::new(Kind::Numerical, "no setting came through")
            .hint("the table says why; try smaller step sizes")),
    }
}
