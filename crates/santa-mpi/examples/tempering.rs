//! Parallel tempering over processes: modes that are far apart, in 20 dimensions, with the rungs of the
//! ladder divided among the processes.
//!
//! ```sh
//! cargo build --release -p santa-mpi --example tempering
//! mpirun -n 4 target/release/examples/tempering
//! ```

use santa::dynamics::Sghmc;
use santa::potential::Potential;
use santa::potential::analytic::Mixture;
use santa::{Chain, InverseTemperature, Sampling, StepSize, Stepper};
use santa_distributed::Team;
use santa_distributed::tempering::Tempering;
use santa_mpi::World;
use std::time::Duration;

const DIM: usize = 20;
/// Where the two modes are, in every coordinate.
const AT: f64 = 2.0;
/// How much the right one weighs.
const WEIGHT: f64 = 0.75;
const RUNGS: usize = 12;
const WARM_UP: u64 = 2_000;
const ROUNDS: u64 = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::join(Duration::from_secs(60))?;
    let means: Vec<f64> = [-AT, AT].into_iter().flat_map(|at| [at; DIM]).collect();
    let mixture = || Mixture::new(DIM, &[1.0 - WEIGHT, WEIGHT], &means, &[1.0]);
    let settings = Tempering { swap_every: 10, ..Tempering::geometric(1.0, 0.02, RUNGS) };
    let mut replicas = settings.init(&world, |rung, beta| {
        let mixture = mixture()?;
        let sghmc = Sghmc::new(StepSize::paper(0.04, 2.0)).beta(InverseTemperature::fixed(beta));
        let stepper = Stepper::new(sghmc, Potential::<f64>::target(&mixture), settings.seed, rung)?;
        Chain::new(mixture, stepper, vec![-AT; DIM], Sampling::Full, 1)
    })?;
    replicas.advance(WARM_UP)?;
    let mut right = 0u32;
    replicas.advance_with(ROUNDS, |round| {
        right += u32::from(round.coldest.is_some_and(|theta| theta[0] > 0.0));
    })?;
    // The coldest rung is with the first process.
    if world.rank() == 0 {
        let statistics = replicas.statistics();
        let share = f64::from(right) / ROUNDS as f64;
        println!("{RUNGS} rungs on {} processes, all begun in the left mode", world.size());
        println!("share of the right mode: {share:.3} (exact: {WEIGHT})");
        let accepted: Vec<String> =
            statistics.acceptance().iter().map(|a| format!("{a:.2}")).collect();
        println!("accepted swaps between neighbours: {}", accepted.join(" "));
        println!("round trips: {}", statistics.round_trips().iter().sum::<u64>());
    }
    Ok(())
}
