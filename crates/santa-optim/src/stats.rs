//! Small statistical helpers: the normal law, running moments, quadrature.

/// Distribution function of the standard normal, to about 1e-15, by its series or continued fraction.
pub fn normal_cdf(x: f64) -> f64 {
    const SQRT_TAU: f64 = 2.506_628_274_631_000_5;
    let density = (-0.5 * x * x).exp() / SQRT_TAU;
    let z = x.abs();
    /// Where the series gives way to the continued fraction.
    const SWITCH: f64 = 3.0;
    let upper = if z < SWITCH {
        let (mut term, mut sum, mut k) = (z, z, 1.0);
        while term > 1e-17 * sum {
            k += 2.0;
            term *= z * z / k;
            sum += term;
        }
        0.5 - density * sum
    } else {
        const DEPTH: u32 = 200;
        let tail = (1..=DEPTH).rev().fold(z, |tail, k| z + f64::from(k) / tail);
        density / tail
    };
    if x > 0.0 { 1.0 - upper } else { upper }
}

/// Mean and variance of a stream of numbers (Welford).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    n: u64,
    mean: f64,
    m2: f64,
}

impl Moments {
    /// Takes a number in.
    pub fn push(&mut self, x: f64) {
        self.n += 1;
        let delta = x - self.mean;
        self.mean += delta / self.n as f64;
        self.m2 += delta * (x - self.mean);
    }
    /// How many numbers.
    pub fn count(&self) -> u64 {
        self.n
    }
    /// Their mean; 0 without any.
    pub fn mean(&self) -> f64 {
        self.mean
    }
    /// Their variance, with n - 1; NaN below two numbers.
    pub fn variance(&self) -> f64 {
        if self.n < 2 { f64::NAN } else { self.m2 / (self.n - 1) as f64 }
    }
    /// Standard error of the mean of independent numbers.
    pub fn standard_error(&self) -> f64 {
        (self.variance() / self.n as f64).sqrt()
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(numbers: I) -> Self {
        let mut moments = Moments::default();
        numbers.into_iter().for_each(|x| moments.push(x));
        moments
    }
}

/// The expectation of `of` under the density proportional to `exp(-energy)` on an interval, by the
/// trapezoidal rule, which converges faster than any power where the density vanishes at both ends.
pub fn expectation(
    interval: (f64, f64),
    energy: impl Fn(f64) -> f64,
    of: impl Fn(f64) -> f64,
) -> f64 {
    const POINTS: usize = 40_000;
    let (a, b) = interval;
    let x = |i: usize| a + (b - a) * i as f64 / POINTS as f64;
    let lowest = (0..=POINTS).map(|i| energy(x(i))).fold(f64::INFINITY, f64::min);
    let (mut weight, mut sum) = (0.0, 0.0);
    for i in 0..=POINTS {
        let w = (lowest - energy(x(i))).exp();
        weight += w;
        sum += w * of(x(i));
    }
    sum / weight
}

/// Lower end of the 95 % Wilson interval for a share of successes (two-sided 95 %).
pub fn wilson_lower(successes: u64, trials: u64) -> f64 {
    const Z: f64 = 1.959_963_984_540_054;
    let n = trials as f64;
    let p = successes as f64 / n;
    let centre = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    (centre - half) / (1.0 + Z * Z / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_law_has_its_known_values() {
        for (x, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (-1.959_963_984_540_054, 0.025),
            (-5.0, 2.866_515_718_791_939e-7),
            (3.5, 0.999_767_370_920_964_5),
        ] {
            assert!((normal_cdf(x) - p).abs() < 1e-13, "{x}: {}", normal_cdf(x));
        }
    }

    #[test]
    fn quadrature_knows_the_normal_moments() {
        let energy = |x: f64| 0.5 * (x - 1.0).powi(2) / 4.0;
        assert!((expectation((-30.0, 32.0), energy, |x| x) - 1.0).abs() < 1e-10);
        assert!((expectation((-30.0, 32.0), energy, |x| x * x) - 5.0).abs() < 1e-10);
    }

    #[test]
    fn moments_agree_with_the_formulas() {
        let m: Moments = [1.0, 2.0, 4.0].into_iter().collect();
        assert!((m.mean() - 7.0 / 3.0).abs() < 1e-15 && (m.variance() - 7.0 / 3.0).abs() < 1e-14);
        assert!((wilson_lower(97, 100) - 0.9155).abs() < 1e-3);
    }
}
