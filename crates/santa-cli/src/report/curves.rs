//! Curves over time: read from records, averaged over seeds, thinned to what a screen can show.

use super::groups::Group;
use crate::run::record::{Evaluation, Record, Score, Scores};
use std::collections::{BTreeMap, BTreeSet};

/// Points of a curve at most: a figure is some hundred pixels wide.
pub const MAX_POINTS: usize = 300;

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Steps made.
    pub step: u64,
    /// Passes over the training data made.
    pub epoch: f64,
    /// Seconds of training and evaluation.
    pub seconds: f64,
    /// The value.
    pub value: f64,
}

/// The mean over the seeds, and the lowest and highest of them, at some times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Passes over the training data made.
    pub epoch: Vec<f64>,
    /// Seconds, in the mean over the seeds.
    pub seconds: Vec<f64>,
    /// The mean.
    pub mean: Vec<f64>,
    /// The lowest.
    pub low: Vec<f64>,
    /// The highest.
    pub high: Vec<f64>,
}

/// Part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Data for choices.
    Validation,
    /// Data for results.
    Test,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Share of wrong classes.
    Error,
    /// Mean negative log-likelihood.
    Nll,
}

/// Whose prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// Of the present parameters.
    Last,
    /// The average so far.
    Averaged,
}

impl Part {
    /// Its score among others.
    pub fn of(self, scores: &Scores) -> Option<Score> {
        match self {
            Part::Validation => scores.validation,
            Part::Test => scores.test,
        }
    }
}

impl Measure {
    /// Its value in a score.
    pub fn of(self, score: Score) -> Option<f64> {
        match self {
            Measure::Error => score.error,
            Measure::Nll => Some(score.nll),
        }
    }
}

impl Prediction {
    /// Its scores in an evaluation.
    pub fn of(self, evaluation: &Evaluation) -> Option<Scores> {
        match self {
            Prediction::Last => Some(evaluation.last),
            Prediction::Averaged => evaluation.averaged.map(|a| a.scores),
        }
    }
}

/// Training loss of the runs of a group.
pub fn loss(group: &Group<'_>) -> Option<Curve> {
    merged(group, |record| match record {
        Record::Training(r) => {
            Some(Sample { step: r.step, epoch: r.epoch, seconds: r.seconds, value: r.loss })
        }
        _ => None,
    })
}

/// Scores of the runs of a group.
pub fn scores(
    group: &Group<'_>,
    part: Part,
    measure: Measure,
    prediction: Prediction,
) -> Option<Curve> {
    merged(group, |record| match record {
        Record::Evaluation(r) => {
            let value = measure.of(part.of(&prediction.of(r)?)?)?;
            Some(Sample { step: r.step, epoch: r.epoch, seconds: r.seconds, value })
        }
        _ => None,
    })
}

fn merged(group: &Group<'_>, sample: impl Fn(&Record) -> Option<Sample>) -> Option<Curve> {
    let runs: Vec<Vec<Sample>> = group
        .runs
        .iter()
        .map(|run| {
            // A resumed run may have written a step twice: the later one counts.
            let steps = run.records.iter().filter_map(&sample).map(|s| (s.step, s));
            steps.collect::<BTreeMap<_, _>>().into_values().collect()
        })
        .collect();
    let curve = merge(&runs);
    (!curve.epoch.is_empty()).then(|| curve.thinned(MAX_POINTS))
}

/// The mean of several curves at all steps of any of them. Between its own steps a curve is a
/// straight line; before its first and after its last it does not count. A value that is not finite
/// makes the mean so.
fn merge(runs: &[Vec<Sample>]) -> Curve {
    let steps: BTreeSet<u64> = runs.iter().flatten().map(|s| s.step).collect();
    let mut next = vec![0; runs.len()];
    let mut curve = Curve::default();
    for step in steps {
        let mut present = Vec::with_capacity(runs.len());
        for (run, next) in runs.iter().zip(&mut next) {
            while run.get(*next).is_some_and(|s| s.step < step) {
                *next += 1;
            }
            match (next.checked_sub(1).and_then(|i| run.get(i)), run.get(*next)) {
                (_, Some(after)) if after.step == step => present.push(*after),
                (Some(before), Some(after)) => present.push(between(before, after, step)),
                _ => (),
            }
        }
        let mean =
            |of: fn(&Sample) -> f64| present.iter().map(of).sum::<f64>() / present.len() as f64;
        let value = mean(|s| s.value);
        let values = || present.iter().map(|s| s.value);
        let whole = value.is_finite();
        curve.epoch.push(mean(|s| s.epoch));
        curve.seconds.push(mean(|s| s.seconds));
        curve.mean.push(value);
        curve.low.push(if whole { values().fold(f64::INFINITY, f64::min) } else { value });
        curve.high.push(if whole { values().fold(f64::NEG_INFINITY, f64::max) } else { value });
    }
    curve
}

fn between(a: &Sample, b: &Sample, step: u64) -> Sample {
    let share = (step - a.step) as f64 / (b.step - a.step) as f64;
    let mix = |a: f64, b: f64| a + share * (b - a);
    Sample {
        step,
        epoch: mix(a.epoch, b.epoch),
        seconds: mix(a.seconds, b.seconds),
        value: mix(a.value, b.value),
    }
}

impl Curve {
    /// The same with all values multiplied.
    pub fn scaled(mut self, factor: f64) -> Curve {
        for values in [&mut self.mean, &mut self.low, &mut self.high] {
            values.iter_mut().for_each(|v| *v *= factor);
        }
        self
    }

    /// The same with at most `count` points (and at least 4).
    pub fn thinned(&self, count: usize) -> Curve {
        let keep = thin(&self.mean, count);
        let pick = |values: &[f64]| keep.iter().map(|&i| values[i]).collect();
        Curve {
            epoch: pick(&self.epoch),
            seconds: pick(&self.seconds),
            mean: pick(&self.mean),
            low: pick(&self.low),
            high: pick(&self.high),
        }
    }
}

/// Which of many values to draw: the first, the last, and the lowest and highest of each of equal
/// stretches, so that no spike is lost. A stretch with nothing finite keeps one value: a gap is seen.
pub fn thin(values: &[f64], count: usize) -> Vec<usize> {
    let count = count.max(4);
    if values.len() <= count {
        return (0..values.len()).collect();
    }
    let stretches = (count - 2) / 2;
    let mut keep = BTreeSet::from([0, values.len() - 1]);
    for stretch in 0..stretches {
        let from = stretch * values.len() / stretches;
        let to = (stretch + 1) * values.len() / stretches;
        let finite = || (from..to).filter(|&i| values[i].is_finite());
        let by_value = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]);
        keep.insert(finite().min_by(by_value).unwrap_or(from));
        keep.insert(finite().max_by(by_value).unwrap_or(from));
    }
    keep.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[(u64, f64)]) -> Vec<Sample> {
        let sample = |&(step, value): &(u64, f64)| {
            let epoch = step as f64 / 10.0;
            Sample { step, epoch, seconds: epoch * 2.0, value }
        };
        values.iter().map(sample).collect()
    }

    #[test]
    fn the_mean_is_taken_at_all_steps_of_any_seed() {
        let a = samples(&[(10, 1.0), (20, 3.0), (30, 5.0)]);
        let b = samples(&[(10, 3.0), (30, 3.0)]);
        let curve = merge(&[a, b]);
        assert_eq!(curve.epoch, [1.0, 2.0, 3.0]);
        assert_eq!(curve.mean, [2.0, 3.0, 4.0]);
        assert_eq!(curve.low, [1.0, 3.0, 3.0]);
        assert_eq!(curve.high, [3.0, 3.0, 5.0]);
    }

    #[test]
    fn a_seed_does_not_count_after_its_end() {
        let curve = merge(&[samples(&[(10, 1.0), (20, 1.0)]), samples(&[(10, 3.0)]), vec![]]);
        assert_eq!(curve.mean, [2.0, 1.0]);
    }

    #[test]
    fn a_value_that_is_not_finite_is_not_averaged_away() {
        let curve = merge(&[samples(&[(10, f64::NAN)]), samples(&[(10, 3.0)])]);
        assert!(curve.mean[0].is_nan() && curve.low[0].is_nan() && curve.high[0].is_nan());
    }

    #[test]
    fn thinning_keeps_the_ends_and_every_spike() {
        let mut values: Vec<f64> = (0..10_000).map(|i| f64::from(i % 7)).collect();
        values[4321] = 100.0;
        values[77] = -100.0;
        let keep = thin(&values, 300);
        assert!(keep.len() <= 300);
        assert!([0, 77, 4321, 9999].iter().all(|i| keep.contains(i)));
        assert!(keep.is_sorted());
    }

    #[test]
    fn thinning_keeps_gaps() {
        let values = vec![f64::NAN; 1000];
        assert!(thin(&values, 100).len() > 10);
        assert_eq!(thin(&[1.0, 2.0], 100), [0, 1]);
    }
}
