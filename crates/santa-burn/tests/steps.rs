//! Steps of a module are those of the library, on the module's own memory.

mod common;

use burn::grad_clipping::GradientClippingConfig;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::module::{Module, Param, ParamGroup};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{DType, Tensor};
use common::*;
use santa::{
    Algorithm, Clip, DataSize, Group, Layout, OnTrouble, Prior, Santa, StepOutcome, Stepper, Target,
};
use santa_burn::{DynamicsConfig, Missing, SantaConfig, StepperConfig};

const SEED: u64 = 42;
const STEPS: u64 = 12;
const LR: f64 = 1e-2;

fn stepper_config(algorithm: impl Into<Algorithm>) -> StepperConfig {
    StepperConfig::new(algorithm).with_data_size(N).with_prior(PRIOR).with_seed(SEED)
}

fn dynamics_config(algorithm: impl Into<Algorithm>) -> DynamicsConfig {
    DynamicsConfig::new(algorithm).with_data_size(N).with_prior(PRIOR).with_seed(SEED)
}

/// Native steps from the same start with the same gradients.
fn native(sizes: [usize; 3], mut stepper: Stepper<f32>) -> Vec<f32> {
    let mut theta = start(sizes);
    for t in 1..=STEPS {
        stepper.step(&mut theta, &gradient(sizes, t)).unwrap();
    }
    theta
}

fn by_stepper(sizes: [usize; 3], config: &StepperConfig) -> Vec<f32> {
    let mut net = net_of(sizes, &start(sizes));
    let mut stepper = config.init(&net).unwrap();
    for t in 1..=STEPS {
        let grads = grads(&net, sizes, &gradient(sizes, t));
        assert_eq!(stepper.step(&mut net, grads).unwrap(), StepOutcome::Applied);
    }
    stepper.theta(&net).unwrap()
}

fn by_optimizer(sizes: [usize; 3], mut optimizer: ModuleOptimizer) -> Vec<f32> {
    let mut net = net_of(sizes, &start(sizes));
    for t in 1..=STEPS {
        let grads = grads(&net, sizes, &gradient(sizes, t));
        net = optimizer.step(LR, net, grads);
    }
    theta(&net)
}

#[test]
fn a_module_stepper_makes_the_native_steps_bit_for_bit() {
    for algorithm in algorithms() {
        let stepper = Stepper::new(algorithm.clone(), &target(SIZES), SEED, 0).unwrap();
        let expected = native(SIZES, stepper);
        let found = by_stepper(SIZES, &stepper_config(algorithm.clone()));
        assert_eq!(bits(&found), bits(&expected), "{}", algorithm.name());
    }
}

#[test]
fn a_module_optimizer_makes_the_native_steps_of_each_tensor() {
    for algorithm in algorithms() {
        let algorithm = algorithm.with_lr(1.0);
        let mut expected = start(SIZES);
        for (i, segment) in layout(SIZES).segments().iter().enumerate() {
            let part = Layout::new([(segment.name(), segment.shape().to_vec())]).unwrap();
            let part = Target::new(part, DataSize::new(N).unwrap(), PRIOR).unwrap();
            let mut stepper =
                Stepper::of_part(algorithm.clone(), &part, SEED, 0, i as u32).unwrap();
            stepper.set_lr_factor(LR).unwrap();
            for t in 1..=STEPS {
                let gradient = gradient(SIZES, t);
                let theta = &mut expected[segment.range()];
                stepper.step(theta, &gradient[segment.range()]).unwrap();
            }
        }
        let found = by_optimizer(SIZES, dynamics_config(algorithm.clone()).init());
        assert_eq!(bits(&found), bits(&expected), "{}", algorithm.name());
    }
}

#[test]
fn a_module_optimizer_has_the_noise_of_the_whole_model() {
    for algorithm in algorithms() {
        if matches!(algorithm, Algorithm::Sgnht(_)) {
            continue; // one thermostat for the whole, one for each tensor
        }
        let algorithm = algorithm.with_lr(1.0);
        let mut whole = Stepper::new(algorithm.clone(), &target(SIZES), SEED, 0).unwrap();
        whole.set_lr_factor(LR).unwrap();
        let found = by_optimizer(SIZES, dynamics_config(algorithm.clone()).init());
        assert_eq!(bits(&found), bits(&native(SIZES, whole)), "{}", algorithm.name());
    }
}

/// Of parameters of about 1 after a dozen steps in single precision.
const ROUNDING: f32 = 2e-5;

#[test]
fn tensor_operations_give_the_same_numbers_up_to_rounding_and_go_on_in_the_kernel() {
    for algorithm in algorithms() {
        let config = dynamics_config(algorithm.with_lr(1.0));
        let expected = by_optimizer(SIZES, config.init());
        let found = by_optimizer(SIZES, config.build().in_tensor_operations().into());
        let name = config.algorithm.name();
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() < ROUNDING, "{name}: {a} {b}");
        }

        // Half of the steps on either side of a record.
        let mut here: ModuleOptimizer = config.build().in_tensor_operations().into();
        let mut net = net_of(SIZES, &start(SIZES));
        for t in 1..=STEPS {
            if t == STEPS / 2 {
                here = config.init().load_record(here.to_record());
            }
            let by_hand = grads(&net, SIZES, &gradient(SIZES, t));
            net = here.step(LR, net, by_hand);
        }
        for (a, b) in theta(&net).iter().zip(&expected) {
            assert!((a - b).abs() < ROUNDING, "{name}: {a} {b}");
        }
    }
}

#[test]
fn a_step_works_on_the_memory_of_a_parameter_that_nobody_else_holds() {
    let (mut net, first) = address(net_of(SIZES, &start(SIZES)));
    let mut stepper = stepper_config(Santa::new(1e-2, 20)).init(&net).unwrap();
    let mut optimizer = dynamics_config(Santa::new(1e-2, 20)).init();
    for t in 1..=3 {
        let by_hand = grads(&net, SIZES, &gradient(SIZES, t));
        stepper.step(&mut net, by_hand).unwrap();
        let (after_stepper, here) = address(net);
        assert_eq!(here, first, "the stepper copied at step {t}");
        let by_hand = grads(&after_stepper, SIZES, &gradient(SIZES, t));
        let (after_optimizer, here) = address(optimizer.step(LR, after_stepper, by_hand));
        assert_eq!(here, first, "the optimizer copied at step {t}");
        net = after_optimizer;
    }
}

#[test]
fn gradients_from_a_backward_pass_leave_the_parameters_unshared() {
    let (mut net, first) = address(net_of(SIZES, &start(SIZES)));
    let mut stepper = stepper_config(Santa::new(1e-2, 20)).init(&net).unwrap();
    let mut optimizer = dynamics_config(Santa::new(1e-2, 20)).init();
    for _ in 0..2 {
        let x = Tensor::<2>::ones([4, SIZES[0]], &device());
        let loss = net.forward(x.clone()).square().mean();
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        drop(loss);
        stepper.step(&mut net, grads).unwrap();
        let loss = net.forward(x).square().mean();
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        drop(loss);
        let here;
        (net, here) = address(optimizer.step(LR, net, grads));
        assert_eq!(here, first);
    }
}

#[test]
fn a_shared_parameter_is_copied_and_the_other_holder_keeps_its_value() {
    let (mut net, first) = address(net_of(SIZES, &start(SIZES)));
    let mut stepper = stepper_config(Santa::new(1e-2, 20)).init(&net).unwrap();
    let held = net.clone();
    let by_hand = grads(&net, SIZES, &gradient(SIZES, 1));
    stepper.step(&mut net, by_hand).unwrap();
    assert_eq!(bits(&theta(&held)), bits(&start(SIZES)));
    let (net, here) = address(net);
    assert_ne!(here, first);
    let again = net.clone();
    let before = theta(&again);
    let by_hand = grads(&net, SIZES, &gradient(SIZES, 2));
    let net = dynamics_config(Santa::new(1e-2, 20)).init().step(LR, net, by_hand);
    assert_eq!(bits(&theta(&again)), bits(&before));
    assert_ne!(bits(&theta(&net)), bits(&before));
}

#[test]
fn two_runs_of_one_seed_agree_although_parameter_ids_are_random() {
    let config = SantaConfig::new().with_data_size(Some(N)).with_steps(Some(20)).with_seed(SEED);
    let first = by_optimizer(SIZES, config.init());
    assert_eq!(bits(&first), bits(&by_optimizer(SIZES, config.init())));
    let other = by_optimizer(SIZES, config.clone().with_seed(SEED + 1).init());
    assert_ne!(bits(&first), bits(&other));
    let other = by_optimizer(SIZES, config.with_chain(1).init());
    assert_ne!(bits(&first), bits(&other));
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let wide = [300, 200, 10];
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let config = stepper_config(Santa::new(1e-2, 20)).with_clip(Clip::Norm(3.0));
        let optimizer = dynamics_config(Santa::new(1e-2, 20));
        pool.install(|| (by_stepper(wide, &config), by_optimizer(wide, optimizer.init())))
    };
    let (one, three) = (run(1), run(3));
    assert_eq!(bits(&one.0), bits(&three.0));
    assert_eq!(bits(&one.1), bits(&three.1));
}

#[test]
fn the_learning_rate_is_the_schedulers() {
    let mut scheduler = CosineAnnealingLrSchedulerConfig::new(LR, STEPS as usize).init().unwrap();
    let santa = Santa::new(1.0, STEPS);
    let mut optimizer = dynamics_config(santa.clone()).init();
    let mut net = net_of(SIZES, &start(SIZES));
    let mut native = Stepper::new(santa, &target(SIZES), SEED, 0).unwrap();
    let mut expected = start(SIZES);
    for t in 1..=STEPS {
        let lr = scheduler.step().base();
        let gradient = gradient(SIZES, t);
        let by_hand = grads(&net, SIZES, &gradient);
        net = optimizer.step(lr, net, by_hand);
        if lr > 0.0 {
            native.set_lr_factor(lr).unwrap();
            native.step(&mut expected, &gradient).unwrap();
        }
    }
    assert_eq!(bits(&theta(&net)), bits(&expected));
}

#[test]
fn a_learning_rate_of_zero_makes_no_step() {
    let net = net_of(SIZES, &start(SIZES));
    let mut optimizer = dynamics_config(Santa::new(1.0, 20)).init();
    let by_hand = grads(&net, SIZES, &gradient(SIZES, 1));
    let net = optimizer.step(0.0, net, by_hand);
    assert_eq!(bits(&theta(&net)), bits(&start(SIZES)));
    assert!(optimizer.to_record().is_empty());
}

#[test]
fn groups_by_path_have_their_prior_their_rate_or_stay() {
    let groups =
        [Group::new("*.bias").prior(Prior::Flat).lr_scale(2.0), Group::new("second.*").frozen()];
    let (mut config, mut target) = (stepper_config(Santa::new(1e-2, 20)), target(SIZES));
    for group in groups {
        config = config.with_group(group.clone());
        target = target.with_group(group).unwrap();
    }
    let expected = native(SIZES, Santa::new(1e-2, 20).init(&target, SEED).unwrap());
    let found = by_stepper(SIZES, &config);
    assert_eq!(bits(&found), bits(&expected));
    let second = layout(SIZES).segment("second.weight").unwrap().range().start;
    assert_eq!(bits(&found[second..]), bits(&start(SIZES)[second..]));
}

#[test]
fn parameters_that_require_no_gradient_are_frozen() {
    let mut net = net_of(SIZES, &start(SIZES));
    net.second = net.second.no_grad();
    let mut stepper = stepper_config(Santa::new(1e-2, 20)).init(&net).unwrap();
    let x = Tensor::<2>::ones([4, SIZES[0]], &device());
    let loss = net.forward(x).square().mean();
    let grads = GradientsParams::from_grads(loss.backward(), &net);
    stepper.step(&mut net, grads).unwrap();
    let second = layout(SIZES).segment("second.weight").unwrap().range().start;
    let (moved, before) = (theta(&net), start(SIZES));
    assert_eq!(bits(&moved[second..]), bits(&before[second..]));
    assert!(moved[..second].iter().zip(&before).all(|(a, b)| a != b));
    assert!(!net.second.weight.is_require_grad() && net.first.weight.is_require_grad());
}

#[test]
fn groups_of_one_module_optimizer_share_the_count_of_the_noise() {
    let santa = dynamics_config(Santa::new(1.0, 20)).build();
    let biases = santa.with_prior(Prior::Flat).unwrap();
    let optimizer =
        ModuleOptimizer::from(santa).with_group(ParamGroup::from_predicate("bias"), biases, None);
    let found = by_optimizer(SIZES, optimizer);
    let target = target(SIZES).with_group(Group::new("*.bias").prior(Prior::Flat)).unwrap();
    let mut native_stepper = Santa::new(1.0, 20).init(&target, SEED).unwrap();
    native_stepper.set_lr_factor(LR).unwrap();
    assert_eq!(bits(&found), bits(&native(SIZES, native_stepper)));
}

#[test]
fn a_stepper_clips_the_norm_of_the_whole_gradient() {
    let clip = Clip::Norm(0.5);
    let stepper = Santa::new(1e-2, 20).init(&target(SIZES), SEED).unwrap();
    let expected = native(SIZES, stepper.with_clip(clip).unwrap());
    let found = by_stepper(SIZES, &stepper_config(Santa::new(1e-2, 20)).with_clip(clip));
    assert_eq!(bits(&found), bits(&expected));
}

#[test]
fn an_optimizer_clips_as_burn_clips() {
    let limit = 0.25;
    let clipping = GradientClippingConfig::Value(limit);
    let config = dynamics_config(Santa::new(1.0, 20)).with_grad_clipping(Some(clipping));
    let found = by_optimizer(SIZES, config.init());
    let stepper = Santa::new(1.0, 20).init(&target(SIZES), SEED).unwrap();
    let mut stepper = stepper.with_clip(Clip::Value(limit.into())).unwrap();
    stepper.set_lr_factor(LR).unwrap();
    assert_eq!(bits(&found), bits(&native(SIZES, stepper)));
}

#[test]
fn a_nan_is_named_and_the_module_stays_whole() {
    let mut net = net_of(SIZES, &start(SIZES));
    let mut bad = gradient(SIZES, 1);
    bad[layout(SIZES).segment("first.bias").unwrap().range().start + 2] = f32::NAN;
    let config = stepper_config(Santa::new(1e-2, 20));
    let by_hand = grads(&net, SIZES, &bad);
    let message = config.init(&net).unwrap().step(&mut net, by_hand).unwrap_err().to_string();
    assert!(message.contains("`first.bias`, element 2"), "{message}");
    assert_eq!(theta(&net).len(), layout(SIZES).dim());

    let mut net = net_of(SIZES, &start(SIZES));
    let config = config.with_on_trouble(OnTrouble::Skip { at_most: 1 });
    let mut stepper = config.init(&net).unwrap();
    let by_hand = grads(&net, SIZES, &bad);
    assert_eq!(stepper.step(&mut net, by_hand).unwrap(), StepOutcome::Skipped);
    assert_eq!(bits(&theta(&net)), bits(&start(SIZES)));
    let by_hand = grads(&net, SIZES, &bad);
    assert!(stepper.step(&mut net, by_hand).is_err());
    assert_eq!(bits(&theta(&net)), bits(&start(SIZES)));
}

#[test]
fn a_rollback_takes_the_whole_module_back() {
    let mut net = net_of(SIZES, &start(SIZES));
    let policy = OnTrouble::RollBack { every: 2, at_most: 3 };
    let config = stepper_config(Santa::new(1e-2, 20)).with_on_trouble(policy);
    let mut stepper = config.init(&net).unwrap();
    let mut kept = Vec::new();
    for t in 1..=3 {
        let by_hand = grads(&net, SIZES, &gradient(SIZES, t));
        stepper.step(&mut net, by_hand).unwrap();
        if t == 2 {
            kept = theta(&net);
        }
    }
    let mut bad = gradient(SIZES, 4);
    bad[0] = f32::INFINITY;
    let by_hand = grads(&net, SIZES, &bad);
    let outcome = stepper.step(&mut net, by_hand).unwrap();
    assert_eq!(outcome, StepOutcome::RolledBack { to: 2 });
    assert_eq!(bits(&theta(&net)), bits(&kept));
}

#[test]
#[should_panic(expected = "the gradient is NaN in segment `parameter 0`, element 3")]
fn an_optimizer_panics_with_the_librarys_message() {
    let net = net_of(SIZES, &start(SIZES));
    let mut bad = gradient(SIZES, 1);
    bad[3] = f32::NAN;
    let by_hand = grads(&net, SIZES, &bad);
    dynamics_config(Santa::new(1e-2, 20)).init().step(LR, net, by_hand);
}

#[test]
fn a_missing_gradient_is_refused_by_name_or_zero() {
    let mut net = net_of(SIZES, &start(SIZES));
    let some = |net: &Net| {
        let mut some = grads(net, SIZES, &gradient(SIZES, 1));
        some.remove::<2>(net.second.weight.id);
        some
    };
    let config = stepper_config(Santa::new(1e-2, 20));
    let by_hand = some(&net);
    let message = config.init(&net).unwrap().step(&mut net, by_hand).unwrap_err().to_string();
    assert!(message.contains("`second.weight`") && message.contains("Missing::Zero"), "{message}");
    assert_eq!(bits(&theta(&net)), bits(&start(SIZES)));

    let mut stepper = config.with_missing(Missing::Zero).init(&net).unwrap();
    let message = stepper.step(&mut net, GradientsParams::new()).unwrap_err().to_string();
    assert!(message.contains("none of the gradients"), "{message}");
    let by_hand = some(&net);
    stepper.step(&mut net, by_hand).unwrap();
    let mut zeroed = gradient(SIZES, 1);
    zeroed[layout(SIZES).segment("second.weight").unwrap().range()].fill(0.0);
    let mut expected = start(SIZES);
    let mut native = Santa::new(1e-2, 20).init(&target(SIZES), SEED).unwrap();
    native.step(&mut expected, &zeroed).unwrap();
    assert_eq!(bits(&theta(&net)), bits(&expected));
}

#[test]
fn another_module_another_shape_and_another_precision_are_refused() {
    let net = net_of(SIZES, &start(SIZES));
    let mut stepper = stepper_config(Santa::new(1e-2, 20)).init(&net).unwrap();

    let other_sizes = [7, 4, 3];
    let mut other = net_of(other_sizes, &start(other_sizes));
    let by_hand = grads(&other, other_sizes, &gradient(other_sizes, 1));
    let message = stepper.step(&mut other, by_hand).unwrap_err().to_string();
    assert!(message.contains("[7, 4]") && message.contains("[7, 5]"), "{message}");
    assert!(stepper.theta(&other).is_err());

    let mut part = net.first.clone();
    let by_hand = grads(&net, SIZES, &gradient(SIZES, 1));
    let message = stepper.step(&mut part, by_hand).unwrap_err().to_string();
    assert!(message.contains("`weight`") && message.contains("`first.weight`"), "{message}");

    let mut doubled = net.clone();
    let tensor = Tensor::<2>::ones([5, 3], (&device(), DType::F64)).require_grad();
    doubled.second.weight = Param::initialized(doubled.second.weight.id, tensor);
    let by_hand = grads(&doubled, SIZES, &gradient(SIZES, 1));
    let message = stepper.step(&mut doubled, by_hand).unwrap_err().to_string();
    assert!(message.contains("`second.weight` is F64") && message.contains("F32"), "{message}");

    let mut wrong = grads(&net, SIZES, &gradient(SIZES, 1));
    wrong.register(net.first.weight.id, Tensor::<2>::ones([5, 7], &device().inner()));
    let message = stepper.step(&mut net.clone(), wrong).unwrap_err().to_string();
    assert!(message.contains("[5, 7]") && message.contains("[7, 5]"), "{message}");

    let message = match stepper_config(Santa::new(1e-2, 20)).init(&net.valid()) {
        Ok(_) => panic!("a module without gradients was accepted"),
        Err(error) => error.to_string(),
    };
    assert!(message.contains("autodiff"), "{message}");
}

#[test]
fn a_gradient_of_another_precision_is_converted() {
    let mut net = net_of(SIZES, &start(SIZES));
    let mut stepper = stepper_config(Santa::new(1e-2, 20)).init(&net).unwrap();
    let ones = vec![1.0; layout(SIZES).dim()];
    let mut by_hand = grads(&net, SIZES, &ones);
    let half = Tensor::<2>::ones([7, 5], (&device().inner(), DType::BF16));
    by_hand.register(net.first.weight.id, half);
    stepper.step(&mut net, by_hand).unwrap();
    let mut expected = start(SIZES);
    let mut native = Santa::new(1e-2, 20).init(&target(SIZES), SEED).unwrap();
    native.step(&mut expected, &ones).unwrap();
    assert_eq!(bits(&theta(&net)), bits(&expected));
}

#[test]
fn vitals_are_the_native_ones() {
    let net = net_of(SIZES, &start(SIZES));
    let stepper = stepper_config(Santa::new(1e-2, 20)).init(&net).unwrap();
    let native: Stepper<f32> = Santa::new(1e-2, 20).init(&target(SIZES), SEED).unwrap();
    let gradient = gradient(SIZES, 1);
    let found = stepper.vitals(&net, &grads(&net, SIZES, &gradient)).unwrap();
    assert_eq!(found, native.vitals(&start(SIZES), &gradient).unwrap());
}
