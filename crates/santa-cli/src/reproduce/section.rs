//! What a measured statement of the paper leaves behind: curves, a table, a figure, and what is to be
//! said about them.

use super::fit::{Point, Slope};
use crate::args::Reproduce;
use crate::commands::table::Table;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::figure::{Series, Style};
use crate::nearest::unknown;
use crate::run::folder::{write, write_json};
use crate::run::machine::provenance;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A curve of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Its name in files.
    #[serde(skip)]
    pub name: String,
    /// Its name in figures and tables.
    pub label: String,
    /// The slope that the paper says.
    pub claim: Option<f64>,
    /// The slope that was found.
    pub slope: Option<Slope>,
    /// What was measured.
    pub points: Vec<Point>,
}

impl Curve {
    /// The curve as a series with a band of two standard errors.
    pub fn series(&self, style: Style) -> Series {
        let shown = |point: &Point| point.y.map(|y| (point.x, y.abs(), 2.0 * point.standard_error));
        let points: Vec<_> = self.points.iter().filter_map(shown).collect();
        let band = points.iter().map(|&(x, y, error)| {
            // What reaches down to zero has no place on a logarithmic axis.
            (x, (y - error).max(y / LOWEST), y + error)
        });
        let label = match self.slope {
            Some(slope) => format!("{}: {slope}", self.label),
            None => self.label.clone(),
        };
        Series::line(label, style, points.iter().map(|&(x, y, _)| (x, y)).collect())
            .with_band(band.collect())
            .with_dots()
    }

    /// The value at an x, with its error.
    pub fn at(&self, x: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.x == x)
    }
}

/// A band is drawn no further down than to this share of its line.
const LOWEST: f64 = 20.0;

/// A straight grey line with a slope in logarithms, from a point to another x.
pub fn guide(label: &str, (x, y): (f64, f64), to: f64, slope: f64) -> Series {
    let end = (to, y * (to / x).powf(slope));
    Series::line(label, Style { width: 1.2, ..Style::reference() }, vec![(x, y), end])
}

/// One figure with all that belongs to it.
pub struct Section {
    /// Its name: that of `--only`, of the figure's file and of its numbers.
    pub name: &'static str,
    /// Heading of the table.
    pub title: &'static str,
    /// The numbers.
    pub curves: Vec<Curve>,
    /// For people.
    pub table: Table,
    /// What it shows, and where that departs from the paper.
    pub remarks: Vec<String>,
    /// The figure.
    pub svg: String,
    /// Numbers that are no curve.
    pub more: Map<String, Value>,
}

impl Section {
    fn numbers(&self) -> Value {
        let curves = self.curves.iter().map(|curve| (curve.name.clone(), json!(curve)));
        let mut numbers = Map::from_iter([("curves".into(), Value::Object(curves.collect()))]);
        numbers.extend(self.more.clone());
        Value::Object(numbers)
    }
}

/// Refuses a name of `--only` that is none of the figures'.
pub fn check_only(only: &[String], names: &[&str]) -> Result<()> {
    match only.iter().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(unknown("figure", name, names.iter().copied())),
        None => Ok(()),
    }
}

/// Prints the sections and writes them to the folder of `name`; what `--json` prints of them.
pub fn publish(
    args: &Reproduce,
    console: &Console,
    name: &str,
    seed: u64,
    sections: &[Section],
) -> Result<Value> {
    let folder = args.results().join(name);
    std::fs::create_dir_all(&folder)
        .map_err(|e| Failure::system(format!("making {}: {e}", folder.display())))?;
    let mut words = String::new();
    let mut csv = "figure,curve,x,y,standard_error,fitted\n".to_string();
    let mut numbers = Map::new();
    for section in sections {
        let Section { name, title, table, remarks, .. } = section;
        console.result(format_args!("{title}\n\n{table}\n"))?;
        words += &format!("## {title}\n\n{}\n", table.markdown());
        for remark in remarks {
            console.note(format_args!("{remark}\n"));
            words += &format!("{remark}\n\n");
        }
        words += &format!("![{title}]({name}.svg)\n\n");
        for curve in &section.curves {
            for Point { x, y, standard_error, fitted } in &curve.points {
                let y = y.map_or(String::new(), |y| y.to_string());
                csv += &format!("{name},{},{x},{y},{standard_error},{fitted}\n", curve.name);
            }
        }
        write(&folder.join(format!("{name}.svg")), section.svg.as_bytes())?;
        numbers.insert(name.to_string(), section.numbers());
    }
    write(&folder.join("table.md"), format!("{}\n", words.trim_end()).as_bytes())?;
    write(&folder.join("results.csv"), csv.as_bytes())?;
    let numbers = Value::Object(numbers);
    let results = json!({
        "made_by": provenance(),
        "quick": args.quick,
        "seed": seed,
        "figures": numbers,
    });
    write_json(&folder.join("results.json"), &results)?;
    console.note(format_args!("written to {}", folder.display()));
    Ok(numbers)
}

/// The value at an x and its error, or a dash.
pub fn cell(point: Option<&Point>) -> String {
    match point {
        Some(Point { y: Some(y), standard_error, .. }) => {
            format!("{} ± {}", short(*y), short(*standard_error))
        }
        Some(_) => "diverges".into(),
        None => "-".into(),
    }
}

/// A number with as many digits as its size asks for.
pub fn short(x: f64) -> String {
    let size = x.abs();
    let text = if size == 0.0 {
        "0".into()
    } else if size < 1e-5 {
        format!("{x:.1e}")
    } else if size < 0.1 {
        format!("{x:.5}")
    } else if size < 100.0 {
        format!("{x:.3}")
    } else {
        format!("{x:.0}")
    };
    text.replace('-', MINUS)
}

/// A number with two decimals.
pub fn rounded(x: f64) -> String {
    format!("{x:.2}").replace('-', MINUS)
}

/// As wide as a plus.
const MINUS: &str = "\u{2212}";

/// The found slope, or a dash.
pub fn found(slope: Option<Slope>) -> String {
    slope.map_or("-".into(), |slope| slope.to_string())
}

/// The slope that the paper says, or a dash.
pub fn claimed(claim: Option<f64>) -> String {
    claim.map_or("-".into(), rounded)
}
