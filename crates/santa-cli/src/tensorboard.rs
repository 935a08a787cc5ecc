//! TensorBoard event files.

use crate::failure::Result;
use crate::run::record::Record;
use std::path::Path;

/// Writes event files.
pub struct EventWriter;

impl EventWriter {
    /// A new file in a folder, for a run that begins or goes on after `step`.
    pub fn create(_: &Path, _: u64) -> Result<Self> {
        Ok(EventWriter)
    }
    /// Writes a record.
    pub fn record(&mut self, _: &Record) -> Result<()> {
        Ok(())
    }
    /// Writes what is waiting.
    pub fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
