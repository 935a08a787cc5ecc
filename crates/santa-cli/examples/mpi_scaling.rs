//! Draws the predicted efficiency of many ranks, from what was measured on few.
//!
//! ```text
//! cargo run --release -p santa-cli --example mpi_scaling               # results/mpi/measured.json
//! cargo run --release -p santa-cli --example mpi_scaling -- FILE SVG
//! ```
//!
//! Writes the figure (docs/src/images/mpi-scaling.svg by default) and prints, in Markdown, what the
//! measurements come to and up to how many ranks the efficiency is at least one half. The model and what
//! it leaves out are described in `santa_distributed::scaling`.

use santa_cli::failure::{Failure, Result};
use santa_cli::figure::{Axis, Figure, Series, Style, sheet};
use santa_distributed::scaling::{
    Cluster, Measured, Measurements, Meeting, Network, Scaling, Workload,
};
use std::path::{Path, PathBuf};

const NETWORKS: [(&str, Network); 3] = [
    ("10 Gbit/s", Network::GBIT_10),
    ("100 Gbit/s", Network::GBIT_100),
    ("400 Gbit/s", Network::GBIT_400),
];
/// Of an `f32`.
const BYTES_PER_NUMBER: f64 = 4.0;
/// What local steps of Santa average: theta, u, alpha and v.
const VECTORS: u32 = 4;
/// Share of computing during which sums can run: about the backward pass of all layers but the last.
const OVERLAP: f64 = 0.5;
/// Of the time that a rank computes, on nodes that have nothing else to do.
const SPREAD: f64 = 0.02;
/// H
const EVERY: u64 = 16;
/// Of all ranks together, where it is divided.
const BATCH: u64 = 8_192;
/// The efficiency below which more ranks do not pay.
const HALF: f64 = 0.5;
const LARGEST: u64 = 4_096;
const WIDTH: f64 = 290.0;
const HEIGHT: f64 = 230.0;

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let input = arguments.next().unwrap_or_else(|| root.join("results/mpi/measured.json"));
    let output = arguments.next().unwrap_or_else(|| root.join("docs/src/images/mpi-scaling.svg"));
    let failed = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::system(format!("{}: {why}", path.display()))
    };
    let text = std::fs::read_to_string(&input).map_err(|e| failed(&input, &e))?;
    let measured: Measurements = serde_json::from_str(&text).map_err(|e| failed(&input, &e))?;
    let models = measured.models().map_err(|e| failed(&input, &e))?;
    if models.is_empty() {
        return Err(failed(&input, &"no step of any model has been measured"));
    }
    std::fs::write(&output, figure(&models)).map_err(|e| failed(&output, &e))?;

    match Network::fit(&measured.all_reduce) {
        Ok(here) => println!(
            "Measured between the ranks: latency {:.1} µs, {:.2} GB/s.\n",
            1e6 * here.latency_s,
            1e-9 * here.bytes_per_s
        ),
        Err(why) => println!("No fit of the network between the ranks: {why}.\n"),
    }
    print!("| model | parameters | fixed, ms | per datum, µs | batch of a rank | meeting |");
    NETWORKS.iter().for_each(|(name, _)| print!(" {name} |"));
    print!("\n| --- | ---: | ---: | ---: | ---: | --- |");
    NETWORKS.iter().for_each(|_| print!(" ---: |"));
    println!();
    for model in &models {
        for scaling in scalings(model) {
            for meeting in [Meeting::Synchronous, Meeting::Local { every: EVERY }] {
                let (fixed, datum) = (1e3 * model.fixed_s, 1e6 * model.per_datum_s);
                let part = match scaling {
                    Scaling::Weak { batch_per_rank } => batch_per_rank.to_string(),
                    Scaling::Strong { batch } => format!("{batch}/K"),
                };
                let meeting_name = match meeting {
                    Meeting::Synchronous => "every step".into(),
                    Meeting::Local { every } => format!("every {every} steps"),
                };
                print!(
                    "| {} | {} | {fixed:.2} | {datum:.1} | {part} | {meeting_name} |",
                    model.name, model.parameters
                );
                for (_, network) in NETWORKS {
                    let workload = workload(model);
                    let most =
                        cluster(network).most_ranks(&workload, scaling, meeting, HALF, LARGEST);
                    print!(" {most} |");
                }
                println!();
            }
        }
    }
    Ok(())
}

fn cluster(network: Network) -> Cluster {
    Cluster { network, overlap: OVERLAP, spread: SPREAD }
}

fn workload(model: &Measured) -> Workload {
    model.workload(BYTES_PER_NUMBER, VECTORS)
}

/// The batch that was measured on every rank; and a large one that is divided.
fn scalings(model: &Measured) -> [Scaling; 2] {
    [Scaling::Weak { batch_per_rank: model.batch }, Scaling::Strong { batch: BATCH }]
}

/// A row of panels for each scaling, a panel for each network.
fn figure(models: &[Measured]) -> String {
    let mut panels = Vec::new();
    for row in 0..scalings(&models[0]).len() {
        for (name, network) in NETWORKS {
            let cluster = cluster(network);
            let title = match row {
                0 => format!("{name}, a batch on every rank"),
                _ => format!("{name}, a batch of {BATCH} divided"),
            };
            let y = Axis::new("efficiency").between(0.0, 1.0);
            let x = Axis::new("ranks").log().between(2.0, LARGEST as f64);
            let mut panel = Figure::new(x, y).titled(title).sized(WIDTH, HEIGHT);
            let line = |model: &Measured, meeting| {
                let workload = workload(model);
                let at = |k: u64| cluster.efficiency(&workload, scalings(model)[row], meeting, k);
                let ranks = (1..=LARGEST.ilog2()).map(|power| 1 << power);
                ranks.map(|k| (k as f64, at(k))).collect::<Vec<_>>()
            };
            for (i, model) in models.iter().enumerate() {
                let points = line(model, Meeting::Synchronous);
                panel = panel.with(Series::line(&model.name, Style::numbered(i), points));
            }
            // Local steps are for the one that needs them most.
            let last =
                |model: &Measured| line(model, Meeting::Synchronous).last().map_or(0.0, |p| p.1);
            let neediest =
                (0..models.len()).min_by(|a, b| last(&models[*a]).total_cmp(&last(&models[*b])));
            if let Some(i) = neediest {
                let points = line(&models[i], Meeting::Local { every: EVERY });
                let style = Style { dash: "", ..Style::numbered(models.len()) };
                let label = format!("{}, H = {EVERY}", models[i].name);
                panel = panel.with(Series::line(label, style, points).with_dots());
            }
            panels.push(panel);
        }
    }
    sheet(&panels, NETWORKS.len())
}
