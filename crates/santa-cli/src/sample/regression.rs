//! Regressions on a CSV file.

use super::conduct::{Model, conduct};
use super::exact::Exact;
use super::judgement::other_modes;
use super::request::{DEFAULT, Request, law, unknown_law};
use super::{Context, Outcome};
use crate::failure::{Failure, Result};
use santa::{Group, Prior};
use santa_posterior::regression::{DEGREES, Design, Family, Regression, Scaling, Sigma, Table};
use santa_posterior::sampler::Sampler;

/// Kinds of regression.
pub const REGRESSIONS: [(&str, &str); 3] = [
    ("linear", "a number with Gaussian noise"),
    ("logistic", "yes or no: 0 and 1"),
    ("robust", "a number with outliers: Student's t noise"),
];

const OPTIONS: [&str; 10] = [
    "--data",
    "--response",
    "--features",
    "--no-intercept",
    "--degrees",
    "--prior",
    "--batch",
    "--metric",
    "--largest-step",
    "--temperature",
];

/// Standard deviation of a coefficient's prior by default, in units of the response's standard
/// deviation per standard deviation of the feature (on the log-odds for logistic regression).
const DEFAULT_SD: f64 = 2.5;
/// With up to so many data every step uses all of them.
const ALL_UP_TO: usize = 2_000;
/// Data per minibatch where there are more.
const BATCH: usize = 200;

/// Samples a regression.
pub fn run(request: &Request, context: &Context<'_>) -> Result<Outcome> {
    request.refuse_others("a regression", &OPTIONS)?;
    let (regression, facts) = read(request)?;
    let settings = &request.sampler;
    let n = regression.target().data_size().get() as usize;
    let sampler = Sampler {
        batch_size: settings.batch.unwrap_or(if n <= ALL_UP_TO { n } else { BATCH }),
        ..settings.sampler(context.seed)
    };
    sampler.check()?;
    let prepared = regression.prepare(&sampler, settings.metric.is_none())?;
    let recorder = prepared.recorder();
    let members = sampler
        .members_in_team(context.team, |chain| prepared.member(&sampler, chain, recorder.clone()));
    let title = format!(
        "{} regression of {}",
        capitalised(&request.model),
        request.response.as_deref().unwrap_or_default()
    );
    let modes: santa_posterior::Result<Vec<_>> = (prepared.other_modes.iter())
        .zip(prepared.shares_of_others())
        .map(|(mode, share)| Ok((prepared.regression.original(&mode.mode)?, share)))
        .collect();
    let troubles = other_modes(&prepared.regression.names(), &modes?).into_iter().collect();
    let units = prepared.regression.clone();
    let exact = Exact {
        potential: prepared.regression.clone(),
        recorder,
        parameters: Box::new(move |draw| units.fitted(draw)),
        start: Box::new(move |normals| prepared.start(normals)),
    };
    conduct(sampler, members, Model { title, facts, troubles, exact: Some(exact) }, context)
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |c| c.to_uppercase().chain(letters).collect())
}

/// The regression of a request, and facts for the report.
fn read(request: &Request) -> Result<(Regression, Vec<(String, String)>)> {
    let missing =
        |what: &str, hint: &str| Failure::usage(format!("a regression needs {what}")).hint(hint);
    let path = request
        .data
        .as_ref()
        .ok_or_else(|| missing("data", "name a CSV file with `--data FILE`"))?;
    let response = request.response.as_deref().ok_or_else(|| {
        missing("a response", "name the column to be explained with `--response COLUMN`")
    })?;
    let mut select: Vec<&str> = request.features.iter().map(String::as_str).collect();
    if select.contains(&response) {
        return Err(Failure::usage(format!(
            "{response:?} is the response, and among the features"
        )));
    }
    select.push(response);
    let select = if request.features.is_empty() { None } else { Some(select.as_slice()) };
    let table = Table::read(path, select).map_err(|error| match error {
        santa_posterior::Error::Io { .. } => {
            Failure::data(error).hint("`--data` names a CSV file that can be read")
        }
        other => other.into(),
    })?;
    let mut all: Vec<&str> = table.sources().filter(|name| *name != response).collect();
    all.dedup();
    let features: Vec<&str> = match request.features.is_empty() {
        true => all,
        false => request.features.iter().map(String::as_str).collect(),
    };
    let y = table.response(response)?.to_vec();
    if let [only] = y[..] {
        return Err(Failure::data(format!("{}: one row, {response} = {only}", path.display()))
            .hint("a regression needs more rows than one"));
    }
    if request.model == "logistic" && y.windows(2).all(|pair| pair[0] == pair[1]) {
        return Err(Failure::data(format!(
            "{}: {response} is {} in every row, and nothing can be learned of what decides it",
            path.display(),
            y.first().copied().unwrap_or_default()
        ))
        .hint("logistic regression needs rows of both kinds; is this the right column, and all of the rows?"));
    }
    let intercept = request.intercept.unwrap_or(true);
    let design = Design::from_table(&table, &features, intercept, Scaling::Standardised)?;
    let default = match request.priors.get(DEFAULT) {
        Some(text) => prior(text)?,
        None => Prior::gaussian(1.0 / (DEFAULT_SD * DEFAULT_SD)),
    };
    let names = design.names().to_vec();
    for key in [DEFAULT, SIGMA] {
        if request.priors.contains_key(key) && names.iter().any(|name| name == key) {
            return Err(Failure::usage(format!(
                "the prior of {key:?} may be that of a column of this name"
            ))
            .hint(format!("rename the column {key:?} in {}", path.display())));
        }
    }
    if request.model != "logistic" && names.iter().any(|name| name == SIGMA) {
        return Err(Failure::data(format!(
            "{}: a column has the name of the noise, {SIGMA:?}",
            path.display()
        ))
        .hint("rename the column, or leave it out with `--features`"));
    }
    let mut regression = Regression::new(design, &y, family(request)?, default)?;
    let own: Vec<_> = request
        .priors
        .iter()
        .filter(|(name, _)| ![DEFAULT, SIGMA].contains(&name.as_str()))
        .collect();
    if !own.is_empty() {
        regression = regression.with_named_segments()?;
        for (name, text) in own {
            if !names.contains(name) {
                let known = names.iter().map(String::as_str);
                return Err(crate::nearest::unknown("coefficient", name, known));
            }
            regression = regression.with_group(Group::new(name).prior(prior(text)?))?;
        }
    }
    let shown = request.priors.iter().map(|(name, law)| format!("{name} ~ {law}"));
    let priors: Vec<String> = match request.priors.contains_key(DEFAULT) {
        true => shown.collect(),
        false => [format!("{DEFAULT} ~ normal({DEFAULT_SD})")].into_iter().chain(shown).collect(),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let facts = vec![
        ("data".into(), format!("{name}, {} rows", y.len())),
        ("explains".into(), format!("{} by {}", explained(&table, response), features.join(", "))),
        ("priors (of standardised features)".into(), priors.join(", ")),
    ];
    Ok((regression, facts))
}

/// The response; where it is one of two words, which of them is 1.
fn explained(table: &Table, response: &str) -> String {
    match table.indicators(response)[..] {
        [one] if table.names()[one] != response => {
            format!("{response} (1 for {})", table.names()[one])
        }
        _ => response.into(),
    }
}

/// The name of the noise's prior.
const SIGMA: &str = "sigma";

fn family(request: &Request) -> Result<Family> {
    let sigma = match request.priors.get(SIGMA) {
        None => Sigma::default(),
        Some(text) => match law(text)? {
            ("half-normal", Some(scale)) => Sigma::HalfNormal { scale },
            ("half-cauchy", Some(scale)) => Sigma::HalfCauchy { scale },
            ("fixed", Some(value)) => Sigma::Fixed { value },
            (name, _) => return Err(unknown_law(name, &["half-normal", "half-cauchy", "fixed"])),
        },
    };
    if request.degrees.is_some() && request.model != "robust" {
        return Err(Failure::usage("--degrees has a meaning for robust regression alone"));
    }
    Ok(match request.model.as_str() {
        "linear" => Family::Gaussian { sigma },
        "logistic" if request.priors.contains_key(SIGMA) => {
            return Err(Failure::usage("logistic regression has no `sigma` to give a prior to"));
        }
        "logistic" => Family::Bernoulli,
        _ => Family::StudentT { degrees: request.degrees.unwrap_or(DEGREES), sigma },
    })
}

fn prior(text: &str) -> Result<Prior> {
    Ok(match law(text)? {
        ("flat", None) => Prior::Flat,
        ("normal", Some(sd)) => Prior::gaussian(1.0 / (sd * sd)),
        ("laplace", Some(scale)) => Prior::laplace(scale),
        ("normal" | "laplace", None) => {
            return Err(Failure::usage(format!("the prior {text:?} needs a number"))
                .hint("write normal(SD) or laplace(SCALE)"));
        }
        ("flat", Some(_)) => {
            return Err(Failure::usage(format!("the prior {text:?} takes no number"))
                .hint("write flat, or normal(SD) for one of a given width"));
        }
        (name, _) => return Err(unknown_law(name, &["normal", "laplace", "flat"])),
    })
}
