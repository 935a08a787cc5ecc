//! Saved and loaded, a run goes on bit for bit.

mod common;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use common::*;
use santa::{Algorithm, Checkpoint, Clip, Santa, Stepper};
use santa_burn::{DynamicsConfig, ModuleStepper, StepperConfig};

const BEFORE: u64 = 7;
const AFTER: u64 = 15;
/// Changes from step to step, so that what is kept of it matters.
fn lr(t: u64) -> f64 {
    0.01 / (1.0 + t as f64 / 10.0)
}

fn optimize(
    optimizer: &mut ModuleOptimizer,
    mut net: Net,
    steps: std::ops::RangeInclusive<u64>,
) -> Net {
    for t in steps {
        let by_hand = grads(&net, SIZES, &gradient(SIZES, t));
        net = optimizer.step(lr(t), net, by_hand);
    }
    net
}

fn advance(stepper: &mut ModuleStepper, net: &mut Net, steps: std::ops::RangeInclusive<u64>) {
    for t in steps {
        let by_hand = grads(net, SIZES, &gradient(SIZES, t));
        stepper.set_lr_factor(lr(t)).unwrap();
        stepper.step(net, by_hand).unwrap();
    }
}

fn config(algorithm: &Algorithm) -> DynamicsConfig {
    DynamicsConfig::new(algorithm.clone()).with_data_size(N).with_prior(PRIOR).with_seed(9)
}

#[test]
fn records_of_module_and_optimizer_go_on_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let (model_file, optimizer_file) = (folder.path().join("model"), folder.path().join("optim"));
    for algorithm in algorithms() {
        let mut optimizer = config(&algorithm).init();
        let net = optimize(&mut optimizer, net_of(SIZES, &start(SIZES)), 1..=BEFORE);
        optimizer.save(&optimizer_file).unwrap();
        net.clone().save_file(&model_file).unwrap();
        let expected = optimize(&mut optimizer, net, BEFORE + 1..=AFTER);

        let net = net_of(SIZES, &vec![0.0; layout(SIZES).dim()]).load_file(&model_file);
        let mut optimizer = config(&algorithm).init().load(&optimizer_file).unwrap();
        let found = optimize(&mut optimizer, net, BEFORE + 1..=AFTER);
        assert_eq!(bits(&theta(&found)), bits(&theta(&expected)), "{}", algorithm.name());
    }
}

#[test]
fn a_record_that_is_loaded_and_saved_at_once_is_the_same() {
    let algorithm = Algorithm::from(Santa::new(1.0, 20));
    let mut optimizer = config(&algorithm).init();
    let net = optimize(&mut optimizer, net_of(SIZES, &start(SIZES)), 1..=BEFORE);
    let bytes = optimizer.into_bytes().unwrap();
    let loaded = config(&algorithm).init().from_bytes(bytes).unwrap();
    let mut twice = config(&algorithm).init().from_bytes(loaded.into_bytes().unwrap()).unwrap();
    let expected = optimize(&mut optimizer, net.clone(), BEFORE + 1..=AFTER);
    let found = optimize(&mut twice, net, BEFORE + 1..=AFTER);
    assert_eq!(bits(&theta(&found)), bits(&theta(&expected)));
}

#[test]
#[should_panic(expected = "state vectors")]
fn a_record_of_other_dynamics_is_refused() {
    let santa = Algorithm::from(Santa::new(1.0, 20));
    let mut optimizer = config(&santa).init();
    let net = optimize(&mut optimizer, net_of(SIZES, &start(SIZES)), 1..=2);
    let adam = Algorithm::from(santa::dynamics::Adam::new(1.0));
    let mut other = config(&adam).init().load_record(optimizer.to_record());
    optimize(&mut other, net, 3..=3);
}

fn stepper_config(algorithm: &Algorithm) -> StepperConfig {
    StepperConfig::new(algorithm.clone().with_lr(1.0))
        .with_data_size(N)
        .with_prior(PRIOR)
        .with_clip(Clip::Norm(2.0))
        .with_seed(9)
}

#[test]
fn a_checkpoint_of_a_stepper_goes_on_bit_for_bit_here_and_natively() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.santa");
    for algorithm in algorithms() {
        let mut net = net_of(SIZES, &start(SIZES));
        let mut stepper = stepper_config(&algorithm).init(&net).unwrap();
        advance(&mut stepper, &mut net, 1..=BEFORE);
        stepper.save(&net, &file).unwrap();
        advance(&mut stepper, &mut net, BEFORE + 1..=AFTER);

        let mut other = net_of(SIZES, &vec![0.0; layout(SIZES).dim()]);
        let mut again = stepper_config(&algorithm).init(&other).unwrap();
        again.load(&mut other, &file).unwrap();
        assert!(other.first.weight.is_require_grad());
        advance(&mut again, &mut other, BEFORE + 1..=AFTER);
        assert_eq!(bits(&theta(&other)), bits(&theta(&net)), "{}", algorithm.name());

        let checkpoint = Checkpoint::read(&file).unwrap();
        let (mut native, mut flat) = Stepper::<f32>::from_checkpoint(&checkpoint).unwrap();
        for t in BEFORE + 1..=AFTER {
            native.set_lr_factor(lr(t)).unwrap();
            native.step(&mut flat, &gradient(SIZES, t)).unwrap();
        }
        assert_eq!(bits(&flat), bits(&theta(&net)), "{}", algorithm.name());
    }
}

#[test]
fn a_checkpoint_of_other_settings_is_refused_and_changes_nothing() {
    let santa = Algorithm::from(Santa::new(1.0, 20));
    let mut net = net_of(SIZES, &start(SIZES));
    let stepper = stepper_config(&santa).init(&net).unwrap();
    let checkpoint = stepper.checkpoint(&net).unwrap();
    let mut other = stepper_config(&santa).with_seed(10).init(&net).unwrap();
    let message = other.restore(&mut net, &checkpoint).unwrap_err().to_string();
    assert!(message.contains("seed"), "{message}");
    assert_eq!(bits(&theta(&net)), bits(&start(SIZES)));
}
