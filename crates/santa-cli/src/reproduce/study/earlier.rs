//! The page of earlier rounds: runs with settings that the rule in force does not choose, because the
//! rule, a list or a length was changed. Whoever changes these after test data were seen owes the reader
//! what had come out before.

use super::cells::{by_seed, finished, moments};
use super::ledger::{Entry, Ledgers, Role};
use super::page::mean_and_sd;
use super::schema::{Place, Prediction, Study};
use super::trials::{settings, title};
use crate::commands::table::Table;
use crate::failure::Result;

/// The page, if there are such runs.
pub fn markdown(study: &Study, ledgers: &Ledgers) -> Result<Option<String>> {
    let mut text = format!(
        "# {}: earlier rounds\n\nRuns with settings, or of a length, that the rules in force no longer \
         choose, on test data: mean ± standard deviation over the seeds, whose number is in brackets. \
         They count for nothing in the table.\n",
        study.title
    );
    let mut any = false;
    for place in study.places() {
        let rounds = rounds(&finished(study, ledgers, &place)?, ledgers.of(&place));
        if !rounds.is_empty() {
            any = true;
            let table = table(study, &place, &rounds).markdown();
            text += &format!("\n## {}\n\n{table}", title(study, &place));
        }
    }
    Ok(any.then_some(text))
}

/// The runs that do not count, those of the same settings together. A seed that comes again is of
/// another round, and so are the runs after it: something that was not chosen had changed.
fn rounds<'a>(counted: &[&Entry], all: &'a [Entry]) -> Vec<Vec<&'a Entry>> {
    let counts = |entry: &Entry| counted.iter().any(|other| other.key == entry.key);
    let mut rounds: Vec<Vec<&Entry>> = Vec::new();
    for entry in all.iter().filter(|entry| entry.role == Role::Run && !counts(entry)) {
        let latest = rounds.iter_mut().rev().find(|round| round[0].chosen == entry.chosen);
        match latest {
            Some(round) if round.iter().all(|other| other.seed != entry.seed) => round.push(entry),
            _ => rounds.push(vec![entry]),
        }
    }
    rounds
}

fn table(study: &Study, place: &Place, rounds: &[Vec<&Entry>]) -> Table {
    let mut table = Table::new(["settings", "epochs", "last", "averaged"]);
    for round in rounds {
        let whole: Vec<f64> =
            round.iter().filter(|run| run.diverged.is_none()).map(|run| run.epochs).collect();
        let least = whole.iter().copied().reduce(f64::min);
        let most = whole.iter().copied().reduce(f64::max);
        let epochs = match (least, most) {
            (Some(least), Some(most)) if least == most => format!("{least}"),
            (Some(least), Some(most)) => format!("{least} to {most}"),
            _ => "-".into(),
        };
        let mut line = vec![settings(round[0]), epochs];
        for which in [Prediction::Last, Prediction::Averaged] {
            let values = by_seed(study, place, round, which);
            line.push(mean_and_sd(moments(&values), values.len(), round.len() - whole.len()));
        }
        table.row(line);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(key: &str, seed: u64, setting: f64) -> Entry {
        let machine = json!({ "os": "", "arch": "", "cpu": "", "threads": 1 });
        let entry = json!({
            "key": key, "role": "run", "seed": seed, "chosen": { "lr": setting },
            "epochs": 1.0, "seconds": 1.0, "version": "0", "machine": machine,
        });
        serde_json::from_value(entry).unwrap()
    }

    #[test]
    fn a_round_has_the_runs_of_one_setting_that_do_not_count_and_each_seed_once() {
        let trial = Entry { role: Role::Trial, ..run("t", 1, 0.1) };
        let all = [
            trial,
            run("a", 1, 0.1),
            run("b", 2, 0.1),
            run("c", 1, 0.2),
            run("d", 1, 0.1),
            run("e", 2, 0.2),
            run("f", 2, 0.1),
        ];
        let keys = |counted: &[&Entry]| -> Vec<String> {
            let rounds = rounds(counted, &all);
            rounds.iter().map(|round| round.iter().map(|run| run.key.as_str()).collect()).collect()
        };
        assert_eq!(keys(&[]), ["ab", "ce", "df"]);
        assert_eq!(keys(&[&all[3], &all[5]]), ["ab", "df"]);
        assert!(keys(&all.iter().collect::<Vec<_>>()).is_empty());
    }
}
