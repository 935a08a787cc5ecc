//! A potential whose minibatches are divided among the members of a team.

use crate::error::Error;
use crate::ordered::{OrderedSum, share};
use crate::team::{Number, Team};
use santa::{Batch, Potential, Result, Target};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How the members' gradients become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Summing {
    /// One sum at the end, in the order that the transport likes best. A trajectory then depends on the
    /// number of members by rounding.
    #[default]
    Once,
    /// The same, begun for each part of the gradient as soon as it is known.
    Overlapped,
    /// In an order that is always the same; see [`ordered`](crate::ordered). The batch is cut into so
    /// many parts whatever the number of members, so that all numbers of them up to it follow the very
    /// same trajectory.
    Ordered {
        /// How many.
        parts: usize,
    },
}

/// Where the time of a member went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timing {
    /// Gradients.
    pub steps: u64,
    /// Computing the own part of them.
    pub compute: Duration,
    /// Waiting for the slowest member; only known if [`Shared::measuring`] was asked for, and part of
    /// `communicate` if not.
    pub wait: Duration,
    /// Summing.
    pub communicate: Duration,
}

/// A potential that every member of a team has, and whose gradients they compute together: each that of
/// its part of the minibatch.
///
/// All members hand over the same parameters and the same batch, and get the same gradient, so that all
/// take the same step: nothing in a step's noise depends on the rank.
///
/// ```
/// use santa::potential::{Batch, Potential, analytic::LinearRegression};
/// use santa::noise::{Purpose, Stream};
/// use santa_distributed::{Shared, Summing, Threads};
///
/// let (model, _) = LinearRegression::synthetic(100, 3, 1.0, 1.0, &Stream::new(1, 0, Purpose::Data))?;
/// let batch = [4, 8, 15, 16, 23, 42];
/// let gradients = Threads::run(2, |team| {
///     let mut shared = Shared::<f64, _, _>::new(model.clone(), team, Summing::Once).unwrap();
///     let mut gradient = vec![0.0; 3];
///     shared.loss_gradient(&[0.1, 0.2, 0.3], &Batch::of(&batch), &mut gradient).unwrap();
///     gradient
/// });
/// let mut alone = vec![0.0; 3];
/// model.clone().loss_gradient(&[0.1, 0.2, 0.3], &Batch::of(&batch), &mut alone)?;
/// for gradient in gradients {
///     assert!(gradient.iter().zip(&alone).all(|(a, b): (&f64, &f64)| (a - b).abs() < 1e-12));
/// }
/// # Ok::<(), santa::Error>(())
/// ```
pub struct Shared<F, P, T> {
    potential: P,
    team: T,
    summing: Summing,
    ordered: Option<OrderedSum<F>>,
    /// The gradient of the own part, and what goes with it.
    local: Vec<F>,
    /// The sum of everybody's.
    total: Vec<F>,
    everything: Vec<u32>,
    wants_to_stop: fn() -> bool,
    stopping: Rc<Cell<bool>>,
    measuring: bool,
    timing: Timing,
}

/// What is summed beside the gradient.
const EXTRAS: usize = 3;
/// The loss.
const LOSS: usize = 0;
/// How many members were asked to stop.
const STOP: usize = 1;
/// How many members could not compute.
const TROUBLE: usize = 2;

impl<F: Number, P: Potential<F>, T: Team> Shared<F, P, T> {
    /// Shares a potential in a team.
    pub fn new(potential: P, team: T, summing: Summing) -> crate::Result<Self> {
        let ordered = match summing {
            Summing::Ordered { parts } => Some(OrderedSum::new(parts, &team)?),
            _ => None,
        };
        let len = potential.target().dim() + EXTRAS;
        Ok(Shared {
            potential,
            team,
            summing,
            ordered,
            local: vec![F::ZERO; len],
            total: vec![F::ZERO; len],
            everything: Vec::new(),
            wants_to_stop: || false,
            stopping: Rc::default(),
            measuring: false,
            timing: Timing::default(),
        })
    }

    /// With a way to ask this member whether it was told to stop. The members tell each other with every
    /// gradient: see [`Shared::is_stopping`].
    pub fn stopping_when(mut self, wants_to_stop: fn() -> bool) -> Self {
        self.wants_to_stop = wants_to_stop;
        self
    }

    /// Waits for everybody before a sum, so that [`Timing`] tells waiting from communication. That takes
    /// a little time itself.
    pub fn measuring(mut self, measuring: bool) -> Self {
        self.measuring = measuring;
        self
    }

    /// Whether there is nothing to share: nobody else, and no order to keep.
    pub fn is_alone(&self) -> bool {
        self.team.size() == 1 && self.ordered.is_none() && !self.measuring
    }

    /// Whether a member had been told to stop at the last gradient: the same answer for all of them.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }
    /// The same, for somebody who does not have the potential at hand.
    pub fn stop_flag(&self) -> Rc<Cell<bool>> {
        self.stopping.clone()
    }
    /// Where the time went.
    pub fn timing(&self) -> Timing {
        self.timing
    }
    /// The potential.
    pub fn potential(&self) -> &P {
        &self.potential
    }
    /// The potential, to change or to evaluate elsewhere.
    pub fn potential_mut(&mut self) -> &mut P {
        &mut self.potential
    }
    /// The team.
    pub fn team(&self) -> &T {
        &self.team
    }

    /// Sums the gradients of the parts into `total`; returns what this member's trouble was.
    fn share_out(&mut self, theta: &[F], batch: &Batch<'_>) -> crate::Result<Option<String>> {
        let n = self.potential.target().data_size().get();
        if batch.indices().is_none() && self.everything.is_empty() {
            self.everything = (0..n as u32).collect();
        }
        let everything = std::mem::take(&mut self.everything);
        let indices = batch.indices().unwrap_or(&everything);
        let mut division = Division { theta, batch: *batch, indices, weight: 1.0, stop: F::ZERO };
        division.weight = self.potential.weight(&division.part(0..indices.len()));
        if (self.wants_to_stop)() {
            division.stop = F::ONE;
        }
        let outcome = match self.summing {
            Summing::Ordered { parts } => self.in_order(&division, parts),
            // Where somebody has no part, there are no pieces that all could make.
            Summing::Overlapped if indices.len() >= self.team.size() => self.overlapped(&division),
            Summing::Overlapped | Summing::Once => self.at_once(&division),
        };
        self.everything = everything;
        self.timing.steps += 1;
        outcome
    }

    /// The data of this member.
    fn mine(&self, len: usize) -> Range<usize> {
        share(len, self.team.rank(), self.team.size())
    }

    fn at_once(&mut self, division: &Division<'_, F>) -> crate::Result<Option<String>> {
        let started = Instant::now();
        let mine = self.mine(division.indices.len());
        let trouble = division.gradient(&mut self.potential, mine, &mut self.local);
        self.local[division.theta.len() + STOP] = division.stop;
        let computed = Instant::now();
        if self.measuring {
            self.team.wait()?;
        }
        let waited = Instant::now();
        F::sum_into(&self.team, &self.local, &mut self.total)?;
        self.timing.compute += computed - started;
        self.timing.wait += waited - computed;
        self.timing.communicate += waited.elapsed();
        Ok(trouble)
    }

    fn overlapped(&mut self, division: &Division<'_, F>) -> crate::Result<Option<String>> {
        let (started, mine) = (Instant::now(), self.mine(division.indices.len()));
        let mut computing = Duration::ZERO;
        let potential = &mut self.potential;
        let mut buffers = Some((&mut *self.local, &mut *self.total));
        F::sum_pieces(&self.team, &mut |hand_over| {
            let Some((local, total)) = buffers.take() else { return Ok(()) };
            let mut handing = Duration::ZERO;
            let mut timed = |piece, place| {
                let started = Instant::now();
                hand_over(piece, place);
                handing += started.elapsed();
            };
            let made = division.pieces(potential, mine.clone(), local, total, &mut timed);
            computing = started.elapsed().saturating_sub(handing);
            made.map_err(Error::from)
        })?;
        self.timing.compute += computing;
        self.timing.communicate += started.elapsed().saturating_sub(computing);
        Ok(None)
    }

    fn in_order(
        &mut self,
        division: &Division<'_, F>,
        parts: usize,
    ) -> crate::Result<Option<String>> {
        let started = Instant::now();
        let (mut computing, mut trouble) = (Duration::ZERO, None);
        let (first, len) = (self.mine(parts).start, division.indices.len());
        let potential = &mut self.potential;
        let leaf = |part: usize, place: &mut [F]| {
            let started = Instant::now();
            let found = division.gradient(potential, share(len, part, parts), place);
            trouble = trouble.take().or(found);
            if part == first {
                place[division.theta.len() + STOP] = division.stop;
            }
            computing += started.elapsed();
        };
        if let Some(ordered) = &mut self.ordered {
            ordered.sum(&self.team, leaf, &mut self.total)?;
        }
        self.timing.compute += computing;
        self.timing.communicate += started.elapsed().saturating_sub(computing);
        Ok(trouble)
    }
}

/// A gradient that is being divided.
struct Division<'a, F> {
    theta: &'a [F],
    /// All of it, without its data.
    batch: Batch<'a>,
    indices: &'a [u32],
    /// Of the whole batch.
    weight: f64,
    /// 1 if this member was told to stop.
    stop: F,
}

impl<F: Number> Division<'_, F> {
    fn part(&self, range: Range<usize>) -> Batch<'_> {
        self.batch.with_indices(&self.indices[range.clone()]).beginning_at(range.start)
    }

    /// The weighted gradient of a part, and what goes with it; says what went wrong.
    fn gradient(
        &self,
        potential: &mut impl Potential<F>,
        range: Range<usize>,
        place: &mut [F],
    ) -> Option<String> {
        let (gradient, extras) = place.split_at_mut(self.theta.len());
        extras.fill(F::ZERO);
        if range.is_empty() {
            gradient.fill(F::ZERO);
            return None;
        }
        let part = self.part(range);
        let share = potential.weight(&part) / self.weight;
        match potential.loss_gradient(self.theta, &part, gradient) {
            Ok(loss) => {
                let factor = F::from_f64(share);
                gradient.iter_mut().for_each(|g| *g *= factor);
                extras[LOSS] = F::from_f64(share * loss);
                None
            }
            Err(error) => {
                gradient.fill(F::ZERO);
                extras[TROUBLE] = F::ONE;
                Some(error.to_string())
            }
        }
    }

    /// The same, with every piece handed over as soon as it is known.
    fn pieces<'b>(
        &self,
        potential: &mut impl Potential<F>,
        range: Range<usize>,
        local: &'b mut [F],
        total: &'b mut [F],
        hand_over: &mut dyn FnMut(&'b [F], &'b mut [F]),
    ) -> Result<()> {
        let part = self.part(range);
        let share = potential.weight(&part) / self.weight;
        let factor = F::from_f64(share);
        let (gradient, extras) = local.split_at_mut(self.theta.len());
        let (mut left, extra_sums) = total.split_at_mut(self.theta.len());
        let mut ready = |first: usize, piece: &'b mut [F]| {
            piece.iter_mut().for_each(|g| *g *= factor);
            let (before, place) = std::mem::take(&mut left).split_at_mut(first);
            left = before;
            hand_over(piece, place);
        };
        let loss = potential.loss_gradient_pieces(self.theta, &part, gradient, &mut ready)?;
        extras.fill(F::ZERO);
        extras[STOP] = self.stop;
        extras[LOSS] = F::from_f64(share * loss);
        hand_over(extras, extra_sums);
        Ok(())
    }
}

impl<F: Number, P: Potential<F>, T: Team> Potential<F> for Shared<F, P, T> {
    fn target(&self) -> &Target {
        self.potential.target()
    }

    fn loss_gradient(&mut self, theta: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        let layout = self.potential.target().layout();
        layout.check_len("theta", theta.len())?;
        layout.check_len("the gradient", gradient.len())?;
        batch.check(self.potential.target().data_size())?;
        if self.is_alone() {
            self.stopping.set((self.wants_to_stop)());
            return self.potential.loss_gradient(theta, batch, gradient);
        }
        let trouble = self.share_out(theta, batch)?;
        let (sums, extras) = self.total.split_at(theta.len());
        self.stopping.set(extras[STOP].to_f64() > 0.0);
        if extras[TROUBLE].to_f64() > 0.0 {
            return Err(named(&self.team, trouble).into());
        }
        gradient.copy_from_slice(sums);
        Ok(extras[LOSS].to_f64())
    }

    fn loss(&mut self, theta: &[F], batch: &Batch<'_>) -> Result<f64> {
        self.potential.loss(theta, batch)
    }
    fn weight(&self, batch: &Batch<'_>) -> f64 {
        self.potential.weight(batch)
    }
    fn energy(&mut self, theta: &[F]) -> Result<f64> {
        self.potential.energy(theta)
    }
    fn state(&self) -> Vec<(&'static str, Vec<F>)> {
        self.potential.state()
    }
    fn restore(&mut self, state: &[(String, Vec<F>)]) -> Result<()> {
        self.potential.restore(state)
    }
}

/// The first trouble of all members', with its rank: the same error for all of them.
pub(crate) fn named(team: &dyn Team, trouble: Option<String>) -> Error {
    match team.gather(trouble.unwrap_or_default().as_bytes()) {
        Err(error) => error,
        Ok(all) => {
            let rank = all.iter().position(|message| !message.is_empty()).unwrap_or_default();
            let message = String::from_utf8_lossy(&all[rank]).into_owned();
            Error::Member { rank, message }
        }
    }
}
