//! The `santa` command as a library: experiments, runs, reports.
//!
//! | module | what is there |
//! | --- | --- |
//! | [`args`] | the command line |
//! | [`commands`] | what each command does |
//! | [`experiment`] | what an experiment is, read from TOML |
//! | [`data`] | the data sets, loaded and divided |
//! | [`train`], [`weights`] | running an experiment; parameters from files |
//! | [`run`], [`tensorboard`] | the folder of a run and what is written in it |
//! | [`interrupt`], [`ranks`] | Ctrl-C; the processes that `mpirun` started |
//! | [`sample`] | draws from a posterior, and the report of them |
//! | [`reproduce`] | the paper's figures and tables |
//! | [`report`], [`figure`] | what is shown of runs: a page and its figures |
//! | [`console`], [`failure`], [`nearest`] | what is said, and how the command ends |

pub mod args;
pub mod commands;
pub mod console;
pub mod data;
pub mod experiment;
pub mod failure;
pub mod figure;
pub mod interrupt;
pub mod nearest;
pub mod ranks;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod sample;
pub mod tensorboard;
pub mod train;
pub mod weights;

use args::Cli;
use clap::Parser;
use clap::error::ErrorKind;
use console::{Console, Volume};
use failure::Failure;
use std::process::ExitCode;

/// The command: parses, runs, and tells how it ended.
pub fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        // The options could not be read, so this one is looked for by hand.
        if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
            Console::new(Volume::Quiet, true).error_object(&misread(&error));
        }
        error.exit()
    });
    let global = &cli.global;
    let volume = match (global.quiet, global.verbose) {
        (true, _) => Volume::Quiet,
        (_, true) => Volume::Verbose,
        _ => Volume::Normal,
    };
    match global.color {
        clap::ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
        clap::ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
        clap::ColorChoice::Auto => (),
    }
    let console = Console::new(volume, global.json);
    match commands::run(cli, &console) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            console.error(&failure);
            failure.exit_code()
        }
    }
}

/// A command line that was not understood, as a failure.
fn misread(error: &clap::Error) -> Failure {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("a command is missing").hint("`--help` lists them");
    }
    let text = error.to_string();
    let mut paragraphs = text.trim().split("\n\n").map(str::trim);
    let message = paragraphs.next().unwrap_or_default();
    let failure = Failure::usage(message.strip_prefix("error: ").unwrap_or(message));
    failure.hint(paragraphs.collect::<Vec<_>>().join("\n"))
}

/// The examples of the guide and the README are tests. A package has no guide, and needs none.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/src/your-own.md")]
    struct YourOwn;
    #[doc = include_str!("../../../docs/src/reproducing.md")]
    struct Reproducing;
}
