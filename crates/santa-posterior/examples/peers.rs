//! Our side of the comparison with other samplers: see `benches/peers`.
//!
//! `peers PROBLEM_DIR OUT_DIR --seconds S --chains N` reads a problem, samples it for so many seconds,
//! warm-up included, and leaves the draws as `.npy` with a `.json` about them.

use santa::dynamics::{Algorithm, Metric as SantaMetric};
use santa::{InverseTemperature, Prior, Sampling, Santa, StepSize};
use santa_nn::{Architecture, Classifier, Examples};
use santa_posterior::regression::{Design, Family, Regression, Scaling};
use santa_posterior::sampler::{
    Member, Parameters, Posterior, Recorder, Sampler, Scales, Stage, Watch,
};
use serde_json::{Value, json};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let options = Options::read()?;
    let problem: Value =
        serde_json::from_str(&fs::read_to_string(options.problem.join("problem.json"))?)?;
    match problem["kind"].as_str() {
        Some("logistic") => logistic(&options, &problem),
        Some("network") => network(&options, &problem),
        other => Err(format!("a problem of the unknown kind {other:?}").into()),
    }
}

struct Options {
    problem: PathBuf,
    out: PathBuf,
    seconds: f64,
    chains: u32,
    batch: Option<usize>,
    step: Option<f64>,
    thin: Option<u64>,
    seed: u64,
}

impl Options {
    fn read() -> Outcome<Self> {
        let mut folders = Vec::new();
        let mut options = Options {
            problem: PathBuf::new(),
            out: PathBuf::new(),
            seconds: 20.0,
            chains: 2,
            batch: None,
            step: None,
            thin: None,
            seed: 1,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let Some(name) = argument.strip_prefix("--") else {
                folders.push(PathBuf::from(argument));
                continue;
            };
            let value = arguments.next().ok_or(format!("--{name} needs a value"))?;
            match name {
                "seconds" => options.seconds = value.parse()?,
                "chains" => options.chains = value.parse()?,
                "batch" => options.batch = Some(value.parse()?),
                "step" => options.step = Some(value.parse()?),
                "thin" => options.thin = Some(value.parse()?),
                "seed" => options.seed = value.parse()?,
                _ => return Err(format!("there is no option --{name}").into()),
            }
        }
        let [problem, out] = folders.as_slice() else {
            return Err("two folders are needed: the problem's, and one for the draws".into());
        };
        (options.problem, options.out) = (problem.clone(), out.clone());
        Ok(options)
    }
}

/// Stops a run after some time.
struct Until(Instant);

impl Watch for Until {
    fn progress(&self, _: u32, _: Stage, _: u64, _: u64) {}
    fn stop(&self) -> bool {
        Instant::now() >= self.0
    }
}

/// More draws than there is time for.
const MANY: u64 = u64::MAX;

/// Logistic regression: minibatches around the mode, in coordinates in which the posterior is round.
fn logistic(options: &Options, problem: &Value) -> Outcome<()> {
    let (x, shape) = read_npy(&options.problem.join("x.npy"))?;
    let (y, _) = read_npy(&options.problem.join("y.npy"))?;
    let d = shape[1];
    let precision = problem["prior_precision"].as_f64().ok_or("no prior_precision")?;

    let names = (0..d).map(|i| format!("theta[{i}]"));
    let design = Design::new(names, &x, false, Scaling::Original)?;
    let model = Regression::<f32>::new(design, &y, Family::logistic(), Prior::gaussian(precision))?;
    let laplace = model.laplace()?;
    let scales = Scales::<f32>::dense(&laplace.mode, &laplace.covariance())?;
    let start: Vec<f32> = laplace.mode.iter().map(|x| *x as f32).collect();
    let model = model.with_anchor(&laplace.mode)?;
    // With many coefficients the coordinates cost more than the data, and the posterior of sevens and
    // nines is less like a normal one: a shorter step. Chosen among a few, as those of the others are.
    let (batch, thin, step) = if d > 128 { (1_000, 4, 0.25) } else { (100, 2, 1.0) };
    let batch = options.batch.unwrap_or(batch);
    let sampler = Sampler {
        chains: options.chains,
        draws: MANY,
        warm_up: 400,
        batch_size: batch,
        largest_step: options.step.unwrap_or(step),
        thin: Some(options.thin.unwrap_or(thin)),
        ..Sampler::seeded(options.seed)
    };
    let names = Parameters::named((0..d).map(|i| format!("theta[{i}]")));
    let members = sampler.members(|_| {
        Member::new(model.clone(), names.clone(), start.clone()).with_scales(scales.clone())
    });
    // The mode and the curvature there are given to everyone. What is timed begins here.
    let started = Instant::now();
    let until = Until(started + Duration::from_secs_f64(options.seconds));
    let posterior = sampler.run_watched(members, None, &until)?;
    let seconds = started.elapsed().as_secs_f64();
    let figures = posterior.tuning.figures;
    let about = json!({
        "sampler": "anchored santa", "whitened": true, "batch": batch,
        "step": figures.step, "thin": figures.thin, "gradient_noise": figures.gradient_noise, "halvings": figures.halvings,
        "temperature": posterior.configurational_temperature().mean,
    });
    write(options, &posterior, seconds, about)
}

/// The network: Santa's dynamics at a constant temperature, as they are.
fn network(options: &Options, problem: &Value) -> Outcome<()> {
    let number = |name: &str| problem[name].as_f64().ok_or(format!("no {name}"));
    let (precision, temperature) = (number("prior_precision")?, number("temperature")?);
    let (x, shape) = read_npy(&options.problem.join("x.npy"))?;
    let (y, _) = read_npy(&options.problem.join("y.npy"))?;
    let (x_test, _) = read_npy(&options.problem.join("x_test.npy"))?;
    let (y_test, _) = read_npy(&options.problem.join("y_test.npy"))?;
    let (start, _) = read_npy(&options.problem.join("start.npy"))?;
    let width = shape[1];
    let examples = |x: &[f64], y: &[f64]| {
        let x: Vec<f32> = x.iter().map(|x| *x as f32).collect();
        Examples::from_f32(x, width, y.iter().map(|y| *y as u8).collect::<Vec<_>>())
    };
    let train = examples(&x, &y)?;
    let shown = number("logit_images")? as usize;
    let judged = number("likelihood_images")? as usize;
    let logits = examples(&x_test[..shown * width], &y_test[..shown])?;
    let likelihood = examples(&x_test[..judged * width], &y_test[..judged])?;

    let layers: Vec<usize> = problem["layers"]
        .as_array()
        .ok_or("no layers")?
        .iter()
        .filter_map(|n| n.as_u64())
        .map(|n| n as usize)
        .collect();
    let architecture = Architecture::dense(&layers);
    let model = || -> Outcome<Classifier<f32>> {
        Ok(Classifier::new(&architecture, train.clone(), Prior::gaussian(precision))?)
    };
    // Weights by rows of the input, as ours.
    let theta: Vec<f32> = start.iter().map(|x| *x as f32).collect();
    let batch = options.batch.unwrap_or(100);
    // The nominal step and friction of the others: relative to the largest curvature, and per step.
    let relative = options.step.unwrap_or(0.01);
    let eta = relative / number("largest_curvature")?;
    const FRICTION: f64 = 0.1;
    let dynamics: Algorithm = Santa {
        beta: InverseTemperature::temperature(temperature),
        metric: SantaMetric::Identity,
        ..Santa::sampler(StepSize::paper(eta, FRICTION / eta.sqrt()), 0)
    }
    .into();
    let sampler = Sampler {
        chains: options.chains,
        draws: MANY,
        warm_up: 0,
        // As many as the others have between draws: a draw costs a pass over the test images.
        thin: Some(options.thin.unwrap_or(20)),
        batch_size: batch,
        sampling: Sampling::ShuffledEpochs,
        beta: 1.0 / temperature,
        dynamics: Some(dynamics),
        ..Sampler::seeded(options.seed)
    };
    let started = Instant::now();
    let mut members = Vec::new();
    for _ in 0..options.chains {
        let recorder = Predictions { logits: logits.clone(), likelihood: likelihood.clone() };
        members.push(Member::new(model()?, recorder, theta.clone()));
    }
    let until = Until(started + Duration::from_secs_f64(options.seconds));
    let posterior = sampler.run_watched(members, None, &until)?;
    let seconds = started.elapsed().as_secs_f64();
    let about = json!({
        "sampler": "santa", "whitened": false, "batch": batch, "step": relative,
        "thin": posterior.tuning.figures.thin, "warmed_up": false,
    });
    write(options, &posterior, seconds, about)
}

/// Logits of a few test images relative to their mean, and the mean log-likelihood of more.
struct Predictions {
    logits: Examples,
    likelihood: Examples,
}

impl Recorder<f32, Classifier<f32>> for Predictions {
    fn names(&self) -> Vec<String> {
        let classes = 10;
        let logits = (0..self.logits.len() * classes).map(|i| format!("logit[{i}]"));
        logits.chain(["log_likelihood".to_string()]).collect()
    }
    fn record(
        &mut self,
        model: &mut Classifier<f32>,
        theta: &[f32],
        out: &mut [f64],
    ) -> santa::Result<()> {
        let logs = model.log_probabilities(theta, &self.logits)?;
        let classes = logs.len() / self.logits.len();
        for (out, row) in out.chunks_mut(classes).zip(logs.chunks(classes)) {
            let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / classes as f64;
            out.iter_mut().zip(row).for_each(|(out, x)| *out = f64::from(*x) - mean);
        }
        out[logs.len()] = -model.evaluate(theta, &self.likelihood)?.nll;
        Ok(())
    }
}

fn write<F, R>(
    options: &Options,
    posterior: &Posterior<F, R>,
    seconds: f64,
    mut about: Value,
) -> Outcome<()> {
    let draws = &posterior.draws;
    let name = about["sampler"].as_str().unwrap_or("santa").replace(' ', "-");
    about["seconds"] = seconds.into();
    // Of the draws alone: the warm-up's are in the seconds and not here.
    let gradients = (draws.chains() * draws.len()) as u64 * posterior.tuning.figures.thin;
    about["gradients_per_s"] = (gradients as f64 / seconds).into();
    if about["warmed_up"].is_null() {
        about["warmed_up"] = true.into();
    }
    let mut bytes = npy_header(&[draws.chains(), draws.len(), draws.dim()]);
    for chain in 0..draws.chains() {
        bytes.extend(draws.chain(chain).iter().flat_map(|x| (*x as f32).to_le_bytes()));
    }
    fs::write(options.out.join(format!("{name}.npy")), bytes)?;
    fs::write(options.out.join(format!("{name}.json")), about.to_string())?;
    Ok(())
}

/// The header of a `.npy` file of single precision, padded to 64 bytes.
fn npy_header(shape: &[usize]) -> Vec<u8> {
    const PREFIX: usize = 10;
    let dims: Vec<String> = shape.iter().map(|n| format!("{n},")).collect();
    let mut text =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", dims.join(" "));
    while !(PREFIX + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// Numbers and shape of a `.npy` file of either precision, in C order.
fn read_npy(path: &Path) -> Outcome<(Vec<f64>, Vec<usize>)> {
    let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let bad = || format!("{}: not a .npy file of floats in C order", path.display());
    if bytes.get(..6) != Some(b"\x93NUMPY".as_slice()) || bytes.get(6) != Some(&1) {
        return Err(bad().into());
    }
    let len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(bytes.get(10..10 + len).ok_or_else(bad)?)?;
    let data = &bytes[10 + len..];
    if header.contains("'fortran_order': True") {
        return Err(bad().into());
    }
    let shape =
        header.split_once('(').and_then(|(_, rest)| rest.split_once(')')).ok_or_else(bad)?.0;
    let shape: Vec<usize> = shape.split(',').filter_map(|n| n.trim().parse().ok()).collect();
    let values = if header.contains("<f4") {
        data.chunks_exact(4)
            .map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
            .collect()
    } else if header.contains("<f8") {
        data.chunks_exact(8)
            .map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
            .collect()
    } else {
        return Err(bad().into());
    };
    Ok((values, shape))
}
