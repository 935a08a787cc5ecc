//! The modes of a robust regression: Student's t lets several lines fit the same data.

use super::cholesky::{factor, solve};
use super::family::Family;
use super::laplace::Laplace;
use super::lines::Arithmetic;
use super::potential::Regression;
use crate::error::Result;
use santa::noise::{Purpose, Stream};

/// Starts of Newton's method besides the usual one.
const MOST_STARTS: u64 = 32;
/// Multiplications for all of them, some seconds; with more data or coefficients there are fewer starts.
const MOST_WORK: u64 = 4_000_000_000;
/// Passes over the data that a start takes, about: Newton's steps, and halved ones.
const PASSES: u64 = 20;
/// Coefficients beyond which a few rows are sure to mix the lines.
const MOST_COLUMNS: usize = 12;
/// Residuals that say how wide the noise around a line is.
const RESIDUALS: usize = 1_000;

/// Numbers the stream of this module, which has a seed of its own: modes do not depend on the chains'.
const PURPOSE: Purpose = Purpose::Custom(62);
const SEED: u64 = 0;

impl<X: Arithmetic> Regression<X> {
    /// The modes of the posterior that can be found, the heaviest first, by
    /// [its Gaussian](Laplace::log_mass).
    ///
    /// With Gaussian noise and in logistic regression there is one. Student's t forgives large residuals,
    /// so that a second line through some of the data may be a mode of its own, and chains that begin at
    /// one never see the other. Newton's method is started from lines through as few random rows as
    /// determine one, up to 32 times and for up to 12 coefficients: what is found is there, and what
    /// has few rows may be missed.
    pub fn modes(&self) -> Result<Vec<Laplace>> {
        let first = self.laplace();
        if !matches!(self.family(), Family::StudentT { .. }) {
            return first.map(|mode| vec![mode]);
        }
        let mut modes: Vec<Laplace> = first.as_ref().ok().cloned().into_iter().collect();
        for start in 0..self.starts() {
            // A start that leads nowhere is none.
            let Some(theta) = self.line_through_few(start) else { continue };
            let Ok(found) = self.laplace_from(theta) else { continue };
            if !modes.iter().any(|mode| mode.is_at(&found.mode)) {
                modes.push(found);
            }
        }
        modes.sort_by(|a, b| b.log_mass().total_cmp(&a.log_mass()));
        match modes.is_empty() {
            true => first.map(|mode| vec![mode]),
            false => Ok(modes),
        }
    }

    /// How many starts there is time for.
    fn starts(&self) -> u64 {
        let columns = self.data().columns;
        if columns > MOST_COLUMNS {
            return 0;
        }
        let pass = self.target().data_size().get() * (columns * columns) as u64;
        MOST_STARTS.min(MOST_WORK / (PASSES * pass.max(1)))
    }

    /// Parameters of a line through as many random rows as it has coefficients.
    fn line_through_few(&self, start: u64) -> Option<Vec<f64>> {
        /// Keeps rows that are nearly alike from making steep lines.
        const RIDGE: f64 = 1e-3;
        let data = self.data();
        let (columns, n) = (data.columns, data.response.len());
        let stream = Stream::new(SEED, 0, PURPOSE);
        let (mut square, mut line) = (vec![0.0; columns * columns], vec![0.0; columns]);
        for place in 0..columns as u32 {
            let row = stream.below(start, 0, place, n as u64) as usize;
            let (x, y) = (self.row(row), data.response[row].to_f64());
            for i in 0..columns {
                line[i] += x[i] * y;
                for j in 0..=i {
                    square[i * columns + j] += x[i] * x[j];
                }
            }
        }
        (0..columns).for_each(|i| square[i * columns + i] += RIDGE);
        let lower = factor(&square, columns)?;
        solve(&lower, columns, &mut line);
        let mut theta = line;
        if self.family().has_unknown_sigma() {
            theta.push(self.noise_around(&theta));
        }
        Some(theta)
    }

    /// The logarithm of the noise that the residuals around a line suggest, by their lower quartile: half
    /// of the rows may belong to another line.
    fn noise_around(&self, line: &[f64]) -> f64 {
        /// The lower quartile of the absolute value of a standard normal.
        const QUARTILE: f64 = 0.3186;
        const LEAST: f64 = 1e-2;
        let n = self.data().response.len();
        let mut residuals: Vec<f64> = (0..n)
            .step_by(n.div_ceil(RESIDUALS))
            .map(|row| {
                let fit: f64 = self.row(row).iter().zip(line).map(|(x, c)| x * c).sum();
                (self.data().response[row].to_f64() - fit).abs()
            })
            .collect();
        residuals.sort_by(f64::total_cmp);
        (residuals[residuals.len() / 4] / QUARTILE).max(LEAST).ln()
    }

    fn row(&self, row: usize) -> Vec<f64> {
        let lines = self.data().features.row(row);
        let numbers = lines.iter().flat_map(|line| X::numbers(line));
        numbers.take(self.data().columns).map(|x| x.to_f64()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Design, Scaling, Sigma};
    use super::*;
    use santa::Prior;

    /// Two lines through the origin, of slopes 1 and -1, with so many rows each.
    fn crossing(up: usize, down: usize, family: Family) -> Regression {
        let mut x = vec![0.0; up + down];
        let mut noise = x.clone();
        let stream = Stream::new(3, 0, PURPOSE);
        stream.normals(0, 1, 0, &mut x);
        stream.normals(0, 2, 0, &mut noise);
        let slope = |i| if i < up { 1.0 } else { -1.0 };
        let y: Vec<f64> = (0..up + down).map(|i| slope(i) * x[i] + 0.1 * noise[i]).collect();
        let design = Design::new(["x"], &x, true, Scaling::Original).unwrap();
        Regression::new(design, &y, family, Prior::gaussian(0.1)).unwrap()
    }

    fn heavy_tails() -> Family {
        Family::StudentT { degrees: 1.0, sigma: Sigma::default() }
    }

    #[test]
    fn both_lines_of_a_mixture_are_found_and_the_larger_is_the_heavier() {
        // Noise of unknown width would widen to take the smaller line in.
        let family = Family::StudentT { degrees: 1.0, sigma: Sigma::Fixed { value: 0.1 } };
        for (up, down) in [(30, 20), (20, 30)] {
            let modes = crossing(up, down, family).modes().unwrap();
            assert_eq!(modes.len(), 2, "{modes:?}");
            let slopes = [modes[0].mode[1], modes[1].mode[1]];
            let heavier = if up > down { 1.0 } else { -1.0 };
            assert!((slopes[0] - heavier).abs() < 0.2, "{slopes:?}");
            assert!((slopes[1] + heavier).abs() < 0.2, "{slopes:?}");
            assert!(modes[0].log_mass() > modes[1].log_mass());
        }
    }

    #[test]
    fn one_line_has_one_mode_and_so_has_gaussian_noise() {
        let one = crossing(50, 0, heavy_tails());
        assert_eq!(one.modes().unwrap(), [one.laplace().unwrap()]);
        let gaussian = crossing(30, 20, Family::linear());
        assert_eq!(gaussian.modes().unwrap(), [gaussian.laplace().unwrap()]);
    }

    #[test]
    fn a_saddle_where_newtons_method_starts_is_left_for_the_modes_beside_it() {
        // Every point with its mirror image: a slope of zero is a saddle.
        let x: Vec<f64> = (0..40).map(|i| f64::from(i / 2) - 9.5).collect();
        let up = |i: usize| x[i] + if i % 4 < 2 { 1.0 } else { -1.0 };
        let y: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { up(i) } else { -up(i) }).collect();
        let design = Design::new(["x"], &x, true, Scaling::Original).unwrap();
        let model = Regression::<f64>::new(design, &y, heavy_tails(), Prior::gaussian(0.1));
        let modes = model.unwrap().modes().unwrap();
        assert_eq!(modes.len(), 2, "{modes:?}");
        assert!((modes[0].mode[1] + modes[1].mode[1]).abs() < 1e-6, "{modes:?}");
        assert!((modes[0].log_mass() - modes[1].log_mass()).abs() < 1e-6, "{modes:?}");
    }
}
