//! What the fuzz targets do with their bytes. The library's own tests run the same functions over
//! the corpus, and over mutations of it.

use santa::{Checkpoint, Real, StepOutcome, Stepper};

/// Reads the bytes as a checkpoint, builds the dynamics in it, makes a step, and saves them again.
/// Panics if anything but an error or finite numbers comes of it.
pub fn checkpoint(bytes: &[u8]) {
    let Ok(checkpoint) = Checkpoint::from_bytes(bytes) else { return };
    let again = checkpoint.to_bytes().and_then(|bytes| Checkpoint::from_bytes(&bytes));
    assert_eq!(again.expect("what was read can be written and read again"), checkpoint);
    step_from::<f32>(&checkpoint);
    step_from::<f64>(&checkpoint);
}

fn step_from<F: Real>(checkpoint: &Checkpoint) {
    let Ok((mut stepper, mut theta)) = Stepper::<F>::from_checkpoint(checkpoint) else { return };
    check(&stepper, &theta);
    let gradient = vec![F::ONE; theta.len()];
    if let Ok(StepOutcome::Applied) = stepper.step(&mut theta, &gradient) {
        check(&stepper, &theta);
        stepper.save(&theta, &mut Checkpoint::new()).expect("finite numbers can be saved");
    }
}

fn check<F: Real>(stepper: &Stepper<F>, theta: &[F]) {
    assert!(theta.iter().all(|x| x.is_finite()), "theta");
    for (name, vector) in stepper.state() {
        assert!(vector.iter().all(|x| x.is_finite()), "{name}");
    }
    assert!(stepper.carried().is_none_or(f64::is_finite), "carried");
}
