//! Chains that are shared by a team: the same draws as by one process, and the same end for all.

use santa::dynamics::Sghmc;
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::LinearRegression;
use santa::{Batch, Checkpoint, Potential, StepSize, Target};
use santa_distributed::{Team, Threads};
use santa_posterior::sampler::{
    Member, Metric, Parameters, Posterior, Quiet, Recorder, Sampler, Scales, Stage, Watch,
};
use santa_posterior::store::Format;
use santa_posterior::{Error, Result, Store};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const DIM: usize = 3;
const CHAINS: u32 = 5;

fn sampler() -> Sampler {
    Sampler { chains: CHAINS, draws: 30, warm_up: 30, descent: 200, ..Sampler::seeded(6) }
}

fn linear() -> LinearRegression {
    let stream = Stream::new(2, 0, Purpose::Data);
    LinearRegression::synthetic(200, DIM, 1.0, 1.0, &stream).unwrap().0
}

/// Keeps the parameters, and adds up their squares by the way.
#[derive(Clone, Debug, PartialEq)]
struct Adding {
    sum: f64,
}

impl<P: Potential<f64>> Recorder<f64, P> for Adding {
    fn names(&self) -> Vec<String> {
        (0..DIM).map(|i| format!("theta[{i}]")).collect()
    }
    fn record(&mut self, _: &mut P, theta: &[f64], out: &mut [f64]) -> santa::Result<()> {
        out.copy_from_slice(theta);
        self.sum += theta.iter().map(|x| x * x).sum::<f64>();
        Ok(())
    }
    fn save(&self, checkpoint: &mut Checkpoint) -> santa::Result<()> {
        checkpoint.insert_tensor("sum", &[1], &[self.sum])
    }
    fn restore(&mut self, checkpoint: &Checkpoint) -> santa::Result<()> {
        self.sum = checkpoint.tensor_of_shape("sum", &[1])?[0];
        Ok(())
    }
}

fn member(model: &LinearRegression, chain: u32) -> Member<f64, LinearRegression, Adding> {
    Member::new(model.clone(), Adding { sum: 0.0 }, vec![f64::from(chain) - 1.5; DIM])
}

/// Runs a team of so many members, without a store.
fn together(
    size: usize,
    sampler: &Sampler,
    make: impl Fn(u32) -> Member<f64, LinearRegression, Adding> + Sync,
) -> Vec<Posterior<f64, Adding>> {
    Threads::run(size, |team| {
        let mine = sampler.members_in_team(&team, &make);
        sampler.run_in_team(&team, mine, None, &Quiet).unwrap()
    })
}

#[test]
fn the_draws_do_not_depend_on_the_number_of_members() {
    let model = linear();
    let own = Some(Sghmc::new(StepSize::paper(1e-3, 3.0)).into());
    let kinds = [
        Sampler { metric: Metric::Dense, ..sampler() },
        Sampler { metric: Metric::Diagonal, batch_size: 1_000, ..sampler() },
        // A step that is far too large, to be halved by all.
        Sampler { metric: Metric::Identity, thin: Some(3), batch_size: 1_000, ..sampler() },
        Sampler { dynamics: own, ..sampler() },
    ];
    for sampler in kinds {
        let alone = sampler.run(sampler.members(|chain| member(&model, chain))).unwrap();
        if sampler.metric == Metric::Identity {
            assert!(alone.tuning.figures.halvings > 0);
        }
        for size in 1..=3 {
            for (rank, one) in
                together(size, &sampler, |chain| member(&model, chain)).into_iter().enumerate()
            {
                assert!(one.complete);
                assert_eq!(one.tuning, alone.tuning, "{size} members, {:?}", sampler.metric);
                assert_eq!(one.draws, alone.draws, "{size} members, {:?}", sampler.metric);
                assert_eq!(one.statistics, alone.statistics);
                if rank == 0 {
                    assert_eq!(one.recorders, alone.recorders);
                }
            }
        }
    }
}

/// Negative control: with numbers that each member counts from 0, the draws are others.
#[test]
fn chains_numbered_by_their_member_would_draw_something_else() {
    let (model, sampler) = (linear(), sampler());
    let alone = sampler.run(sampler.members(|chain| member(&model, chain))).unwrap();
    let parts = Threads::run(2, |team| {
        let chains = sampler.chains_in_team(&team).len() as u32;
        let own = Sampler { chains, ..sampler.clone() };
        own.run(own.members(|chain| member(&model, chain))).unwrap()
    });
    assert_ne!(parts[1].draws.draw(0, 0), alone.draws.draw(parts[0].draws.chains(), 0));
}

#[test]
fn all_use_the_scales_of_the_first_chain() {
    let (model, sampler) = (linear(), sampler());
    let make = |chain: u32| {
        let scales = [0.05, 0.1].map(|s| Scales::diagonal(&[0.5; DIM], &[s; DIM]).unwrap());
        member(&model, chain).with_scales(scales[usize::from(chain > 0)].clone())
    };
    let alone = sampler.run(sampler.members(make)).unwrap();
    for one in together(3, &sampler, make) {
        assert_eq!(one.tuning.scales, alone.tuning.scales);
        assert_eq!(one.draws, alone.draws);
    }
}

/// Asks to stop after so many draws of the chains that it watches.
struct After(AtomicU64);

impl After {
    fn draws(draws: u64) -> Self {
        After(AtomicU64::new(draws))
    }
}

impl Watch for After {
    fn progress(&self, _: u32, stage: Stage, _: u64, _: u64) {
        if stage == Stage::Drawing {
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        }
    }
    fn stop(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

#[test]
fn an_interrupted_run_goes_on_with_another_number_of_members() {
    let model = linear();
    let sampler = Sampler { draws: 600, ..sampler() };
    let alone = sampler.run(sampler.members(|chain| member(&model, chain))).unwrap();
    for format in [Format::Parquet, Format::Safetensors] {
        let folder = tempfile::tempdir().unwrap();
        // One member alone is asked to stop: the last.
        let sitting = |size: usize, draws: u64| {
            Threads::run(size, |team| {
                let store = Store::new(folder.path(), format);
                let watch = After::draws(if team.rank() + 1 == size { draws } else { u64::MAX });
                let mine = sampler.members_in_team(&team, |chain| member(&model, chain));
                sampler.run_in_team(&team, mine, Some(&store), &watch).unwrap()
            })
        };
        for part in sitting(3, 300).into_iter().chain(sitting(2, 40)) {
            assert!(!part.complete && part.draws.len() < 600);
        }
        for (rank, whole) in sitting(5, u64::MAX).into_iter().enumerate() {
            assert!(whole.complete);
            assert_eq!(whole.draws, alone.draws);
            assert_eq!(whole.statistics, alone.statistics);
            if rank == 0 {
                assert_eq!(whole.recorders, alone.recorders);
            }
        }
        let (draws, _) = Store::open(folder.path()).unwrap().read().unwrap();
        assert_eq!(draws, alone.draws);
    }
}

/// Asks to stop during the descent, on one member.
struct AtOnce(bool);

impl Watch for AtOnce {
    fn stop(&self) -> bool {
        self.0
    }
}

#[test]
fn all_stop_in_the_warm_up_if_one_is_asked_to() {
    let (model, sampler) = (linear(), sampler());
    let outcomes = Threads::run(3, |team| {
        let mine = sampler.members_in_team(&team, |chain| member(&model, chain));
        sampler.run_in_team(&team, mine, None, &AtOnce(team.rank() == 1)).map(drop)
    });
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Error::Interrupted))));
}

/// A regression whose gradients are no numbers from some number of them on.
struct Breaking {
    model: LinearRegression,
    left: u64,
}

impl Potential<f64> for Breaking {
    fn target(&self) -> &Target {
        self.model.target()
    }
    fn loss_gradient(
        &mut self,
        theta: &[f64],
        batch: &Batch<'_>,
        gradient: &mut [f64],
    ) -> santa::Result<f64> {
        let loss = self.model.loss_gradient(theta, batch, gradient)?;
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            gradient.fill(f64::NAN);
        }
        Ok(loss)
    }
}

/// The errors of three members, the chain 4 of which breaks after so many gradients.
fn broken(sampler: &Sampler, left: u64, store: Option<&Store>) -> Vec<Result<()>> {
    let model = linear();
    Threads::run(3, |team| {
        let mine = sampler.members_in_team(&team, |chain| {
            let left = if chain == 4 { left } else { u64::MAX };
            let potential = Breaking { model: model.clone(), left };
            Member::new(potential, Adding { sum: 0.0 }, vec![0.0; DIM])
        });
        sampler.run_in_team(&team, mine, store, &Quiet).map(drop)
    })
}

#[test]
fn a_chain_that_breaks_ends_all_members_with_the_same_error() {
    // In the descent; in a window, where halving the step does not help; while drawing.
    let own = Sampler {
        dynamics: Some(Sghmc::new(StepSize::paper(1e-3, 3.0)).into()),
        draws: 2_000,
        ..sampler()
    };
    let window = Sampler { thin: Some(2), ..sampler() };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path(), Format::Parquet);
    let cases = [(&sampler(), 100, None), (&window, 260, None), (&own, 700, Some(&store))];
    for (sampler, left, store) in cases {
        let errors: Vec<Error> =
            broken(sampler, left, store).into_iter().map(|one| one.unwrap_err()).collect();
        for error in &errors {
            let text = error.to_string();
            assert!(matches!(error, Error::Diverged(_)), "{error:?}");
            assert!(text.contains("rank 2") && text.contains("chain 4"), "{text}");
            assert_eq!(text, errors[0].to_string());
        }
    }
    // The others' draws are kept, and nobody has drawn on to the end.
    let (draws, _) = Store::open(folder.path()).unwrap().read().unwrap();
    let made: Vec<u64> = (0..CHAINS as usize).map(|chain| draws.of_chain(chain)).collect();
    assert!(made[..4].iter().all(|made| (1..2_000).contains(made)), "{made:?}");
    assert!(made[4] <= 700, "{made:?}");
}

#[test]
fn members_that_are_too_many_or_not_alike_are_refused_by_all() {
    let model = linear();
    let refused = |size: usize, sampler: &(dyn Fn(usize) -> Sampler + Sync)| -> Vec<Error> {
        Threads::run(size, |team| {
            let sampler = sampler(team.rank());
            let mine = sampler.members_in_team(&team, |chain| member(&model, chain));
            sampler.run_in_team(&team, mine, None, &Quiet).map(drop).unwrap_err()
        })
    };
    for error in refused(3, &|_| Sampler { chains: 2, ..sampler() }) {
        assert!(matches!(error, Error::Setting { .. }));
        assert!(error.to_string().contains("each of the 3 ranks"), "{error}");
    }
    for error in refused(3, &|rank| Sampler { seed: rank as u64 / 2, ..sampler() }) {
        assert!(error.to_string().starts_with("rank 2 has another sampler or model"), "{error}");
    }
    for error in refused(2, &|rank| Sampler { beta: 1.0 - rank as f64, ..sampler() }) {
        assert!(error.to_string().starts_with("rank 1: setting `beta`"), "{error}");
    }
}

/// Which chains a member watches.
struct Seen(Mutex<Vec<u32>>);

impl Watch for Seen {
    fn progress(&self, chain: u32, _: Stage, _: u64, _: u64) {
        self.0.lock().unwrap().push(chain);
    }
}

#[test]
fn a_member_watches_its_own_chains_by_their_numbers_among_all() {
    let (model, sampler) = (linear(), sampler());
    Threads::run(2, |team| {
        let seen = Seen(Mutex::new(Vec::new()));
        let mine = sampler.members_in_team(&team, |chain| {
            Member::new(model.clone(), Parameters::of(model.target()), vec![0.0; DIM])
                .with_scales(Scales::diagonal(&[0.0; DIM], &[0.1 + f64::from(chain); DIM]).unwrap())
        });
        sampler.run_in_team(&team, mine, None, &seen).unwrap();
        let mut chains = seen.0.into_inner().unwrap();
        chains.sort_unstable();
        chains.dedup();
        assert!(chains.into_iter().eq(sampler.chains_in_team(&team)));
    });
}
