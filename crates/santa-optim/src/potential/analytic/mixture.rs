//! A mixture of Gaussians.

use super::check_finite;
use crate::error::{Error, Result, check};
use crate::noise::Stream;
use crate::potential::{Batch, Potential, check_lengths};
use crate::real::Real;
use crate::target::Target;

/// A mixture of K spherical Gaussians in d dimensions, in any number of independent copies laid
/// side by side, so that many chains run as one vector.
///
/// $$ U(\theta) = \sum_{\text{copies}} -\log \sum_{k=1}^K w_k
///    \mathcal N(\theta^{(c)};\ \mu_k, s_k^2 I) $$
///
/// ```
/// use santa::potential::analytic::Mixture;
///
/// // Two modes on a line, one with three quarters of the mass; 1,000 chains.
/// let modes = Mixture::new(1, &[0.25, 0.75], &[-2.0, 2.0], &[0.5])?.copies(1_000)?;
/// assert_eq!(modes.target().dim(), 1_000);
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mixture {
    target: Target,
    dim: usize,
    /// $w_k$, adding up to 1.
    weights: Vec<f64>,
    /// $\mu_k$, one after the other.
    means: Vec<f64>,
    /// $s_k$
    scales: Vec<f64>,
    /// $\log w_k - d \log(s_k \sqrt{2\pi})$
    log_peaks: Vec<f64>,
    /// How strongly each component pulls at the point being computed.
    pulls: Vec<f64>,
}

impl Mixture {
    /// One copy in `dim` dimensions. `weights` are normalised; `means` has `dim` numbers for each
    /// component; `scales` (standard deviations) has one for each, or a single one for all.
    pub fn new(dim: usize, weights: &[f64], means: &[f64], scales: &[f64]) -> Result<Self> {
        let components = weights.len();
        let target = Target::density(dim)?;
        if components == 0 {
            return Err(Error::Structure("a mixture needs at least one component".into()));
        }
        if Some(means.len()) != components.checked_mul(dim) {
            return Err(Error::Structure(format!(
                "the means have {} numbers, {components} components in {dim} dimensions need {}",
                means.len(),
                components.saturating_mul(dim)
            )));
        }
        if scales.len() != 1 && scales.len() != components {
            return Err(Error::Structure(format!(
                "there are {} scales; give one, or one for each of the {components} components",
                scales.len()
            )));
        }
        for (name, values) in [("weights", weights), ("scales", scales)] {
            for (k, value) in values.iter().enumerate() {
                check::positive(&format!("{name}[{k}]"), *value)?;
            }
        }
        check_finite("means", means)?;
        let total: f64 = weights.iter().sum();
        let weights: Vec<f64> = weights.iter().map(|w| w / total).collect();
        let scales: Vec<f64> = scales.iter().copied().cycle().take(components).collect();
        let sqrt_tau = std::f64::consts::TAU.sqrt();
        let log_peak = |(w, s): (&f64, &f64)| w.ln() - dim as f64 * (s * sqrt_tau).ln();
        let log_peaks = weights.iter().zip(&scales).map(log_peak).collect();
        let (means, pulls) = (means.to_vec(), vec![0.0; components]);
        Ok(Mixture { target, dim, weights, means, scales, log_peaks, pulls })
    }

    /// `copies` of the mixture side by side: theta has `copies` times `dim` elements.
    pub fn copies(mut self, copies: usize) -> Result<Self> {
        let Some(all) = self.dim.checked_mul(copies) else {
            return Err(Error::setting("mixture.copies", copies, "the dimension overflows"));
        };
        self.target = Target::density(all)?;
        Ok(self)
    }

    /// The target: a density.
    pub fn target(&self) -> &Target {
        &self.target
    }
    /// Dimension of one copy.
    pub fn dim(&self) -> usize {
        self.dim
    }
    /// The weights, adding up to 1.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }
    /// The mean of a component.
    ///
    /// # Panics
    /// If there is no such component.
    pub fn mean(&self, component: usize) -> &[f64] {
        &self.means[component * self.dim..(component + 1) * self.dim]
    }

    /// U of one copy: minus the logarithm of the normalised density.
    pub fn u<F: Real>(&self, x: &[F]) -> f64 {
        // Largest term so far, and the sum of all terms relative to it.
        let (mut top, mut sum) = (f64::NEG_INFINITY, 0.0);
        for k in 0..self.weights.len() {
            let term = self.log_term(k, x);
            if term > top {
                sum = sum * (top - term).exp() + 1.0;
                top = term;
            } else {
                sum += (term - top).exp();
            }
        }
        -(top + sum.ln())
    }

    /// The component whose mean is nearest to `x`, in units of its scale.
    pub fn nearest<F: Real>(&self, x: &[F]) -> usize {
        let distance = |k: usize| self.square_distance(k, x);
        (0..self.weights.len())
            .min_by(|a, b| distance(*a).total_cmp(&distance(*b)))
            .unwrap_or_default()
    }

    /// Exact samples for every copy; other `draw`s of the stream give independent ones.
    pub fn sample<F: Real>(&self, stream: &Stream, draw: u64, out: &mut [F]) -> Result<()> {
        /// Segments of the stream: deviates, and choices of a component.
        const DEVIATES: u32 = 0;
        const CHOICES: u32 = 1;
        self.target.layout().check_len("the sample", out.len())?;
        stream.normals(draw, DEVIATES, 0, out);
        for (copy, x) in out.chunks_exact_mut(self.dim).enumerate() {
            let mut left = stream.uniform(draw, CHOICES, copy as u32);
            let last = self.weights.len() - 1;
            let k = self.weights[..last].iter().take_while(|w| {
                left -= **w;
                left >= 0.0
            });
            let k = k.count();
            for (x, mean) in x.iter_mut().zip(self.mean(k)) {
                *x = F::from_f64(mean + self.scales[k] * x.to_f64());
            }
        }
        Ok(())
    }

    fn square_distance<F: Real>(&self, k: usize, x: &[F]) -> f64 {
        let square = |(x, m): (&F, &f64)| (x.to_f64() - m).powi(2);
        x.iter().zip(self.mean(k)).map(square).sum::<f64>() / (self.scales[k] * self.scales[k])
    }

    /// $\log w_k \mathcal N(x; \mu_k, s_k^2 I)$
    fn log_term<F: Real>(&self, k: usize, x: &[F]) -> f64 {
        self.log_peaks[k] - 0.5 * self.square_distance(k, x)
    }
}

impl<F: Real> Potential<F> for Mixture {
    fn target(&self) -> &Target {
        &self.target
    }

    fn loss_gradient(&mut self, theta: &[F], _: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        check_lengths(&self.target, theta, gradient)?;
        let mut total = 0.0;
        for (x, g) in theta.chunks_exact(self.dim).zip(gradient.chunks_exact_mut(self.dim)) {
            let u = self.u(x);
            total += u;
            // Each component pulls with its share of the density here.
            for k in 0..self.weights.len() {
                let share = (self.log_term(k, x) + u).exp();
                self.pulls[k] = share / (self.scales[k] * self.scales[k]);
            }
            for (i, (g, x)) in g.iter_mut().zip(x).enumerate() {
                let pull = |(k, pull): (usize, &f64)| pull * (x.to_f64() - self.mean(k)[i]);
                *g = F::from_f64(self.pulls.iter().enumerate().map(pull).sum());
            }
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing;
    use super::*;
    use crate::noise::Purpose;
    use crate::stats::expectation;

    fn plane() -> Mixture {
        Mixture::new(2, &[1.0, 3.0], &[-2.0, 0.0, 2.0, 1.0], &[0.5, 1.0]).unwrap()
    }

    #[test]
    fn the_gradient_is_that_of_the_mixture() {
        let single = Mixture::new(1, &[0.2, 0.3, 0.5], &[-1.0, 0.0, 2.0], &[0.7]).unwrap();
        for mut mixture in [plane(), plane().copies(3).unwrap(), single] {
            testing::gradient_matches_differences(&mut mixture, &Batch::full());
            testing::precisions_agree(&mut mixture, &Batch::full());
            testing::wrong_lengths_are_refused(&mut mixture);
        }
    }

    #[test]
    fn copies_do_not_know_of_each_other() {
        let (mut one, mut two) = (plane(), plane().copies(2).unwrap());
        let theta = [0.5, -1.0, 2.0, 0.3];
        let (mut g1, mut g2) = ([0.0f64; 2], [0.0f64; 4]);
        let both = two.loss_gradient(&theta, &Batch::full(), &mut g2).unwrap();
        let mut sum = 0.0;
        for c in 0..2 {
            let here = 2 * c..2 * c + 2;
            sum += one.loss_gradient(&theta[here.clone()], &Batch::full(), &mut g1).unwrap();
            assert_eq!(g1, g2[here]);
        }
        assert_eq!(sum, both);
    }

    #[test]
    fn far_away_nothing_underflows() {
        let mut mixture = plane();
        let theta = [1e4, -1e4];
        let mut gradient = [0.0f64; 2];
        let u = mixture.loss_gradient(&theta, &Batch::full(), &mut gradient).unwrap();
        assert!(u.is_finite() && u > 1e7);
        // There the wider component is all there is.
        assert!((gradient[0] - (1e4 - 2.0)).abs() < 1e-6, "{gradient:?}");
    }

    #[test]
    fn the_density_is_normalised_and_samples_follow_it() {
        let line = Mixture::new(1, &[0.25, 0.75], &[-2.0, 2.0], &[0.5, 0.7]).unwrap();
        let bump = |x: f64| (-line.u(&[x])).exp();
        const POINTS: usize = 4_000;
        let width = 16.0 / POINTS as f64;
        let mass: f64 = (0..POINTS).map(|i| bump(-8.0 + i as f64 * width) * width).sum();
        assert!((mass - 1.0).abs() < 1e-10, "{mass}");

        let draws = 40_000;
        let many = line.clone().copies(draws).unwrap();
        let mut x = vec![0.0f64; draws];
        many.sample(&Stream::new(8, 0, Purpose::Data), 0, &mut x).unwrap();
        let mean = |of: &dyn Fn(f64) -> f64| expectation((-8.0, 8.0), |x| line.u(&[x]), of);
        for of in [&|x: f64| x, &|x: f64| x * x] as [&dyn Fn(f64) -> f64; 2] {
            let (first, second) = (mean(of), mean(&|x| of(x) * of(x)));
            let error = x.iter().map(|x| of(*x)).sum::<f64>() / draws as f64 - first;
            let score = error / ((second - first * first) / draws as f64).sqrt();
            assert!(score.abs() < 5.0, "{score}");
        }
        let left = x.iter().filter(|x| line.nearest(&[**x]) == 0).count();
        assert!((left as f64 / draws as f64 - 0.25).abs() < 0.02);
    }

    #[test]
    fn impossible_mixtures_are_refused() {
        for (dim, weights, means, scales) in [
            (1, vec![], vec![], vec![1.0]),
            (0, vec![1.0], vec![], vec![1.0]),
            (2, vec![1.0], vec![0.0], vec![1.0]),
            (1, vec![1.0, -1.0], vec![0.0, 1.0], vec![1.0]),
            (1, vec![1.0, 1.0], vec![0.0, f64::NAN], vec![1.0]),
            (1, vec![1.0, 1.0], vec![0.0, 1.0], vec![1.0, 0.0]),
            (1, vec![1.0, 1.0], vec![0.0, 1.0], vec![]),
        ] {
            assert!(Mixture::new(dim, &weights, &means, &scales).is_err(), "{weights:?}");
        }
        assert!(plane().copies(0).is_err());
        assert!(plane().copies(usize::MAX).is_err());
    }
}
