//! The warm-up: from a start to chains that have only to be run.

use super::curvature::first_scales;
use super::scales::Scales;
use super::tuning::{Figures, Tuning};
use super::walker::{Pace, Walker, minibatches};
use super::watch::{Stage, Watch};
use super::{MAX_CHAINS, Member, Sampler};
use crate::error::{Error, Result};
use crate::parallel::each;
use santa::dynamics::Adam;
use santa::{Chain, Potential, Real, Schedule, Stepper};

/// Shares of the warm-up: three windows that adapt, and the last one, which does not.
const WINDOWS: &[f64] = &[0.1, 0.2, 0.2, 0.5];
/// The same where the scales are given: only the step is found.
const WINDOWS_WITH_SCALES: &[f64] = &[0.3, 0.7];
/// The step of the first window, whose scales are only guessed.
const CAUTIOUS_STEP: f64 = 0.2;
/// How often the step is halved before the warm-up gives up.
const MOST_HALVINGS: u32 = 12;
/// A temperature is off if it is so by this many standard errors, too.
const SURELY: f64 = 4.0;
/// The rate of the descent at its end, relative to that at its beginning.
const DESCENT_END: f64 = 0.01;
/// The most steps between draws, where minibatch noise is hopeless.
const LONGEST_THINNING: f64 = 100_000.0;

/// A chain in the warm-up, between its windows.
struct Seat<F, P, R> {
    potential: Option<P>,
    theta: Vec<F>,
    recorder: R,
}

/// A chain ready to draw, and its recorder.
pub struct Ready<F: Real, P: Potential<F>, R> {
    pub walker: Walker<F, P>,
    pub recorder: R,
}

/// All chains, ready to draw.
pub type AllReady<F, P, R> = Vec<Ready<F, P, R>>;

/// What a chain brings back from a window.
struct Window<F: Real, P: Potential<F>> {
    walker: Walker<F, P>,
    moments: Moments,
    temperatures: Vec<f64>,
    noise: f64,
}

pub fn warm_up<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    members: Vec<Member<F, P, R>>,
    watch: &dyn Watch,
) -> Result<(Tuning<F>, AllReady<F, P, R>)> {
    if settings.dynamics.is_some() {
        return burn_in(settings, members, watch);
    }
    let given = members.first().and_then(|member| member.scales.clone());
    let mut seats: Vec<Seat<F, P, R>> = members
        .into_iter()
        .map(|m| Seat { potential: Some(m.potential), theta: m.start, recorder: m.recorder })
        .collect();
    let mut stage = 0;
    let (adapts, windows) = match given {
        None => (true, WINDOWS),
        Some(_) => (false, WINDOWS_WITH_SCALES),
    };
    let mut scales = match given {
        Some(scales) => scales,
        None => {
            descend(settings, &mut seats, watch)?;
            guess(settings, &mut seats)?
        }
    };
    let mut figures =
        Figures { step: settings.largest_step.min(CAUTIOUS_STEP), thin: 1, ..Figures::default() };
    figures.thin = thinning(settings, &figures);
    let last = windows.len() - 1;
    for (number, share) in windows.iter().enumerate() {
        let draws = ((settings.warm_up as f64 * share).ceil() as u64).max(MIN_WINDOW);
        loop {
            stage += 1;
            figures.stream = stage * MAX_CHAINS;
            figures.beta = figures.corrected(settings.beta, settings.friction);
            let name = Stage::WarmingUp(number as u32 + 1);
            let outcome = window(settings, &mut seats, &scales, &figures, draws, name, watch);
            let windows = match outcome {
                Ok(windows) => windows,
                // A step that is too large shows as numbers that are none.
                Err(Error::Santa(error)) if is_divergence(&error) => {
                    halve(&mut figures, settings, &error.to_string())?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            (figures.temperature, figures.temperature_error) = temperature(&windows, settings.beta);
            let measured = mean(windows.iter().map(|w| w.noise));
            if number < last {
                if adapts {
                    scales = pooled(settings, &windows, &scales)?;
                }
                take_seats(&mut seats, windows);
                figures.gradient_noise = noise(settings, &mut seats, &scales, &figures)?;
                figures.step = step(settings, figures.gradient_noise, figures.halvings);
                figures.thin = thinning(settings, &figures);
                break;
            }
            figures.gradient_noise = measured;
            let off = (figures.temperature - 1.0).abs();
            let is_off = !(off <= settings.tolerance || off <= SURELY * figures.temperature_error);
            if is_off {
                take_seats(&mut seats, windows);
                let why = format!(
                    "the configurational temperature is {:.3} times what it should be",
                    figures.temperature
                );
                halve(&mut figures, settings, &why)?;
                continue;
            }
            let reference = windows.first().map(|w| w.walker.reference().to_vec());
            let ready = (windows.into_iter().zip(seats))
                .map(|(w, seat)| Ready { walker: w.walker, recorder: seat.recorder })
                .collect();
            let tuning = Tuning { scales, reference: reference.unwrap_or_default(), figures };
            return Ok((tuning, ready));
        }
    }
    unreachable!("the last window returns")
}

/// The fewest draws of a window.
const MIN_WINDOW: u64 = 10;

/// Dynamics of the caller's: so many steps that are not kept.
fn burn_in<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    members: Vec<Member<F, P, R>>,
    watch: &dyn Watch,
) -> Result<(Tuning<F>, AllReady<F, P, R>)> {
    /// Steps between two looks at whether to stop.
    const STRIDE: u64 = 50;
    let thin = settings.thin.unwrap_or(1);
    let figures = Figures { thin, beta: settings.beta, ..Figures::default() };
    let mut ready = Vec::with_capacity(members.len());
    for (c, member) in members.into_iter().enumerate() {
        let Member { potential, recorder, start, .. } = member;
        let walker =
            Walker::new(settings, potential, Scales::Identity, &start, &figures, c as u32)?;
        ready.push(Ready { walker, recorder });
    }
    each(&mut ready, |c, ready| {
        let mut done = 0;
        while done < settings.warm_up {
            if watch.stop() {
                return Err(Error::Interrupted);
            }
            let steps = STRIDE.min(settings.warm_up - done);
            ready.walker.chain_mut().advance(steps)?;
            done += steps;
            watch.progress(c as u32, Stage::WarmingUp(1), done, settings.warm_up);
        }
        Ok(())
    })?;
    // All chains read about one point: the end of the first one's warm-up.
    if let Some(first) = ready.first_mut() {
        first.walker.refer_to_here();
    }
    let reference = ready.first().map(|r| r.walker.reference().to_vec()).unwrap_or_default();
    for ready in &mut ready {
        ready.walker.set_reference(&reference)?;
    }
    Ok((Tuning { scales: Scales::Identity, reference, figures }, ready))
}

/// Takes every chain to where the posterior has its mass.
fn descend<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    seats: &mut [Seat<F, P, R>],
    watch: &dyn Watch,
) -> Result<()> {
    const STRIDE: u64 = 100;
    if settings.descent == 0 {
        return Ok(());
    }
    each(seats, |c, seat| {
        let potential = seat.potential.take().expect("a potential between windows");
        let lr = settings.descent_lr;
        let adam = Adam::new(Schedule::cosine(lr, DESCENT_END * lr, settings.descent));
        let stepper = Stepper::new(adam, potential.target(), settings.seed, c as u32)?;
        let minibatches = minibatches(settings, potential.target().data_size(), c as u32)?;
        let start = std::mem::take(&mut seat.theta);
        let mut chain = Chain::with_minibatches(potential, stepper, start, minibatches)?;
        let mut done = 0;
        while done < settings.descent {
            if watch.stop() {
                return Err(Error::Interrupted);
            }
            let steps = STRIDE.min(settings.descent - done);
            chain.advance(steps)?;
            done += steps;
            watch.progress(c as u32, Stage::Descending, done, settings.descent);
        }
        let (potential, _, theta) = chain.into_parts();
        seat.potential = Some(potential);
        seat.theta = theta;
        Ok(())
    })
}

/// First scales, from the curvature where the chains are.
fn guess<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    seats: &mut [Seat<F, P, R>],
) -> Result<Scales<F>> {
    let dim = seats[0].theta.len();
    let centre: Vec<f64> = seats[0].theta.iter().map(|x| x.to_f64()).collect();
    if settings.metric == super::Metric::Identity {
        return Scales::diagonal(&vec![0.0; dim], &vec![1.0; dim]);
    }
    let mut found = vec![Vec::new(); seats.len()];
    let mut work: Vec<_> = seats.iter_mut().zip(&mut found).collect();
    each(&mut work, |c, (seat, found)| {
        let potential = seat.potential.as_mut().expect("a potential between windows");
        **found = first_scales(potential, &seat.theta, settings.beta, settings.seed, c as u32)?;
        Ok(())
    })?;
    // The geometric mean over the chains.
    let scales: Vec<f64> = (0..dim)
        .map(|i| (found.iter().map(|s| s[i].ln()).sum::<f64>() / found.len() as f64).exp())
        .collect();
    Scales::diagonal(&centre, &scales)
}

/// Runs all chains for a window.
fn window<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    seats: &mut [Seat<F, P, R>],
    scales: &Scales<F>,
    figures: &Figures,
    draws: u64,
    stage: Stage,
    watch: &dyn Watch,
) -> Result<Vec<Window<F, P>>> {
    let dense = settings.metric.is_dense(seats[0].theta.len());
    let mut windows: Vec<Option<Window<F, P>>> = seats.iter().map(|_| None).collect();
    let mut work: Vec<_> = seats.iter_mut().zip(&mut windows).collect();
    let outcome = each(&mut work, |c, (seat, slot)| {
        let potential = seat.potential.take().expect("a potential between windows");
        let stream = figures.stream + c as u32;
        let mut walker =
            Walker::new(settings, potential, scales.clone(), &seat.theta, figures, stream)?;
        let mut moments = Moments::new(seat.theta.len(), dense);
        let mut temperatures = Vec::with_capacity(draws as usize);
        let mut theta = seat.theta.clone();
        let mut run = || -> Result<()> {
            for draw in 0..draws {
                if watch.stop() {
                    return Err(Error::Interrupted);
                }
                let Pace { temperature, .. } = walker.advance(figures.thin)?;
                // The first half brings the chain to where it belongs.
                if draw >= draws / 2 {
                    walker.theta(&mut theta);
                    moments.push(&theta);
                    temperatures.push(temperature);
                }
                watch.progress(c as u32, stage, draw + 1, draws);
            }
            Ok(())
        };
        let result = run();
        let noise = match &result {
            Ok(()) => walker.gradient_noise(settings)?,
            Err(_) => 0.0,
        };
        match result {
            Ok(()) => {
                **slot = Some(Window { walker, moments, temperatures, noise });
                Ok(())
            }
            // The window may be run again, from where it began.
            Err(error) => {
                seat.potential = Some(walker.into_potential());
                Err(error)
            }
        }
    });
    if let Err(error) = outcome {
        // Chains that went well go back to their start as well: one law for all.
        for (seat, window) in seats.iter_mut().zip(windows) {
            if let Some(window) = window {
                seat.potential = Some(window.walker.into_potential());
            }
        }
        return Err(error);
    }
    Ok(windows.into_iter().flatten().collect())
}

/// Puts the chains back, where the window has left them.
fn take_seats<F: Real, P: Potential<F>, R>(
    seats: &mut [Seat<F, P, R>],
    windows: Vec<Window<F, P>>,
) {
    for (seat, window) in seats.iter_mut().zip(windows) {
        window.walker.theta(&mut seat.theta);
        seat.potential = Some(window.walker.into_potential());
    }
}

/// V in the coordinates of new scales.
fn noise<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    seats: &mut [Seat<F, P, R>],
    scales: &Scales<F>,
    figures: &Figures,
) -> Result<f64> {
    let mut found = vec![0.0; seats.len()];
    let mut work: Vec<_> = seats.iter_mut().zip(&mut found).collect();
    each(&mut work, |c, (seat, found)| {
        let potential = seat.potential.take().expect("a potential between windows");
        let stream = figures.stream + c as u32;
        let mut walker =
            Walker::new(settings, potential, scales.clone(), &seat.theta, figures, stream)?;
        **found = walker.gradient_noise(settings)?;
        seat.potential = Some(walker.into_potential());
        Ok(())
    })?;
    Ok(mean(found.into_iter()))
}

/// $h = \min(h_{\max}, 2 s C/(\beta V))$, halved as often as was needed.
fn step(settings: &Sampler, noise: f64, halvings: u32) -> f64 {
    let largest = settings.largest_step * 0.5f64.powi(halvings as i32);
    let allowed = 2.0 * settings.noise_share * settings.friction / (settings.beta * noise);
    if allowed < largest { allowed } else { largest }
}

/// Steps between draws: the time in which a coordinate is forgotten, $C + \beta h V/2$.
fn thinning(settings: &Sampler, figures: &Figures) -> u64 {
    settings.thin.unwrap_or_else(|| {
        let friction =
            settings.friction + 0.5 * settings.beta * figures.step * figures.gradient_noise;
        (friction / figures.step).ceil().clamp(1.0, LONGEST_THINNING) as u64
    })
}

fn halve(figures: &mut Figures, settings: &Sampler, why: &str) -> Result<()> {
    figures.halvings += 1;
    if figures.halvings > MOST_HALVINGS {
        return Err(Error::Diverged(format!(
            "the warm-up found no step that works, down to {:.2e}: {why}; start the chains closer to \
             the posterior's mass, look for parameters that the data and the prior leave free, or \
             use larger batches",
            figures.step
        )));
    }
    figures.step /= 2.0;
    figures.thin = thinning(settings, figures);
    Ok(())
}

fn is_divergence(error: &santa::Error) -> bool {
    matches!(error, santa::Error::NotFinite { .. } | santa::Error::GaveUp { .. })
}

/// The mean configurational temperature times $\beta$, and its standard error: from the means of
/// batches of consecutive draws, within chains.
fn temperature<F: Real, P: Potential<F>>(windows: &[Window<F, P>], beta: f64) -> (f64, f64) {
    let chains: Vec<&[f64]> = windows.iter().map(|w| w.temperatures.as_slice()).collect();
    let (mean, error) = super::posterior::batch_means(&chains);
    (beta * mean, beta * error)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// New scales: the covariance within chains, pooled.
fn pooled<F: Real, P: Potential<F>>(
    settings: &Sampler,
    windows: &[Window<F, P>],
    present: &Scales<F>,
) -> Result<Scales<F>> {
    /// Draws that the present scales count for.
    const PRESENT: f64 = 5.0;
    if settings.metric == super::Metric::Identity {
        return Ok(present.clone());
    }
    let moments: Vec<&Moments> = windows.iter().map(|w| &w.moments).collect();
    let dim = moments[0].mean.len();
    let centre: Vec<f64> = (0..dim).map(|i| mean(moments.iter().map(|m| m.mean[i]))).collect();
    let count: f64 = moments.iter().map(|m| m.count).sum();
    let freedom = (count - moments.len() as f64).max(1.0);
    let weight = freedom / (freedom + PRESENT);
    let sum = |k: usize| moments.iter().map(|m| m.squares[k]).sum::<f64>();
    let before = present_variances(present, dim);
    let blend = |found: f64, i: usize| weight * found + (1.0 - weight) * before[i];
    if !moments[0].dense {
        let scales: Vec<f64> = (0..dim).map(|i| blend(sum(i) / freedom, i).sqrt()).collect();
        return Scales::diagonal(&centre, &scales);
    }
    // Correlations from few draws are mostly chance.
    let trust = freedom / (freedom + dim as f64);
    let mut covariance = vec![0.0; dim * dim];
    for i in 0..dim {
        for j in 0..=i {
            let found = sum(i * (i + 1) / 2 + j) / freedom;
            let value = if i == j { blend(found, i) } else { weight * trust * found };
            covariance[i * dim + j] = value;
            covariance[j * dim + i] = value;
        }
    }
    Scales::dense(&centre, &covariance)
}

/// The variances that some scales stand for.
fn present_variances<F: Real>(scales: &Scales<F>, dim: usize) -> Vec<f64> {
    match scales {
        Scales::Identity => vec![1.0; dim],
        Scales::Diagonal { scales, .. } => scales.iter().map(|s| s.to_f64().powi(2)).collect(),
        Scales::Dense { rows, .. } => {
            let row = |i: usize| &rows[i * (i + 1) / 2..][..=i];
            (0..dim).map(|i| row(i).iter().map(|l| l.to_f64().powi(2)).sum()).collect()
        }
    }
}

/// Mean, and sums of squared deviations from it, as draws come (Welford).
struct Moments {
    count: f64,
    mean: Vec<f64>,
    /// Of each parameter, or of each pair: rows up to the diagonal.
    squares: Vec<f64>,
    dense: bool,
    deviation: Vec<f64>,
}

impl Moments {
    fn new(dim: usize, dense: bool) -> Self {
        let squares = vec![0.0; if dense { dim * (dim + 1) / 2 } else { dim }];
        Moments { count: 0.0, mean: vec![0.0; dim], squares, dense, deviation: vec![0.0; dim] }
    }

    fn push<F: Real>(&mut self, theta: &[F]) {
        self.count += 1.0;
        for ((d, x), m) in self.deviation.iter_mut().zip(theta).zip(&mut self.mean) {
            *d = x.to_f64() - *m;
            *m += *d / self.count;
        }
        let factor = (self.count - 1.0) / self.count;
        if !self.dense {
            for (square, d) in self.squares.iter_mut().zip(&self.deviation) {
                *square += factor * d * d;
            }
            return;
        }
        let mut rest = self.squares.as_mut_slice();
        for i in 0..self.deviation.len() {
            let (row, after) = rest.split_at_mut(i + 1);
            let d = factor * self.deviation[i];
            row.iter_mut().zip(&self.deviation).for_each(|(s, e)| *s += d * e);
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_draws() {
        let draws = [[1.0, 2.0], [3.0, -1.0], [0.0, 0.5], [2.0, 2.5]];
        let mut moments = Moments::new(2, true);
        draws.iter().for_each(|d| moments.push(d));
        let mean = [1.5, 1.0];
        let sum = |i: usize, j: usize| -> f64 {
            draws.iter().map(|d| (d[i] - mean[i]) * (d[j] - mean[j])).sum()
        };
        assert_eq!(moments.mean, mean);
        for (found, expected) in moments.squares.iter().zip([sum(0, 0), sum(1, 0), sum(1, 1)]) {
            assert!((found - expected).abs() < 1e-12);
        }
    }
}
