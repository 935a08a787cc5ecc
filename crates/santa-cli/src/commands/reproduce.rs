//! `santa reproduce`: the paper's figures and tables.

use super::set_threads;
use super::table::Table;
use crate::args::{Global, Reproduce, Reproduction};
use crate::console::Console;
use crate::data::Library;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::nearest::unknown;
use crate::reproduce::double_well::{self, Experiment, Outcome};
use crate::reproduce::study::{self, Study};
use crate::run::folder::{write, write_json};
use crate::run::machine::provenance;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use std::path::Path;

pub fn run(args: &Reproduce, global: &Global, console: &Console) -> Result<()> {
    set_threads(global)?;
    let results = match args.name {
        Reproduction::All => all(args, global, console)?,
        name => one(name, args, global, console)?,
    };
    console.object(&results)
}

/// One figure or table; what `--json` prints of it.
fn one(name: Reproduction, args: &Reproduce, global: &Global, console: &Console) -> Result<Value> {
    match name {
        Reproduction::DoubleWell => of_double_well(args, console),
        Reproduction::Order => crate::reproduce::order::run(args, console),
        Reproduction::Regret => crate::reproduce::regret::run(args, console),
        Reproduction::Table1 => of_study(study::TABLE1, args, global, console),
        Reproduction::Table2 => of_study(study::TABLE2, args, global, console),
        Reproduction::Ablation => of_study(study::ABLATION, args, global, console),
        Reproduction::All => all(args, global, console),
    }
}

/// All of them, by name; what takes seconds before what takes hours.
fn all(args: &Reproduce, global: &Global, console: &Console) -> Result<Value> {
    if !args.only.is_empty() {
        return Err(Failure::usage("--only picks parts of one figure or table, not of all")
            .hint("name it: `santa reproduce table1 --only fnn-400`"));
    }
    if args.settings.is_some() {
        return Err(Failure::usage("--settings is for one table, not for all of them"));
    }
    let mut results = Map::new();
    for name in Reproduction::value_variants().iter().filter(|name| **name != Reproduction::All) {
        let text = name.to_possible_value().map_or(String::new(), |v| v.get_name().to_string());
        console.result(format_args!("\n# {text}\n"))?;
        results.insert(text, one(*name, args, global, console)?);
    }
    Ok(Value::Object(results))
}

/// A table of many runs; the list of its cells.
fn of_study(
    (name, text): (&str, &str),
    args: &Reproduce,
    global: &Global,
    console: &Console,
) -> Result<Value> {
    if args.seeds == Some(0) {
        return Err(Failure::usage("--seeds 0: there must be at least one"));
    }
    let (origin, own) = match &args.settings {
        Some(path) => {
            let read = std::fs::read_to_string(path);
            let own = read.map_err(|e| Failure::data(format!("{}: {e}", path.display())))?;
            (path.display().to_string(), Some(own))
        }
        None => (format!("experiments/{name}.toml"), None),
    };
    let study = Study::parse(name, &origin, own.as_deref().unwrap_or(text))?.sized(args.quick);
    let runs = if args.quick { args.runs.join("quick") } else { args.runs.clone() };
    let options = study::Options {
        only: args.only.clone(),
        seeds: args.seeds,
        jobs: args.jobs.unwrap_or_else(rayon::current_num_threads),
        no_run: args.no_run,
        out: args.results(),
        runs,
    };
    interrupt::listen(console)?;
    let cells = study::run(&study, &options, &Library::new(global)?, console)?;
    serde_json::to_value(cells).map_err(Failure::system)
}

fn of_double_well(args: &Reproduce, console: &Console) -> Result<Value> {
    let experiment = Experiment::parse(double_well::SETTINGS)?;
    let experiment = if args.quick { experiment.quick() } else { experiment };
    let names = || experiment.methods.iter().map(|method| method.name.as_str());
    for name in &args.only {
        if !names().any(|known| known == name) {
            return Err(unknown("method", name, names()));
        }
    }
    let wanted = |name: &String| args.only.is_empty() || args.only.contains(name);
    let mut outcomes: Vec<(&str, &str, Outcome)> = Vec::new();
    for method in experiment.methods.iter().filter(|method| wanted(&method.name)) {
        console.note(format_args!("{}: {} chains", method.name, experiment.chains));
        outcomes.push((&method.name, &method.description, experiment.run(method)?));
    }

    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut table = Table::new(["method", "global minimum", "at least (95 %)", "diverged"]);
    let mut csv = "method,global_mode,lower_bound,diverged\n".to_string();
    let mut methods = Map::new();
    for (name, _, outcome) in &outcomes {
        let Outcome { global_mode, lower_bound, diverged } = *outcome;
        table.row([
            name.to_string(),
            percent(global_mode),
            percent(lower_bound),
            percent(diverged),
        ]);
        csv += &format!("{name},{global_mode},{lower_bound},{diverged}\n");
        methods.insert(name.to_string(), json!(outcome));
    }
    console.result(&table)?;

    let folder = args.results().join("double-well");
    std::fs::create_dir_all(&folder)
        .map_err(|e| Failure::system(format!("making {}: {e}", folder.display())))?;
    let methods = Value::Object(methods);
    store(&folder, &experiment, &table, &csv, &methods, &outcomes)?;
    console.note(format_args!("written to {}", folder.display()));
    Ok(methods)
}

fn store(
    folder: &Path,
    experiment: &Experiment,
    table: &Table,
    csv: &str,
    methods: &Value,
    outcomes: &[(&str, &str, Outcome)],
) -> Result<()> {
    let (chains, steps) = (experiment.chains, experiment.steps);
    let mut words = format!("{chains} chains of {steps} steps, from θ = {}.\n\n", experiment.start);
    words += &table.markdown();
    words += "\n";
    for (name, description, _) in outcomes {
        words += &format!("- `{name}`: {description}\n");
    }
    write(&folder.join("table.md"), words.as_bytes())?;
    write(&folder.join("results.csv"), csv.as_bytes())?;
    write(&folder.join("potential.svg"), double_well::potential().as_bytes())?;
    write(&folder.join("trajectories.svg"), experiment.trajectories()?.as_bytes())?;
    let results = json!({
        "made_by": provenance(),
        "chains": chains,
        "steps": steps,
        "seed": experiment.seed,
        "methods": methods,
    });
    write_json(&folder.join("results.json"), &results)
}
