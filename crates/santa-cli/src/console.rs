//! What the command says: results on standard output, everything else on standard error.

use crate::failure::{Failure, Result};
use serde::Serialize;
use serde_json::json;
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// How much is said besides results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volume {
    /// Errors alone.
    Quiet,
    /// Progress and what a person should know.
    Normal,
    /// Details too.
    Verbose,
}

/// Whether the object that `--json` asks for was printed: there is one for a process.
static OBJECT: AtomicBool = AtomicBool::new(false);

/// Where a command speaks.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    volume: Volume,
    json: bool,
    muted: bool,
}

impl Console {
    /// A console; with `json`, the only result is one object on the last line.
    pub fn new(volume: Volume, json: bool) -> Self {
        Console { volume, json, muted: false }
    }
    /// The same that says nothing at all.
    pub fn muted(self) -> Self {
        Console { muted: true, ..self }
    }
    /// How much is said.
    pub fn volume(&self) -> Volume {
        self.volume
    }
    /// Whether results are asked for as JSON.
    pub fn json(&self) -> bool {
        self.json
    }
    /// Whether bars can be drawn: a terminal, and somebody who wants to see them.
    pub fn draws(&self) -> bool {
        self.volume > Volume::Quiet && !self.muted && std::io::stderr().is_terminal()
    }

    /// A result, for people. With `--json` it is left out.
    pub fn result(&self, text: impl Display) -> Result<()> {
        if self.json || self.muted { Ok(()) } else { print(format_args!("{text}\n")) }
    }
    /// The result, for programs: one object on one line, if `--json` was given.
    pub fn object(&self, value: &impl Serialize) -> Result<()> {
        if !self.json || self.muted {
            return Ok(());
        }
        let line = serde_json::to_string(value).map_err(Failure::system)?;
        OBJECT.store(true, Ordering::Relaxed);
        print(format_args!("{line}\n"))
    }
    /// Something worth knowing.
    pub fn note(&self, text: impl Display) {
        self.say(Volume::Normal, text);
    }
    /// A detail.
    pub fn detail(&self, text: impl Display) {
        self.say(Volume::Verbose, text);
    }
    /// Something that may go wrong.
    pub fn warning(&self, text: impl Display) {
        let style = anstyle::AnsiColor::Yellow.on_default().bold();
        self.say(Volume::Normal, format_args!("{style}warning:{style:#} {text}"));
    }
    /// A failure. Said at any volume.
    pub fn error(&self, failure: &Failure) {
        let style = anstyle::AnsiColor::Red.on_default().bold();
        self.say(Volume::Quiet, format_args!("{style}error:{style:#} {failure}"));
        self.error_object(failure);
    }
    /// The failure, for programs: with `--json`, an object in place of the result. Where there was a
    /// result (every run diverged, a file is damaged), that one tells it.
    pub fn error_object(&self, failure: &Failure) {
        if !OBJECT.load(Ordering::Relaxed) {
            let Failure { kind, message, hint } = failure;
            let error = json!({ "kind": kind.name(), "message": message, "hint": hint });
            // The failure that is told is worth more than this one.
            let _ = self.object(&json!({ "error": error }));
        }
    }

    fn say(&self, volume: Volume, text: impl Display) {
        if volume <= self.volume && !self.muted {
            // Nobody is left to hear of it when standard error is closed.
            let _ = writeln!(anstream::stderr().lock(), "{text}");
        }
    }
}

/// Writes to standard output. A reader who has seen enough (a closed pipe) is no failure.
fn print(text: std::fmt::Arguments<'_>) -> Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::system(format!("writing to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
