//! Whether predictions come true as often as they say.

use crate::run::record::Calibration;
use santa_posterior::predict::Scores;

/// Compares the probability of the likeliest class with how often it is right. Rows of
/// probabilities, one for each label; none if they are no probabilities.
pub fn calibrate(
    probabilities: &[f64],
    labels: impl ExactSizeIterator<Item = usize>,
) -> Option<Calibration> {
    let labels: Vec<usize> = labels.collect();
    let scores = Scores::of(probabilities, &labels).ok()?;
    Some(Calibration {
        expected_error: scores.expected_calibration_error,
        bins: scores.reliability,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::record::Bin;
    use santa_posterior::predict::BINS;

    #[test]
    fn confidence_that_is_earned_costs_nothing_and_boasting_does() {
        // Four predictions of 0.75, three of them right.
        let rows = [0.75, 0.25].repeat(4);
        let honest = calibrate(&rows, [0, 0, 0, 1].into_iter()).unwrap();
        assert!(honest.expected_error < 1e-12);
        assert_eq!(honest.bins.iter().map(|bin| bin.count).sum::<u64>(), 4);
        let boasting = calibrate(&rows, [1, 1, 1, 1].into_iter()).unwrap();
        assert!((boasting.expected_error - 0.75).abs() < 1e-12);
        let certain = calibrate(&[1.0, 0.0], [0].into_iter()).unwrap();
        assert_eq!(certain.bins[BINS - 1], Bin { count: 1, confidence: 1.0, accuracy: 1.0 });
    }
}
