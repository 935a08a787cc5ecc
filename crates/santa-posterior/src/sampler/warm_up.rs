//! The warm-up: from a start to chains that have only to be run.

use super::curvature::first_scales;
use super::explosion;
use super::interim::{Interim, Keeper};
use super::noise::GradientNoise;
use super::pooling::{Found, Moments, mean, mean_noise, pooled, temperature};
use super::posterior::Temperature;
use super::scales::{Metric, Scales};
use super::together::Together;
use super::tuning::{Figures, Tuning};
use super::walker::{Pace, Walker, minibatches};
use super::watch::{Stage, Watch};
use super::{MAX_CHAINS, Member, Sampler};
use crate::error::{Error, Result};
use crate::store::Store;
use santa::dynamics::Adam;
use santa::{Chain, Checkpoint, Potential, Real, Schedule, Stepper};
use std::time::Instant;

/// Shares of the warm-up: three windows that adapt, and the last one, which does not.
const WINDOWS: &[f64] = &[0.1, 0.2, 0.2, 0.5];
/// The same where the scales are given: only the step is found.
const WINDOWS_WITH_SCALES: &[f64] = &[0.3, 0.7];
/// The step of the first window, whose scales are only guessed.
const CAUTIOUS_STEP: f64 = 0.2;
/// How often the step is halved before the warm-up gives up.
const MOST_HALVINGS: u32 = 12;
/// The rate of the descent at its end, relative to that at its beginning.
const DESCENT_END: f64 = 0.01;
/// The most steps between draws, where minibatch noise is hopeless.
const LONGEST_THINNING: f64 = 100_000.0;

/// A chain in the warm-up, between its windows.
pub struct Seat<F, P, R> {
    pub potential: Option<P>,
    pub theta: Vec<F>,
    pub recorder: R,
}

/// A chain ready to draw, and its recorder.
pub struct Ready<F: Real, P: Potential<F>, R> {
    pub walker: Walker<F, P>,
    pub recorder: R,
}

/// All chains, ready to draw.
pub type AllReady<F, P, R> = Vec<Ready<F, P, R>>;

/// Which window it is, and how long.
struct Span {
    stage: Stage,
    draws: u64,
}

/// A member's chains after a window, and what all chains have found in it.
type Window<F, P> = (Vec<Walker<F, P>>, Vec<Found>);

pub fn warm_up<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    together: &Together<'_>,
    members: Vec<Member<F, P, R>>,
    store: Option<&Store>,
    watch: &dyn Watch,
) -> Result<(Tuning<F>, AllReady<F, P, R>)> {
    if settings.dynamics.is_some() {
        return burn_in(settings, together, members, store, watch);
    }
    let given = given_scales(together, &members)?;
    let mut seats: Vec<Seat<F, P, R>> = members
        .into_iter()
        .map(|m| Seat { potential: Some(m.potential), theta: m.start, recorder: m.recorder })
        .collect();
    let (adapts, windows) = match given {
        None => (true, WINDOWS),
        Some(_) => (false, WINDOWS_WITH_SCALES),
    };
    let mut keeper = Keeper::new(store);
    let mut at = match keeper.resume(together, &mut seats)? {
        Some(interim) if interim.window < windows.len() => interim,
        _ => begin(settings, together, &mut seats, given, watch)?,
    };
    let last = windows.len() - 1;
    loop {
        keeper.keep(together, &at, &mut seats)?;
        let Interim { window: number, stage, scales, figures } = &mut at;
        let draws = ((settings.warm_up as f64 * windows[*number]).ceil() as u64).max(MIN_WINDOW);
        *stage += 1;
        figures.stream = *stage * MAX_CHAINS;
        let span = Span { stage: Stage::WarmingUp(*number as u32 + 1), draws };
        let outcome = window(settings, together, &mut seats, scales, figures, span, watch);
        let (walkers, found) = match outcome {
            Ok(window) => window,
            // A step that is too large shows as numbers that are none, or as chains that run away.
            Err(error) if error.is_divergence() => {
                let why = error.to_string();
                again(settings, together, &mut seats, scales, figures, &why)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        (figures.temperature, figures.temperature_error) = temperature(&found, settings.beta);
        let measured = mean_noise(&found.iter().map(|f| f.noise).collect::<Vec<_>>());
        if *number < last {
            let present = match adapts {
                true => pooled(settings.metric, settings.beta, &found, scales)?,
                false => scales.clone(),
            };
            let before = take_seats(&mut seats, walkers);
            let ground = match ground(settings, together, &mut seats, &present, figures) {
                Ok(ground) => ground,
                Err(error) if error.is_divergence() => {
                    let starts = seats.iter_mut().zip(before);
                    starts.for_each(|(seat, theta)| seat.theta = theta);
                    let why = error.to_string();
                    again(settings, together, &mut seats, scales, figures, &why)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            *scales = present;
            figures.keep(&ground.noise);
            figures.step = step(settings, &ground, figures.halvings);
            figures.even_step = step(settings, &ground.made_even(), figures.halvings);
            figures.thin = thinning(settings, figures);
            *number += 1;
            continue;
        }
        let Figures { temperature: mean, temperature_error: standard_error, .. } = *figures;
        let reading = Temperature { mean, standard_error, expected: 1.0 };
        if reading.is_off(settings.tolerance) {
            for (seat, walker) in seats.iter_mut().zip(walkers) {
                seat.potential = Some(walker.into_potential());
            }
            let why = off(&reading);
            again(settings, together, &mut seats, scales, figures, &why)?;
            continue;
        }
        figures.keep(&measured);
        // The centre of the scales, for all chains.
        let reference = walkers.first().map(|walker| walker.reference().to_vec());
        let ready = (walkers.into_iter().zip(seats))
            .map(|(walker, seat)| Ready { walker, recorder: seat.recorder })
            .collect();
        let Interim { scales, figures, .. } = at;
        let tuning = Tuning { scales, reference: reference.unwrap_or_default(), figures };
        return Ok((tuning, ready));
    }
}

/// Takes the chains to where the first window begins.
fn begin<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    together: &Together<'_>,
    seats: &mut [Seat<F, P, R>],
    given: Option<Scales<F>>,
    watch: &dyn Watch,
) -> Result<Interim<F>> {
    let scales = match given {
        Some(scales) => scales,
        None => {
            descend(settings, together, seats, watch)?;
            guess(settings, together, seats)?
        }
    };
    let cautious = settings.largest_step.min(CAUTIOUS_STEP);
    let mut figures =
        Figures { step: cautious, even_step: cautious, thin: 1, ..Figures::default() };
    figures.thin = thinning(settings, &figures);
    Ok(Interim { window: 0, stage: 0, scales, figures })
}

/// The fewest draws of a window.
const MIN_WINDOW: u64 = 10;

/// The scales of the first chain of all, if it was given any.
fn given_scales<F: Real, P: Potential<F>, R>(
    together: &Together<'_>,
    members: &[Member<F, P, R>],
) -> Result<Option<Scales<F>>> {
    let first = &members[0];
    if together.is_alone() {
        return Ok(first.scales.clone());
    }
    let bytes = together.of_first(|| match &first.scales {
        None => Ok(Vec::new()),
        Some(scales) => {
            let mut checkpoint = Checkpoint::new();
            scales.save(&mut checkpoint)?;
            Ok(checkpoint.to_bytes()?)
        }
    })?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let dim = first.potential.target().dim();
    Scales::restore(&Checkpoint::from_bytes(&bytes)?, dim).map(Some)
}

/// Dynamics of the caller's: so many steps that are not kept.
fn burn_in<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    together: &Together<'_>,
    members: Vec<Member<F, P, R>>,
    store: Option<&Store>,
    watch: &dyn Watch,
) -> Result<(Tuning<F>, AllReady<F, P, R>)> {
    /// Steps between two looks at whether to stop.
    const STRIDE: u64 = 50;
    let thin = settings.thin.unwrap_or(1);
    let figures = Figures { thin, ..Figures::default() };
    let mut seats: Vec<_> = members.into_iter().map(|member| (Some(member), None)).collect();
    together.each(&mut seats, |c, (member, ready)| {
        let Some(Member { potential, recorder, start, .. }) = member.take() else {
            return Ok(Vec::new());
        };
        let walker = Walker::new(settings, potential, Scales::Identity, &start, &figures, c)?;
        let ready = ready.insert(Ready { walker, recorder });
        let path = store.map(|store| store.chain_warm_up_path(c as usize, 0));
        let chain = ready.walker.chain_mut();
        if let Some(path) = path.as_ref().filter(|path| path.exists()) {
            chain.resume(path)?;
        }
        let mut since = Instant::now();
        while chain.steps() < settings.warm_up {
            let stop = watch.stop();
            if let (Some(store), Some(path)) = (store, &path)
                && (stop || store.is_due(since))
            {
                chain.save(path)?;
                since = Instant::now();
            }
            if stop {
                return Err(Error::Interrupted);
            }
            chain.advance(STRIDE.min(settings.warm_up - chain.steps()))?;
            watch.progress(c, Stage::WarmingUp(1), chain.steps(), settings.warm_up);
        }
        Ok(Vec::new())
    })?;
    let mut ready: Vec<_> = seats.into_iter().filter_map(|(_, ready)| ready).collect();
    // All chains read about one point: the end of the first one's warm-up.
    let here: Vec<f64> = ready[0].walker.chain().theta().iter().map(|x| x.to_f64()).collect();
    let reference = together.numbers_of_first(&here)?;
    let reference: Vec<F> = reference.into_iter().map(F::from_f64).collect();
    for ready in &mut ready {
        ready.walker.set_reference(&reference)?;
    }
    Ok((Tuning { scales: Scales::Identity, reference, figures }, ready))
}

/// Takes every chain to where the posterior has its mass.
fn descend<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    together: &Together<'_>,
    seats: &mut [Seat<F, P, R>],
    watch: &dyn Watch,
) -> Result<()> {
    const STRIDE: u64 = 100;
    if settings.descent == 0 {
        return Ok(());
    }
    together.each(seats, |c, seat| {
        let potential = seat.potential.take().expect("a potential between windows");
        let lr = settings.descent_lr;
        let adam = Adam::new(Schedule::cosine(lr, DESCENT_END * lr, settings.descent));
        let stepper = Stepper::new(adam, potential.target(), settings.seed, c)?;
        let minibatches = minibatches(settings, potential.target().data_size(), c)?;
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
            watch.progress(c, Stage::Descending, done, settings.descent);
        }
        let (potential, _, theta) = chain.into_parts();
        seat.potential = Some(potential);
        seat.theta = theta;
        Ok(Vec::new())
    })?;
    Ok(())
}

/// First scales, from the curvature where the chains are.
fn guess<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    together: &Together<'_>,
    seats: &mut [Seat<F, P, R>],
) -> Result<Scales<F>> {
    let dim = seats[0].theta.len();
    if settings.metric == Metric::Identity {
        return Scales::diagonal(&vec![0.0; dim], &vec![1.0; dim]);
    }
    let here: Vec<f64> = seats[0].theta.iter().map(|x| x.to_f64()).collect();
    let centre = together.numbers_of_first(&here)?;
    let found = together.each(seats, |c, seat| {
        let potential = seat.potential.as_mut().expect("a potential between windows");
        first_scales(potential, &seat.theta, settings.seed, c)
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
    together: &Together<'_>,
    seats: &mut [Seat<F, P, R>],
    scales: &Scales<F>,
    figures: &Figures,
    Span { stage, draws }: Span,
    watch: &dyn Watch,
) -> Result<Window<F, P>> {
    let dim = seats[0].theta.len();
    let none = Moments::new(dim, settings.metric.is_dense(dim));
    let mut slots: Vec<_> = seats.iter_mut().map(|seat| (seat, None)).collect();
    let outcome = together.each(&mut slots, |c, (seat, slot)| {
        let potential = seat.potential.take().expect("a potential between windows");
        let stream = figures.stream + c;
        let walker =
            Walker::new(settings, potential, scales.clone(), &seat.theta, figures, stream)?;
        let walker = slot.insert(walker);
        let (mut moments, mut temperatures) = (none.clone(), Vec::with_capacity(draws as usize));
        let mut theta = seat.theta.clone();
        for draw in 0..draws {
            if watch.stop() {
                return Err(Error::Interrupted);
            }
            let pace @ Pace { temperature, .. } = walker.advance(figures.thin)?;
            if explosion::in_draw(&pace, walker.first_reading(), settings.beta) {
                return Err(ran_away(c, temperature * settings.beta));
            }
            // The first half brings the chain to where it belongs.
            if draw >= draws / 2 {
                walker.theta(&mut theta);
                moments.push(&theta);
                temperatures.push(temperature);
            }
            watch.progress(c, stage, draw + 1, draws);
        }
        if explosion::in_chain(&temperatures, walker.first_reading(), settings.beta) {
            return Err(ran_away(c, settings.beta * mean(temperatures.iter().copied())));
        }
        let noise = walker.gradient_noise(settings)?;
        Ok(Found { noise, moments, temperatures }.to_numbers())
    });
    match outcome {
        Ok(all) => {
            let walkers = slots.into_iter().filter_map(|(_, walker)| walker).collect();
            Ok((walkers, all.iter().map(|one| Found::from_numbers(one, &none)).collect()))
        }
        // The window may be run again. Chains that went well go back to their start as well: one law
        // for all.
        Err(error) => {
            for (seat, walker) in slots {
                seat.potential = walker.map(Walker::into_potential);
            }
            Err(error)
        }
    }
}

/// Puts the chains back, where the window has left them. Returns where they were before it.
fn take_seats<F: Real, P: Potential<F>, R>(
    seats: &mut [Seat<F, P, R>],
    walkers: Vec<Walker<F, P>>,
) -> Vec<Vec<F>> {
    let take = |(seat, walker): (&mut Seat<F, P, R>, Walker<F, P>)| {
        let before = seat.theta.clone();
        walker.theta(&mut seat.theta);
        seat.potential = Some(walker.into_potential());
        before
    };
    seats.iter_mut().zip(walkers).map(take).collect()
}

/// What bounds the step, in the coordinates of some scales.
struct Ground {
    noise: GradientNoise,
    /// Of the stiffest direction that a chain has found.
    frequency: f64,
}

impl Ground {
    /// The same with noise that is as strong, and alike in all directions.
    fn made_even(&self) -> Self {
        Ground { noise: GradientNoise { unevenness: 0.0, ..self.noise }, ..*self }
    }
}

impl Figures {
    fn keep(&mut self, noise: &GradientNoise) {
        self.gradient_noise = noise.variance;
        self.noise_unevenness = noise.unevenness;
    }
}

/// Measures it where the chains are.
fn ground<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    together: &Together<'_>,
    seats: &mut [Seat<F, P, R>],
    scales: &Scales<F>,
    figures: &Figures,
) -> Result<Ground> {
    let found = together.each(seats, |c, seat| {
        let potential = seat.potential.take().expect("a potential between windows");
        let stream = figures.stream + c;
        let mut walker =
            Walker::new(settings, potential, scales.clone(), &seat.theta, figures, stream)?;
        let found = walker
            .gradient_noise(settings)
            .and_then(|noise| Ok((noise, walker.largest_frequency(settings)?)));
        seat.potential = Some(walker.into_potential());
        let (GradientNoise { variance, unevenness }, frequency) = found?;
        Ok(vec![variance, unevenness, frequency])
    })?;
    let noise = |of: &Vec<f64>| GradientNoise { variance: of[0], unevenness: of[1] };
    Ok(Ground {
        noise: mean_noise(&found.iter().map(noise).collect::<Vec<_>>()),
        frequency: found.iter().map(|of| of[2]).fold(0.0, f64::max),
    })
}

/// The largest step in units of the stiffest direction's time: beyond it thermostats of coupled
/// coordinates disturb each other, until the stiff directions are too hot and the soft ones too cold.
const RESOLVED: f64 = 1.0;

/// $h = \min(h_{\max}, 1/\omega, 2 s C/(\beta V))$, halved as often as was needed.
fn step(settings: &Sampler, Ground { noise, frequency }: &Ground, halvings: u32) -> f64 {
    let largest = settings.largest_step.min(RESOLVED / frequency) * 0.5f64.powi(halvings as i32);
    let share = noise.share(settings.noise_share);
    let allowed = 2.0 * share * settings.friction / (settings.beta * noise.variance);
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

/// Prepares a window that is run again, from where the chains are: half the step, or less if the
/// minibatch noise there asks for it.
fn again<F: Real, P: Potential<F> + Send, R: Send>(
    settings: &Sampler,
    together: &Together<'_>,
    seats: &mut [Seat<F, P, R>],
    scales: &Scales<F>,
    figures: &mut Figures,
    why: &str,
) -> Result<()> {
    figures.halvings += 1;
    if figures.halvings > MOST_HALVINGS {
        return Err(Error::Diverged(format!(
            "the warm-up found no step that works, down to {:.2e}: {why}; start the chains closer to \
             the posterior's mass, look for parameters that the data and the prior leave free, use \
             larger batches, or warm up for longer",
            figures.step
        )));
    }
    figures.step /= 2.0;
    figures.even_step /= 2.0;
    match ground(settings, together, seats, scales, figures) {
        Ok(ground) => {
            figures.keep(&ground.noise);
            figures.step = figures.step.min(step(settings, &ground, figures.halvings));
            let even = step(settings, &ground.made_even(), figures.halvings);
            figures.even_step = figures.even_step.min(even);
        }
        // The next window will say so, with a smaller step.
        Err(error) if error.is_divergence() => figures.keep(&GradientNoise::NONE),
        Err(error) => return Err(error),
    }
    figures.thin = thinning(settings, figures);
    Ok(())
}

fn ran_away(chain: u32, temperature: f64) -> Error {
    Error::Diverged(format!(
        "chain {chain} ran away: its configurational temperature is {temperature:.1e} times what it \
         should be"
    ))
}

/// What is wrong with the temperature of the last window.
fn off(reading: &Temperature) -> String {
    let Temperature { mean, standard_error, .. } = reading;
    let wrong = if reading.is_unknown() { "unknown" } else { "off" };
    format!(
        "the configurational temperature is {wrong}: {mean:.3e} ± {standard_error:.1e} times what it \
         should be"
    )
}
