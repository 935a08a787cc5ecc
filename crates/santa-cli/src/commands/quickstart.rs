//! `santa quickstart`: six optimizers on the built-in digits.

use super::compare::compare;
use crate::args::{Global, Quickstart};
use crate::console::Console;
use crate::experiment::Draft;
use crate::failure::Result;
use crate::train::Plan;
use toml::Value;

/// What is compared.
const OPTIMIZERS: [&str; 6] = ["santa", "santa-e", "adam", "rmsprop", "sgd-m", "sgld"];

pub fn run(args: &Quickstart, global: &Global, console: &Console) -> Result<()> {
    let mut plans = Vec::new();
    for name in OPTIMIZERS {
        let mut draft = Draft::open("quickstart")?;
        draft.insert("optimizer", Value::String(name.into()), "quickstart")?;
        for (key, value) in [("epochs", args.epochs), ("seed", args.seed)] {
            let Some(value) = value else { continue };
            draft.set(&format!("{key}={value}"))?;
        }
        plans.push(Plan::new(draft, &args.out)?);
    }
    let done = plans.iter().filter(|plan| plan.folder.join("summary.json").exists()).count();
    if done > 0 {
        console.note(format_args!(
            "{done} of {} runs are already in {} and are not repeated",
            plans.len(),
            args.out.display()
        ));
    }
    compare(&plans, &args.out, 1, global, console)?;
    console.note(
        "\nOne seed and a small data set: differences of half a percent mean nothing here.\n\
         What to try next:\n  \
           santa compare quickstart --optimizers santa,adam --seeds 5   several seeds, mean and spread\n  \
           santa train quickstart --set epochs=50 --set optimizer.lr=3e-4\n  \
           santa presets show quickstart > my.toml                      an experiment of your own\n  \
           santa data fetch mnist && santa train mnist-fnn-400          all 60,000 digits",
    );
    Ok(())
}
