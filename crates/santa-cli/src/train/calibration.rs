//! Whether predictions come true as often as they say.

use crate::run::record::{Bin, Calibration};

/// Intervals of confidence, as usual in the literature.
const BINS: usize = 15;

/// Compares the probability of the likeliest class with how often it is right. Rows of
/// probabilities, one for each label.
pub fn calibrate(
    probabilities: &[f64],
    labels: impl ExactSizeIterator<Item = usize>,
) -> Calibration {
    let classes = probabilities.len() / labels.len().max(1);
    let total = labels.len().max(1) as f64;
    let mut bins = vec![Bin::default(); BINS];
    for (row, label) in probabilities.chunks_exact(classes.max(1)).zip(labels) {
        let best = (1..row.len()).fold(0, |best, k| if row[k] > row[best] { k } else { best });
        let bin = &mut bins[((row[best] * BINS as f64) as usize).min(BINS - 1)];
        bin.count += 1;
        bin.confidence += row[best];
        bin.accuracy += f64::from(u8::from(best == label));
    }
    let mut expected_error = 0.0;
    for bin in bins.iter_mut().filter(|bin| bin.count > 0) {
        expected_error += (bin.accuracy - bin.confidence).abs() / total;
        bin.confidence /= bin.count as f64;
        bin.accuracy /= bin.count as f64;
    }
    Calibration { expected_error, bins }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_that_is_earned_costs_nothing_and_boasting_does() {
        // Four predictions of 0.75, three of them right.
        let rows = [0.75, 0.25].repeat(4);
        let honest = calibrate(&rows, [0, 0, 0, 1].into_iter());
        assert!(honest.expected_error < 1e-12);
        assert_eq!(honest.bins.iter().map(|bin| bin.count).sum::<u64>(), 4);
        let boasting = calibrate(&rows, [1, 1, 1, 1].into_iter());
        assert!((boasting.expected_error - 0.75).abs() < 1e-12);
        let certain = calibrate(&[1.0, 0.0], [0].into_iter());
        assert_eq!(certain.bins[BINS - 1], Bin { count: 1, confidence: 1.0, accuracy: 1.0 });
    }
}
