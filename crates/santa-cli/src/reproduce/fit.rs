//! Slopes in doubly logarithmic figures, with their uncertainty.

use serde::Serialize;

/// A measured point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// What was varied.
    pub x: f64,
    /// What was measured, with its sign; none where the run diverged.
    pub y: Option<f64>,
    /// Of the measurement.
    pub standard_error: f64,
    /// Whether the slope is fitted to it.
    pub fitted: bool,
}

/// A slope in logarithms, $d \ln |y| / d \ln x$.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slope {
    /// The slope.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
}

impl std::fmt::Display for Slope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let minus = if self.value < 0.0 { "\u{2212}" } else { "" };
        write!(f, "{minus}{:.2} ± {:.2}", self.value.abs(), self.standard_error)
    }
}

/// The slope through independent points that are to be fitted, each weighed by its relative error. If
/// they scatter more than their errors say, the error of the slope says so.
pub fn weighted(points: &[Point]) -> Option<Slope> {
    let logs: Vec<_> = points
        .iter()
        .filter(|point| point.fitted && point.standard_error > 0.0)
        .filter_map(|point| {
            let y = point.y?.abs();
            let relative = point.standard_error / y;
            Some((point.x.ln(), y.ln(), 1.0 / (relative * relative)))
        })
        .collect();
    let (slope, misfit, spread) = line(&logs)?;
    let freedom = logs.len() as f64 - 2.0;
    let excess = if freedom > 0.0 { (misfit / freedom).max(1.0) } else { 1.0 };
    Some(Slope { value: slope, standard_error: (excess / spread).sqrt() })
}

/// The slope of the means of `parts` over `x`: each part is a curve from chains or seeds of its own,
/// and the error comes from leaving out one part after the other (the jackknife). Points along a
/// curve may depend on each other.
pub fn jackknife(x: &[f64], parts: &[Vec<f64>]) -> Option<Slope> {
    let without = |left_out: Option<usize>| {
        let kept = || parts.iter().enumerate().filter(|(i, _)| Some(*i) != left_out);
        let mean = |k: usize| kept().map(|(_, part)| part[k]).sum::<f64>() / kept().count() as f64;
        let point = |(k, x): (usize, &f64)| (x.ln(), mean(k).abs().ln(), 1.0);
        line(&x.iter().enumerate().map(point).collect::<Vec<_>>()).map(|(slope, ..)| slope)
    };
    let value = without(None)?;
    let n = parts.len() as f64;
    let left: Vec<f64> = (0..parts.len()).filter_map(|i| without(Some(i))).collect();
    let centre = left.iter().sum::<f64>() / n;
    let squares: f64 = left.iter().map(|slope| (slope - centre).powi(2)).sum();
    Some(Slope { value, standard_error: ((n - 1.0) / n * squares).sqrt() })
}

/// A line through (x, y, weight): its slope, the weighted sum of squares that it leaves, and that of x
/// about its mean.
fn line(points: &[(f64, f64, f64)]) -> Option<(f64, f64, f64)> {
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|p| p.2 * of(p.0, p.1)).sum::<f64>();
    let total = sum(&|_, _| 1.0);
    let (x, y) = (sum(&|x, _| x) / total, sum(&|_, y| y) / total);
    let spread = sum(&|a, _| (a - x) * (a - x));
    let slope = sum(&|a, b| (a - x) * (b - y)) / spread;
    let misfit = sum(&|a, b| (b - y - slope * (a - x)).powi(2));
    (points.len() > 1 && slope.is_finite()).then_some((slope, misfit, spread))
}

/// `count` whole numbers from `from` to `to`, evenly spaced in their logarithm; fewer where they
/// coincide.
pub fn log_spaced(from: u64, to: u64, count: usize) -> Vec<u64> {
    let (low, high) = ((from as f64).ln(), (to as f64).ln());
    let at = |i: usize| (low + (high - low) * i as f64 / (count.max(2) - 1) as f64).exp().round();
    let mut all: Vec<u64> = (0..count.max(2)).map(|i| at(i) as u64).collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    /// y = 3 x^2, each value off by a tenth of itself times a normal deviate.
    fn square_law(seed: u64) -> (Vec<f64>, Vec<f64>) {
        let mut z = [0.0; 12];
        Stream::new(seed, 0, Purpose::Data).normals(0, 0, 0, &mut z);
        let x: Vec<f64> = (1..=12).map(f64::from).collect();
        let y = x.iter().zip(z).map(|(x, z)| 3.0 * x * x * (1.0 + 0.1 * z)).collect();
        (x, y)
    }

    #[test]
    fn the_slope_of_a_square_law_is_two_within_its_error() {
        let (x, y) = square_law(1);
        let point = |(x, y): (&f64, &f64)| Point {
            x: *x,
            y: Some(-*y), // a bias may be negative
            standard_error: 0.1 * y,
            fitted: true,
        };
        let mut points: Vec<Point> = x.iter().zip(&y).map(point).collect();
        // Points that are not to be fitted do not count.
        points.push(Point { x: 100.0, y: Some(1.0), standard_error: 1e-9, fitted: false });
        points.push(Point { x: 200.0, y: None, standard_error: 0.0, fitted: true });
        let slope = weighted(&points).unwrap();
        assert!((slope.value - 2.0).abs() < 3.0 * slope.standard_error, "{slope}");
        assert!((0.01..0.1).contains(&slope.standard_error), "{slope}");
        // Negative control.
        assert!((slope.value - 1.0).abs() > 5.0 * slope.standard_error, "{slope}");
        assert_eq!(weighted(&points[..1]), None);
    }

    #[test]
    fn the_jackknife_agrees_with_the_spread_of_the_parts() {
        let x = square_law(0).0;
        let parts: Vec<Vec<f64>> = (0..20).map(|seed| square_law(seed).1).collect();
        let slope = jackknife(&x, &parts).unwrap();
        assert!((slope.value - 2.0).abs() < 4.0 * slope.standard_error, "{slope}");
        assert!((0.003..0.03).contains(&slope.standard_error), "{slope}");
    }

    #[test]
    fn lengths_are_evenly_spaced_in_their_logarithm() {
        assert_eq!(log_spaced(10, 10_000, 4), [10, 100, 1_000, 10_000]);
        assert_eq!(log_spaced(1, 3, 9), [1, 2, 3]);
    }
}
