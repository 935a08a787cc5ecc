//! What the diagnostics share: which chains they accept, halves, means and variances.

/// Fewest draws of a chain that say anything: two in each half.
pub(super) const MIN_DRAWS: usize = 4;

/// At least one chain, all of one length of at least [`MIN_DRAWS`], every number finite.
pub(super) fn usable(chains: &[Vec<f64>]) -> bool {
    let Some(first) = chains.first() else { return false };
    first.len() >= MIN_DRAWS
        && chains
            .iter()
            .all(|chain| chain.len() == first.len() && chain.iter().all(|x| x.is_finite()))
}

/// The halves of each chain, as chains; the middle one of an odd number of draws is left out.
pub(super) fn split(chains: &[Vec<f64>]) -> Vec<Vec<f64>> {
    chains
        .iter()
        .flat_map(|chain| {
            let half = chain.len() / 2;
            [chain[..half].to_vec(), chain[chain.len() - half..].to_vec()]
        })
        .collect()
}

/// A function of every draw.
pub(super) fn map(chains: &[Vec<f64>], f: impl Fn(f64) -> f64) -> Vec<Vec<f64>> {
    chains.iter().map(|chain| chain.iter().map(|x| f(*x)).collect()).collect()
}

/// All draws, in order of size.
pub(super) fn sorted(chains: &[Vec<f64>]) -> Vec<f64> {
    let mut all = chains.concat();
    all.sort_unstable_by(f64::total_cmp);
    all
}

/// Mean; exact if all numbers are equal. NaN if there are none.
pub(super) fn mean<'a>(numbers: impl IntoIterator<Item = &'a f64>) -> f64 {
    let mut numbers = numbers.into_iter();
    let Some(&first) = numbers.next() else { return f64::NAN };
    let (count, sum) = numbers.fold((1usize, 0.0), |(n, sum), x| (n + 1, sum + (x - first)));
    first + sum / count as f64
}

/// Variance with the divisor $n - 1$; NaN for fewer than two numbers.
pub(super) fn variance<'a>(numbers: impl IntoIterator<Item = &'a f64> + Clone) -> f64 {
    let centre = mean(numbers.clone());
    let (count, sum) = numbers
        .into_iter()
        .fold((0.0, 0.0), |(n, sum), x| (n + 1.0, sum + (x - centre) * (x - centre)));
    if count < 2.0 { f64::NAN } else { sum / (count - 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact_where_all_numbers_are_equal() {
        let same = [0.1; 77];
        assert_eq!((mean(&same), variance(&same)), (0.1, 0.0));
        assert!(mean(&[]).is_nan() && variance(&[1.0]).is_nan());
        assert_eq!(variance(&[1.0, 2.0, 3.0]), 1.0);
    }

    #[test]
    fn halves_leave_the_middle_draw_out() {
        let halves = split(&[vec![1.0, 2.0, 3.0, 4.0, 5.0]]);
        assert_eq!(halves, [[1.0, 2.0], [4.0, 5.0]]);
    }

    #[test]
    fn chains_that_say_nothing_are_not_usable() {
        assert!(usable(&[vec![0.0; 4], vec![1.0; 4]]));
        assert!(!usable(&[]));
        assert!(!usable(&[vec![0.0; 3]]));
        assert!(!usable(&[vec![0.0; 5], vec![0.0; 4]]));
        assert!(!usable(&[vec![0.0, 1.0, f64::INFINITY, 2.0]]));
    }
}
