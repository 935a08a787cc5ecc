//! `santa compare`: several optimizers, settings and seeds; one table, one report.

use super::results::Results;
use super::{label, listed, refuse_too_many, set_threads};
use crate::args::{Compare, Global};
use crate::console::Console;
use crate::data::Library;
use crate::experiment::{Draft, parse_value};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::train::Plan;
use crate::train::fleet::run_all;
use std::path::{Path, PathBuf};
use toml::Value;

pub fn run(args: &Compare, global: &Global, console: &Console) -> Result<()> {
    let (plans, out) = plan(args)?;
    compare(&plans, &out, args.jobs, global, console).map(|_| ())
}

/// Runs the plans, prints the table, writes the report into `out`.
pub fn compare(
    plans: &[Plan],
    out: &Path,
    jobs: usize,
    global: &Global,
    console: &Console,
) -> Result<Results> {
    set_threads(global)?;
    interrupt::listen(console)?;
    let library = Library::new(global)?;
    let outcomes = run_all(plans, &library, jobs, console)?;
    let results = Results::new(plans, &outcomes);
    results.show(out, console)?;
    Ok(results)
}

/// All combinations of experiments, optimizers, values and seeds.
fn plan(args: &Compare) -> Result<(Vec<Plan>, PathBuf)> {
    if args.seeds == 0 {
        return Err(Failure::usage("--seeds 0: there must be at least one"));
    }
    let mut variants = Vec::new();
    for name in &args.experiments {
        let mut draft = Draft::open(name)?;
        draft.set_all(&args.set)?;
        variants.push(Variant { draft, labels: Vec::new() });
    }
    if !args.optimizers.is_empty() {
        variants = each(&variants, &args.optimizers, |variant, name| {
            let argument = format!("--optimizers {name}");
            variant.draft.insert("optimizer", Value::String(name.clone()), &argument)
        })?;
    }
    let mut varied = Vec::new();
    for vary in &args.vary {
        varied.push((vary, listed("--vary", vary)?));
    }
    let keys: Vec<&str> = varied.iter().map(|(_, (key, _))| *key).collect();
    for (vary, (key, values)) in &varied {
        variants = each(&variants, values, |variant, value| {
            variant.labels.extend(label(key, &keys, value));
            variant.draft.insert(key, parse_value(value), &format!("--vary {vary}"))
        })?;
    }
    let count = (variants.len() as u64).saturating_mul(args.seeds);
    refuse_too_many(count)?;
    let several = args.experiments.len() > 1;
    let mut plans = Vec::new();
    let mut name = String::new();
    for Variant { mut draft, labels } in variants {
        let first = draft.resolve()?;
        if !labels.is_empty() {
            let name = format!("{} {}", first.optimizer.name, labels.join(" "));
            draft.insert("optimizer.name", Value::String(name), "--vary")?;
        }
        name = first.name.clone();
        let parent = match &args.out {
            Some(out) if several => out.join(&name),
            Some(out) => out.clone(),
            None => Path::new("runs").join(&name),
        };
        for seed in first.seed..first.seed.saturating_add(args.seeds) {
            let mut draft = draft.clone();
            draft.insert("seed", Value::Integer(seed as i64), "--seeds")?;
            let plan = Plan::new(draft, &parent)?;
            plans.push(Plan { tensorboard: args.tensorboard, ..plan });
        }
    }
    let default = if several { "runs".into() } else { Path::new("runs").join(name) };
    Ok((plans, args.out.clone().unwrap_or(default)))
}

/// An experiment, and what tells it from its siblings.
#[derive(Clone)]
struct Variant {
    draft: Draft,
    labels: Vec<String>,
}

/// Every variant with every one of the values.
fn each<T>(
    variants: &[Variant],
    values: &[T],
    change: impl Fn(&mut Variant, &T) -> Result<()>,
) -> Result<Vec<Variant>> {
    let mut all = Vec::with_capacity(variants.len() * values.len());
    for variant in variants {
        for value in values {
            let mut variant = variant.clone();
            change(&mut variant, value)?;
            all.push(variant);
        }
    }
    Ok(all)
}
