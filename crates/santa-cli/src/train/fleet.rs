//! Many runs: one after the other, or some at a time with the threads shared between them.

use super::{Display, Ended, Existing, Plan, check, execute};
use crate::console::Console;
use crate::data::Library;
use crate::experiment::Experiment;
use crate::failure::{Failure, Kind, Result};
use crate::run::folder::RunFolder;
use crate::run::record::Summary;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What became of a run.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is done.
    Done(Box<Summary>),
    /// It diverged, with this message.
    Diverged(String),
}

impl Outcome {
    /// The result, if there is one.
    pub fn summary(&self) -> Option<&Summary> {
        match self {
            Outcome::Done(summary) => Some(summary),
            Outcome::Diverged(_) => None,
        }
    }
}

/// Runs all plans that are not done yet, `jobs` at a time. A run that diverges does not stop the
/// others; any other failure does, and so does Ctrl-C.
pub fn run_all(
    plans: &[Plan],
    library: &Library,
    jobs: usize,
    console: &Console,
) -> Result<Vec<Outcome>> {
    run_each(plans, library, jobs, console, &|_, _| Ok(()))
}

/// The same, with something to do as soon as a run is done: it is told which one, by its number.
pub fn run_each(
    plans: &[Plan],
    library: &Library,
    jobs: usize,
    console: &Console,
    done: &(dyn Fn(usize, &Outcome) -> Result<()> + Sync),
) -> Result<Vec<Outcome>> {
    if jobs == 0 {
        return Err(Failure::usage("--jobs 0: there must be at least one"));
    }
    refuse_twins(plans)?;
    check_all(plans)?;
    let bars = Display::bars(console);
    let next = AtomicUsize::new(0);
    let outcomes: Vec<Mutex<Option<Outcome>>> = plans.iter().map(|_| Mutex::default()).collect();
    let failure: Mutex<Option<Failure>> = Mutex::default();
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(plan) = plans.get(i) else { break };
            let mut display = Display::new(*console, &bars);
            let made = one(plan, library, &mut display);
            match made.and_then(|outcome| done(i, &outcome).map(|()| outcome)) {
                Ok(outcome) => *lock(&outcomes[i]) = Some(outcome),
                Err(error) => {
                    // The first one is told, but before Ctrl-C; nothing new is begun.
                    let mut told = lock(&failure);
                    if told.as_ref().is_none_or(|told| told.kind == Kind::Interrupted) {
                        *told = Some(error);
                    }
                    next.store(plans.len(), Ordering::Relaxed);
                }
            }
        }
    };
    spread(jobs.min(plans.len()), work)?;
    if let Some(failure) = lock(&failure).take() {
        return Err(failure);
    }
    let outcomes = outcomes.into_iter().map(|outcome| lock(&outcome).take());
    outcomes.collect::<Option<_>>().ok_or_else(|| Failure::system("a run ended without a result"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn one(plan: &Plan, library: &Library, display: &mut Display) -> Result<Outcome> {
    match execute(plan, library, Existing::Complete, display) {
        Ok(Ended::Done(summary)) => Ok(Outcome::Done(summary)),
        Ok(Ended::Interrupted { .. }) => Err(interrupted()),
        Err(failure) if failure.kind == Kind::Numerical => {
            Ok(Outcome::Diverged(failure.to_string()))
        }
        Err(failure) => {
            let folder = plan.folder.display().to_string();
            let named = failure.message.contains(&folder);
            Err(if named { failure } else { failure.within(folder) })
        }
    }
}

/// Ctrl-C among many runs.
pub fn interrupted() -> Failure {
    Failure::new(Kind::Interrupted, "interrupted; every run that had begun wrote a checkpoint")
        .hint("the same command goes on from there")
}

/// Two runs cannot share a folder.
fn refuse_twins(plans: &[Plan]) -> Result<()> {
    let mut seen = HashMap::new();
    for plan in plans {
        if let Some(twin) = seen.insert(&plan.folder, plan) {
            let same =
                if twin.experiment == plan.experiment { "the same run twice" } else { "two runs" };
            let text = format!("{same} would go to {}", plan.folder.display());
            return Err(Failure::usage(text)
                .hint("give the experiments, or their `optimizer.name`, different names"));
        }
    }
    Ok(())
}

/// Refuses what can be known to be wrong before hours have gone into the runs before it.
fn check_all(plans: &[Plan]) -> Result<()> {
    let mut last: Option<Experiment> = None;
    for plan in plans {
        RunFolder::look(&plan.folder, &plan.experiment)?;
        // Another seed fits if one does.
        let unseeded = Experiment { seed: 0, ..plan.experiment.clone() };
        if last.as_ref() != Some(&unseeded) {
            check(plan)?;
            last = Some(unseeded);
        }
    }
    Ok(())
}

/// Does the work in `jobs` threads, each with its share of the pool.
fn spread(jobs: usize, work: impl Fn() + Sync) -> Result<()> {
    if jobs <= 1 {
        work();
        return Ok(());
    }
    let threads = (rayon::current_num_threads() / jobs).max(1);
    let mut pools = Vec::new();
    for _ in 0..jobs {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pools.push(pool.map_err(|e| Failure::system(format!("making {threads} threads: {e}")))?);
    }
    std::thread::scope(|scope| {
        for pool in &pools {
            scope.spawn(|| pool.install(&work));
        }
    });
    Ok(())
}
