//! The same bits for any number of members and across a resume; what is refused.

use super::*;
use crate::team::{Solo, Team};
use crate::threads::Threads;
use santa::dynamics::{Sghmc, Sgld};
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::{Gaussian, LinearRegression};
use santa::{
    Batch, Chain, Checkpoint, InverseTemperature, OnTrouble, Potential, Rate, Sampling, StepSize,
    Stepper, Target,
};

const DIM: usize = 3;
const RUNGS: usize = 5;

fn regression_settings() -> Tempering {
    Tempering {
        swap_every: 3,
        energies: Energies::minibatches(10, 4),
        seed: 9,
        ..Tempering::geometric(1.0, 0.4, RUNGS)
    }
}

/// Replicas of a regression, with minibatches throughout.
fn regression<T: Team>(team: T) -> Replicas<f32, LinearRegression, T> {
    let stream = Stream::new(7, 0, Purpose::Data);
    let (model, _) = LinearRegression::synthetic(60, DIM, 1.0, 1.0, &stream).unwrap();
    regression_settings()
        .init(team, |rung, beta| {
            let sghmc =
                Sghmc::new(StepSize::paper(1e-3, 10.0)).beta(InverseTemperature::fixed(beta));
            let stepper = Stepper::new(sghmc, model.target(), 9, rung)?;
            Chain::new(model.clone(), stepper, vec![0.0; DIM], Sampling::ShuffledEpochs, 8)
        })
        .unwrap()
}

/// All parameters in the order of the rungs, and the statistics.
type Outcome = (Vec<Vec<f32>>, Statistics);

fn outcome<T: Team>(replicas: &Replicas<f32, LinearRegression, T>) -> Outcome {
    let thetas = replicas.chains().iter().map(|chain| chain.theta().to_vec()).collect();
    (thetas, replicas.statistics().clone())
}

/// What the members have, as one.
fn joined(parts: Vec<Outcome>) -> Outcome {
    let statistics = parts[0].1.clone();
    assert!(parts.iter().all(|(_, other)| *other == statistics));
    (parts.into_iter().flat_map(|(thetas, _)| thetas).collect(), statistics)
}

const ROUNDS: u64 = 40;

fn run(size: usize) -> Outcome {
    joined(Threads::run(size, |team| {
        let mut replicas = regression(team);
        replicas.advance(ROUNDS).unwrap();
        outcome(&replicas)
    }))
}

#[test]
fn any_number_of_members_gives_the_same_bits() {
    let alone = run(1);
    assert_eq!(alone.0.len(), RUNGS);
    // Something has happened, at the seams between members as well.
    assert!(alone.1.accepted().iter().all(|n| *n > 0), "{:?}", alone.1);
    assert!(alone.1.accepted().iter().zip(alone.1.attempts()).any(|(made, tried)| made < tried));
    for size in [2, 3, RUNGS] {
        assert_eq!(run(size), alone, "{size} members");
    }
}

#[test]
fn a_resume_goes_on_with_the_same_bits_by_another_number_of_members() {
    const BREAK: u64 = 13;
    let whole = run(1);
    let saved = Threads::run(2, |team| {
        let mut replicas = regression(team);
        replicas.advance(BREAK).unwrap();
        replicas.checkpoint().unwrap()
    });
    assert!(saved[1].is_none());
    let bytes = saved[0].as_ref().unwrap().to_bytes().unwrap();
    for size in [1, 2, 3] {
        let resumed = joined(Threads::run(size, |team| {
            let mut replicas = regression(team);
            replicas.restore(&Checkpoint::from_bytes(&bytes).unwrap()).unwrap();
            replicas.advance(ROUNDS - BREAK).unwrap();
            outcome(&replicas)
        }));
        assert_eq!(resumed, whole, "{size} members");
    }
}

#[test]
fn a_checkpoint_of_another_ladder_is_refused() {
    let mut replicas = regression(Solo);
    let mut checkpoint = replicas.checkpoint().unwrap().unwrap();
    checkpoint
        .insert_meta("tempering", &Tempering { swap_every: 4, ..regression_settings() })
        .unwrap();
    let error = replicas.restore(&checkpoint).unwrap_err().to_string();
    assert!(error.contains("tempering") && error.contains("swap_every: 4"), "{error}");
    let mut checkpoint = replicas.checkpoint().unwrap().unwrap();
    let mut counts = replicas.statistics().counts.clone();
    counts.walkers[0] = RUNGS;
    checkpoint.insert_meta("tempering_counts", &counts).unwrap();
    let error = replicas.restore(&checkpoint).unwrap_err().to_string();
    assert!(error.contains("statistics"), "{error}");
    assert!(replicas.restore(&Checkpoint::new()).is_err());
}

/// A Gaussian that fails after so many gradients.
struct Failing {
    inner: Gaussian,
    left: u32,
}

impl Potential<f64> for Failing {
    fn target(&self) -> &Target {
        self.inner.target()
    }
    fn loss_gradient(
        &mut self,
        theta: &[f64],
        batch: &Batch<'_>,
        gradient: &mut [f64],
    ) -> santa::Result<f64> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(santa::Error::Structure("out of luck".into()));
        };
        self.left = left;
        self.inner.loss_gradient(theta, batch, gradient)
    }
}

#[test]
fn trouble_of_one_member_stops_all() {
    let settings = Tempering { swap_every: 10, ..Tempering::geometric(1.0, 0.5, 3) };
    let errors = Threads::run(3, |team| {
        let mut replicas = settings
            .init(team, |rung, beta| {
                let inner = Gaussian::diagonal(&[1.0]).unwrap();
                let sgld = Sgld::new(Rate::eta(0.1)).beta(InverseTemperature::fixed(beta));
                let stepper = Stepper::new(sgld, inner.target(), 0, rung)?;
                let failing = Failing { inner, left: if rung == 1 { 25 } else { 1_000 } };
                Chain::new(failing, stepper, vec![0.0], Sampling::Full, 1)
            })
            .unwrap();
        let error = replicas.advance(10).unwrap_err().to_string();
        (replicas.rounds(), error)
    });
    let told = "rank 1: out of luck".to_string();
    assert_eq!(errors, [(2, told.clone()), (2, "out of luck".into()), (2, told)]);
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let good = Tempering::default();
    good.check().unwrap();
    let minibatches = |size, batches, correction| Tempering {
        energies: Energies::Minibatches { size, batches, correction },
        ..Tempering::default()
    };
    minibatches(1, 1, Correction::Off).check().unwrap();
    let betas = |betas: &[f64]| Tempering { betas: betas.to_vec(), ..Tempering::default() };
    for (bad, named) in [
        (betas(&[]), "`betas`"),
        (betas(&[1.0, 1.0]), "`betas[1]`"),
        (betas(&[0.5, 1.0]), "coldest first"),
        (betas(&[f64::INFINITY, 1.0]), "`betas[0]`"),
        (betas(&[1.0, f64::NAN]), "`betas[1]`"),
        (betas(&[1.0, 0.0]), "`betas[1]`"),
        (Tempering { swap_every: 0, ..Tempering::default() }, "`swap_every`"),
        (minibatches(0, 4, Correction::Penalty), "`energies.size`"),
        (minibatches(4, 1, Correction::Penalty), "`energies.batches`"),
        (minibatches(4, 0, Correction::Off), "`energies.batches`"),
    ] {
        let error = bad.check().unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn chains_that_do_not_belong_at_their_rung_are_refused() {
    let settings = Tempering::geometric(1.0, 0.5, 2);
    let build = |beta_of: &dyn Fn(f64) -> InverseTemperature, seed, first| {
        settings
            .init(Solo, |rung, beta| {
                let gaussian = Gaussian::diagonal(&[1.0])?;
                let sgld = Sgld::new(Rate::eta(0.1)).beta(beta_of(beta));
                let stepper = Stepper::new(sgld, gaussian.target(), seed, rung + first)?;
                Chain::new(gaussian, stepper, vec![0.0f64], Sampling::Full, 1)
            })
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    build(&InverseTemperature::fixed, 0, 0).unwrap();
    let error = build(&|_| InverseTemperature::posterior(), 0, 0).unwrap_err();
    assert!(error.contains("inverse temperature of rung 1"), "{error}");
    let annealed = |_| InverseTemperature::annealed(santa::Schedule::power(1.0, 1.0, 0.5));
    let error = build(&annealed, 0, 0).unwrap_err();
    assert!(error.contains("at every step"), "{error}");
    assert!(build(&InverseTemperature::fixed, 3, 0).unwrap_err().contains("seed of rung 0"));
    assert!(build(&InverseTemperature::fixed, 0, 1).unwrap_err().contains("chain of rung 0"));
    let error = settings
        .init(Solo, |rung, beta| {
            let gaussian = Gaussian::diagonal(&[1.0])?;
            let sgld = Sgld::new(Rate::eta(0.1)).beta(InverseTemperature::fixed(beta));
            let stepper = Stepper::new(sgld, gaussian.target(), 0, rung)?
                .on_trouble(OnTrouble::RollBack { every: 10, at_most: 2 })?;
            Chain::new(gaussian, stepper, vec![0.0f64], Sampling::Full, 1)
        })
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("RollBack") && error.contains("skip"), "{error}");
    let errors = Threads::run(3, |team| {
        let chain = |_, _| -> santa::Result<Chain<f64, Gaussian>> { unreachable!() };
        settings.init(team, chain).map(|_| ()).map_err(|error| error.to_string())
    });
    assert!(errors.iter().all(|error| error.as_ref().unwrap_err().contains("3 ranks")));
}
