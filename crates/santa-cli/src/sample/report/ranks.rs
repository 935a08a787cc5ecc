//! Ranks of the draws of each chain among those of all: if the chains agree, all ranks are as
//! frequent in each (Vehtari, Gelman, Simpson, Carpenter and Bürkner, 2021).

/// Bins, at most.
const MOST: usize = 20;
/// Draws of a chain in a bin, at least, if the chains agree: as for the chi-squared test.
const FEWEST: usize = 5;

/// How many bins suit chains of some length; none if there would not be two.
pub fn bins(draws: usize) -> Option<usize> {
    Some((draws / FEWEST).min(MOST)).filter(|&bins| bins > 1)
}

/// Of each chain, the frequency of its ranks in each bin, divided by what it is if the chains agree.
///
/// Draws that are equal share their ranks evenly: where the chains draw a value equally often, it
/// makes no difference between them. A chain without draws has frequency 0.
pub fn frequencies(chains: &[Vec<f64>], bins: usize) -> Vec<Vec<f64>> {
    let mut all: Vec<(f64, usize)> = chains
        .iter()
        .enumerate()
        .flat_map(|(chain, draws)| draws.iter().map(move |&x| (x, chain)))
        .collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let width = all.len() as f64 / bins as f64;
    let mut counts = vec![vec![0.0; bins]; chains.len()];
    let mut first = 0.0;
    // Zeros of either sign are equal.
    for equal in all.chunk_by(|a, b| a.0 == b.0) {
        let end = first + equal.len() as f64;
        for bin in (first / width) as usize..bins.min((end / width).ceil() as usize) {
            let (low, high) = (bin as f64 * width, (bin + 1) as f64 * width);
            let share = (end.min(high) - first.max(low)).max(0.0) / (end - first);
            for &(_, chain) in equal {
                counts[chain][bin] += share;
            }
        }
        first = end;
    }
    for (counts, draws) in counts.iter_mut().zip(chains) {
        let expected = draws.len().max(1) as f64 / bins as f64;
        counts.iter_mut().for_each(|count| *count /= expected);
    }
    counts
}

/// Standard deviation of such a frequency if `chains` chains of `draws` draws agree. Were the draws
/// independent, the number of a chain's draws in a bin would be hypergeometric; a draw that is
/// correlated with those before it counts for `1 / time` draws, `time` being the integrated
/// autocorrelation time.
pub fn deviation(chains: usize, draws: usize, bins: usize, time: f64) -> f64 {
    let (n, all) = (draws as f64, (draws * chains) as f64);
    let others = if all > 1.0 { (all - n) / (all - 1.0) } else { 0.0 };
    ((bins as f64 - 1.0) / n * others * time).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::testing::normals;
    use super::*;

    /// Independent normal draws, the last chain moved.
    fn chains(count: u32, draws: usize, shift: f64) -> Vec<Vec<f64>> {
        let moved = |chain| if chain + 1 == count { shift } else { 0.0 };
        let draw = |chain| normals(chain, draws).into_iter().map(|x| x + moved(chain)).collect();
        (0..count).map(draw).collect()
    }

    fn spread(frequencies: &[Vec<f64>]) -> f64 {
        let all = frequencies.iter().flatten();
        let count = all.clone().count() as f64;
        (all.map(|f| (f - 1.0).powi(2)).sum::<f64>() / count).sqrt()
    }

    #[test]
    fn chains_that_agree_vary_as_they_should_and_others_more() {
        let expected = deviation(4, 2_000, 20, 1.0);
        let agreeing = spread(&frequencies(&chains(4, 2_000, 0.0), 20));
        assert!((0.75..1.25).contains(&(agreeing / expected)), "{agreeing} {expected}");
        let moved = spread(&frequencies(&chains(4, 2_000, 0.5), 20));
        assert!(moved > 2.0 * expected, "{moved} {expected}");
    }

    #[test]
    fn every_draw_is_counted_once() {
        for draws in [10, 37, 1_001] {
            let bins = bins(draws).unwrap();
            for chain in frequencies(&chains(3, draws, 1.0), bins) {
                let mean = chain.iter().sum::<f64>() / bins as f64;
                assert!((mean - 1.0).abs() < 1e-12, "{draws}: {mean}");
            }
        }
    }

    #[test]
    fn equal_draws_tell_no_chains_apart() {
        let same = frequencies(&[vec![2.0; 30], vec![2.0; 30]], 6);
        assert!(same.iter().flatten().all(|f| (f - 1.0).abs() < 1e-12), "{same:?}");
        let signs = frequencies(&[vec![0.0; 30], vec![-0.0; 30]], 6);
        assert!(signs.iter().flatten().all(|f| (f - 1.0).abs() < 1e-12), "{signs:?}");
        let apart = frequencies(&[vec![1.0; 30], vec![2.0; 30]], 6);
        assert!((apart[0][0] - 2.0).abs() < 1e-12 && apart[0][5] == 0.0);
    }

    #[test]
    fn few_draws_have_few_bins_or_none() {
        assert_eq!((bins(1), bins(9), bins(10), bins(10_000)), (None, None, Some(2), Some(MOST)));
        assert_eq!(frequencies(&[vec![], vec![1.0]], 2), [[0.0, 0.0], [1.0, 1.0]]);
    }
}
