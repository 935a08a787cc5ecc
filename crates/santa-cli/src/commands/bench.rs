//! `santa bench`

use super::threads;
use crate::args::{Bench, Global};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::nearest::unknown;
use santa_bench::{Case, Effort, Measurement};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Measures the cases that were asked for, and prints a table or an object.
pub fn run(args: &Bench, global: &Global, console: &Console) -> Result<()> {
    let cases = choose(&args.cases)?;
    if args.list {
        return list(&cases, console);
    }
    let threads = threads(global)?.unwrap_or(0); // 0 is as many as there are cores
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|e| Failure::system(format!("starting threads: {e}")))?;
    if cfg!(debug_assertions) {
        console.warning("built without optimization; the figures say nothing about a release");
    }
    let report = pool.install(|| measure(&cases, console))?;
    console.result(table(&cases, &report))?;
    console.object(&report)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    threads: usize,
    copy_bytes_per_second: f64,
    cases: BTreeMap<String, Measurement>,
}

/// The cases of these names, in the order of the list; all of them for none.
fn choose(names: &[String]) -> Result<Vec<Case>> {
    let all = Case::all();
    for name in names {
        if !all.iter().any(|case| case.name() == name) {
            return Err(unknown("case", name, all.iter().map(Case::name)));
        }
    }
    let wanted = |case: &Case| names.is_empty() || names.iter().any(|name| name == case.name());
    Ok(all.into_iter().filter(wanted).collect())
}

fn list(cases: &[Case], console: &Console) -> Result<()> {
    #[derive(Serialize)]
    struct List<'a> {
        cases: Vec<&'a str>,
    }
    let width = cases.iter().map(|case| case.name().len()).max().unwrap_or(0);
    for case in cases {
        console.result(format_args!("{:<width$}  {}", case.name(), case.about()))?;
    }
    console.object(&List { cases: cases.iter().map(Case::name).collect() })
}

fn measure(cases: &[Case], console: &Console) -> Result<Report> {
    let mut measured = BTreeMap::new();
    for (i, case) in cases.iter().enumerate() {
        console.note(format_args!("{}/{} {}", i + 1, cases.len(), case.name()));
        let measurement = case.measure(Effort::Full);
        let measurement = measurement.map_err(|e| Failure::from(e).within(case.name()))?;
        measured.insert(case.name().to_owned(), measurement);
    }
    // Of the case that is a copy and nothing else, which is measured for this if it was not asked for.
    let copy = match measured.get("copy") {
        Some(copy) => copy.copy_bytes_per_second,
        None => {
            let copy = Case::all().into_iter().find(|case| case.name() == "copy");
            let copy = copy.ok_or_else(|| Failure::system("the case \"copy\" is gone"))?;
            copy.measure(Effort::Full)?.copy_bytes_per_second
        }
    };
    Ok(Report { threads: santa_bench::threads(), copy_bytes_per_second: copy, cases: measured })
}

fn table(cases: &[Case], report: &Report) -> String {
    const GIGA: f64 = 1e-9;
    let width = cases.iter().map(|case| case.name().len()).max().unwrap_or(0);
    let mut table = format!(
        "{:<width$} {:>9} {:>9} {:>9} {:>9} {:>8}",
        "case", "ms/step", "GFLOP/s", "GB/s", "copy GB/s", "of copy"
    );
    for case in cases {
        let Some(measured) = report.cases.get(case.name()) else { continue };
        let gflops = measured.gflops.map_or("-".into(), |gflops| format!("{gflops:.1}"));
        let of_copy = 100.0 * measured.bytes_per_second / measured.copy_bytes_per_second;
        // Writing to a string cannot fail.
        let _ = write!(
            table,
            "\n{:<width$} {:>9.3} {gflops:>9} {:>9.1} {:>9.1} {of_copy:>7.0}%",
            case.name(),
            measured.ms_per_step,
            GIGA * measured.bytes_per_second,
            GIGA * measured.copy_bytes_per_second,
        );
    }
    let _ = write!(
        table,
        "\n{} threads; GB/s are those of the optimizer's part, beside a copy of as many bytes; a large \
         copy moves {:.1} GB/s",
        report.threads,
        GIGA * report.copy_bytes_per_second
    );
    table
}
