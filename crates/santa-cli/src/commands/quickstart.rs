//! `santa quickstart`: six optimizers on the built-in digits.

use super::compare::compare;
use crate::args::{Global, Quickstart};
use crate::console::Console;
use crate::experiment::Draft;
use crate::failure::Result;
use crate::run::folder::{Found, RunFolder};
use crate::train::Plan;
use toml::Value;

/// What is compared, with the settings that were best on validation data among twelve for each; the
/// guide's chapter on comparing has the commands.
const OPTIMIZERS: [(&str, [&str; 2]); 6] = [
    ("santa", ["optimizer.lr=4e-3", "optimizer.beta.a=10"]),
    ("santa-e", ["optimizer.lr=4e-3", "optimizer.beta.a=10"]),
    ("adam", ["optimizer.lr=2e-3", "optimizer.beta2=0.99"]),
    ("rmsprop", ["optimizer.lr=2e-3", "optimizer.rho=0.9"]),
    ("sgd-m", ["optimizer.lr=0.4", "optimizer.momentum=0.8"]),
    ("sgld", ["optimizer.lr=1", "optimizer.beta.value=1e4"]),
];

pub fn run(args: &Quickstart, global: &Global, console: &Console) -> Result<()> {
    let mut plans = Vec::new();
    for (name, settings) in OPTIMIZERS {
        let mut draft = Draft::open("quickstart")?;
        draft.set_all(&settings.map(String::from))?;
        draft.insert("optimizer", Value::String(name.into()), "quickstart")?;
        for (key, value) in [("epochs", args.epochs), ("seed", args.seed)] {
            let Some(value) = value else { continue };
            draft.set(&format!("{key}={value}"))?;
        }
        plans.push(Plan::new(draft, &args.out)?);
    }
    // Runs with other settings are refused here, before anything is said of them.
    let mut done = 0;
    for plan in &plans {
        if let Found::Done(_) = RunFolder::look(&plan.folder, &plan.experiment)? {
            done += 1;
        }
    }
    if done > 0 {
        console.note(format_args!(
            "{done} of {} runs are already in {} and are not repeated",
            plans.len(),
            args.out.display()
        ));
    }
    compare(&plans, &args.out, 1, global, console)?;
    console.note(NEXT);
    Ok(())
}

/// Said at the end. Each command has a folder of its own and goes on with what is there, so that they
/// work in any order, and again.
const NEXT: &str = "
One seed and a small data set: differences of half a percent mean nothing here.
What to try next:
  several seeds, mean and spread
    santa compare quickstart --optimizers santa,adam --seeds 5 --out runs/seeds
  more epochs, smaller steps
    santa train quickstart --set epochs=50 --set optimizer.lr=3e-4 --out runs/longer --resume
  an experiment of your own
    santa presets show quickstart > my.toml
    santa train my.toml --out runs/my --resume
  all 60,000 digits
    santa data fetch mnist
    santa train mnist-fnn-400 --resume";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use std::collections::HashSet;

    #[test]
    fn the_commands_that_are_suggested_parse_and_keep_out_of_each_others_folders() {
        let commands = NEXT.lines().map(str::trim).filter(|line| line.starts_with("santa "));
        let mut folders = HashSet::new();
        let mut count = 0;
        for line in commands {
            let words = line.split(" > ").next().unwrap().split(' ');
            let folder = match Cli::try_parse_from(words).unwrap().command {
                Command::Compare(args) => args.out,
                Command::Train(args) => {
                    assert!(args.resume, "{line} would be refused the second time");
                    Some(args.out.unwrap_or_else(|| args.experiment.into()))
                }
                _ => None,
            };
            assert!(folder.is_none_or(|folder| folders.insert(folder)), "{line}");
            count += 1;
        }
        assert_eq!((count, folders.len()), (6, 4));
    }
}
