//! Classes: the mean prediction of the draws, and how far they agree.

use super::likeliest;
use crate::error::{Error, Result};
use santa::Real;
use santa::average::{AverageState, Pooling, PredictionAverage, PredictionState};
use serde::{Deserialize, Serialize};

/// The posterior predictive probabilities of `rows` examples among `classes` classes, from draws
/// that come one at a time.
///
/// Memory is that of five predictions, whatever the number of draws.
/// [`PredictionAverage`] does the averaging; what is added here is how the draws differ.
#[derive(Clone, Debug)]
pub struct Predictive {
    rows: usize,
    classes: usize,
    average: PredictionAverage,
    /// Mean over the draws of the entropy of a draw's prediction, for each example.
    entropy: Vec<f64>,
    /// Sum over the draws of squared distances from the mean probabilities.
    squares: Vec<f64>,
    /// How many draws find a class the likeliest.
    votes: Vec<f64>,
}

/// What a checkpoint keeps of a [`Predictive`]: plain vectors, row by row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictiveState {
    /// Draws taken in.
    pub draws: u64,
    /// Mean probabilities; zeros before the first draw, as the others are.
    pub probabilities: Vec<f64>,
    /// Mean log-probabilities.
    pub log_probabilities: Vec<f64>,
    /// Mean entropy of a single draw, one for each example.
    pub entropy: Vec<f64>,
    /// Sums of squared distances from the mean probabilities.
    pub squares: Vec<f64>,
    /// Draws that find the class the likeliest.
    pub votes: Vec<f64>,
}

/// How sure a [`Predictive`] is of one example. Entropies are in nats.
///
/// With the probabilities $p_s$ of draw $s$ of $S$, their mean
/// $\bar p = \frac{1}{S} \sum_s p_s$ and $H(p) = -\sum_k p_k \log p_k$,
///
/// $$ \underbrace{H(\bar p)}_{\text{entropy}} =
///    \underbrace{\frac{1}{S} \sum_s H(p_s)}_{\text{expected entropy}} +
///    \underbrace{\frac{1}{S} \sum_s \mathrm{KL}(p_s \Vert \bar p)}_{\text{mutual information}} $$
///
/// The expected entropy is doubt that every draw has, about data as they are; the mutual information
/// of the class and the parameters is what the draws do not agree about, and what more training data
/// could resolve (Houlsby, Huszár, Ghahramani, Lengyel, 2011; Depeweg, Hernández-Lobato, Doshi-Velez,
/// Udluft, 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Uncertainty {
    /// The likeliest class; the first of equals.
    pub class: usize,
    /// Its probability.
    pub confidence: f64,
    /// $H(\bar p)$, from 0 to the logarithm of the number of classes.
    pub entropy: f64,
    /// The mean of $H(p_s)$.
    pub expected_entropy: f64,
    /// Their difference; never below 0.
    pub mutual_information: f64,
    /// Standard deviation over the draws (a sum over $S$, divided by $S$) of the class's probability.
    pub deviation: f64,
    /// Share of the draws that would have chosen another class.
    pub disagreement: f64,
}

impl Predictive {
    /// No draws yet, for `rows` examples.
    pub fn new(rows: usize, classes: usize) -> Result<Self> {
        let average = PredictionAverage::new(rows, classes)?;
        let zeros = || vec![0.0; rows * classes];
        Ok(Predictive {
            rows,
            classes,
            average,
            entropy: vec![0.0; rows],
            squares: zeros(),
            votes: zeros(),
        })
    }

    /// Takes in a draw's log-probabilities of all examples, row by row (a log-softmax, not raw
    /// scores: rows whose probabilities do not add up to 1 are refused).
    pub fn push<F: Real>(&mut self, log_probabilities: &[F]) -> Result<()> {
        self.average.push(log_probabilities, 1.0)?;
        self.compare(log_probabilities.iter().map(|log_p| log_p.to_f64().exp()));
        Ok(())
    }

    /// The same from probabilities.
    pub fn push_probabilities<F: Real>(&mut self, probabilities: &[F]) -> Result<()> {
        self.average.push_probabilities(probabilities, 1.0)?;
        self.compare(probabilities.iter().map(|p| p.to_f64()));
        Ok(())
    }

    /// Compares a draw with the mean that it has just become part of.
    fn compare(&mut self, mut probabilities: impl Iterator<Item = f64>) {
        let draws = self.draws() as f64;
        // Welford's update in terms of the new mean; the first draw is the mean.
        let share = if draws > 1.0 { draws / (draws - 1.0) } else { 0.0 };
        let mut row = vec![0.0; self.classes];
        for (i, mean) in self.average.state().probabilities.mean.chunks(self.classes).enumerate() {
            row.iter_mut().zip(&mut probabilities).for_each(|(to, p)| *to = p);
            self.entropy[i] += (entropy(&row) - self.entropy[i]) / draws;
            let first = i * self.classes;
            for k in 0..self.classes {
                self.squares[first + k] += share * (row[k] - mean[k]).powi(2);
            }
            self.votes[first + likeliest(&row)] += 1.0;
        }
    }

    /// Takes in the draws of another chain: the same, but for rounding, as if they had been pushed.
    pub fn merge(&mut self, other: &Predictive) -> Result<()> {
        if (self.rows, self.classes) != (other.rows, other.classes) {
            return Err(Error::data(format!(
                "predictions of {} examples among {} classes cannot join those of {} among {}",
                other.rows, other.classes, self.rows, self.classes
            )));
        }
        if other.draws() == 0 {
            return Ok(());
        }
        let (mut here, there) = (self.state(), other.state());
        let (n, m) = (here.draws as f64, there.draws as f64);
        let share = m / (n + m);
        for i in 0..here.squares.len() {
            let apart = there.probabilities[i] - here.probabilities[i];
            here.squares[i] += there.squares[i] + apart.powi(2) * n * share;
            here.votes[i] += there.votes[i];
        }
        for (mean, other) in [
            (&mut here.probabilities, &there.probabilities),
            (&mut here.log_probabilities, &there.log_probabilities),
            (&mut here.entropy, &there.entropy),
        ] {
            mean.iter_mut().zip(other).for_each(|(mean, x)| *mean += share * (x - *mean));
        }
        here.draws += there.draws;
        self.restore(here)
    }

    /// Draws taken in.
    pub fn draws(&self) -> u64 {
        self.average.count()
    }
    /// Number of examples.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }
    /// The predictive probabilities, row by row, once there is a draw.
    pub fn probabilities(&self) -> Option<Vec<f64>> {
        self.average.probabilities(Pooling::Probabilities)
    }
    /// The average inside, for the other pooling.
    pub fn average(&self) -> &PredictionAverage {
        &self.average
    }

    /// How sure it is of each example; none before the first draw.
    pub fn uncertainties(&self) -> Vec<Uncertainty> {
        let draws = self.draws() as f64;
        if self.draws() == 0 {
            return Vec::new();
        }
        let rows = self.average.state().probabilities.mean.chunks(self.classes);
        rows.zip(&self.entropy)
            .enumerate()
            .map(|(i, (row, &expected_entropy))| {
                let (class, entropy) = (likeliest(row), entropy(row));
                let place = i * self.classes + class;
                Uncertainty {
                    class,
                    confidence: row[class],
                    entropy,
                    expected_entropy,
                    // The entropy is concave, hence not negative but for rounding.
                    mutual_information: (entropy - expected_entropy).max(0.0),
                    deviation: (self.squares[place] / draws).sqrt(),
                    disagreement: 1.0 - self.votes[place] / draws,
                }
            })
            .collect()
    }

    /// What a checkpoint must keep.
    pub fn state(&self) -> PredictiveState {
        let PredictionState { probabilities, log_probabilities } = self.average.state().clone();
        PredictiveState {
            draws: self.draws(),
            probabilities: probabilities.mean,
            log_probabilities: log_probabilities.mean,
            entropy: self.entropy.clone(),
            squares: self.squares.clone(),
            votes: self.votes.clone(),
        }
    }

    /// Goes on from what a checkpoint kept.
    pub fn restore(&mut self, state: PredictiveState) -> Result<()> {
        let draws = state.draws;
        for (name, values, len) in [
            ("entropy", &state.entropy, self.rows),
            ("squares", &state.squares, self.squares.len()),
            ("votes", &state.votes, self.votes.len()),
        ] {
            if values.len() != len {
                return Err(Error::data(format!(
                    "`{name}` of the saved predictions has {} numbers, here it has {len}; \
                     restore it for the same examples and classes",
                    values.len()
                )));
            }
            if let Some(x) = values.iter().find(|x| !(x.is_finite() && **x >= 0.0)) {
                return Err(Error::data(format!("`{name}` of the saved predictions holds {x}")));
            }
        }
        let voters = |row: &[f64]| row.iter().sum::<f64>();
        if let Some(row) = state.votes.chunks(self.classes).find(|row| voters(row) != draws as f64)
        {
            return Err(Error::data(format!(
                "the saved predictions count {} votes on an example after {draws} draws",
                voters(row)
            )));
        }
        let average = |mean| AverageState { count: draws, weight: draws as f64, mean };
        self.average.restore(PredictionState {
            probabilities: average(state.probabilities),
            log_probabilities: average(state.log_probabilities),
        })?;
        self.entropy = state.entropy;
        self.squares = state.squares;
        self.votes = state.votes;
        Ok(())
    }
}

/// $-\sum_k p_k \log p_k$; a probability of 0 adds nothing.
fn entropy(row: &[f64]) -> f64 {
    let sum: f64 = row.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum();
    (-sum).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    const ROWS: usize = 7;
    const CLASSES: usize = 4;

    /// Softmax of normal deviates times `sharpness`, as log-probabilities.
    fn draw(s: u64, sharpness: f64) -> Vec<f64> {
        let mut z = vec![0.0f64; ROWS * CLASSES];
        Stream::new(3, 0, Purpose::Custom(1)).normals(s, 0, 0, &mut z);
        for row in z.chunks_mut(CLASSES) {
            row.iter_mut().for_each(|x| *x *= sharpness);
            let log_sum = row.iter().map(|x| x.exp()).sum::<f64>().ln();
            row.iter_mut().for_each(|x| *x -= log_sum);
        }
        z
    }

    fn of(draws: impl IntoIterator<Item = u64>) -> Predictive {
        let mut predictive = Predictive::new(ROWS, CLASSES).unwrap();
        for s in draws {
            predictive.push(&draw(s, 1.5)).unwrap();
        }
        predictive
    }

    #[test]
    fn three_draws_by_hand() {
        let mut predictive = Predictive::new(1, 2).unwrap();
        assert!(predictive.uncertainties().is_empty());
        assert_eq!(predictive.probabilities(), None);
        predictive.push(&[0.75f64.ln(), 0.25f64.ln()]).unwrap();
        predictive.push_probabilities(&[0.25f64, 0.75]).unwrap();
        predictive.push_probabilities(&[1.0f64, 0.0]).unwrap();
        let [only] = predictive.uncertainties()[..] else { panic!() };
        // Mean (2/3, 1/3); H[1/4, 3/4] = log 4 - 3/4 log 3, twice, and 0 once.
        let entropy = 3.0f64.ln() - 2.0 / 3.0 * 2.0f64.ln();
        let expected = (4.0f64.ln() - 0.75 * 3.0f64.ln()) * 2.0 / 3.0;
        assert_eq!(only.class, 0);
        assert!((only.confidence - 2.0 / 3.0).abs() < 1e-15);
        assert!((only.entropy - entropy).abs() < 1e-15);
        assert!((only.expected_entropy - expected).abs() < 1e-15);
        assert!((only.mutual_information - (entropy - expected)).abs() < 1e-15);
        // Distances 1/12, -5/12, 4/12 from the mean.
        assert!((only.deviation - (42.0f64 / 144.0 / 3.0).sqrt()).abs() < 1e-15);
        assert!((only.disagreement - 1.0 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn entropies_keep_their_bounds_and_the_mutual_information_is_a_mean_divergence() {
        for draws in [1, 2, 10, 100] {
            let predictive = of(0..draws);
            let p = predictive.probabilities().unwrap();
            for (i, u) in predictive.uncertainties().iter().enumerate() {
                let mean = &p[i * CLASSES..][..CLASSES];
                assert!(u.entropy <= (CLASSES as f64).ln() && u.expected_entropy >= 0.0);
                let divergence = (0..draws)
                    .map(|s| {
                        let row = draw(s, 1.5)[i * CLASSES..][..CLASSES].to_vec();
                        row.iter().zip(mean).map(|(l, m)| l.exp() * (l - m.ln())).sum::<f64>()
                    })
                    .sum::<f64>()
                    / draws as f64;
                assert!((u.mutual_information - divergence).abs() < 1e-13, "{draws} draws");
            }
        }
    }

    #[test]
    fn draws_that_agree_leave_no_mutual_information_and_draws_that_differ_do() {
        let mut same = Predictive::new(ROWS, CLASSES).unwrap();
        for _ in 0..50 {
            same.push(&draw(1, 2.0)).unwrap();
        }
        for u in same.uncertainties() {
            assert!(u.mutual_information < 1e-14 && u.deviation < 1e-7 && u.disagreement == 0.0);
        }
        for u in of(0..50).uncertainties() {
            assert!(u.mutual_information > 0.1 && u.deviation > 0.1 && u.disagreement > 0.1);
        }
    }

    #[test]
    fn chains_merge_as_if_one_had_followed_the_other() {
        let whole = of(0..30);
        let (mut first, second) = (of(0..11), of(11..30));
        first.merge(&second).unwrap();
        let (a, b) = (whole.state(), first.state());
        assert_eq!((a.draws, &a.votes), (b.draws, &b.votes));
        for (a, b) in [
            (&a.probabilities, &b.probabilities),
            (&a.log_probabilities, &b.log_probabilities),
            (&a.entropy, &b.entropy),
            (&a.squares, &b.squares),
        ] {
            assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-13));
        }
        // Nothing, from either side.
        let mut empty = of([]);
        empty.merge(&whole).unwrap();
        assert_eq!(empty.state(), whole.state());
        empty.merge(&of([])).unwrap();
        assert_eq!(empty.state(), whole.state());
        assert!(empty.merge(&Predictive::new(1, 2).unwrap()).is_err());
    }

    #[test]
    fn a_saved_one_goes_on_bit_for_bit() {
        let whole = of(0..9);
        let mut resumed = of([]);
        let text = serde_json::to_string(&of(0..4).state()).unwrap();
        resumed.restore(serde_json::from_str(&text).unwrap()).unwrap();
        for s in 4..9 {
            resumed.push(&draw(s, 1.5)).unwrap();
        }
        assert_eq!(whole.state(), resumed.state());
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_changes_nothing() {
        let mut predictive = of(0..2);
        let before = predictive.state();
        assert!(predictive.push(&[0.0f64; ROWS * CLASSES]).is_err());
        assert!(predictive.push_probabilities(&[1.0f64]).is_err());
        let with = |change: &dyn Fn(&mut PredictiveState)| {
            let mut state = before.clone();
            change(&mut state);
            state
        };
        for state in [
            with(&|s| s.draws = 0),
            with(&|s| s.entropy.clear()),
            with(&|s| s.squares[0] = -1.0),
            with(&|s| s.votes[0] = f64::NAN),
            with(&|s| s.votes[0] += 1.0),
            with(&|s| s.probabilities.clear()),
        ] {
            assert!(predictive.restore(state).is_err());
        }
        assert_eq!(predictive.state(), before);
        assert!(Predictive::new(0, 2).is_err());
    }
}
