//! The temperatures of the rungs.

/// So many inverse temperatures from the coldest to the hottest, in equal ratios.
///
/// ```
/// use santa_distributed::tempering::geometric;
///
/// assert_eq!(geometric(1.0, 0.0625, 3), [1.0, 0.25, 0.0625]);
/// ```
pub fn geometric(coldest: f64, hottest: f64, rungs: usize) -> Vec<f64> {
    let last = rungs.saturating_sub(1);
    (0..rungs)
        .map(|r| match r {
            0 => coldest,
            _ if r == last => hottest,
            _ => coldest * (hottest / coldest).powf(r as f64 / last as f64),
        })
        .collect()
}

/// The same number of rungs between the same ends, moved towards equal acceptance of all pairs.
///
/// The rejections of neighbours add up along the ladder to a *barrier*
/// $\Lambda(\beta_r) = \sum_{p < r} (1 - a_p)$, which as a function of $\beta$ hardly depends on where
/// the rungs are (Syed and others, 2022). The new rungs divide it into equal parts; between the old
/// ones $\log\beta$ is taken to be linear in $\Lambda$. A second round of this, with statistics of the
/// new ladder, corrects for what that leaves.
///
/// `acceptance` has a number for each pair of neighbours. A ladder that refuses nothing, or
/// numbers that are no shares, leave it as it is.
pub fn adapted(betas: &[f64], acceptance: &[f64]) -> Vec<f64> {
    let usable = acceptance.len() + 1 == betas.len()
        && acceptance.iter().all(|a| (0.0..=1.0).contains(a))
        && acceptance.iter().any(|a| *a < 1.0);
    let rungs = betas.len();
    if !usable || rungs <= 2 {
        return betas.to_vec();
    }
    let mut barrier = vec![0.0];
    for (p, a) in acceptance.iter().enumerate() {
        barrier.push(barrier[p] + (1.0 - a));
    }
    let mut new = betas.to_vec();
    for r in 1..rungs - 1 {
        let level = barrier[rungs - 1] * r as f64 / (rungs - 1) as f64;
        // The first rung at or beyond the level; there is one before it, for the level is positive.
        let right = barrier.partition_point(|b| *b < level).min(rungs - 1);
        let left = right - 1;
        let share = (level - barrier[left]) / (barrier[right] - barrier[left]);
        new[r] = betas[left] * (betas[right] / betas[left]).powf(share);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_has_its_ends_and_equal_ratios() {
        let ladder = geometric(2.0, 0.1, 5);
        assert_eq!((ladder[0], ladder[4]), (2.0, 0.1));
        for pair in ladder.windows(2) {
            assert!((pair[1] / pair[0] - 0.05f64.powf(0.25)).abs() < 1e-12);
        }
        assert_eq!(geometric(1.0, 0.5, 1), [1.0]);
        assert!(geometric(1.0, 0.5, 0).is_empty());
    }

    /// If rejections are proportional to the distance in log beta, the even ladder is the answer.
    #[test]
    fn an_uneven_ladder_becomes_even() {
        let uneven = [1.0, 0.9, 0.8, 0.1];
        let acceptance: Vec<f64> =
            uneven.windows(2).map(|pair: &[f64]| 1.0 - 0.3 * (pair[0] / pair[1]).ln()).collect();
        for (a, b) in adapted(&uneven, &acceptance).iter().zip(geometric(1.0, 0.1, 4)) {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
    }

    #[test]
    fn what_tells_nothing_changes_nothing() {
        let ladder = [1.0, 0.5, 0.2];
        for acceptance in [vec![1.0, 1.0], vec![0.5], vec![f64::NAN, 0.5], vec![0.4, 1.5]] {
            assert_eq!(adapted(&ladder, &acceptance), ladder);
        }
    }

    #[test]
    fn the_rungs_stay_in_order_whatever_the_acceptance() {
        for acceptance in [[0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.999, 1.0], [0.0; 4]] {
            let new = adapted(&[1.0, 0.7, 0.5, 0.3, 0.1], &acceptance);
            assert!(new.windows(2).all(|pair| pair[0] > pair[1]), "{new:?}");
            assert_eq!((new[0], new[4]), (1.0, 0.1));
        }
    }
}
