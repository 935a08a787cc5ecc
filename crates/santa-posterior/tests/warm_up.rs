//! A warm-up that is interrupted goes on where it was, to the same draws.

use santa::dynamics::Sghmc;
use santa::noise::{Purpose, Stream};
use santa::potential::ControlVariate;
use santa::potential::analytic::LinearRegression;
use santa::{Potential, StepSize};
use santa_distributed::Threads;
use santa_posterior::sampler::{
    Member, Metric, Parameters, Posterior, Quiet, Sampler, Stage, Watch,
};
use santa_posterior::store::Format;
use santa_posterior::{Error, Result, Store};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

const DIM: usize = 3;

type Model = ControlVariate<LinearRegression, f64>;

fn member(chain: u32) -> Member<f64, Model, Parameters> {
    let stream = Stream::new(2, 0, Purpose::Data);
    let (model, _) = LinearRegression::synthetic(200, DIM, 1.0, 1.0, &stream).unwrap();
    // One that keeps something between its gradients.
    let model = ControlVariate::new(model, 70).unwrap();
    let names = Parameters::of(model.target());
    Member::new(model, names, vec![f64::from(chain) - 1.5; DIM])
}

fn sampler() -> Sampler {
    let base = Sampler::seeded(6);
    Sampler { chains: 3, draws: 20, warm_up: 40, descent: 200, batch_size: 50, ..base }
}

/// A store that is written as often as can be.
fn store(folder: &Path) -> Store {
    Store::new(folder, Format::Parquet).writing_every(Duration::ZERO)
}

/// Keeps the stages that it sees, and asks to stop after so many reports of one of them.
struct Seen {
    stages: Mutex<Vec<Stage>>,
    last: Option<(Stage, usize)>,
}

impl Seen {
    fn until(last: Option<(Stage, usize)>) -> Self {
        Seen { stages: Mutex::default(), last }
    }
    fn stages(&self) -> Vec<Stage> {
        self.stages.lock().unwrap().clone()
    }
}

impl Watch for Seen {
    fn progress(&self, _: u32, stage: Stage, _: u64, _: u64) {
        self.stages.lock().unwrap().push(stage);
    }
    fn stop(&self) -> bool {
        let stages = self.stages.lock().unwrap();
        self.last.is_some_and(|(last, n)| stages.iter().filter(|s| **s == last).count() >= n)
    }
}

fn run(sampler: &Sampler, store: &Store, watch: &dyn Watch) -> Result<Posterior<f64, Parameters>> {
    sampler.run_watched(sampler.members(member), Some(store), watch)
}

#[test]
fn an_interrupted_warm_up_goes_on_from_its_last_window_with_any_number_of_members() {
    let kinds = [
        Sampler { metric: Metric::Dense, ..sampler() },
        // A step that is far too large, to be halved: windows are repeated.
        Sampler { metric: Metric::Identity, thin: Some(3), batch_size: 1_000, ..sampler() },
    ];
    for sampler in kinds {
        let whole = sampler.run(sampler.members(member)).unwrap();
        assert_eq!(whole.tuning.figures.halvings > 0, sampler.metric == Metric::Identity);
        for window in 1..=4 {
            let folder = tempfile::tempdir().unwrap();
            let store = store(folder.path());
            let stop = Seen::until(Some((Stage::WarmingUp(window), 4)));
            let outcome = run(&sampler, &store, &stop).map(drop);
            assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
            assert!(store.is_warming_up() && !store.is_begun());
            let sitting = Threads::run(2, |team| {
                let mine = sampler.members_in_team(&team, member);
                let seen = Seen::until(None);
                (sampler.run_in_team(&team, mine, Some(&store), &seen).unwrap(), seen.stages())
            });
            for (posterior, stages) in sitting {
                assert_eq!(stages[0], Stage::WarmingUp(window));
                assert_eq!(posterior.tuning, whole.tuning, "window {window}");
                assert_eq!(posterior.draws, whole.draws, "window {window}");
            }
            assert!(store.is_begun() && !store.is_warming_up());
        }
    }
}

#[test]
fn steps_of_given_dynamics_are_kept_too() {
    let dynamics = Some(Sghmc::new(StepSize::paper(1e-3, 3.0)).into());
    let sampler = Sampler { dynamics, warm_up: 1_000, ..sampler() };
    let whole = sampler.run(sampler.members(member)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    // Reports come from three chains, each of 50 steps: twice, and there is more to do.
    for _ in 0..2 {
        let stop = Seen::until(Some((Stage::WarmingUp(1), 12)));
        let outcome = run(&sampler, &store, &stop).map(drop);
        assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
        assert!(store.is_warming_up());
    }
    let seen = Seen::until(None);
    let posterior = run(&sampler, &store, &seen).unwrap();
    assert_eq!(posterior.draws, whole.draws);
    let steps = seen.stages().iter().filter(|stage| **stage == Stage::WarmingUp(1)).count();
    assert!(steps <= 60 - 24, "{steps}");
    assert!(!store.is_warming_up());
}

#[test]
fn a_warm_up_of_something_else_is_begun_anew_and_so_is_one_that_is_to_be_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let interrupt = || {
        let stop = Seen::until(Some((Stage::WarmingUp(3), 1)));
        assert!(run(&sampler(), &store, &stop).is_err() && store.is_warming_up());
    };
    interrupt();
    let other = Sampler { seed: 7, draws: 5, chains: 2, ..sampler() };
    let seen = Seen::until(Some((Stage::Descending, 1)));
    assert!(run(&other, &store, &seen).is_err());
    assert_eq!(seen.stages()[0], Stage::Descending);
    assert!(!store.is_warming_up());
    interrupt();
    store.forget_warm_up().unwrap();
    let seen = Seen::until(None);
    // More draws are no other settings, but there is nothing to go on with.
    run(&Sampler { draws: 30, ..sampler() }, &store, &seen).unwrap();
    assert_eq!(seen.stages()[0], Stage::Descending);
}

#[test]
fn short_warm_ups_are_not_written_and_damaged_ones_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let rare = Store::new(folder.path(), Format::Parquet);
    let stop = || Seen::until(Some((Stage::WarmingUp(2), 1)));
    assert!(run(&sampler(), &rare, &stop()).is_err() && !rare.is_warming_up());
    let store = store(folder.path());
    assert!(run(&sampler(), &store, &stop()).is_err() && store.is_warming_up());
    let file = folder.path().join("warm-up.safetensors");
    std::fs::write(&file, b"nothing").unwrap();
    let message = run(&sampler(), &store, &Quiet).unwrap_err().to_string();
    assert!(message.contains("warm-up.safetensors"), "{message}");
}

#[test]
fn draws_are_written_as_often_as_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    run(&sampler(), &store(folder.path()), &Quiet).unwrap();
    let parts = std::fs::read_dir(folder.path().join("chain-0")).unwrap();
    let parts = parts.filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("draws-")
    });
    assert_eq!(parts.count(), 20);
}
