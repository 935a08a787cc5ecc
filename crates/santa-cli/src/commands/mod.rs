//! The commands, one file each.

mod bench;
mod compare;
mod data;
mod definitions;
mod eval;
mod presets;
mod quickstart;
mod report;
mod reproduce;
mod results;
mod sample;
mod sweep;
pub(crate) mod table;
mod train;

use crate::args::{Cli, Command, Global};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::ranks;

/// Does what the command line asks for.
pub fn run(cli: Cli, console: &Console) -> Result<()> {
    let global = &cli.global;
    if computes(&cli.command) && !matches!(cli.command, Command::Train(_) | Command::Sample(_)) {
        ranks::refuse(name(&cli.command))?;
    }
    if computes(&cli.command) {
        console.detail(format_args!("data in {}", data::store(global)?.root().display()));
    }
    match &cli.command {
        Command::Quickstart(args) => quickstart::run(args, global, console),
        Command::Train(args) => train::run(args, global, console),
        Command::Compare(args) => compare::run(args, global, console),
        Command::Sample(args) => sample::run(args, global, console),
        Command::Sweep(args) => sweep::run(args, global, console),
        Command::Eval(args) => eval::run(args, global, console),
        Command::Report(args) => report::run(args, console),
        Command::Reproduce(args) => reproduce::run(args, global, console),
        Command::Presets(args) => presets::run(args, console),
        Command::Data(args) => data::run(args, global, console),
        Command::Bench(args) => bench::run(args, global, console),
        Command::Completions(args) => definitions::completions(args, console),
        Command::Man(args) => definitions::man(args, console),
    }
}

/// Whether a command reads data sets and computes.
fn computes(command: &Command) -> bool {
    use Command::{Compare, Eval, Quickstart, Reproduce, Sample, Sweep, Train};
    matches!(
        command,
        Quickstart(_) | Train(_) | Compare(_) | Sample(_) | Sweep(_) | Eval(_) | Reproduce(_)
    )
}

/// The name of a command that reads data sets and computes.
fn name(command: &Command) -> &'static str {
    match command {
        Command::Quickstart(_) => "quickstart",
        Command::Compare(_) => "compare",
        Command::Sweep(_) => "sweep",
        Command::Eval(_) => "eval",
        Command::Reproduce(_) => "reproduce",
        _ => "this command",
    }
}

/// As many threads as were asked for.
fn threads(global: &Global) -> Result<Option<usize>> {
    match global.threads {
        Some(0) => Err(Failure::usage("--threads 0: there must be at least one")),
        threads => Ok(threads),
    }
}

/// Sets up the pool of threads that everything runs on.
fn set_threads(global: &Global) -> Result<()> {
    let Some(threads) = threads(global)?.or_else(ranks::threads) else { return Ok(()) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.map_err(|e| Failure::system(format!("making {threads} threads: {e}")))
}

/// Takes `KEY=V1,V2,...` apart. Commas within brackets and quotes do not count.
fn listed<'a>(option: &str, text: &'a str) -> Result<(&'a str, Vec<String>)> {
    let Some((key, values)) = text.split_once('=') else {
        return Err(Failure::usage(format!("{option} {text}: there is no `=`"))
            .hint(format!("write `{option} KEY=V1,V2,...`")));
    };
    let (mut depth, mut quoted) = (0i32, false);
    let mut list = vec![String::new()];
    for c in values.chars() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            _ => (),
        }
        match list.last_mut() {
            Some(last) if c != ',' || quoted || depth > 0 => last.push(c),
            _ => list.push(String::new()),
        }
    }
    let list: Vec<String> = list.iter().map(|value| value.trim().to_string()).collect();
    if list.iter().any(String::is_empty) {
        return Err(Failure::usage(format!("{option} {text}: a value is empty")));
    }
    Ok((key.trim(), list))
}

/// `lr=0.1` for a value of a field among other fields: as much of the path as tells them apart. An
/// optimizer has its name already.
fn label(key: &str, keys: &[&str], value: &str) -> Option<String> {
    if key == "optimizer" {
        return None;
    }
    let ends = |suffix: &str| {
        let with_dot = format!(".{suffix}");
        keys.iter().filter(|key| **key == suffix || key.ends_with(&with_dot)).count()
    };
    let starts = key.match_indices('.').map(|(i, _)| i + 1);
    let suffixes = starts.chain([0]).map(|start| &key[start..]);
    // From the last step of the path on, ever longer.
    let mut suffixes: Vec<&str> = suffixes.collect();
    suffixes.sort_by_key(|suffix| suffix.len());
    let short = suffixes.into_iter().find(|suffix| ends(suffix) == 1).unwrap_or(key);
    Some(format!("{short}={}", value.trim_matches('"')))
}

/// More runs than anybody means.
const MOST_RUNS: u64 = 100_000;

fn refuse_too_many(runs: u64) -> Result<()> {
    if runs <= MOST_RUNS {
        return Ok(());
    }
    Err(Failure::usage(format!("that would be {runs} runs"))
        .hint(format!("at most {MOST_RUNS} are made at once")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_divided_at_commas_outside_brackets() {
        let (key, values) = listed("--vary", "model.hidden=[10, 20],[30]").unwrap();
        assert_eq!((key, values), ("model.hidden", vec!["[10, 20]".into(), "[30]".into()]));
        assert_eq!(listed("--vary", "a=1,\"x,y\"").unwrap().1, ["1", "\"x,y\""]);
        for bad in ["a", "a=", "a=1,,2"] {
            assert!(listed("--vary", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn labels_are_as_long_as_they_must_be() {
        let keys = ["optimizer.lr", "averaging.every", "evaluation.every", "optimizer"];
        assert_eq!(label(keys[0], &keys, "0.1").as_deref(), Some("lr=0.1"));
        assert_eq!(
            label(keys[1], &keys, "\"1 epoch\"").as_deref(),
            Some("averaging.every=1 epoch")
        );
        assert_eq!(label(keys[3], &keys, "adam"), None);
    }
}
