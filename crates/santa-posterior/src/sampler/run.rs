//! From settings and chains to draws.

use super::explosion;
use super::plan::Plan;
use super::posterior::{Posterior, STATISTICS};
use super::record::Recorder;
use super::together::Together;
use super::tuning::Tuning;
use super::walker::Walker;
use super::warm_up::{Ready, warm_up};
use super::watch::{Stage, Watch};
use super::{Member, Sampler};
use crate::Draws;
use crate::error::{Error, Result};
use crate::parallel;
use crate::store::{DRAWS, Store};
use santa::{Checkpoint, Potential, Real};
use santa_distributed::Team;
use std::time::Instant;

/// Draws between two writes to a store, at most.
const PART: u64 = 500;
/// Seconds after which the members of a team hear of each other while they draw: whether to stop.
const ROUND: f64 = 1.0;

/// A chain while it draws.
struct Drawing<F: Real, P: Potential<F>, R> {
    ready: Ready<F, P, R>,
    /// Draws made so far, with those of an earlier sitting.
    made: u64,
    /// How many of them are in the store.
    written: u64,
    /// When they were written, or the drawing began.
    since: Instant,
    /// Quantities and statistics of the draws of this sitting that are kept in memory.
    quantities: Vec<f64>,
    statistics: Vec<f64>,
    /// It cannot go on.
    failed: bool,
}

type Drawings<F, P, R> = Vec<Drawing<F, P, R>>;

/// Runs the chains of one member of a team. What it returns has the draws of all chains, and the
/// recorders of the member's own.
pub fn run<F: Real, P: Potential<F> + Send, R: Recorder<F, P>>(
    settings: &Sampler,
    team: &dyn Team,
    members: Vec<Member<F, P, R>>,
    store: Option<&Store>,
    watch: &dyn Watch,
) -> Result<Posterior<F, R>> {
    let together = Together::new(team, settings.chains);
    together.alike("sampler or model", about(settings, &together, &members))?;
    let names = members[0].recorder.names();
    if let Some(store) = store {
        together.of_first(|| store.begin(settings, &names).map(|()| Vec::new()))?;
    }
    let dim = members[0].potential.target().dim();
    let (tuning, mut drawing) = match known(&together, dim, store)? {
        Some((tuning, store)) => {
            let drawing = go_on(settings, &together, members, &tuning, store)?;
            (tuning, drawing)
        }
        None => {
            let (tuning, ready) = warm_up(settings, &together, members, store, watch)?;
            let mut drawing: Vec<_> = ready.into_iter().map(Drawing::new).collect();
            if let Some(store) = store {
                together.each(&mut drawing, |chain, one| {
                    store.write_checkpoint(chain as usize, &one.checkpoint()?)?;
                    Ok(Vec::new())
                })?;
                // Last: with it the warm-up is done.
                together.of_first(|| {
                    tuning.write(store.tuning_path())?;
                    store.forget_warm_up().map(|()| Vec::new())
                })?;
            }
            (tuning, drawing)
        }
    };
    let plan = settings.plan(tuning.figures.thin);
    let complete = draw(settings, &together, &mut drawing, &plan, store, watch)?;

    let (dim, width) = (names.len(), names.len() + STATISTICS.len());
    let all = together.each(&mut drawing, |chain, one| one.draws(chain, dim, store))?;
    let mut draws = Draws::new(&names, all.len())?;
    let mut statistics = Draws::new(STATISTICS, all.len())?;
    for (chain, numbers) in all.iter().enumerate() {
        let (mine, others) = numbers.split_at(numbers.len() / width * dim);
        draws.extend(chain, mine)?;
        statistics.extend(chain, others)?;
    }
    let recorders = drawing.into_iter().map(|one| one.ready.recorder).collect();
    let beta = settings.beta;
    Ok(Posterior { draws, statistics, tuning, recorders, plan, beta, complete })
}

/// What all members must have alike, if a member can begin.
fn about<F: Real, P: Potential<F>, R: Recorder<F, P>>(
    settings: &Sampler,
    together: &Together<'_>,
    members: &[Member<F, P, R>],
) -> Result<Vec<u8>> {
    settings.check()?;
    if (settings.chains as usize) < together.size() {
        let allowed = format!("there must be one for each of the {} ranks", together.size());
        return Err(Error::setting("chains", settings.chains, allowed));
    }
    if members.len() != together.chains().len() {
        let (given, due) = (members.len(), together.chains().len());
        let allowed =
            format!("{due} of them are this process's, and {given} members were handed over");
        return Err(Error::setting("chains", settings.chains, allowed));
    }
    // Nobody waits for a warm-up to learn that the plan is impossible.
    settings.plan(1).check()?;
    let names = members[0].recorder.names();
    Draws::new(&names, members.len())?;
    let dim = members[0].potential.target().dim();
    Ok(serde_json::to_vec(&(settings, names, dim)).expect("settings are plain data"))
}

/// What an earlier sitting has found, as rank 0 sees it.
fn known<'s, F: Real>(
    together: &Together<'_>,
    dim: usize,
    store: Option<&'s Store>,
) -> Result<Option<(Tuning<F>, &'s Store)>> {
    let Some(store) = store else { return Ok(None) };
    let bytes = together.of_first(|| match store.is_begun() {
        true => Ok(Checkpoint::read(store.tuning_path())?.to_bytes()?),
        false => Ok(Vec::new()),
    })?;
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some((Tuning::restore(&Checkpoint::from_bytes(&bytes)?, dim)?, store)))
}

/// Chains as an earlier sitting has left them.
fn go_on<F: Real, P: Potential<F> + Send, R: Recorder<F, P>>(
    settings: &Sampler,
    together: &Together<'_>,
    members: Vec<Member<F, P, R>>,
    tuning: &Tuning<F>,
    store: &Store,
) -> Result<Drawings<F, P, R>> {
    let mut seats: Vec<_> = members.into_iter().map(|member| (Some(member), None)).collect();
    together.each(&mut seats, |chain, (member, drawing)| {
        let Some(Member { potential, mut recorder, start, .. }) = member.take() else {
            return Ok(Vec::new());
        };
        let Tuning { scales, reference, figures } = tuning;
        let stream = figures.stream + chain;
        let mut walker = Walker::new(settings, potential, scales.clone(), &start, figures, stream)?;
        let checkpoint = store.read_checkpoint(chain as usize)?;
        walker.chain_mut().restore(&checkpoint)?;
        walker.set_reference(reference)?;
        recorder.restore(&checkpoint)?;
        let mut one = Drawing::new(Ready { walker, recorder });
        one.made = checkpoint.meta(DRAWS)?;
        one.written = one.made;
        store.forget_after(chain as usize, one.made)?;
        // Before the work and not after it.
        store.check_chain(chain as usize, one.ready.recorder.names().len(), one.made)?;
        *drawing = Some(one);
        Ok(Vec::new())
    })?;
    Ok(seats.into_iter().filter_map(|(_, drawing)| drawing).collect())
}

/// Makes the draws that are missing. Returns whether all are made, by all chains of the team; if not,
/// somebody was asked to stop.
fn draw<F: Real, P: Potential<F> + Send, R: Recorder<F, P>>(
    settings: &Sampler,
    together: &Together<'_>,
    drawing: &mut Drawings<F, P, R>,
    plan: &Plan,
    store: Option<&Store>,
    watch: &dyn Watch,
) -> Result<bool> {
    // In rounds, the first of which only tells how far everybody is.
    let mut until = if together.is_alone() { settings.draws } else { 0 };
    loop {
        let outcome = together.each(drawing, |chain, one| {
            let (before, begun) = (one.made, Instant::now());
            one.draw(settings, plan, chain, until, store, watch)?;
            let seconds = match one.made - before {
                0 => 0.0,
                made => begun.elapsed().as_secs_f64() / made as f64,
            };
            Ok(vec![one.made as f64, f64::from(u8::from(watch.stop())), seconds])
        });
        let all = match outcome {
            Ok(all) => all,
            Err(error) => {
                // What was drawn well is kept; the first error is the one to tell.
                let first = together.chains().start as usize;
                let _ = parallel::each(drawing, |i, one| one.flush(store, first + i));
                // By everybody: an error may end all processes at once.
                let _ = together.alike("error", Ok(Vec::new()));
                return Err(error);
            }
        };
        let column = |k: usize| all.iter().map(move |numbers| numbers[k]);
        let least = column(0).fold(f64::INFINITY, f64::min) as u64;
        if least >= settings.draws {
            return Ok(true);
        }
        if together.is_alone() || column(1).any(|stop| stop > 0.0) {
            return Ok(false);
        }
        let slowest = column(2).fold(0.0, f64::max);
        let draws = if until == 0 { 1 } else { (ROUND / slowest).clamp(1.0, PART as f64) as u64 };
        until = (least + draws).min(settings.draws);
    }
}

impl<F: Real, P: Potential<F>, R: Recorder<F, P>> Drawing<F, P, R> {
    fn new(ready: Ready<F, P, R>) -> Self {
        let (quantities, statistics) = (Vec::new(), Vec::new());
        let since = Instant::now();
        Drawing { ready, made: 0, written: 0, since, quantities, statistics, failed: false }
    }

    /// Everything that the next draws depend on.
    fn checkpoint(&self) -> Result<Checkpoint> {
        let mut checkpoint = self.ready.walker.chain().checkpoint()?;
        self.ready.recorder.save(&mut checkpoint)?;
        checkpoint.insert_meta(DRAWS, &self.made)?;
        Ok(checkpoint)
    }

    /// Makes the draws that are missing until there are so many, or somebody asks to stop.
    fn draw(
        &mut self,
        settings: &Sampler,
        plan: &Plan,
        chain: u32,
        until: u64,
        store: Option<&Store>,
        watch: &dyn Watch,
    ) -> Result<()> {
        let mut theta = vec![F::ZERO; self.ready.walker.chain().theta().len()];
        let mut row = vec![0.0; self.ready.recorder.names().len()];
        watch.progress(chain, Stage::Drawing, self.made, settings.draws);
        while self.made < until && !watch.stop() {
            self.failed = true;
            let Ready { walker, recorder } = &mut self.ready;
            let since = self.made.checked_sub(1).map_or(0, |last| plan.step_of(last));
            let pace = walker
                .advance(plan.step_of(self.made) - since)
                .map_err(|error| in_chain(error, chain, self.made))?;
            // Of other dynamics it is not known what they sample.
            if settings.dynamics.is_none() && explosion::in_draw(&pace, f64::NAN, settings.beta) {
                let what = format!("its configurational temperature is {:.1e}", pace.temperature);
                return Err(diverged(chain, self.made, &what));
            }
            walker.theta(&mut theta);
            recorder.record(walker.chain_mut().potential_mut().inner_mut(), &theta, &mut row)?;
            self.failed = false;
            self.quantities.extend_from_slice(&row);
            self.statistics.extend([pace.temperature, pace.kinetic, pace.loss]);
            self.made += 1;
            watch.progress(chain, Stage::Drawing, self.made, settings.draws);
            let fresh = self.made - self.written;
            if store.is_some_and(|store| fresh >= PART || store.is_due(self.since)) {
                self.flush(store, chain as usize)?;
            }
        }
        Ok(())
    }

    /// Writes the draws that are not in the store yet, if there is one, and the chain after them.
    fn flush(&mut self, store: Option<&Store>, chain: usize) -> Result<()> {
        let due = self.made > self.written && !self.failed;
        let Some(store) = store.filter(|_| due) else { return Ok(()) };
        store.write_part(chain, self.written, &self.quantities, &self.statistics)?;
        self.quantities.clear();
        self.statistics.clear();
        self.written = self.made;
        store.write_checkpoint(chain, &self.checkpoint()?)?;
        self.since = Instant::now();
        Ok(())
    }

    /// The `dim` quantities of all draws, and after them their statistics.
    fn draws(&mut self, chain: u32, dim: usize, store: Option<&Store>) -> Result<Vec<f64>> {
        let chain = chain as usize;
        self.flush(store, chain)?;
        let (mut all, statistics) = match store {
            Some(store) => {
                let read = store.read_chain(chain, dim)?;
                (read.quantities, read.statistics)
            }
            None => (std::mem::take(&mut self.quantities), std::mem::take(&mut self.statistics)),
        };
        all.extend(statistics);
        Ok(all)
    }
}

/// Says which chain it was, and what to try.
fn in_chain(error: Error, chain: u32, draw: u64) -> Error {
    match error {
        Error::Santa(error @ santa::Error::NotFinite { .. }) => {
            diverged(chain, draw, &error.to_string())
        }
        other => other,
    }
}

fn diverged(chain: u32, draw: u64, what: &str) -> Error {
    Error::Diverged(format!(
        "chain {chain} diverged after {draw} draws ({what}); use a smaller step, larger batches, or a \
         longer warm-up"
    ))
}

/// The recorders of all chains on rank 0, as copies of its first with what the others have gathered;
/// those of a member's own chains elsewhere.
pub fn gather_recorders<F: Real, P: Potential<F>, R: Recorder<F, P> + Clone>(
    together: &Together<'_>,
    mut recorders: Vec<R>,
) -> Result<Vec<R>> {
    let saved = recorders.iter().map(|recorder| {
        let mut checkpoint = Checkpoint::new();
        recorder.save(&mut checkpoint)?;
        Ok(checkpoint.to_bytes()?)
    });
    let others = together.to_first(saved.collect())?;
    let restored = others.iter().try_for_each(|bytes| {
        let mut recorder = recorders[0].clone();
        recorder.restore(&Checkpoint::from_bytes(bytes)?)?;
        recorders.push(recorder);
        Ok(())
    });
    together.alike("recorder", restored.map(|()| Vec::new()))?;
    Ok(recorders)
}
