//! Parallel tempering against laws that are known.

use super::*;
use crate::team::Solo;
use santa::dynamics::{Santa, Sghmc, Sgld};
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::{Gaussian, Mixture};
use santa::potential::{FromData, from_data};
use santa::stats::Moments;
use santa::{
    Algorithm, Chain, DataSize, InverseTemperature, Layout, Potential, Prior, Rate, Sampling,
    StepSize, Stepper, Target,
};

const WEIGHTS: [f64; 2] = [0.3, 0.7];

/// Shares of the draws near the second mode, one for each of so many independent runs that begin at the
/// first.
fn shares_of_the_second_mode(betas: &[f64]) -> Moments {
    const RUNS: u64 = 24;
    const WARM_UP: u64 = 80;
    const ROUNDS: u64 = 300;
    // Barriers of 32 at beta = 1.
    let mixture = Mixture::new(1, &WEIGHTS, &[-4.0, 4.0], &[0.5]).unwrap();
    let share = |seed| {
        let settings =
            Tempering { betas: betas.to_vec(), swap_every: 5, seed, ..Tempering::default() };
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
fn invariance(energies: Energies) -> (f64, f64, f64) {
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
    let draws = Stream::new(5, 0, Purpose::Custom(1));
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
    let (exact, none, _) = invariance(Energies::Full);
    assert!(exact.abs() < 5.0 && none == 0.0, "{exact}");
    let (penalised, noise, acceptance) = invariance(Energies::minibatches(20, 16));
    assert!(penalised.abs() < 5.0, "{penalised}");
    assert!((0.4..1.0).contains(&noise), "{noise}");
    assert!(acceptance > 0.3, "{acceptance}");
    // Negative control.
    let correction = Correction::Off;
    let (plain, ..) = invariance(Energies::Minibatches { size: 20, batches: 16, correction });
    assert!(plain > 5.0, "{plain}");
}

/// How replicas go from round to round in [`second_moments`].
#[derive(Clone, Copy)]
enum Scheme {
    /// Steps alone.
    NoSwaps,
    Tempering,
    /// Parameters are exchanged as the last step left them.
    Unaligned,
    /// Momenta are exchanged too, as they are.
    WithMomenta,
}

/// The second moments of the parameters and of the momentum at the coldest rung, in units of
/// $1/\beta$ and $\eta/\beta$, of independent runs that swap at every other step.
fn second_moments(algorithm: &dyn Fn(f64) -> Algorithm, scheme: Scheme) -> [Moments; 2] {
    const RUNS: u64 = 24;
    const COPIES: usize = 64;
    const WARM_UP: u64 = 50;
    const ROUNDS: u64 = 250;
    let gaussian = Gaussian::diagonal(&[1.0; COPIES]).unwrap();
    let mean_square = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>() / COPIES as f64;
    let mut moments = [Moments::default(); 2];
    for seed in 0..RUNS {
        let settings = Tempering { swap_every: 2, seed, ..Tempering::geometric(1.0, 0.64, 3) };
        let mut replicas = settings
            .init(Solo, |rung, beta| {
                let stepper = Stepper::new(algorithm(beta), gaussian.target(), seed, rung)?;
                let mut theta = vec![0.0f64; COPIES];
                Stream::new(seed, rung, Purpose::Initialisation).normals(0, 0, 0, &mut theta);
                theta.iter_mut().for_each(|x| *x /= beta.sqrt());
                Chain::new(gaussian.clone(), stepper, theta, Sampling::Full, 1)
            })
            .unwrap();
        let mut sums = [0.0; 2];
        for round in 0..WARM_UP + ROUNDS {
            let mut swapped = Vec::new();
            if let Scheme::Tempering = scheme {
                replicas.advance(1).unwrap();
            } else {
                replicas.chains_mut().iter_mut().for_each(|chain| chain.advance(2).unwrap());
            }
            if let Scheme::Unaligned | Scheme::WithMomenta = scheme {
                swapped = replicas.swap(Ok(())).unwrap();
            }
            if let Scheme::WithMomenta = scheme {
                for pair in swapped {
                    let [colder, hotter] = &mut replicas.chains_mut()[pair..pair + 2] else {
                        continue;
                    };
                    let u = colder.stepper_mut().state_vector_mut("u").unwrap();
                    u.swap_with_slice(hotter.stepper_mut().state_vector_mut("u").unwrap());
                }
            }
            if round >= WARM_UP {
                let chain = &replicas.chains()[0];
                let eta = chain.stepper().physics(0).unwrap().unwrap().eta;
                sums[0] += mean_square(chain.theta()) / ROUNDS as f64;
                let u = chain.stepper().state_vector("u").unwrap();
                sums[1] += mean_square(u) / eta / ROUNDS as f64;
            }
        }
        moments.iter_mut().zip(sums).for_each(|(moments, sum)| moments.push(sum));
    }
    moments
}

/// Differences between independent runs; |t| > 5 with about 46 degrees of freedom has a chance of 9e-6.
#[test]
fn swaps_however_frequent_change_neither_parameters_nor_momenta() {
    let step = StepSize::paper(0.04, 2.0);
    let sghmc = |beta| Sghmc::new(step.clone()).beta(InverseTemperature::fixed(beta)).into();
    let santa = |beta| {
        let beta = InverseTemperature::fixed(beta);
        Santa { beta, ..Santa::sampler(step.clone(), 50) }.into()
    };
    let scores = |a: [Moments; 2], b: [Moments; 2]| {
        [0, 1].map(|i| {
            (a[i].mean() - b[i].mean()) / a[i].standard_error().hypot(b[i].standard_error())
        })
    };
    for algorithm in [&sghmc as &dyn Fn(f64) -> Algorithm, &santa] {
        let plain = second_moments(algorithm, Scheme::NoSwaps);
        let tempered = scores(second_moments(algorithm, Scheme::Tempering), plain);
        assert!(tempered.iter().all(|score| score.abs() < 5.0), "{tempered:?}");
        // Negative controls.
        let unaligned = scores(second_moments(algorithm, Scheme::Unaligned), plain);
        assert!(unaligned[0] < -5.0, "{unaligned:?}");
        let mixed = scores(second_moments(algorithm, Scheme::WithMomenta), plain);
        assert!(mixed[1] > 5.0, "{mixed:?}");
    }
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
    assert!(spread(&before) > 0.5 && spread(&after) < 0.1, "{before:?} {after:?}");
    // Gaussians want equal ratios.
    for pair in even.betas.windows(2) {
        assert!((pair[1] / pair[0] / 0.1f64.powf(0.25)).ln().abs() < 0.15, "{:?}", even.betas);
    }
}
