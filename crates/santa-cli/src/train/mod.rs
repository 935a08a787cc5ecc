//! Running an experiment: from a plan to a summary.

mod average;
mod calibration;
pub mod fleet;
mod layers;
mod log;
mod model;
mod rollback;
mod team;
mod trainer;
mod trial;
mod trouble;
mod variational;
mod watch;

pub use average::Average;
pub use calibration::calibrate;
pub use model::{ImageModel, Model, MusicModel};
pub use team::{RankTime, Together};
pub use variational::VariationalModel;
pub use watch::{Display, Silent, Watch};

use crate::data::{CLASSES, Library, PIXELS, Parts};
use crate::experiment::{self, Draft, Experiment, Precision};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::run::folder::{Found, RunFolder, write_json};
use crate::run::record::Summary;
use crate::run::stored::file;
use crate::tensorboard::EventWriter;
use log::Log;
use santa::{Checkpoint, DataSize, Group, Potential, Stepper, Target};
use santa_datasets::polyphonic::KEYS;
use santa_distributed::{Number, Shared};
use santa_nn::{Classifier, Examples, GruArchitecture, PianoRolls, Scalar, SequenceModel};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use trainer::Trainer;

/// An experiment and the folder that it runs in.
#[derive(Clone, Debug)]
pub struct Plan {
    /// As it was written, for messages.
    pub draft: Draft,
    /// As it runs.
    pub experiment: Experiment,
    /// Where it runs.
    pub folder: PathBuf,
    /// Write TensorBoard event files.
    pub tensorboard: bool,
}

impl Plan {
    /// Resolves a draft; the folder is `OPTIMIZER-seed-N` in `parent`.
    pub fn new(draft: Draft, parent: &Path) -> Result<Self> {
        let experiment = draft.resolve()?;
        let name = format!("{}-seed-{}", experiment.optimizer.name, experiment.seed);
        let name = name.replace([' ', '/', '\\', ':'], "-");
        Ok(Plan { draft, experiment, folder: parent.join(name), tensorboard: false })
    }
}

/// What to do about a run that is already in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse it.
    Refuse,
    /// Go on with it; if it is done, take its result; if there is none, say so and begin.
    Resume,
    /// The same, with nothing to say if there is none.
    Complete,
}

/// How an execution ended.
#[derive(Debug)]
pub enum Ended {
    /// The run is done.
    Done(Box<Summary>),
    /// Somebody pressed Ctrl-C; a checkpoint of this step was written.
    Interrupted {
        /// Steps made.
        step: u64,
    },
}

/// Runs an experiment in its folder.
pub fn execute(
    plan: &Plan,
    library: &Library,
    existing: Existing,
    watch: &mut dyn Watch,
) -> Result<Ended> {
    execute_together(plan, library, existing, watch, &Together::alone())
}

/// The same with several processes; each of them calls it with the same plan.
pub fn execute_together(
    plan: &Plan,
    library: &Library,
    existing: Existing,
    watch: &mut dyn Watch,
    together: &Together<'_>,
) -> Result<Ended> {
    let settings = plan.experiment.to_toml()?;
    together.same("experiment", settings.as_bytes(), "give all of them the same files")?;
    let resuming = match together.told(|| begin(plan, existing, watch))? {
        Begin::Anew => false,
        Begin::Resuming => true,
        Begin::Done(summary) => return Ok(Ended::Done(summary)),
    };
    let data = together.agreed(library.load(&plan.experiment.data))?;
    match plan.experiment.precision {
        Precision::F32 => build::<f32>(plan, data, resuming, watch, together),
        Precision::F64 => build::<f64>(plan, data, resuming, watch, together),
    }
}

/// How an execution begins.
#[derive(Serialize, Deserialize)]
enum Begin {
    Anew,
    Resuming,
    /// There is nothing left to do.
    Done(Box<Summary>),
}

/// Looks at what is in the folder already.
fn begin(plan: &Plan, existing: Existing, watch: &mut dyn Watch) -> Result<Begin> {
    let found = RunFolder::look(&plan.folder, &plan.experiment)?;
    match (found, existing) {
        (Found::Nothing, Existing::Resume) => {
            let folder = plan.folder.display();
            watch.warn(&format!("there is no run in {folder} to go on with: beginning a new one"));
            Ok(Begin::Anew)
        }
        (Found::Nothing, _) => Ok(Begin::Anew),
        (found, Existing::Refuse) => {
            let (state, remedy) = match found {
                Found::Done(_) => ("a finished run", "`--resume` shows its result"),
                Found::Diverged(_) => (
                    "a run that diverged",
                    "the same settings would diverge again: change them, or remove it",
                ),
                _ => ("an unfinished run", "`--resume` goes on with it"),
            };
            let text = format!("there is {state} in {}", plan.folder.display());
            Err(Failure::usage(text).hint(format!("{remedy}; `--out` chooses another folder")))
        }
        (Found::Unfinished, _) => Ok(Begin::Resuming),
        (Found::Done(summary), _) => Ok(Begin::Done(summary)),
        (Found::Diverged(failure), _) => Err(failure),
    }
}

/// Refuses settings that do not fit the model. Needs no data.
pub fn check(plan: &Plan) -> Result<()> {
    match plan.experiment.precision {
        Precision::F32 => check_with::<f32>(plan),
        Precision::F64 => check_with::<f64>(plan),
    }
}

fn check_with<F: Scalar>(plan: &Plan) -> Result<()> {
    let target = target::<F>(&plan.experiment).map_err(|e| plan.draft.locate("model", e))?;
    stepper::<F>(plan, &target, 0).map(|_| ())
}

/// What an experiment's model will be about, found with a single blank example in the place of all.
fn target<F: Scalar>(experiment: &Experiment) -> santa::Result<Target> {
    let layout = if let experiment::Model::Gru { .. } = &experiment.model {
        let rolls = PianoRolls::new(KEYS, vec![0; KEYS], vec![0, 1])?;
        sequence_model::<F>(experiment, rolls)?.target().layout().clone()
    } else {
        let blank = || Examples::from_bytes(vec![0; PIXELS], PIXELS, vec![0]);
        let model = classifier::<F>(experiment, blank()?)?;
        if experiment.variational.is_some() {
            let model = ImageModel::new(model, (None, blank()?));
            VariationalModel::new(experiment, model)?.target().layout().clone()
        } else {
            model.target().layout().clone()
        }
    };
    let n = DataSize::new(experiment.data.training_size() as u64)?;
    grouped(&Target::new(layout, n, experiment.prior)?, &experiment.groups)
}

fn build<F: Scalar + Number>(
    plan: &Plan,
    data: Parts,
    resuming: bool,
    watch: &mut dyn Watch,
    together: &Together<'_>,
) -> Result<Ended> {
    let locate = |error| plan.draft.locate("model", error);
    match data {
        Parts::Images(data) => {
            let (train, rest) = data.take_apart();
            let model = classifier::<F>(&plan.experiment, train).map_err(locate)?;
            let model = ImageModel::new(model, rest);
            if plan.experiment.variational.is_none() {
                return run(plan, model, resuming, watch, together);
            }
            let model = VariationalModel::new(&plan.experiment, model).map_err(locate)?;
            run(plan, model, resuming, watch, together)
        }
        Parts::Music(data) => {
            let (train, rest) = data.take_apart();
            let model = sequence_model::<F>(&plan.experiment, train).map_err(locate)?;
            run(plan, MusicModel::new(model, rest), resuming, watch, together)
        }
    }
}

/// The classifier of an experiment. (Groups of a variational one are of means and scales, which it has
/// not.)
pub fn classifier<F: Scalar>(
    experiment: &Experiment,
    train: santa_nn::Examples,
) -> santa::Result<Classifier<F>> {
    let architecture = experiment.model.architecture(PIXELS, CLASSES).ok_or_else(misfit)?;
    let model = Classifier::<F>::new(&architecture, train, experiment.prior)?;
    if experiment.variational.is_some() {
        return Ok(model);
    }
    let target = grouped(model.target(), &experiment.groups)?;
    model.with_target(target)?.with_smoothness(&experiment.smoothness)
}

/// The recurrent network of an experiment.
pub fn sequence_model<F: Scalar>(
    experiment: &Experiment,
    train: santa_nn::PianoRolls,
) -> santa::Result<SequenceModel<F>> {
    let experiment::Model::Gru { hidden, normalisation, initialisation } = &experiment.model else {
        return Err(misfit());
    };
    let architecture = GruArchitecture { keys: train.keys(), hidden: *hidden };
    let model = SequenceModel::<F>::new(architecture, train, *normalisation, experiment.prior)?;
    let target = grouped(model.target(), &experiment.groups)?;
    model.with_target(target)?.with_initialisation(*initialisation)
}

fn misfit() -> santa::Error {
    santa::Error::Structure("the model does not fit the data set".into())
}

fn grouped(target: &Target, groups: &[Group]) -> santa::Result<Target> {
    groups.iter().try_fold(target.clone(), |target, group| target.with_group(group.clone()))
}

/// The dynamics of a chain of an experiment.
fn stepper<F: Scalar>(plan: &Plan, target: &Target, chain: u32) -> Result<Stepper<F>> {
    let Experiment { optimizer, seed, clip, on_trouble, .. } = &plan.experiment;
    Stepper::<F>::new(optimizer.algorithm.clone(), target, *seed, chain)
        .and_then(|stepper| stepper.with_clip(*clip))
        .and_then(|stepper| stepper.on_trouble(*on_trouble))
        .map_err(|error| plan.draft.locate("optimizer", error))
}

fn run<F: Scalar + Number, M: Model<F>>(
    plan: &Plan,
    model: M,
    resuming: bool,
    watch: &mut dyn Watch,
    together: &Together<'_>,
) -> Result<Ended> {
    let experiment = &plan.experiment;
    let parameters = model.target().dim();
    let Together { team, summing, timing } = *together;
    let model = Shared::new(model, team, summing)
        .map_err(|error| Failure::from(error).hint("`--ordered N` says how many parts there are"))?
        .stopping_when(interrupt::requested)
        .measuring(timing);
    let dynamics = |target: &Target, chain| stepper::<F>(plan, target, chain);
    let mut trainer = Trainer::new(experiment, model, dynamics)?;
    let mut folder = RunFolder::of_another(&plan.folder);
    let checkpoint = together.told(|| {
        if !resuming {
            folder = RunFolder::create(&plan.folder, experiment)?;
            return Ok(None);
        }
        folder = RunFolder::resume(&plan.folder)?;
        trainer.resume(&mut folder, watch)
    })?;
    if let Some(path) = checkpoint
        && team.size() > 1
    {
        // From rank 0, for there may be no file system that all can see.
        let mut bytes = together.agreed(match together.leads() {
            true => read(&path),
            false => Ok(Vec::new()),
        })?;
        team.broadcast(0, &mut bytes)?;
        if !together.leads() {
            trainer.go_to(&Checkpoint::from_bytes(&bytes)?)?;
        }
    }
    let events = match plan.tensorboard && together.leads() {
        true => Some(EventWriter::resume(&plan.folder.join(file::TENSORBOARD), trainer.steps())?),
        false => None,
    };
    watch.detail(&format!("{parameters} parameters, {} threads", rayon::current_num_threads()));
    if team.size() > 1 {
        watch.detail(&format!("{} processes", team.size()));
    }
    let ended = trainer.run(&mut Log { folder: &mut folder, events }, watch)?;
    // Nobody ends before rank 0 has written everything.
    team.wait()?;
    if let Some((_, newest)) = folder.checkpoints()?.pop() {
        watch.detail(&format!("the newest checkpoint is {}", newest.display()));
    }
    if timing {
        let times = together.times(&trainer.model().timing())?;
        if together.leads() {
            write_json(&plan.folder.join(file::TIMING), &times)?;
            watch.note(&together.table(&times));
        }
    }
    Ok(ended)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Failure::system(format!("reading {}: {e}", path.display())))
}
