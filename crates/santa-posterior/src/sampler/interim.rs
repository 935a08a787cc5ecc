//! A warm-up between two of its windows, on disk.
//!
//! Every window begins with walkers of its own, on a stream of noise of its own. What the windows to
//! come depend on, besides settings and data, is therefore little: where the chains are, what their
//! potentials keep, the scales, the figures, and which window it is. Chains are written first, under a
//! name with the number of the window; the file that names the number comes last, and counts.

use super::scales::Scales;
use super::together::Together;
use super::tuning::Figures;
use super::warm_up::Seat;
use crate::error::Result;
use crate::store::Store;
use santa::{Checkpoint, Potential, Real};
use std::fs;
use std::time::Instant;

/// Where a warm-up is, before a window.
pub struct Interim<F> {
    /// Which of the windows is next, from 0.
    pub window: usize,
    /// Windows that were run, with those that were repeated.
    pub stage: u32,
    /// The present scales.
    pub scales: Scales<F>,
    /// The present figures.
    pub figures: Figures,
}

/// Writes it now and then, if there is a store.
pub struct Keeper<'s> {
    store: Option<&'s Store>,
    since: Instant,
    /// The stage that is in the store.
    kept: Option<u32>,
}

const WINDOW: &str = "warm-up/window";
const STAGE: &str = "warm-up/stage";
const FIGURES: &str = "warm-up/figures";
const THETA: &str = "theta";
const POTENTIAL: &str = "potential/";

impl<'s> Keeper<'s> {
    pub fn new(store: Option<&'s Store>) -> Self {
        Keeper { store, since: Instant::now(), kept: None }
    }

    /// Writes where the warm-up is, if the last time was long ago for rank 0.
    pub fn keep<F: Real, P: Potential<F> + Send, R: Send>(
        &mut self,
        together: &Together<'_>,
        interim: &Interim<F>,
        seats: &mut [Seat<F, P, R>],
    ) -> Result<()> {
        let Some(store) = self.store else { return Ok(()) };
        let is_due = store.is_due(self.since) && self.kept != Some(interim.stage);
        if together.of_first(|| Ok(vec![u8::from(is_due)]))? == [0] {
            return Ok(());
        }
        together.each(seats, |chain, seat| {
            let path = store.chain_warm_up_path(chain as usize, interim.stage);
            seat.checkpoint()?.write(path)?;
            Ok(Vec::new())
        })?;
        together.of_first(|| {
            interim
                .checkpoint()?
                .write(store.warm_up_path())
                .map(|()| Vec::new())
                .map_err(Into::into)
        })?;
        if let Some(old) = self.kept.replace(interim.stage) {
            for chain in together.chains() {
                // Nobody reads it any more, and it goes with the warm-up.
                let _ = fs::remove_file(store.chain_warm_up_path(chain as usize, old));
            }
        }
        self.since = Instant::now();
        Ok(())
    }

    /// Where an earlier sitting has left the warm-up, if it has; the chains are then there, too.
    pub fn resume<F: Real, P: Potential<F> + Send, R: Send>(
        &mut self,
        together: &Together<'_>,
        seats: &mut [Seat<F, P, R>],
    ) -> Result<Option<Interim<F>>> {
        let Some(store) = self.store else { return Ok(None) };
        let path = store.warm_up_path();
        let bytes = together.of_first(|| match path.exists() {
            true => Ok(Checkpoint::read(&path)?.to_bytes()?),
            false => Ok(Vec::new()),
        })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let dim = seats[0].theta.len();
        let interim = Interim::restore(&Checkpoint::from_bytes(&bytes)?, dim)?;
        together.each(seats, |chain, seat| {
            let path = store.chain_warm_up_path(chain as usize, interim.stage);
            seat.restore(&Checkpoint::read(path)?)?;
            Ok(Vec::new())
        })?;
        self.kept = Some(interim.stage);
        Ok(Some(interim))
    }
}

impl<F: Real> Interim<F> {
    fn checkpoint(&self) -> Result<Checkpoint> {
        let mut checkpoint = Checkpoint::new();
        checkpoint.insert_meta(WINDOW, &self.window)?;
        checkpoint.insert_meta(STAGE, &self.stage)?;
        // The temperature is that of a window that is over, and may be no number.
        let figures = Figures { temperature: 0.0, temperature_error: 0.0, ..self.figures };
        checkpoint.insert_meta(FIGURES, &figures)?;
        self.scales.save(&mut checkpoint)?;
        Ok(checkpoint)
    }

    fn restore(checkpoint: &Checkpoint, dim: usize) -> Result<Self> {
        Ok(Interim {
            window: checkpoint.meta(WINDOW)?,
            stage: checkpoint.meta(STAGE)?,
            scales: Scales::restore(checkpoint, dim)?,
            figures: checkpoint.meta(FIGURES)?,
        })
    }
}

impl<F: Real, P: Potential<F>, R> Seat<F, P, R> {
    fn checkpoint(&self) -> Result<Checkpoint> {
        let mut checkpoint = Checkpoint::new();
        checkpoint.insert_tensor(THETA, &[self.theta.len()], &self.theta)?;
        let potential = self.potential.as_ref().expect("a potential between windows");
        for (name, vector) in potential.state() {
            checkpoint.insert_tensor(format!("{POTENTIAL}{name}"), &[vector.len()], &vector)?;
        }
        Ok(checkpoint)
    }

    fn restore(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        self.theta = checkpoint.tensor_of_shape(THETA, &[self.theta.len()])?;
        let mut state = Vec::new();
        for name in checkpoint.tensor_names().filter(|name| name.starts_with(POTENTIAL)) {
            state.push((name[POTENTIAL.len()..].to_string(), checkpoint.tensor(name)?));
        }
        let potential = self.potential.as_mut().expect("a potential between windows");
        Ok(potential.restore(&state)?)
    }
}
