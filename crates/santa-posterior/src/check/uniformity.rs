//! Are ranks uniform? An exact test, by the distribution function.
//!
//! Of S ranks, each uniform on 0, ..., L, the number below i is binomial:
//!
//! $$ n_i = \sum_s \mathbb 1[r_s < i] \sim \mathrm{Bin}(S, z_i), \qquad z_i = \frac{i}{L + 1} $$
//!
//! Let $\gamma_i = 2 \min\lbrace P(n \le n_i), P(n \ge n_i) \rbrace$ be the two-sided tail of $n_i$,
//! and $\gamma = \min_i \gamma_i$ the rarest of them. The p-value is the chance that uniform ranks
//! have one as rare *anywhere*: one minus the chance that every $n_i$ stays inside the band of
//! pointwise level $\gamma$ (Säilynoja, Bürkner, Vehtari, 2022). Given $n_i$, the ranks equal to i
//! are binomial again,
//!
//! $$ n_{i+1} - n_i \mid n_i \sim \mathrm{Bin}\left(S - n_i, \frac{1}{L + 1 - i}\right), $$
//!
//! so that chance is a recursion over i: no asymptotics and no simulation.

use crate::error::{Error, Result};

/// Binomial laws of at most S trials.
struct Binomial {
    ln_factorial: Vec<f64>,
}

impl Binomial {
    fn new(trials: usize) -> Self {
        let mut ln_factorial = vec![0.0; trials + 1];
        for k in 1..=trials {
            ln_factorial[k] = ln_factorial[k - 1] + (k as f64).ln();
        }
        Binomial { ln_factorial }
    }
    fn chance(&self, k: usize, trials: usize, p: f64) -> f64 {
        if p >= 1.0 {
            return f64::from(u8::from(k == trials));
        }
        let ways = self.ln_factorial[trials] - self.ln_factorial[k] - self.ln_factorial[trials - k];
        (ways + k as f64 * p.ln() + (trials - k) as f64 * (-p).ln_1p()).exp()
    }
    /// Two-sided tails of every count.
    fn tails(&self, trials: usize, p: f64) -> Vec<f64> {
        let chances: Vec<f64> = (0..=trials).map(|k| self.chance(k, trials, p)).collect();
        let mut tails = vec![1.0f64; trials + 1];
        let (mut below, mut above) = (0.0, 0.0);
        for k in 0..=trials {
            below += chances[k];
            tails[k] = tails[k].min(2.0 * below);
            above += chances[trials - k];
            tails[trials - k] = tails[trials - k].min(2.0 * above);
        }
        tails
    }
}

/// Per i = 1, ..., L: the tails of each count.
fn all_tails(binomial: &Binomial, simulations: usize, largest: usize) -> Vec<Vec<f64>> {
    (1..=largest).map(|i| binomial.tails(simulations, i as f64 / (largest + 1) as f64)).collect()
}

/// Counts whose tail exceeds `level`, from the first to the last; empty ones come back to front.
fn inside(tails: &[f64], level: f64) -> (usize, usize) {
    let first = tails.iter().position(|t| *t > level);
    let last = tails.iter().rposition(|t| *t > level);
    first.zip(last).unwrap_or((1, 0))
}

/// The chance that uniform ranks leave the band of a pointwise level somewhere.
fn leaving(binomial: &Binomial, simulations: usize, band: &[(usize, usize)]) -> f64 {
    let largest = band.len();
    // Chances of the counts inside the band so far, from `first` on.
    let (mut first, mut chances) = (0, vec![1.0]);
    for (i, (low, high)) in band.iter().copied().enumerate() {
        if low > high {
            return 1.0;
        }
        let share = 1.0 / (largest + 1 - i) as f64;
        let mut next = vec![0.0; high - low + 1];
        for (k, chance) in chances.iter().enumerate() {
            let count = first + k;
            for to in low.max(count)..=high {
                next[to - low] += chance * binomial.chance(to - count, simulations - count, share);
            }
        }
        (first, chances) = (low, next);
    }
    (1.0 - chances.iter().sum::<f64>()).clamp(0.0, 1.0)
}

fn check(simulations: usize, largest: u32) -> Result<()> {
    if simulations == 0 || largest == 0 {
        return Err(Error::data("ranks need at least one simulation and one draw"));
    }
    Ok(())
}

/// The chance that ranks uniform on 0, ..., `largest` would look as uneven as these, exactly.
///
/// ```
/// use santa_posterior::check::rank_p_value;
///
/// let even: Vec<u32> = (0..160).map(|s| s % 8).collect();
/// assert!(rank_p_value(&even, 7)? > 0.99);
/// let low: Vec<u32> = (0..160).map(|s| s % 4).collect();
/// assert!(rank_p_value(&low, 7)? < 1e-9);
/// # Ok::<(), santa_posterior::Error>(())
/// ```
pub fn rank_p_value(ranks: &[u32], largest: u32) -> Result<f64> {
    check(ranks.len(), largest)?;
    if let Some(rank) = ranks.iter().find(|r| **r > largest) {
        return Err(Error::data(format!("a rank of {rank} among {largest} draws")));
    }
    let (simulations, largest) = (ranks.len(), largest as usize);
    let mut counts = vec![0; largest + 1];
    ranks.iter().for_each(|r| counts[*r as usize] += 1);
    let binomial = Binomial::new(simulations);
    let tails = all_tails(&binomial, simulations, largest);
    let mut below = 0;
    let mut rarest = f64::INFINITY;
    for (tails, count) in tails.iter().zip(&counts) {
        below += count;
        rarest = rarest.min(tails[below]);
    }
    // A tail that is equal but for rounding counts as equally rare.
    const ROUNDING: f64 = 1.0 + 1e-9;
    let band: Vec<_> = tails.iter().map(|t| inside(t, rarest * ROUNDING)).collect();
    Ok(leaving(&binomial, simulations, &band))
}

/// For a figure: between which counts the number of ranks below i must stay, for i = 1, ...,
/// `largest`, if uniform ranks are to stay inside everywhere with a chance of at least `coverage`.
pub fn rank_band(simulations: usize, largest: u32, coverage: f64) -> Result<Vec<(usize, usize)>> {
    check(simulations, largest)?;
    if !(0.0..1.0).contains(&coverage) {
        return Err(Error::setting("coverage", coverage, "it must be at least 0 and below 1"));
    }
    let binomial = Binomial::new(simulations);
    let tails = all_tails(&binomial, simulations, largest as usize);
    let band = |level: f64| tails.iter().map(|t| inside(t, level)).collect::<Vec<_>>();
    // The pointwise level is above the whole one divided by the number of points.
    const BISECTIONS: u32 = 40;
    let (mut wide, mut narrow) = ((1.0 - coverage) / f64::from(largest), 1.0 - coverage);
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (wide + narrow);
        if leaving(&binomial, simulations, &band(middle)) <= 1.0 - coverage {
            wide = middle;
        } else {
            narrow = middle;
        }
    }
    Ok(band(wide))
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    fn uniform(seed: u64, simulations: u32, largest: u32) -> Vec<u32> {
        let stream = Stream::new(seed, 0, Purpose::Custom(1));
        (0..simulations).map(|s| stream.below(0, 0, s, u64::from(largest) + 1) as u32).collect()
    }

    /// One draw: the rank is a coin, and the test is the two-sided binomial one.
    #[test]
    fn with_one_draw_it_is_the_binomial_test() {
        let ranks = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        // 2 (1 + 10) / 2^10, both tails.
        assert!((rank_p_value(&ranks, 1).unwrap() - 22.0 / 1024.0).abs() < 1e-12);
    }

    /// P(p <= a) <= a, and nearly equal where the law is nearly continuous.
    #[test]
    fn p_values_of_uniform_ranks_are_uniform() {
        const TRIALS: u64 = 500;
        let p: Vec<f64> =
            (0..TRIALS).map(|t| rank_p_value(&uniform(t, 40, 7), 7).unwrap()).collect();
        for level in [0.01, 0.05, 0.2, 0.5] {
            let share = p.iter().filter(|p| **p <= level).count() as f64 / TRIALS as f64;
            // Five standard errors of the share; the discreteness takes at most a tenth away.
            let error = 5.0 * (level * (1.0 - level) / TRIALS as f64).sqrt();
            assert!(share < level + error && share > 0.9 * level - error, "{level}: {share}");
        }
    }

    #[test]
    fn ranks_that_are_shifted_or_crowded_are_noticed() {
        let ranks = uniform(1, 500, 31);
        assert!(rank_p_value(&ranks, 31).unwrap() > 1e-3);
        let shifted: Vec<u32> = ranks.iter().map(|r| (r + 4).min(31)).collect();
        assert!(rank_p_value(&shifted, 31).unwrap() < 1e-6);
        let crowded: Vec<u32> = ranks.iter().map(|r| 4 + r * 23 / 31).collect();
        assert!(rank_p_value(&crowded, 31).unwrap() < 1e-6);
    }

    #[test]
    fn the_band_holds_what_it_promises() {
        const TRIALS: u64 = 500;
        let band = rank_band(100, 15, 0.9).unwrap();
        let kept = (0..TRIALS)
            .filter(|t| {
                let ranks = uniform(*t, 100, 15);
                band.iter().zip(1..).all(|((low, high), i)| {
                    (*low..=*high).contains(&ranks.iter().filter(|r| **r < i).count())
                })
            })
            .count() as f64;
        let error = 5.0 * (0.9 * 0.1 / TRIALS as f64).sqrt();
        assert!(kept / TRIALS as f64 > 0.9 - error, "{kept}");
        assert!(kept / (TRIALS as f64) < 0.95 + error, "{kept}");
    }

    #[test]
    fn impossible_ranks_are_refused() {
        assert!(rank_p_value(&[8], 7).unwrap_err().to_string().contains("rank of 8"));
        assert!(rank_p_value(&[], 7).is_err());
        assert!(rank_p_value(&[0], 0).is_err());
        assert!(rank_band(10, 7, 1.0).is_err());
    }
}
