//! Where the records of a run go.

use super::watch::Watch;
use crate::failure::Result;
use crate::run::folder::RunFolder;
use crate::run::record::Record;
use crate::run::stored::file;
use crate::tensorboard::{self, EventWriter};

/// Where records go.
pub struct Log<'a> {
    /// The run's folder.
    pub folder: &'a mut RunFolder,
    /// Event files, if asked for.
    pub events: Option<EventWriter>,
}

impl Log<'_> {
    /// Writes a record down.
    pub fn record(&mut self, record: &Record) -> Result<()> {
        if let Some(events) = &mut self.events {
            events.record(record, tensorboard::now())?;
        }
        self.folder.record(record)
    }

    /// Gives all that was written to the system.
    pub fn flush(&mut self) -> Result<()> {
        self.events.as_mut().map_or(Ok(()), EventWriter::flush)
    }

    /// Drops what was written of later steps.
    pub fn rewind(&mut self, step: u64, watch: &mut dyn Watch) -> Result<()> {
        rewind(self.folder, step, watch)?;
        if self.events.is_some() {
            let folder = self.folder.path().join(file::TENSORBOARD);
            self.events = Some(EventWriter::resume(&folder, step)?);
        }
        Ok(())
    }
}

/// Drops the records after a step. Those that cannot be read are no reason not to go on.
pub fn rewind(folder: &mut RunFolder, step: u64, watch: &mut dyn Watch) -> Result<()> {
    for failure in folder.rewind(step)? {
        watch.warn(&format!("{failure}; dropping this line"));
    }
    Ok(())
}
