//! `santa reproduce`: the paper's figures and tables.

use super::set_threads;
use super::table::Table;
use crate::args::{Global, Reproduce, Reproduction};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::nearest::unknown;
use crate::reproduce::double_well::{self, Experiment, Outcome};
use crate::run::folder::{write, write_json};
use crate::run::machine::provenance;
use serde_json::{Map, Value, json};
use std::path::Path;

pub fn run(args: &Reproduce, global: &Global, console: &Console) -> Result<()> {
    set_threads(global)?;
    match args.name {
        Reproduction::DoubleWell => of_double_well(args, console),
        Reproduction::Order => crate::reproduce::order::run(args, console),
        Reproduction::Regret => crate::reproduce::regret::run(args, console),
    }
}

fn of_double_well(args: &Reproduce, console: &Console) -> Result<()> {
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

    let folder = args.out.join("double-well");
    std::fs::create_dir_all(&folder)
        .map_err(|e| Failure::system(format!("making {}: {e}", folder.display())))?;
    let methods = Value::Object(methods);
    store(&folder, &experiment, &table, &csv, &methods, &outcomes)?;
    console.note(format_args!("written to {}", folder.display()));
    console.object(&methods)
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
