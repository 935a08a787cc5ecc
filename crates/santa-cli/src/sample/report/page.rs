//! The HTML of the report.

use super::figures;
use super::order::{self, ESS_PER_CHAIN, R_HAT};
use super::reliability;
use super::words::{count, number};
use super::{Report, Row, Table};
use crate::failure::{Failure, Result};
use crate::figure::{COLOURS, Figure, variables};
use crate::nearest;
use crate::report::STYLE;
use minijinja::Environment;
use minijinja::value::Serde;
use santa_posterior::Draws;
use serde_json::{Value as Json, json};
use std::ops::Range;

/// Rows of the table that are seen at once; more are folded away.
const ROWS: usize = 20;
/// Quantities that are drawn unless others are asked for.
const DRAWN: usize = 12;
/// Quantities that are drawn in pairs.
const PAIRED: usize = 5;

/// The page.
pub fn html(report: &Report<'_>) -> Result<String> {
    let draws = report.draws;
    if !report.rows.iter().map(|row| &row.name).eq(draws.names()) {
        return Err(Failure::data("the summary and the draws are not of the same quantities")
            .hint("compute the summary from these draws"));
    }
    let not_finite = not_finite(draws);
    let worst = order::worst_first(&report.rows, &not_finite, draws.chains());
    let shown: Vec<Quantity> = shown(report, &worst)?
        .into_iter()
        .map(|i| Quantity::new(draws, i, not_finite[i]))
        .collect();
    let moving: Vec<&Quantity> = shown.iter().filter(|q| q.still().is_none()).collect();
    let paired = paired(report, &moving, &worst);
    let mut drawer = Drawer { figures: 0 };
    let (in_sight, folded) = rows(report, &worst);
    let page = json!({
        "title": report.title,
        "palette": variables(),
        "style": STYLE,
        "own_style": include_str!("style.css"),
        "lead": lead(draws),
        "verdict": report.verdict,
        "facts": report.facts,
        "rows": in_sight,
        "folded": folded,
        "limits": { "r_hat": R_HAT, "ess": ESS_PER_CHAIN * draws.chains() as f64 },
        "tables": report.tables.iter().map(|table| drawer.table(table)).collect::<Vec<_>>(),
        "chains": chains(draws.chains()),
        "single": draws.chains() == 1,
        "empty": draws.is_empty(),
        "left_out": draws.dim() - shown.len(),
        "asked": !report.shown.is_empty(),
        "quantities": shown.iter().map(|q| drawer.quantity(q, &report.cycles)).collect::<Vec<_>>(),
        "autocorrelations":
            moving.iter().filter_map(|q| drawer.autocorrelation(q)).collect::<Vec<_>>(),
        "pairs": drawer.pairs(&paired),
    });
    let mut environment = Environment::new();
    let damaged = |error| Failure::system(format!("the report's template: {error}"));
    // The ending of its name makes all values escaped.
    environment.add_template("page.html", include_str!("page.html")).map_err(damaged)?;
    let template = environment.get_template("page.html").map_err(damaged)?;
    template.render(Serde(page)).map_err(damaged)
}

/// What there is, in a line.
fn lead(draws: &Draws) -> String {
    let each = if draws.chains() == 1 { "" } else { " each" };
    let (length, dim) = (count(draws.len(), "draw"), count(draws.dim(), "quantity"));
    format!("{} of {length}{each}, {dim}.", count(draws.chains(), "chain"))
}

/// Of each quantity, how many draws are not finite.
fn not_finite(draws: &Draws) -> Vec<usize> {
    let mut counts = vec![0; draws.dim()];
    for draw in (0..draws.chains()).flat_map(|c| draws.chain(c).chunks_exact(draws.dim())) {
        for (count, value) in counts.iter_mut().zip(draw) {
            *count += usize::from(!value.is_finite());
        }
    }
    counts
}

/// The quantities that are drawn: those asked for, or all, or the worst.
fn shown(report: &Report<'_>, worst: &[usize]) -> Result<Vec<usize>> {
    let draws = report.draws;
    if report.shown.is_empty() {
        let all = draws.dim() <= DRAWN;
        return Ok(if all { (0..draws.dim()).collect() } else { worst[..DRAWN].to_vec() });
    }
    let mut shown = Vec::new();
    for name in &report.shown {
        let known = || nearest::unknown("quantity", name, draws.names().iter().map(String::as_str));
        let at = draws.position(name).ok_or_else(known)?;
        if !shown.contains(&at) {
            shown.push(at);
        }
    }
    Ok(shown)
}

/// The quantities that are drawn in pairs: the first that were asked for, or the worst.
fn paired<'a>(
    report: &Report<'_>,
    moving: &[&'a Quantity<'a>],
    worst: &[usize],
) -> Vec<&'a Quantity<'a>> {
    let mut paired = moving.to_vec();
    if report.shown.is_empty() {
        paired.sort_by_key(|quantity| worst.iter().position(|&i| i == quantity.at));
    }
    paired.truncate(PAIRED);
    paired
}

/// The rows that are seen at once, the worst first if there are others, and the others.
fn rows(report: &Report<'_>, worst: &[usize]) -> (Vec<Json>, Vec<Json>) {
    let cells = |&i: &usize| cells(&report.rows[i], report.draws.chains());
    if worst.len() <= ROWS {
        return ((0..worst.len()).map(|i| cells(&i)).collect(), Vec::new());
    }
    let (in_sight, folded) = worst.split_at(ROWS);
    let mut folded = folded.to_vec();
    folded.sort_unstable();
    (in_sight.iter().map(cells).collect(), folded.iter().map(cells).collect())
}

fn cells(row: &Row, chains: usize) -> Json {
    /// Digits of the standard deviation, and of the Monte Carlo error.
    const DIGITS: (i32, i32) = (3, 2);
    let cell = |text: String| json!({ "text": text });
    let value = |value: f64| cell(number(value, row.sd, DIGITS.0));
    let suspicious = |text: String, bad: bool| json!({ "text": text, "bad": bad });
    let ess =
        |ess: f64| suspicious(number(ess.round(), 1.0, 1), ess < ESS_PER_CHAIN * chains as f64);
    // Four digits, so that 1.009 and 1.011 are on either side of the limit.
    let r_hat = number(row.r_hat, 1.0, 4);
    json!({
        "name": row.name,
        "cells": [
            value(row.mean), value(row.sd), value(row.q5), value(row.q50), value(row.q95),
            cell(number(row.mcse, row.mcse, DIGITS.1)),
            ess(row.ess_bulk), ess(row.ess_tail), suspicious(r_hat, row.r_hat > R_HAT),
        ],
    })
}

/// The legend.
fn chains(count: usize) -> Vec<Json> {
    let entry = |chain: usize| json!({ "colour": chain % COLOURS.len(), "dash": figures::style(chain).dash });
    (0..count).map(entry).collect()
}

/// A quantity and its draws.
struct Quantity<'a> {
    /// Its number among all.
    at: usize,
    name: &'a str,
    chains: Vec<Vec<f64>>,
    finite: Vec<Vec<f64>>,
    /// Draws that are not finite.
    not_finite: usize,
}

impl<'a> Quantity<'a> {
    fn new(draws: &'a Draws, at: usize, not_finite: usize) -> Self {
        let chains = draws.quantity(at);
        let finite = figures::finite(&chains);
        Quantity { at, name: &draws.names()[at], chains, finite, not_finite }
    }

    /// Why there is nothing to draw, if there is not.
    fn still(&self) -> Option<String> {
        if self.finite.iter().all(Vec::is_empty) {
            return Some("No draw is finite: there is nothing to plot.".into());
        }
        let value = figures::constant(&self.finite)?;
        Some(format!("Every draw is {value}: there is nothing to plot."))
    }

    fn note(&self) -> String {
        let all: usize = self.chains.iter().map(Vec::len).sum();
        let left_out = match self.not_finite {
            0 => String::new(),
            1 => format!("1 of {all} draws is not finite. "),
            some => format!("{some} of {all} draws are not finite. "),
        };
        left_out + &self.still().unwrap_or_default()
    }
}

/// Draws figures, and numbers them.
struct Drawer {
    figures: usize,
}

impl Drawer {
    fn draw(&mut self, figure: &Figure, name: &str) -> String {
        self.figures += 1;
        figure.inline(self.figures, name)
    }

    fn table(&mut self, table: &Table) -> Json {
        let mut charts = Vec::new();
        if !table.bins.is_empty() {
            let kinds = [
                ("Share that is right", reliability::diagram(&table.bins)),
                ("Number of predictions", reliability::counts(&table.bins)),
            ];
            for (title, figure) in kinds {
                let svg = self.draw(&figure, &format!("{title}, by confidence"));
                charts.push(json!({ "title": title, "svg": svg }));
            }
        }
        json!({
            "title": table.title,
            "columns": table.columns,
            "rows": table.rows,
            "note": table.note,
            "charts": charts,
        })
    }

    fn quantity(&mut self, quantity: &Quantity<'_>, cycles: &[Range<usize>]) -> Json {
        let mut charts = Vec::new();
        if quantity.still().is_none() {
            let ranks = figures::rank_frequencies(&quantity.finite);
            let kinds = [
                ("Trace", "trace", Some(figures::trace(&quantity.chains, cycles))),
                ("Density", "density", Some(figures::densities(&quantity.finite))),
                ("Ranks", "ranks", ranks),
            ];
            for (title, class, figure) in kinds {
                if let Some(figure) = figure {
                    let svg = self.draw(&figure, &format!("{title} of {}", quantity.name));
                    charts.push(json!({ "title": title, "class": class, "svg": svg }));
                }
            }
        }
        json!({ "name": quantity.name, "note": quantity.note(), "charts": charts })
    }

    fn autocorrelation(&mut self, quantity: &Quantity<'_>) -> Option<Json> {
        let figure = figures::autocorrelations(&quantity.finite);
        if figure.is_empty() {
            return None;
        }
        let svg = self.draw(&figure, &format!("Autocorrelation of {}", quantity.name));
        Some(json!({ "title": quantity.name, "svg": svg }))
    }

    /// A lower triangle: each quantity against those before it.
    fn pairs(&mut self, quantities: &[&Quantity<'_>]) -> Json {
        let mut panels = Vec::new();
        for (row, y) in quantities.iter().enumerate() {
            for (column, x) in quantities[..row].iter().enumerate() {
                let figure = figures::pair((x.name, &x.chains), (y.name, &y.chains));
                let svg = self.draw(&figure, &format!("{} against {}", y.name, x.name));
                panels.push(json!({ "row": row, "column": column + 1, "svg": svg }));
            }
        }
        json!({ "panels": panels, "columns": quantities.len().saturating_sub(1) })
    }
}
