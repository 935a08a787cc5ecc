//! How good predicted probabilities are, and how honest.

use super::likeliest;
use crate::error::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Intervals of confidence, as usual in the literature.
pub const BINS: usize = 15;
/// How far a row's sum may be from 1; enough for `f32` and thousands of classes.
const SUM_TOLERANCE: f64 = 1e-2;

/// How good predicted probabilities are.
///
/// Rows $p_i$ of probabilities for $n$ examples with labels $y_i$ among $K$ classes. The prediction
/// is the likeliest class, its probability the confidence. Of the examples in a bin $b$,
/// $\mathrm{acc}(b)$ is the share predicted rightly and $\mathrm{conf}(b)$ the mean confidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// $n$
    pub examples: usize,
    /// The share of examples whose likeliest class is their label.
    pub accuracy: f64,
    /// $\frac{1}{n} \sum_i \log p_{i, y_i}$, in nats. A probability below the smallest normal number
    /// counts as that, so that the mean is finite.
    pub log_likelihood: f64,
    /// $\frac{1}{n} \sum_i \sum_k (p_{ik} - [k = y_i])^2$, from 0 to 2 (Brier, 1950).
    pub brier: f64,
    /// $\sum_b \frac{n_b}{n}\ |\mathrm{acc}(b) - \mathrm{conf}(b)|$ over the bins of `reliability`
    /// (Naeini, Cooper, Hauskrecht, 2015).
    pub expected_calibration_error: f64,
    /// $\frac{1}{KR} \sum_k \sum_{r=1}^R |\mathrm{acc}(r, k) - \mathrm{conf}(r, k)|$: for each class,
    /// the examples in order of the class's probability, divided into $R$ ranges ([`BINS`], or as many
    /// as there are examples) of equal count; accuracy is the share that has the class (Nixon,
    /// Dusenberry, Zhang, Jerfel, Tran, 2019). All probabilities count, not the largest alone; most
    /// are next to 0, hence much smaller numbers than the one above.
    pub adaptive_calibration_error: f64,
    /// $\max_b |\mathrm{acc}(b) - \mathrm{conf}(b)|$ over bins that are not empty (Naeini et al.). A
    /// bin of one example counts as much as one of thousands.
    pub maximum_calibration_error: f64,
    /// The reliability diagram: [`BINS`] intervals of confidence of equal width from 0 to 1; empty
    /// ones are there with a count of 0.
    pub reliability: Vec<Bin>,
}

/// Predictions of about one confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// How many.
    pub count: u64,
    /// Mean probability of the predicted class.
    #[serde(deserialize_with = "null_is_nan")]
    pub confidence: f64,
    /// Share that was right.
    pub accuracy: f64,
}

/// JSON has no NaN; `serde_json` writes null.
fn null_is_nan<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

impl Scores {
    /// Compares probabilities, row by row, with the labels.
    pub fn of<L: Copy + TryInto<usize>>(probabilities: &[f64], labels: &[L]) -> Result<Self> {
        let classes = probabilities.len().checked_div(labels.len()).unwrap_or(0);
        if classes == 0 || classes * labels.len() != probabilities.len() {
            return Err(Error::data(format!(
                "{} probabilities for {} labels: every label needs a row, of as many classes",
                probabilities.len(),
                labels.len()
            )));
        }
        let labels = labels
            .iter()
            .enumerate()
            .map(|(i, label)| {
                (*label).try_into().ok().filter(|k| *k < classes).ok_or_else(|| {
                    Error::data(format!("label {i} is not among the {classes} classes"))
                })
            })
            .collect::<Result<Vec<usize>>>()?;
        for (i, row) in probabilities.chunks(classes).enumerate() {
            let sum: f64 = row.iter().sum();
            let negative = row.iter().any(|p| *p < 0.0);
            if negative || sum.is_nan() || (sum - 1.0).abs() > SUM_TOLERANCE {
                return Err(Error::data(format!(
                    "row {i} is no distribution (its sum is {sum}); normalise the probabilities"
                )));
            }
        }
        let rows = || probabilities.chunks(classes).zip(&labels);
        let total = labels.len() as f64;
        let log_likelihood: f64 =
            rows().map(|(row, y)| row[*y].max(f64::MIN_POSITIVE).ln()).sum::<f64>() / total;
        let brier = rows()
            .flat_map(|(row, y)| row.iter().enumerate().map(move |(k, p)| (k == *y, p)))
            .map(|(hit, p)| (p - f64::from(u8::from(hit))).powi(2))
            .sum::<f64>()
            / total;

        let mut bins = vec![Bin::default(); BINS];
        for (row, y) in rows() {
            let best = likeliest(row);
            let bin = &mut bins[((row[best] * BINS as f64) as usize).min(BINS - 1)];
            bin.count += 1;
            bin.confidence += row[best];
            bin.accuracy += f64::from(u8::from(best == *y));
        }
        // Sums until here, means from now on.
        let accuracy = bins.iter().map(|bin| bin.accuracy).sum::<f64>() / total;
        let (mut expected, mut maximum) = (0.0, 0.0f64);
        for bin in bins.iter_mut().filter(|bin| bin.count > 0) {
            expected += (bin.accuracy - bin.confidence).abs() / total;
            bin.confidence /= bin.count as f64;
            bin.accuracy /= bin.count as f64;
            maximum = maximum.max((bin.accuracy - bin.confidence).abs());
        }
        Ok(Scores {
            examples: labels.len(),
            accuracy,
            log_likelihood,
            brier,
            expected_calibration_error: expected,
            adaptive_calibration_error: adaptive(probabilities, &labels, classes),
            maximum_calibration_error: maximum,
            reliability: bins,
        })
    }

    /// The share of examples whose likeliest class is not their label.
    pub fn error(&self) -> f64 {
        1.0 - self.accuracy
    }
}

fn adaptive(probabilities: &[f64], labels: &[usize], classes: usize) -> f64 {
    let n = labels.len();
    let ranges = BINS.min(n);
    let mut sum = 0.0;
    for class in 0..classes {
        let column = probabilities.iter().skip(class).step_by(classes);
        let mut pairs: Vec<(f64, f64)> = column
            .zip(labels)
            .map(|(p, label)| (*p, f64::from(u8::from(*label == class))))
            .collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Equal probabilities share their hits, or the order of the examples would matter where a
        // range ends among them.
        for equals in pairs.chunk_by_mut(|a, b| a.0 == b.0) {
            let mean = equals.iter().map(|pair| pair.1).sum::<f64>() / equals.len() as f64;
            equals.iter_mut().for_each(|pair| pair.1 = mean);
        }
        for r in 0..ranges {
            let range = &pairs[r * n / ranges..(r + 1) * n / ranges];
            let gap: f64 = range.iter().map(|(p, hit)| hit - p).sum();
            sum += gap.abs() / range.len() as f64;
        }
    }
    sum / (classes * ranges) as f64
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28}{:>10}", "examples", self.examples)?;
        for (name, value) in [
            ("accuracy", self.accuracy),
            ("mean log-likelihood", self.log_likelihood),
            ("Brier score", self.brier),
            ("expected calibration error", self.expected_calibration_error),
            ("adaptive calibration error", self.adaptive_calibration_error),
        ] {
            writeln!(f, "{name:<28}{value:>10.4}")?;
        }
        write!(f, "{:<28}{:>10.4}", "maximum calibration error", self.maximum_calibration_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }

    #[test]
    fn confidence_that_is_earned_costs_nothing_and_boasting_does() {
        // Four predictions of 0.75, three of them right.
        let rows = [0.75, 0.25].repeat(4);
        let honest = Scores::of(&rows, &[0u8, 0, 0, 1]).unwrap();
        close(honest.expected_calibration_error, 0.0);
        close(honest.maximum_calibration_error, 0.0);
        close(honest.adaptive_calibration_error, 0.0);
        close(honest.accuracy, 0.75);
        close(honest.log_likelihood, 0.75 * 0.75f64.ln() + 0.25 * 0.25f64.ln());
        close(honest.brier, 0.75 * 2.0 / 16.0 + 0.25 * 18.0 / 16.0);
        assert_eq!(honest.reliability.iter().map(|bin| bin.count).sum::<u64>(), 4);
        let boasting = Scores::of(&rows, &[1u8; 4]).unwrap();
        close(boasting.expected_calibration_error, 0.75);
        close(boasting.error(), 1.0);
        let certain = Scores::of(&[1.0, 0.0], &[0]).unwrap();
        let last = certain.reliability[BINS - 1];
        assert_eq!(last, Bin { count: 1, confidence: 1.0, accuracy: 1.0 });
        assert_eq!((certain.brier, certain.log_likelihood), (0.0, 0.0));
    }

    #[test]
    fn calibration_errors_of_two_bins_by_hand() {
        // Two at 0.6, one of them right; one at 0.9, right.
        let rows = [0.6, 0.4, 0.6, 0.4, 0.1, 0.9];
        let scores = Scores::of(&rows, &[0usize, 1, 1]).unwrap();
        close(scores.expected_calibration_error, (0.2 + 0.1) / 3.0);
        close(scores.maximum_calibration_error, 0.1);
        // Three ranges of one example for each class. Class 0: 0.1 (no), 0.6 and 0.6 (half each);
        // class 1 mirrors it.
        close(scores.adaptive_calibration_error, (0.1 + 0.1 + 0.1) / 3.0);
        let bin = scores.reliability[9]; // 0.6 * 15 = 9
        assert_eq!(bin.count, 2);
        close(bin.accuracy, 0.5);
    }

    #[test]
    fn certainty_that_is_wrong_is_as_bad_as_it_gets_and_finite() {
        let scores = Scores::of(&[1.0, 0.0], &[1]).unwrap();
        close(scores.brier, 2.0);
        close(scores.expected_calibration_error, 1.0);
        close(scores.adaptive_calibration_error, 1.0);
        close(scores.log_likelihood, f64::MIN_POSITIVE.ln());
    }

    /// Probabilities of three classes, and labels drawn from them.
    fn drawn(n: usize) -> (Vec<f64>, Vec<usize>) {
        let stream = Stream::new(9, 0, Purpose::Custom(2));
        let (mut rows, mut labels) = (Vec::new(), Vec::new());
        for i in 0..n as u64 {
            let mut row = [0.0f64; 3];
            stream.normals(i, 0, 0, &mut row);
            let row = row.map(|z| (1.5 * z).exp());
            let sum: f64 = row.iter().sum();
            let (u, mut label, mut below) = (stream.uniform(i, 1, 0) * sum, 0, row[0]);
            while u >= below && label < 2 {
                label += 1;
                below += row[label];
            }
            rows.extend(row.map(|x| x / sum));
            labels.push(label);
        }
        (rows, labels)
    }

    /// Powers of probabilities, normalised again.
    fn sharpened(rows: &[f64], power: f64) -> Vec<f64> {
        let mut rows: Vec<f64> = rows.iter().map(|p| p.powf(power)).collect();
        for row in rows.chunks_mut(3) {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|p| *p /= sum);
        }
        rows
    }

    #[test]
    fn true_probabilities_are_calibrated_and_sharpened_or_flattened_ones_are_not() {
        let (rows, labels) = drawn(20_000);
        let honest = Scores::of(&rows, &labels).unwrap();
        // About sqrt(15 / 20,000) times a half of noise.
        assert!(honest.expected_calibration_error < 0.02, "{honest}");
        assert!(honest.adaptive_calibration_error < 0.02, "{honest}");
        for power in [0.3, 3.0] {
            let wrong = Scores::of(&sharpened(&rows, power), &labels).unwrap();
            close(wrong.accuracy, honest.accuracy);
            assert!(wrong.expected_calibration_error > 0.1, "{power}: {wrong}");
            assert!(wrong.adaptive_calibration_error > 0.05, "{power}: {wrong}");
            assert!(wrong.log_likelihood < honest.log_likelihood - 0.02);
            assert!(wrong.brier > honest.brier + 0.01);
            assert!(wrong.maximum_calibration_error >= wrong.expected_calibration_error);
        }
    }

    #[test]
    fn the_order_of_the_examples_does_not_matter_even_among_equals() {
        let (mut rows, mut labels) = drawn(1_000);
        // Few distinct values, hence many equals.
        rows.chunks_mut(3).for_each(|row| {
            row[0] = (row[0] * 4.0).round() / 4.0;
            row[1] = (1.0 - row[0]) / 2.0;
            row[2] = row[1];
        });
        let forward = Scores::of(&rows, &labels).unwrap();
        rows = rows.chunks(3).rev().flatten().copied().collect();
        labels.reverse();
        let backward = Scores::of(&rows, &labels).unwrap();
        close(forward.adaptive_calibration_error, backward.adaptive_calibration_error);
        close(forward.expected_calibration_error, backward.expected_calibration_error);
    }

    #[test]
    fn they_are_written_as_a_table_and_as_json() {
        let scores = Scores::of(&[0.75, 0.25], &[0]).unwrap();
        let text = scores.to_string();
        assert_eq!(text.lines().count(), 7);
        assert!(text.lines().all(|line| line.len() == 38), "{text}");
        let json = serde_json::to_value(&scores).unwrap();
        assert_eq!(json["reliability"].as_array().unwrap().len(), BINS);
        let bin: Bin =
            serde_json::from_str(r#"{"count":1,"confidence":null,"accuracy":0}"#).unwrap();
        assert!(bin.confidence.is_nan());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(Scores::of::<usize>(&[], &[]).is_err());
        assert!(Scores::of(&[0.5, 0.5, 1.0], &[0, 1]).is_err());
        assert!(Scores::of(&[0.5, 0.5], &[2]).unwrap_err().to_string().contains("label 0"));
        assert!(Scores::of(&[0.5, 0.5], &[-1]).is_err());
        assert!(Scores::of(&[0.5, 0.9], &[0]).unwrap_err().to_string().contains("row 0"));
        assert!(Scores::of(&[1.5, -0.5], &[0]).is_err());
        assert!(Scores::of(&[f64::NAN, 0.5], &[0]).is_err());
    }
}
