//! The files of a study's results: tables, data and figures.

use super::cells::{Cell, finished};
use super::curves::{self, Family};
use super::ledger::Ledgers;
use super::runs::Options;
use super::schema::{Place, Prediction, Quantity, Study};
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
    options: &Options,
    library: &Library,
    folder: &Path,
) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Failure::system(format!("making {}: {e}", folder.display())))?;
    let results = json!({ "made_by": provenance(), "title": study.title, "cells": cells });
    write_json(&folder.join("results.json"), &results)?;
    write(&folder.join("results.csv"), csv(cells).as_bytes())?;
    write(&folder.join("table.md"), markdown(study, cells).as_bytes())?;
    for (column, _) in &study.columns {
        for (protocol, _) in &study.protocols {
            let figure = figure(study, ledgers, options, library, column, protocol)?;
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

/// What is printed: a table for each protocol.
pub fn summary(study: &Study, cells: &[Cell]) -> String {
    let mut text = String::new();
    for (name, protocol) in &study.protocols {
        text += &format!("{}{name}: {}\n", gap(&text), protocol.description);
        text += &format!("{}\n", table(study, cells, name));
    }
    text.trim_end().into()
}

fn gap(text: &str) -> &'static str {
    if text.is_empty() { "" } else { "\n" }
}

fn markdown(study: &Study, cells: &[Cell]) -> String {
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
    let units = units.join("; ");
    text += &format!(
        "\nOn test data, {units}: mean ± standard deviation over the seeds, whose number is in brackets. *p* is that \
         of a paired t-test against Santa over the seeds.\n"
    );
    for (name, protocol) in &study.protocols {
        text += &format!("\n## Protocol: {name}\n\n{}\n\n", protocol.description);
        text += &table(study, cells, name).markdown();
        let chosen = choices(study, cells, name);
        if !chosen.is_empty() {
            text += &format!("\nChosen on validation data:\n\n{chosen}");
        }
    }
    text
}

/// The table of a protocol: rows by columns, every prediction that there is.
fn table(study: &Study, cells: &[Cell], protocol: &str) -> Table {
    let mut titles = vec![String::new()];
    let here: Vec<&Cell> = cells.iter().filter(|cell| cell.protocol == protocol).collect();
    let kinds: Vec<Kind> =
        KINDS.into_iter().filter(|kind| here.iter().any(|c| kind.has(c))).collect();
    for (_, column) in &study.columns {
        titles.push(format!("{}: paper", column.label));
        titles.extend(kinds.iter().map(|kind| kind.title.to_string()));
        titles.push("p".into());
    }
    let mut table = Table::new(titles);
    for (name, row) in &study.rows {
        let is_here = here.iter().any(|cell| cell.row == *name) || row.quoted.is_some();
        if !is_here {
            continue;
        }
        let mut line = vec![match &row.quoted {
            Some(source) => format!("{} (quoted: {source})", row.label),
            None => row.label.clone(),
        }];
        for (column, _) in &study.columns {
            let cell = here.iter().find(|cell| cell.row == *name && cell.column == *column);
            let paper = row.paper(column).map_or("-".into(), |x| format!("{x:.2}"));
            line.push(paper);
            line.extend(kinds.iter().map(|kind| cell.map_or("-".into(), |cell| kind.show(cell))));
            let p = cell.and_then(|cell| cell.p);
            line.push(p.map_or("-".into(), |p| {
                if p < 1e-3 { "<0.001".into() } else { format!("{p:.3}") }
            }));
        }
        table.row(line);
    }
    table
}

/// A kind of prediction, in a table.
#[derive(Clone, Copy)]
struct Kind {
    title: &'static str,
    value: fn(&Cell) -> (Option<f64>, Option<f64>),
}

const KINDS: [Kind; 3] = [
    Kind { title: "last", value: |cell| (cell.last, cell.last_sd) },
    Kind { title: "averaged", value: |cell| (cell.averaged, cell.averaged_sd) },
    Kind { title: "best on validation", value: |cell| (cell.best, cell.best_sd) },
];

impl Kind {
    fn has(&self, cell: &Cell) -> bool {
        (self.value)(cell).0.is_some()
    }

    fn show(&self, cell: &Cell) -> String {
        let lost = match cell.diverged {
            0 => String::new(),
            lost => format!(", {lost} diverged"),
        };
        let seeds = cell.seeds;
        match (self.value)(cell) {
            (Some(mean), Some(sd)) => format!("{mean:.3} ± {sd:.3} ({seeds}{lost})"),
            (Some(mean), None) => format!("{mean:.3} ({seeds}{lost})"),
            _ if cell.diverged > 0 => "diverged".into(),
            _ => "-".into(),
        }
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
    options: &Options,
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
        let entries = finished(study, ledgers, &place, options.seeds)?;
        let curves: Vec<_> = entries.iter().filter_map(|entry| entry.curve.as_ref()).collect();
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
