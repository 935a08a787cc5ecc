//! The page of trials: every one that was made to choose settings, with what it was worth on validation
//! data, those of lists that are no longer in force too. A reader sees how much was tried for whom.

use super::ledger::{Entry, Ledgers, Role};
use super::schema::{Place, Study};
use crate::commands::table::{Table, nll, percent};

/// The page, if any trial was made.
pub fn markdown(study: &Study, ledgers: &Ledgers) -> Option<String> {
    let mut text = format!(
        "# {}: trials\n\nOn validation data, which the trials had been kept from; none of them saw the \
         test data. Errors and negative log-likelihoods of the averaged prediction and of the last \
         parameters. *Finals*: the best settings again, for longer. Settings that are no longer in a \
         row's list stay here.\n",
        study.title
    );
    let mut any = false;
    for place in study.places() {
        let trials: Vec<&Entry> =
            ledgers.of(&place).iter().filter(|entry| entry.role != Role::Run).collect();
        if trials.is_empty() {
            continue;
        }
        any = true;
        text += &format!("\n## {}\n\n{}", title(study, &place), table(&trials).markdown());
    }
    any.then_some(text)
}

/// Of which row and column.
pub(super) fn title(study: &Study, place: &Place) -> String {
    let (row, column) = (&study.row(place).label, &study.column(place).label);
    format!("{row}, {column} ({})", place.protocol)
}

fn table(trials: &[&Entry]) -> Table {
    let mut table = Table::new([
        "settings",
        "round",
        "seed",
        "epochs",
        "error averaged",
        "nll averaged",
        "error last",
        "nll last",
    ]);
    for trial in trials {
        let round = match trial.role {
            Role::Final => "finals",
            Role::Trial | Role::Run => "first",
        };
        let mut line = vec![settings(trial), round.into(), trial.seed.to_string()];
        match &trial.diverged {
            Some(_) => line.extend(["diverged", "-", "-", "-", "-"].map(String::from)),
            None => {
                line.push(format!("{}", trial.epochs));
                for scores in [trial.averaged, trial.last] {
                    let score = scores.and_then(|scores| scores.validation);
                    line.push(percent(score.and_then(|score| score.error)));
                    line.push(nll(score.as_ref()));
                }
            }
        }
        table.row(line);
    }
    table
}

/// The fields that were tried or chosen.
pub(super) fn settings(trial: &Entry) -> String {
    let fields = trial.chosen.iter().map(|(key, value)| format!("`{key} = {value}`"));
    match trial.chosen.is_empty() {
        true => "the row's".into(),
        false => fields.collect::<Vec<_>>().join(", "),
    }
}
