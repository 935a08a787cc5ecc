//! What the first page of the results says stands in the tables beside it, which a command wrote.

use serde_json::{Value, json};
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

/// The numbers of every `p = 0.04`, and of every `p = 0.16 and 0.80`, of a text.
fn p_values(text: &str) -> Vec<String> {
    let number = |text: &str| {
        let digits = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        text[..text.len() - digits.len()].trim_end_matches('.').to_string()
    };
    let mut values = Vec::new();
    for (at, sign) in text.match_indices("p = ") {
        let after = &text[at + sign.len()..];
        let first = number(after);
        let second = after[first.len()..].strip_prefix(" and ").map(number);
        values.extend([Some(first), second].into_iter().flatten().filter(|p| !p.is_empty()));
    }
    values
}

/// Whether one of the numbers is this one, rounded to as many places.
fn is_rounded(said: &str, numbers: &[f64]) -> bool {
    let places = said.split('.').nth(1).map_or(0, str::len);
    numbers.iter().any(|number| format!("{number:.places$}") == said)
}

#[test]
fn every_p_on_the_first_page_is_that_of_a_cell() {
    let Some(results) = results() else { return };
    let mut known = Vec::new();
    for table in ["table1", "table2", "ablation"] {
        let stored = read(&results.join(table).join("results.json"));
        let stored: Value = serde_json::from_str(&stored).unwrap();
        known.extend(stored["cells"].as_array().unwrap().iter().filter_map(|c| c["p"].as_f64()));
    }
    let said = p_values(&read(&results.join("README.md")));
    assert!(said.len() > 5, "{said:?}");
    let unknown: Vec<_> = said.iter().filter(|p| !is_rounded(p, &known)).collect();
    assert!(unknown.is_empty(), "results/README.md: p of no cell: {unknown:?}");
}

#[test]
fn p_values_are_found_and_compared_as_they_are_rounded() {
    let text = "better (p = 0.042). No p is 0.9; against it p = 0.16 and 0.80; and p = 0.3.";
    assert_eq!(p_values(text), ["0.042", "0.16", "0.80", "0.3"]);
    let known = [0.0421, 0.798];
    assert!(is_rounded("0.04", &known) && is_rounded("0.042", &known));
    assert!(is_rounded("0.80", &known) && !is_rounded("0.79", &known));
}

/// A line of the first page's table of known numbers: how it begins, and the cells that it is about.
const KNOWN: [(&str, &str, &str); 8] = [
    ("FNN-400,", "table1", "fnn-400"),
    ("FNN-800,", "table1", "fnn-800"),
    ("CNN of the text,", "table1", "cnn"),
    ("CNN of the authors' code,", "table1", "cnn-code"),
    ("JSB,", "table2", "jsb"),
    ("Piano,", "table2", "piano-midi"),
    ("Nottingham,", "table2", "nottingham"),
    ("MuseData,", "table2", "musedata"),
];

/// `1.23 ± 0.04 (3)` of a cell: the runs that did not diverge.
fn figure(cell: &Value) -> Option<String> {
    let mean = cell["mean"].as_f64()?;
    let count = cell["seeds"].as_u64()? - cell["diverged"].as_u64()?;
    let spread = cell["sd"].as_f64().map_or(String::new(), |sd| format!(" ± {sd:.3}"));
    Some(format!("{mean:.3}{spread} ({count})"))
}

/// What a line of the table should have in its second and third column of numbers.
fn expected(cells: &[Value], column: &str) -> (Option<String>, Option<String>) {
    let here = |cell: &&Value| cell["column"] == column && cell["protocol"] == "fair";
    let (santas, others): (Vec<&Value>, Vec<&Value>) = cells
        .iter()
        .filter(here)
        .partition(|cell| cell["row"].as_str().is_some_and(|row| row.starts_with("santa")));
    let santa = santas.into_iter().find(|cell| cell["row"] == "santa").and_then(figure);
    let mean = |cell: &&Value| cell["mean"].as_f64();
    let ranked = others.into_iter().filter(|cell| mean(cell).is_some());
    let best = ranked.min_by(|a, b| mean(a).unwrap().total_cmp(&mean(b).unwrap()));
    (santa, best.and_then(figure))
}

#[test]
fn the_known_numbers_of_the_first_page_are_those_of_their_cells() {
    let Some(results) = results() else { return };
    let page = read(&results.join("README.md"));
    for (label, table, column) in KNOWN {
        let stored = read(&results.join(table).join("results.json"));
        let stored: Value = serde_json::from_str(&stored).unwrap();
        let (santa, best) = expected(stored["cells"].as_array().unwrap(), column);
        let line = page.lines().find(|line| line.starts_with(&format!("| {label}")));
        let line = line.unwrap_or_else(|| panic!("results/README.md has no line of {label}"));
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [santa, best] = [santa, best].map(|figure| figure.unwrap_or("not run".into()));
        assert_eq!(fields[3], santa, "{label} Santa");
        assert!(
            fields[4].ends_with(&best),
            "{label} best of the others: {best}, not {}",
            fields[4]
        );
    }
}

#[test]
fn the_best_of_the_others_is_the_least_of_the_finished_rows_under_the_same_rule() {
    let cell = |row: &str, protocol: &str, mean: Option<f64>| {
        json!({ "row": row, "column": "x", "protocol": protocol, "mean": mean, "sd": 0.01,
                "seeds": 3, "diverged": 1 })
    };
    let cells = [
        cell("santa", "fair", Some(2.0)),
        cell("santa-r", "fair", Some(0.5)),
        cell("adam", "fair", Some(3.0)),
        cell("sgd", "fair", Some(2.5)),
        cell("sgd-m", "fair", None),
        cell("rmsprop", "authors", Some(1.0)),
    ];
    let figure = |mean: &str| Some(format!("{mean} ± 0.010 (2)"));
    assert_eq!(expected(&cells, "x"), (figure("2.000"), figure("2.500")));
    assert_eq!(expected(&cells, "y"), (None, None));
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
