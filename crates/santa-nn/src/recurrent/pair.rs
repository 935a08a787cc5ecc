//! Two halves of a recurrence, on one core or on two.
//!
//! Each half depends on the other at every step, through one message each way. A [`Half`] makes a
//! step in three parts: it gives its message, works on what needs none, and takes the message of the
//! other half.
//!
//! The caller leads. It makes the steps of both halves until a second thread announces itself, hands
//! over the second half between two steps, and goes on with the first one. It therefore never waits
//! for a thread that may not come: in a pool of one thread, or of busy ones, it does everything, and
//! the results have the same bits. After the hand-over each waits for the other's messages only,
//! first spinning, then yielding, in case the other one has lost its core.

#[cfg(feature = "parallel")]
pub(super) use helped::run_helped;

/// One half of a recurrence.
pub(super) trait Half<'a, F>: Send {
    /// The message to the other half for this step.
    fn give(&mut self, step: usize) -> &'a [F];
    /// What can be done before the other half's message is there.
    fn work(&mut self, step: usize);
    /// The rest of the step.
    fn take(&mut self, step: usize, message: &[F]);
}

/// All steps of both halves on this thread.
pub(super) fn run<'a, F: 'a, H: Half<'a, F>>(first: &mut H, second: &mut H, steps: usize) {
    for step in 0..steps {
        both(first, second, step);
    }
}

fn both<'a, F: 'a, H: Half<'a, F>>(first: &mut H, second: &mut H, step: usize) {
    let messages = (first.give(step), second.give(step));
    first.work(step);
    second.work(step);
    first.take(step, messages.1);
    second.take(step, messages.0);
}

#[cfg(feature = "parallel")]
mod helped {
    use super::{Half, both};
    use std::hint::spin_loop;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
    use std::thread::{panicking, yield_now};

    /// Looks at a message that is not there yet before the thread lets others have the core.
    const PATIENCE: u32 = 2_000;

    /// The same with the help of another thread of the pool, if one has time.
    pub fn run_helped<'a, F, H>(first: &mut H, second: &mut H, steps: usize)
    where
        F: Send + Sync + 'a,
        H: Half<'a, F>,
    {
        let relay = Relay::new(steps);
        let second = Mutex::new(Second { half: second, next: 0 });
        rayon::scope(|scope| {
            scope.spawn(|_| relay.help(&second));
            relay.lead(first, &second);
        });
    }

    /// The half that may change hands.
    struct Second<'h, H> {
        half: &'h mut H,
        /// The step that it is to make next.
        next: usize,
    }

    struct Relay<'a, F> {
        steps: usize,
        /// A helper is there.
        arrived: AtomicBool,
        /// One of the two will send no more messages.
        over: AtomicBool,
        /// The messages of the first half and of the second, step by step.
        messages: [Vec<OnceLock<&'a [F]>>; 2],
    }

    /// Tells the other side when this one leaves, also by a panic.
    struct Leave<'r> {
        over: &'r AtomicBool,
        only_by_panic: bool,
    }

    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            if !self.only_by_panic || panicking() {
                self.over.store(true, Ordering::Release);
            }
        }
    }

    impl<'a, F: Send + Sync + 'a> Relay<'a, F> {
        fn new(steps: usize) -> Self {
            let slots = || (0..steps).map(|_| OnceLock::new()).collect();
            Relay {
                steps,
                arrived: AtomicBool::new(false),
                over: AtomicBool::new(false),
                messages: [slots(), slots()],
            }
        }

        fn lead<H: Half<'a, F>>(&self, first: &mut H, second: &Mutex<Second<'_, H>>) {
            // Declared before the lock, hence told after its release: a helper that comes too late
            // finds either the end or a half that has no steps left.
            let _leave = Leave { over: &self.over, only_by_panic: false };
            let mut held = Some(second.lock().unwrap_or_else(PoisonError::into_inner));
            for step in 0..self.steps {
                if self.arrived.load(Ordering::Relaxed) {
                    held = None;
                }
                match &mut held {
                    Some(second) => {
                        both(first, second.half, step);
                        second.next = step + 1;
                    }
                    None => {
                        if self.turn(first, 0, step).is_none() {
                            return;
                        }
                    }
                }
            }
        }

        fn help<H: Half<'a, F>>(&self, second: &Mutex<Second<'_, H>>) {
            let _leave = Leave { over: &self.over, only_by_panic: true };
            self.arrived.store(true, Ordering::Relaxed);
            let mut looks = 0;
            let mut second = loop {
                if self.over.load(Ordering::Acquire) {
                    return;
                }
                match second.try_lock() {
                    Ok(second) => break second,
                    Err(TryLockError::Poisoned(_)) => return,
                    Err(TryLockError::WouldBlock) => pause(&mut looks),
                }
            };
            for step in second.next..self.steps {
                if self.turn(second.half, 1, step).is_none() {
                    return;
                }
            }
        }

        /// A step of one half; `None` if the other side is gone.
        fn turn<H: Half<'a, F>>(&self, half: &mut H, side: usize, step: usize) -> Option<()> {
            // Each slot is filled once: steps and sides do not repeat.
            let _ = self.messages[side][step].set(half.give(step));
            half.work(step);
            let slot = &self.messages[1 - side][step];
            let mut looks = 0;
            let message = loop {
                if let Some(message) = slot.get() {
                    break message;
                }
                if self.over.load(Ordering::Acquire) {
                    // It may have been sent just before.
                    break slot.get()?;
                }
                pause(&mut looks);
            };
            half.take(step, message);
            Some(())
        }
    }

    fn pause(looks: &mut u32) {
        if *looks < PATIENCE {
            *looks += 1;
            spin_loop();
        } else {
            yield_now();
        }
    }
}
