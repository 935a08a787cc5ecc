//! The HTML of the report.

use super::STYLE;
use super::annealing;
use super::calibration::{Reliability, reliability};
use super::curves::{self, Measure, Part, Prediction};
use super::data;
use super::groups::{self, Experiment, Group, State};
use super::table;
use crate::failure::{Failure, Result};
use crate::figure::{COLOURS, DASHES, variables};
use crate::run::record::{Record, Status};
use crate::run::stored::StoredRun;
use minijinja::Environment;
use minijinja::value::Serde;
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::path::Path;
use toml::Table;

/// A figure's file.
#[derive(Debug, Serialize)]
pub struct Link {
    file: String,
    title: String,
}

impl Link {
    /// A link from a report in the same folder.
    pub fn new(path: &Path, title: String) -> Self {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Link { file, title }
    }
}

/// The page of some experiments; `links` are the figures of each.
pub fn html(
    experiments: &[Experiment<'_>],
    links: &[Vec<Link>],
    runs: &[StoredRun],
    title: &str,
) -> Result<String> {
    let mut environment = Environment::new();
    let damaged = |error| Failure::system(format!("the report's template: {error}"));
    // The ending of its name makes all values escaped.
    environment.add_template("page.html", include_str!("page.html")).map_err(damaged)?;
    let sections: Vec<Json> =
        experiments.iter().zip(links).map(|(e, links)| section(e, links)).collect();
    let page = json!({
        "title": title,
        "experiments": sections,
        "started": started(runs),
        "machines": distinct(runs.iter().map(machine)),
        "versions": distinct(runs.iter().map(|run| run.provenance.version.clone())),
        "runs": runs.len(),
        "repeats": runs.len() - experiments.iter().flat_map(|e| &e.groups).map(|g| g.runs.len()).sum::<usize>(),
        "unfinished": count(runs, State::Unfinished),
        "diverged": count(runs, State::Diverged),
        "settings": settings(experiments),
        "palette": variables(),
        "style": STYLE,
        "script": include_str!("script.js"),
        "data": data::in_script(&data::of(experiments)),
    });
    let template = environment.get_template("page.html").map_err(damaged)?;
    template.render(Serde(page)).map_err(damaged)
}

fn count(runs: &[StoredRun], state: State) -> usize {
    runs.iter().filter(|run| State::of(run) == state).count()
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    texts.collect::<BTreeSet<_>>().into_iter().collect()
}

fn started(runs: &[StoredRun]) -> String {
    let mut times = distinct(runs.iter().map(|run| readable(&run.provenance.started)));
    match (times.pop(), times.into_iter().next()) {
        (Some(last), Some(first)) => format!("{first} to {last}"),
        (Some(only), None) => only,
        _ => String::new(),
    }
}

/// A time such as 2026-01-02T03:04:05Z with spaces; any other text as it is.
fn readable(time: &str) -> String {
    match time.strip_suffix('Z').and_then(|t| t.split_once('T')) {
        Some((day, hour)) => format!("{day} {hour} UTC"),
        None => time.into(),
    }
}

fn machine(run: &StoredRun) -> String {
    let machine = &run.provenance.machine;
    let threads = if machine.threads == 1 { "thread" } else { "threads" };
    let (cpu, os, arch) = (&machine.cpu, &machine.os, &machine.arch);
    format!("{cpu}, {} {threads}, {os} {arch}", machine.threads)
}

fn section(experiment: &Experiment<'_>, links: &[Link]) -> Json {
    let groups = &experiment.groups;
    let has = |part, measure, prediction| {
        groups.iter().any(|g| curves::scores(g, part, measure, prediction).is_some())
    };
    let part_has =
        |part| [Prediction::Last, Prediction::Averaged].iter().any(|&p| has(part, Measure::Nll, p));
    let averaged =
        [Part::Test, Part::Validation].iter().any(|&p| has(p, Measure::Nll, Prediction::Averaged));
    let annealed: Vec<Json> = groups
        .iter()
        .enumerate()
        .filter(|(_, group)| annealing::annealing(group.runs[0]).is_some())
        .map(|(i, group)| json!({ "at": i, "label": group.label, "seed": groups::seed(group.runs[0]) }))
        .collect();
    json!({
        "name": experiment.name,
        "lead": lead(experiment),
        "table": table::table(groups),
        "diverged": diverged(groups),
        "test": part_has(Part::Test),
        "validation": part_has(Part::Validation),
        "averaged": averaged,
        "annealed": annealed,
        "bands": groups.iter().any(|group| group.runs.len() > 1),
        "calibration": calibration_rows(groups),
        "figures": links,
    })
}

/// The runs that diverged, and why.
fn diverged(groups: &[Group<'_>]) -> Vec<Json> {
    let failures = groups.iter().flat_map(|group| &group.runs).filter_map(|run| {
        let failure = run.failure.as_ref()?;
        Some(json!({
            "optimizer": run.optimizer(),
            "seed": groups::seed(run),
            "message": failure.message,
            "hint": failure.hint,
        }))
    });
    failures.collect()
}

/// What was run, in a line.
fn lead(experiment: &Experiment<'_>) -> String {
    let tables: Vec<&Table> = experiment.groups.iter().map(|g| &g.runs[0].experiment).collect();
    let of = |key: &str| {
        let values = tables.iter().filter_map(|t| t.get(key)).map(groups::plain);
        let values: Vec<String> = distinct(values);
        (!values.is_empty()).then(|| values.join(" and "))
    };
    let mut parts = Vec::new();
    parts.extend(of("data").map(|data| format!("data {data}")));
    parts.extend(of("model").map(|model| format!("model {model}")));
    parts.extend(
        of("epochs").map(|n| if n == "1" { "1 epoch".into() } else { format!("{n} epochs") }),
    );
    // Runs of one chain do not say so.
    parts.extend(of("chains").map(|n| format!("{n} chains")));
    let seeds: BTreeSet<i64> = experiment.groups.iter().flat_map(Group::seeds).collect();
    let listed: Vec<String> = seeds.iter().map(i64::to_string).collect();
    match (seeds.first(), seeds.last()) {
        (Some(seed), Some(last)) if seed == last => parts.push(format!("seed {seed}")),
        // Many in a row are told by their ends.
        (Some(&first), Some(&last))
            if seeds.len() > 2 && last.abs_diff(first) + 1 == seeds.len() as u64 =>
        {
            parts.push(format!("seeds {first} to {last}"));
        }
        (Some(_), Some(_)) => parts
            .push(format!("seeds {}", listed.join(if seeds.len() == 2 { " and " } else { ", " }))),
        _ => (),
    }
    let mut line = parts.join(", ");
    if let Some(first) = line.get(..1).map(str::to_uppercase) {
        line.replace_range(..1, &first);
        line.push('.');
    }
    line
}

fn calibration_rows(groups: &[Group<'_>]) -> Vec<Json> {
    let text = |found: Option<Reliability>| {
        found.filter(|r| r.expected_error.is_finite()).map(|r| match r.deviation {
            Some(deviation) => format!("{:.4} \u{b1} {deviation:.4}", r.expected_error),
            None => format!("{:.4}", r.expected_error),
        })
    };
    groups
        .iter()
        .filter_map(|group| {
            let last = text(reliability(group, Prediction::Last));
            let averaged = text(reliability(group, Prediction::Averaged));
            let colour = group.index % COLOURS.len();
            let dash = DASHES[group.index % DASHES.len()];
            (last.is_some() || averaged.is_some())
                .then(|| json!({ "label": group.label, "colour": colour, "dash": dash, "last": last, "averaged": averaged }))
        })
        .collect()
}

fn settings(experiments: &[Experiment<'_>]) -> Json {
    let groups: Vec<(String, &Group<'_>)> = experiments
        .iter()
        .flat_map(|experiment| {
            experiment.groups.iter().map(|group| {
                let several = experiments.len() > 1;
                let name = &experiment.name;
                let label =
                    if several { format!("{name}: {}", group.label) } else { group.label.clone() };
                (label, group)
            })
        })
        .collect();
    let tables: Vec<&Table> = groups.iter().map(|(_, g)| &g.runs[0].experiment).collect();
    let differences: Vec<Json> = groups::differences(&tables)
        .into_iter()
        .map(|row| json!({ "key": row.key, "values": row.values }))
        .collect();
    let details: Vec<Json> = groups
        .iter()
        .map(|(label, group)| {
            let toml = toml::to_string_pretty(&group.runs[0].experiment).unwrap_or_default();
            let runs: Vec<Json> = group.runs.iter().map(|run| run_details(run)).collect();
            json!({ "label": label, "toml": toml, "runs": runs, "several": group.runs.len() > 1 })
        })
        .collect();
    let labels: Vec<&String> = groups.iter().map(|(label, _)| label).collect();
    json!({ "labels": labels, "differences": differences, "details": details })
}

fn run_details(run: &StoredRun) -> Json {
    let warnings: Vec<Json> = run
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Warning(w) => Some(json!({ "step": w.step, "message": w.message })),
            _ => None,
        })
        .collect();
    let status = match (run.summary.as_ref().map(|s| s.status), &run.failure) {
        (Some(Status::Finished), _) => "finished",
        (Some(Status::StoppedEarly), _) => "stopped early",
        (None, Some(_)) => "diverged",
        (None, None) => "unfinished",
    };
    json!({
        "seed": groups::seed(run),
        "folder": run.folder.display().to_string(),
        "command": run.provenance.command.join(" "),
        "started": readable(&run.provenance.started),
        "version": run.provenance.version,
        "machine": machine(run),
        "parameters": run.summary.as_ref().map(|s| s.parameters),
        "status": status,
        "warnings": warnings,
    })
}
