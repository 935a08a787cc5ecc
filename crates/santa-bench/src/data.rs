//! What the models are trained on. None of it has to be fetched.

use santa::Result;
use santa_datasets::Mnist;
use santa_nn::{Examples, PianoRolls};

/// The largest value of a byte, which is 1 for a model.
const WHITE: f64 = 255.0;

/// The embedded digits.
pub fn digits() -> Result<Examples> {
    let train = Mnist::embedded().train;
    let examples = Examples::from_bytes(train.pixels(), train.image_len(), train.labels())?;
    Ok(examples.scaled(1.0 / WHITE))
}

/// Images without a zero, so that nothing can be skipped.
pub fn noise(width: usize) -> Result<Examples> {
    const LEN: usize = 1000;
    const CLASSES: usize = 10;
    /// A prime: neighbours differ, and no two rows are alike.
    const STRIDE: usize = 7919;
    let pixels: Vec<u8> = (0..LEN * width).map(|i| (1 + i * STRIDE % 255) as u8).collect();
    let labels: Vec<u8> = (0..LEN).map(|i| (i % CLASSES) as u8).collect();
    Ok(Examples::from_bytes(pixels, width, labels)?.scaled(1.0 / WHITE))
}

/// Sequences with a few keys down at a time, as music has.
pub fn rolls(keys: usize, steps: usize) -> Result<PianoRolls> {
    const SEQUENCES: usize = 10;
    const DOWN: usize = 4;
    /// Steps for which a chord is held, and how far its keys are from the last ones and each other.
    const HELD: usize = 4;
    const MOVE: usize = 7;
    const APART: usize = 11;
    let mut values = vec![0u8; SEQUENCES * steps * keys];
    for (t, step) in values.chunks_exact_mut(keys.max(1)).enumerate() {
        (0..DOWN).for_each(|i| step[(t / HELD * MOVE + i * APART) % keys] = 1);
    }
    let offsets: Vec<usize> = (0..=SEQUENCES).map(|i| i * steps).collect();
    PianoRolls::new(keys, values, offsets)
}
