//! A step allocates nothing, once its dynamics are built.
//!
//! One test function, and only the threads that take part are counted: the counter is the process's,
//! and the harness allocates on its own thread.
#![allow(unsafe_code)] // a global allocator

use santa::dynamics::{
    Adadelta, Adagrad, Adam, Corrections, Exploration, Gamma, Metric, Msgnht, Psgld, RmsProp, Sgd,
    Sghmc, Sgld, Sgnht,
};
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::{DoubleWell, Gaussian, LinearRegression};
use santa::{
    Algorithm, Chain, Clip, DataSize, Layout, Minibatches, OnTrouble, Potential, Prior, Rate,
    Sampling, Santa, Schedule, StepSize, Stepper, Target, Thermometer,
};
use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread's allocations count.
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if COUNTS.get() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged; only a counter is added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(memory) }
    }
    unsafe fn alloc_zeroed(&self, memory: Memory) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(memory) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, memory: Memory, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, memory, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, memory) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations, on any thread that counts, while `work` runs.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    work();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

/// Steps before the count begins, and steps that are counted.
const WARM_UP: u64 = 3;
const STEPS: u64 = 20;

fn algorithms() -> Vec<(&'static str, Algorithm)> {
    let step = || StepSize::heavy_ball(1e-4, 0.9);
    let changing = Schedule::cosine(1e-4, 1e-5, 100).with_warm_up(5);
    let exploring = Santa { exploration: Exploration::Always, ..Santa::new(1e-4, 100) };
    vec![
        ("santa, exploring", exploring.clone().into()),
        ("santa, from exploring to refining", Santa::new(changing.clone(), 20).into()),
        ("santa-e, exploring", exploring.clone().euler().into()),
        (
            "santa, smoothed, corrected",
            Santa {
                smoothing: 0.4,
                corrections: Corrections::On { guard: 0.1 },
                ..exploring.clone()
            }
            .into(),
        ),
        ("santa, identity", Santa { metric: Metric::Identity, ..exploring }.into()),
        ("sgld", Sgld::new(Rate::lr(1e-4)).into()),
        ("psgld", Psgld::new(Rate::lr(1e-4)).into()),
        (
            "psgld, gamma",
            Psgld { gamma: Gamma::On { guard: 0.1 }, ..Psgld::new(Rate::lr(1e-4)) }.into(),
        ),
        ("sghmc", Sghmc::new(step()).into()),
        ("sgnht", Sgnht::new(step()).into()),
        ("msgnht", Msgnht::new(step()).into()),
        ("sgd", Sgd::new(changing).into()),
        ("nesterov", Sgd::new(1e-4).momentum(0.9).nesterov().into()),
        ("adagrad", Adagrad::new(1e-4).into()),
        ("adadelta", Adadelta::new(1e-4).into()),
        ("rmsprop", RmsProp::new(1e-4).into()),
        ("adam", Adam::new(1e-4).into()),
    ]
}

fn target(dim: usize) -> Target {
    let layout = Layout::new([("a", vec![dim / 3]), ("b", vec![dim - dim / 3])]).unwrap();
    Target::new(layout, DataSize::new(1000).unwrap(), Prior::gaussian(1.0)).unwrap()
}

/// Allocations of [`STEPS`] steps; clipping and the policies that check the gradient included.
fn of_steps(algorithm: Algorithm, dim: usize, clip: Clip, on_trouble: OnTrouble) -> u64 {
    let target = target(dim);
    let mut stepper = Stepper::<f32>::new(algorithm, &target, 1, 0)
        .and_then(|s| s.with_clip(clip))
        .and_then(|s| s.on_trouble(on_trouble))
        .unwrap();
    let mut theta = vec![0.1f32; dim];
    let gradient = vec![0.01f32; dim];
    for _ in 0..WARM_UP {
        stepper.step(&mut theta, &gradient).unwrap();
    }
    allocations(|| {
        for _ in 0..STEPS {
            stepper.step(&mut theta, &gradient).unwrap();
        }
    })
}

fn of_chain(potential: impl Potential<f64>, algorithm: impl Into<Algorithm>) -> u64 {
    let target = potential.target().clone();
    let stepper = Stepper::new(algorithm, &target, 1, 0).unwrap();
    let theta0 = vec![0.0; target.dim()];
    let mut thermometer = Thermometer::new(&target, &theta0).unwrap();
    let sampling = Sampling::ShuffledEpochs;
    let mut chain = Chain::new(potential, stepper, theta0, sampling, 1).unwrap();
    chain.advance(WARM_UP).unwrap();
    allocations(|| {
        chain.advance(STEPS).unwrap();
        chain.advance_measuring(STEPS, 2, &mut thermometer).unwrap();
        thermometer.warm_up(chain.theta()).unwrap();
    })
}

/// Makes both workers of a pool take work from each other once: rayon allocates a worker's
/// bookkeeping when it first looks for work, which may be late after the pool was built.
fn acquaint_workers() {
    let wait = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    let (taken, taken_back) = (AtomicBool::new(false), AtomicBool::new(false));
    rayon::join(
        || wait(&taken),
        || {
            taken.store(true, Ordering::Release);
            rayon::join(|| wait(&taken_back), || taken_back.store(true, Ordering::Release))
        },
    );
}

#[test]
fn nothing_is_allocated_once_a_run_is_set_up() {
    // The counter counts.
    COUNTS.set(true);
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);

    const SMALL: usize = 1_000;
    let roll_back = OnTrouble::RollBack { every: 2, at_most: 1 };
    for (name, algorithm) in algorithms() {
        for (clip, policy) in [
            (Clip::Off, OnTrouble::Stop),
            (Clip::Norm(0.01), OnTrouble::Skip { at_most: 3 }),
            (Clip::Value(0.01), roll_back),
        ] {
            let count = of_steps(algorithm.clone(), SMALL, clip, policy);
            assert_eq!(count, 0, "{name}, {clip:?}, {policy:?}");
        }
    }

    // On two threads, from within the pool: entering it from outside is rayon's business.
    const LARGE: usize = 300_000;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .start_handler(|_| COUNTS.set(true))
        .build()
        .unwrap();
    pool.install(|| {
        acquaint_workers();
        for (name, algorithm) in algorithms() {
            let count = of_steps(algorithm, LARGE, Clip::Norm(0.01), OnTrouble::Stop);
            assert_eq!(count, 0, "{name}, two threads");
        }
    });

    let gaussian = Gaussian::diagonal(&[1.0; SMALL]).unwrap();
    assert_eq!(of_chain(gaussian, Msgnht::new(StepSize::paper(0.01, 1.0))), 0, "gaussian");
    let well = DoubleWell::new(SMALL).unwrap();
    assert_eq!(of_chain(well, Sgld::new(Rate::eta(0.01))), 0, "double well");
    let stream = Stream::new(1, 0, Purpose::Data);
    let regression = LinearRegression::synthetic(30, 5, 1.0, 1.0, &stream).unwrap().0;
    assert_eq!(of_chain(regression, Sgd::new(1e-3)), 0, "linear regression");

    for sampling in
        [Sampling::ShuffledEpochs, Sampling::WithReplacement, Sampling::Sequential, Sampling::Full]
    {
        let n = DataSize::new(1000).unwrap();
        let mut batches = Minibatches::new(n, 64, sampling, 1, 0).unwrap();
        // More than an epoch.
        let count = allocations(|| {
            for _ in 0..STEPS {
                std::hint::black_box(batches.next());
            }
        });
        assert_eq!(count, 0, "{sampling:?}");
    }
}
