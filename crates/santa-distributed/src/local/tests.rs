use super::law::{Affine, Law, Noise, Quadratic};
use super::*;
use crate::shared::{Shared, Summing};
use crate::team::Solo;
use crate::threads::Threads;
use santa::dynamics::{Adam, Metric, Msgnht, Sgd, Sghmc, Sgld, Sgnht, ThermostatMass};
use santa::noise::{Purpose, Stream};
use santa::potential::ControlVariate;
use santa::potential::analytic::LinearRegression;
use santa::potential::from_fn;
use santa::stats::Moments;
use santa::{Algorithm, Batch, Rate, Sampling, Santa, StepSize, Stepper};

const N: usize = 120;
const DIM: usize = 3;

fn model() -> LinearRegression {
    let stream = Stream::new(7, 0, Purpose::Data);
    LinearRegression::synthetic(N, DIM, 1.0, 1.0, &stream).unwrap().0
}

fn chain<P: Potential<f64>>(potential: P, algorithm: &Algorithm, batch: usize) -> Chain<f64, P> {
    let stepper = Stepper::new(algorithm.clone(), potential.target(), 5, 0).unwrap();
    Chain::new(potential, stepper, vec![0.1; DIM], Sampling::ShuffledEpochs, batch).unwrap()
}

/// The end of a walk by local steps, the same for all members.
fn local(algorithm: &Algorithm, size: usize, every: u64, steps: u64) -> Vec<f64> {
    let mut ends = Threads::run(size, |team| {
        let own = Own::new(model(), &team, Division::Batches);
        let mut local = LocalSteps::new(chain(own, algorithm, 30), team, every).unwrap();
        local.advance(steps).unwrap();
        let chain = local.chain();
        let state = chain.stepper().state().flat_map(|(_, v)| v.to_vec());
        let all: Vec<f64> = chain.theta().iter().copied().chain(state).collect();
        (all, chain.stepper().carried(), local.last_loss())
    });
    assert!(ends.iter().all(|end| *end == ends[0]), "{algorithm:?}");
    ends.swap_remove(0).0
}

/// The end of the synchronous walk.
fn together(algorithm: &Algorithm, size: usize, steps: u64) -> Vec<f64> {
    Threads::run(size, |team| {
        let shared = Shared::new(model(), team, Summing::Once).unwrap();
        let mut chain = chain(shared, algorithm, 30);
        chain.advance(steps).unwrap();
        chain.theta().to_vec()
    })
    .swap_remove(0)
}

fn furthest(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn santa(mass: ThermostatMass) -> Santa {
    let step = StepSize::heavy_ball(0.02, 0.8);
    Santa { metric: Metric::Identity, thermostat_mass: mass, ..Santa::sampler(step, 1) }
}

/// Of a thermostat that does nothing.
const STILL: ThermostatMass = ThermostatMass::Mass(1e12);

#[test]
fn all_members_have_the_same_bits_after_each_averaging() {
    let step = StepSize::heavy_ball(0.02, 0.8);
    let all: [Algorithm; 6] = [
        Sgld::new(Rate::lr(0.1)).into(),
        Sghmc::new(step.clone()).into(),
        Sgnht::new(step.clone()).into(),
        Msgnht::new(step.clone()).into(),
        Santa::new(1e-2, 40).into(),
        Adam::default().into(),
    ];
    for algorithm in all {
        // The last round is shorter than the others.
        local(&algorithm, 3, 4, 18);
    }
}

#[test]
fn one_member_is_the_chain_itself() {
    let algorithm: Algorithm = Santa::new(1e-2, 40).into();
    let mut alone = chain(model(), &algorithm, 30);
    alone.advance(40).unwrap();
    for every in [1, 7] {
        let end = local(&algorithm, 1, every, 40);
        assert_eq!(&end[..DIM], alone.theta());
    }
}

/// Four members divide a batch of 30 into unequal parts.
#[test]
fn averaging_at_every_step_is_the_synchronous_walk_if_steps_are_affine() {
    const ROUNDING: f64 = 1e-12;
    let step = StepSize::heavy_ball(0.02, 0.8);
    let affine: [Algorithm; 6] = [
        Sgld::new(Rate::lr(0.1)).into(),
        Sghmc::new(step.clone()).into(),
        Sgd { momentum: 0.9, ..Sgd::new(0.05) }.into(),
        santa(STILL).into(),
        // Thermostats read the averages, as they do in the synchronous walk.
        santa(ThermostatMass::Spread(0.1)).into(),
        Sgnht::new(step).into(),
    ];
    for algorithm in affine {
        let synchronous = together(&algorithm, 4, 50);
        let end = local(&algorithm, 4, 1, 50);
        assert!(furthest(&end[..DIM], &synchronous) < ROUNDING, "{algorithm:?}");
        // Negative control: every second step is another walk.
        let end = local(&algorithm, 4, 2, 50);
        assert!(furthest(&end[..DIM], &synchronous) > 1e3 * ROUNDING, "{algorithm:?}");
    }
    // So is one with a metric that moves.
    let algorithm = Santa::sampler(StepSize::practical(1e-3, 0.8), 100).into();
    let apart = furthest(&local(&algorithm, 4, 1, 50)[..DIM], &together(&algorithm, 4, 50));
    assert!(apart > 1e3 * ROUNDING, "{apart}");
}

/// The potentials of the members of a team, each with its part of the data, which differ: the features
/// of the first are the longest.
fn parts(size: usize) -> Vec<Quadratic> {
    let uneven = {
        let model = model();
        let scale = |i: usize| 1.5 - i as f64 / N as f64;
        let features: Vec<f64> =
            (0..N).flat_map(|i| model.features(i).iter().map(move |x| scale(i) * x)).collect();
        LinearRegression::new(features, model.responses().to_vec(), 1.0, 1.0).unwrap()
    };
    Threads::run(size, |team| {
        Quadratic::of(&mut Own::new(uneven.clone(), &team, Division::Data)).unwrap()
    })
}

#[test]
fn the_parts_of_a_quadratic_potential_add_up() {
    let mut regression = model();
    let whole = Quadratic::of(&mut regression).unwrap();
    let law = Law::left_by(&Affine::sgld(&whole, 1e-6, 1.0)).unwrap();
    let (mean, covariance) = regression.posterior().unwrap();
    for i in 0..DIM {
        assert!((law.mean[i] - mean[i]).abs() < 1e-9);
        // SGLD's own error is of the first order in eta.
        assert!((law.variance(i) / covariance[i * (DIM + 1)] - 1.0).abs() < 1e-3);
    }
    let at = |q: &Quadratic| q.curvature.clone();
    let halves = Threads::run(2, |team| {
        Quadratic::of(&mut Own::new(regression.clone(), &team, Division::Data)).unwrap()
    });
    for (i, a) in at(&whole).iter().enumerate() {
        let mean = 0.5 * (halves[0].curvature[i] + halves[1].curvature[i]);
        assert!((a - mean).abs() < 1e-9);
    }
}

/// The mean moves as the documentation of the module says, to the first order.
#[test]
fn the_bias_of_the_mean_is_of_first_order_in_the_steps_between_averagings() {
    const K: usize = 4;
    let members = parts(K);
    let mean_of = |of: &dyn Fn(&Quadratic) -> Vec<f64>| -> Vec<f64> {
        let all: Vec<Vec<f64>> = members.iter().map(of).collect();
        (0..all[0].len()).map(|i| all.iter().map(|v| v[i]).sum::<f64>() / K as f64).collect()
    };
    let whole = Quadratic {
        curvature: mean_of(&|q| q.curvature.clone()),
        pull: mean_of(&|q| q.pull.clone()),
    };
    let bias = |eta: f64, every: u64| {
        let steps: Vec<_> = members.iter().map(|q| Affine::sgld(q, eta, 1.0)).collect();
        let law = Law::of_averages(&steps, every, Noise::Shared).unwrap();
        let exact = Law::left_by(&Affine::sgld(&whole, eta, 1.0)).unwrap();
        (0..DIM).map(|i| law.mean[i] - exact.mean[i]).collect::<Vec<_>>()
    };
    let exact = Law::left_by(&Affine::sgld(&whole, 1e-4, 1.0)).unwrap().mean;
    let times = |a: &[f64], x: &[f64]| -> Vec<f64> {
        (0..DIM).map(|i| (0..DIM).map(|j| a[i * DIM + j] * x[j]).sum()).collect()
    };
    let drift = mean_of(&|q| {
        let slope: Vec<f64> =
            times(&q.curvature, &exact).iter().zip(&q.pull).map(|(a, b)| a - b).collect();
        times(&q.curvature, &slope)
    });
    let (eta, every) = (1e-6, 9u64);
    let predicted: Vec<f64> = drift.iter().map(|d| 0.5 * eta * (every - 1) as f64 * d).collect();
    let found = times(&whole.curvature, &bias(eta, every));
    for (found, predicted) in found.iter().zip(&predicted) {
        assert!((found / predicted - 1.0).abs() < 0.01, "{found} {predicted}");
    }
    assert!(bias(eta, 1).iter().all(|b| b.abs() < 1e-12));
}

/// Many independent copies of the parameters in one vector, all with one member's quadratic potential.
fn copies(q: &Quadratic, copies: usize) -> impl Potential<f64> + use<> {
    let q = q.clone();
    from_fn(copies * DIM, move |theta: &[f64], gradient: &mut [f64]| {
        for (x, slope) in theta.chunks_exact(DIM).zip(gradient.chunks_exact_mut(DIM)) {
            for i in 0..DIM {
                let row = &q.curvature[i * DIM..(i + 1) * DIM];
                slope[i] = row.iter().zip(x).map(|(a, x)| a * x).sum::<f64>() - q.pull[i];
            }
        }
        0.0
    })
    .unwrap()
}

/// The largest z-score of means, variances and one covariance of theta against a law.
fn score(theta: &[f64], law: &Law) -> f64 {
    let n = (theta.len() / DIM) as f64;
    let of = |i: usize| theta.iter().skip(i).step_by(DIM).copied();
    let mut worst = 0.0f64;
    for i in 0..DIM {
        let moments: Moments = of(i).collect();
        let variance = law.variance(i);
        worst = worst.max((moments.mean() - law.mean[i]).abs() / (variance / n).sqrt());
        let spread = variance * (2.0 / n).sqrt();
        worst = worst.max((moments.variance() - variance).abs() / spread);
    }
    let covariance = law.covariance[1];
    let found: Moments =
        of(0).zip(of(1)).map(|(x, y)| (x - law.mean[0]) * (y - law.mean[1])).collect();
    let spread = ((law.variance(0) * law.variance(1) + covariance * covariance) / n).sqrt();
    worst.max((found.mean() - covariance).abs() / spread)
}

/// Seven numbers a case are within 5 standard errors, which good ones fail once in 250,000 cases. The
/// laws are far enough apart for the wrong ones to be seen: noise of their own, and no local steps.
#[test]
fn averages_follow_the_exact_law() {
    const K: usize = 4;
    const COPIES: usize = 5_000;
    const EVERY: u64 = 8;
    /// The start is forgotten, to one part in a million.
    const ROUNDS: u64 = 20;
    const LIMIT: f64 = 5.0;
    let members = parts(K);
    // In the units of the largest precision, which is about N.
    let eta = 0.1 / N as f64;
    let (c, alpha) = (0.5 / eta.sqrt(), 0.5);
    let step = StepSize::paper(eta, c);
    type Make = fn(&Quadratic, f64, f64) -> Affine;
    let cases: [(Algorithm, Make); 3] = [
        (Sgld::new(Rate::eta(eta)).into(), |q, eta, _| Affine::sgld(q, eta, 1.0)),
        (Sghmc::new(step.clone()).into(), |q, eta, alpha| Affine::sghmc(q, eta, alpha, 1.0)),
        (
            Santa { metric: Metric::Identity, thermostat_mass: STILL, ..Santa::sampler(step, 1) }
                .into(),
            |q, eta, alpha| Affine::santa(q, eta, alpha, 1.0),
        ),
    ];
    for (algorithm, make) in cases {
        let steps: Vec<Affine> = members.iter().map(|q| make(q, eta, alpha)).collect();
        let law = |every, noise| {
            let law = Law::of_averages(&steps, every, noise).unwrap();
            let dim = law.mean.len();
            let corner = |i: usize| law.covariance[i * dim..i * dim + DIM].to_vec();
            Law { mean: law.mean[..DIM].to_vec(), covariance: (0..DIM).flat_map(corner).collect() }
        };
        let theta = Threads::run(K, |team| {
            let potential = copies(&members[team.rank()], COPIES);
            let stepper = Stepper::new(algorithm.clone(), potential.target(), 11, 0).unwrap();
            let start = vec![0.0; COPIES * DIM];
            let chain = Chain::new(potential, stepper, start, Sampling::Full, 1).unwrap();
            let mut local = LocalSteps::new(chain, team, EVERY).unwrap();
            local.advance(ROUNDS * EVERY).unwrap();
            local.chain().theta().to_vec()
        })
        .swap_remove(0);
        let name = algorithm.name();
        let right = score(&theta, &law(EVERY, Noise::Shared));
        assert!(right < LIMIT, "{name}: {right}");
        for wrong in [law(EVERY, Noise::Independent), law(1, Noise::Shared)] {
            assert!(score(&theta, &wrong) > 2.0 * LIMIT, "{name}: {}", score(&theta, &wrong));
        }
    }
}

/// Where all members have all data, the right noise leaves no trace of the averaging, and noise of their
/// own divides the variance by K.
#[test]
fn members_that_agree_need_the_same_noise() {
    let step = Affine::sgld(&Quadratic::of(&mut model()).unwrap(), 1e-3, 1.0);
    let alone = Law::left_by(&step).unwrap();
    let team = vec![step; 4];
    for every in [1, 5, 64] {
        let shared = Law::of_averages(&team, every, Noise::Shared).unwrap();
        let independent = Law::of_averages(&team, every, Noise::Independent).unwrap();
        for i in 0..DIM {
            assert!((shared.variance(i) / alone.variance(i) - 1.0).abs() < 1e-9);
            assert!((independent.variance(i) / alone.variance(i) - 0.25).abs() < 1e-9);
        }
    }
    let wild = Affine::sgld(&Quadratic::of(&mut model()).unwrap(), 1.0, 1.0);
    assert!(Law::left_by(&wild).unwrap_err().to_string().contains("lower it"));
}

#[test]
fn what_members_do_not_share_is_refused_by_all_with_the_rank() {
    let start = |seed: u64, theta: f64, lr: f64, team: Threads| {
        let stepper = Sgld::new(Rate::lr(lr)).init(model().target(), seed).unwrap();
        let theta = vec![theta; DIM];
        let chain = Chain::new(model(), stepper, theta, Sampling::Full, 1).unwrap();
        LocalSteps::new(chain, team, 2).map(|_| ())
    };
    type Start = fn(usize) -> (u64, f64, f64);
    let cases: [(&str, Start); 3] = [
        ("seed", |rank| (rank as u64 / 2, 0.0, 0.1)),
        ("start", |rank| (1, rank as f64, 0.1)),
        ("algorithm", |rank| (1, 0.0, 0.1 + rank as f64)),
    ];
    for (what, case) in cases {
        let outcomes = Threads::run(3, |team| {
            let (seed, theta, lr) = case(team.rank());
            start(seed, theta, lr, team)
        });
        for outcome in outcomes {
            let message = outcome.unwrap_err().to_string();
            let rank = if what == "seed" { "rank 2" } else { "rank 1" };
            assert!(message.contains(what) && message.contains(rank), "{message}");
        }
    }
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let algorithm: Algorithm = Sgld::new(Rate::lr(0.1)).into();
    let refused = |chain, every| LocalSteps::new(chain, Solo, every).map(|_| ()).unwrap_err();
    assert!(refused(chain(model(), &algorithm, 30), 0).to_string().contains("every"));
    let stepper = Stepper::new(algorithm.clone(), model().target(), 5, 0).unwrap();
    let stepper = stepper.on_trouble(OnTrouble::Skip { at_most: 3 }).unwrap();
    let lenient = Chain::new(model(), stepper, vec![0.0; DIM], Sampling::Full, 1).unwrap();
    assert!(refused(lenient, 2).to_string().contains("on_trouble"));
    let mut anchored = chain(ControlVariate::new(model(), 10).unwrap(), &algorithm, 30);
    anchored.advance(1).unwrap();
    let outcome = LocalSteps::new(anchored, Solo, 2).map(|_| ());
    assert!(outcome.unwrap_err().to_string().contains("potential"));
}

/// A potential that fails at a step, for one member.
struct Failing(LinearRegression, Option<u64>);

impl Potential<f64> for Failing {
    fn target(&self) -> &santa::Target {
        self.0.target()
    }
    fn loss_gradient(
        &mut self,
        theta: &[f64],
        batch: &Batch<'_>,
        gradient: &mut [f64],
    ) -> santa::Result<f64> {
        let loss = self.0.loss_gradient(theta, batch, gradient)?;
        if Some(batch.step()) == self.1 {
            gradient[1] = f64::NAN;
        }
        Ok(loss)
    }
}

#[test]
fn the_trouble_of_one_member_stops_all() {
    let outcomes = Threads::run(3, |team| {
        let potential = Failing(model(), (team.rank() == 1).then_some(6));
        let chain = chain(potential, &Sgld::new(Rate::lr(0.1)).into(), 30);
        let mut local = LocalSteps::new(chain, team, 4).unwrap();
        local.advance(4).unwrap();
        local.advance(40)
    });
    for outcome in outcomes {
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains("rank 1") && message.contains("gradient"), "{message}");
    }
}

#[test]
fn a_request_to_stop_reaches_all() {
    let stopping = Threads::run(2, |team| {
        let chain = chain(model(), &Sgld::new(Rate::lr(0.1)).into(), 30);
        let asked: fn() -> bool = if team.rank() == 1 { || true } else { || false };
        let mut local = LocalSteps::new(chain, team, 4).unwrap().stopping_when(asked);
        let before = local.is_stopping();
        local.advance(4).unwrap();
        (before, local.is_stopping(), local.averagings())
    });
    assert_eq!(stopping, [(false, true, 1); 2]);
}

#[test]
fn a_checkpoint_of_one_member_resumes_all() {
    let algorithm: Algorithm = Santa::new(1e-2, 40).into();
    let start = |team| {
        let own = Own::new(model(), &team, Division::Batches);
        LocalSteps::new(chain(own, &algorithm, 30), team, 4).unwrap()
    };
    let whole = Threads::run(3, |team| {
        let mut local = start(team);
        local.advance(8).unwrap();
        let checkpoint = local.chain().checkpoint().unwrap();
        local.advance(12).unwrap();
        (local.chain().theta().to_vec(), checkpoint)
    });
    let resumed = Threads::run(3, |team| {
        let mut local = start(team);
        local.chain_mut().restore(&whole[2].1).unwrap();
        local.advance(12).unwrap();
        local.chain().theta().to_vec()
    });
    assert!(resumed.iter().all(|theta| *theta == whole[0].0));
}
