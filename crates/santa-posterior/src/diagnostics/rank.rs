//! Draws replaced by normal scores of their ranks.

use super::special::normal_quantile;

/// Blom's offset for the expected values of normal order statistics.
const BLOM: f64 = 3.0 / 8.0;

/// Replaces each draw by the normal deviate of its rank $r$ among all $S$ draws of all chains:
///
/// $$ z = \Phi^{-1}\left( \frac{r - 3/8}{S + 1/4} \right) $$
///
/// Ties share their mean rank. What is computed from $z$ does not depend on the scale of the
/// quantity, and exists for heavy tails, too.
pub fn rank_normalised(chains: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut order: Vec<(f64, usize, usize)> = chains
        .iter()
        .enumerate()
        .flat_map(|(m, chain)| chain.iter().enumerate().map(move |(n, x)| (*x, m, n)))
        .collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let size = order.len() as f64;
    let mut scores: Vec<Vec<f64>> = chains.iter().map(|chain| vec![0.0; chain.len()]).collect();
    let mut below = 0;
    // Equality by value: 0 and -0 are ties, and lie side by side in the total order.
    for ties in order.chunk_by(|a, b| a.0 == b.0) {
        let rank = below as f64 + (ties.len() as f64 + 1.0) / 2.0;
        let z = normal_quantile((rank - BLOM) / (size - 2.0 * BLOM + 1.0));
        for &(_, m, n) in ties {
            scores[m][n] = z;
        }
        below += ties.len();
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_follow_the_order_and_ties_share_theirs() {
        let scores = rank_normalised(&[vec![5.0, -1e300, 0.0], vec![-0.0, 7.0, 1e9]]);
        assert_eq!(scores[0][2], scores[1][0]);
        assert!(scores[0][1] < scores[0][2] && scores[0][2] < scores[0][0]);
        assert!(scores[0][0] < scores[1][1] && scores[1][1] < scores[1][2]);
        assert!((scores[0][1] + scores[1][2]).abs() < 1e-15);
        // Ranks 1 to 6, ties at 2.5: (2.5 - 3/8) / 6.25 = 0.34.
        assert!((santa::stats::normal_cdf(scores[0][2]) - 0.34).abs() < 1e-14);
    }
}
