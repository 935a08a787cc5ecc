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
//! first spinning, then yielding. A helper that has lost its core would cost a time slice at every
//! step: it is dismissed, gives the second half back when it next can, and the leader goes on alone.

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
    use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};
    use std::thread::{panicking, yield_now};

    /// Looks at a message that is not there yet before the thread lets others have the core.
    const SPINS: u32 = 2_000;
    /// Looks after which a helper is believed to have lost its core.
    const PATIENCE: u32 = SPINS + 100;

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

    /// The half that may change hands, between two steps.
    struct Second<'h, H> {
        half: &'h mut H,
        /// The step that it is to make next.
        next: usize,
    }

    struct Relay<'a, F> {
        steps: usize,
        /// A helper is there.
        arrived: AtomicBool,
        /// The helper is too slow and shall give the second half back.
        dismissed: AtomicBool,
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
                dismissed: AtomicBool::new(false),
                over: AtomicBool::new(false),
                messages: [slots(), slots()],
            }
        }

        fn lead<'m, 'h, H: Half<'a, F>>(&self, first: &mut H, second: &'m Mutex<Second<'h, H>>) {
            // Declared before the lock, hence told after its release: a helper that comes too late
            // finds either the end or a half that has no steps left.
            let _leave = Leave { over: &self.over, only_by_panic: false };
            // A quick helper may have it already.
            let mut held = second.try_lock().ok();
            for step in 0..self.steps {
                let dismissed = self.dismissed.load(Ordering::Relaxed);
                if !dismissed && self.arrived.load(Ordering::Relaxed) {
                    held = None;
                }
                held = match held {
                    Some(mut second) => {
                        both(first, second.half, step);
                        second.next = step + 1;
                        Some(second)
                    }
                    None => match self.turn_of_leader(first, second, step) {
                        Some(held) => held,
                        // The helper panicked, and the scope will.
                        None => return,
                    },
                };
            }
        }

        /// A step of the first half, and of the second if the helper has given it back; `None` if the
        /// helper is gone.
        #[allow(clippy::type_complexity)]
        fn turn_of_leader<'m, 'h, H: Half<'a, F>>(
            &self,
            first: &mut H,
            second: &'m Mutex<Second<'h, H>>,
            step: usize,
        ) -> Option<Option<MutexGuard<'m, Second<'h, H>>>> {
            let given = first.give(step);
            self.send(0, step, given);
            first.work(step);
            let mut looks = 0;
            loop {
                if let Some(message) = self.messages[1][step].get() {
                    first.take(step, message);
                    return Some(None);
                }
                if self.over.load(Ordering::Acquire) {
                    return None;
                }
                pause(&mut looks);
                if looks >= PATIENCE {
                    self.dismissed.store(true, Ordering::Relaxed);
                } else if !self.dismissed.load(Ordering::Relaxed) {
                    continue;
                }
                if let Ok(mut held) = second.try_lock()
                    && held.next == step
                {
                    let message = held.half.give(step);
                    held.half.work(step);
                    first.take(step, message);
                    held.half.take(step, given);
                    held.next = step + 1;
                    return Some(Some(held));
                }
            }
        }

        fn help<H: Half<'a, F>>(&self, second: &Mutex<Second<'_, H>>) {
            let _leave = Leave { over: &self.over, only_by_panic: true };
            self.arrived.store(true, Ordering::Relaxed);
            let gone =
                || self.over.load(Ordering::Acquire) || self.dismissed.load(Ordering::Relaxed);
            let mut looks = 0;
            let mut second = loop {
                match second.try_lock() {
                    _ if gone() => return,
                    Ok(second) => break second,
                    Err(TryLockError::Poisoned(_)) => return,
                    Err(TryLockError::WouldBlock) => pause(&mut looks),
                }
            };
            while second.next < self.steps && !self.dismissed.load(Ordering::Relaxed) {
                let step = second.next;
                let given = second.half.give(step);
                self.send(1, step, given);
                second.half.work(step);
                let Some(message) = self.wait_for_leader(step) else { return };
                second.half.take(step, message);
                second.next += 1;
            }
        }

        /// The leader's message; `None` if it panicked.
        fn wait_for_leader(&self, step: usize) -> Option<&'a [F]> {
            let slot = &self.messages[0][step];
            let mut looks = 0;
            loop {
                if let Some(message) = slot.get() {
                    return Some(message);
                }
                if self.over.load(Ordering::Acquire) {
                    // It may have been sent just before.
                    return slot.get().copied();
                }
                pause(&mut looks);
            }
        }

        fn send(&self, side: usize, step: usize, message: &'a [F]) {
            // The slot is empty: a step of a half is made once.
            let _ = self.messages[side][step].set(message);
        }
    }

    fn pause(looks: &mut u32) {
        *looks = looks.saturating_add(1);
        if *looks <= SPINS { spin_loop() } else { yield_now() }
    }
}

#[cfg(all(test, feature = "parallel"))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A half whose numbers depend on all messages so far.
    struct Counter<'a> {
        value: u64,
        room: &'a mut [u64],
        panics_at: usize,
    }

    impl<'a> Half<'a, u64> for Counter<'a> {
        fn give(&mut self, step: usize) -> &'a [u64] {
            assert!(step != self.panics_at, "as asked for");
            let (message, rest) = std::mem::take(&mut self.room).split_at_mut(1);
            self.room = rest;
            message[0] = self.value;
            message
        }
        fn work(&mut self, step: usize) {
            self.value = self.value.wrapping_mul(3) ^ step as u64;
        }
        fn take(&mut self, _step: usize, message: &[u64]) {
            self.value = self.value.rotate_left(7).wrapping_add(message[0]);
        }
    }

    const STEPS: usize = 3_000;
    const NEVER: usize = usize::MAX;

    /// The values after all steps; `threads` is 0 for no help at all.
    fn values(threads: usize, panics_at: [usize; 2]) -> [u64; 2] {
        let mut rooms = [vec![0; STEPS], vec![0; STEPS]];
        let [a, b] = &mut rooms;
        let mut first = Counter { value: 1, room: a, panics_at: panics_at[0] };
        let mut second = Counter { value: 2, room: b, panics_at: panics_at[1] };
        if threads == 0 {
            run(&mut first, &mut second, STEPS);
        } else {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| run_helped(&mut first, &mut second, STEPS));
        }
        [first.value, second.value]
    }

    #[test]
    fn help_changes_nothing() {
        let alone = values(0, [NEVER; 2]);
        for threads in [1, 2, 3].repeat(30) {
            assert_eq!(values(threads, [NEVER; 2]), alone);
        }
    }

    #[test]
    fn a_panic_of_either_half_reaches_the_caller() {
        for threads in [1, 2, 3].repeat(5) {
            for panics_at in [[0, NEVER], [NEVER, 0], [STEPS / 2, NEVER], [NEVER, STEPS - 1]] {
                assert!(catch_unwind(AssertUnwindSafe(|| values(threads, panics_at))).is_err());
            }
        }
    }
}
