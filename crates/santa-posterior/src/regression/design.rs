//! Features of a regression, and the scale on which it is fitted.

use super::csv::{Table, unknown_name};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Name of the constant's coefficient.
pub const INTERCEPT: &str = "intercept";

/// The scale on which priors hold and chains walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scaling {
    /// Features and a numeric response have mean 0 and standard deviation 1.
    ///
    /// A prior such as N(0, 1) then says the same of every coefficient, whatever the units of its
    /// feature: how many standard deviations of the response (or units of log odds) one standard
    /// deviation of the feature is worth. It is also the better conditioned of the two. The
    /// intercept is the prediction at the mean of all features. Without an intercept nothing is
    /// centred, and the root of the mean square takes the standard deviation's place.
    #[default]
    Standardised,
    /// Everything as it is.
    Original,
}

/// N rows of features, standardised, with names.
///
/// ```
/// use santa_posterior::regression::{Design, Scaling};
///
/// let rows = [1.0, 10.0, 2.0, 30.0, 3.0, 20.0];
/// let design = Design::new(["age", "height"], &rows, true, Scaling::Standardised)?;
/// assert_eq!(design.names(), ["intercept", "age", "height"]);
/// assert_eq!((design.rows(), design.columns()), (3, 3));
/// # Ok::<(), santa_posterior::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    names: Vec<String>,
    /// Rows one after the other, with the constant first where there is one.
    values: Vec<f64>,
    rows: usize,
    frame: Frame,
}

/// How features became standardised, and how coefficients come back.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub scaling: Scaling,
    pub intercept: bool,
    /// Of each feature, without the constant.
    centres: Vec<f64>,
    scales: Vec<f64>,
}

impl Design {
    /// From rows of features, one after the other. `intercept` puts a constant in front.
    pub fn new<S: Into<String>>(
        names: impl IntoIterator<Item = S>,
        features: &[f64],
        intercept: bool,
        scaling: Scaling,
    ) -> Result<Self> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let columns = names.len();
        let rows = match columns {
            0 => return Err(Error::data("a design without features; name at least one")),
            _ if features.is_empty() => return Err(Error::data("a design without rows")),
            _ if !features.len().is_multiple_of(columns) => {
                return Err(Error::data(format!(
                    "{} numbers are no whole rows of {columns} features",
                    features.len()
                )));
            }
            _ => features.len() / columns,
        };
        if u32::try_from(rows).is_err() {
            return Err(Error::data(format!("{rows} rows; a batch can name fewer than 2^32")));
        }
        for (i, name) in names.iter().enumerate() {
            if names[..i].contains(name) || name == INTERCEPT {
                return Err(Error::data(format!("the feature name `{name}` is taken; rename it")));
            }
        }
        if let Some(i) = features.iter().position(|x| !x.is_finite()) {
            return Err(Error::data(format!(
                "feature `{}` is {} in row {}; leave the row out or fill the value in",
                names[i % columns],
                features[i],
                i / columns + 1
            )));
        }
        let mut frame =
            Frame { scaling, intercept, centres: vec![0.0; columns], scales: vec![1.0; columns] };
        if scaling == Scaling::Standardised {
            let found = standardise(features, columns, intercept);
            for (j, name) in names.iter().enumerate() {
                (frame.centres[j], frame.scales[j]) =
                    found[j].ok_or_else(|| constant_column(name))?;
            }
        }
        let mut values = Vec::with_capacity(rows * (columns + usize::from(intercept)));
        for row in features.chunks_exact(columns) {
            values.extend(intercept.then_some(1.0));
            let both = frame.centres.iter().zip(&frame.scales);
            values.extend(row.iter().zip(both).map(|(x, (centre, scale))| (x - centre) / scale));
        }
        let names = intercept.then(|| INTERCEPT.to_string()).into_iter().chain(names).collect();
        Ok(Design { names, values, rows, frame })
    }

    /// From columns of a table, by name; a categorical column gives one indicator for each level
    /// but the first.
    pub fn from_table(
        table: &Table,
        features: &[&str],
        intercept: bool,
        scaling: Scaling,
    ) -> Result<Self> {
        let mut columns = Vec::new();
        for name in features {
            let found = table.indicators(name);
            if found.is_empty() {
                return Err(unknown_name("column", name, table.sources()));
            }
            columns.extend(found);
        }
        let names: Vec<&str> = columns.iter().map(|i| table.names()[*i].as_str()).collect();
        let rows = table.rows();
        let values: Vec<f64> =
            (0..rows).flat_map(|r| columns.iter().map(move |c| table.column(*c)[r])).collect();
        Design::new(names, &values, intercept, scaling)
    }

    /// Names of the coefficients, the intercept first.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// N.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Coefficients, with the intercept.
    pub fn columns(&self) -> usize {
        self.names.len()
    }
    /// A row on the scale of the fit.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns()..(row + 1) * self.columns()]
    }
    /// All rows on the scale of the fit, one after the other.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
    /// The scale of the fit.
    pub fn scaling(&self) -> Scaling {
        self.frame.scaling
    }
    pub(super) fn frame(&self) -> &Frame {
        &self.frame
    }
}

impl Frame {
    /// Coefficients on the original scale, of a response $m + c y$.
    ///
    /// $$ \beta_j = c\ \frac{b_j}{s_j}, \qquad \alpha = m + c\ b_0 - \sum_j \beta_j m_j $$
    pub fn original(&self, fitted: &[f64], response: (f64, f64), out: &mut [f64]) {
        let (centre, scale) = response;
        let first = usize::from(self.intercept);
        let mut shift = 0.0;
        for (j, b) in fitted[first..].iter().enumerate() {
            out[first + j] = scale * b / self.scales[j];
            shift += out[first + j] * self.centres[j];
        }
        if self.intercept {
            out[0] = centre + scale * fitted[0] - shift;
        }
    }

    /// Coefficients on the scale of the fit: what [`Frame::original`] makes its own of.
    ///
    /// $$ b_j = \frac{s_j \beta_j}{c}, \qquad b_0 = \frac{\alpha - m + \sum_j \beta_j m_j}{c} $$
    pub fn fitted(&self, original: &[f64], response: (f64, f64), out: &mut [f64]) {
        let (centre, scale) = response;
        let first = usize::from(self.intercept);
        let mut shift = 0.0;
        for (j, beta) in original[first..].iter().enumerate() {
            out[first + j] = beta * self.scales[j] / scale;
            shift += beta * self.centres[j];
        }
        if self.intercept {
            out[0] = (original[0] - centre + shift) / scale;
        }
    }

    /// A row of original features on the scale of the fit.
    pub fn standardise(&self, features: &[f64], out: &mut [f64]) {
        let first = usize::from(self.intercept);
        if self.intercept {
            out[0] = 1.0;
        }
        for (j, x) in features.iter().enumerate() {
            out[first + j] = (x - self.centres[j]) / self.scales[j];
        }
    }
    pub fn features(&self) -> usize {
        self.centres.len()
    }
}

fn constant_column(name: &str) -> Error {
    Error::data(format!(
        "feature `{name}` is constant: it cannot be standardised, nor told from the intercept; \
         leave it out"
    ))
}

/// Centre and scale of each column; none for a constant.
pub(super) fn standardise(rows: &[f64], columns: usize, centred: bool) -> Vec<Option<(f64, f64)>> {
    /// Deviations that rounding explains, relative to the largest value.
    const ROUNDING: f64 = 1e-12;
    let n = (rows.len() / columns) as f64;
    // Row by row, as they lie in memory.
    let fold = |update: &dyn Fn(&mut f64, usize, f64)| {
        let mut state = vec![0.0; columns];
        for row in rows.chunks_exact(columns) {
            for (j, (state, x)) in state.iter_mut().zip(row).enumerate() {
                update(state, j, *x);
            }
        }
        state
    };
    // In units of the largest value, so that squares neither overflow nor vanish.
    let largest = fold(&|most, _, x| *most = most.max(x.abs()));
    let means = match centred {
        true => fold(&|sum, j, x| *sum += x / largest[j] / n),
        false => vec![0.0; columns],
    };
    let squares = fold(&|sum, j, x| *sum += (x / largest[j] - means[j]).powi(2) / n);
    (0..columns)
        .map(|j| {
            let (centre, scale) = (means[j] * largest[j], squares[j].sqrt() * largest[j]);
            (scale > ROUNDING * largest[j] && scale.is_finite()).then_some((centre, scale))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [f64; 8] = [1.0, 10.0, 2.0, 30.0, 3.0, 20.0, 4.0, 70.0];

    #[test]
    fn columns_are_standardised_and_predictions_survive_the_way_back() {
        for intercept in [true, false] {
            let design = Design::new(["a", "b"], &ROWS, intercept, Scaling::default()).unwrap();
            let first = usize::from(intercept);
            for j in first..design.columns() {
                let column: Vec<f64> = (0..4).map(|i| design.row(i)[j]).collect();
                let square = column.iter().map(|x| x * x).sum::<f64>() / 4.0;
                assert!((square - 1.0).abs() < 1e-14);
                assert_eq!(column.iter().sum::<f64>().abs() < 1e-14, intercept);
            }
            let fitted = [0.3, -0.2, 0.9];
            let fitted = &fitted[..design.columns()];
            let (m, c) = if intercept { (5.0, 3.0) } else { (0.0, 3.0) };
            let mut original = vec![0.0; fitted.len()];
            design.frame().original(fitted, (m, c), &mut original);
            for (i, row) in ROWS.chunks(2).enumerate() {
                let z: f64 = design.row(i).iter().zip(fitted).map(|(x, b)| x * b).sum();
                let mut plain = if intercept { original[0] } else { 0.0 };
                plain += row.iter().zip(&original[first..]).map(|(x, b)| x * b).sum::<f64>();
                assert!((m + c * z - plain).abs() < 1e-12);
                let mut again = vec![0.0; fitted.len()];
                design.frame().standardise(row, &mut again);
                assert_eq!(again, design.row(i));
            }
        }
    }

    #[test]
    fn the_original_scale_is_left_alone() {
        let design = Design::new(["a", "b"], &ROWS, false, Scaling::Original).unwrap();
        assert_eq!(design.values(), ROWS);
    }

    #[test]
    fn what_cannot_be_a_design_is_refused_by_name() {
        let refusal = |names: &[&str], rows: &[f64]| {
            Design::new(names.to_vec(), rows, true, Scaling::default()).unwrap_err().to_string()
        };
        assert!(refusal(&["a", "b"], &[1.0, 5.0, 2.0, 5.0]).contains("`b` is constant"));
        assert!(refusal(&["a", "b"], &[1.0, 0.1, 2.0, 0.1]).contains("`b` is constant"));
        assert!(refusal(&["a"], &[1.0, f64::NAN]).contains("`a` is NaN in row 2"));
        assert!(refusal(&["a", "a"], &[1.0, 2.0]).contains("`a` is taken"));
        assert!(refusal(&["intercept"], &[1.0, 2.0]).contains("is taken"));
        assert!(refusal(&["a", "b"], &[1.0, 2.0, 3.0]).contains("whole rows"));
        assert!(refusal(&[], &[1.0]).contains("without features"));
        assert!(refusal(&["a"], &[]).contains("without rows"));
    }
}
