//! What the first page of the results says stands in the tables beside it, which a command wrote.

use std::path::{Path, PathBuf};

/// The folder of results; none in a package.
fn results() -> Option<PathBuf> {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results");
    if !results.is_dir() {
        eprintln!("SKIPPED: there are no results in {}", results.display());
        return None;
    }
    Some(results)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// All pages below a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages.extend(self::pages(&path));
        } else if path.extension().is_some_and(|e| e == "md") {
            pages.push(path);
        }
    }
    pages
}

/// Every `1.23 ± 0.04` of a text.
fn spreads(text: &str) -> Vec<String> {
    let digit = |c: char| c.is_ascii_digit() || c == '.';
    let sides = text.match_indices(" ± ").filter_map(|(at, sign)| {
        let (before, after) = (&text[..at], &text[at + sign.len()..]);
        let mean = &before[before.trim_end_matches(digit).len()..];
        let sd = after[..after.len() - after.trim_start_matches(digit).len()].trim_end_matches('.');
        (!mean.is_empty() && !sd.is_empty()).then(|| format!("{mean} ± {sd}"))
    });
    sides.collect()
}

#[test]
fn every_mean_with_a_spread_on_the_first_page_stands_in_a_table() {
    let Some(results) = results() else { return };
    let first = results.join("README.md");
    let tables = pages(&results).into_iter().filter(|page| *page != first);
    let known: Vec<String> = tables.flat_map(|page| spreads(&read(&page))).collect();
    let said = spreads(&read(&first));
    assert!(said.len() > 10, "{said:?}");
    let unknown: Vec<_> = said.iter().filter(|figure| !known.contains(figure)).collect();
    assert!(unknown.is_empty(), "results/README.md: in no table: {unknown:?}");
}

#[test]
fn spreads_are_found_where_they_end_a_sentence() {
    let text =
        "Santa: **1.104 ± 0.043 %**; Adam has 1.3 ± 0.1. A ± alone, x ± 1 and 2 ± y are none.";
    assert_eq!(spreads(text), ["1.104 ± 0.043", "1.3 ± 0.1"]);
}

#[test]
fn the_links_of_the_first_page_lead_somewhere_and_nothing_in_it_waits_to_be_filled_in() {
    let Some(results) = results() else { return };
    let text = read(&results.join("README.md"));
    for (at, _) in text.match_indices("](") {
        let target = text[at + 2..].split(')').next().unwrap();
        let there = target.contains("://") || results.join(target).exists();
        assert!(there, "results/README.md: {target} is not there");
    }
    assert!(!text.contains('@'), "results/README.md: a place that was not filled in");
}
