//! The table of all quantities.

use super::chains::{mean, sorted, usable, variance};
use super::ess::{ess_bulk, tail};
use super::mcse::{mcse_mean, mcse_sd};
use super::quantile::quantile;
use super::rhat::r_hat;
use super::verdict::Verdict;
use crate::draws::Draws;
use crate::error::{Error, Result};
use serde::Serialize;
use std::fmt;

/// The quantiles of [`Summary::new`].
const PROBABILITIES: [f64; 3] = [0.05, 0.5, 0.95];

/// What draws say of each quantity, and how well they know it.
///
/// ```
/// use santa_posterior::{Draws, diagnostics::Summary};
///
/// let mut draws = Draws::new(["slope"], 2)?;
/// for i in 0..50 {
///     draws.push(0, &[f64::from(i * 7 % 50)])?;
///     draws.push(1, &[f64::from(i * 13 % 50)])?;
/// }
/// let summary = Summary::new(&draws);
/// assert_eq!(summary.rows[0].mean, 24.5);
/// println!("{summary}\n{}", summary.verdict());
/// # Ok::<(), santa_posterior::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of chains.
    pub chains: usize,
    /// Draws of each chain.
    pub draws: usize,
    /// Probabilities of the quantiles.
    pub probabilities: Vec<f64>,
    /// One for each quantity.
    pub rows: Vec<Row>,
}

/// What draws say of one quantity. In JSON a NaN is `null`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Mean over all draws.
    pub mean: f64,
    /// Standard deviation over all draws, with the divisor $S - 1$.
    pub sd: f64,
    /// Quantiles at the [probabilities](Summary::probabilities) of the summary.
    pub quantiles: Vec<f64>,
    /// Monte Carlo error of the mean.
    pub mcse_mean: f64,
    /// Monte Carlo error of the standard deviation.
    pub mcse_sd: f64,
    /// Effective sample size of the bulk.
    pub ess_bulk: f64,
    /// Effective sample size of the tails.
    pub ess_tail: f64,
    /// R-hat.
    pub r_hat: f64,
    /// Draws that are no number or infinite; if there are any, every estimate is NaN.
    pub not_finite: usize,
    /// Chains all of whose draws are equal.
    pub still_chains: usize,
}

impl Summary {
    /// The summary with the quantiles at 5 %, 50 % and 95 %.
    pub fn new(draws: &Draws) -> Self {
        Self::build(draws, PROBABILITIES.to_vec())
    }

    /// The summary with quantiles of one's own choice.
    pub fn with_probabilities(draws: &Draws, probabilities: &[f64]) -> Result<Self> {
        if let Some(p) = probabilities.iter().find(|p| !(0.0..=1.0).contains(*p)) {
            return Err(Error::setting("probabilities", p, "each must be between 0 and 1"));
        }
        Ok(Self::build(draws, probabilities.to_vec()))
    }

    fn build(draws: &Draws, probabilities: Vec<f64>) -> Self {
        let rows = draws
            .names()
            .iter()
            .enumerate()
            .map(|(i, name)| Row::new(name, &draws.quantity(i), &probabilities))
            .collect();
        Summary { chains: draws.chains(), draws: draws.len(), probabilities, rows }
    }

    /// Whether the draws can be trusted, in words.
    pub fn verdict(&self) -> Verdict {
        Verdict::new(self)
    }
}

impl Row {
    fn new(name: &str, chains: &[Vec<f64>], probabilities: &[f64]) -> Self {
        let all = chains.iter().flatten();
        let not_finite = all.clone().filter(|x| !x.is_finite()).count();
        let still =
            |chain: &&Vec<f64>| chain.len() > 1 && chain.windows(2).all(|pair| pair[0] == pair[1]);
        // One bad draw leaves no quantile worth printing.
        let sorted = if not_finite == 0 { sorted(chains) } else { Vec::new() };
        let finite = |x: f64| if not_finite == 0 { x } else { f64::NAN };
        Row {
            name: name.to_string(),
            mean: finite(mean(all.clone())),
            sd: finite(variance(all).sqrt()),
            quantiles: probabilities.iter().map(|p| quantile(&sorted, *p)).collect(),
            mcse_mean: mcse_mean(chains),
            mcse_sd: mcse_sd(chains),
            ess_bulk: ess_bulk(chains),
            ess_tail: if usable(chains) { tail(chains, &sorted) } else { f64::NAN },
            r_hat: r_hat(chains),
            not_finite,
            still_chains: chains.iter().filter(still).count(),
        }
    }
}

/// Columns lined up. Estimates have the digits that their Monte Carlo error leaves, and one more.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = vec![self.head()];
        table.extend(self.rows.iter().map(Row::cells));
        let widths: Vec<usize> = (0..table[0].len())
            .map(|column| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        for row in &table {
            let mut line = format!("{:<width$}", row[0], width = widths[0]);
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                line += &format!("  {cell:>width$}");
            }
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

impl Summary {
    fn head(&self) -> Vec<String> {
        let quantiles = self.probabilities.iter().map(|p| {
            // 0.07 * 100 is 7.000000000000001, and nobody asks for more digits than these.
            const DIGITS: f64 = 1e6;
            format!("{}%", (p * 100.0 * DIGITS).round() / DIGITS)
        });
        ["quantity", "mean", "sd"]
            .map(String::from)
            .into_iter()
            .chain(quantiles)
            .chain(["mcse mean", "mcse sd", "ess bulk", "ess tail", "r-hat"].map(String::from))
            .collect()
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        /// Digits of an error.
        const OF_ERROR: i32 = 2;
        /// Digits of an estimate whose error is unknown.
        const OF_UNKNOWN: i32 = 4;
        let error =
            if self.mcse_mean > 0.0 { last_place(self.mcse_mean, OF_ERROR) } else { i32::MIN };
        let estimate =
            |x: f64| number(x, if error == i32::MIN { last_place(x, OF_UNKNOWN) } else { error });
        let mut cells = vec![self.name.clone(), estimate(self.mean), estimate(self.sd)];
        cells.extend(self.quantiles.iter().map(|q| estimate(*q)));
        for mcse in [self.mcse_mean, self.mcse_sd] {
            cells.push(number(mcse, last_place(mcse, OF_ERROR)));
        }
        for ess in [self.ess_bulk, self.ess_tail] {
            cells.push(if ess.is_nan() { "-".to_string() } else { format!("{ess:.0}") });
        }
        cells.push(if self.r_hat.is_nan() {
            "-".to_string()
        } else {
            format!("{:.3}", self.r_hat)
        });
        cells
    }
}

/// The power of ten of the last one of so many digits of a number.
fn last_place(x: f64, digits: i32) -> i32 {
    if x == 0.0 || !x.is_finite() { 0 } else { x.abs().log10().floor() as i32 - digits + 1 }
}

/// A number down to a power of ten, with an exponent where zeros would fill the line.
fn number(x: f64, last: i32) -> String {
    /// Decimals up to which a number is written out.
    const MAX_DECIMALS: i32 = 6;
    /// Digits before the point up to which a number is written out.
    const MAX_WHOLE: i32 = 9;
    if x.is_nan() {
        return "-".to_string();
    }
    let first = last_place(x, 1);
    if -last > MAX_DECIMALS || first >= MAX_WHOLE {
        // At least one digit behind the first one.
        return format!("{x:.*e}", (first - last).max(1) as usize);
    }
    format!("{x:.*}", (-last).max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    fn draws() -> Draws {
        let mut draws = Draws::new(["slope", "tiny", "still"], 4).unwrap();
        for chain in 0..4 {
            let mut z = vec![0.0; 400];
            Stream::new(2, chain, Purpose::Custom(0)).normals(0, 0, 0, &mut z);
            for pair in z.chunks(2) {
                draws.push(chain as usize, &[3.0 + pair[0], 1e-9 * pair[1], 2.5]).unwrap();
            }
        }
        draws
    }

    #[test]
    fn each_row_has_the_values_of_the_functions() {
        let draws = draws();
        let summary = Summary::with_probabilities(&draws, &[0.25]).unwrap();
        assert_eq!((summary.chains, summary.draws, summary.rows.len()), (4, 200, 3));
        let (row, chains) = (&summary.rows[0], draws.quantity(0));
        assert_eq!(row.ess_tail, crate::diagnostics::ess_tail(&chains));
        assert_eq!(row.r_hat, r_hat(&chains));
        assert_eq!(row.quantiles, [quantile(&sorted(&chains), 0.25)]);
        assert!((row.mean - 3.0).abs() < 4.0 * row.mcse_mean);
        assert!((row.sd - 1.0).abs() < 4.0 * row.mcse_sd);
        assert_eq!((summary.rows[2].still_chains, summary.rows[2].sd), (4, 0.0));
    }

    #[test]
    fn the_table_is_lined_up_and_keeps_the_digits_that_are_known() {
        let printed = Summary::new(&draws()).to_string();
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{printed}");
        let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
        assert_eq!(
            words(lines[0])[..6],
            ["quantity", "mean", "sd", "5%", "50%", "95%"].map(String::from)
        );
        let slope = words(lines[1]);
        // An error of about 0.035: three decimals.
        assert_eq!(slope[1].split('.').nth(1).map(str::len), Some(3), "{printed}");
        assert!(words(lines[2])[2].contains("e-"), "{printed}");
        assert_eq!(words(lines[3])[1], "2.500");
    }

    #[test]
    fn a_draw_that_is_no_number_leaves_no_estimate() {
        let mut draws = Draws::new(["a"], 1).unwrap();
        for x in [1.0, f64::NAN, 2.0, 3.0, 4.0] {
            draws.push(0, &[x]).unwrap();
        }
        let summary = Summary::new(&draws);
        let row = &summary.rows[0];
        assert_eq!(row.not_finite, 1);
        assert!(row.mean.is_nan() && row.quantiles.iter().all(|q| q.is_nan()));
        assert!(serde_json::to_string(&summary).unwrap().contains("\"mean\":null"));
        assert!(summary.to_string().contains('-'));
    }

    #[test]
    fn probabilities_outside_of_the_unit_interval_are_refused() {
        let error = Summary::with_probabilities(&draws(), &[0.5, 1.5]).unwrap_err().to_string();
        assert!(error.contains("`probabilities` is 1.5"), "{error}");
    }

    #[test]
    fn no_draws_make_a_table_without_numbers() {
        let draws = Draws::new(["a"], 2).unwrap();
        assert!(Summary::new(&draws).rows[0].mean.is_nan());
    }

    #[test]
    fn large_and_small_numbers_have_exponents() {
        assert_eq!(number(1234.567, -1), "1234.6");
        assert_eq!(number(-1.5e-9, -11), "-1.50e-9");
        assert_eq!(number(6.02e23, 22), "6.0e23");
        assert_eq!(number(0.0, 0), "0");
        assert_eq!(number(f64::NAN, 0), "-");
    }
}
