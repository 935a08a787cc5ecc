//! Reliability: how often predictions of some confidence come true.

use super::curves::Prediction;
use super::groups::Group;
use super::table::mean_and_deviation;
use crate::run::record::{Bin, Calibration};

/// The calibration of a group: bins of all seeds together, and the expected error of each seed.
pub struct Reliability {
    /// Bins that hold a prediction, in order of confidence.
    pub bins: Vec<Bin>,
    /// Mean of the expected calibration errors.
    pub expected_error: f64,
    /// Their standard deviation, where there are several seeds.
    pub deviation: Option<f64>,
}

/// The calibration of a group's runs, if all have one.
pub fn reliability(group: &Group<'_>, prediction: Prediction) -> Option<Reliability> {
    let of_run = |run: &&crate::run::stored::StoredRun| {
        let summary = run.summary.clone()?;
        match prediction {
            Prediction::Last => summary.calibration_last,
            Prediction::Averaged => summary.calibration_averaged,
        }
    };
    let all: Vec<Calibration> = group.runs.iter().map(of_run).collect::<Option<_>>()?;
    let errors: Vec<f64> = all.iter().map(|c| c.expected_error).collect();
    let (expected_error, deviation) = mean_and_deviation(&errors);
    Some(Reliability { bins: pool(&all), expected_error, deviation })
}

/// Bins of several test runs as if they were one, weighted by their counts.
fn pool(all: &[Calibration]) -> Vec<Bin> {
    let most = all.iter().map(|c| c.bins.len()).max().unwrap_or(0);
    (0..most)
        .filter_map(|i| {
            let bins = || all.iter().filter_map(|c| c.bins.get(i)).filter(|b| b.count > 0);
            let count: u64 = bins().map(|b| b.count).sum();
            let mean = |of: fn(&Bin) -> f64| {
                bins().map(|b| of(b) * b.count as f64).sum::<f64>() / count as f64
            };
            (count > 0).then(|| Bin {
                count,
                confidence: mean(|b| b.confidence),
                accuracy: mean(|b| b.accuracy),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_pooled_by_their_counts_and_empty_ones_left_out() {
        let bin = |count, confidence, accuracy| Bin { count, confidence, accuracy };
        let of = |bins: Vec<Bin>| Calibration { expected_error: 0.1, bins };
        let pooled = pool(&[
            of(vec![bin(0, 0.0, 0.0), bin(10, 0.5, 0.4)]),
            of(vec![bin(0, 0.0, 0.0), bin(30, 0.7, 0.8), bin(1, 0.9, 1.0)]),
        ]);
        assert_eq!(pooled.len(), 2);
        assert_eq!(pooled[0].count, 40);
        assert!((pooled[0].confidence - 0.65).abs() < 1e-12);
        assert!((pooled[0].accuracy - 0.7).abs() < 1e-12);
    }
}
