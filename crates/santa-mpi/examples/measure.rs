//! Where the time of a step goes with several processes, and how long sums take: the figures from which
//! `santa_distributed::scaling` predicts larger clusters.
//!
//! ```sh
//! cargo build --release -p santa-mpi --example measure
//! mpirun -n 2 target/release/examples/measure results/mpi/measured.json
//! ```
//!
//! One thread in each process; data are made up.

use santa::noise::{Purpose, Stream};
use santa::{Batch, Potential, Prior, Santa, Stepper};
use santa_distributed::scaling::{AllReduceTime, MeasuredStep, Measurements};
use santa_distributed::{Shared, Summing, Team};
use santa_mpi::World;
use santa_nn::{
    Architecture, Classifier, Examples, GruArchitecture, Normalisation, PianoRolls, SequenceModel,
};
use std::path::Path;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Time for each length of a sum.
const ENOUGH: Duration = Duration::from_millis(500);
/// Sums before the clock starts.
const WARM_UP: usize = 5;
/// Steps of each model.
const STEPS: usize = 200;
const PIXELS: usize = 784;
const IMAGES: usize = 2_000;
const KEYS: usize = 88;
/// Steps of a piece, as in JSB.
const LENGTH: usize = 60;
const PIECES: usize = 200;

fn images() -> santa::Result<Examples> {
    let stream = Stream::new(1, 0, Purpose::Data);
    // As dark as digits: four pixels of five are zero.
    let pixel = |i: usize| match stream.uniform(0, 0, i as u32) {
        x if x < 0.8 => 0,
        x => (x * 255.0) as u8,
    };
    let labels: Vec<u8> = (0..IMAGES).map(|i| (i % 10) as u8).collect();
    let pixels: Vec<u8> = (0..IMAGES * PIXELS).map(pixel).collect();
    Ok(Examples::from_bytes(pixels, PIXELS, labels)?.scaled(1.0 / 255.0))
}

fn music() -> santa::Result<PianoRolls> {
    let stream = Stream::new(2, 0, Purpose::Data);
    let cells = PIECES * LENGTH * KEYS;
    let down: Vec<u8> =
        (0..cells).map(|i| u8::from(stream.uniform(0, 0, i as u32) < 0.05)).collect();
    let offsets: Vec<usize> = (0..=PIECES).map(|i| i * LENGTH).collect();
    PianoRolls::new(KEYS, down, offsets)
}

/// The middle one: what a step takes when nobody else needs the machine.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The times of a step of one model: of one rank alone, and of all together, in turns, so that both meet
/// the same machine.
fn step<P: Potential<f32>>(
    world: &World,
    name: &str,
    batch: usize,
    theta: Vec<f32>,
    mut model: P,
) -> Outcome<[MeasuredStep; 2]> {
    let n = model.target().data_size().get() as usize;
    let indices = |step: usize| -> Vec<u32> {
        (0..batch).map(|i| ((step * batch + i * 7) % n) as u32).collect()
    };
    let mut groups = Vec::new();
    let (mut theta, mut gradient) = (theta, vec![0.0; model.target().dim()]);
    let mut note = |_, piece: &mut [f32]| groups.push(piece.len() as u64);
    model.loss_gradient_pieces(&theta, &Batch::of(&indices(0)), &mut gradient, &mut note)?;
    for summing in [Summing::Once, Summing::Overlapped, Summing::Ordered { parts: 8 }] {
        let mut shared = Shared::new(&mut model, world, summing)?;
        let mut times = Vec::new();
        for s in 0..STEPS {
            let started = Instant::now();
            shared.loss_gradient(&theta, &Batch::of(&indices(s)), &mut gradient)?;
            times.push(1e3 * started.elapsed().as_secs_f64());
        }
        if world.rank() == 0 {
            let ms = median(times);
            println!("{name}, batch {batch}: a gradient in {ms:.3} ms, {summing:?}");
        }
    }
    let mut stepper: Stepper<f32> = Santa::new(1e-4, 1_000_000).init(model.target(), 1)?;
    let mut shared = Shared::new(model, world, Summing::Once)?.measuring(true);
    let (mut alone, mut times) = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for s in 0..STEPS {
        let indices = indices(s);
        let batch = Batch::of(&indices).seeded(1, 0).at_step(s as u64 + 1);
        let started = Instant::now();
        if world.rank() == 0 {
            shared.potential_mut().loss_gradient(&theta, &batch, &mut gradient)?;
        }
        let computing = started.elapsed();
        world.wait()?;
        let before = shared.timing();
        shared.loss_gradient(&theta, &batch, &mut gradient)?;
        let (after, started) = (shared.timing(), Instant::now());
        stepper.step(&mut theta, &gradient)?;
        let stepping = started.elapsed();
        alone.push((computing + stepping).as_secs_f64());
        times[0].push((after.compute - before.compute + stepping).as_secs_f64());
        times[1].push((after.wait - before.wait).as_secs_f64());
        times[2].push((after.communicate - before.communicate).as_secs_f64());
    }
    // The mean over the ranks, which differ in how long they wait.
    let mut times = times.map(median);
    world.sum_f64(&mut times)?;
    let mut alone = [if world.rank() == 0 { median(alone) } else { 0.0 }];
    world.sum_f64(&mut alone)?;
    let [compute_s, wait_s, communicate_s] = times.map(|time| time / world.size() as f64);
    let together = MeasuredStep {
        model: name.into(),
        ranks: world.size() as u64,
        batch: batch as u64,
        parameters: theta.len() as u64,
        compute_s,
        wait_s,
        communicate_s,
        groups,
    };
    let none = MeasuredStep { ranks: 1, wait_s: 0.0, communicate_s: 0.0, ..together.clone() };
    let alone = MeasuredStep { compute_s: alone[0], ..none };
    if world.rank() == 0 {
        println!(
            "{name}, batch {batch}: alone {:.3} ms; {} ranks: compute {:.3}, wait {:.3}, communicate {:.3}",
            1e3 * alone.compute_s,
            world.size(),
            1e3 * compute_s,
            1e3 * wait_s,
            1e3 * communicate_s
        );
    }
    Ok([alone, together])
}

fn all_reduce(world: &World, bytes: usize) -> Outcome<AllReduceTime> {
    let values = vec![1e-3f32; bytes / 4];
    let mut sum = values.clone();
    for _ in 0..WARM_UP {
        world.sum_into_f32(&values, &mut sum)?;
    }
    // As many as take long enough, by the clock of rank 0.
    let started = Instant::now();
    world.sum_into_f32(&values, &mut sum)?;
    let mut count = [match world.rank() {
        0 => (ENOUGH.as_secs_f64() / started.elapsed().as_secs_f64()).clamp(10.0, 20_000.0),
        _ => 0.0,
    }];
    world.sum_f64(&mut count)?;
    let count = count[0] as usize;
    let started = Instant::now();
    for _ in 0..count {
        world.sum_into_f32(&values, &mut sum)?;
    }
    let seconds = started.elapsed().as_secs_f64() / count as f64;
    if world.rank() == 0 {
        println!("sum of {bytes} bytes: {:.1} us", 1e6 * seconds);
    }
    Ok(AllReduceTime { ranks: world.size() as u64, bytes: bytes as f64, seconds })
}

fn main() -> Outcome<()> {
    let world = World::join(Duration::from_secs(60))?;
    let path = std::env::args().nth(1).ok_or("say where to write: measure FILE")?;
    if world.size() == 1 {
        return Err("start it with `mpirun -n 2`, or more".into());
    }
    let (images, music) = (images()?, music()?);
    let mut found = Measurements { steps: Vec::new(), all_reduce: Vec::new() };
    let classifiers = [
        ("FNN-400", Architecture::dense(&[PIXELS, 400, 400, 10]), [50, 100, 200]),
        ("CNN", Architecture::paper_cnn(), [50, 100, 200]),
    ];
    for (name, architecture, batches) in classifiers {
        for batch in batches {
            let model = Classifier::new(&architecture, images.clone(), Prior::gaussian(1.0))?;
            let theta = model.initial(1, 0).to_vec();
            found.steps.extend(step(&world, name, batch, theta, model)?);
        }
    }
    for batch in [5, 10, 20] {
        let architecture = GruArchitecture { keys: KEYS, hidden: 200 };
        let (mean, prior) = (Normalisation::SequenceMean, Prior::gaussian(1.0));
        let model = SequenceModel::new(architecture, music.clone(), mean, prior)?;
        let theta = model.initial(1, 0).to_vec();
        found.steps.extend(step(&world, "GRU-200", batch, theta, model)?);
    }
    for power in (2..=26).step_by(2) {
        found.all_reduce.push(all_reduce(&world, 1 << power)?);
    }
    if world.rank() == 0 {
        write(Path::new(&path), found)?;
    }
    Ok(())
}

fn write(path: &Path, found: Measurements) -> Outcome<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(std::fs::write(path, serde_json::to_string_pretty(&found)? + "\n")?)
}
