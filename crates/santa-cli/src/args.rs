//! The command line: what can be asked for. `--help`, completions and the man pages are made of it.

use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Train by annealed sampling, compare optimizers, and read the reports
#[derive(Debug, Parser)]
#[command(name = "santa", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done, 1 system, 2 usage, 3 data, 4 numerical failure, \
                        130 interrupted.\nBegin with: santa quickstart")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Print the result as one JSON object on the last line of standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Say nothing but results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Colours; `auto` follows the terminal and NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
    /// Threads; as many as there are cores by default. Results do not depend on it
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<usize>,
    /// Folder of the data sets [default: $SANTA_DATA, else the user's cache]
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Never fetch data
    #[arg(long, global = true)]
    pub offline: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a small network with six optimizers on built-in digits; needs nothing, takes a minute
    Quickstart(Quickstart),
    /// Run one experiment
    Train(Train),
    /// Run experiments with several optimizers, settings and seeds; one table, one report
    Compare(Compare),
    /// Draw from a posterior: a built-in density, a regression on a CSV file, or a network's
    Sample(Box<Sample>),
    /// Search settings, chosen on validation data
    Sweep(Sweep),
    /// Try weights on a data set
    Eval(Eval),
    /// Write the report of stored runs
    Report(Report),
    /// Make a figure or a table of the paper
    Reproduce(Reproduce),
    /// List the built-in experiments and optimizers, or show one
    Presets(Presets),
    /// The data sets: where they are, whether they are whole, and fetching them
    Data(Data),
    /// Measure the speed of the libraries on this machine
    Bench(Bench),
    /// Print the completions of a shell
    Completions(Completions),
    /// Print the man page, or write one for each command
    Man(Man),
}

/// Options of `santa quickstart`.
#[derive(Debug, Args)]
pub struct Quickstart {
    /// Folder for the runs and the report
    #[arg(long, value_name = "DIR", default_value = "santa-quickstart")]
    pub out: PathBuf,
    /// Passes over the training data, for each optimizer
    #[arg(long, value_name = "N")]
    pub epochs: Option<u64>,
    /// Seed of the first run
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Options of `santa train`.
#[derive(Debug, Args)]
pub struct Train {
    /// A TOML file, the name of a built-in experiment (`santa presets`), or the folder of a run
    pub experiment: String,
    /// Replace a field: `--set optimizer.lr=0.01`, `--set optimizer=adam`
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Folder of the run [default: runs/NAME/OPTIMIZER-seed-N]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on from the last checkpoint in the folder, bit for bit
    #[arg(long)]
    pub resume: bool,
    /// Write TensorBoard event files too
    #[arg(long)]
    pub tensorboard: bool,
    /// Sum gradients in an order that does not depend on the number of processes, over so many parts of
    /// each minibatch: the same bits for any number of processes up to it
    #[arg(long, value_name = "PARTS", num_args = 0..=1, default_missing_value = "8", help_heading = RANKS)]
    pub ordered: Option<usize>,
    /// Begin to sum each layer's gradient while those below it are computed
    #[arg(long, conflicts_with = "ordered", help_heading = RANKS)]
    pub overlap: bool,
    /// Tell where the time of each process went
    #[arg(long, help_heading = RANKS)]
    pub timing: bool,
    /// The processes
    #[command(flatten)]
    pub ranks: Ranks,
}

/// Options of commands that several processes can share.
#[derive(Args, Clone, Copy, Debug)]
pub struct Ranks {
    /// End the job when the other processes have not answered for this many seconds [default: 60; when
    /// sampling, where they meet less often, 3600]
    #[arg(long, value_name = "SECONDS", help_heading = RANKS)]
    pub patience: Option<f64>,
}

/// The heading of options for several processes.
const RANKS: &str = "Several processes (started by `mpirun`)";

/// Options of `santa compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// TOML files or names of built-in experiments
    #[arg(required = true)]
    pub experiments: Vec<String>,
    /// Run each experiment with each of these optimizers (`santa presets` lists them)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub optimizers: Vec<String>,
    /// Run with each of these values of a field: `--vary batch=50,100`
    #[arg(long, value_name = "KEY=V1,V2,...")]
    pub vary: Vec<String>,
    /// Seeds of each, counted from the experiment's
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub seeds: u64,
    /// Replace a field in all of them
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Folder for the runs, the table and the report [default: runs/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at a time; the threads are shared between them
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub jobs: usize,
    /// Write TensorBoard event files too
    #[arg(long)]
    pub tensorboard: bool,
}

/// Options of `santa sample`.
#[derive(Debug, Args)]
#[command(
    after_help = "Models: gaussian, double-well, mixture, rosenbrock, wavy (built-in densities); \
                        linear, logistic, robust (regressions, with --data and --response); an \
                        experiment (`santa presets`); or a TOML file with any of these options.\n\
                        Try: santa sample gaussian --dim 10"
)]
pub struct Sample {
    /// A built-in density, a kind of regression, an experiment, or a TOML file
    pub model: String,
    /// Chains [default: 4]
    #[arg(long, value_name = "N")]
    pub chains: Option<u32>,
    /// Draws of each chain [default: 1000; for networks 50]
    #[arg(long, value_name = "N")]
    pub draws: Option<u64>,
    /// Length of the warm-up, in draws; for networks in steps [default: 500; for networks 5 epochs]
    #[arg(long, value_name = "N")]
    pub warm_up: Option<u64>,
    /// Steps between draws [default: as many as it takes to forget; for networks half an epoch]
    #[arg(long, value_name = "N")]
    pub thin: Option<u64>,
    /// Data per minibatch [default: all up to 2000, 200 of more; for networks the experiment's]
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// Seed of everything [default: 42; for networks the experiment's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// 1 for the posterior, less for a sharper law [default: 1]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    /// The scales that the warm-up finds [default: dense up to 128 parameters, diagonal for more; for
    /// regressions those of the curvature]
    #[arg(long, value_name = "KIND")]
    pub metric: Option<Scales>,
    /// The largest step, in units of the posterior's scales [default: 0.5]
    #[arg(long, value_name = "H", allow_negative_numbers = true)]
    pub largest_step: Option<f64>,
    /// Parameters of a built-in density [default: 2]
    #[arg(long, value_name = "N", help_heading = "Built-in densities")]
    pub dim: Option<usize>,
    /// A CSV file with a header
    #[arg(long, value_name = "FILE", help_heading = "Regressions")]
    pub data: Option<PathBuf>,
    /// The column that is to be explained
    #[arg(long, value_name = "COLUMN", help_heading = "Regressions")]
    pub response: Option<String>,
    /// The columns that explain it; one whose name has a comma is named in a TOML file [default: all
    /// others]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', help_heading = "Regressions")]
    pub features: Vec<String>,
    /// Prior of all coefficients, or of one: `--prior 'normal(1)'`, `--prior 'age=laplace(0.5)'`,
    /// `--prior 'sigma=half-cauchy(1)'`; of standardised features. Laws: normal(SD), laplace(SCALE),
    /// flat; for sigma half-normal(SCALE), half-cauchy(SCALE), fixed(VALUE), the VALUE in units of the
    /// response [default: normal(2.5)]
    #[arg(long, value_name = "[NAME=]LAW", help_heading = "Regressions")]
    pub prior: Vec<String>,
    /// Leave out the intercept
    #[arg(long, help_heading = "Regressions")]
    pub no_intercept: bool,
    /// Degrees of freedom of robust regression [default: 4]
    #[arg(long, value_name = "NU", allow_negative_numbers = true, help_heading = "Regressions")]
    pub degrees: Option<f64>,
    /// Replace a field of the experiment: `--set optimizer=sghmc`
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Networks")]
    pub set: Vec<String>,
    /// Steps of a cycle, with a cyclical schedule: draws are made at the end of each
    #[arg(long, value_name = "STEPS", help_heading = "Networks")]
    pub cycle: Option<u64>,
    /// Draws of each cycle [default: 1]
    #[arg(long, value_name = "N", requires = "cycle", help_heading = "Networks")]
    pub draws_per_cycle: Option<u64>,
    /// Folder for draws, summary and report [default: posteriors/MODEL; of m.toml posteriors/m]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the draws or the warm-up in the folder, bit for bit
    #[arg(long)]
    pub resume: bool,
    /// How draws are written [default: parquet]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<DrawsFormat>,
    /// Write a Zarr store that ArviZ opens, too
    #[arg(long)]
    pub arviz: bool,
    /// Quantities to draw in the report [default: the worst]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub show: Vec<String>,
    /// The processes
    #[command(flatten)]
    pub ranks: Ranks,
}

/// Scales that a warm-up finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scales {
    /// None: the parameters' own; slow where these are far from the posterior's width
    Identity,
    /// One for each parameter
    Diagonal,
    /// Correlations too
    Dense,
}

impl From<Scales> for santa_posterior::sampler::Metric {
    fn from(scales: Scales) -> Self {
        match scales {
            Scales::Identity => Self::Identity,
            Scales::Diagonal => Self::Diagonal,
            Scales::Dense => Self::Dense,
        }
    }
}

/// Files of draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DrawsFormat {
    /// Columns by name, for pandas, polars and DuckDB
    Parquet,
    /// Tensors
    Safetensors,
}

impl From<DrawsFormat> for santa_posterior::store::Format {
    fn from(format: DrawsFormat) -> Self {
        match format {
            DrawsFormat::Parquet => Self::Parquet,
            DrawsFormat::Safetensors => Self::Safetensors,
        }
    }
}

/// Options of `santa sweep`.
#[derive(Debug, Args)]
pub struct Sweep {
    /// A TOML file or the name of a built-in experiment
    pub experiment: String,
    /// A field and what to try: `KEY=V1,V2,...`, `KEY=log(1e-4,1e-1)`, `KEY=uniform(0,1)` or
    /// `KEY=int(10,99)`. Lists make a grid; intervals need `--samples`
    #[arg(long, value_name = "KEY=VALUES", required = true)]
    pub over: Vec<String>,
    /// Draw so many settings at random instead of going through the grid
    #[arg(long, value_name = "N")]
    pub samples: Option<u64>,
    /// Seeds of each setting; their mean counts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seeds: u64,
    /// What the best setting is best at, on validation data
    #[arg(long, value_name = "SCORE", default_value = "auto")]
    pub by: Score,
    /// Replace a field in all of them
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Folder for the runs and the table [default: sweeps/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at a time [default: one for each thread]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
}

/// What settings are compared by, on validation data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Score {
    /// The error (for music, the likelihood) of the averaged prediction if there is one, else of the
    /// last parameters
    Auto,
    /// Error of the last parameters
    ErrorLast,
    /// Error of the averaged prediction
    ErrorAveraged,
    /// Negative log-likelihood of the last parameters
    NllLast,
    /// Negative log-likelihood of the averaged prediction
    NllAveraged,
    /// Negative log-likelihood of the best parameters
    NllBest,
}

/// Options of `santa eval`.
#[derive(Debug, Args)]
pub struct Eval {
    /// A run's folder, a checkpoint or safetensors file, or the authors' `.npz` weights
    pub weights: PathBuf,
    /// Experiment whose model and data are meant, where the weights do not tell
    #[arg(long, value_name = "EXPERIMENT")]
    pub experiment: Option<String>,
    /// Data set, if not the experiment's: mnist, mnist-subset, jsb, nottingham, musedata, piano-midi
    #[arg(long, value_name = "SET")]
    pub data: Option<String>,
    /// Part of the data
    #[arg(long, value_name = "PART", default_value = "test")]
    pub split: Part,
}

/// A part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// What the parameters are fitted to
    Train,
    /// What choices are made by
    Validation,
    /// What results are reported on
    Test,
}

/// Options of `santa report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Folders of runs, or folders that contain them
    #[arg(required = true)]
    pub runs: Vec<PathBuf>,
    /// The HTML file; figures are written as SVG beside it
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub out: PathBuf,
    /// Title of the report
    #[arg(long)]
    pub title: Option<String>,
}

/// Options of `santa reproduce`.
#[derive(Debug, Args)]
pub struct Reproduce {
    /// Which
    pub name: Reproduction,
    /// Folder for the results; those of `--quick` go into its subfolder `quick`
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// A small version, in less than two minutes; its numbers mean nothing
    #[arg(long)]
    pub quick: bool,
    /// Only these methods, figures, rows, columns or protocols
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Runs of each cell of a table, each with its own seed [default: as its file says]
    #[arg(long, value_name = "N")]
    pub seeds: Option<u64>,
    /// Runs at a time [default: one for each thread]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Make no runs: say what is missing, and write the tables of those that are finished
    #[arg(long)]
    pub no_run: bool,
    /// A file of settings in place of the built-in one; for tables of many runs
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Folder of the runs at work; an interrupted one goes on from there
    #[arg(long, value_name = "DIR", default_value = "runs/reproduce")]
    pub runs: PathBuf,
}

impl Reproduce {
    /// The folder for the results, those of the small version apart.
    pub fn results(&self) -> PathBuf {
        if self.quick { self.out.join("quick") } else { self.out.clone() }
    }
}

/// Figures and tables of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reproduction {
    /// Figure 1: many chains on a double well, and where they end
    DoubleWell,
    /// Theorem 2: the order of the schemes, errors of averages, the gap that annealing leaves
    Order,
    /// Supplement: the regret of refinement, and the counter-example to its bound
    Regret,
    /// Table 1: MNIST with two sizes of network and a convolutional one
    Table1,
    /// Table 2: polyphonic music
    Table2,
    /// What each part of Santa buys
    Ablation,
    /// All of them
    All,
}

/// Options of `santa presets`.
#[derive(Debug, Args)]
pub struct Presets {
    /// What to do with them.
    #[command(subcommand)]
    pub action: Option<PresetsAction>,
}

/// What `santa presets` can do.
#[derive(Debug, Subcommand)]
pub enum PresetsAction {
    /// List them
    List,
    /// Print the TOML of one, to copy
    Show {
        /// Name of an experiment or of an optimizer
        name: String,
    },
}

/// Options of `santa data`.
#[derive(Debug, Args)]
pub struct Data {
    /// What to do with them.
    #[command(subcommand)]
    pub action: DataAction,
}

/// What `santa data` can do.
#[derive(Debug, Subcommand)]
pub enum DataAction {
    /// List the files and what there is of each
    List,
    /// Fetch what is missing
    Fetch {
        /// Files or data sets; all of them by default
        names: Vec<String>,
    },
    /// Check the files against their checksums
    Verify {
        /// Files or data sets; all that are there by default
        names: Vec<String>,
    },
    /// Print the data folder
    Where,
}

/// Options of `santa bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// Cases to measure; all by default, `--list` names them
    pub cases: Vec<String>,
    /// Name the cases and do nothing
    #[arg(long)]
    pub list: bool,
}

/// Options of `santa completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Options of `santa man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}
