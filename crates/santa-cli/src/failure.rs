//! How the command ends when it does not succeed: a message and an exit code for each kind of
//! failure.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::process::ExitCode;

/// Result of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// What kind of thing went wrong. Scripts tell them apart by the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Something about this machine: a file that cannot be written, a full disk. Exit code 1.
    System,
    /// An argument, an experiment or a setting that cannot be. Exit code 2.
    Usage,
    /// A data file, a checkpoint or weights that are missing, damaged or do not fit. Exit code 3.
    Data,
    /// A run that diverged. Exit code 4.
    Numerical,
    /// Ctrl-C or a signal; what was done is saved. Exit code 130.
    Interrupted,
}

impl Kind {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Kind::System => 1,
            Kind::Usage => 2,
            Kind::Data => 3,
            Kind::Numerical => 4,
            Kind::Interrupted => 130,
        }
    }
    /// The name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Kind::System => "system",
            Kind::Usage => "usage",
            Kind::Data => "data",
            Kind::Numerical => "numerical",
            Kind::Interrupted => "interrupted",
        }
    }
}

/// A failure: what happened, and below it what to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Which exit code.
    pub kind: Kind,
    /// What happened, in a sentence that names the thing.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure of some kind.
    pub fn new(kind: Kind, message: impl fmt::Display) -> Self {
        Failure { kind, message: message.to_string(), hint: None }
    }
    /// Something about this machine.
    pub fn system(message: impl fmt::Display) -> Self {
        Failure::new(Kind::System, message)
    }
    /// An argument or a setting.
    pub fn usage(message: impl fmt::Display) -> Self {
        Failure::new(Kind::Usage, message)
    }
    /// A data file.
    pub fn data(message: impl fmt::Display) -> Self {
        Failure::new(Kind::Data, message)
    }
    /// The same with a remedy.
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }
    /// The same with something before the message: a file, a run.
    pub fn within(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
    /// The exit code.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

impl From<santa::Error> for Failure {
    fn from(error: santa::Error) -> Self {
        let kind = match &error {
            santa::Error::NotFinite { .. }
            | santa::Error::Poisoned { .. }
            | santa::Error::GaveUp { .. } => Kind::Numerical,
            santa::Error::Checkpoint { .. } | santa::Error::Mismatch { .. } => Kind::Data,
            santa::Error::Io { .. } | santa::Error::Outside(_) => Kind::System,
            _ => Kind::Usage,
        };
        Failure::new(kind, error)
    }
}

impl From<santa_posterior::Error> for Failure {
    fn from(error: santa_posterior::Error) -> Self {
        let kind = match error {
            santa_posterior::Error::Santa(error) => return error.into(),
            santa_posterior::Error::Diverged(_) => Kind::Numerical,
            santa_posterior::Error::Interrupted => Kind::Interrupted,
            santa_posterior::Error::Io { .. } | santa_posterior::Error::Team(_) => Kind::System,
            santa_posterior::Error::Data(_) => Kind::Data,
            _ => Kind::Usage,
        };
        Failure::new(kind, error)
    }
}

impl From<santa_distributed::Error> for Failure {
    fn from(error: santa_distributed::Error) -> Self {
        match error {
            santa_distributed::Error::Santa(error) => error.into(),
            santa_distributed::Error::Setting { .. } => Failure::usage(error),
            _ => Failure::system(error),
        }
    }
}

impl From<santa_datasets::Error> for Failure {
    fn from(error: santa_datasets::Error) -> Self {
        Failure::data(error)
    }
}
