//! The HTML of the report.

use super::calibration::{Reliability, reliability};
use super::curves::{self, Curve, Measure, Part, Prediction};
use super::groups::{self, Experiment, Group};
use super::table;
use crate::failure::{Failure, Result};
use crate::figure::{COLOURS, DASHES};
use crate::run::record::{Record, Status};
use crate::run::stored::StoredRun;
use minijinja::Environment;
use minijinja::value::Serde;
use santa::Stage;
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fmt::Write;
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
    let data = json!({
        "dashes": DASHES,
        "experiments": experiments.iter().map(experiment_data).collect::<Vec<_>>(),
    });
    let sections: Vec<Json> =
        experiments.iter().zip(links).map(|(e, links)| section(e, links)).collect();
    let page = json!({
        "title": title,
        "experiments": sections,
        "started": started(runs),
        "machines": distinct(runs.iter().map(machine)),
        "versions": distinct(runs.iter().map(|run| run.provenance.version.clone())),
        "runs": runs.len(),
        "unfinished": runs.iter().filter(|run| run.summary.is_none()).count(),
        "settings": settings(experiments),
        "palette": palette(),
        "style": include_str!("style.css"),
        "script": include_str!("script.js"),
        "data": in_script(&data),
    });
    let template = environment.get_template("page.html").map_err(damaged)?;
    template.render(Serde(page)).map_err(damaged)
}

/// JSON as it may stand in a script element, whatever the texts in it say.
fn in_script(value: &Json) -> String {
    // Inside a JSON text these signs can only be part of a string.
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// The colours of the series as variables of the stylesheet.
fn palette() -> String {
    let variables = |of: fn(&crate::figure::Colour) -> &'static str| {
        COLOURS.iter().enumerate().fold(String::new(), |mut out, (i, colour)| {
            let _ = write!(out, "--series-{i}:{};", of(colour));
            out
        })
    };
    let (light, dark) = (variables(|c| c.light), variables(|c| c.dark));
    format!(
        ":root{{{light}}}\n\
         @media screen and (prefers-color-scheme: dark){{:root:not([data-theme=light]){{{dark}}}}}\n\
         @media screen{{:root[data-theme=dark]{{{dark}}}}}"
    )
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
        .filter(|(_, group)| curves::annealing(group.runs[0]).is_some())
        .map(|(i, group)| json!({ "at": i, "label": group.label, "seed": groups::seed(group.runs[0]) }))
        .collect();
    json!({
        "name": experiment.name,
        "lead": lead(experiment),
        "table": table::table(groups),
        "test": part_has(Part::Test),
        "validation": part_has(Part::Validation),
        "averaged": averaged,
        "annealed": annealed,
        "bands": groups.iter().any(|group| group.runs.len() > 1),
        "calibration": calibration_rows(groups),
        "figures": links,
    })
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
        (Some(_), Some(_)) => parts.push(format!("seeds {}", listed.join(" and "))),
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
            (last.is_some() || averaged.is_some())
                .then(|| json!({ "label": group.label, "colour": colour, "last": last, "averaged": averaged }))
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
    let status = match run.summary.as_ref().map(|s| s.status) {
        Some(Status::Finished) => "finished",
        Some(Status::StoppedEarly) => "stopped early",
        None => "unfinished",
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

/// What the script draws for an experiment.
fn experiment_data(experiment: &Experiment<'_>) -> Json {
    let groups: Vec<Json> = experiment
        .groups
        .iter()
        .map(|group| {
            json!({
                "label": group.label,
                "colour": group.index % COLOURS.len(),
                "dash": DASHES[group.index % DASHES.len()],
                "band": group.runs.len() > 1,
                "loss": curves::loss(group).map(curve),
                "test": part_data(group, Part::Test),
                "validation": part_data(group, Part::Validation),
                "annealing": annealing(group),
                "calibration": {
                    "last": bins(reliability(group, Prediction::Last)),
                    "averaged": bins(reliability(group, Prediction::Averaged)),
                },
            })
        })
        .collect();
    json!({ "name": experiment.name, "groups": groups })
}

fn part_data(group: &Group<'_>, part: Part) -> Json {
    let of = |measure, prediction| curves::scores(group, part, measure, prediction).map(curve);
    let both = |measure| json!({ "last": of(measure, Prediction::Last), "averaged": of(measure, Prediction::Averaged) });
    json!({ "error": both(Measure::Error), "nll": both(Measure::Nll) })
}

fn curve(curve: Curve) -> Json {
    json!({
        "epoch": numbers(curve.epoch),
        "seconds": numbers(curve.seconds),
        "mean": numbers(curve.mean),
        "low": numbers(curve.low),
        "high": numbers(curve.high),
    })
}

fn bins(found: Option<Reliability>) -> Json {
    let Some(found) = found else { return Json::Null };
    let of = |value: fn(&crate::run::record::Bin) -> f64| numbers(found.bins.iter().map(value));
    json!({
        "confidence": of(|b| b.confidence),
        "accuracy": of(|b| b.accuracy),
        "count": of(|b| b.count as f64),
    })
}

fn annealing(group: &Group<'_>) -> Json {
    let Some(found) = curves::annealing(group.runs[0]) else { return Json::Null };
    let stages: Vec<Json> = found
        .stages
        .iter()
        .map(|s| {
            let stage = match s.stage {
                Stage::Exploring => "exploring",
                Stage::Refining => "refining",
            };
            json!({ "stage": stage, "from": number(s.from), "to": number(s.to) })
        })
        .collect();
    let layers: Vec<Json> = found
        .layers
        .into_iter()
        .map(|(name, times)| {
            json!({
                "name": name,
                "epoch": numbers(times.iter().map(|t| t.0)),
                // One list for each quantile.
                "quantiles": (0..7).map(|q| numbers(times.iter().map(|t| t.1[q]))).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "epoch": numbers(found.temperature.iter().map(|t| t.0)),
        "temperature": numbers(found.temperature.iter().map(|t| t.1)),
        "stages": stages,
        "layers": layers,
    })
}

fn numbers(values: impl IntoIterator<Item = f64>) -> Json {
    Json::Array(values.into_iter().map(number).collect())
}

/// A number in as many digits as a figure can show; null if it is not finite.
fn number(value: f64) -> Json {
    let short: f64 = format!("{value:.4e}").parse().unwrap_or(f64::NAN);
    serde_json::Number::from_f64(short).map_or(Json::Null, Json::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_script_it_stands_in() {
        let json = in_script(&json!({ "</script><script>": "<!-- & \u{2028}" }));
        assert!(!json.contains(['<', '>', '&', '\u{2028}']));
        let back: Json = serde_json::from_str(&json).unwrap();
        assert_eq!(back["</script><script>"], "<!-- & \u{2028}");
    }

    #[test]
    fn numbers_that_are_not_finite_become_null() {
        let values = [1.0, f64::NAN, f64::INFINITY, 0.123_456_789, 1e-300];
        assert_eq!(numbers(values).to_string(), "[1.0,null,null,0.12346,1e-300]");
    }
}
