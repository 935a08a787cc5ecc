//! Making the runs of a study that are not made yet.

use super::budget::{duration, seconds};
use super::cells::{Cell, cells};
use super::choice::{chosen, finalists};
use super::ledger::{Entry, Ledgers, Role, digest, key_of};
use super::page;
use super::schema::{Fields, Place, Study};
use crate::console::Console;
use crate::data::Library;
use crate::experiment::{Draft, Experiment};
use crate::failure::{Failure, Result};
use crate::nearest::unknown;
use crate::run::stored::file;
use crate::train::Plan;
use crate::train::fleet::{Outcome, run_each};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What is asked of a study.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows, columns and protocols; all by default.
    pub only: Vec<String>,
    /// Runs of each cell, if not as many as the file says.
    pub seeds: Option<u64>,
    /// Runs at a time.
    pub jobs: usize,
    /// Make none: only say what is missing, and write what the ledgers hold.
    pub no_run: bool,
    /// Where results go.
    pub out: PathBuf,
    /// Where runs are at work.
    pub runs: PathBuf,
}

/// A run to be made.
struct Job {
    place: Place,
    role: Role,
    fields: Fields,
    plan: Plan,
}

/// Makes what is missing, and writes the tables and figures of all that is there; the cells that were
/// asked for.
pub fn run(
    study: &Study,
    options: &Options,
    library: &Library,
    console: &Console,
) -> Result<Vec<Cell>> {
    if options.jobs == 0 {
        return Err(Failure::usage("--jobs 0: there must be at least one"));
    }
    let places = select(study, &options.only)?;
    let folder = options.out.join(&study.name);
    let ledgers = Ledgers::read(&folder.join("runs"), &study.places())?;
    let ledgers = Mutex::new(ledgers);
    let trials = trials(study, &places, options, &lock(&ledgers))?;
    tell_budget(study, &places, &trials, options, &lock(&ledgers), console)?;
    let worked = match options.no_run {
        true => Ok(()),
        false => work(study, &places, &trials, options, library, &ledgers, console),
    };
    // What is finished is shown, whatever came of the rest.
    // Another process may have been at work beside this one.
    let ledgers = Ledgers::read(&folder.join("runs"), &study.places())?;
    let mut cells = cells(study, &ledgers)?;
    page::write_all(study, &ledgers, &cells, library, &folder)?;
    worked?;
    console.result(page::summary(study, &cells))?;
    console.note(format_args!("written to {}", folder.display()));
    if !options.only.is_empty() {
        cells.retain(|cell| places.iter().any(|place| cell.is_at(place)));
    }
    Ok(cells)
}

/// The cells of the rows, columns and protocols that were asked for.
fn select(study: &Study, only: &[String]) -> Result<Vec<Place>> {
    let names = || {
        let rows = study.rows.iter().map(|(name, _)| name.as_str());
        let columns = study.columns.iter().map(|(name, _)| name.as_str());
        rows.chain(columns).chain(study.protocols.iter().map(|(name, _)| name.as_str()))
    };
    if let Some(name) = only.iter().find(|name| !names().any(|known| known == *name)) {
        return Err(unknown("row, column or protocol", name, names()));
    }
    let wanted = |part: fn(&Place) -> &String, known: Vec<&String>| {
        let asked: Vec<&String> = only.iter().filter(|name| known.contains(name)).collect();
        move |place: &Place| asked.is_empty() || asked.contains(&part(place))
    };
    let row = wanted(|place| &place.row, study.rows.iter().map(|(name, _)| name).collect());
    let column = wanted(|place| &place.column, study.columns.iter().map(|(n, _)| n).collect());
    let protocol =
        wanted(|place| &place.protocol, study.protocols.iter().map(|(n, _)| n).collect());
    let places = study.places().into_iter();
    let places: Vec<Place> = places.filter(|p| row(p) && column(p) && protocol(p)).collect();
    match places.is_empty() {
        true => Err(Failure::usage(format!("--only {}: no cell has them all", only.join(",")))
            .hint("a row may be missing in a column or under a protocol")),
        false => Ok(places),
    }
}

fn work(
    study: &Study,
    places: &[Place],
    trials: &[Job],
    options: &Options,
    library: &Library,
    ledgers: &Mutex<Ledgers>,
    console: &Console,
) -> Result<()> {
    make(trials, options, library, ledgers, console)?;
    for places in [tuned(study, places), refined(study, places)] {
        let finals = finals(study, &places, options, &lock(ledgers))?;
        make(&finals, options, library, ledgers, console)?;
    }
    // Settings that diverge give way to others, which are then run.
    loop {
        let runs = runs(study, places, options, &lock(ledgers))?;
        if runs.is_empty() {
            return Ok(());
        }
        make(&runs, options, library, ledgers, console)?;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Where settings for these cells are tried: in their own columns, or in those that they take over from.
fn tuned(study: &Study, places: &[Place]) -> Vec<Place> {
    let mut tuned: Vec<Place> = Vec::new();
    for place in places.iter().filter(|place| study.protocol(place).tuning.is_some()) {
        let column = study.column(place).chosen_on.clone();
        let there = Place { column: column.unwrap_or(place.column.clone()), ..place.clone() };
        if !tuned.contains(&there) {
            tuned.push(there);
        }
    }
    tuned
}

/// The cells that take settings over and have finals of their own.
fn refined(study: &Study, places: &[Place]) -> Vec<Place> {
    let takes_over = |place: &&Place| {
        study.protocol(place).tuning.is_some()
            && study.column(place).chosen_on.is_some()
            && study.finals(place).is_some()
            && !study.refinements(place).is_empty()
    };
    places.iter().filter(takes_over).cloned().collect()
}

/// The trials that are not finished.
fn trials(
    study: &Study,
    places: &[Place],
    options: &Options,
    ledgers: &Ledgers,
) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for place in tuned(study, places) {
        for (i, fields) in study.grid(&place).into_iter().enumerate() {
            let draft = study.trial(&place, &fields)?;
            let name = format!("trial-{}", i + 1);
            jobs.extend(job(&place, Role::Trial, fields, draft, &name, study, options, ledgers)?);
        }
    }
    Ok(jobs)
}

/// The trials of the second round of these cells that are not finished.
fn finals(
    study: &Study,
    places: &[Place],
    options: &Options,
    ledgers: &Ledgers,
) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for place in places {
        let Some(finals) = study.finals(place) else { continue };
        for (i, fields) in finalists(study, ledgers, place)?.into_iter().enumerate() {
            for seed in &finals.seeds {
                let draft = study.final_trial(place, &fields, *seed)?;
                let (name, fields) = (format!("final-{}", i + 1), fields.clone());
                let role = Role::Final;
                jobs.extend(job(place, role, fields, draft, &name, study, options, ledgers)?);
            }
        }
    }
    Ok(jobs)
}

/// The runs that are not finished: all cells with the first seed, then with the second.
fn runs(study: &Study, places: &[Place], options: &Options, ledgers: &Ledgers) -> Result<Vec<Job>> {
    let seeds = |place: &Place| *study.seeds(place, options.seeds).end();
    let most = places.iter().map(seeds).max().unwrap_or(0);
    let mut jobs = Vec::new();
    for seed in 1..=most {
        for place in places.iter().filter(|place| seed <= seeds(place)) {
            let Some(fields) = chosen(study, ledgers, place)? else { continue };
            let draft = study.run(place, &fields, seed)?;
            let name = format!("seed-{seed}");
            jobs.extend(job(place, Role::Run, fields, draft, &name, study, options, ledgers)?);
        }
    }
    Ok(jobs)
}

/// A run, unless it is finished.
#[allow(clippy::too_many_arguments)]
fn job(
    place: &Place,
    role: Role,
    fields: Fields,
    draft: Draft,
    name: &str,
    study: &Study,
    options: &Options,
    ledgers: &Ledgers,
) -> Result<Option<Job>> {
    let experiment = draft.resolve()?;
    let key = key_of(&experiment)?;
    if ledgers.find(place, role, &key).is_some() {
        return Ok(None);
    }
    let Place { protocol, column, row } = place;
    // Other settings have another folder.
    let folder = options.runs.join(&study.name).join(protocol).join(column).join(row);
    let folder = folder.join(format!("{name}-{}", &digest(&experiment)?[..6]));
    let plan = Plan { draft, experiment, folder, tensorboard: false };
    Ok(Some(Job { place: place.clone(), role, fields, plan }))
}

/// Says how long it will take, or would take.
fn tell_budget(
    study: &Study,
    places: &[Place],
    trials: &[Job],
    options: &Options,
    ledgers: &Ledgers,
    console: &Console,
) -> Result<()> {
    let cost = |place: &Place, role: Role, experiment: &Experiment| {
        seconds(study, ledgers, place, role, experiment) / options.jobs as f64
    };
    let trial = |job: &Job| cost(&job.place, Role::Trial, &job.plan.experiment);
    let mut trial_time = trials.iter().map(trial).fold(0.0, |a, b| a + b);
    let mut trial_count = trials.len();
    for place in tuned(study, places).into_iter().chain(refined(study, places)) {
        let Some(finals) = study.finals(&place) else { continue };
        let settings = match study.column(&place).chosen_on {
            None => finals.settings,
            Some(_) => study.refinements(&place).len(),
        };
        let mut open = settings * finals.seeds.len();
        for fields in finalists(study, ledgers, &place)? {
            for seed in &finals.seeds {
                let key = key_of(&study.final_trial(&place, &fields, *seed)?.resolve()?)?;
                open -= usize::from(ledgers.find(&place, Role::Final, &key).is_some());
            }
        }
        // Which settings will be in it does not matter for the cost.
        if let (Some(fields), Some(seed)) = (study.grid(&place).pop(), finals.seeds.first()) {
            let experiment = study.final_trial(&place, &fields, *seed)?.resolve()?;
            trial_time += open as f64 * cost(&place, Role::Trial, &experiment);
        }
        trial_count += open;
    }
    let (mut count, mut time) = (0, 0.0);
    for place in places {
        // Which settings will be chosen does not matter for the cost.
        let fields = chosen(study, ledgers, place)?;
        let known = fields.is_some();
        let any = || study.grid(place).pop().unwrap_or_default();
        let fields = fields.unwrap_or_else(any);
        for seed in study.seeds(place, options.seeds) {
            let experiment = study.run(place, &fields, seed)?.resolve()?;
            let done = known && ledgers.find(place, Role::Run, &key_of(&experiment)?).is_some();
            if !done {
                count += 1;
                time += cost(place, Role::Run, &experiment);
            }
        }
    }
    let total: f64 = time + trial_time;
    console.note(format_args!(
        "{}: {} trials ({}) and {count} runs ({}) to make, {} at a time; budget: {}",
        study.name,
        trial_count,
        duration(trial_time),
        duration(time),
        options.jobs,
        duration(total)
    ));
    Ok(())
}

fn make(
    jobs: &[Job],
    options: &Options,
    library: &Library,
    ledgers: &Mutex<Ledgers>,
    console: &Console,
) -> Result<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let plans: Vec<Plan> = jobs.iter().map(|job| job.plan.clone()).collect();
    let done = |i: usize, outcome: &Outcome| {
        let Job { place, role, fields, plan } = &jobs[i];
        let entry = Entry::new(&plan.experiment, *role, fields, &plan.folder, outcome)?;
        lock(ledgers).push(place, entry)?;
        remove_checkpoints(&plan.folder);
        Ok(())
    };
    run_each(&plans, library, options.jobs, console, &done).map(|_| ())
}

/// Those of a finished run are of no more use, and large.
fn remove_checkpoints(folder: &Path) {
    // What stays does no harm.
    let _ = std::fs::remove_dir_all(folder.join(file::CHECKPOINTS));
}
