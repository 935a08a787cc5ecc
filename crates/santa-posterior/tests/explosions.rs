//! Chains that run away are brought back by a smaller step, or refused in words; never handed over.

use santa::noise::{Purpose, Stream};
use santa::potential::analytic::{LinearRegression, Rosenbrock};
use santa::{Batch, Potential, Result as SantaResult, Target};
use santa_posterior::Error;
use santa_posterior::sampler::{Member, Metric, Parameters, Posterior, Sampler, Stage, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The chains of `santa sample`, which start far apart.
fn run<P: Potential<f64> + Clone + Send>(
    sampler: &Sampler,
    potential: &P,
    watch: &dyn Watch,
) -> Result<Posterior<f64, Parameters>, Error> {
    const SPREAD: f64 = 5.0;
    let members = sampler.members(|chain| {
        let mut start = vec![0.0; potential.target().dim()];
        Stream::new(sampler.seed, chain, Purpose::Initialisation).normals(0, 0, 0, &mut start);
        start.iter_mut().for_each(|x| *x *= SPREAD);
        Member::new(potential.clone(), Parameters::of(potential.target()), start)
    });
    sampler.run_watched(members, None, watch)
}

fn run_quietly<P: Potential<f64> + Clone + Send>(
    sampler: &Sampler,
    potential: &P,
) -> Result<Posterior<f64, Parameters>, Error> {
    run(sampler, potential, &santa_posterior::sampler::Quiet)
}

/// Draws are near the mass, or their temperature is off, or there are none; true of the first.
fn is_sound(outcome: &Result<Posterior<f64, Parameters>, Error>, largest: f64) -> bool {
    match outcome {
        Err(Error::Diverged(text)) => {
            assert!(text.contains("use") && text.contains("step"), "{text}");
            false
        }
        Err(other) => panic!("{other}"),
        Ok(posterior) => {
            let temperature = posterior.configurational_temperature();
            let draws = &posterior.draws;
            let far = (0..draws.dim()).any(|i| {
                draws.quantity(i).concat().iter().any(|x| !(x.is_finite() && x.abs() < largest))
            });
            let off = temperature.is_off(0.05);
            assert!(off || !far, "{temperature:?} {:?}", posterior.tuning.figures);
            assert!(off || !temperature.is_unknown());
            !off
        }
    }
}

/// The walls of the valley become steeper without end: whatever the step, there is a place where it is
/// too long. The first coordinate is N(1, 5), the second its square give or take 0.2, so that one in
/// 10^8 draws has a coordinate above 200.
#[test]
fn a_curved_valley_is_sampled_or_refused_but_not_left() {
    const LARGEST: f64 = 200.0;
    let valley = Rosenbrock::new(2, 10.0).unwrap();
    let sound = (1..=7)
        .filter(|seed| is_sound(&run_quietly(&Sampler::seeded(*seed), &valley), LARGEST))
        .count();
    assert!(sound >= 5, "{sound}");
}

/// A warm-up as short as can be, with more noise than its first step can bear.
#[test]
fn batches_of_one_do_not_end_hundreds_of_times_too_hot() {
    let stream = Stream::new(7, 0, Purpose::Data);
    let (model, _) = LinearRegression::synthetic(1_000, 4, 1.0, 1.0, &stream).unwrap();
    for seed in 1..=4 {
        let sampler = Sampler {
            batch_size: 1,
            metric: Metric::Diagonal,
            warm_up: 20,
            draws: 100,
            ..Sampler::seeded(seed)
        };
        let outcome = run_quietly(&sampler, &model);
        println!(
            "{:?}",
            outcome.as_ref().map(|p| (p.configurational_temperature(), p.tuning.figures))
        );
        is_sound(&outcome, 100.0);
    }
}

/// A normal law that becomes a hundred times narrower when the switch is on, which no step for the
/// wide one can follow.
#[derive(Clone)]
struct Narrowing {
    target: Target,
    on: Arc<AtomicBool>,
}

impl Potential<f64> for Narrowing {
    fn target(&self) -> &Target {
        &self.target
    }
    fn loss_gradient(&mut self, theta: &[f64], _: &Batch<'_>, g: &mut [f64]) -> SantaResult<f64> {
        const NARROW: f64 = 1e4;
        let stiffness = if self.on.load(Ordering::Relaxed) { NARROW } else { 1.0 };
        g.iter_mut().zip(theta).for_each(|(g, x)| *g = stiffness * x);
        Ok(0.5 * stiffness * theta.iter().map(|x| x * x).sum::<f64>())
    }
}

/// Turns the switch on in the middle of the drawing.
struct Midway(Arc<AtomicBool>);

impl Watch for Midway {
    fn progress(&self, _: u32, stage: Stage, done: u64, total: u64) {
        if stage == Stage::Drawing && 2 * done >= total {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_chain_that_runs_away_while_it_draws_is_an_error() {
    let on = Arc::new(AtomicBool::new(false));
    let target = Target::density(3).unwrap();
    let potential = Narrowing { target, on: Arc::clone(&on) };
    let sampler = Sampler { chains: 2, draws: 200, warm_up: 100, ..Sampler::seeded(3) };
    // The same without the switch is as it should be.
    let sound = run_quietly(&sampler, &potential).unwrap();
    assert!(!sound.configurational_temperature().is_off(0.05));
    let error = run(&sampler, &potential, &Midway(on)).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Diverged(_)), "{text}");
    assert!(text.contains("draws (") && text.contains("smaller step"), "{text}");
}

#[test]
fn a_law_for_which_no_step_is_small_enough_is_refused_with_what_to_try() {
    let on = Arc::new(AtomicBool::new(false));
    let target = Target::density(2).unwrap();
    /// Falls for ever in the first coordinate.
    #[derive(Clone)]
    struct Falling(Narrowing);
    impl Potential<f64> for Falling {
        fn target(&self) -> &Target {
            &self.0.target
        }
        fn loss_gradient(&mut self, x: &[f64], b: &Batch<'_>, g: &mut [f64]) -> SantaResult<f64> {
            let u = self.0.loss_gradient(x, b, g)?;
            g[0] = -x[0].powi(3);
            Ok(u - 0.5 * x[0] * x[0] - 0.25 * x[0].powi(4))
        }
    }
    let potential = Falling(Narrowing { target, on });
    let sampler = Sampler { warm_up: 20, descent: 0, thin: Some(5), ..Sampler::seeded(1) };
    let error = run_quietly(&sampler, &potential).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Diverged(_)), "{text}");
    assert!(text.contains("no step that works") && text.contains("leave free"), "{text}");
}
