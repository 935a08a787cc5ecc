//! Times of one optimizer step, without forward and backward pass.

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use santa::dynamics::Adam;
use santa::noise::{Purpose, Stream};
use santa::{DataSize, Santa};
use santa_candle::{Dynamics, ParamsDynamics};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The paper's networks.
const NETWORKS: [[usize; 4]; 2] = [[784, 400, 400, 10], [784, 800, 800, 10]];
/// The rows take turns, so that a machine that slows down slows all; the best round of each counts.
const ROUNDS: usize = 20;
/// Of each row in each round.
const ROUND: Duration = Duration::from_millis(100);
/// MNIST's N.
const DATA: u64 = 60_000;
/// More than the steps of any row: Santa explores in the first half.
const FOR_EVER: u64 = 1 << 40;

/// Prints a Markdown table.
pub fn table(allocator: &str) -> Result<()> {
    println!("| network | optimizer step, {allocator} | ms | AdamW of candle-nn takes |");
    println!("| --- | --- | --- | --- |");
    for sizes in NETWORKS {
        let network = sizes.map(|size| size.to_string()).join("-");
        let mut rows = rows(&sizes)?;
        let mut best = vec![f64::INFINITY; rows.len()];
        for _ in 0..ROUNDS {
            for ((_, step), best) in rows.iter_mut().zip(&mut best) {
                let (start, mut steps) = (Instant::now(), 0);
                while start.elapsed() < ROUND {
                    step()?;
                    steps += 1;
                }
                *best = best.min(start.elapsed().as_secs_f64() / f64::from(steps));
            }
        }
        for ((name, _), time) in rows.iter().zip(&best) {
            println!("| {network} | {name} | {:.3} | {:.1} x |", time * 1e3, best[0] / time);
        }
    }
    Ok(())
}

type Row = (&'static str, Box<dyn FnMut() -> Result<()>>);

fn rows(sizes: &[usize]) -> Result<Vec<Row>> {
    let n = DataSize::new(DATA).map_err(candle_core::Error::wrap)?;
    let adamw = ParamsAdamW { lr: 1e-4, ..ParamsAdamW::default() };
    let ours_adamw = Adam::new(1e-4).with_decoupled_weight_decay(adamw.weight_decay);
    let ours = |params| row::<Dynamics>(sizes, params);
    let mut exploring = Santa::new(1e-4, FOR_EVER);
    exploring.beta = santa::InverseTemperature::posterior();
    Ok(vec![
        ("AdamW of candle-nn", row::<AdamW>(sizes, adamw)?),
        ("AdamW of santa-candle", ours(ParamsDynamics::new(ours_adamw, n))?),
        ("Santa, exploring", ours(ParamsDynamics::new(exploring, n))?),
        ("Santa, refining", ours(ParamsDynamics::new(Santa::new(1e-4, 0), n))?),
    ])
}

/// Steps of an optimizer over variables of its own, always with the same gradients.
fn row<O: Optimizer + 'static>(
    sizes: &[usize],
    config: O::Config,
) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let vars = sizes
        .windows(2)
        .flat_map(|pair| [vec![pair[1], pair[0]], vec![pair[1]]])
        .map(|shape| Var::zeros(shape, DType::F32, &Device::Cpu))
        .collect::<Result<Vec<_>>>()?;
    let grads = gradients(&vars)?;
    let mut optimizer = O::new(vars, config)?;
    Ok(Box::new(move || optimizer.step(black_box(&grads))))
}

fn gradients(vars: &[Var]) -> Result<GradStore> {
    let mut store = Tensor::new(0f32, &Device::Cpu)?.backward()?;
    let stream = Stream::new(1, 0, Purpose::Data);
    for (segment, var) in (0u32..).zip(vars) {
        let mut values = vec![0f32; var.elem_count()];
        stream.normals(0, segment, 0, &mut values);
        store.insert(var, Tensor::from_vec(values, var.shape(), &Device::Cpu)?);
    }
    Ok(store)
}
