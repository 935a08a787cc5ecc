//! The processes that `mpirun` started, if it did.

use crate::args::Ranks as Args;
use crate::console::{Console, Volume};
use crate::failure::{Failure, Result};
use santa_distributed::{Launch, Solo, Team};

/// The processes that work on this command.
pub struct Ranks {
    team: Box<dyn Team>,
}

impl Ranks {
    /// Joins the others, if there are any; waits for them for so many seconds if not told otherwise.
    pub fn join(args: &Args, patience: f64) -> Result<Ranks> {
        let Some(launch) = Launch::detect() else { return Ok(Ranks { team: Box::new(Solo) }) };
        match launched(&launch, args.patience.unwrap_or(patience)) {
            Ok(team) => Ok(Ranks { team }),
            Err(failure) => Err(said_once(&launch, failure)),
        }
    }

    /// The processes.
    pub fn team(&self) -> &dyn Team {
        &*self.team
    }

    /// Where this process speaks: rank 0 alone is heard.
    pub fn console(&self, console: &Console) -> Console {
        match self.team.rank() {
            0 => *console,
            _ => Console::new(Volume::Quiet, false).muted(),
        }
    }

    /// Ends what all have worked on. A failure of one ends all of them.
    pub fn leave(self, outcome: Result<()>, console: &Console) -> Result<()> {
        match outcome {
            Err(failure) if self.team.size() > 1 => abandon(self.team.rank(), &failure, console),
            outcome => outcome,
        }
    }
}

/// Refuses to run a command in several processes that knows nothing of them.
pub fn refuse(command: &str) -> Result<()> {
    let Some(launch) = Launch::detect().filter(|launch| launch.size > 1) else { return Ok(()) };
    let Launch { by, size, .. } = &launch;
    let text = format!("{by} started {size} processes, and each would do all of `santa {command}`");
    let hint = "`santa train` and `santa sample` divide their work; start others without it";
    Err(said_once(&launch, Failure::usage(text).hint(hint)))
}

/// A failure of every process: the first says it, and the others just end.
fn said_once(launch: &Launch, failure: Failure) -> Failure {
    if launch.rank.is_some_and(|rank| rank > 0) {
        std::process::exit(failure.kind.code().into())
    }
    failure
}

/// How many threads this process should use, if a launcher started it.
pub fn threads() -> Option<usize> {
    let launch = Launch::detect()?;
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    Some(launch.threads(available, cores.max(available)))
}

#[cfg(feature = "mpi")]
fn launched(_: &Launch, patience: f64) -> Result<Box<dyn Team>> {
    use std::time::Duration;
    let patience = Duration::try_from_secs_f64(patience).map_err(|error| {
        Failure::usage(format!("--patience {patience}: {error}")).hint("say it in seconds")
    })?;
    match santa_mpi::World::join(patience) {
        Ok(world) => Ok(Box::new(world)),
        Err(error) => Err(Failure::usage(error)),
    }
}

#[cfg(not(feature = "mpi"))]
fn launched(launch: &Launch, _: f64) -> Result<Box<dyn Team>> {
    let Launch { by, size, .. } = launch;
    if *size == 1 {
        return Ok(Box::new(Solo));
    }
    Err(Failure::usage(format!(
        "{by} started {size} processes, but this build of `santa` has no MPI"
    ))
    .hint("build it with `--features mpi`, or start it without a launcher"))
}

/// Says what happened, and ends all processes.
///
/// Mostly the failure is everybody's, and rank 0 tells it while the others wait. If they outlive that, it
/// was theirs alone.
#[cfg(feature = "mpi")]
fn abandon(rank: usize, failure: &Failure, console: &Console) -> Result<()> {
    const FOR_RANK_0: std::time::Duration = std::time::Duration::from_secs(2);
    match rank {
        0 => console.error(failure),
        _ => {
            std::thread::sleep(FOR_RANK_0);
            let console = Console::new(Volume::Quiet, false);
            console.error(&Failure {
                kind: failure.kind,
                message: format!("rank {rank}: {}", failure.message),
                hint: failure.hint.clone(),
            });
        }
    }
    santa_mpi::end(failure.kind.code())
}

#[cfg(not(feature = "mpi"))]
fn abandon(_: usize, failure: &Failure, _: &Console) -> Result<()> {
    Err(Failure {
        kind: failure.kind,
        message: failure.message.clone(),
        hint: failure.hint.clone(),
    })
}
