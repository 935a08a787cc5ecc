//! The kernel Stein discrepancy of draws: are they of this law?
//!
//! R-hat and the effective sample sizes compare chains with each other, and chains that all have the
//! same bias agree. The Stein discrepancy compares the draws with the gradient of the potential, of all
//! data, and sees a wrong width, place or shape. It needs no second sampler, so it works where a
//! comparison with exact gradients would take too long.
//!
//! Three things make its threshold honest. The coordinates are those of the warm-up's scales, in which
//! the law is about round: in others the widest parameter would hide the rest. The length of the kernel
//! is known in these beforehand, and does not depend on the draws. And draws are taken so far apart
//! that they have forgotten each other: for independent points random signs say what chance does
//! ([`stein_test`]), for dependent ones one would have to know how they depend.

use super::judgement::short;
use crate::failure::Result;
use santa::{Batch, Potential};
use santa_posterior::Draws;
use santa_posterior::diagnostics::{
    FalseAlarms, Scale, SteinSettings, SteinTest, Summary, ess_sd, stein_test,
};
use santa_posterior::sampler::{Sampler, Scales, Whitened};
use serde::Serialize;
use std::fmt;

/// Draws that are used, at most: the work grows with their square.
const MOST_POINTS: usize = 1_000;
/// Fewer would let all but the grossest errors pass.
const FEWEST_POINTS: usize = 100;
/// Multiplications for the gradients and for the kernel, at most, each: some seconds.
const MOST_WORK: f64 = 2e9;

/// A discrepancy, and of how many draws.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// It and its threshold.
    #[serde(flatten)]
    pub test: SteinTest,
    /// Draws of all chains, of which some were used.
    pub draws: usize,
    /// Every so many of them.
    pub every: usize,
    /// Whether it is off.
    pub is_off: bool,
    /// The mean square of the slopes along the draws, $\beta |\nabla U|^2 / d$ in the warm-up's
    /// coordinates: 1 for a round law, and the blunter the test the more it is.
    pub roughness: f64,
}

/// Slopes that many times those of a round law, in their mean square, hide all but gross errors.
const ROUGH: f64 = 4.0;

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SteinTest { stein, threshold, false_alarm_rate, .. } = self.test;
        write!(
            f,
            "{} on {} of {} draws, {} the {} that one right sampler in {:.0} exceeds",
            short(stein.discrepancy),
            stein.points,
            self.draws,
            if self.is_off { "above" } else { "below" },
            short(threshold),
            1.0 / false_alarm_rate
        )?;
        if !self.is_off && self.roughness > ROUGH {
            write!(
                f,
                "; which says little here: the law is not round in the warm-up's coordinates (its slopes are \
                 {:.0} times as steep as a round one's), and only gross errors would show",
                self.roughness.sqrt()
            )?;
        }
        Ok(())
    }
}

/// Makes the parameters of a draw from what is kept of it.
pub type Parameters = Box<dyn Fn(&[f64]) -> santa_posterior::Result<Vec<f64>>>;

/// What there is to measure.
pub struct Subject<'a, P> {
    /// The potential.
    pub potential: &'a mut P,
    /// The parameters of a draw.
    pub parameters: &'a Parameters,
    /// The coordinates of the warm-up.
    pub scales: &'a Scales<f64>,
    /// What was drawn.
    pub draws: &'a Draws,
    /// How well.
    pub summary: &'a Summary,
    /// With which settings.
    pub sampler: &'a Sampler,
}

/// The discrepancy of draws, or in a sentence why there is none.
pub fn measure<P: Potential<f64>>(
    subject: Subject<'_, P>,
) -> Result<std::result::Result<Measured, String>> {
    let Subject { potential, parameters, scales, draws, summary, sampler } = subject;
    let (dim, rows) = (potential.target().dim(), potential.target().data_size().as_f64());
    let none = |why: String| Ok(Err(format!("There is no kernel Stein discrepancy: {why}.")));
    let triangle = match scales {
        Scales::Dense { rows, .. } => rows.len() as f64,
        _ => 0.0,
    };
    let affordable = affordable(dim as f64, rows * dim as f64 + triangle);
    if affordable < FEWEST_POINTS {
        return none(format!(
            "gradients of all {rows} data in {dim} parameters at the {FEWEST_POINTS} draws that it needs \
             at least would take too long"
        ));
    }
    let every = apart(draws, summary);
    let each = every.map_or(0, |every| draws.len() / every).min(affordable / draws.chains());
    let (Some(every), true) = (every, each * draws.chains() >= FEWEST_POINTS) else {
        return none(format!(
            "it needs {FEWEST_POINTS} draws that have forgotten each other, and these chains have fewer; \
             sample longer"
        ));
    };
    let mut seen = Whitened::new(potential, scales.clone())?;
    let (mut points, mut gradients) = (Vec::new(), Vec::new());
    let mut gradient = vec![0.0; dim];
    for chain in 0..draws.chains() {
        for i in 0..each {
            // In the middle of its share of the chain.
            let draw = draws.draw(chain, (2 * i + 1) * draws.len() / (2 * each));
            let z = scales.to_z(&parameters(draw)?);
            seen.loss_gradient(&z, &Batch::full(), &mut gradient)?;
            seen.target().full_gradient(&z, &mut gradient);
            points.extend_from_slice(&z);
            gradients.extend_from_slice(&gradient);
        }
    }
    if points.iter().chain(&gradients).any(|x| !x.is_finite()) {
        return none("some draws, or gradients at them, are not finite".into());
    }
    let settings = SteinSettings {
        scale: Scale::Given(length(dim, sampler.beta)),
        beta: sampler.beta,
        max_points: MOST_POINTS,
    };
    let alarms = FalseAlarms { seed: sampler.seed, ..FalseAlarms::default() };
    let test = stein_test(&points, &gradients, dim, &settings, &alarms)?;
    let square = gradients.iter().map(|g| g * g).sum::<f64>() / gradients.len() as f64;
    let (draws, roughness) = (draws.chains() * draws.len(), sampler.beta * square);
    Ok(Ok(Measured { test, draws, every, is_off: test.is_off(), roughness }))
}

/// The length of the kernel: half of the distance of two draws in `dim` coordinates of variance
/// $1/\beta$, which is $\sqrt{2 d/\beta}$. With all of it, as is usual, a test needs more draws to see a wrong width.
fn length(dim: usize, beta: f64) -> f64 {
    0.5 * (2.0 * dim as f64 / beta).sqrt()
}

/// Draws for which there is time: each takes the work of a gradient, and the kernel a multiplication in
/// each dimension for each pair.
fn affordable(dim: f64, work_of_gradient: f64) -> usize {
    let of_gradients = MOST_WORK / work_of_gradient;
    let of_kernel = (2.0 * MOST_WORK / dim).sqrt();
    of_gradients.min(of_kernel).min(MOST_POINTS as f64) as usize
}

/// How many draws of a chain it takes to forget one: twice the autocorrelation time of the slowest
/// quantity, or of its square or tails, less one, so that independent draws are all used. In a chain
/// that forgets exponentially, what is left is a correlation of some 2 %.
fn apart(draws: &Draws, summary: &Summary) -> Option<usize> {
    let all = (draws.chains() * draws.len()) as f64;
    let mut slowest = 1.0;
    for (i, row) in summary.rows.iter().enumerate() {
        for effective in [row.ess_bulk, row.ess_tail, ess_sd(&draws.quantity(i))] {
            // Where nothing can be said.
            if effective.is_nan() || effective <= 0.0 {
                return None;
            }
            slowest = f64::max(slowest, all / effective);
        }
    }
    Some((2.0 * slowest - 1.0).ceil() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};
    use santa::potential::analytic::Gaussian;
    use santa_posterior::sampler::{Member, Parameters as Recorder};

    const DIM: usize = 3;

    /// A Gaussian with correlations, of scales from 1 to 100.
    fn gaussian() -> Gaussian {
        let covariance = [1.0, 9.0, 50.0, 9.0, 100.0, 500.0, 50.0, 500.0, 10_000.0];
        Gaussian::from_covariance(vec![5.0, 0.0, -70.0], &covariance).unwrap()
    }

    /// What is said of draws as if they were of the law that `asked` is about.
    fn judged(
        draws: &Draws,
        scales: &Scales<f64>,
        asked: &Sampler,
        change: impl Fn(&[f64]) -> Vec<f64> + 'static,
    ) -> std::result::Result<Measured, String> {
        let parameters: Parameters = Box::new(move |draw| Ok(change(draw)));
        let subject = Subject {
            potential: &mut gaussian(),
            parameters: &parameters,
            scales,
            draws,
            summary: &Summary::new(draws),
            sampler: asked,
        };
        measure(subject).unwrap()
    }

    #[test]
    fn a_right_sampler_passes_and_its_draws_are_those_of_no_other_temperature() {
        for seed in 1..=3 {
            let asked = Sampler::seeded(seed);
            for temperature in [1.0, 1.5, 1.0 / 1.5] {
                let sampler = Sampler { beta: 1.0 / temperature, ..asked.clone() };
                let recorder = Recorder::of(gaussian().target());
                let posterior = sampler
                    .run(
                        sampler
                            .members(|_| Member::new(gaussian(), recorder.clone(), vec![0.0; DIM])),
                    )
                    .unwrap();
                let of = |law: &Sampler| {
                    judged(&posterior.draws, &posterior.tuning.scales, law, <[f64]>::to_vec)
                        .unwrap()
                };
                assert!(!of(&sampler).is_off, "{seed} {temperature}: {}", of(&sampler));
                assert!((of(&sampler).roughness - 1.0).abs() < 0.2, "{}", of(&sampler).roughness);
                let other = Sampler { beta: temperature * sampler.beta, ..sampler.clone() };
                let is_other = other.beta != sampler.beta;
                assert_eq!(of(&other).is_off, is_other, "{seed} {temperature}: {}", of(&other));
            }
        }
    }

    /// Four chains of standard normal numbers, each of which remembers the share `memory` of the one
    /// before it, through the scales of the Gaussian.
    fn remembering(memory: f64, draws: usize) -> (Draws, Scales<f64>) {
        let covariance = [1.0, 9.0, 50.0, 9.0, 100.0, 500.0, 50.0, 500.0, 10_000.0];
        let scales = Scales::dense(&[5.0, 0.0, -70.0], &covariance).unwrap();
        let mut all = Draws::new(["a", "b", "c"], 4).unwrap();
        for chain in 0..4 {
            let stream = Stream::new(8, chain, Purpose::Custom(0));
            let (mut z, mut theta) = ([0.0; DIM], [0.0; DIM]);
            stream.normals(0, 0, 0, &mut z);
            for t in 0..draws {
                let mut fresh = [0.0; DIM];
                stream.normals(t as u64 + 1, 0, 0, &mut fresh);
                for (z, fresh) in z.iter_mut().zip(fresh) {
                    *z = memory * *z + (1.0 - memory * memory).sqrt() * fresh;
                }
                scales.to_theta(&z, &mut theta);
                all.push(chain as usize, &theta).unwrap();
            }
        }
        (all, scales)
    }

    #[test]
    fn chains_that_remember_are_thinned_and_pass_and_fail_when_they_are_moved_or_widened() {
        let asked = Sampler::seeded(1);
        for (memory, every) in [(0.0, 1..=2), (0.5, 5..=6), (0.8, 15..=20)] {
            let (draws, scales) = remembering(memory, 5_000);
            let found = judged(&draws, &scales, &asked, <[f64]>::to_vec).unwrap();
            assert!(!found.is_off && every.contains(&found.every), "{memory}: {found:?}");
            assert!((900..=MOST_POINTS).contains(&found.test.stein.points), "{found}");
            let moved =
                judged(&draws, &scales, &asked, |draw| vec![draw[0] + 0.5, draw[1], draw[2]]);
            assert!(moved.unwrap().is_off, "{memory}");
            let wide = judged(&draws, &scales, &asked, |draw| {
                let centre = [5.0, 0.0, -70.0];
                (0..DIM).map(|i| centre[i] + 1.25 * (draw[i] - centre[i])).collect()
            });
            assert!(wide.unwrap().is_off, "{memory}");
        }
    }

    #[test]
    fn a_test_that_a_rough_law_makes_blunt_says_so() {
        let asked = Sampler::seeded(1);
        let (draws, scales) = remembering(0.0, 500);
        // The narrowest parameter has a scale of 1.
        let wide = Scales::Diagonal { centre: vec![0.0; DIM], scales: vec![10.0; DIM] };
        let blunt = judged(&draws, &wide, &asked, <[f64]>::to_vec).unwrap();
        let sharp = judged(&draws, &scales, &asked, <[f64]>::to_vec).unwrap();
        assert!(blunt.to_string().contains("says little"), "{blunt}");
        assert!(!sharp.to_string().contains("says little"), "{sharp}");
    }

    #[test]
    fn what_cannot_be_told_is_said_with_its_reason() {
        let asked = Sampler::seeded(1);
        let (draws, scales) = remembering(0.99, 500);
        let why = judged(&draws, &scales, &asked, <[f64]>::to_vec).unwrap_err();
        assert!(why.contains("forgotten each other") && why.contains("sample longer"), "{why}");
        let (draws, scales) = remembering(0.0, 500);
        let why = judged(&draws, &scales, &asked, |_| vec![f64::NAN; DIM]).unwrap_err();
        assert!(why.contains("not finite"), "{why}");

        let rows = santa::DataSize::new(100_000_000).unwrap();
        let layout = santa::Layout::flat(DIM).unwrap();
        let target = santa::Target::new(layout, rows, santa::Prior::Flat).unwrap();
        let mut large = santa::potential::from_data(target, |_: &[f64], _, _: &mut [f64]| {
            panic!("there is no time for that")
        });
        let parameters: Parameters = Box::new(|draw| Ok(draw.to_vec()));
        let why = measure(Subject {
            potential: &mut large,
            parameters: &parameters,
            scales: &scales,
            draws: &draws,
            summary: &Summary::new(&draws),
            sampler: &asked,
        });
        let why = why.unwrap().unwrap_err();
        assert!(why.contains("all 100000000 data in 3 parameters"), "{why}");
    }

    #[test]
    fn the_work_is_bounded_whatever_the_data() {
        assert_eq!(affordable(3.0, 3e2), MOST_POINTS);
        for (dim, rows) in [(50.0, 1e5), (1_000.0, 1e3), (20_000.0, 100.0), (3.0, 1e6)] {
            let points = affordable(dim, dim * rows) as f64;
            assert!(points >= FEWEST_POINTS as f64, "{dim} {rows}: {points}");
            assert!(points * dim * rows <= MOST_WORK, "{dim} {rows}: {points}");
            assert!(points * points * dim <= 2.0 * MOST_WORK, "{dim} {rows}: {points}");
        }
        assert!(affordable(50.0, 5e7) < FEWEST_POINTS);
    }
}
