//! Parallel tempering as a whole, against laws that are known.

use super::*;
use crate::team::{Solo, Team};
use crate::threads::Threads;
use santa::dynamics::{Sghmc, Sgld};
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::{Gaussian, LinearRegression, Mixture};
use santa::potential::{FromData, from_data};
use santa::stats::Moments;
use santa::{
    Batch, Chain, Checkpoint, DataSize, InverseTemperature, Layout, Potential, Prior, Rate,
    Sampling, StepSize, Stepper, Target,
};

const WEIGHTS: [f64; 2] = [0.3, 0.7];

/// Shares of the draws near the second mode, one for each of so many independent runs that begin at the
/// first.
fn shares_of_the_second_mode(betas: &[f64]) -> Moments {
    const RUNS: u64 = 24;
    const WARM_UP: u64 = 80;
    const ROUNDS: u64 = 250;
    // Barriers of 32 at beta = 1.
    let mixture = Mixture::new(1, &WEIGHTS, &[-4.0, 4.0], &[0.5]).unwrap();
    let share = |seed| {
        let settings =
            Tempering { betas: betas.to_vec(), swap_every: 3, seed, ..Tempering::default() };
        let mut replicas = settings
            .init(Solo, |rung, beta| {
                let sgld = Sgld::new(Rate::eta(0.02)).beta(InverseTemperature::fixed(beta));
                let stepper = Stepper::new(sgld, mixture.target(), seed, rung)?;
                Chain::<f64, _>::new(mixture.clone(), stepper, vec![-4.0], Sampling::Full, 1)
            })
            .unwrap();
        replicas.advance(WARM_UP).unwrap();
        let mut there = 0;
        replicas
            .advance_with(ROUNDS, |round| {
                there += round.coldest.is_some_and(|theta| theta[0] > 0.0) as u32;
            })
            .unwrap();
        f64::from(there) / ROUNDS as f64
    };
    (0..RUNS).map(share).collect()
}

/// Runs are independent: |t| > 6 with 23 degrees of freedom has a chance of 4e-6.
#[test]
fn tempering_finds_the_weights_of_modes_that_one_chain_never_leaves() {
    let tempered = shares_of_the_second_mode(&geometric(1.0, 0.03, 6));
    let score = (tempered.mean() - WEIGHTS[1]) / tempered.standard_error();
    println!("{} {} {score}", tempered.mean(), tempered.standard_error());
    assert!(score.abs() < 6.0, "{} ({score} standard errors off)", tempered.mean());
    assert!(tempered.standard_error() < 0.03, "{}", tempered.standard_error());
    // Negative control.
    assert_eq!(shares_of_the_second_mode(&[1.0]).mean(), 0.0);
}

const DATA: usize = 100;

/// The mean of unit normal data under a unit normal prior: the law at beta is normal too.
fn location() -> (impl Potential<f64>, f64, f64) {
    let mut data = vec![0.0f64; DATA];
    Stream::new(4, 0, Purpose::Data).normals(0, 0, 0, &mut data);
    let precision = DATA as f64 + 1.0;
    let mean = data.iter().sum::<f64>() / precision;
    let size = DataSize::new(DATA as u64).unwrap();
    let target = Target::new(Layout::flat(1).unwrap(), size, Prior::gaussian(1.0)).unwrap();
    let potential: FromData<f64, _> = from_data(target, move |theta: &[f64], indices, gradient| {
        let n = indices.len() as f64;
        let residual = |i: &u32| theta[0] - data[*i as usize];
        gradient[0] = indices.iter().map(residual).sum::<f64>() / n;
        indices.iter().map(|i| 0.5 * residual(i).powi(2)).sum::<f64>() / n
    });
    (potential, mean, precision)
}

/// Draws both replicas of a pair from their exact laws, lets them swap, and looks whether the law of the
/// colder one has changed: the z-score of its variance. Also the mean s^2 and the acceptance.
fn invariance(energies: Energies, seed: u64) -> (f64, f64, f64) {
    const ROUNDS: u64 = 20_000;
    let settings = Tempering { energies, ..Tempering::geometric(1.0, 0.25, 2) };
    let (_, mean, precision) = location();
    let mut replicas = settings
        .init(Solo, |rung, beta| {
            let (potential, ..) = location();
            let sgld = Sgld::new(Rate::eta(1e-3)).beta(InverseTemperature::fixed(beta));
            let stepper = Stepper::new(sgld, potential.target(), 0, rung)?;
            Chain::new(potential, stepper, vec![0.0], Sampling::Full, DATA)
        })
        .unwrap();
    let draws = Stream::new(seed, 0, Purpose::Custom(1));
    let mut sum = 0.0;
    for round in 0..ROUNDS {
        let mut z = [0.0f64; 2];
        draws.normals(round, 0, 0, &mut z);
        for ((chain, z), beta) in replicas.chains_mut().iter_mut().zip(z).zip(&settings.betas) {
            chain.theta_mut()[0] = mean + z / (beta * precision).sqrt();
        }
        replicas.swap(Ok(())).unwrap();
        replicas.swap(Ok(())).unwrap(); // the other pairs, of which there are none
        sum += (replicas.chains()[0].theta()[0] - mean).powi(2) * precision;
    }
    let rounds = ROUNDS as f64;
    let score = (sum / rounds - 1.0) / (2.0 / rounds).sqrt();
    (score, replicas.statistics().noise()[0], replicas.statistics().acceptance()[0])
}

/// A z-score above 5 has a chance of 6e-7.
#[test]
fn swaps_by_minibatch_energies_keep_the_law_with_the_penalty_and_only_with_it() {
    let (exact, none, _) = invariance(Energies::Full, 5);
    assert!(exact.abs() < 5.0 && none == 0.0, "{exact}");
    let (penalised, noise, acceptance) = invariance(Energies::minibatches(25, 8), 5);
    println!("{exact} {penalised} {noise} {acceptance}");
    assert!(penalised.abs() < 5.0, "{penalised}");
    assert!((0.5..1.5).contains(&noise), "{noise}");
    assert!(acceptance > 0.3, "{acceptance}");
    // Negative control.
    let correction = Correction::Off;
    let (plain, ..) = invariance(Energies::Minibatches { size: 25, batches: 8, correction }, 5);
    println!("{plain}");
    assert!(plain > 5.0, "{plain}");
}

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

/// Exact draws of a Gaussian at every rung: after the warm-up the pairs are alike.
#[test]
fn an_adapted_ladder_refuses_all_pairs_alike() {
    const COPIES: usize = 12;
    const ROUNDS: u64 = 400;
    let gaussian = Gaussian::diagonal(&[1.0; COPIES]).unwrap();
    let acceptance = |settings: &Tempering| {
        let mut replicas = settings
            .init(Solo, |rung, beta| {
                let sgld = Sgld::new(Rate::eta(0.1)).beta(InverseTemperature::fixed(beta));
                let stepper = Stepper::new(sgld, gaussian.target(), 0, rung)?;
                Chain::new(gaussian.clone(), stepper, vec![0.0f64; COPIES], Sampling::Full, 1)
            })
            .unwrap();
        for round in 0..ROUNDS {
            for (r, chain) in replicas.chains_mut().iter_mut().enumerate() {
                let stream = Stream::new(6, r as u32, Purpose::Custom(1));
                stream.normals(round, 0, 0, chain.theta_mut());
                let scale = settings.betas[r].sqrt().recip();
                chain.theta_mut().iter_mut().for_each(|x| *x *= scale);
            }
            replicas.swap(Ok(())).unwrap();
        }
        replicas.statistics().clone()
    };
    let spread = |statistics: &Statistics| {
        let all = statistics.acceptance();
        all.iter().fold(0.0, |m, a| f64::max(m, *a)) - all.iter().fold(1.0, |m, a| f64::min(m, *a))
    };
    let uneven = Tempering { betas: vec![1.0, 0.9, 0.8, 0.2, 0.1], ..Tempering::default() };
    let before = acceptance(&uneven);
    let once = uneven.adapted(&before);
    let even = once.adapted(&acceptance(&once));
    let after = acceptance(&even);
    println!("{:?} {:?} {:?}", before.acceptance(), even.betas, after.acceptance());
    assert!(spread(&before) > 0.5 && spread(&after) < 0.1, "{before:?} {after:?}");
    // Gaussians want equal ratios.
    for pair in even.betas.windows(2) {
        assert!((pair[1] / pair[0] / 0.1f64.powf(0.25)).ln().abs() < 0.15, "{:?}", even.betas);
    }
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
    let errors = Threads::run(3, |team| {
        let chain = |_, _| -> santa::Result<Chain<f64, Gaussian>> { unreachable!() };
        settings.init(team, chain).map(|_| ()).map_err(|error| error.to_string())
    });
    assert!(errors.iter().all(|error| error.as_ref().unwrap_err().contains("3 ranks")));
}

fn kinetic(algorithm: impl Fn(f64) -> santa::dynamics::Algorithm, every: u64, mode: u32, seed: u64) -> (f64, f64, f64) {
    const COPIES: usize = 64;
    let gaussian = Gaussian::diagonal(&[1.0; COPIES]).unwrap();
    let settings = Tempering { swap_every: every, seed, ..Tempering::geometric(1.0, 0.64, 3) };
    let mut replicas = settings
        .init(Solo, |rung, beta| {
            let stepper = Stepper::new(algorithm(beta), gaussian.target(), seed, rung)?;
            let mut theta = vec![0.0f64; COPIES];
            Stream::new(seed, rung, Purpose::Initialisation).normals(0, 0, 0, &mut theta);
            theta.iter_mut().for_each(|x| *x /= beta.sqrt());
            Chain::new(gaussian.clone(), stepper, theta, Sampling::Full, 1)
        })
        .unwrap();
    let (mut a, mut b, mut n) = (0.0, 0.0, 0.0);
    for round in 0..600 / every {
        if mode == 3 { replicas.advance(1).unwrap(); } else {
        for chain in replicas.chains_mut() { chain.advance(every).unwrap(); } }
        if mode == 1 || mode == 2 {
            let swapped = replicas.swap(Ok(())).unwrap();
            if mode == 2 {
                for p in swapped {
                    let (l, r) = replicas.chains_mut().split_at_mut(p + 1);
                    let x = l[p].stepper_mut().state_vector_mut("u").unwrap();
                    x.swap_with_slice(r[0].stepper_mut().state_vector_mut("u").unwrap());
                }
            }
        }
        let chain = &replicas.chains()[0];
        let eta = chain.stepper().physics(0).unwrap().unwrap().eta;
        if round >= 100 / every {
            a += chain.theta().iter().map(|x| x * x).sum::<f64>() / COPIES as f64;
            b += chain.stepper().state_vector("u").unwrap().iter().map(|x| x * x).sum::<f64>() / COPIES as f64 / eta;
            n += 1.0;
        }
    }
    (a / n, b / n, replicas.statistics().acceptance().first().copied().unwrap())
}

#[test]
fn scratch_kinetic() {
    for (name, which) in [("sghmc", 0), ("msgnht", 1), ("santa", 2)] {
        for (every, mode) in [(2, 0), (2, 1), (2, 2), (2,3), (20, 3)] {
            let (mut a, mut b) = (Moments::default(), Moments::default());
            let mut acc = 0.0;
            for seed in 0..24 {
                let r = kinetic(|beta| match which {
                    0 => Sghmc::new(StepSize::paper(0.04, 2.0)).beta(InverseTemperature::fixed(beta)).into(),
                    2 => santa::Santa { beta: InverseTemperature::fixed(beta), ..santa::Santa::sampler(StepSize::paper(0.04, 2.0), 80) }.into(),
                    _ => santa::dynamics::Msgnht { step: StepSize::paper(0.04, 2.0), beta: InverseTemperature::fixed(beta), ..Default::default() }.into(),
                }, every, mode, seed);
                a.push(r.0); b.push(r.1); acc = r.2;
            }
            println!("{name} every {every} mode {mode}: theta2 {:.4} +- {:.4}, u2 {:.4} +- {:.4}, acc {acc:.2}", a.mean(), a.standard_error(), b.mean(), b.standard_error());
        }
    }
}
