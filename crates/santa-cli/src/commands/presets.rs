//! `santa presets`: the built-in experiments and optimizers.

use super::table::Table;
use crate::args::{Presets, PresetsAction};
use crate::console::Console;
use crate::experiment::{EXPERIMENTS, OPTIMIZERS, Preset};
use crate::failure::Result;
use crate::nearest::unknown;
use serde_json::json;

pub fn run(args: &Presets, console: &Console) -> Result<()> {
    match &args.action {
        None | Some(PresetsAction::List) => list(console),
        Some(PresetsAction::Show { name }) => show(name, console),
    }
}

fn list(console: &Console) -> Result<()> {
    for (title, presets) in [("experiments", EXPERIMENTS), ("optimizers", OPTIMIZERS)] {
        let mut table = Table::new([title.to_uppercase()]);
        let width = presets.iter().map(|preset| preset.name.len()).max().unwrap_or(0);
        for preset in presets {
            table.row([format!("  {:width$}  {}", preset.name, preset.description())]);
        }
        console.result(table)?;
    }
    let names = |presets: &[Preset]| -> Vec<_> {
        let describe = |p: &Preset| json!({ "name": p.name, "description": p.description() });
        presets.iter().map(describe).collect()
    };
    console.object(&json!({ "experiments": names(EXPERIMENTS), "optimizers": names(OPTIMIZERS) }))
}

fn show(name: &str, console: &Console) -> Result<()> {
    let all = || EXPERIMENTS.iter().chain(OPTIMIZERS);
    let preset = all().find(|preset| preset.name == name);
    let preset = preset.ok_or_else(|| unknown("preset", name, all().map(|preset| preset.name)))?;
    console.result(preset.toml.trim_end())?;
    console.object(&json!({ "name": preset.name, "toml": preset.toml }))
}
