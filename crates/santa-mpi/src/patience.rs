//! Noticing that the others do not answer.
//!
//! When a process dies, the launcher ends the job. When a machine is cut off, nothing ends: MPI waits for
//! it, for ever or for many minutes. A thread watches how long a collective call has lasted, and ends the
//! job when it has lost patience.

use mpi::topology::SimpleCommunicator;
use mpi::traits::Communicator;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often the clock is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long the job may take to end in an orderly way.
const GRACE: Duration = Duration::from_secs(3);

/// The exit code of a job that lost one of its processes.
pub const LOST: u8 = 6;

/// A watch over waiting.
#[derive(Debug)]
pub struct Patience {
    /// When waiting began, in milliseconds from the start; 0 when nobody waits.
    since: Arc<AtomicU64>,
    start: Instant,
}

impl Patience {
    /// Ends the job once a wait lasts longer than `limit`, after saying what `last_words` gives.
    pub fn new(limit: Duration, last_words: impl Fn() -> String + Send + 'static) -> Self {
        let (since, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
        let seen = since.clone();
        let watch = move || {
            loop {
                thread::sleep(LOOK);
                let now = start.elapsed().as_millis() as u64;
                let began = seen.load(Ordering::Relaxed);
                if began > 0 && now.saturating_sub(began) > limit.as_millis() as u64 {
                    eprintln!("{}", last_words());
                    end(LOST);
                }
            }
        };
        // Without a thread nobody watches, which is as it is without this.
        let _ = thread::Builder::new().name("patience".into()).spawn(watch);
        Patience { since, start }
    }

    /// A wait begins.
    pub fn begin(&self) {
        let now = self.start.elapsed().as_millis() as u64;
        self.since.store(now.max(1), Ordering::Relaxed);
    }

    /// Waits for others in `wait`.
    pub fn during<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.begin();
        let value = wait();
        self.since.store(0, Ordering::Relaxed);
        value
    }
}

/// Ends all processes of the job that can be reached, and this one in any case.
///
/// It may be called while another thread waits within MPI, which the standard does not allow at the level
/// of threading that is asked for. Open MPI ends the job nevertheless; if an MPI does not, the process
/// ends by itself.
pub fn end(code: u8) -> ! {
    // The orderly way may itself wait for somebody who does not answer, and so may the next best.
    let _ = thread::Builder::new().spawn(move || {
        thread::sleep(GRACE);
        let _ = thread::Builder::new().spawn(|| {
            thread::sleep(GRACE);
            std::process::abort()
        });
        std::process::exit(i32::from(code))
    });
    SimpleCommunicator::world().abort(i32::from(code))
}
