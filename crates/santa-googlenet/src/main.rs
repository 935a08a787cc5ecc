//! The command: `train` and `shapes`.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use burn::tensor::{Device, Tensor};
use clap::{Args, Parser, Subcommand, ValueEnum};
use santa_googlenet::{
    Data, GoogLeNetConfig, Method, PUBLISHED_CLASSES, PUBLISHED_SIZE, Record, Settings, devices,
    train,
};

// Half of the time on the CPU can be page faults of large temporaries with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// GoogLeNet on ImageNet, trained by Santa or by SGD with momentum.
#[derive(Parser)]
#[command(name = "santa-googlenet", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Trains the network on a folder of images.
    Train(Box<Train>),
    /// Prints the stages with their output shapes, and the parameters.
    Shapes(Shapes),
}

#[derive(Clone, Copy, ValueEnum)]
enum Optimizer {
    Santa,
    SgdM,
}

#[derive(Args)]
struct Train {
    /// Folder with images at train/CLASS/*.jpg and val/CLASS/*.jpg.
    #[arg(long)]
    data: PathBuf,
    /// What updates the parameters.
    #[arg(long, value_enum)]
    optimizer: Optimizer,
    /// flex (the CPU), wgpu, cuda or cuda:1; several separated by commas share each batch.
    #[arg(long, default_value = "flex")]
    device: String,
    /// Folder for the log and the checkpoints.
    #[arg(long)]
    out: PathBuf,
    /// Go on from the newest checkpoint in --out, with the same settings.
    #[arg(long)]
    resume: bool,
    /// Steps of the whole run [default: 2400000].
    #[arg(long, conflicts_with = "epochs")]
    iterations: Option<u64>,
    /// The same in passes over the images.
    #[arg(long)]
    epochs: Option<f64>,
    /// Images of a step [default: 32].
    #[arg(long)]
    batch: Option<usize>,
    /// Learning rate at the start [default: 0.01 for sgd-m, 0.0003 for santa].
    #[arg(long)]
    lr: Option<f64>,
    /// The share of the velocity that survives a step [default: 0.9].
    #[arg(long)]
    momentum: Option<f64>,
    /// Decay of the weights [default: 0.0002].
    #[arg(long)]
    weight_decay: Option<f64>,
    /// Santa's inverse temperature at the first step [default: 1].
    #[arg(long)]
    beta: Option<f64>,
    /// Chooses initial values, order, crops, dropout and noise [default: 1].
    #[arg(long)]
    seed: Option<u64>,
    /// Iterations between lines of the training loss [default: 40].
    #[arg(long)]
    display: Option<u64>,
    /// Iterations between tests [default: 4000].
    #[arg(long)]
    test_interval: Option<u64>,
    /// Iterations between checkpoints [default: 40000].
    #[arg(long)]
    snapshot: Option<u64>,
    /// Side of the input in pixels [default: 224].
    #[arg(long)]
    size: Option<usize>,
    /// Divides all numbers of channels [default: 1].
    #[arg(long)]
    narrow: Option<usize>,
}

#[derive(Args)]
struct Shapes {
    /// Number of classes.
    #[arg(long, default_value_t = PUBLISHED_CLASSES)]
    classes: usize,
    /// Side of the input in pixels.
    #[arg(long, default_value_t = PUBLISHED_SIZE)]
    size: usize,
    /// Divides all numbers of channels.
    #[arg(long, default_value_t = 1)]
    narrow: usize,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Train(args) => run(&args),
        Command::Shapes(args) => shapes(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Train) -> Result<()> {
    let devices = devices(&args.device)?;
    let data = Data::open(&args.data)?;
    let settings = args.settings(data.train.len());
    settings.check()?;
    println!("{} images of {} classes", data.train.len(), data.train.classes().len());
    if data.val.is_none() {
        println!("no folder val, so no tests");
    }

    let stop = Arc::new(AtomicBool::new(false));
    let handler = stop.clone();
    ctrlc::set_handler(move || {
        if handler.swap(true, Ordering::Relaxed) {
            std::process::exit(130); // 128 + SIGINT, as shells have it
        }
        eprintln!("stopping with a checkpoint after this step; once more to stop at once");
    })
    .context("the handler of Ctrl-C")?;

    let outcome = train(&data, settings, &devices, &args.out, args.resume, &stop, print)?;
    if !outcome.finished {
        println!("stopped after {} iterations; go on with --resume", outcome.iteration);
    }
    Ok(())
}

fn print(record: &Record) {
    match record {
        Record::Train { iteration, epoch, loss, lr, seconds } => println!(
            "iteration {iteration}  epoch {epoch:.2}  loss {loss:.4}  lr {lr:.3e}  {seconds:.0} s"
        ),
        Record::Test { iteration, images, loss, top1, top5, .. } => println!(
            "iteration {iteration}  test on {images} images: loss {loss:.4}  top-1 {:.2} %  \
             top-5 {:.2} %",
            100.0 * top1,
            100.0 * top5
        ),
        Record::Broken { path, reason, .. } => {
            eprintln!("warning: {} is left out: {reason}", path.display());
        }
        _ => (),
    }
}

impl Train {
    fn settings(&self, images: usize) -> Settings {
        let default = Settings::caffe(match self.optimizer {
            Optimizer::Santa => Method::Santa,
            Optimizer::SgdM => Method::SgdM,
        });
        let batch = self.batch.unwrap_or(default.batch);
        let in_epochs = |epochs: f64| (epochs * images as f64 / batch as f64).ceil() as u64;
        let iterations = self.iterations.or(self.epochs.map(in_epochs));
        Settings {
            net: GoogLeNetConfig {
                size: self.size.unwrap_or(default.net.size),
                narrow: self.narrow.unwrap_or(default.net.narrow),
                ..default.net
            },
            iterations: iterations.unwrap_or(default.iterations),
            batch,
            lr: self.lr.unwrap_or(default.lr),
            momentum: self.momentum.unwrap_or(default.momentum),
            weight_decay: self.weight_decay.unwrap_or(default.weight_decay),
            beta: self.beta.unwrap_or(default.beta),
            seed: self.seed.unwrap_or(default.seed),
            display: self.display.unwrap_or(default.display),
            test_interval: self.test_interval.unwrap_or(default.test_interval),
            snapshot: self.snapshot.unwrap_or(default.snapshot),
            ..default
        }
    }
}

fn shapes(args: Shapes) -> Result<()> {
    let device = Device::default();
    let Shapes { classes, size, narrow } = args;
    let network = GoogLeNetConfig { classes, size, narrow }.init(1, &device)?;
    let mut text = format!("{:<16}{:>14}\n", "stage", "output");
    for (name, [_, channels, height, width]) in
        network.stages(Tensor::zeros([1, 3, size, size], &device))
    {
        text += &format!("{name:<16}{:>14}\n", format!("{height}x{width}x{channels}"));
    }
    let parameters = network.parameters();
    text += &format!("\n{:<40}{:>12}\n", "parameter", "elements");
    for (path, count) in &parameters {
        text += &format!("{path:<40}{count:>12}\n");
    }
    let sum = |auxiliary: bool| -> usize {
        let is_auxiliary = |path: &str| path.starts_with("loss1.") || path.starts_with("loss2.");
        parameters.iter().filter(|(p, _)| auxiliary || !is_auxiliary(p)).map(|(_, n)| n).sum()
    };
    text += &format!("\n{:<40}{:>12}\n", "all but the auxiliary classifiers", sum(false));
    text += &format!("{:<40}{:>12}\n", "all", sum(true));
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader that has seen enough is no error.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
