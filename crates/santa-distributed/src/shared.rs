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

    /// Sums the gradients of the parts; returns what any member's trouble was.
    fn share_out(&mut self, theta: &[F], batch: &Batch<'_>) -> crate::Result<Option<String>> {
        let n = self.potential.target().data_size().get() as usize;
        if batch.indices().is_none() && self.everything.is_empty() {
            self.everything = (0..n as u32).collect();
        }
        let indices = batch.indices().unwrap_or(&self.everything);
        let whole = Whole { batch: *batch, indices };
        let weight = self.potential.weight(&whole.part(0..indices.len()));
        let stop = F::from_f64(f64::from(u8::from((self.wants_to_stop)())));
        let dim = theta.len();
        let (team, potential, timing) = (&self.team, &mut self.potential, &mut self.timing);
        let started = Instant::now();
        let mut trouble = None;

        // The weighted gradient of a part, and its loss with it.
        let mut leaf = |range: Range<usize>, place: &mut [F]| {
            let (gradient, extras) = place.split_at_mut(dim);
            extras.fill(F::ZERO);
            if range.is_empty() {
                return gradient.fill(F::ZERO);
            }
            let part = whole.part(range);
            let share = potential.weight(&part) / weight;
            match potential.loss_gradient(theta, &part, gradient) {
                Ok(loss) => {
                    let factor = F::from_f64(share);
                    gradient.iter_mut().for_each(|g| *g *= factor);
                    extras[LOSS] = F::from_f64(share * loss);
                }
                Err(error) => {
                    gradient.fill(F::ZERO);
                    extras[TROUBLE] = F::ONE;
                    trouble = Some(error.to_string());
                }
            }
        };
        let mine = share(indices.len(), team.rank(), team.size());
        match (self.summing, &mut self.ordered) {
            (Summing::Ordered { parts }, Some(ordered)) => {
                let mut computing = Duration::ZERO;
                let first = share(parts, team.rank(), team.size()).start;
                let leaf = |part: usize, place: &mut [F]| {
                    let started = Instant::now();
                    leaf(share(indices.len(), part, parts), place);
                    if part == first {
                        place[dim + STOP] = stop;
                    }
                    computing += started.elapsed();
                };
                ordered.sum(team, leaf, &mut self.total)?;
                timing.compute += computing;
                timing.communicate += started.elapsed().saturating_sub(computing);
            }
            (Summing::Overlapped, _) if indices.len() >= team.size() => {
                let part = whole.part(mine);
                let share = potential.weight(&part) / weight;
                let mut computing = Duration::ZERO;
                let mut slots = Some((&mut *self.local, &mut *self.total));
                F::sum_pieces(team, &mut |hand_over| {
                    let Some((local, total)) = slots.take() else { return Ok(()) };
                    let mut handing = Duration::ZERO;
                    let mut timed = |piece, place| {
                        let started = Instant::now();
                        hand_over(piece, place);
                        handing += started.elapsed();
                    };
                    let job = Job { theta, part: &part, share, stop };
                    let made = job.run(potential, local, total, &mut timed);
                    computing = started.elapsed().saturating_sub(handing);
                    made.map_err(Error::from)
                })?;
                timing.compute += computing;
                timing.communicate += started.elapsed().saturating_sub(computing);
            }
            _ => {
                leaf(mine, &mut self.local);
                self.local[dim + STOP] = stop;
                let computed = Instant::now();
                if self.measuring {
                    team.wait()?;
                }
                let waited = Instant::now();
                F::sum_into(team, &self.local, &mut self.total)?;
                timing.compute += computed - started;
                timing.wait += waited - computed;
                timing.communicate += waited.elapsed();
            }
        }
        timing.steps += 1;
        Ok(trouble)
    }
}

/// A gradient whose pieces are summed as they come.
struct Job<'j, F> {
    theta: &'j [F],
    part: &'j Batch<'j>,
    share: f64,
    stop: F,
}

impl<F: Number> Job<'_, F> {
    fn run<'a>(
        &self,
        potential: &mut impl Potential<F>,
        local: &'a mut [F],
        total: &'a mut [F],
        hand_over: &mut dyn FnMut(&'a [F], &'a mut [F]),
    ) -> Result<()> {
        let (gradient, extras) = local.split_at_mut(self.theta.len());
        let (mut left, extra_sums) = total.split_at_mut(self.theta.len());
        let factor = F::from_f64(self.share);
        let mut ready = |first: usize, piece: &'a mut [F]| {
            piece.iter_mut().for_each(|g| *g *= factor);
            let (before, place) = std::mem::take(&mut left).split_at_mut(first);
            left = before;
            hand_over(piece, place);
        };
        let loss = potential.loss_gradient_pieces(self.theta, self.part, gradient, &mut ready)?;
        extras.fill(F::ZERO);
        extras[STOP] = self.stop;
        extras[LOSS] = F::from_f64(self.share * loss);
        hand_over(extras, extra_sums);
        Ok(())
    }
}

/// A batch that is being divided.
struct Whole<'a> {
    batch: Batch<'a>,
    indices: &'a [u32],
}

impl Whole<'_> {
    fn part(&self, range: Range<usize>) -> Batch<'_> {
        self.batch.with_indices(&self.indices[range.clone()]).beginning_at(range.start)
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
