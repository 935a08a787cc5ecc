//! Times, of which the best counts: others are longer because something else happened meanwhile.

use std::time::{Duration, Instant};

/// How much is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// So much that the best of it says something.
    #[default]
    Full,
    /// Once: whether it works at all.
    Once,
}

impl Effort {
    /// How long steps of a kind are repeated.
    pub(crate) fn budget(self) -> Duration {
        match self {
            Effort::Full => Duration::from_millis(1200),
            Effort::Once => Duration::ZERO,
        }
    }
}

/// The best of the times that `step` measures, for as long as the effort allows and at least once,
/// in seconds.
pub fn best(effort: Effort, mut step: impl FnMut() -> Duration) -> f64 {
    let start = Instant::now();
    let mut best = step();
    while start.elapsed() < effort.budget() {
        best = best.min(step());
    }
    best.as_secs_f64()
}

/// Seconds of some work, as the mean of so many times in a row.
pub fn mean(times: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        work();
    }
    start.elapsed().as_secs_f64() / times as f64
}

/// Minor page faults of this process so far; 0 where the system does not tell.
pub fn page_faults() -> u64 {
    /// Of the fields after the name, in parentheses, of the process.
    const FIELD: usize = 7;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().nth(FIELD).and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_effort_is_one_step() {
        let mut steps = 0;
        let seconds = best(Effort::Once, || {
            steps += 1;
            Duration::from_millis(250)
        });
        assert_eq!((steps, seconds), (1, 0.25));
    }

    #[test]
    fn the_best_is_the_shortest() {
        let mut times = [3, 1, 2].map(Duration::from_secs).into_iter().cycle();
        assert_eq!(best(Effort::Full, || times.next().unwrap()), 1.0);
    }
}
