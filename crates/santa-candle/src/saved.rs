//! Saving the dynamics with their variables, and going on from there.

use crate::error::Result;
use crate::optimizer::Dynamics;
use santa::Checkpoint;
use std::path::Path;

/// The metadata that is ours: what `set_learning_rate` set, if anything.
const LEARNING_RATE: &str = "learning_rate";

/// # Saved states
///
/// A state is a safetensors file with the settings, the counters, the variables (`theta/<name>`) and
/// the state vectors (`state/<vector>/<name>`). Dynamics that load it make, bit for bit, the steps
/// that the saved ones would have made.
impl Dynamics {
    /// Writes the variables and everything that the next steps depend on. A file of that name is
    /// replaced once the new one is complete.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        Ok(self.checkpoint()?.write(path.as_ref())?)
    }

    /// Reads what [`Dynamics::save`] wrote, and sets the variables too. Settings, seed, names and
    /// shapes must be the same: a difference is refused by its name, and nothing has changed.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.restore(&Checkpoint::read(path.as_ref())?)
    }

    /// What [`Dynamics::save`] writes, to add metadata of your own.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let mut checkpoint = Checkpoint::new();
        self.stepper.save(&self.theta()?, &mut checkpoint)?;
        checkpoint.insert_meta(LEARNING_RATE, &self.lr)?;
        Ok(checkpoint)
    }

    /// [`Dynamics::load`] from a checkpoint in memory.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let lr = checkpoint.meta(LEARNING_RATE)?;
        let mut theta = self.theta()?;
        self.stepper.restore(&mut theta, checkpoint)?;
        self.lr = lr;
        self.set_theta(&theta)
    }
}
