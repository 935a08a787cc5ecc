//! Which examples are wrong, row by row: whether two methods make the same mistakes, and whether the
//! others are more than chance. A single run of each is enough for that, where a test over seeds is not.

use super::cells::finished;
use super::ledger::{Entry, Ledgers};
use super::schema::{Place, Study};
use super::significance::sign_test;
use crate::commands::table::Table;
use crate::failure::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Against which the others are compared.
const SANTA: &str = "santa";

/// The mistakes of a row's averaged predictions: for each seed, the places of the examples.
#[derive(Clone, Debug, Default, PartialEq)]
struct Mistakes(BTreeMap<u64, BTreeSet<u32>>);

/// How the mistakes of a row compare with those of another, over the seeds that both have.
#[derive(Clone, Debug, PartialEq)]
struct Comparison {
    /// Seeds that both have.
    seeds: usize,
    /// Mistakes of the row, of a run.
    own: f64,
    /// Of those, how many the other makes too.
    common: f64,
    /// Chance of so many more examples on one side than on the other, if both were equally good.
    p: f64,
}

impl Mistakes {
    /// Those of runs that wrote them down.
    fn of(runs: &[&Entry]) -> Self {
        let of = |run: &&Entry| Some((run.seed, run.wrong.as_ref()?.iter().copied().collect()));
        Mistakes(runs.iter().filter_map(of).collect())
    }

    /// An example counts for the side that gets it right with more of the seeds.
    fn compare(&self, other: &Mistakes) -> Option<Comparison> {
        let mut balance: BTreeMap<u32, i64> = BTreeMap::new();
        let (mut seeds, mut own, mut common) = (0, 0, 0);
        for (seed, mine) in &self.0 {
            let Some(theirs) = other.0.get(seed) else { continue };
            seeds += 1;
            own += mine.len();
            common += mine.intersection(theirs).count();
            mine.iter().for_each(|i| *balance.entry(*i).or_default() += 1);
            theirs.iter().for_each(|i| *balance.entry(*i).or_default() -= 1);
        }
        let worse = balance.values().filter(|more| **more > 0).count();
        let better = balance.values().filter(|more| **more < 0).count();
        let mean = |sum: usize| sum as f64 / seeds as f64;
        (seeds > 0).then(|| Comparison {
            seeds,
            own: mean(own),
            common: mean(common),
            p: sign_test(worse, better),
        })
    }
}

/// The section of a column, if two rows of it have written their mistakes down.
pub fn markdown(
    study: &Study,
    ledgers: &Ledgers,
    column: &str,
    protocol: &str,
) -> Result<Option<String>> {
    let mut rows = Vec::new();
    for (row, settings) in &study.rows {
        let place = Place { protocol: protocol.into(), column: column.into(), row: row.clone() };
        if study.places().contains(&place) {
            let mistakes = Mistakes::of(&finished(study, ledgers, &place)?);
            rows.push((row.as_str(), settings.label.as_str(), mistakes));
        }
    }
    Ok(section(&rows))
}

fn section(rows: &[(&str, &str, Mistakes)]) -> Option<String> {
    let (_, name, santa) = rows.iter().find(|(name, ..)| *name == SANTA)?;
    let compared: Vec<_> = rows
        .iter()
        .filter(|(name, ..)| *name != SANTA)
        .filter_map(|(_, label, mistakes)| Some((label, mistakes.compare(santa)?)))
        .collect();
    if compared.is_empty() {
        return None;
    }
    let mut table = Table::new(["", "seeds", "wrong", "also wrong for Santa", "p by examples"]);
    // Santa against itself: all of its seeds.
    if let Some(Comparison { seeds, own, .. }) = santa.compare(santa) {
        let none = || "-".to_string();
        table.row([name.to_string(), seeds.to_string(), format!("{own:.1}"), none(), none()]);
    }
    for (label, Comparison { seeds, own, common, p }) in &compared {
        let p = if *p < 1e-3 { "<0.001".into() } else { format!("{p:.3}") };
        table.row([
            label.to_string(),
            seeds.to_string(),
            format!("{own:.1}"),
            format!("{common:.1}"),
            p,
        ]);
    }
    let runs: Vec<_> = rows.iter().flat_map(|(.., mistakes)| mistakes.0.values()).collect();
    let always = runs.iter().copied().cloned().reduce(|a, b| &a & &b).unwrap_or_default().len();
    Some(format!(
        "Mistakes of the averaged predictions, over the seeds that a row has in common with Santa. *p by \
         examples* is that of a sign test over the examples, each of which counts for the side that \
         gets it right with more seeds. {always} examples are wrong in all {} runs of this table, \
         Santa's among them.\n\n{}",
        runs.len(),
        table.markdown()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(runs: &[(u64, &[u32])]) -> Mistakes {
        let run = |(seed, places): &(u64, &[u32])| (*seed, places.iter().copied().collect());
        Mistakes(runs.iter().map(run).collect())
    }

    #[test]
    fn mistakes_are_compared_over_the_seeds_that_both_have() {
        let santa = mistakes(&[(1, &[3, 5, 7]), (2, &[3, 5]), (9, &[1])]);
        let other = mistakes(&[(1, &[3, 5, 8, 9]), (2, &[5, 7, 8, 9]), (3, &[2])]);
        let found = other.compare(&santa).unwrap();
        // In common are 3 and 5 with seed 1, and 5 with seed 2.
        assert_eq!((found.seeds, found.own, found.common), (2, 4.0, 1.5));
        // 8 and 9 are worse, 3 is better, 7 is level.
        assert_eq!(found.p, sign_test(2, 1));
        assert_eq!(other.compare(&mistakes(&[(4, &[1])])), None);
    }

    #[test]
    fn the_same_mistakes_are_no_difference_and_many_more_of_them_are_one() {
        let few: Vec<u32> = (0..40).collect();
        let many: Vec<u32> = (0..60).collect();
        let (few, many) = (mistakes(&[(1, &few)]), mistakes(&[(1, &many)]));
        assert_eq!(few.compare(&few).unwrap().p, 1.0);
        assert!(many.compare(&few).unwrap().p < 1e-5);
        assert!(few.compare(&many).unwrap().p < 1e-5);
    }

    #[test]
    fn the_section_counts_what_is_wrong_for_everybody() {
        let santa = mistakes(&[(1, &[3, 5, 7])]);
        let (adam, sgd) = (mistakes(&[(1, &[3, 5])]), mistakes(&[(2, &[5, 7])]));
        let rows = [("santa", "Santa", santa), ("adam", "Adam", adam), ("sgd", "SGD", sgd)];
        let text = section(&rows).unwrap();
        assert!(text.contains("1 examples are wrong in all 3 runs"), "{text}");
        assert!(text.contains("| Santa | 1 | 3.0 | - | - |"), "{text}");
        assert!(text.contains("| Adam | 1 | 2.0 | 2.0 | 1.000 |"), "{text}");
        // One without a seed in common has no line.
        assert!(!text.contains("| SGD"), "{text}");
        assert_eq!(section(&rows[..1]), None);
        assert_eq!(section(&rows[1..]), None);
    }
}
