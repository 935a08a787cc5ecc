//! A whole chain in a checkpoint, and back: the dynamics, where the data are, and what the potential
//! keeps.

use super::Chain;
use crate::checkpoint::{Checkpoint, unusable};
use crate::dynamics::saved::same;
use crate::error::Result;
use crate::potential::Potential;
use crate::real::Real;
use std::path::Path;

/// Prefix of the potential's own vectors.
const POTENTIAL: &str = "potential/";

impl<F: Real, P: Potential<F>> Chain<F, P> {
    /// Everything that the next steps depend on: what [`Stepper::save`](crate::Stepper::save) puts
    /// in, the position among the batches, and the potential's state.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let mut checkpoint = Checkpoint::new();
        self.stepper.save(&self.theta, &mut checkpoint)?;
        checkpoint.insert_meta("minibatches", &self.minibatches.description())?;
        checkpoint.insert_meta("position", &self.minibatches.position())?;
        for (name, vector) in self.potential.state() {
            checkpoint.insert_tensor(format!("{POTENTIAL}{name}"), &[vector.len()], &vector)?;
        }
        Ok(checkpoint)
    }

    /// Writes [`Chain::checkpoint`] to a file, atomically: an earlier one stays whole until the new
    /// one is.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.checkpoint()?.write(path)
    }

    /// Takes a chain that was built alike to where a checkpoint was made; the steps that follow are
    /// bit for bit those that followed then. A difference in settings, data or batches is refused
    /// by its name; the chain is then as it was (unless it had stopped half-way through a step).
    ///
    /// ```
    /// use santa::potential::analytic::DoubleWell;
    /// use santa::{Chain, Checkpoint, Santa, Sampling, StepSize};
    ///
    /// let chain = || {
    ///     let well = DoubleWell::new(1)?;
    ///     let santa = Santa::sampler(StepSize::paper(0.01, 1.0), 100).init(well.target(), 7)?;
    ///     Chain::new(well, santa, vec![2.0f64], Sampling::Full, 1)
    /// };
    /// let mut whole = chain()?;
    /// whole.advance(300)?;
    ///
    /// let mut first = chain()?;
    /// first.advance(150)?;
    /// let mut second = chain()?;
    /// second.restore(&first.checkpoint()?)?;
    /// second.advance(150)?;
    /// assert_eq!(second.theta(), whole.theta());
    /// # Ok::<(), santa::Error>(())
    /// ```
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        same(checkpoint, "minibatches", &self.minibatches.description())?;
        let position: u64 = checkpoint.meta("position")?;
        let names: Vec<String> = checkpoint
            .tensor_names()
            .filter_map(|name| name.strip_prefix(POTENTIAL).map(String::from))
            .collect();
        let mut state = Vec::with_capacity(names.len());
        for name in names {
            let vector: Vec<F> = checkpoint.tensor(&format!("{POTENTIAL}{name}"))?;
            if vector.iter().any(|x| !x.is_finite()) {
                return Err(unusable(format!("the potential's `{name}` is not finite")));
            }
            state.push((name, vector));
        }
        // Into a copy first: the potential may still refuse its part.
        let mut theta = self.theta.clone();
        let before = self.checkpoint();
        self.stepper.restore(&mut theta, checkpoint)?;
        if let Err(error) = self.potential.restore(&state) {
            if let Ok(before) = before {
                self.stepper.restore(&mut self.theta, &before)?;
            }
            return Err(error);
        }
        self.theta.copy_from_slice(&theta);
        self.minibatches.seek(position);
        self.last_loss = None;
        Ok(())
    }

    /// [`Chain::restore`] from a file.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.restore(&Checkpoint::read(path)?)
    }
}
