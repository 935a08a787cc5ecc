//! Whatever is handed over: no panic, and never a wrong answer without an error.
//!
//! A case builds dynamics from random settings, absurd ones among them, and makes a few steps with
//! random gradients. After every call it asks for what the call promised:
//!
//! | answer | what must hold |
//! | --- | --- |
//! | `Applied` | theta, state and carried number are finite |
//! | `Skipped` | nothing has changed, bit for bit |
//! | `RolledBack` | everything is as it was after the step named, and so is the count of steps |
//! | an error | nothing has changed, or every further step is refused |
//!
//! Ten million cases, and as many mutated checkpoints, are run by
//!
//! ```text
//! SANTA_CASES=10000000 cargo test --release -p santa-optim --test bad_input -- --ignored many
//! ```

mod common;
#[path = "common/dice.rs"]
mod dice;
/// The body of the fuzz target, so that both do the same.
#[path = "../../../fuzz/src/lib.rs"]
mod fuzzed;

use common::everything;
use dice::Dice;
use proptest::prelude::*;
use santa::dynamics::{Adagrad, Adam, Sgd, Sghmc, Sgld, Sgnht};
use santa::noise::MAX_STEPS;
use santa::{
    Algorithm, Checkpoint, Clip, Error, Group, Layout, OnTrouble, Rate, Real, Santa, StepOutcome,
    StepSize, Stepper, Target,
};

/// Steps of a case: more than the shortest schedules and explorations last.
const STEPS: u32 = 5;

fn all_finite<F: Real>(stepper: &Stepper<F>, theta: &[F]) -> bool {
    theta.iter().all(|x| x.is_finite())
        && stepper.state().all(|(_, vector)| vector.iter().all(|x| x.is_finite()))
        && stepper.carried().is_none_or(f64::is_finite)
}

/// Everything but the count of steps.
fn contents<F: Real>(stepper: &Stepper<F>, theta: &[F]) -> Vec<u64> {
    let mut all = everything(stepper, theta);
    all.pop();
    all
}

/// One case; returns whether a step was made.
fn settings_case<F: Real>(dice: &mut Dice<'_>) -> bool {
    let algorithm = dice.algorithm();
    // Asked of settings that nobody has checked.
    for t in [0, 1, 7, u64::MAX] {
        let _ = algorithm.physics(t, santa::DataSize::ONE, santa::units::LrScale::group(1.0));
        let _ = algorithm.stage(t);
    }
    let Ok(target) = dice.target() else { return false };
    let (seed, chain) = (u64::from(dice.word()), dice.below(2) << 24);
    let built = Stepper::<F>::new(algorithm, &target, seed, chain)
        .and_then(|s| s.with_clip(dice.clip()))
        .and_then(|s| s.on_trouble(dice.policy()));
    let Ok(mut stepper) = built else { return false };
    let mut theta: Vec<F> = (0..target.dim()).map(|_| dice.finite_element()).collect();
    assert!(all_finite(&stepper, &theta), "at the start: {:?}", stepper.algorithm());

    let mut moved = false;
    let mut history = vec![contents(&stepper, &theta)];
    for _ in 0..STEPS {
        let len = match dice.below(32) {
            31 => dice.below(4) as usize,
            _ => target.dim(),
        };
        let gradient: Vec<F> = (0..len).map(|_| dice.element()).collect();
        let before = everything(&stepper, &theta);
        let result = if dice.once_in(4) && len == target.dim() {
            step_in_segments(&mut stepper, &mut theta, &gradient)
        } else {
            stepper.step(&mut theta, &gradient)
        };
        let now = contents(&stepper, &theta);
        match result {
            Ok(StepOutcome::Applied) => {
                moved = true;
                assert!(all_finite(&stepper, &theta), "{:?}", stepper.algorithm());
                let frozen = |i: usize| {
                    let segments = target.layout().segments();
                    let segment = segments.iter().position(|s| s.range().contains(&i));
                    segment.is_some_and(|k| target.settings(k).frozen)
                };
                let seen = |i: usize| gradient[i].is_finite() || frozen(i);
                assert!((0..len).all(seen), "a gradient that is not finite went unnoticed");
                history.push(now);
            }
            Ok(StepOutcome::Skipped) => assert_eq!(everything(&stepper, &theta), before),
            Ok(StepOutcome::RolledBack { to }) => {
                assert_eq!(now, history[to as usize]);
                assert_eq!(stepper.steps(), to);
                history.truncate(to as usize + 1);
            }
            Err(error) => {
                let after = everything(&stepper, &theta);
                let next = stepper.step(&mut theta, &vec![F::ZERO; target.dim()]);
                if matches!(next, Err(Error::Poisoned { .. })) {
                    assert_eq!(everything(&stepper, &theta), after);
                    assert!(stepper.save(&theta, &mut Checkpoint::new()).is_err());
                } else {
                    assert_eq!(after, before, "{error}");
                }
                return moved;
            }
        }
    }
    if dice.once_in(8) {
        let mut checkpoint = Checkpoint::new();
        stepper.save(&theta, &mut checkpoint).unwrap();
        let bytes = checkpoint.to_bytes().unwrap();
        let checkpoint = Checkpoint::from_bytes(&bytes).unwrap();
        let (again, theta_again) = Stepper::<F>::from_checkpoint(&checkpoint).unwrap();
        assert_eq!(everything(&again, &theta_again), everything(&stepper, &theta));
    }
    moved
}

fn step_in_segments<F: Real>(
    stepper: &mut Stepper<F>,
    theta: &mut [F],
    gradient: &[F],
) -> santa::Result<StepOutcome> {
    let ranges: Vec<_> = stepper.target().layout().segments().iter().map(|s| s.range()).collect();
    let mut rest = theta;
    let mut list = Vec::new();
    for range in ranges {
        let (here, after) = rest.split_at_mut(range.len());
        list.push((here, &gradient[range]));
        rest = after;
    }
    stepper.step_segments(&mut list)
}

fn either_settings_case(dice: &mut Dice<'_>) -> bool {
    if dice.once_in(2) { settings_case::<f64>(dice) } else { settings_case::<f32>(dice) }
}

/// Valid checkpoints of every dynamics, of a few elements.
fn small_checkpoints() -> Vec<Vec<u8>> {
    let layout = Layout::new([("w", vec![2]), ("b", vec![])]).unwrap();
    let target = Target::new(layout, santa::DataSize::ONE, santa::Prior::Flat).unwrap();
    fn one<F: Real>(algorithm: Algorithm, target: &Target) -> Vec<u8> {
        let mut stepper = Stepper::<F>::new(algorithm, target, 1, 2).unwrap();
        let mut theta = common::start(target.dim());
        common::run(&mut stepper, &mut theta, 0, 2);
        let mut checkpoint = Checkpoint::new();
        stepper.save(&theta, &mut checkpoint).unwrap();
        checkpoint.to_bytes().unwrap()
    }
    let settings = common::every_dynamics().into_iter();
    settings.flat_map(|(_, a)| [one::<f32>(a.clone(), &target), one::<f64>(a, &target)]).collect()
}

/// Changes a few bytes: anywhere, digits of the header, its length, its pieces.
fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice<'_>) {
    const LENGTH_BYTES: usize = 8;
    for _ in 0..=dice.below(3) {
        if bytes.is_empty() {
            return;
        }
        let at = dice.below(bytes.len() as u32) as usize;
        match dice.below(8) {
            0 => bytes[at] = dice.word() as u8,
            1 => bytes[at] ^= 1 << dice.below(8),
            // The next digit from here on becomes another character of a number.
            2..=4 => {
                if let Some(k) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    bytes[at + k] = dice.pick(b"0123456789-.e9");
                }
            }
            5 => bytes.truncate(at),
            // A piece of another file in the same place.
            6 => {
                let other = &others[dice.below(others.len() as u32) as usize];
                let end = (at + dice.below(64) as usize).min(other.len()).min(bytes.len());
                if at < end {
                    bytes[at..end].copy_from_slice(&other[at..end]);
                }
            }
            // A few more characters in the header, whose length follows.
            _ => {
                let extra = dice.pick(&["9", "0", "e9", "-", " ", "\"", "null", "[", "1e400"]);
                let at = at.max(LENGTH_BYTES).min(bytes.len());
                bytes.splice(at..at, extra.bytes());
                if let Some(length) = bytes.first_chunk_mut::<LENGTH_BYTES>() {
                    let longer = u64::from_le_bytes(*length).wrapping_add(extra.len() as u64);
                    *length = longer.to_le_bytes();
                }
            }
        }
    }
}

fn mutation_case(checkpoints: &[Vec<u8>], dice: &mut Dice<'_>) {
    let mut bytes = dice.pick(checkpoints);
    mutate(&mut bytes, checkpoints, dice);
    fuzzed::checkpoint(&bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn random_settings_and_gradients_never_give_a_silent_wrong_answer(
        tape in prop::collection::vec(any::<u32>(), 0..160)
    ) {
        either_settings_case(&mut Dice::tape(&tape));
    }

    #[test]
    fn random_bytes_are_never_more_than_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        fuzzed::checkpoint(&bytes);
        // As the header of a file that is long enough.
        let mut file = (bytes.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(&bytes);
        fuzzed::checkpoint(&file);
    }
}

#[test]
fn the_random_settings_are_often_good_enough_to_step() {
    const CASES: u64 = 20_000;
    let steps = (0..CASES).filter(|case| either_settings_case(&mut Dice::case(*case))).count();
    assert!(steps as u64 > CASES / 5, "{steps}");
}

#[test]
fn mutated_checkpoints_are_refused_or_work() {
    let checkpoints = small_checkpoints();
    checkpoints.iter().for_each(|bytes| fuzzed::checkpoint(bytes));
    for case in 0..20_000 {
        mutation_case(&checkpoints, &mut Dice::case(case));
    }
}

/// Names the case when it panics.
struct Case(u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was case {}", self.0);
        }
    }
}

/// `SANTA_CASES` cases (a million if it is not set), spread over the cores.
fn many_cases(one: impl Fn(u64) + Sync) {
    const DEFAULT: u64 = 1_000_000;
    let cases = std::env::var("SANTA_CASES")
        .map_or(DEFAULT, |text| text.parse().expect("SANTA_CASES is the number of cases"));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    std::thread::scope(|scope| {
        for first in 0..threads {
            let one = &one;
            scope.spawn(move || {
                for case in (first..cases).step_by(threads as usize) {
                    let _named = Case(case);
                    one(case);
                }
            });
        }
    });
}

/// `SANTA_CASES=10000000 cargo test --release -p santa-optim --test bad_input -- --ignored many_random`
#[test]
#[ignore = "long; see its comment"]
fn many_random_settings() {
    many_cases(|case| {
        either_settings_case(&mut Dice::case(case));
    });
}

/// `SANTA_CASES=10000000 cargo test --release -p santa-optim --test bad_input -- --ignored many_mutated`
#[test]
#[ignore = "long; see its comment"]
fn many_mutated_checkpoints() {
    let checkpoints = small_checkpoints();
    many_cases(|case| mutation_case(&checkpoints, &mut Dice::case(case)));
}

#[test]
fn the_corpus_of_the_fuzzer_passes() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/checkpoint");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        fuzzed::checkpoint(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 0);
}

/// Rewrites the corpus: a few whole checkpoints, and each of them cut short and changed.
#[test]
#[ignore = "writes into the source tree"]
fn write_the_corpus_of_the_fuzzer() {
    /// Every so many of the small checkpoints: one or two of each dynamics.
    const EVERY: usize = 7;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/checkpoint");
    std::fs::create_dir_all(folder).unwrap();
    let checkpoints = small_checkpoints();
    for (i, whole) in checkpoints.iter().enumerate().step_by(EVERY) {
        let save = |kind: &str, bytes: &[u8]| {
            std::fs::write(format!("{folder}/{i:02}-{kind}"), bytes).unwrap();
        };
        let mut dice = Dice::case(i as u64);
        let mut changed = whole.clone();
        mutate(&mut changed, &checkpoints, &mut dice);
        save("whole", whole);
        save("changed", &changed);
        save("short", &whole[..dice.below(whole.len() as u32) as usize]);
    }
}

fn plain(policy: OnTrouble) -> (Stepper<f64>, Vec<f64>) {
    let target = Target::density(200).unwrap();
    let stepper = Santa::new(1e-3, 100).init(&target, 1).unwrap().on_trouble(policy).unwrap();
    (stepper, common::start(200))
}

#[test]
fn skipping_leaves_theta_and_state_bit_for_bit_and_gives_up_in_the_end() {
    let (mut stepper, mut theta) = plain(OnTrouble::Skip { at_most: 2 });
    common::run(&mut stepper, &mut theta, 0, 3);
    let before = contents(&stepper, &theta);
    let mut bad = vec![1.0; 200];
    for value in [f64::NAN, f64::INFINITY] {
        bad[150] = value;
        assert_eq!(stepper.step(&mut theta, &bad).unwrap(), StepOutcome::Skipped);
        assert_eq!(contents(&stepper, &theta), before);
        assert_eq!(stepper.steps(), 3);
    }
    let error = stepper.step(&mut theta, &bad).unwrap_err();
    assert!(matches!(error, Error::GaveUp { failures: 3, .. }), "{error}");
    assert!(error.to_string().contains("element 150"), "{error}");
    assert_eq!(contents(&stepper, &theta), before);
    // A good gradient ends the row.
    common::run(&mut stepper, &mut theta, 3, 4);
    assert_eq!(stepper.step(&mut theta, &bad).unwrap(), StepOutcome::Skipped);
}

#[test]
fn rolling_back_restores_the_last_good_state_bit_for_bit() {
    let (mut stepper, mut theta) = plain(OnTrouble::RollBack { every: 4, at_most: 2 });
    common::run(&mut stepper, &mut theta, 0, 4);
    let good = contents(&stepper, &theta);
    common::run(&mut stepper, &mut theta, 4, 6);
    assert_ne!(contents(&stepper, &theta), good);

    // A bad gradient; then a good one, which overflows the state by itself.
    let bad = vec![f64::NAN; 200];
    assert_eq!(stepper.step(&mut theta, &bad).unwrap(), StepOutcome::RolledBack { to: 4 });
    assert_eq!(contents(&stepper, &theta), good);
    assert_eq!(stepper.steps(), 4);
    stepper.state_vector_mut("u").unwrap()[7] = f64::MAX;
    let zero = vec![0.0; 200];
    assert_eq!(stepper.step(&mut theta, &zero).unwrap(), StepOutcome::RolledBack { to: 4 });
    assert_eq!(contents(&stepper, &theta), good);

    let error = stepper.step(&mut theta, &bad).unwrap_err();
    assert!(matches!(error, Error::GaveUp { failures: 3, .. }), "{error}");
    assert!(matches!(stepper.step(&mut theta, &zero), Err(Error::Poisoned { .. })));
}

#[test]
fn rolling_back_works_from_the_first_step_after_a_resume() {
    let (mut stepper, mut theta) = plain(OnTrouble::RollBack { every: 1000, at_most: 1 });
    common::run(&mut stepper, &mut theta, 0, 3);
    let mut checkpoint = Checkpoint::new();
    stepper.save(&theta, &mut checkpoint).unwrap();
    let (mut stepper, mut theta) = Stepper::<f64>::from_checkpoint(&checkpoint).unwrap();
    let good = contents(&stepper, &theta);
    common::run(&mut stepper, &mut theta, 3, 5);
    let outcome = stepper.step(&mut theta, &vec![f64::NAN; 200]).unwrap();
    assert_eq!(outcome, StepOutcome::RolledBack { to: 3 });
    assert_eq!(contents(&stepper, &theta), good);
}

#[test]
fn stopping_refuses_to_go_on() {
    let (mut stepper, mut theta) = plain(OnTrouble::Stop);
    common::run(&mut stepper, &mut theta, 0, 3);
    let mut bad = vec![1.0; 200];
    bad[99] = f64::NEG_INFINITY;
    let message = stepper.step(&mut theta, &bad).unwrap_err().to_string();
    assert!(
        message.contains("the gradient is -inf") && message.contains("element 99"),
        "{message}"
    );
    for _ in 0..3 {
        let next = stepper.step(&mut theta, &vec![0.0; 200]);
        assert!(matches!(next, Err(Error::Poisoned { step: 4 })));
    }
}

#[test]
fn a_clipped_norm_notices_before_anything_has_moved() {
    let (stepper, mut theta) = plain(OnTrouble::Stop);
    let mut stepper = stepper.with_clip(Clip::Norm(1.0)).unwrap();
    common::run(&mut stepper, &mut theta, 0, 3);
    let before = everything(&stepper, &theta);
    assert!(stepper.step(&mut theta, &vec![f64::NAN; 200]).is_err());
    assert_eq!(everything(&stepper, &theta), before);
    common::run(&mut stepper, &mut theta, 3, 4);
}

#[test]
fn a_theta_that_is_not_finite_is_noticed() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for algorithm in
            [Algorithm::from(Sgd::new(0.1)), Adam::new(0.1).into(), Sghmc::default().into()]
        {
            let target = Target::density(3).unwrap();
            let mut stepper = Stepper::<f64>::new(algorithm, &target, 1, 0).unwrap();
            let mut theta = [0.0, value, 0.0];
            let message = stepper.step(&mut theta, &[0.0; 3]).unwrap_err().to_string();
            assert!(message.contains("theta") && message.contains("element 1"), "{message}");
        }
    }
}

#[test]
fn settings_that_the_element_type_cannot_hold_are_refused_by_name() {
    let target = Target::density(3).unwrap();
    let one = |algorithm: Algorithm| {
        Stepper::<f32>::new(algorithm, &target, 1, 0).err().map(|e| e.to_string())
    };
    let lambda = Santa { lambda: 1e-40, ..Santa::default() };
    assert!(one(lambda.clone().into()).unwrap().contains("lambda"));
    assert!(Stepper::<f64>::new(lambda, &target, 1, 0).is_ok());
    let v = Adagrad { initial_v: 1e300, ..Adagrad::default() };
    assert!(one(v.into()).unwrap().contains("state `v`"));
    let eta = Sghmc::new(StepSize::paper(1e100, 1e-60));
    assert!(one(eta.into()).unwrap().contains("state `u`"));
    let scaled = target.clone().with_group(Group::new("*").lr_scale(1e10)).unwrap();
    let overflow = Stepper::<f64>::new(Sgld::new(Rate::eta(1e300)), &scaled, 1, 0);
    assert!(overflow.err().unwrap().to_string().contains("rate"));
}

#[test]
fn steps_beyond_the_noise_counter_are_refused() {
    let (mut stepper, mut theta) = plain(OnTrouble::Stop);
    let mut checkpoint = Checkpoint::new();
    stepper.save(&theta, &mut checkpoint).unwrap();
    checkpoint.insert_meta("step", &MAX_STEPS).unwrap();
    assert!(stepper.restore(&mut theta, &checkpoint).is_err());
    checkpoint.insert_meta("step", &(MAX_STEPS - 2)).unwrap();
    stepper.restore(&mut theta, &checkpoint).unwrap();
    let gradient = vec![0.0; 200];
    assert_eq!(stepper.step(&mut theta, &gradient).unwrap(), StepOutcome::Applied);
    let message = stepper.step(&mut theta, &gradient).unwrap_err().to_string();
    assert!(message.contains("noise repeats"), "{message}");
}

#[test]
fn a_thermostat_over_no_moving_parameter_stays_as_it_is() {
    let target = Target::density(3).unwrap().with_group(Group::new("*").frozen()).unwrap();
    let mut sgnht = Sgnht::default().init::<f64>(&target, 1).unwrap();
    let mut theta = [1.0, 2.0, 3.0];
    assert_eq!(sgnht.step(&mut theta, &[1.0; 3]).unwrap(), StepOutcome::Applied);
    assert_eq!((theta, sgnht.carried()), ([1.0, 2.0, 3.0], Some(0.0)));
}

#[test]
fn wrong_lengths_are_refused_before_anything_has_moved() {
    let (mut stepper, mut theta) = plain(OnTrouble::Stop);
    let before = everything(&stepper, &theta);
    for len in [0, 199, 201] {
        let error = stepper.step(&mut theta, &vec![0.0; len]).unwrap_err();
        assert!(matches!(error, Error::Length { found, .. } if found == len));
        let mut other = vec![0.0; len];
        assert!(stepper.step(&mut other, &[0.0; 200]).is_err());
    }
    assert!(stepper.step_segments(&mut []).is_err());
    let short = [0.0; 3];
    assert!(stepper.step_segments(&mut [(&mut theta[..], &short[..])]).is_err());
    assert_eq!(everything(&stepper, &theta), before);
    assert_eq!(stepper.step(&mut theta, &[0.0; 200]).unwrap(), StepOutcome::Applied);
}
