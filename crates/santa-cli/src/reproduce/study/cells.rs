//! What the table says of each cell.

use super::choice::chosen;
use super::ledger::{Entry, Ledgers, Role, key_of};
use super::schema::{Place, Prediction, Quantity, Study};
use super::significance::paired;
use crate::failure::Result;
use crate::run::record::{Score, Scores};
use santa::stats::Moments;
use serde::Serialize;

/// A cell of a table: errors in per cent, or negative log-likelihoods.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Name of the row.
    pub row: String,
    /// Name of the column.
    pub column: String,
    /// Name of the protocol; `quoted` for a number of others.
    pub protocol: String,
    /// Mean over the seeds, of the prediction that the protocol shows.
    pub mean: Option<f64>,
    /// Standard deviation over the seeds; none for fewer than two.
    pub sd: Option<f64>,
    /// Runs that were finished.
    pub seeds: usize,
    /// Of those, how many diverged.
    pub diverged: usize,
    /// Mean of the last parameters.
    pub last: Option<f64>,
    /// Its standard deviation.
    pub last_sd: Option<f64>,
    /// Mean of the averaged prediction.
    pub averaged: Option<f64>,
    /// Its standard deviation.
    pub averaged_sd: Option<f64>,
    /// Mean of the parameters that were best on validation data, where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<f64>,
    /// Its standard deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_sd: Option<f64>,
    /// p-value of a paired test against Santa, over the seeds that both have.
    pub p: Option<f64>,
    /// What the paper says.
    pub paper: Option<f64>,
    /// The settings that were chosen on validation data.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub chosen: serde_json::Map<String, serde_json::Value>,
    /// Where the momentum began and ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub momentum: Option<(f64, f64)>,
    /// Seconds of a run, on one thread.
    pub seconds: Option<f64>,
    /// Runs behind `mean`, `last`, `averaged` and `best`, in this order.
    #[serde(skip)]
    pub counts: [usize; 4],
}

impl Cell {
    /// Whether it is the one of this row and column, under this protocol.
    pub fn is_at(&self, place: &Place) -> bool {
        (&self.protocol, &self.column, &self.row) == (&place.protocol, &place.column, &place.row)
    }
}

/// Against which the others are tested.
const SANTA: &str = "santa";

/// A prediction at the end of a run.
pub(super) fn prediction(entry: &Entry, which: Prediction, sampler: bool) -> Option<Scores> {
    match which {
        Prediction::Last => entry.last,
        Prediction::Averaged => entry.averaged,
        // Of old runs it is known where they stopped early. One that did not was last better, if not at
        // the end, then within the patience before it.
        Prediction::BestAveraged => entry.best_averaged.or(entry.averaged),
        Prediction::Best => entry.best,
        Prediction::AsAuthors if sampler => entry.averaged,
        Prediction::AsAuthors => entry.last,
    }
}

/// A score as the tables show it.
pub(super) fn value(quantity: Quantity, score: &Score) -> f64 {
    const PERCENT: f64 = 100.0;
    match quantity {
        Quantity::Error => PERCENT * score.error.unwrap_or(f64::NAN),
        Quantity::Nll => score.nll,
    }
}

/// The finished runs of a cell, by seed.
pub fn finished<'a>(study: &Study, ledgers: &'a Ledgers, place: &Place) -> Result<Vec<&'a Entry>> {
    let Some(fields) = chosen(study, ledgers, place)? else { return Ok(Vec::new()) };
    let mut entries = Vec::new();
    for seed in ledgers.seeds(place) {
        let key = key_of(&study.run(place, &fields, seed)?.resolve()?)?;
        entries.extend(ledgers.find(place, Role::Run, &key));
    }
    Ok(entries)
}

/// Seeds and what a prediction was worth with them.
pub(super) type BySeed = Vec<(u64, f64)>;

/// What the runs of a cell are worth.
pub(super) fn by_seed(
    study: &Study,
    place: &Place,
    entries: &[&Entry],
    which: Prediction,
) -> BySeed {
    let sampler = study.row(place).sampler;
    let test = |entry: &&Entry| {
        let score = prediction(entry, which, sampler)?.test?;
        Some((entry.seed, value(study.score(&place.column), &score)))
    };
    entries.iter().filter_map(test).collect()
}

/// Mean and standard deviation, where there are enough for them.
pub(super) fn moments(values: &BySeed) -> (Option<f64>, Option<f64>) {
    let moments: Moments = values.iter().map(|(_, value)| *value).collect();
    let sd = (moments.count() > 1).then(|| moments.variance().sqrt());
    ((moments.count() > 0).then(|| moments.mean()), sd)
}

/// All cells, quoted ones too.
pub fn cells(study: &Study, ledgers: &Ledgers) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for place in study.places() {
        let entries = finished(study, ledgers, &place)?;
        let protocol = study.protocol(&place);
        let scores = |which| by_seed(study, &place, &entries, which);
        let kinds = [protocol.shows, Prediction::Last, Prediction::Averaged, Prediction::Best];
        let kinds = kinds.map(scores);
        let counts = kinds.each_ref().map(Vec::len);
        let [(mean, sd), (last, last_sd), (averaged, averaged_sd), (best, best_sd)] =
            kinds.each_ref().map(moments);
        let [shown, ..] = kinds;
        let santa = Place { row: SANTA.into(), ..place.clone() };
        let rival = place.row != SANTA && study.rows.iter().any(|(name, _)| name == SANTA);
        let p = match rival && study.places().contains(&santa) {
            true => {
                let theirs = finished(study, ledgers, &santa)?;
                let theirs = by_seed(study, &santa, &theirs, protocol.shows);
                let pair = |(seed, x): &(u64, f64)| {
                    let (_, other) = theirs.iter().find(|(other, _)| other == seed)?;
                    Some(x - other)
                };
                paired(&shown.iter().filter_map(pair).collect::<Vec<_>>())
            }
            false => None,
        };
        let whole = entries.iter().filter(|entry| entry.diverged.is_none());
        let seconds: Moments = whole.map(|entry| entry.seconds).collect();
        cells.push(Cell {
            row: place.row.clone(),
            column: place.column.clone(),
            protocol: place.protocol.clone(),
            mean,
            sd,
            seeds: entries.len(),
            diverged: entries.iter().filter(|entry| entry.diverged.is_some()).count(),
            last,
            last_sd,
            averaged,
            averaged_sd,
            best,
            best_sd,
            p,
            paper: study.row(&place).paper(&place.column),
            chosen: entries.first().map(|entry| entry.chosen.clone()).unwrap_or_default(),
            momentum: entries.first().and_then(|entry| entry.momentum),
            seconds: (seconds.count() > 0).then(|| seconds.mean()),
            counts,
        });
    }
    cells.extend(quoted(study));
    Ok(cells)
}

/// Numbers of others.
fn quoted(study: &Study) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (name, row) in study.rows.iter().filter(|(_, row)| row.quoted.is_some()) {
        for (column, _) in &study.columns {
            let Some(paper) = row.paper(column) else { continue };
            cells.push(Cell {
                row: name.clone(),
                column: column.clone(),
                protocol: "quoted".into(),
                mean: None,
                sd: None,
                seeds: 0,
                diverged: 0,
                last: None,
                last_sd: None,
                averaged: None,
                averaged_sd: None,
                best: None,
                best_sd: None,
                p: None,
                paper: Some(paper),
                chosen: Default::default(),
                momentum: None,
                seconds: None,
                counts: [0; 4],
            });
        }
    }
    cells
}
