//! What a team promises, by the processes of a job: `mpirun -n K` this.

use santa::noise::{Purpose, Stream};
use santa::potential::analytic::LinearRegression;
use santa::{Chain, Potential, Sampling, Santa};
use santa_distributed::{Shared, Summing, Team, Threads};
use santa_mpi::World;
use std::time::Duration;

fn main() {
    let world = World::join(Duration::from_secs(30)).unwrap();
    let (me, size) = (world.rank(), world.size());
    sums(&world);
    messages(&world);
    trajectories(&world);
    world.wait().unwrap();
    if me == 0 {
        println!("the team of {size} keeps its promises");
    }
}

fn sums(world: &World) {
    let (me, size) = (world.rank() as f64, world.size() as f64);
    let expected = size * (size - 1.0) / 2.0;
    let mut values = vec![me; 1000];
    world.sum_f64(&mut values).unwrap();
    assert!(values.iter().all(|x| *x == expected));
    let mut sum = vec![0.0f32; 3];
    world.sum_into_f32(&[me as f32, 1.0, f32::NAN], &mut sum).unwrap();
    assert_eq!(sum[..2], [expected as f32, size as f32]);
    assert!(sum[2].is_nan());
    world.sum_f32(&mut []).unwrap();

    let pieces = [vec![me as f32; 7], vec![1.0; 5]];
    let mut places = [vec![0.0f32; 7], vec![0.0; 5]];
    let mut slots: Vec<_> = pieces.iter().zip(&mut places).collect();
    world
        .sum_pieces_f32(&mut |hand_over| {
            slots.drain(..).for_each(|(piece, place)| hand_over(piece, place));
            Ok(())
        })
        .unwrap();
    drop(slots);
    assert_eq!(places, [vec![expected as f32; 7], vec![size as f32; 5]]);
}

fn messages(world: &World) {
    let (me, size) = (world.rank(), world.size());
    // One of no length, and none of any length at all.
    let all = world.gather(&vec![me as u8; me]).unwrap();
    assert!((0..size).all(|rank| all[rank] == vec![rank as u8; rank]));
    assert!(world.gather(&[]).unwrap().iter().all(Vec::is_empty));

    let letters: Vec<Vec<u8>> = (0..size).map(|to| vec![me as u8; (me + to) % 3]).collect();
    let letters: Vec<&[u8]> = letters.iter().map(Vec::as_slice).collect();
    let received = world.exchange(&letters).unwrap();
    assert!((0..size).all(|from| received[from] == vec![from as u8; (from + me) % 3]));
    let nothing: Vec<&[u8]> = vec![&[]; size];
    assert!(world.exchange(&nothing).unwrap().iter().all(Vec::is_empty));

    let last = size - 1;
    let mut message = if me == last { vec![7; 100_000] } else { Vec::new() };
    world.broadcast(last, &mut message).unwrap();
    assert_eq!(message, vec![7; 100_000]);
    world.broadcast(0, &mut Vec::new()).unwrap();
}

/// Processes follow the trajectory of threads.
fn trajectories(world: &World) {
    let stream = Stream::new(1, 0, Purpose::Data);
    let (model, _) = LinearRegression::synthetic(500, 4, 1.0, 1.0, &stream).unwrap();
    fn walk(model: LinearRegression, team: impl Team) -> Vec<f64> {
        let shared = Shared::new(model, team, Summing::Ordered { parts: 8 }).unwrap();
        let stepper = Santa::new(1e-2, 100).init(shared.target(), 42).unwrap();
        let sampling = Sampling::ShuffledEpochs;
        let mut chain = Chain::new(shared, stepper, vec![0.0f64; 4], sampling, 64).unwrap();
        chain.advance(100).unwrap();
        chain.theta().to_vec()
    }
    let here = walk(model.clone(), world);
    assert!(Threads::run(3, |team| walk(model.clone(), team)).iter().all(|theta| *theta == here));
}
