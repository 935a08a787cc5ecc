//! What the swaps were like.

use super::penalty::Ratio;
use serde::{Deserialize, Serialize};

/// How often neighbours swap, and how the replicas travel.
///
/// A *walker* is what travels: the parameters that began at the rung of the same number. All members of
/// a team have the same statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    pub(super) counts: Counts,
    /// Sums over the attempts of each pair.
    pub(super) probabilities: Vec<f64>,
    pub(super) variances: Vec<f64>,
}

/// The whole numbers among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub walkers: Vec<usize>,
    pub attempts: Vec<u64>,
    pub accepted: Vec<u64>,
    pub trips: Vec<u64>,
    pub last_end: Vec<Option<End>>,
}

/// An end of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    Coldest,
    Hottest,
}

impl Statistics {
    pub(super) fn new(rungs: usize) -> Self {
        let pairs = rungs.saturating_sub(1);
        let mut statistics = Statistics {
            counts: Counts {
                walkers: (0..rungs).collect(),
                attempts: vec![0; pairs],
                accepted: vec![0; pairs],
                trips: vec![0; rungs],
                last_end: vec![None; rungs],
            },
            probabilities: vec![0.0; pairs],
            variances: vec![0.0; pairs],
        };
        statistics.look_at_ends();
        statistics
    }

    pub(super) fn attempted(&mut self, pair: usize, ratio: &Ratio, probability: f64) {
        self.counts.attempts[pair] += 1;
        self.probabilities[pair] += probability;
        self.variances[pair] += ratio.variance;
    }

    pub(super) fn swapped(&mut self, pair: usize) {
        self.counts.accepted[pair] += 1;
        self.counts.walkers.swap(pair, pair + 1);
    }

    /// Counts who has come back to the coldest rung from the hottest.
    pub(super) fn look_at_ends(&mut self) {
        let Counts { walkers, trips, last_end, .. } = &mut self.counts;
        let (Some(cold), Some(hot)) = (walkers.first(), walkers.last()) else { return };
        if last_end[*cold] == Some(End::Hottest) {
            trips[*cold] += 1;
        }
        last_end[*cold] = Some(End::Coldest);
        if walkers.len() > 1 {
            last_end[*hot] = Some(End::Hottest);
        }
    }

    /// Which walker is at each rung now, coldest first.
    pub fn walkers(&self) -> &[usize] {
        &self.counts.walkers
    }
    /// Swaps that were tried, by pair: the first is that of the two coldest rungs.
    pub fn attempts(&self) -> &[u64] {
        &self.counts.attempts
    }
    /// Swaps that were made, by pair.
    pub fn accepted(&self) -> &[u64] {
        &self.counts.accepted
    }
    /// The mean probability of a swap, by pair: the share of swaps made, with less noise. NaN for a pair
    /// that has not tried.
    pub fn acceptance(&self) -> Vec<f64> {
        self.per_attempt(&self.probabilities)
    }
    /// The mean of $s^2$, the variance of the estimated log acceptance ratio, by pair; 0 where energies
    /// are exact, NaN for a pair that has not tried.
    pub fn noise(&self) -> Vec<f64> {
        self.per_attempt(&self.variances)
    }
    /// How often each walker has gone from the coldest rung, or from its start, to the hottest and
    /// back.
    pub fn round_trips(&self) -> &[u64] {
        &self.counts.trips
    }

    fn per_attempt(&self, sums: &[f64]) -> Vec<f64> {
        sums.iter().zip(&self.counts.attempts).map(|(sum, n)| sum / *n as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trip_is_there_and_back() {
        let mut statistics = Statistics::new(3);
        let mut swap = |pair| {
            statistics.swapped(pair);
            statistics.look_at_ends();
            (statistics.walkers().to_vec(), statistics.round_trips().to_vec())
        };
        assert_eq!(swap(0), (vec![1, 0, 2], vec![0, 0, 0]));
        assert_eq!(swap(1), (vec![1, 2, 0], vec![0, 0, 0]));
        // Walker 2 began at the hottest rung.
        assert_eq!(swap(0), (vec![2, 1, 0], vec![0, 0, 1]));
        assert_eq!(swap(1), (vec![2, 0, 1], vec![0, 0, 1]));
        assert_eq!(swap(0), (vec![0, 2, 1], vec![1, 0, 1]));
        // From the coldest rung to the middle and back is none.
        assert_eq!(swap(0), (vec![2, 0, 1], vec![1, 0, 1]));
        assert_eq!(swap(0), (vec![0, 2, 1], vec![1, 0, 1]));
    }
}
