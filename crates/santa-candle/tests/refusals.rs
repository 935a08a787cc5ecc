//! What cannot work is refused by name, and nothing moves.

mod common;

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::Optimizer;
use common::*;
use santa::dynamics::Adam;
use santa::{Group, Santa};
use santa_candle::{Dynamics, MissingGradient, ParamsDynamics};

fn adam() -> ParamsDynamics {
    ParamsDynamics::new(Adam::new(1e-2), data_size())
}

fn refusal(vars: Vec<(&str, Var)>, params: ParamsDynamics) -> String {
    Dynamics::from_named(vars, params).unwrap_err().to_string()
}

fn zeros(dtype: DType) -> Var {
    Var::zeros(3, dtype, &Device::Cpu).unwrap()
}

#[test]
fn variables_that_cannot_be_moved_are_refused_by_name() {
    for dtype in [DType::F64, DType::F16, DType::BF16] {
        let message = refusal(vec![("ok", zeros(DType::F32)), ("wide", zeros(dtype))], adam());
        assert!(message.contains("`wide`") && message.contains("F32"), "{message}");
    }
    let var = zeros(DType::F32);
    let message = refusal(vec![("one", var.clone()), ("other", var)], adam());
    assert!(message.contains("`one`") && message.contains("`other`"), "{message}");
    let message = refusal(vec![("none", Var::zeros(0, DType::F32, &Device::Cpu).unwrap())], adam());
    assert!(message.contains("`none`"), "{message}");
    assert!(refusal(vec![], adam()).contains("at least one"));
    assert!(Dynamics::empty(adam()).is_err());
}

#[test]
fn variables_of_integers_are_left_out() {
    let vars = vec![("count", zeros(DType::U32)), ("weight", zeros(DType::F32))];
    let adam = Dynamics::from_named(vars, adam()).unwrap();
    assert_eq!(adam.vars().len(), 1);
    assert_eq!(adam.stepper().target().layout().segments()[0].name(), "weight");
}

#[test]
fn settings_are_checked_when_built() {
    let group = ParamsDynamics { groups: vec![Group::new("nowhere")], ..adam() };
    assert!(refusal(vec![("a", zeros(DType::F32))], group).contains("nowhere"));
    let negative = ParamsDynamics::new(Adam::new(-1.0), data_size());
    assert!(refusal(vec![("a", zeros(DType::F32))], negative).contains("lr"));
}

#[test]
fn a_missing_gradient_is_refused_unless_it_is_said_to_be_zero() {
    let run = |missing, groups| {
        let params = ParamsDynamics { missing, groups, ..adam() };
        let mut adam = Dynamics::from_named(named_vars(), params).unwrap();
        // Two steps, so that there is a momentum; the second without gradients of `b.bias`.
        adam.step(&pulls(adam.vars())).unwrap();
        let before = adam.theta().unwrap();
        let mut grads = pulls(adam.vars());
        grads.remove(&adam.vars()[3]);
        let outcome = adam.step(&grads);
        let after = adam.theta().unwrap();
        let range = adam.stepper().target().layout().segment("b.bias").unwrap().range();
        (outcome, before[range.clone()] == after[range], before == after)
    };
    let (refused, _, still) = run(MissingGradient::Refuse, vec![]);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("`b.bias`") && message.contains("frozen"), "{message}");
    assert!(still);
    let (made, still, _) = run(MissingGradient::Zero, vec![]);
    assert!(made.is_ok() && !still);
    let (made, still, _) = run(MissingGradient::Refuse, vec![Group::new("b.bias").frozen()]);
    assert!(made.is_ok() && still);
}

#[test]
fn a_gradient_that_does_not_fit_is_refused_by_name() {
    let mut adam = Dynamics::from_named(named_vars(), adam()).unwrap();
    let before = adam.theta().unwrap();
    for gradient in [
        Tensor::zeros(12, DType::F32, &Device::Cpu).unwrap(),
        Tensor::zeros((13, 1), DType::F32, &Device::Cpu).unwrap(),
        Tensor::zeros(13, DType::F64, &Device::Cpu).unwrap(),
    ] {
        let mut grads = pulls(adam.vars());
        grads.insert(&adam.vars()[1], gradient);
        let message = adam.step(&grads).unwrap_err().to_string();
        assert!(message.contains("`a.bias`"), "{message}");
    }
    assert_eq!(adam.theta().unwrap(), before);
    assert_eq!(adam.stepper().steps(), 0);
}

#[test]
fn a_learning_rate_that_cannot_be_is_refused_by_the_next_step() {
    let mut adam = Dynamics::from_named(named_vars(), adam()).unwrap();
    for lr in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        adam.set_learning_rate(lr);
        let message = adam.step(&pulls(adam.vars())).unwrap_err().to_string();
        assert!(message.contains("learning_rate"), "{message}");
    }
    adam.set_learning_rate(0.1);
    adam.step(&pulls(adam.vars())).unwrap();
    assert_eq!(adam.learning_rate(), 0.1);

    let paper = Santa { step: santa::StepSize::paper(1e-6, 1.0), ..Santa::default() };
    let params = ParamsDynamics::new(paper, data_size());
    let mut paper = Dynamics::from_named(named_vars(), params).unwrap();
    assert_eq!(paper.learning_rate(), 1e-6);
    paper.set_learning_rate(1e-7);
    let message = paper.step(&pulls(paper.vars())).unwrap_err().to_string();
    assert!(message.contains("paper's units"), "{message}");
}
