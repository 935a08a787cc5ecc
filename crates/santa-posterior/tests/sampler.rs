//! The whole way, from a start to draws: on posteriors that are known exactly.

use santa::dynamics::{Metric as SantaMetric, Sghmc};
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::{Gaussian, LinearRegression, LogisticRegression};
use santa::potential::{ControlVariate, from_fn};
use santa::{Chain, Sampling, Santa, Schedule, StepSize, Thermometer};
use santa_posterior::sampler::{Cycles, Member, Metric, Parameters, Quiet, Sampler, Stage, Watch};
use santa_posterior::store::Format;
use santa_posterior::{Draws, Store};
use std::sync::atomic::{AtomicU64, Ordering};

/// Mean and standard deviation of a quantity, over all chains.
fn moments(draws: &Draws, quantity: usize) -> (f64, f64) {
    let all: Vec<f64> = draws.quantity(quantity).concat();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let square = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64;
    (mean, square.sqrt())
}

const DIM: usize = 4;

fn linear() -> LinearRegression {
    let stream = Stream::new(7, 0, Purpose::Data);
    LinearRegression::synthetic(1_000, DIM, 1.0, 1.0, &stream).unwrap().0
}

fn members(
    sampler: &Sampler,
    model: &LinearRegression,
) -> Vec<Member<f64, LinearRegression, Parameters>> {
    sampler.members(|chain| {
        let start = vec![f64::from(chain) - 1.5; DIM];
        Member::new(model.clone(), Parameters::of(model.target()), start)
    })
}

#[test]
fn an_exact_posterior_is_found_from_afar_with_and_without_minibatches() {
    let model = linear();
    let (mean, covariance) = model.posterior().unwrap();
    for (batch_size, metric) in
        [(1_000, Metric::Dense), (1_000, Metric::Diagonal), (100, Metric::Auto)]
    {
        let sampler = Sampler { batch_size, metric, ..Sampler::seeded(3) };
        let posterior = sampler.run(members(&sampler, &model)).unwrap();
        let temperature = posterior.configurational_temperature();
        assert!(!temperature.is_off(0.05), "{temperature:?} {:?}", posterior.tuning.figures);
        for i in 0..DIM {
            let (m, sd) = moments(&posterior.draws, i);
            let exact = covariance[i * DIM + i].sqrt();
            // 4,000 draws, of which a quarter and more count: 0.03 is one standard error at most.
            assert!((m - mean[i]).abs() < 0.15 * exact, "{batch_size} {metric:?} {i}: {m}");
            assert!((sd / exact - 1.0).abs() < 0.1, "{batch_size} {metric:?} {i}: {sd} {exact}");
        }
    }
}

/// The negative control of the test above: at half the temperature every standard deviation is 29 %
/// too small, and the temperature itself is off.
#[test]
fn another_temperature_would_be_noticed() {
    let model = linear();
    let (_, covariance) = model.posterior().unwrap();
    let sampler = Sampler { batch_size: 100, beta: 2.0, ..Sampler::seeded(3) };
    let mut posterior = sampler.run(members(&sampler, &model)).unwrap();
    for i in 0..DIM {
        let (_, sd) = moments(&posterior.draws, i);
        assert!((sd / covariance[i * DIM + i].sqrt() - 1.0).abs() > 0.1, "{i}: {sd}");
    }
    assert!(!posterior.configurational_temperature().is_off(0.05));
    posterior.beta = 1.0;
    assert!(posterior.configurational_temperature().is_off(0.05));
}

/// On a Gaussian with exact gradients a thermostat that reads the momentum leaves the parameters too
/// hot, by cosh(C h/2); the sampler's reads the velocity between the ends of steps, and does not.
#[test]
fn the_parameters_have_the_temperature_that_is_asked_for_at_a_large_step() {
    const STEP: f64 = 1.0;
    const PARAMETERS: usize = 30;
    let round = || Gaussian::diagonal(&[1.0; PARAMETERS]).unwrap();
    let sampler = Sampler {
        draws: 4_000,
        largest_step: STEP,
        metric: Metric::Identity,
        ..Sampler::seeded(8)
    };
    let members = sampler
        .members(|_| Member::new(round(), Parameters::of(round().target()), vec![0.5; PARAMETERS]));
    let right = sampler.run(members).unwrap();
    // The frequency of every direction is 1, and is measured.
    assert!((right.tuning.figures.step / STEP - 1.0).abs() < 1e-6);
    let temperature = right.configurational_temperature();
    assert!((temperature.mean - 1.0).abs() < 0.03, "{temperature:?}");

    let santa = Santa {
        metric: SantaMetric::Identity,
        ..Santa::sampler(StepSize::paper(STEP * STEP, 1.0), 0)
    };
    let stepper = santa.init(round().target(), 8).unwrap();
    let mut chain = Chain::new(round(), stepper, vec![0.5; PARAMETERS], Sampling::Full, 1).unwrap();
    let mut thermometer = Thermometer::new(round().target(), &[0.0; PARAMETERS]).unwrap();
    chain.advance(1_000).unwrap();
    chain.advance_measuring(20_000, 1, &mut thermometer).unwrap();
    let hot = thermometer.temperature().temperature;
    assert!((hot / (STEP / 2.0).cosh() - 1.0).abs() < 0.03, "{hot}");
}

#[test]
fn scales_that_differ_by_a_million_are_found() {
    let sds = [1e-3, 1.0, 1e3];
    let gaussian = move || {
        from_fn(3, move |theta: &[f64], g: &mut [f64]| {
            for i in 0..3 {
                g[i] = (theta[i] - sds[i]) / (sds[i] * sds[i]);
            }
            (0..3).map(|i| 0.5 * (theta[i] - sds[i]) * g[i]).sum()
        })
        .unwrap()
    };
    let sampler = Sampler { metric: Metric::Diagonal, ..Sampler::seeded(5) };
    let names = || Parameters::named(["small", "middle", "large"]);
    let posterior =
        sampler.run(sampler.members(|_| Member::new(gaussian(), names(), vec![0.0; 3]))).unwrap();
    for (i, sd) in sds.iter().enumerate() {
        let (m, found) = moments(&posterior.draws, i);
        assert!((m / sd - 1.0).abs() < 0.15, "{i}: {m}");
        assert!((found / sd - 1.0).abs() < 0.1, "{i}: {found}");
    }
}

#[test]
fn a_control_variate_allows_the_longest_step() {
    let stream = Stream::new(9, 0, Purpose::Data);
    let (model, _) = LogisticRegression::synthetic(5_000, DIM, 1.0, &stream).unwrap();
    let sampler = Sampler { draws: 200, warm_up: 100, ..Sampler::seeded(1) };
    let plain = sampler
        .run(sampler.members(|_| {
            Member::new(model.clone(), Parameters::of(model.target()), vec![0.0; DIM])
        }))
        .unwrap();
    let quiet = sampler
        .run(sampler.members(|_| {
            let quiet = ControlVariate::new(model.clone(), 500).unwrap();
            Member::new(quiet, Parameters::of(model.target()), vec![0.0; DIM])
        }))
        .unwrap();
    let (plain, quiet) = (plain.tuning.figures, quiet.tuning.figures);
    assert_eq!(quiet.step, sampler.largest_step, "{quiet:?}");
    assert!(plain.step < 0.2 * quiet.step && plain.thin > 5 * quiet.thin, "{plain:?}");
}

/// Asks to stop after so many draws of any chain.
struct After(AtomicU64);

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
fn an_interrupted_run_goes_on_to_the_same_draws_whatever_the_threads() {
    let model = linear();
    let sampler = Sampler { draws: 700, warm_up: 40, ..Sampler::seeded(11) };
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let whole = one.install(|| sampler.run(members(&sampler, &model))).unwrap();

    for format in [Format::Parquet, Format::Safetensors] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), format);
        for stop_after in [1_000, 300] {
            let watch = After(AtomicU64::new(stop_after));
            let part = sampler.run_watched(members(&sampler, &model), Some(&store), &watch);
            assert!(!part.unwrap().complete);
        }
        let three = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let quiet = santa_posterior::sampler::Quiet;
        let resumed = three
            .install(|| sampler.run_watched(members(&sampler, &model), Some(&store), &quiet))
            .unwrap();
        assert!(resumed.complete);
        assert_eq!(resumed.draws, whole.draws);
        assert_eq!(resumed.statistics, whole.statistics);
        // And more of them, later.
        let longer = Sampler { draws: 800, ..sampler.clone() };
        let more = longer.run_watched(members(&longer, &model), Some(&store), &quiet).unwrap();
        assert_eq!(more.draws.len(), 800);
        assert_eq!(more.draws.draw(2, 699), whole.draws.draw(2, 699));
    }
}

#[test]
fn a_crash_between_a_part_and_its_checkpoint_costs_nothing() {
    let model = linear();
    let sampler = Sampler { chains: 2, draws: 300, warm_up: 40, ..Sampler::seeded(4) };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path(), Format::Parquet);
    let run =
        |watch: &dyn Watch| sampler.run_watched(members(&sampler, &model), Some(&store), watch);
    assert!(!run(&After(AtomicU64::new(200))).unwrap().complete);
    let checkpoint = folder.path().join("chain-1/checkpoint.safetensors");
    let early = std::fs::read(&checkpoint).unwrap();
    let whole = run(&Quiet).unwrap();

    // Parts are there that the checkpoint has not counted, and the next sitting ends elsewhere.
    std::fs::write(&checkpoint, early).unwrap();
    assert!(!run(&After(AtomicU64::new(20))).unwrap().complete);
    let again = run(&Quiet).unwrap();
    assert_eq!(again.draws, whole.draws);
    assert_eq!(again.statistics, whole.statistics);
}

#[test]
fn a_cyclical_schedule_gives_one_set_of_draws_per_cycle() {
    const PERIOD: u64 = 50;
    let model = linear();
    let eta = Schedule::cyclical(1e-3, 1e-5, PERIOD);
    let sampler = Sampler {
        chains: 2,
        draws: 12,
        warm_up: 2 * PERIOD,
        thin: Some(3),
        cycles: Some(Cycles { period: PERIOD, draws: 4 }),
        dynamics: Some(Sghmc::new(StepSize::paper(eta, 3.0)).into()),
        ..Sampler::seeded(2)
    };
    let posterior = sampler.run(members(&sampler, &model)).unwrap();
    let (first, last) = (posterior.cycle(0).unwrap(), posterior.cycle(2).unwrap());
    assert_eq!((first.len(), last.len(), posterior.cycle(3).unwrap().len()), (4, 4, 0));
    assert_eq!(last.draw(1, 3), posterior.draws.draw(1, 11));
    let refused = Sampler { cycles: Some(Cycles { period: 6, draws: 4 }), ..sampler };
    let message = refused.run(members(&refused, &model)).unwrap_err().to_string();
    assert!(message.contains("cycle of 6"), "{message}");
}

#[test]
fn impossible_settings_are_named() {
    let model = linear();
    let refused = |sampler: Sampler| {
        let members = members(&sampler, &model);
        sampler.run(members).unwrap_err().to_string()
    };
    let base = || Sampler::seeded(1);
    assert!(refused(Sampler { chains: 0, ..base() }).contains("`chains`"));
    assert!(refused(Sampler { warm_up: 3, ..base() }).contains("`warm_up`"));
    assert!(refused(Sampler { largest_step: 2.0, ..base() }).contains("`largest_step`"));
    assert!(refused(Sampler { beta: f64::NAN, ..base() }).contains("`beta`"));
    assert!(refused(Sampler { batch_size: 0, ..base() }).contains("`batch_size`"));
    assert!(refused(Sampler { thin: Some(0), ..base() }).contains("`thin`"));
}
