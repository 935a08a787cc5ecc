//! `santa completions` and `santa man`: made of the definitions of the command line.

use crate::args::{Cli, Completions, Man};
use crate::console::Console;
use crate::failure::{Failure, Result};
use clap::CommandFactory;
use clap_mangen::Man as Page;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Prints the completions of a shell.
pub fn completions(args: &Completions, console: &Console) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "santa", &mut script);
    print(&script, console, |script| json!({ "shell": args.shell.to_string(), "script": script }))
}

/// Prints the man page of the whole, or writes one for each command.
pub fn man(args: &Man, console: &Console) -> Result<()> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        Page::new(command()).render(&mut page).map_err(Failure::system)?;
        return print(&page, console, |page| json!({ "page": page }));
    };
    let mut pages = Vec::new();
    fs::create_dir_all(folder)
        .and_then(|()| write_pages(&command(), folder, &mut pages))
        .map_err(|e| Failure::system(format!("writing man pages to {}: {e}", folder.display())))?;
    console.note(format_args!("wrote {} pages to {}", pages.len(), folder.display()));
    console.object(&json!({ "pages": pages }))
}

/// The command with its subcommands filled in. The commands named `help` are not for man pages.
fn command() -> clap::Command {
    let mut command = without_help(Cli::command());
    command.build();
    command
}

fn without_help(command: clap::Command) -> clap::Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Writes the page of a command and those of its subcommands: `santa.1`, `santa-data.1`,
/// `santa-data-list.1`.
fn write_pages(command: &clap::Command, folder: &Path, pages: &mut Vec<PathBuf>) -> io::Result<()> {
    let page = Page::new(command.clone());
    let path = folder.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(&path, text)?;
    pages.push(path);
    command.get_subcommands().try_for_each(|command| write_pages(command, folder, pages))
}

/// To standard output as it is, or within an object. A reader who has seen enough is no failure.
fn print(bytes: &[u8], console: &Console, object: impl Fn(&str) -> Value) -> Result<()> {
    if console.json() {
        return console.object(&object(&String::from_utf8_lossy(bytes)));
    }
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::system(format!("writing to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
