//! The files of a study's results: tables, data and figures.

use super::cells::{Cell, finished};
use super::curves::{self, Family};
use super::earlier;
use super::ledger::Ledgers;
use super::mistakes;
use super::schema::{Place, Prediction, Protocol, Quantity, Study};
use super::trials;
use crate::commands::table::Table;
use crate::data::Library;
use crate::failure::{Failure, Result};
use crate::run::folder::{write, write_json};
use crate::run::machine::provenance;
use serde_json::json;
use std::path::Path;

/// Writes all of them.
pub fn write_all(
    study: &Study,
    ledgers: &Ledgers,
    cells: &[Cell],
    library: &Library,
    folder: &Path,
) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Failure::system(format!("making {}: {e}", folder.display())))?;
    let results = json!({ "made_by": provenance(), "title": study.title, "cells": cells });
    write_json(&folder.join("results.json"), &results)?;
    write(&folder.join("results.csv"), csv(cells).as_bytes())?;
    let mut table = markdown(study, ledgers, cells)?;
    let page = folder.join("earlier.md");
    match earlier::markdown(study, ledgers)? {
        Some(earlier) => {
            write(&page, earlier.as_bytes())?;
            table +=
                "\nRuns with settings that are no longer chosen: [earlier rounds](earlier.md).\n";
        }
        // All runs count again: a page of before would say otherwise.
        None if page.exists() => std::fs::remove_file(&page)
            .map_err(|e| Failure::system(format!("removing {}: {e}", page.display())))?,
        None => (),
    }
    write(&folder.join("table.md"), table.as_bytes())?;
    if let Some(trials) = trials::markdown(study, ledgers) {
        write(&folder.join("trials.md"), trials.as_bytes())?;
    }
    for (column, _) in &study.columns {
        for (protocol, _) in &study.protocols {
            let figure = figure(study, ledgers, library, column, protocol)?;
            if let Some(figure) = figure {
                let name = format!("curves-{column}-{protocol}.svg");
                write(&folder.join(name), figure.as_bytes())?;
            }
        }
    }
    Ok(())
}

fn csv(cells: &[Cell]) -> String {
    let mut text = "row,column,protocol,mean,sd,seeds,diverged,last,last_sd,averaged,averaged_sd,\
                    best,best_sd,p,paper,seconds\n"
        .to_string();
    let number = |x: Option<f64>| x.map_or(String::new(), |x| format!("{x}"));
    for cell in cells {
        let numbers = [
            cell.last,
            cell.last_sd,
            cell.averaged,
            cell.averaged_sd,
            cell.best,
            cell.best_sd,
            cell.p,
            cell.paper,
            cell.seconds,
        ];
        let (Cell { row, column, protocol, .. }, numbers) = (cell, numbers.map(number).join(","));
        let (mean, sd) = (number(cell.mean), number(cell.sd));
        let (seeds, diverged) = (cell.seeds, cell.diverged);
        text += &format!("{row},{column},{protocol},{mean},{sd},{seeds},{diverged},{numbers}\n");
    }
    text
}

/// What is printed: an overview of each protocol.
pub fn summary(study: &Study, cells: &[Cell]) -> String {
    let one = |(name, protocol): &(String, Protocol)| {
        let overview = overview(study, cells, name, protocol);
        format!("{name}: {}\n\n{overview}\n", protocol.description)
    };
    study.protocols.iter().map(one).collect::<Vec<_>>().join("\n").trim_end().into()
}

fn markdown(study: &Study, ledgers: &Ledgers, cells: &[Cell]) -> Result<String> {
    let mut text = format!("# {}\n", study.title);
    if study.is_quick() {
        text += "\n**The small version: these numbers mean nothing.**\n";
    }
    let unit = |quantity| match quantity {
        Quantity::Error => "errors in per cent",
        Quantity::Nll => "negative log-likelihoods per time step, in nats",
    };
    let mut units: Vec<&str> = study.columns.iter().map(|(n, _)| unit(study.score(n))).collect();
    units.dedup();
    text += &format!(
        "\nOn test data, {}: mean ± standard deviation over the seeds, whose number is in brackets. \
         *p* is that of a paired t-test against Santa over the seeds, for the prediction that \
         the protocol's first table shows.\n",
        units.join("; ")
    );
    for (name, protocol) in &study.protocols {
        text += &format!("\n## Protocol: {name}\n\n{}\n\n", protocol.description);
        text += &overview(study, cells, name, protocol).markdown();
        for (column, settings) in &study.columns {
            let here: Vec<&Cell> = cells
                .iter()
                .filter(|cell| cell.protocol == *name && cell.column == *column && cell.seeds > 0)
                .collect();
            if !here.is_empty() {
                text += &format!("\n### {}, {name}\n\n", settings.label);
                text += &details(study, &here, protocol.shows).markdown();
                if let Some(mistakes) = mistakes::markdown(study, ledgers, column, name)? {
                    text += &format!("\n{mistakes}");
                }
                if here.iter().any(|cell| cell.seeds > cell.diverged) {
                    text += &format!("\n![Learning curves](curves-{column}-{name}.svg)\n");
                }
            }
        }
        let chosen = choices(study, cells, name);
        if !chosen.is_empty() {
            text += &format!("\nChosen on validation data ([all trials](trials.md)):\n\n{chosen}");
        }
    }
    Ok(text)
}

/// Rows by columns: the paper's number, and the prediction that the protocol is about.
fn overview(study: &Study, cells: &[Cell], protocol: &str, rule: &Protocol) -> Table {
    let mut titles = vec![String::new()];
    let quoted = |column: &str| study.rows.iter().any(|(_, row)| row.paper(column).is_some());
    for (name, column) in study.columns_of(rule) {
        titles.extend(quoted(name).then(|| format!("{}, paper", column.label)));
        titles.push(column.label.clone());
    }
    let mut table = Table::new(titles);
    let here: Vec<&Cell> = cells.iter().filter(|cell| cell.protocol == protocol).collect();
    // What others found under rules of their own is shown once.
    let first = study.protocols.first().is_some_and(|(name, _)| name == protocol);
    for (name, row) in &study.rows {
        let label = match &row.quoted {
            Some(_) if !first => continue,
            Some(source) => format!("{} (quoted: {source})", row.label),
            None if here.iter().all(|cell| cell.row != *name) => continue,
            None => match &row.paper_is {
                Some(what) => format!("{} (paper: {what})", row.label),
                None => row.label.clone(),
            },
        };
        let mut line = vec![label];
        for (column, _) in study.columns_of(rule) {
            let cell = here.iter().find(|cell| cell.row == *name && cell.column == *column);
            let paper = row.paper(column).map_or("-".into(), |x| format!("{x:.2}"));
            line.extend(quoted(column).then_some(paper));
            line.push(cell.map_or("-".into(), |cell| show(cell, 0, (cell.mean, cell.sd))));
        }
        table.row(line);
    }
    table
}

/// Every prediction of one column.
fn details(study: &Study, cells: &[&Cell], shown: Prediction) -> Table {
    let has_best_average = shown == Prediction::BestAveraged;
    let has_best = cells.iter().any(|cell| cell.best.is_some());
    let has_momentum = cells.iter().any(|cell| cell.momentum.is_some());
    let mut titles = vec!["", "last", "averaged"];
    titles.extend(has_best_average.then_some("best average on validation"));
    titles.extend(has_best.then_some("best on validation"));
    titles.push("p");
    titles.extend(has_momentum.then_some("momentum, first → last"));
    titles.push("seconds");
    let mut table = Table::new(titles);
    for cell in cells {
        let label = study.rows.iter().find(|(name, _)| *name == cell.row);
        let mut line = vec![label.map_or(cell.row.clone(), |(_, row)| row.label.clone())];
        line.push(show(cell, 1, (cell.last, cell.last_sd)));
        line.push(show(cell, 2, (cell.averaged, cell.averaged_sd)));
        line.extend(has_best_average.then(|| show(cell, 0, (cell.mean, cell.sd))));
        line.extend(has_best.then(|| show(cell, 3, (cell.best, cell.best_sd))));
        line.push(match cell.p {
            Some(p) if p < 1e-3 => "<0.001".into(),
            Some(p) => format!("{p:.3}"),
            None => "-".into(),
        });
        let momentum = cell.momentum.map(|(first, last)| format!("{first:.4} → {last:.4}"));
        line.extend(has_momentum.then(|| momentum.unwrap_or("-".into())));
        line.push(cell.seconds.map_or("-".into(), |seconds| format!("{seconds:.0}")));
        table.row(line);
    }
    table
}

/// Mean, spread, and how many runs are behind them: `kind` is the place in [`Cell::counts`].
fn show(cell: &Cell, kind: usize, value: (Option<f64>, Option<f64>)) -> String {
    mean_and_sd(value, cell.counts[kind], cell.diverged)
}

/// The same of any runs, of which some may have diverged.
pub(super) fn mean_and_sd(value: (Option<f64>, Option<f64>), seeds: usize, lost: usize) -> String {
    let note = match lost {
        0 => String::new(),
        lost => format!(", {lost} diverged"),
    };
    match value {
        (Some(mean), Some(sd)) => format!("{mean:.3} ± {sd:.3} ({seeds}{note})"),
        (Some(mean), None) => format!("{mean:.3} ({seeds}{note})"),
        _ if lost > 0 => "diverged".into(),
        _ => "-".into(),
    }
}

/// A list of the settings that were chosen.
fn choices(study: &Study, cells: &[Cell], protocol: &str) -> String {
    let mut text = String::new();
    for cell in cells.iter().filter(|cell| cell.protocol == protocol && !cell.chosen.is_empty()) {
        let fields = cell.chosen.iter().map(|(key, value)| format!("`{key} = {value}`"));
        let fields = fields.collect::<Vec<_>>().join(", ");
        let label = |list: &[(String, String)], name: &str| {
            list.iter()
                .find(|(n, _)| n == name)
                .map_or(name.to_string(), |(_, label)| label.clone())
        };
        let rows: Vec<_> =
            study.rows.iter().map(|(n, row)| (n.clone(), row.label.clone())).collect();
        let columns: Vec<_> =
            study.columns.iter().map(|(n, column)| (n.clone(), column.label.clone())).collect();
        let (row, column) = (label(&rows, &cell.row), label(&columns, &cell.column));
        text += &format!("- {column}, {row}: {fields}\n");
    }
    text
}

/// The learning curves of a column under a protocol.
fn figure(
    study: &Study,
    ledgers: &Ledgers,
    library: &Library,
    column: &str,
    protocol: &str,
) -> Result<Option<String>> {
    let mut families = Vec::new();
    let rows = study.rows.iter().enumerate();
    for (number, (row, settings)) in rows {
        let place = Place { protocol: protocol.into(), column: column.into(), row: row.clone() };
        if !study.places().contains(&place) {
            continue;
        }
        let entries = finished(study, ledgers, &place)?;
        let whole = entries.iter().filter(|entry| entry.diverged.is_none());
        let curves: Vec<_> = whole.filter_map(|entry| entry.curve.as_ref()).collect();
        let theirs = study.column(&place).authors_curves.get(row).and_then(toml::Value::as_str);
        let is_theirs = study.protocol(&place).shows == Prediction::Best;
        let authors = theirs.filter(|_| is_theirs && !curves.is_empty()).and_then(|file| {
            let path = library.root().join("santa-2016-curves").join(file);
            curves::authors(&std::fs::read_to_string(path).ok()?)
        });
        families.push(Family { label: &settings.label, number, curves, authors });
    }
    if families.iter().all(|family| family.curves.is_empty()) {
        return Ok(None);
    }
    let (label, factor) = match study.score(column) {
        Quantity::Error => ("error in %", 100.0),
        Quantity::Nll => ("negative log-likelihood", 1.0),
    };
    Ok(Some(curves::draw(&families, label, factor)))
}
