//! The replicas at work: steps, energies, decisions, and the exchange of parameters.

use super::energies::estimate;
use super::penalty::Ratio;
use super::{Correction, Energies, Statistics, Tempering};
use crate::error::{Error, Result};
use crate::ordered::share;
use crate::team::{Number, Team};
use santa::dynamics::GradientAt;
use santa::noise::{MAX_STEPS, Purpose, Stream};
use santa::{Algorithm, Chain, Integrator, OnTrouble, Potential};
use std::ops::Range;

/// The uniform numbers of the decisions.
const DECISIONS: Purpose = Purpose::Custom(70);

/// Replicas of one potential at the temperatures of a ladder, divided among the members of a team.
///
/// Member k has the rungs that [`share`] gives it; the coldest is with the first member. Advancing, saving
/// and restoring are collective: all members call them.
pub struct Replicas<F: Number, P: Potential<F>, T: Team> {
    pub(super) settings: Tempering,
    pub(super) team: T,
    /// The own rungs.
    pub(super) rungs: Range<usize>,
    pub(super) chains: Vec<Chain<F, P>>,
    /// By how much their parameters are ahead of their momenta; see [`Replicas::walk`].
    leads: Vec<Vec<F>>,
    /// Rounds of swaps made.
    pub(super) rounds: u64,
    pub(super) statistics: Statistics,
}

/// What an observer sees after a round: steps, and then swaps.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Round<'a, F> {
    /// Its number, from 1.
    pub round: u64,
    /// The pairs that swapped, by their colder rung, counted from 0.
    pub swapped: &'a [usize],
    /// Which walker is at each rung now.
    pub walkers: &'a [usize],
    /// The parameters at the coldest rung: a draw. Only the first member has them.
    pub coldest: Option<&'a [F]>,
}

impl Tempering {
    /// Builds the replicas of this member by `chain`, which is given the number of a rung, counted from
    /// 0, and its inverse temperature. The dynamics must sample at that temperature throughout, with
    /// these settings' seed, and with the rung as the number of their chain.
    pub fn init<F: Number, P: Potential<F>, T: Team>(
        &self,
        team: T,
        mut chain: impl FnMut(u32, f64) -> santa::Result<Chain<F, P>>,
    ) -> Result<Replicas<F, P, T>> {
        let rungs = share(self.betas.len(), team.rank(), team.size());
        let mut build = || {
            self.check()?;
            if self.betas.len() < team.size() {
                return Err(Error::Setting {
                    field: "betas".into(),
                    value: format!("a list of {}", self.betas.len()),
                    allowed: format!(
                        "there must be one for each of the {} ranks; start fewer, or add rungs",
                        team.size()
                    ),
                });
            }
            let one = |r: usize| {
                let chain = chain(r as u32, self.betas[r])?;
                self.fits(r, &chain)?;
                Ok(chain)
            };
            rungs.clone().map(one).collect::<Result<Vec<_>>>()
        };
        let chains = agree(&team, build())?;
        let replicas = Replicas {
            leads: chains.iter().map(|chain| vec![F::ZERO; chain.theta().len()]).collect(),
            statistics: Statistics::new(self.betas.len()),
            settings: self.clone(),
            team,
            rungs,
            chains,
            rounds: 0,
        };
        replicas.check_alike()?;
        Ok(replicas)
    }

    /// Refuses a chain that does not belong at a rung.
    fn fits<F: Number, P: Potential<F>>(&self, rung: usize, chain: &Chain<F, P>) -> Result<()> {
        let stepper = chain.stepper();
        let refuse = |what: &str, value: String, allowed: String| {
            Err(Error::Setting { field: format!("{what} of rung {rung}"), value, allowed })
        };
        for step in [1, MAX_STEPS - 1] {
            let (beta, wanted) = (stepper.algorithm().beta(step)?, self.betas[rung]);
            if beta != wanted {
                let allowed = format!("it must be {wanted} at every step, by the ladder");
                return refuse(
                    "the inverse temperature",
                    format!("{beta} at step {step}"),
                    allowed,
                );
            }
        }
        if stepper.chain() as usize != rung {
            let allowed = "it must be the number of the rung, so that no two share their noise";
            return refuse("the chain", stepper.chain().to_string(), allowed.into());
        }
        if stepper.seed() != self.seed {
            let allowed = format!("it must be that of the settings, {}", self.seed);
            return refuse("the seed", stepper.seed().to_string(), allowed);
        }
        if let policy @ OnTrouble::RollBack { .. } = stepper.trouble_policy() {
            let allowed = "a rung that went back alone would bring back parameters that have moved on \
                           to another; stop or skip, and restore a checkpoint of all";
            return refuse("on_trouble", format!("{policy:?}"), allowed.into());
        }
        if matches!(self.energies, Energies::Minibatches { .. }) {
            let n = stepper.target().data_size().get();
            if u32::try_from(n).is_err() {
                let allowed = format!("minibatches index at most {} data", u32::MAX);
                return refuse("the data size", n.to_string(), allowed);
            }
        }
        Ok(())
    }
}

impl<F: Number, P: Potential<F>, T: Team> Replicas<F, P, T> {
    /// Refuses members whose settings or models differ.
    fn check_alike(&self) -> Result<()> {
        let dim = self.chains.first().map_or(0, |chain| chain.theta().len());
        let mine = format!("{:?} {} {dim}", self.settings, F::NAME);
        let all = self.team.gather(mine.as_bytes())?;
        match all.iter().position(|other| *other != all[0]) {
            None => Ok(()),
            Some(rank) => Err(Error::Apart {
                rank,
                what: "ladder, or number of parameters,".into(),
                remedy: "start all with the same settings and model".into(),
            }),
        }
    }

    /// Makes so many rounds: [`Tempering::swap_every`] steps of every chain, and then swaps.
    pub fn advance(&mut self, rounds: u64) -> Result<()> {
        self.advance_with(rounds, |_| ())
    }

    /// The same, and shows each round to `observer`.
    pub fn advance_with(
        &mut self,
        rounds: u64,
        mut observer: impl FnMut(&Round<'_, F>),
    ) -> Result<()> {
        for _ in 0..rounds {
            let walked = self.walk();
            let swapped = self.swap(walked);
            for (chain, lead) in self.chains.iter_mut().zip(&self.leads) {
                chain.theta_mut().iter_mut().zip(lead).for_each(|(x, d)| *x += *d);
            }
            let swapped = swapped?;
            observer(&Round {
                round: self.rounds,
                swapped: &swapped,
                walkers: self.statistics.walkers(),
                coldest: self.coldest(),
            });
        }
        Ok(())
    }

    /// The steps of a round. What a last step has moved the parameters by is half taken back, and kept in
    /// `leads`: they are then where they were at the time of their momentum, and independent of it up to
    /// the second order of the step size.
    fn walk(&mut self) -> Result<()> {
        self.leads.iter_mut().for_each(|lead| lead.fill(F::ZERO));
        for (chain, lead) in self.chains.iter_mut().zip(&mut self.leads) {
            chain.advance(self.settings.swap_every - 1)?;
            let before = is_staggered(chain.stepper().algorithm()).then(|| chain.theta().to_vec());
            chain.advance(1)?;
            for (i, before) in before.into_iter().flatten().enumerate() {
                let theta = &mut chain.theta_mut()[i];
                lead[i] = F::HALF * (*theta - before);
                *theta -= lead[i];
            }
        }
        Ok(())
    }

    /// The settings.
    pub fn settings(&self) -> &Tempering {
        &self.settings
    }
    /// Rounds made so far.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }
    /// What the swaps were like; the same for all members.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }
    /// The rungs of this member, from the coldest.
    pub fn rungs(&self) -> Range<usize> {
        self.rungs.clone()
    }
    /// Their chains.
    pub fn chains(&self) -> &[Chain<F, P>] {
        &self.chains
    }
    /// Their chains, to change.
    pub fn chains_mut(&mut self) -> &mut [Chain<F, P>] {
        &mut self.chains
    }
    /// The parameters at the coldest rung, if it is with this member, the first.
    pub fn coldest(&self) -> Option<&[F]> {
        self.chain(0).map(Chain::theta)
    }

    fn chain(&self, rung: usize) -> Option<&Chain<F, P>> {
        self.chains.get(rung.checked_sub(self.rungs.start)?)
    }

    /// The pairs whose turn it is, by their colder rung: even and odd ones in turn.
    fn pairs(&self) -> impl Iterator<Item = usize> + use<F, P, T> {
        ((self.rounds % 2) as usize..self.settings.betas.len() - 1).step_by(2)
    }

    /// The swaps of a round: energies, decisions, exchanges; returns the pairs that swapped. A member that could not come this far says so to
    /// the others here.
    pub(super) fn swap(&mut self, before: Result<()>) -> Result<Vec<usize>> {
        const FINE: u8 = 0;
        const TROUBLE: u8 = 1;
        let energies = before.and_then(|()| self.energies());
        let message = match &energies {
            Ok(energies) => [&[FINE], bytemuck::cast_slice(energies)].concat(),
            Err(error) => [&[TROUBLE], error.to_string().as_bytes()].concat(),
        };
        let all = self.team.gather(&message)?;
        let trouble = all.iter().position(|message| message.first() != Some(&FINE));
        if let Some(rank) = trouble {
            let message = String::from_utf8_lossy(all[rank].get(1..).unwrap_or_default());
            return Err(match energies {
                Err(own) if rank == self.team.rank() => own,
                _ => Error::Member { rank, message: message.into_owned() },
            });
        }
        // In the order of the rungs, which is that of the members.
        let known: Vec<f64> = all
            .iter()
            .flat_map(|message| bytemuck::pod_collect_to_vec::<u8, f64>(&message[1..]))
            .collect();
        let swapped = self.decide(&known);
        self.trade(&swapped)?;
        self.rounds += 1;
        Ok(swapped)
    }

    /// The energies of the own rungs whose turn it is, one for each batch.
    fn energies(&mut self) -> Result<Vec<f64>> {
        let mut energies = Vec::new();
        for pair in self.pairs() {
            for rung in [pair, pair + 1] {
                let Some(place) = rung.checked_sub(self.rungs.start) else { continue };
                let Some(chain) = self.chains.get_mut(place) else { continue };
                let first = energies.len();
                estimate(&self.settings, self.rounds, pair, chain, &mut energies)?;
                if let Some(bad) = energies[first..].iter().find(|u| !u.is_finite()) {
                    return Err(Error::Santa(santa::Error::NotFinite {
                        what: format!("the energy at rung {rung}"),
                        segment: "all".into(),
                        index: 0,
                        value: *bad,
                        step: chain.steps(),
                    }));
                }
            }
        }
        Ok(energies)
    }

    /// Which pairs swap: the same for all members.
    fn decide(&mut self, energies: &[f64]) -> Vec<usize> {
        let (batches, penalised) = match self.settings.energies {
            Energies::Full => (1, false),
            Energies::Minibatches { batches, correction, .. } => {
                (batches, correction == Correction::Penalty)
            }
        };
        let mut swapped = Vec::new();
        for (pair, both) in self.pairs().zip(energies.chunks_exact(2 * batches)) {
            let (colder, hotter) = both.split_at(batches);
            let betas = &self.settings.betas;
            let ratio = Ratio::new(betas[pair] - betas[pair + 1], colder, hotter);
            let probability = ratio.acceptance(penalised);
            self.statistics.attempted(pair, &ratio, probability);
            let stream = Stream::new(self.settings.seed, pair as u32, DECISIONS);
            if stream.uniform(self.rounds, 0, 0) < probability {
                self.statistics.swapped(pair);
                swapped.push(pair);
            }
        }
        self.statistics.look_at_ends();
        swapped
    }

    /// Exchanges the parameters of these pairs.
    fn trade(&mut self, swapped: &[usize]) -> Result<()> {
        let (rank, size) = (self.team.rank(), self.team.size());
        // Shares are contiguous, so between two members there is at most one pair: the last rung of
        // the one and the first of the other.
        let ends_a_share = |pair: &usize| {
            (0..size).any(|rank| share(self.settings.betas.len(), rank, size).end == pair + 1)
        };
        let any_crosses = swapped.iter().any(ends_a_share);
        let mut outgoing: Vec<Vec<u8>> = vec![Vec::new(); size];
        let mut crossing = Vec::new();
        for pair in swapped {
            let mine = [pair, &(pair + 1)].map(|rung| self.rungs.contains(rung));
            let place = |rung: usize| rung - self.rungs.start;
            match mine {
                [true, true] => {
                    let (left, right) = self.chains.split_at_mut(place(pair + 1));
                    if let (Some(colder), Some(hotter)) = (left.last_mut(), right.first_mut()) {
                        colder.theta_mut().swap_with_slice(hotter.theta_mut());
                    }
                }
                [true, false] => crossing.push((place(*pair), rank + 1)),
                [false, true] => crossing.push((place(pair + 1), rank - 1)),
                [false, false] => {}
            }
        }
        if !any_crosses {
            return Ok(());
        }
        for (place, other) in &crossing {
            outgoing[*other] = bytemuck::cast_slice(self.chains[*place].theta()).to_vec();
        }
        let outgoing: Vec<&[u8]> = outgoing.iter().map(Vec::as_slice).collect();
        let received = self.team.exchange(&outgoing)?;
        for (place, other) in crossing {
            let theta = bytemuck::pod_collect_to_vec::<u8, F>(&received[other]);
            let here = self.chains[place].theta_mut();
            if theta.len() != here.len() {
                let message = format!("sent {} parameters, not {}", theta.len(), here.len());
                return Err(Error::Member { rank: other, message });
            }
            here.copy_from_slice(&theta);
        }
        Ok(())
    }
}

/// Whether dynamics leave the parameters half a step ahead of the momentum: those that move them as the
/// last thing in a step, or that begin the step with the second half of a move.
fn is_staggered(algorithm: &Algorithm) -> bool {
    let synchronous = |integrator, gradient_at| {
        integrator == Integrator::Splitting && gradient_at == GradientAt::Start
    };
    match algorithm {
        Algorithm::Santa(s) => !synchronous(s.integrator, s.gradient_at),
        Algorithm::Msgnht(s) => !synchronous(s.integrator, s.gradient_at),
        Algorithm::Sghmc(_) | Algorithm::Sgnht(_) => true,
        _ => false,
    }
}

/// The outcome if all members are well; an error for all of them if one is not.
pub(super) fn agree<O>(team: &dyn Team, outcome: Result<O>) -> Result<O> {
    let message = outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let all = team.gather(message.as_bytes())?;
    match (outcome, all.iter().position(|message| !message.is_empty())) {
        (Ok(_), Some(rank)) => {
            let message = String::from_utf8_lossy(&all[rank]).into_owned();
            Err(Error::Member { rank, message })
        }
        (outcome, _) => outcome,
    }
}
