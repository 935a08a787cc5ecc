//! Numbers: the predictive law of a regression.

use super::special::{student_cdf, student_log_peak};
use crate::error::{Error, Result};
use santa::stats::normal_cdf;

/// What a draw says of the noise around its predictions.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Noise {
    /// Normal, with this standard deviation.
    Gaussian {
        /// Positive.
        sd: f64,
    },
    /// Student's, for data with outliers.
    Student {
        /// Positive; the standard deviation is $\sqrt{\nu / (\nu - 2)}$ times this.
        scale: f64,
        /// $\nu$, positive. The variance is infinite up to 2; up to 1 there is no mean.
        degrees_of_freedom: f64,
    },
}

impl Noise {
    fn check(&self) -> Result<()> {
        let (scale, nu) = match *self {
            Noise::Gaussian { sd } => (("noise.sd", sd), 1.0),
            Noise::Student { scale, degrees_of_freedom } => {
                (("noise.scale", scale), degrees_of_freedom)
            }
        };
        for (name, value) in [scale, ("noise.degrees_of_freedom", nu)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "it must be positive and finite"));
            }
        }
        Ok(())
    }

    fn scale(&self) -> f64 {
        match *self {
            Noise::Gaussian { sd } => sd,
            Noise::Student { scale, .. } => scale,
        }
    }

    fn variance(&self) -> f64 {
        match *self {
            Noise::Gaussian { sd } => sd * sd,
            Noise::Student { scale, degrees_of_freedom: nu } if nu > 2.0 => {
                scale * scale * nu / (nu - 2.0)
            }
            Noise::Student { .. } => f64::INFINITY,
        }
    }

    /// The logarithm of the density at 0.
    fn log_peak(&self) -> f64 {
        match *self {
            Noise::Gaussian { sd } => -0.5 * std::f64::consts::TAU.ln() - sd.ln(),
            Noise::Student { scale, degrees_of_freedom } => {
                student_log_peak(degrees_of_freedom) - scale.ln()
            }
        }
    }

    /// How far the log density lies below its peak.
    fn log_fall(&self, residual: f64) -> f64 {
        let z = residual / self.scale();
        match *self {
            Noise::Gaussian { .. } => 0.5 * z * z,
            Noise::Student { degrees_of_freedom: nu, .. } => {
                0.5 * (nu + 1.0) * (z * z / nu).ln_1p()
            }
        }
    }

    fn cdf(&self, residual: f64) -> f64 {
        let z = residual / self.scale();
        match *self {
            Noise::Gaussian { .. } => normal_cdf(z),
            Noise::Student { degrees_of_freedom, .. } => student_cdf(z, degrees_of_freedom),
        }
    }
}

/// A mean of exponentials whose largest term may be out of range: $\log \sum_s e^{x_s}$.
#[derive(Clone, Copy, Debug)]
struct LogSum {
    largest: f64,
    /// Of the terms over the largest.
    sum: f64,
}

impl LogSum {
    const EMPTY: LogSum = LogSum { largest: f64::NEG_INFINITY, sum: 0.0 };

    fn push(&mut self, x: f64) {
        if x > self.largest {
            self.sum = self.sum * (self.largest - x).exp() + 1.0;
            self.largest = x;
        } else if x > f64::NEG_INFINITY {
            self.sum += (x - self.largest).exp();
        }
    }

    fn log(&self) -> f64 {
        self.largest + self.sum.ln()
    }
}

/// The posterior predictive law of some numbers, from draws that come one at a time.
///
/// Given a draw $s$ of $S$, the number $y_i$ is $\mu_{is}$ plus noise; the predictive law is the
/// mixture of these. Its mean and variance are exact,
///
/// $$ \mathrm{E}\ y_i = \frac1S \sum_s \mu_{is}, \qquad
///    \mathrm{Var}\ y_i = \frac1S \sum_s \sigma_s^2 + \mathrm{Var}_s\ \mu_{is}, $$
///
/// as are the log density and the PIT value of numbers that were observed. Quantiles are those of
/// the mixture of the draws that are kept: all, or, from `most` draws on, every second, fourth, ... of
/// them.
///
/// ```
/// use santa_posterior::predict::{Noise, RegressionPredictive};
///
/// let mut predictive = RegressionPredictive::new(1, 1_000)?.observing(&[0.3])?;
/// for mean in [-0.1, 0.0, 0.1] {
///     predictive.push(&[mean], Noise::Gaussian { sd: 1.0 })?;
/// }
/// let (lower, upper) = predictive.intervals(0.95)?[0];
/// assert!((upper - 1.966).abs() < 1e-3 && (upper + lower).abs() < 1e-9);
/// # Ok::<(), santa_posterior::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RegressionPredictive {
    draws: u64,
    mean: Vec<f64>,
    /// Sums over the draws of squared distances from the mean.
    squares: Vec<f64>,
    /// Mean over the draws.
    noise_variance: f64,
    observed: Vec<f64>,
    log_density: Vec<LogSum>,
    pit: Vec<f64>,
    /// Means and noise of every `stride`-th draw.
    kept: Vec<(Vec<f64>, Noise)>,
    most: usize,
    stride: u64,
}

impl RegressionPredictive {
    /// No draws yet, for `rows` numbers, keeping at most `most` draws for quantiles.
    pub fn new(rows: usize, most: usize) -> Result<Self> {
        if rows == 0 {
            return Err(Error::setting("rows", rows, "there must be something to predict"));
        }
        if most == 0 {
            return Err(Error::setting("most", most, "quantiles need at least one draw"));
        }
        Ok(RegressionPredictive {
            draws: 0,
            mean: vec![0.0; rows],
            squares: vec![0.0; rows],
            noise_variance: 0.0,
            observed: Vec::new(),
            log_density: Vec::new(),
            pit: Vec::new(),
            kept: Vec::new(),
            most,
            stride: 1,
        })
    }

    /// The same, to be compared with what was observed. Before the first draw.
    pub fn observing(mut self, observed: &[f64]) -> Result<Self> {
        self.check_row("observed numbers", observed)?;
        if self.draws > 0 {
            return Err(Error::data("draws have gone by; give what was observed before them"));
        }
        self.observed = observed.to_vec();
        self.log_density = vec![LogSum::EMPTY; observed.len()];
        self.pit = vec![0.0; observed.len()];
        Ok(self)
    }

    fn check_row(&self, what: &str, row: &[f64]) -> Result<()> {
        if row.len() != self.mean.len() {
            let (found, expected) = (row.len(), self.mean.len());
            return Err(Error::data(format!("{found} {what} where {expected} are predicted")));
        }
        match row.iter().position(|x| !x.is_finite()) {
            Some(i) => Err(Error::data(format!("number {i} of the {what} is {}", row[i]))),
            None => Ok(()),
        }
    }

    /// Takes in a draw: what it expects, and its noise.
    pub fn push(&mut self, means: &[f64], noise: Noise) -> Result<()> {
        self.check_row("means", means)?;
        noise.check()?;
        if self.draws.is_multiple_of(self.stride) {
            if self.kept.len() == self.most {
                // Every second one, from the first.
                let mut place = 0;
                self.kept.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.stride *= 2;
            }
            if self.draws.is_multiple_of(self.stride) {
                self.kept.push((means.to_vec(), noise));
            }
        }
        self.draws += 1;
        let draws = self.draws as f64;
        // An infinite variance stays.
        let share = 1.0 / draws;
        self.noise_variance = (1.0 - share) * self.noise_variance + share * noise.variance();
        for (i, mu) in means.iter().enumerate() {
            let apart = mu - self.mean[i];
            self.mean[i] += apart * share;
            self.squares[i] += apart * (mu - self.mean[i]);
        }
        let peak = noise.log_peak();
        for (i, y) in self.observed.iter().enumerate() {
            let residual = y - means[i];
            self.log_density[i].push(peak - noise.log_fall(residual));
            self.pit[i] += (noise.cdf(residual) - self.pit[i]) * share;
        }
        Ok(())
    }

    /// Draws taken in.
    pub fn draws(&self) -> u64 {
        self.draws
    }
    /// The predictive means; zeros before the first draw.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }
    /// The predictive standard deviations, noise included.
    pub fn deviation(&self) -> Vec<f64> {
        let draws = self.draws.max(1) as f64;
        self.squares.iter().map(|m2| (self.noise_variance + m2 / draws).sqrt()).collect()
    }

    /// The value below which a number lies with probability `level`, for each number.
    pub fn quantiles(&self, level: f64) -> Result<Vec<f64>> {
        check_level(level)?;
        self.some_draws()?;
        Ok((0..self.mean.len()).map(|row| self.quantile(row, level)).collect())
    }

    /// The central intervals that hold a number with probability `level`, one for each number.
    pub fn intervals(&self, level: f64) -> Result<Vec<(f64, f64)>> {
        check_level(level)?;
        let outside = 0.5 * (1.0 - level);
        let lower = self.quantiles(outside)?;
        Ok(lower.into_iter().zip(self.quantiles(1.0 - outside)?).collect())
    }

    fn quantile(&self, row: usize, level: f64) -> f64 {
        /// Relative to the number's size or its noise, whichever is larger.
        const PRECISION: f64 = 1e-12;
        let cdf = |y: f64| {
            let sum: f64 = self.kept.iter().map(|(means, noise)| noise.cdf(y - means[row])).sum();
            sum / self.kept.len() as f64
        };
        let scale = self.kept.iter().map(|(_, noise)| noise.scale()).fold(0.0, f64::max);
        let (mut lower, mut upper) = (self.mean[row], self.mean[row]);
        let mut reach = scale;
        while cdf(lower) > level && lower.is_finite() {
            (lower, reach) = (lower - reach, 2.0 * reach);
        }
        reach = scale;
        while cdf(upper) < level && upper.is_finite() {
            (upper, reach) = (upper + reach, 2.0 * reach);
        }
        while upper - lower > PRECISION * scale.max(lower.abs()).max(upper.abs()) {
            let middle = lower + 0.5 * (upper - lower);
            if cdf(middle) < level { lower = middle } else { upper = middle }
        }
        lower + 0.5 * (upper - lower)
    }

    /// The mean logarithm of the predictive density of what was observed,
    ///
    /// $$ \frac1n \sum_i \log \frac1S \sum_s p(y_i \mid \mu_{is}, \sigma_s). $$
    pub fn mean_log_density(&self) -> Result<f64> {
        self.some_observed()?;
        let sum: f64 = self.log_density.iter().map(LogSum::log).sum();
        Ok(sum / self.observed.len() as f64 - (self.draws as f64).ln())
    }

    /// The probability integral transform of what was observed: the predictive probability of a
    /// smaller number. Uniform between 0 and 1 if the predictions are honest (Dawid, 1984); heaped at
    /// both ends if they are too sure of themselves, in the middle if they are not sure enough.
    pub fn pit(&self) -> Result<&[f64]> {
        self.some_observed()?;
        Ok(&self.pit)
    }

    fn some_draws(&self) -> Result<()> {
        match self.draws {
            0 => Err(Error::data("there are no draws yet; push one")),
            _ => Ok(()),
        }
    }

    fn some_observed(&self) -> Result<()> {
        if self.observed.is_empty() {
            return Err(Error::data("nothing was observed; hand it to `observing`"));
        }
        self.some_draws()
    }
}

fn check_level(level: f64) -> Result<()> {
    match level > 0.0 && level < 1.0 {
        true => Ok(()),
        false => Err(Error::setting("level", level, "it must lie between 0 and 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    const T3: Noise = Noise::Student { scale: 1.0, degrees_of_freedom: 3.0 };

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} {b}");
    }

    #[test]
    fn one_draw_is_its_own_law() {
        let mut one = RegressionPredictive::new(1, 5).unwrap().observing(&[4.0]).unwrap();
        one.push(&[2.0], Noise::Gaussian { sd: 2.0 }).unwrap();
        assert_eq!((one.mean(), one.deviation()), (&[2.0][..], vec![2.0]));
        // The textbook's quantile of the normal law.
        close(one.quantiles(0.975).unwrap()[0], 2.0 + 2.0 * 1.959_963_984_540_054, 1e-10);
        close(one.quantiles(0.5).unwrap()[0], 2.0, 1e-11);
        let density = -0.5 - 2.0f64.ln() - 0.5 * std::f64::consts::TAU.ln();
        close(one.mean_log_density().unwrap(), density, 1e-14);
        close(one.pit().unwrap()[0], normal_cdf(1.0), 1e-15);
        let mut student = RegressionPredictive::new(1, 5).unwrap();
        student.push(&[0.0], T3).unwrap();
        close(student.deviation()[0], 3.0f64.sqrt(), 1e-15);
        // The textbook's quantile of Student's law with three degrees of freedom.
        close(student.quantiles(0.025).unwrap()[0], -3.182_446_305_284_263, 1e-9);
    }

    #[test]
    fn two_draws_are_a_mixture() {
        let mut two = RegressionPredictive::new(1, 5).unwrap().observing(&[3.0]).unwrap();
        two.push(&[-3.0], Noise::Gaussian { sd: 1.0 }).unwrap();
        two.push(&[3.0], T3).unwrap();
        close(two.deviation()[0], (9.0f64 + 2.0).sqrt(), 1e-14);
        let densities = [-18.0 - 0.5 * std::f64::consts::TAU.ln(), student_log_peak(3.0)];
        let mean = 0.5 * (densities[0].exp() + densities[1].exp());
        close(two.mean_log_density().unwrap(), mean.ln(), 1e-14);
        close(two.pit().unwrap()[0], 0.5 * (normal_cdf(6.0) + 0.5), 1e-14);
        for (lower, upper) in two.intervals(0.9).unwrap() {
            let inside = |y: f64| 0.5 * (normal_cdf(y + 3.0) + student_cdf(y - 3.0, 3.0));
            close(inside(lower), 0.05, 1e-10);
            close(inside(upper), 0.95, 1e-10);
        }
    }

    #[test]
    fn densities_that_no_number_can_hold_are_averaged_by_their_logarithms() {
        let mut far = RegressionPredictive::new(1, 5).unwrap().observing(&[1e3]).unwrap();
        for mean in [0.0, 1.0] {
            far.push(&[mean], Noise::Gaussian { sd: 1.0 }).unwrap();
        }
        let log = |mean: f64| -0.5 * (1e3 - mean) * (1e3 - mean) - 0.5 * std::f64::consts::TAU.ln();
        let expected = log(1.0) + (log(0.0) - log(1.0)).exp().ln_1p() - 2.0f64.ln();
        close(far.mean_log_density().unwrap(), expected, 1e-9);
        let heavy = Noise::Student { scale: 1.0, degrees_of_freedom: 1.5 };
        far.push(&[0.0], heavy).unwrap();
        assert_eq!(far.deviation(), [f64::INFINITY]);
        far.push(&[0.0], heavy).unwrap();
        assert_eq!(far.deviation(), [f64::INFINITY]);
    }

    #[test]
    fn pit_values_of_honest_predictions_are_uniform_and_of_boasting_ones_are_not() {
        const ROWS: usize = 1_000;
        let stream = Stream::new(8, 0, Purpose::Custom(5));
        let (mut x, mut truth) = (vec![0.0f64; ROWS], vec![0.0f64; ROWS]);
        stream.normals(0, 0, 0, &mut x);
        stream.normals(0, 1, 0, &mut truth);
        // A posterior N(x, 0.6^2) of the mean and noise of 0.8: y = x + N(0, 1).
        let observed: Vec<f64> = x.iter().zip(&truth).map(|(x, z)| x + z).collect();
        let distance = |sd: f64| {
            let mut predictive =
                RegressionPredictive::new(ROWS, 10).unwrap().observing(&observed).unwrap();
            let mut shift = vec![0.0f64; ROWS];
            for s in 0..100 {
                stream.normals(1 + s, 2, 0, &mut shift);
                let means: Vec<f64> =
                    x.iter().zip(&shift).map(|(x, z)| x + 0.75 * sd * z).collect();
                predictive.push(&means, Noise::Gaussian { sd }).unwrap();
            }
            let mut pit = predictive.pit().unwrap().to_vec();
            pit.sort_by(f64::total_cmp);
            let place = |i: usize| (i as f64 + 0.5) / ROWS as f64;
            (0..ROWS).map(|i| (pit[i] - place(i)).abs()).fold(0.0, f64::max)
        };
        // Kolmogorov's bound: 2 exp(-2 * 2.5^2) = 7e-6, with room for 100 draws.
        let bound = 2.5 / (ROWS as f64).sqrt();
        assert!(distance(0.8) < bound);
        assert!(distance(0.4) > 2.0 * bound);
        assert!(distance(1.6) > 2.0 * bound);
    }

    #[test]
    fn draws_beyond_the_bound_are_thinned_evenly() {
        let mut many = RegressionPredictive::new(1, 8).unwrap();
        for s in 0..100 {
            many.push(&[f64::from(s)], Noise::Gaussian { sd: 0.1 }).unwrap();
            assert!(many.kept.len() <= 8);
        }
        let kept: Vec<f64> = many.kept.iter().map(|(means, _)| means[0]).collect();
        assert_eq!(kept, [0.0, 16.0, 32.0, 48.0, 64.0, 80.0, 96.0]);
        close(many.mean()[0], 49.5, 1e-12);
        close(many.quantiles(0.5).unwrap()[0], 48.0, 1e-9);
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_changes_nothing() {
        assert!(RegressionPredictive::new(0, 1).is_err());
        assert!(RegressionPredictive::new(1, 0).is_err());
        let mut two = RegressionPredictive::new(2, 1).unwrap();
        assert!(two.clone().observing(&[1.0]).is_err());
        assert!(two.clone().observing(&[1.0, f64::NAN]).is_err());
        assert!(two.quantiles(0.5).is_err());
        let good = Noise::Gaussian { sd: 1.0 };
        assert!(two.push(&[1.0], good).is_err());
        assert!(two.push(&[1.0, f64::INFINITY], good).is_err());
        for noise in [
            Noise::Gaussian { sd: 0.0 },
            Noise::Gaussian { sd: f64::NAN },
            Noise::Student { scale: 1.0, degrees_of_freedom: -1.0 },
        ] {
            assert!(two.push(&[1.0, 2.0], noise).is_err());
        }
        assert_eq!(two.draws(), 0);
        two.push(&[1.0, 2.0], good).unwrap();
        assert!(two.mean_log_density().unwrap_err().to_string().contains("observing"));
        assert!(two.pit().is_err());
        for level in [0.0, 1.0, f64::NAN] {
            assert!(two.quantiles(level).is_err());
            assert!(two.intervals(level).is_err());
        }
        assert!(two.observing(&[1.0, 2.0]).is_err());
    }
}
