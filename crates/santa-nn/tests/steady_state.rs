//! After the first steps, buffers are used again: no step allocates more than a few lists.
//!
//! What is not allocated anew is not mapped anew either: page faults of large temporaries can cost
//! more than the arithmetic.
#![allow(unsafe_code)] // a global allocator

use santa::{Batch, Potential, Prior};
use santa_datasets::Mnist;
use santa_nn::{
    Architecture, Classifier, Examples, GruArchitecture, KlWeight, Normalisation, PianoRolls,
    ScaleMixture, SequenceModel, Variational,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes that a step may allocate, in small lists: of slices for each layer and shard, of messages
/// for each time step.
const SMALL: usize = 256 << 10;

struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; only a counter is added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Layout) -> *mut u8 {
        BYTES.fetch_add(memory.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(memory) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, memory: Layout, size: usize) -> *mut u8 {
        BYTES.fetch_add(size, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, memory, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, memory: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, memory) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn check(what: &str, model: &mut impl Potential<f32>, theta: &[f32], batch: usize) {
    let n = model.target().data_size().get() as u32;
    let mut gradient = vec![0.0; theta.len()];
    let indices: Vec<u32> = (0..batch as u32).map(|i| i * 7 % n).collect();
    for step in 0..6 {
        let batch = Batch::of(&indices).at_step(step);
        let before = BYTES.load(Ordering::Relaxed);
        model.loss_gradient(theta, &batch, &mut gradient).unwrap();
        model.loss(theta, &batch).unwrap();
        let allocated = BYTES.load(Ordering::Relaxed) - before;
        assert!(step < 3 || allocated < SMALL, "{what}: step {step} allocates {allocated} bytes");
    }
}

/// One test, because the counter is the process's.
#[test]
fn steps_use_their_buffers_again() {
    let train = Mnist::embedded().train;
    let digits =
        || Examples::from_bytes(train.pixels(), train.image_len(), train.labels()).unwrap();
    for (what, architecture) in [
        ("dense", Architecture::dense(&[784, 100, 10]).with_dropout(0.2, 0.5)),
        ("convolutional", Architecture::paper_cnn()),
    ] {
        let mut model = Classifier::<f32>::new(&architecture, digits(), Prior::Flat).unwrap();
        let theta = model.initial(1, 0);
        check(what, &mut model, &theta, 100);
    }
    let inner =
        Classifier::<f32>::new(&Architecture::dense(&[784, 100, 10]), digits(), Prior::Flat)
            .unwrap();
    let mu = inner.initial(1, 0);
    let mut model = Variational::new(inner, ScaleMixture::default(), KlWeight::Uniform).unwrap();
    let theta = model.initial(&mu, -4.0).unwrap();
    check("variational", &mut model, &theta, 100);

    let values: Vec<u8> = (0..300 * 88).map(|i| u8::from(i % 23 == 0)).collect();
    let rolls = PianoRolls::new(88, values, vec![0, 100, 200, 300]).unwrap();
    let architecture = GruArchitecture { keys: 88, hidden: 64 };
    let mut model =
        SequenceModel::<f32>::new(architecture, rolls, Normalisation::default(), Prior::Flat)
            .unwrap();
    let theta = model.initial(1, 0);
    check("recurrent", &mut model, &theta, 1);
}
