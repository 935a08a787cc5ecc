//! The commands, one file each.

mod bench;
mod compare;
mod data;
mod definitions;
mod eval;
mod presets;
mod quickstart;
mod report;
mod sweep;
mod table;
mod train;

use crate::args::{Cli, Command, Global};
use crate::console::Console;
use crate::failure::{Failure, Result};

/// Does what the command line asks for.
pub fn run(cli: Cli, console: &Console) -> Result<()> {
    let global = &cli.global;
    match &cli.command {
        Command::Quickstart(args) => quickstart::run(args, global, console),
        Command::Train(args) => train::run(args, global, console),
        Command::Compare(args) => compare::run(args, global, console),
        Command::Sweep(args) => sweep::run(args, global, console),
        Command::Eval(args) => eval::run(args, global, console),
        Command::Report(args) => report::run(args, console),
        Command::Presets(args) => presets::run(args, console),
        Command::Data(args) => data::run(args, global, console),
        Command::Bench(args) => bench::run(args, global, console),
        Command::Completions(args) => definitions::completions(args),
        Command::Man(args) => definitions::man(args, console),
    }
}

/// Sets up the pool of threads that everything runs on.
fn set_threads(global: &Global) -> Result<()> {
    let Some(threads) = global.threads else { return Ok(()) };
    if threads == 0 {
        return Err(Failure::usage("--threads 0: there must be at least one"));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.map_err(|e| Failure::system(format!("making {threads} threads: {e}")))
}
