//! `santa train`: one experiment.

use super::{set_threads, table};
use crate::args::{Global, Train};
use crate::console::Console;
use crate::data::Library;
use crate::experiment::Draft;
use crate::failure::{Failure, Kind, Result};
use crate::interrupt;
use crate::ranks::Ranks;
use crate::run::record::Summary;
use crate::run::stored::StoredRun;
use crate::train::{Display, Ended, Existing, Plan, Together, execute_together};
use santa_distributed::{Summing, Team};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Seconds to wait for other processes, which answer at every step.
const PATIENCE: f64 = 60.0;

pub fn run(args: &Train, global: &Global, console: &Console) -> Result<()> {
    let ranks = Ranks::join(&args.ranks, PATIENCE)?;
    let console = ranks.console(console);
    let outcome = train(args, global, &console, ranks.team());
    ranks.leave(outcome, &console)
}

fn train(args: &Train, global: &Global, console: &Console, team: &dyn Team) -> Result<()> {
    let together = Together { team, summing: summing(args), timing: args.timing };
    let plan = together.agreed(plan(args))?;
    set_threads(global)?;
    interrupt::listen(console)?;
    let library = Library::new(global)?;
    let existing = if args.resume { Existing::Resume } else { Existing::Refuse };
    let mut display = Display::new(*console, &Display::bars(console)).naming(&plan.folder);
    let ended = execute_together(&plan, &library, existing, &mut display, &together)?;
    match ended {
        Ended::Done(summary) => show(&plan.folder, &summary, console),
        Ended::Interrupted { step } => Err(interrupted(args, step)),
    }
}

fn summing(args: &Train) -> Summing {
    match (args.ordered, args.overlap) {
        (Some(parts), _) => Summing::Ordered { parts },
        (None, true) => Summing::Overlapped,
        (None, false) => Summing::Once,
    }
}

fn plan(args: &Train) -> Result<Plan> {
    let mut draft = Draft::open(&args.experiment)?;
    draft.set_all(&args.set)?;
    let name = draft.resolve()?.name;
    let mut plan = Plan::new(draft, &Path::new("runs").join(name))?;
    let given = PathBuf::from(&args.experiment);
    if let Some(out) = &args.out {
        plan.folder = out.clone();
    } else if StoredRun::is_run(&given) && args.resume {
        plan.folder = given;
    }
    plan.tensorboard = args.tensorboard;
    Ok(plan)
}

fn interrupted(args: &Train, step: u64) -> Failure {
    let text = format!("interrupted after step {step}; a checkpoint was written");
    let again = if args.resume { "the same command" } else { "the same command with `--resume`" };
    Failure::new(Kind::Interrupted, text).hint(format!("{again} goes on from there"))
}

fn show(folder: &Path, summary: &Summary, console: &Console) -> Result<()> {
    console.result(table::of_summary(summary))?;
    console.note(format_args!("`santa report {}` draws the curves", folder.display()));
    console.object(&json!({ "run": folder, "summary": summary }))
}
