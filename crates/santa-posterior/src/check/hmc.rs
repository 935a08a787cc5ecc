//! Hamiltonian Monte Carlo: an exact reference for small problems.

use super::dual_averaging::DualAveraging;
use super::{check_count, parameter_names};
use crate::Draws;
use crate::error::{Error, Result};
use santa::noise::{Purpose, Stream};
use santa::potential::{Batch, Potential};
use santa::stats::Moments;

/// Settings of Hamiltonian Monte Carlo (Duane and others, 1987; Neal, 2011).
///
/// Each transition draws a momentum $p \sim \mathcal N(0, I)$ and follows
/// $H = U(\theta) + p^2/2$ by $\ell$ leapfrog steps with all data,
///
/// $$ p \leftarrow p - \tfrac{\epsilon}{2} s \nabla U(\theta), \qquad
///    \theta \leftarrow \theta + \epsilon s p, \qquad
///    p \leftarrow p - \tfrac{\epsilon}{2} s \nabla U(\theta), $$
///
/// with s the scales of the parameters. The end is accepted with the chance
/// $\min(1, e^{H_0 - H})$, otherwise the chain stays where it was: $e^{-U}$ is invariant *exactly*,
/// whatever the step. The number of steps is uniform on $1, \dots, 2T/\epsilon$, so that no path
/// closes on itself for long.
///
/// The step is adapted during warm-up by dual averaging (Hoffman and Gelman, 2014) to the wanted
/// acceptance, and the scales, unless given, are the standard deviations seen in the warm-up's
/// windows. Both are then frozen. Every chain adapts by itself, and computes in `f64`.
///
/// Expensive, and for that reason a reference and not a way to sample large models: each draw takes
/// several gradients over all data.
///
/// ```
/// use santa::potential::analytic::Gaussian;
/// use santa::stats::Moments;
/// use santa_posterior::check::Hmc;
///
/// let mut gaussian = Gaussian::diagonal(&[1.0, 20.0])?;
/// let run = Hmc::default().run(&mut gaussian, &[vec![0.0, 0.0], vec![1.0, -9.0]])?;
/// let second: Moments = run.draws.quantity(1).concat().into_iter().collect();
/// assert!((second.variance().sqrt() / 20.0 - 1.0).abs() < 0.2);
/// # Ok::<(), santa_posterior::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Hmc {
    /// Transitions that adapt and are thrown away.
    pub warm_up: u64,
    /// Draws of each chain.
    pub draws: usize,
    /// Transitions for each draw.
    pub every: u64,
    /// T, the mean length of a path in units of the scales; a quarter of a period is $\pi/2$.
    pub path: f64,
    /// The wanted acceptance.
    pub acceptance: f64,
    /// s; `None` to find them.
    pub scales: Option<Vec<f64>>,
    /// $\epsilon$, in units of the scales; `None` to find it.
    pub step: Option<f64>,
    /// Seed of all chains.
    pub seed: u64,
}

impl Default for Hmc {
    fn default() -> Self {
        Hmc {
            warm_up: 600,
            draws: 1000,
            every: 1,
            path: std::f64::consts::FRAC_PI_2,
            acceptance: 0.8,
            scales: None,
            step: None,
            seed: 0,
        }
    }
}

/// Draws, and how the chains got them.
#[derive(Clone, Debug, PartialEq)]
pub struct HmcRun {
    /// The draws.
    pub draws: Draws,
    /// Of each chain, the mean chance of acceptance after the warm-up.
    pub acceptance: Vec<f64>,
    /// Of each chain, the frozen step.
    pub steps: Vec<f64>,
    /// Of each chain, the frozen scales.
    pub scales: Vec<Vec<f64>>,
    /// Transitions after the warm-up whose energy error was above 1000, or not finite.
    pub divergences: u64,
}

/// The purpose of this module's noise.
const PURPOSE: Purpose = Purpose::Custom(101);
/// Segments of the stream: momenta, and the two uniform numbers of a transition.
const MOMENTA: u32 = 0;
const CHOICES: u32 = 1;
const ACCEPT: u32 = 0;
const LENGTH: u32 = 1;
/// An energy error that no accurate path has (Stan's convention).
const DIVERGENT: f64 = 1000.0;
/// The longest path, in leapfrog steps.
const MOST_LEAPS: u64 = 1024;

impl Hmc {
    /// A chain from each start.
    pub fn run<P: Potential<f64> + ?Sized>(
        &self,
        posterior: &mut P,
        starts: &[Vec<f64>],
    ) -> Result<HmcRun> {
        self.run_with(posterior, starts, Correction::Metropolis)
    }

    fn run_with<P: Potential<f64> + ?Sized>(
        &self,
        posterior: &mut P,
        starts: &[Vec<f64>],
        correction: Correction,
    ) -> Result<HmcRun> {
        self.check(posterior.target().dim(), starts)?;
        let names = parameter_names(posterior.target());
        let mut run = HmcRun {
            draws: Draws::new(names, starts.len())?,
            acceptance: Vec::new(),
            steps: Vec::new(),
            scales: Vec::new(),
            divergences: 0,
        };
        for (chain, start) in (0..).zip(starts) {
            let stream = Stream::new(self.seed, chain, PURPOSE);
            let scales = self.scales.clone().unwrap_or_else(|| vec![1.0; start.len()]);
            let mut walker = Walker::new(posterior, stream, start, scales, correction)?;
            self.warm_up(&mut walker)?;
            let mut accepted = Moments::default();
            for _ in 0..self.draws {
                for _ in 0..self.every {
                    let chance = walker.transition(self.path)?;
                    accepted.push(chance);
                    run.divergences += u64::from(walker.diverged);
                }
                run.draws.push(chain as usize, &walker.theta)?;
            }
            run.acceptance.push(accepted.mean());
            run.steps.push(walker.step);
            run.scales.push(walker.scales);
        }
        Ok(run)
    }

    fn check(&self, dim: usize, starts: &[Vec<f64>]) -> Result<()> {
        check_count("every", self.every, 1)?;
        if starts.is_empty() {
            return Err(Error::data("no chain has a start; give one for each chain"));
        }
        for (i, start) in starts.iter().enumerate() {
            if start.len() != dim || start.iter().any(|x| !x.is_finite()) {
                let text = format!("the start of chain {i} needs {dim} finite numbers");
                return Err(Error::data(text));
            }
        }
        if !(self.acceptance > 0.0 && self.acceptance < 1.0) {
            let allowed = "it must lie between 0 and 1";
            return Err(Error::setting("acceptance", self.acceptance, allowed));
        }
        if let Some(step) = self.step
            && !(step > 0.0 && step.is_finite())
        {
            return Err(Error::setting("step", step, "it must be positive and finite"));
        }
        if !(self.path > 0.0 && self.path.is_finite()) {
            return Err(Error::setting("path", self.path, "it must be positive and finite"));
        }
        let sound = |s: &Vec<f64>| s.len() == dim && s.iter().all(|x| *x > 0.0 && x.is_finite());
        match &self.scales {
            Some(scales) if !sound(scales) => {
                let allowed = format!("{dim} positive and finite numbers");
                Err(Error::setting("scales", format!("{scales:?}"), allowed))
            }
            _ => Ok(()),
        }
    }

    /// Five windows: the first for a step that works at all, three to see the scales, each with
    /// the last one's, and one for the step that fits them.
    fn warm_up<P: Potential<f64> + ?Sized>(&self, walker: &mut Walker<'_, P>) -> Result<()> {
        const WINDOWS: u64 = 5;
        /// Fewer draws than this say nothing about a scale.
        const ENOUGH: u64 = 20;
        let mut averaging = DualAveraging::new(walker.step, self.acceptance);
        for window in 0..WINDOWS {
            let mut seen = vec![Moments::default(); walker.theta.len()];
            for _ in self.warm_up * window / WINDOWS..self.warm_up * (window + 1) / WINDOWS {
                walker.step = averaging.update(walker.transition(self.path)?);
                seen.iter_mut().zip(&walker.theta).for_each(|(m, x)| m.push(*x));
            }
            let middle = window > 0 && window + 1 < WINDOWS;
            if !middle || self.scales.is_some() || seen[0].count() < ENOUGH {
                continue;
            }
            for (scale, moments) in walker.scales.iter_mut().zip(&seen) {
                let sd = moments.variance().sqrt();
                if sd > 0.0 && sd.is_finite() {
                    *scale = sd;
                }
            }
            // In units of good scales a step of one is about right.
            averaging = DualAveraging::new(1.0, self.acceptance);
            walker.step = 1.0;
        }
        if self.warm_up > 0 {
            walker.step = averaging.average();
        }
        walker.step = self.step.unwrap_or(walker.step);
        Ok(())
    }
}

/// Whether the end of a path is accepted or rejected, or always accepted: the latter is wrong, and
/// here to show that the tests notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Correction {
    Metropolis,
    #[cfg_attr(not(test), allow(dead_code))]
    None,
}

/// One chain.
struct Walker<'a, P: ?Sized> {
    posterior: &'a mut P,
    stream: Stream,
    transitions: u64,
    correction: Correction,
    theta: Vec<f64>,
    energy: f64,
    gradient: Vec<f64>,
    scales: Vec<f64>,
    step: f64,
    diverged: bool,
    /// The momentum, and where the path has got to.
    p: Vec<f64>,
    end: Vec<f64>,
    end_gradient: Vec<f64>,
}

impl<'a, P: Potential<f64> + ?Sized> Walker<'a, P> {
    fn new(
        posterior: &'a mut P,
        stream: Stream,
        start: &[f64],
        scales: Vec<f64>,
        correction: Correction,
    ) -> Result<Self> {
        let mut gradient = vec![0.0; start.len()];
        let energy = evaluate(posterior, start, &mut gradient)?;
        if !energy.is_finite() {
            return Err(Error::data(format!("U is {energy} at a chain's start; start elsewhere")));
        }
        let step = step_that_moves(&scales, &gradient);
        Ok(Walker {
            posterior,
            stream,
            transitions: 0,
            correction,
            theta: start.to_vec(),
            energy,
            scales,
            step,
            diverged: false,
            p: vec![0.0; start.len()],
            end: start.to_vec(),
            end_gradient: gradient.clone(),
            gradient,
        })
    }

    /// One transition; gives the chance with which its end was accepted.
    fn transition(&mut self, path: f64) -> Result<f64> {
        let t = self.transitions;
        self.transitions += 1;
        self.stream.normals(t, MOMENTA, 0, &mut self.p);
        let kinetic = |p: &[f64]| 0.5 * p.iter().map(|p| p * p).sum::<f64>();
        let before = self.energy + kinetic(&self.p);
        self.end.copy_from_slice(&self.theta);
        self.end_gradient.copy_from_slice(&self.gradient);

        let longest = ((2.0 * path / self.step).round() as u64).clamp(1, MOST_LEAPS);
        let leaps = 1 + self.stream.below(t, CHOICES, LENGTH, longest);
        let mut energy = self.energy;
        for _ in 0..leaps {
            self.kick();
            for i in 0..self.end.len() {
                self.end[i] += self.step * self.scales[i] * self.p[i];
            }
            energy = evaluate(self.posterior, &self.end, &mut self.end_gradient)?;
            if !energy.is_finite() {
                break;
            }
            self.kick();
        }
        let error = energy + kinetic(&self.p) - before;
        self.diverged = error.is_nan() || error > DIVERGENT;
        let chance = if error.is_nan() { 0.0 } else { (-error).exp().min(1.0) };
        let accepted = match self.correction {
            Correction::Metropolis => self.stream.uniform(t, CHOICES, ACCEPT) < chance,
            Correction::None => energy.is_finite(),
        };
        if accepted {
            std::mem::swap(&mut self.theta, &mut self.end);
            std::mem::swap(&mut self.gradient, &mut self.end_gradient);
            self.energy = energy;
        }
        Ok(chance)
    }

    /// Half a step of the momentum.
    fn kick(&mut self) {
        for i in 0..self.p.len() {
            self.p[i] -= 0.5 * self.step * self.scales[i] * self.end_gradient[i];
        }
    }
}

/// U and its gradient over all data, with the prior. What is not finite is for the caller to see;
/// where a potential refuses theta, a path that left the finite numbers ends in infinity.
fn evaluate<P: Potential<f64> + ?Sized>(
    posterior: &mut P,
    theta: &[f64],
    gradient: &mut [f64],
) -> Result<f64> {
    if theta.iter().any(|x| !x.is_finite()) {
        return Ok(f64::INFINITY);
    }
    let loss = posterior.loss_gradient(theta, &Batch::full(), gradient)?;
    let target = posterior.target();
    target.full_gradient(theta, gradient);
    if gradient.iter().any(|g| !g.is_finite()) {
        return Ok(f64::INFINITY);
    }
    Ok(target.data_size().as_f64() * loss + target.prior_energy(theta))
}

/// A first step whose kick is of the momentum's own size.
fn step_that_moves(scales: &[f64], gradient: &[f64]) -> f64 {
    let largest = scales.iter().zip(gradient).map(|(s, g)| (s * g).abs()).fold(0.0, f64::max);
    1.0 / largest.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::potential::analytic::{DoubleWell, Gaussian, Wavy};
    use santa::potential::from_fn;
    use santa::stats::expectation;

    /// A function and its expectation.
    type Check = (fn(&[f64]) -> f64, f64);

    /// Many short chains; each gives one average of each function, and their spread is the error.
    /// How many standard errors the functions are off; five have a chance below 1e-6.
    fn scores<const K: usize>(
        hmc: &Hmc,
        posterior: &mut impl Potential<f64>,
        correction: Correction,
        checks: [Check; K],
    ) -> [f64; K] {
        const CHAINS: usize = 30;
        let dim = posterior.target().dim();
        let starts: Vec<Vec<f64>> =
            (0..CHAINS).map(|c| vec![if c % 2 == 0 { -2.0 } else { 2.0 }; dim]).collect();
        let draws = hmc.run_with(posterior, &starts, correction).unwrap().draws;
        checks.map(|(of, expected)| {
            let average = |chain: usize| {
                let sum: f64 = (0..draws.len()).map(|i| of(draws.draw(chain, i))).sum();
                sum / draws.len() as f64
            };
            let m: Moments = (0..CHAINS).map(average).collect();
            (m.mean() - expected) / m.standard_error()
        })
    }
    const LIMIT: f64 = 5.0;

    #[test]
    fn a_correlated_gaussian_has_its_moments() {
        let covariance = [4.0, 1.5, 1.5, 1.0];
        let mut gaussian = Gaussian::from_covariance(vec![1.0, -2.0], &covariance).unwrap();
        let hmc = Hmc { warm_up: 240, draws: 400, seed: 1, ..Hmc::default() };
        let z = scores(
            &hmc,
            &mut gaussian,
            Correction::Metropolis,
            [
                (|x| x[0], 1.0),
                (|x| x[1], -2.0),
                (|x| (x[0] - 1.0).powi(2), 4.0),
                (|x| (x[1] + 2.0).powi(2), 1.0),
                (|x| (x[0] - 1.0) * (x[1] + 2.0), 1.5),
                (|x| (x[1] + 2.0).powi(4), 3.0),
            ],
        );
        assert!(z.iter().all(|z| z.abs() < LIMIT), "{z:?}");
    }

    /// A function's first three moments, by quadrature.
    fn moments(energy: fn(f64) -> f64) -> [Check; 3] {
        let exact = |k: i32| expectation((-12.0, 12.0), energy, |x| x.powi(k));
        [(|x| x[0], exact(1)), (|x| x[0].powi(2), exact(2)), (|x| x[0].powi(3), exact(3))]
    }

    #[test]
    fn waves_and_a_double_well_agree_with_quadrature() {
        let hmc = Hmc { warm_up: 240, draws: 600, seed: 2, ..Hmc::default() };
        let mut wavy = Wavy::new(1).unwrap();
        let z = scores(&hmc, &mut wavy, Correction::Metropolis, moments(Wavy::u));
        assert!(z.iter().all(|z| z.abs() < LIMIT), "{z:?}");
        // Twice as hot, so that the barrier is crossed often.
        let mut well = from_fn(1, |x: &[f64], g: &mut [f64]| {
            g[0] = 0.5 * DoubleWell::du(x[0]);
            0.5 * DoubleWell::u(x[0])
        })
        .unwrap();
        let exact = moments(|x| 0.5 * DoubleWell::u(x));
        let z = scores(&hmc, &mut well, Correction::Metropolis, exact);
        assert!(z.iter().all(|z| z.abs() < LIMIT), "{z:?}");
    }

    /// Negative control: the same check, with a step not far from the end of the stable ones.
    #[test]
    fn without_the_metropolis_correction_a_large_step_is_noticed() {
        let mut wavy = Wavy::new(1).unwrap();
        let (step, scales) = (Some(0.9), Some(vec![1.0]));
        let large = Hmc { warm_up: 0, draws: 600, step, scales, seed: 3, ..Hmc::default() };
        let mut z = |correction| scores(&large, &mut wavy, correction, moments(Wavy::u));
        let (with, without) = (z(Correction::Metropolis), z(Correction::None));
        assert!(with.iter().all(|z| z.abs() < LIMIT), "{with:?}");
        assert!(without[1].abs() > LIMIT, "{without:?}");
    }

    #[test]
    fn the_step_finds_the_wanted_acceptance_and_the_scales_are_seen() {
        let mut gaussian = Gaussian::diagonal(&[0.01, 1.0, 50.0]).unwrap();
        let hmc = Hmc { warm_up: 900, draws: 500, seed: 4, ..Hmc::default() };
        let run = hmc.run(&mut gaussian, &[vec![0.0; 3], vec![0.01; 3]]).unwrap();
        for chain in 0..2 {
            assert!((run.acceptance[chain] - 0.8).abs() < 0.15, "{:?}", run.acceptance);
            for (scale, exact) in run.scales[chain].iter().zip([0.01, 1.0, 50.0]) {
                assert!((scale / exact).ln().abs() < 0.7, "{:?}", run.scales);
            }
        }
        assert_eq!(run.divergences, 0);
        assert_eq!(run, hmc.run(&mut gaussian, &[vec![0.0; 3], vec![0.01; 3]]).unwrap());
    }

    #[test]
    fn impossible_settings_are_refused_by_name() {
        let mut gaussian = Gaussian::diagonal(&[1.0]).unwrap();
        let start = [vec![0.0]];
        for (hmc, word) in [
            (Hmc { acceptance: 1.0, ..Hmc::default() }, "acceptance"),
            (Hmc { path: 0.0, ..Hmc::default() }, "path"),
            (Hmc { every: 0, ..Hmc::default() }, "every"),
            (Hmc { scales: Some(vec![0.0]), ..Hmc::default() }, "scales"),
        ] {
            let message = hmc.run(&mut gaussian, &start).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
        assert!(Hmc::default().run(&mut gaussian, &[]).is_err());
        assert!(Hmc::default().run(&mut gaussian, &[vec![f64::NAN]]).is_err());
        assert!(Hmc::default().run(&mut gaussian, &[vec![0.0; 2]]).is_err());
    }
}
