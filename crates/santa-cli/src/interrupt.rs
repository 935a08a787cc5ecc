//! Ctrl-C: the first one ends a run after its step, with a checkpoint; the second one ends the
//! process at once. Checkpoints are whole in either case.

use crate::console::Console;
use crate::failure::{Failure, Kind, Result};
use santa_distributed::Launch;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time within which signals of a launcher count as one.
const SAME_REQUEST: Duration = Duration::from_secs(2);

static SIGNALS: AtomicU32 = AtomicU32::new(0);

/// Listens for Ctrl-C and for requests to terminate.
pub fn listen(console: &Console) -> Result<()> {
    let console = *console;
    let first = OnceLock::new();
    let heard = move || {
        let since = first.get_or_init(Instant::now).elapsed();
        if SIGNALS.fetch_add(1, Ordering::SeqCst) > 0 {
            // Launchers may pass one request on twice, from the terminal and by themselves.
            if Launch::detect().is_some() && since < SAME_REQUEST {
                return;
            }
            std::process::exit(Kind::Interrupted.code().into());
        }
        console.note("\nfinishing the step and saving; once more to stop at once");
    };
    match ctrlc::set_handler(heard) {
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(()),
        Err(error) => Err(Failure::system(format!("listening for Ctrl-C: {error}"))),
    }
}

/// Whether to stop.
pub fn requested() -> bool {
    SIGNALS.load(Ordering::Relaxed) > 0
}
