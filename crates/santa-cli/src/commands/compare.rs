//! `santa compare`: several optimizers, settings and seeds; one table, one report.

use super::results::Results;
use super::{listed, set_threads};
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
    let mut drafts = Vec::new();
    for name in &args.experiments {
        let mut draft = Draft::open(name)?;
        draft.set_all(&args.set)?;
        drafts.push(draft);
    }
    if !args.optimizers.is_empty() {
        drafts = each(&drafts, &args.optimizers, |draft, name| {
            let argument = format!("--optimizers {name}");
            draft.insert("optimizer", Value::String(name.clone()), &argument)
        })?;
        // What `--set` says of the optimizer holds for all of them.
        let of_optimizer = |a: &&String| a.trim_start().starts_with("optimizer.");
        for draft in &mut drafts {
            args.set.iter().filter(of_optimizer).try_for_each(|a| draft.set(a))?;
        }
    }
    for vary in &args.vary {
        let (key, values) = listed("--vary", vary)?;
        drafts = each(&drafts, &values, |draft, value| vary_one(draft, key, value, vary))?;
    }
    let several = args.experiments.len() > 1;
    let mut plans = Vec::new();
    let mut name = String::new();
    for draft in &drafts {
        let first = draft.resolve()?;
        name = first.name.clone();
        let parent = match &args.out {
            Some(out) if several => out.join(&name),
            Some(out) => out.clone(),
            None => Path::new("runs").join(&name),
        };
        for seed in first.seed..first.seed.saturating_add(args.seeds) {
            let mut draft = draft.clone();
            draft.insert("seed", Value::Integer(seed as i64), "--seeds")?;
            plans.push(Plan::new(draft, &parent)?);
        }
    }
    let default = if several { "runs".into() } else { Path::new("runs").join(name) };
    Ok((plans, args.out.clone().unwrap_or(default)))
}

/// Every draft with every one of the values.
fn each<T>(
    drafts: &[Draft],
    values: &[T],
    change: impl Fn(&mut Draft, &T) -> Result<()>,
) -> Result<Vec<Draft>> {
    let mut all = Vec::with_capacity(drafts.len() * values.len());
    for draft in drafts {
        for value in values {
            let mut draft = draft.clone();
            change(&mut draft, value)?;
            all.push(draft);
        }
    }
    Ok(all)
}

/// One value of a field, which then is part of the optimizer's name.
fn vary_one(draft: &mut Draft, key: &str, value: &str, vary: &str) -> Result<()> {
    draft.insert(key, parse_value(value), &format!("--vary {vary}"))?;
    let name = draft.resolve()?.optimizer.name;
    let short = key.rsplit('.').next().unwrap_or(key);
    let name = Value::String(format!("{name} {short}={value}"));
    draft.insert("optimizer.name", name, &format!("--vary {vary}"))
}
