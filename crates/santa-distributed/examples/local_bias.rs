//! The bias of local steps between averagings, against an exact posterior.
//!
//! ```text
//! cargo run --release -p santa-distributed --example local_bias > results/mpi/local-steps.md
//! ```
//!
//! Linear regression, 1,000 data, 3 parameters; teams of threads. Many independent chains lie in one
//! vector, so that a team of a few thousand steps gives a few ten thousand samples.

use santa::dynamics::{Metric, Sgld};
use santa::noise::{Purpose, Stream};
use santa::potential::analytic::LinearRegression;
use santa::stats::Moments;
use santa::{
    Algorithm, Batch, Chain, DataSize, Layout, Potential, Prior, Rate, Sampling, Santa, StepSize,
    Stepper, Target,
};
use santa_distributed::local::law::{Affine, Law, Noise, Quadratic};
use santa_distributed::{Division, LocalSteps, Own, Result, Solo, Team, Threads};

const N: usize = 1_000;
const DIM: usize = 3;
const NOISE_VARIANCE: f64 = 1.0;
const PRIOR_PRECISION: f64 = 1.0;
const EVERY: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
const TEAMS: [usize; 3] = [2, 4, 8];
/// Of all members together, where they share the data.
const BATCH: usize = 64;
/// Chains in one vector.
const CHAINS: usize = 500;
/// Between two samples of a chain; a multiple of every H.
const PERIOD: u64 = 64;
/// Samples of a chain that are left out, and that count.
const WARM_UP: u64 = 8;
const SAMPLES: u64 = 32;
const SEED: u64 = 2016;
/// Step sizes in the posterior's units: $\eta\kappa$ of SGLD, $h = \sqrt{\eta\kappa}$ of Santa, with the
/// mean precision $\kappa$; and the friction of Santa.
const SGLD_RATE: f64 = 0.02;
const SANTA_STEP: f64 = 0.1;
const FRICTION: f64 = 1.5;

/// What the members' gradients are of.
#[derive(Clone, Copy, PartialEq)]
enum Data {
    /// All of the own data, which are of another kind than those of the others.
    Own,
    /// Minibatches of common data.
    Common,
}

/// What comes out, for the coordinate where it is worst, with a standard error.
struct Bias {
    /// In standard deviations of the posterior.
    mean: (f64, f64),
    /// Variance over the exact one, minus 1.
    variance: (f64, f64),
}

fn main() -> Result<()> {
    let model = regression()?;
    let (mean, covariance) = model.posterior()?;
    let exact = Law { mean, covariance };
    let kappa = (0..DIM).map(|i| 1.0 / exact.variance(i)).sum::<f64>() / DIM as f64;
    let sgld: Algorithm = Sgld::new(Rate::eta(SGLD_RATE / kappa)).into();
    let step = StepSize::paper(SANTA_STEP * SANTA_STEP / kappa, FRICTION * kappa.sqrt());
    let santa: Algorithm = Santa { metric: Metric::Identity, ..Santa::sampler(step, 1) }.into();

    println!("# Local steps between averagings: the bias against the exact posterior\n");
    println!("`cargo run --release -p santa-distributed --example local_bias`\n");
    println!(
        "Linear regression, {N} data, {DIM} parameters. K members make H steps each, all with the same \
         noise, and then average their parameters and the state of their dynamics; the averages are the \
         samples. SGLD with ηκ = {SGLD_RATE}, κ being the posterior's mean precision; `Santa::sampler` \
         without a metric, with h = √(ηκ) = {SANTA_STEP} and a friction of {FRICTION} in the posterior's \
         units. *mean*: distance from the exact mean in standard deviations of the posterior, where it is \
         largest. *variance*: variance over the exact one, minus 1, in percent, where it is furthest from \
         0. After ± one standard error; the largest of three coordinates is not 0 even without a bias. \
         The cells of a row have their random numbers in common: differences along it are surer than that. \
         One member is the synchronous chain."
    );
    for data in [Data::Own, Data::Common] {
        match data {
            Data::Own => println!(
                "\n## Every member has its own data, and uses all of them\n\n\
                 The data are divided in order. The features shrink from 1.5 to 0.5 times their size from the \
                 first datum to the last, and the first coefficient rises from -0.25 to 0.25: the members \
                 disagree about the parameters, and about how well they know them. The rows *exact* are from \
                 the linear recursion, without sampling.\n"
            ),
            Data::Common => println!(
                "\n## Minibatches of common data\n\n\
                 Batches of {BATCH}, drawn with replacement; each member has {BATCH}/K of them. SGLD does not \
                 know of their noise and is too wide even alone; Santa's thermostats remove it, and begin with the \
                 friction that does.\n"
            ),
        }
        print!("| dynamics | K | |");
        EVERY.iter().for_each(|every| print!(" H = {every} |"));
        print!("\n| --- | ---: | --- |");
        EVERY.iter().for_each(|_| print!(" ---: |"));
        println!();
        for algorithm in [&sgld, &santa] {
            let name = algorithm.name();
            rows(name, 1, &[simulate(&model, algorithm, data, 1, 1, &exact)?]);
            for size in TEAMS {
                let cells: Result<Vec<_>> = EVERY
                    .iter()
                    .map(|every| simulate(&model, algorithm, data, size, *every, &exact))
                    .collect();
                rows(name, size, &cells?);
                if data == Data::Own && name == sgld.name() {
                    let members = parts(&model, size)?;
                    let steps: Vec<Affine> =
                        members.iter().map(|q| Affine::sgld(q, SGLD_RATE / kappa, 1.0)).collect();
                    let cells: Result<Vec<_>> = EVERY
                        .iter()
                        .map(|every| {
                            let law = Law::of_averages(&steps, *every, Noise::Shared)?;
                            Ok(bias(&exact, |i| ((law.mean[i], 0.0), (law.variance(i), 0.0))))
                        })
                        .collect();
                    rows("sgld, exact", size, &cells?);
                }
            }
        }
    }
    Ok(())
}

/// Data whose features and first coefficient change along their order.
fn regression() -> santa::Result<LinearRegression> {
    const SLOPE: f64 = 0.5;
    let stream = Stream::new(SEED, 0, Purpose::Data);
    let (even, _) = LinearRegression::synthetic(N, DIM, NOISE_VARIANCE, PRIOR_PRECISION, &stream)?;
    let (mut features, mut responses) = (Vec::with_capacity(N * DIM), even.responses().to_vec());
    for (i, y) in responses.iter_mut().enumerate() {
        let place = (i as f64 + 0.5) / N as f64;
        let scale = 1.5 - place;
        let row: Vec<f64> = even.features(i).iter().map(|x| scale * x).collect();
        // The responses are those of the features as they were; now the slope is on top.
        *y += SLOPE * (place - 0.5) * row[0];
        features.extend(row);
    }
    LinearRegression::new(features, responses, NOISE_VARIANCE, PRIOR_PRECISION)
}

/// The potentials of members with their own data.
fn parts(model: &LinearRegression, size: usize) -> Result<Vec<Quadratic>> {
    Threads::run(size, |team| Quadratic::of(&mut Own::new(model.clone(), &team, Division::Data)))
        .into_iter()
        .collect()
}

/// Independent copies of the parameters, one after another.
struct Copies<'a> {
    target: Target,
    model: &'a LinearRegression,
    gradients: Gradients,
}

enum Gradients {
    /// Of a quadratic potential.
    Whole(Quadratic),
    /// Of data that are drawn anew for every copy and step: the stream, and room for them.
    Drawn(Stream, Vec<u32>),
}

impl Potential<f64> for Copies<'_> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn loss_gradient(
        &mut self,
        theta: &[f64],
        batch: &Batch<'_>,
        gradient: &mut [f64],
    ) -> santa::Result<f64> {
        let copies = theta.chunks_exact(DIM).zip(gradient.chunks_exact_mut(DIM));
        for (copy, (theta, gradient)) in copies.enumerate() {
            match &mut self.gradients {
                Gradients::Whole(q) => {
                    for (i, g) in gradient.iter_mut().enumerate() {
                        let row = &q.curvature[i * DIM..(i + 1) * DIM];
                        *g = (dot(row, theta) - q.pull[i]) / N as f64;
                    }
                }
                Gradients::Drawn(stream, indices) => {
                    stream.fill_below(batch.step(), copy as u32, N as u32, indices);
                    for (g, x) in gradient.iter_mut().zip(theta) {
                        *g = PRIOR_PRECISION / N as f64 * x;
                    }
                    let weight = 1.0 / (indices.len() as f64 * NOISE_VARIANCE);
                    for i in indices.iter().map(|i| *i as usize) {
                        let x = self.model.features(i);
                        let residual = weight * (dot(x, theta) - self.model.responses()[i]);
                        gradient.iter_mut().zip(x).for_each(|(g, x)| *g += residual * x);
                    }
                }
            }
        }
        Ok(0.0)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Runs a team, and compares what it samples with the exact law.
fn simulate(
    model: &LinearRegression,
    algorithm: &Algorithm,
    data: Data,
    size: usize,
    every: u64,
    exact: &Law,
) -> Result<Bias> {
    let quadratics = if size == 1 { vec![whole(model)?] } else { parts(model, size)? };
    let walk = |team: Threads| -> Result<Vec<[Moments; 2]>> {
        let rank = team.rank();
        // The prior is in the gradients.
        let target =
            Target::new(Layout::flat(CHAINS * DIM)?, DataSize::new(N as u64)?, Prior::Flat)?;
        let gradients = match data {
            Data::Own => Gradients::Whole(quadratics[rank].clone()),
            Data::Common => {
                let stream = Stream::new(SEED, rank as u32, Purpose::Custom(0));
                Gradients::Drawn(stream, vec![0; BATCH / size])
            }
        };
        let mut stepper = Stepper::new(algorithm.clone(), &target, SEED, 0)?;
        if let (Data::Common, Some(physics)) = (data, stepper.physics(0)?) {
            // Thermostats begin where they have learnt the noise of the batches, which takes long.
            let variance = gradient_variance(model, exact);
            let known = |i: usize| 0.5 * physics.eta * variance[i % DIM];
            if let Some(shift) = stepper.state_vector_mut("alpha_shift") {
                shift.iter_mut().enumerate().for_each(|(i, shift)| *shift = known(i));
            }
        }
        let start: Vec<f64> = exact.mean.repeat(CHAINS);
        let copies = Copies { target, model, gradients };
        let chain = Chain::new(copies, stepper, start, Sampling::Full, 1)?;
        let mut local = LocalSteps::new(chain, team, every)?;
        local.advance(WARM_UP * PERIOD)?;
        // Means over time of each chain and of its squares, about the exact mean.
        let mut sums = vec![[0.0; 2]; CHAINS * DIM];
        for _ in 0..SAMPLES {
            local.advance(PERIOD)?;
            for (i, (sum, x)) in sums.iter_mut().zip(local.chain().theta()).enumerate() {
                let offset = x - exact.mean[i % DIM];
                sum[0] += offset / SAMPLES as f64;
                sum[1] += offset * offset / SAMPLES as f64;
            }
        }
        let moments = |i: usize| {
            let own = || sums.iter().skip(i).step_by(DIM);
            let offset: Moments = own().map(|sum| sum[0]).collect();
            let shift = offset.mean();
            [offset, own().map(|sum| sum[1] - shift * (2.0 * sum[0] - shift)).collect()]
        };
        Ok((0..DIM).map(moments).collect())
    };
    let moments = Threads::run(size, walk).swap_remove(0)?;
    Ok(bias(exact, |i| {
        let [offset, square] = &moments[i];
        (
            (exact.mean[i] + offset.mean(), offset.standard_error()),
            (square.mean(), square.standard_error()),
        )
    }))
}

/// The variance that batches add to the gradient of U, at the posterior's mean.
fn gradient_variance(model: &LinearRegression, exact: &Law) -> Vec<f64> {
    let term = |n: usize, i: usize| {
        let x = model.features(n);
        x[i] * (dot(x, &exact.mean) - model.responses()[n]) / NOISE_VARIANCE
    };
    let of_one = |i: usize| (0..N).map(|n| term(n, i)).collect::<Moments>().variance();
    (0..DIM).map(|i| (N * N) as f64 / BATCH as f64 * of_one(i)).collect()
}

/// The potential of all data.
fn whole(model: &LinearRegression) -> Result<Quadratic> {
    Quadratic::of(&mut Own::new(model.clone(), &Solo, Division::Data))
}

/// The worst coordinate, from the mean and the variance of each with their standard errors.
fn bias(exact: &Law, of: impl Fn(usize) -> ((f64, f64), (f64, f64))) -> Bias {
    let worst = |pick: &dyn Fn(usize) -> (f64, f64)| {
        (0..DIM)
            .map(pick)
            .fold((0.0, 0.0), |a: (f64, f64), b| if b.0.abs() > a.0.abs() { b } else { a })
    };
    Bias {
        mean: worst(&|i| {
            let sd = exact.variance(i).sqrt();
            ((of(i).0.0 - exact.mean[i]).abs() / sd, of(i).0.1 / sd)
        }),
        variance: worst(&|i| {
            let variance = exact.variance(i);
            (of(i).1.0 / variance - 1.0, of(i).1.1 / variance)
        }),
    }
}

/// Two rows of the table; a single cell stands for all.
fn rows(name: &str, size: usize, cells: &[Bias]) {
    const PERCENT: f64 = 100.0;
    let row = |what: &str, show: &dyn Fn(&Bias) -> String| {
        print!("| {name} | {size} | {what} |");
        cells.iter().for_each(|cell| print!(" {} |", show(cell)));
        (cells.len()..EVERY.len()).for_each(|_| print!(" |"));
        println!();
    };
    let with_error = |error: String, is_exact: bool| {
        if is_exact { String::new() } else { format!(" ± {error}") }
    };
    row("mean", &|cell| {
        let (value, error) = cell.mean;
        format!("{value:.3}{}", with_error(format!("{error:.3}"), error == 0.0))
    });
    row("variance, %", &|cell| {
        let (value, error) = cell.variance;
        let shown = with_error(format!("{:.1}", PERCENT * error), error == 0.0);
        format!("{:.1}{shown}", PERCENT * value)
    });
}
