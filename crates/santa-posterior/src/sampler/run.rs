//! From settings and chains to draws.

use super::plan::Plan;
use super::posterior::{Posterior, STATISTICS};
use super::record::Recorder;
use super::tuning::Tuning;
use super::walker::Walker;
use super::warm_up::{Ready, warm_up};
use super::watch::{Stage, Watch};
use super::{Member, Sampler};
use crate::Draws;
use crate::error::{Error, Result};
use crate::parallel::each;
use crate::store::Store;
use santa::{Checkpoint, Potential, Real};

/// Draws between two writes to a store.
const PART: u64 = 500;
/// Where a chain's checkpoint keeps how many draws it has made.
const DRAWS: &str = "posterior/draws";

/// A chain while it draws.
struct Drawing<F: Real, P: Potential<F>, R> {
    ready: Ready<F, P, R>,
    /// Draws made so far, with those of an earlier sitting.
    made: u64,
    /// Quantities of the draws of this sitting that are kept in memory.
    quantities: Vec<f64>,
    statistics: Vec<f64>,
}

type Drawings<F, P, R> = Vec<Drawing<F, P, R>>;

pub fn run<F: Real, P: Potential<F> + Send, R: Recorder<F, P>>(
    settings: &Sampler,
    members: Vec<Member<F, P, R>>,
    store: Option<&Store>,
    watch: &dyn Watch,
) -> Result<Posterior<F, R>> {
    // Nobody waits for a warm-up to learn that the plan is impossible.
    settings.plan(1).check()?;
    let names = members[0].recorder.names();
    let empty = Draws::new(&names, members.len())?;
    if let Some(store) = store {
        store.begin(settings, &names)?;
    }
    let (tuning, mut drawing) = match store.map(Store::has_tuning) {
        Some(true) => go_on(settings, members, store.expect("it has a tuning"))?,
        _ => {
            let (tuning, ready) = warm_up(settings, members, watch)?;
            let drawing: Vec<_> = ready.into_iter().map(Drawing::new).collect();
            if let Some(store) = store {
                for (c, one) in drawing.iter().enumerate() {
                    store.write_checkpoint(c, &one.checkpoint()?)?;
                }
                // Last: with it the warm-up is done.
                tuning.write(store.tuning_path())?;
            }
            (tuning, drawing)
        }
    };
    let plan = settings.plan(tuning.figures.thin);
    each(&mut drawing, |c, one| one.draw(settings, &plan, c, names.len(), store, watch))?;

    let complete = drawing.iter().all(|one| one.made >= settings.draws);
    let (mut draws, mut statistics) = (empty, Draws::new(STATISTICS, drawing.len())?);
    match store {
        Some(store) => store.read_into(&mut draws, &mut statistics)?,
        None => {
            for (c, one) in drawing.iter().enumerate() {
                draws.extend(c, &one.quantities)?;
                statistics.extend(c, &one.statistics)?;
            }
        }
    }
    let recorders = drawing.into_iter().map(|one| one.ready.recorder).collect();
    let beta = settings.beta;
    Ok(Posterior { draws, statistics, tuning, recorders, plan, beta, complete })
}

/// Chains as an earlier sitting has left them.
fn go_on<F: Real, P: Potential<F> + Send, R: Recorder<F, P>>(
    settings: &Sampler,
    members: Vec<Member<F, P, R>>,
    store: &Store,
) -> Result<(Tuning<F>, Drawings<F, P, R>)> {
    let dim = members[0].potential.target().dim();
    let tuning: Tuning<F> = Tuning::read(store.tuning_path(), dim)?;
    let mut drawing = Vec::with_capacity(members.len());
    for (c, member) in members.into_iter().enumerate() {
        let Member { potential, mut recorder, start, .. } = member;
        let stream = tuning.figures.stream + c as u32;
        let scales = tuning.scales.clone();
        let mut walker = Walker::new(settings, potential, scales, &start, &tuning.figures, stream)?;
        let checkpoint = store.read_checkpoint(c)?;
        walker.chain_mut().restore(&checkpoint)?;
        walker.set_reference(&tuning.reference)?;
        recorder.restore(&checkpoint)?;
        let mut one = Drawing::new(Ready { walker, recorder });
        one.made = checkpoint.meta(DRAWS)?;
        store.forget_after(c, one.made)?;
        drawing.push(one);
    }
    Ok((tuning, drawing))
}

impl<F: Real, P: Potential<F>, R: Recorder<F, P>> Drawing<F, P, R> {
    fn new(ready: Ready<F, P, R>) -> Self {
        Drawing { ready, made: 0, quantities: Vec::new(), statistics: Vec::new() }
    }

    /// Everything that the next draws depend on.
    fn checkpoint(&self) -> Result<Checkpoint> {
        let mut checkpoint = self.ready.walker.chain().checkpoint()?;
        self.ready.recorder.save(&mut checkpoint)?;
        checkpoint.insert_meta(DRAWS, &self.made)?;
        Ok(checkpoint)
    }

    /// Makes the draws that are missing.
    fn draw(
        &mut self,
        settings: &Sampler,
        plan: &Plan,
        chain: usize,
        quantities: usize,
        store: Option<&Store>,
        watch: &dyn Watch,
    ) -> Result<()> {
        let mut theta = vec![F::ZERO; self.ready.walker.chain().theta().len()];
        let mut row = vec![0.0; quantities];
        let mut written = self.made;
        watch.progress(chain as u32, Stage::Drawing, self.made, settings.draws);
        while self.made < settings.draws && !watch.stop() {
            let Ready { walker, recorder } = &mut self.ready;
            let since = self.made.checked_sub(1).map_or(0, |last| plan.step_of(last));
            let pace = walker
                .advance(plan.step_of(self.made) - since)
                .map_err(|error| in_chain(error, chain, self.made))?;
            walker.theta(&mut theta);
            recorder.record(walker.chain_mut().potential_mut().inner_mut(), &theta, &mut row)?;
            self.quantities.extend_from_slice(&row);
            self.statistics.extend([pace.temperature, pace.kinetic, pace.loss]);
            self.made += 1;
            watch.progress(chain as u32, Stage::Drawing, self.made, settings.draws);
            if self.made - written == PART {
                self.flush(store, chain, &mut written)?;
            }
        }
        self.flush(store, chain, &mut written)
    }

    /// Writes the draws since number `written` to the store, if there is one, and the chain after them.
    fn flush(&mut self, store: Option<&Store>, chain: usize, written: &mut u64) -> Result<()> {
        let Some(store) = store.filter(|_| self.made > *written) else { return Ok(()) };
        store.write_part(chain, *written, &self.quantities, &self.statistics)?;
        self.quantities.clear();
        self.statistics.clear();
        *written = self.made;
        store.write_checkpoint(chain, &self.checkpoint()?)
    }
}

/// Says which chain it was, and what to try.
fn in_chain(error: Error, chain: usize, draw: u64) -> Error {
    match error {
        Error::Santa(error @ santa::Error::NotFinite { .. }) => Error::Diverged(format!(
            "chain {chain} diverged after {draw} draws ({error}); use a smaller step, larger batches, \
             or a longer warm-up"
        )),
        other => other,
    }
}
