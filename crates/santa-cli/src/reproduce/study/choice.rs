//! Which settings a row is run with: those that are best on validation data.

use super::cells::{prediction, value};
use super::ledger::{Ledgers, Role, key_of};
use super::schema::{Fields, Place, Study};
use crate::experiment::Draft;
use crate::failure::Result;

/// What settings are worth on validation data, the less the better: the score of the table and, where
/// that is equal, the likelihood.
type Worth = (f64, f64);

/// The settings of a cell, once every trial is finished. Those whose first run diverged give way to the
/// next best: that happens on training data, so no test data take part in it.
pub fn chosen(study: &Study, ledgers: &Ledgers, place: &Place) -> Result<Option<Fields>> {
    if study.protocol(place).tuning.is_none() {
        return Ok(Some(Fields::new()));
    }
    let Some(preferred) = preferred(study, ledgers, place)? else { return Ok(None) };
    for fields in &preferred {
        if !ran_away(study, ledgers, place, fields)? {
            return Ok(Some(fields.clone()));
        }
    }
    // Where all of them diverged, the best of the trials or the last of the list is shown to diverge.
    Ok(preferred.into_iter().next().or_else(|| study.grid(place).pop()))
}

/// Whether the first run with these settings diverged.
fn ran_away(study: &Study, ledgers: &Ledgers, place: &Place, fields: &Fields) -> Result<bool> {
    let key = key_of(&study.run(place, fields, *study.seeds(place, None).start())?.resolve()?)?;
    Ok(ledgers.find(place, Role::Run, &key).is_some_and(|entry| entry.diverged.is_some()))
}

/// The settings that may be chosen, the best on validation data first, once every trial is finished.
fn preferred(study: &Study, ledgers: &Ledgers, place: &Place) -> Result<Option<Vec<Fields>>> {
    let Some(candidates) = candidates(study, ledgers, place)? else { return Ok(None) };
    let Some(finals) = study.finals(place).filter(|_| candidates.len() > 1) else {
        return Ok(Some(candidates));
    };
    let mut judged = Vec::new();
    for fields in candidates {
        let mut sum = (0.0, 0.0);
        for seed in &finals.seeds {
            let draft = study.final_trial(place, &fields, *seed)?;
            let Some(worth) = worth(study, ledgers, place, Role::Final, draft)? else {
                return Ok(None);
            };
            sum = (sum.0 + worth.0, sum.1 + worth.1);
        }
        judged.push((sum, fields));
    }
    Ok(Some(best_first(judged)))
}

/// Settings by what they are worth; of those that are equal, the first.
fn best_first(mut judged: Vec<(Worth, Fields)>) -> Vec<Fields> {
    judged.sort_by(|((a, x), _), ((b, y), _)| a.total_cmp(b).then(x.total_cmp(y)));
    judged.into_iter().map(|(_, fields)| fields).collect()
}

/// The settings that are tried in the finals, once it is known which ones.
pub fn finalists(study: &Study, ledgers: &Ledgers, place: &Place) -> Result<Vec<Fields>> {
    if study.finals(place).is_none() {
        return Ok(Vec::new());
    }
    let candidates = candidates(study, ledgers, place)?.unwrap_or_default();
    // Of one there is nothing to choose.
    Ok(if candidates.len() > 1 { candidates } else { Vec::new() })
}

/// The settings among which the finals decide: the best of the first round, or those that were chosen in
/// another column with what the row tries here laid over them. None before they are known.
fn candidates(study: &Study, ledgers: &Ledgers, place: &Place) -> Result<Option<Vec<Fields>>> {
    let finals = study.finals(place);
    let Some(column) = &study.column(place).chosen_on else {
        let mut ranked = ranked(study, ledgers, place)?;
        if let (Some(ranked), Some(finals)) = (&mut ranked, finals) {
            ranked.truncate(finals.settings);
        }
        return Ok(ranked);
    };
    let there = Place { column: column.clone(), ..place.clone() };
    let Some(taken_over) = chosen(study, ledgers, &there)? else { return Ok(None) };
    let own = if finals.is_some() { study.refinements(place) } else { Vec::new() };
    Ok(Some(match own.is_empty() {
        true => vec![taken_over],
        false => own.into_iter().map(|own| laid_over(&taken_over, own)).collect(),
    }))
}

/// Fields with others in place of those of the same name.
fn laid_over(fields: &Fields, others: Fields) -> Fields {
    let named = |name: &String| others.iter().any(|(other, _)| other == name);
    let mut all: Fields = fields.iter().filter(|(name, _)| !named(name)).cloned().collect();
    all.extend(others);
    all
}

/// The settings that did not diverge, the best ones first; none before all of them were tried.
fn ranked(study: &Study, ledgers: &Ledgers, place: &Place) -> Result<Option<Vec<Fields>>> {
    let mut ranked: Vec<(Worth, Fields)> = Vec::new();
    for fields in study.grid(place) {
        let draft = study.trial(place, &fields)?;
        match worth(study, ledgers, place, Role::Trial, draft)? {
            None => return Ok(None),
            Some(worth) if worth.0.is_finite() => ranked.push((worth, fields)),
            Some(_) => (),
        }
    }
    Ok(Some(best_first(ranked)))
}

/// What a trial found, if it is finished; infinite if it diverged.
fn worth(
    study: &Study,
    ledgers: &Ledgers,
    place: &Place,
    role: Role,
    draft: Draft,
) -> Result<Option<Worth>> {
    let Some(tuning) = &study.protocol(place).tuning else { return Ok(None) };
    let key = key_of(&draft.resolve()?)?;
    let Some(entry) = ledgers.find(place, role, &key) else { return Ok(None) };
    let scores = prediction(entry, tuning.by, study.row(place).sampler);
    let worth = scores
        .and_then(|scores| scores.validation)
        .map(|score| (value(study.score(&place.column), &score), score.nll));
    let worth = worth.filter(|(score, nll)| score.is_finite() && nll.is_finite());
    Ok(Some(worth.unwrap_or((f64::INFINITY, f64::INFINITY))))
}
