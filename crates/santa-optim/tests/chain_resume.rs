//! A chain that is saved in the middle of an epoch goes on bit for bit: batches, control variates,
//! noise and all; and a checkpoint of something else is refused.

use santa::dynamics::{Msgnht, Sgd, Sgld};
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::LogisticRegression;
use santa::potential::{ControlVariate, Potential};
use santa::{Algorithm, Chain, Checkpoint, Rate, Sampling, Santa, StepSize, Stepper};

const DIM: usize = 5;

fn model(n: usize) -> LogisticRegression {
    LogisticRegression::synthetic(n, DIM, 1.0, &Stream::new(3, 0, Purpose::Data)).unwrap().0
}

fn chain<P: Potential<f64>>(
    potential: P,
    algorithm: impl Into<Algorithm>,
    batch: usize,
    sampling: Sampling,
) -> Chain<f64, P> {
    let stepper = Stepper::new(algorithm, potential.target(), 11, 2).unwrap();
    Chain::new(potential, stepper, vec![0.0; DIM], sampling, batch).unwrap()
}

fn resumes<P: Potential<f64>>(build: impl Fn() -> Chain<f64, P>) {
    let mut whole = build();
    whole.advance(60).unwrap();
    let mut first = build();
    first.advance(23).unwrap();
    let bytes = first.checkpoint().unwrap().to_bytes().unwrap();
    let mut second = build();
    second.restore(&Checkpoint::from_bytes(&bytes).unwrap()).unwrap();
    second.advance(37).unwrap();
    assert_eq!(second.theta(), whole.theta());
    assert_eq!(second.steps(), 60);
    // Not the same as starting again from those parameters.
    let mut cold = build();
    cold.theta_mut().copy_from_slice(first.theta());
    cold.advance(37).unwrap();
    assert_ne!(cold.theta(), whole.theta());
}

#[test]
fn a_chain_resumes_in_the_middle_of_an_epoch() {
    for sampling in [Sampling::ShuffledEpochs, Sampling::WithReplacement] {
        resumes(|| chain(model(100), Santa::new(1e-2, 60), 7, sampling));
        resumes(|| chain(model(100), Sgld::new(Rate::lr(1e-2)), 7, sampling));
        resumes(|| chain(model(100), Msgnht::new(StepSize::heavy_ball(1e-2, 0.9)), 7, sampling));
        resumes(|| chain(model(100), Sgd::new(1e-2), 7, sampling));
    }
}

#[test]
fn control_variates_resume_with_their_anchor() {
    resumes(|| {
        let potential = ControlVariate::new(model(100), 20).unwrap();
        chain(potential, Sgld::new(Rate::lr(1e-2)), 7, Sampling::ShuffledEpochs)
    });
}

#[test]
fn a_checkpoint_of_another_chain_is_refused_by_name_and_changes_nothing() {
    let build = |n, lr, batch| chain(model(n), Sgd::new(lr), batch, Sampling::ShuffledEpochs);
    let mut saved = build(100, 1e-2, 7);
    saved.advance(3).unwrap();
    let checkpoint = saved.checkpoint().unwrap();
    for (mut other, word) in [
        (build(100, 1e-2, 8), "batch_size"),
        (build(100, 2e-2, 7), "lr"),
        (build(90, 1e-2, 7), "data_size"),
    ] {
        other.advance(1).unwrap();
        let before = other.theta().to_vec();
        let message = other.restore(&checkpoint).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
        assert_eq!(other.theta(), before);
        assert_eq!(other.steps(), 1);
    }
    // A potential that keeps nothing refuses what a control variate kept, and the other way round.
    let plain = || chain(model(100), Sgd::new(1e-2), 7, Sampling::ShuffledEpochs);
    let mut anchored = chain(
        ControlVariate::new(model(100), 20).unwrap(),
        Sgd::new(1e-2),
        7,
        Sampling::ShuffledEpochs,
    );
    anchored.advance(5).unwrap();
    let mut other = plain();
    other.advance(2).unwrap();
    let before = other.theta().to_vec();
    other.restore(&anchored.checkpoint().unwrap()).unwrap_err();
    assert_eq!((other.theta(), other.steps()), (before.as_slice(), 2));
    other.advance(1).unwrap();
}

#[test]
fn a_file_survives_the_way_through_the_file_system() {
    let folder = std::env::temp_dir().join(format!("santa-chain-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("chain.safetensors");
    let build = || chain(model(100), Santa::new(1e-2, 60), 7, Sampling::ShuffledEpochs);
    let mut first = build();
    first.advance(10).unwrap();
    first.save(&path).unwrap();
    let mut second = build();
    second.resume(&path).unwrap();
    assert_eq!(second.theta(), first.theta());
    let message = build().resume(folder.join("absent")).unwrap_err().to_string();
    assert!(message.contains("absent"), "{message}");
    std::fs::remove_dir_all(&folder).unwrap();
}
