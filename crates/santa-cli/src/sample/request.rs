//! What to sample and how: from the command line, from a file, or both.

use crate::args;
use crate::failure::{Failure, Result};
use crate::nearest;
use santa_posterior::sampler::{Metric, Sampler};
use santa_posterior::store::Format;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is asked for. What is `None` has a default that depends on the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// A built-in density, a kind of regression, or an experiment.
    pub model: String,
    /// Parameters of a built-in density.
    pub dim: Option<usize>,
    /// The CSV file of a regression.
    pub data: Option<PathBuf>,
    /// The column that is to be explained.
    pub response: Option<String>,
    /// The columns that explain it; all others by default.
    pub features: Vec<String>,
    /// Whether there is an intercept.
    pub intercept: Option<bool>,
    /// Degrees of freedom of robust regression.
    pub degrees: Option<f64>,
    /// Priors of coefficients by name; `default` for the others, `sigma` for the noise.
    pub priors: BTreeMap<String, String>,
    /// Replacements of fields of an experiment.
    pub set: Vec<String>,
    /// How.
    pub sampler: Settings,
}

/// How to sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Chains.
    pub chains: Option<u32>,
    /// Draws of each.
    pub draws: Option<u64>,
    /// Length of the warm-up: in draws, for networks in steps.
    pub warm_up: Option<u64>,
    /// Steps between draws.
    pub thin: Option<u64>,
    /// Data per minibatch.
    pub batch: Option<usize>,
    /// Of everything.
    pub seed: Option<u64>,
    /// 1 for the posterior.
    pub temperature: Option<f64>,
    /// Which scales the warm-up finds.
    pub metric: Option<Metric>,
    /// The largest step, in units of the posterior's scales.
    pub largest_step: Option<f64>,
    /// Steps of a cycle of the experiment's schedule.
    pub cycle: Option<u64>,
    /// Draws of each cycle.
    pub draws_per_cycle: Option<u64>,
    /// How draws are written.
    pub format: Option<Format>,
}

impl Settings {
    /// The sampler that is asked for, of models whose scales and step the warm-up finds.
    pub fn sampler(&self, seed: u64) -> Sampler {
        let seed = self.seed.unwrap_or(seed);
        let defaults = Sampler::seeded(seed);
        Sampler {
            chains: self.chains.unwrap_or(defaults.chains),
            draws: self.draws.unwrap_or(defaults.draws),
            warm_up: self.warm_up.unwrap_or(defaults.warm_up),
            thin: self.thin,
            batch_size: self.batch.unwrap_or(defaults.batch_size),
            beta: 1.0 / self.temperature.unwrap_or(1.0),
            metric: self.metric.unwrap_or_default(),
            largest_step: self.largest_step.unwrap_or(defaults.largest_step),
            ..defaults
        }
    }
}

impl Request {
    /// What the command line asks for, on top of a file if it names one.
    pub fn new(args: &args::Sample) -> Result<Self> {
        let mut request = match is_request(Path::new(&args.model))? {
            Some(request) => request,
            None => Request { model: args.model.clone(), ..Request::default() },
        };
        macro_rules! take {
            ($($place:expr => $given:expr),* $(,)?) => {$(
                if $given.is_some() {
                    $place = $given.clone();
                }
            )*};
        }
        take!(
            request.dim => args.dim,
            request.data => args.data,
            request.response => args.response,
            request.degrees => args.degrees,
            request.sampler.chains => args.chains,
            request.sampler.draws => args.draws,
            request.sampler.warm_up => args.warm_up,
            request.sampler.thin => args.thin,
            request.sampler.batch => args.batch,
            request.sampler.seed => args.seed,
            request.sampler.temperature => args.temperature,
            request.sampler.metric => args.metric.map(Metric::from),
            request.sampler.largest_step => args.largest_step,
            request.sampler.cycle => args.cycle,
            request.sampler.draws_per_cycle => args.draws_per_cycle,
            request.sampler.format => args.format.map(Format::from),
        );
        if args.no_intercept {
            request.intercept = Some(false);
        }
        if !args.features.is_empty() {
            request.features = args.features.clone();
        }
        request.set.extend(args.set.iter().cloned());
        for prior in &args.prior {
            // The law has none; the name of a word's coefficient does: `district=north`.
            let (name, law) = prior.rsplit_once('=').unwrap_or((DEFAULT, prior));
            request.priors.insert(name.trim().into(), law.trim().into());
        }
        if let Some(temperature) = request.sampler.temperature
            && !(temperature.is_finite() && temperature > 0.0)
        {
            return Err(Failure::usage(format!(
                "--temperature {temperature}: it must be positive and finite"
            ))
            .hint("1 is the posterior, less is sharper; for the mode alone use `santa train`"));
        }
        Ok(request)
    }

    /// Options that a kind of model does not know.
    pub fn refuse_others(&self, kind: &str, known: &[&str]) -> Result<()> {
        let given = [
            ("--dim", self.dim.is_some()),
            ("--data", self.data.is_some()),
            ("--response", self.response.is_some()),
            ("--features", !self.features.is_empty()),
            ("--no-intercept", self.intercept.is_some()),
            ("--degrees", self.degrees.is_some()),
            ("--prior", !self.priors.is_empty()),
            ("--set", !self.set.is_empty()),
            ("--metric", self.sampler.metric.is_some()),
            ("--largest-step", self.sampler.largest_step.is_some()),
            ("--temperature", self.sampler.temperature.is_some()),
            ("--batch", self.sampler.batch.is_some()),
            ("--cycle", self.sampler.cycle.is_some()),
            ("--draws-per-cycle", self.sampler.draws_per_cycle.is_some()),
        ];
        match given.iter().find(|(name, given)| *given && !known.contains(name)) {
            None => Ok(()),
            Some((name, _)) => Err(Failure::usage(format!("{name} has no meaning for {kind}"))
                .hint(format!("{kind} knows {}", known.join(", ")))),
        }
    }
}

/// The name under which the prior of all coefficients stands that have none of their own.
pub const DEFAULT: &str = "default";

/// The request in a TOML file: one whose `model` is a name. In an experiment it is a table.
fn is_request(path: &Path) -> Result<Option<Request>> {
    if path.extension().is_none_or(|ending| ending != "toml") || !path.is_file() {
        return Ok(None);
    }
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::data(format!("reading {shown}: {error}")))?;
    let table: toml::Table =
        text.parse().map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    if !table.get("model").is_some_and(toml::Value::is_str) {
        return Ok(None);
    }
    let request: Request =
        toml::from_str(&text).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    // Files are found beside the one that names them.
    let data = request.data.as_ref().map(|data| match path.parent() {
        Some(folder) if data.is_relative() => folder.join(data),
        _ => data.clone(),
    });
    Ok(Some(Request { data, ..request }))
}

/// The law in `normal(2.5)` and its number.
pub fn law(text: &str) -> Result<(&str, Option<f64>)> {
    let refuse = || {
        Failure::usage(format!("the prior {text:?} cannot be read")).hint(
            "write normal(SD), laplace(SCALE) or flat; for sigma half-normal(SCALE), \
             half-cauchy(SCALE) or fixed(VALUE)",
        )
    };
    let Some((name, rest)) = text.split_once('(') else { return Ok((text.trim(), None)) };
    let number = rest.trim_end().strip_suffix(')').ok_or_else(refuse)?;
    let number: f64 = number.trim().parse().map_err(|_| refuse())?;
    if !(number.is_finite() && number > 0.0) {
        return Err(Failure::usage(format!("the prior {text:?} needs a positive, finite number")));
    }
    Ok((name.trim(), Some(number)))
}

/// A law that is none of those known.
pub fn unknown_law(name: &str, known: &[&str]) -> Failure {
    nearest::unknown("prior", name, known.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_read_with_their_number() {
        assert_eq!(law("normal(2.5)").unwrap(), ("normal", Some(2.5)));
        assert_eq!(law(" flat ").unwrap(), ("flat", None));
        for bad in ["normal(", "normal(x)", "normal(-1)", "normal(inf)"] {
            assert!(law(bad).is_err(), "{bad}");
        }
    }
}
