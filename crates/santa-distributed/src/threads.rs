//! A team of threads within one process.

use crate::error::{Error, Result};
use crate::team::Team;
use std::ops::AddAssign;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A member of a team of threads: to test what several processes would do, without them.
///
/// ```
/// use santa_distributed::{Team, Threads};
///
/// let sums = Threads::run(3, |team| {
///     let mut values = [team.rank() as f64, 1.0];
///     team.sum_f64(&mut values).unwrap();
///     values
/// });
/// assert_eq!(sums, [[3.0, 3.0]; 3]);
/// ```
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How often all have met.
    meetings: u64,
    here: usize,
    gone: bool,
    /// What each member has brought: a message for everybody, by rank.
    brought: Vec<Vec<Vec<u8>>>,
}

impl Threads {
    /// Lets a team work, each member in a thread of its own; returns what they made, by rank.
    ///
    /// # Panics
    /// If a member does. The others are then told that it is gone.
    pub fn run<T: Send>(size: usize, work: impl Fn(Threads) -> T + Sync) -> Vec<T> {
        let state = State { brought: vec![Vec::new(); size], ..State::default() };
        let shared = Arc::new(Shared { size, state: Mutex::new(state), changed: Condvar::new() });
        std::thread::scope(|scope| {
            let members: Vec<_> = (0..size)
                .map(|rank| {
                    let member = Threads { rank, shared: shared.clone() };
                    let work = &work;
                    scope.spawn(move || work(member))
                })
                .collect();
            members
                .into_iter()
                .map(|member| member.join().unwrap_or_else(|why| std::panic::resume_unwind(why)))
                .collect()
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the others; then all look at what was brought, and wait again until all have.
    fn meet<T>(&self, bring: Vec<Vec<u8>>, look: impl FnOnce(&State) -> T) -> Result<T> {
        self.state().brought[self.rank] = bring;
        self.rendezvous()?;
        let seen = look(&self.state());
        self.rendezvous()?;
        Ok(seen)
    }

    fn rendezvous(&self) -> Result<()> {
        let mut state = self.state();
        state.here += 1;
        if state.here == self.shared.size {
            state.here = 0;
            state.meetings += 1;
            self.shared.changed.notify_all();
            return Ok(());
        }
        let meeting = state.meetings;
        while state.meetings == meeting {
            if state.gone {
                return Err(Error::Lost("another member of the team has ended".into()));
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    fn sum<F: bytemuck::Pod + AddAssign>(&self, values: &mut [F]) -> Result<()> {
        let all = self.gather(bytemuck::cast_slice(values))?;
        values.fill(F::zeroed());
        for message in all {
            let other = bytemuck::pod_collect_to_vec::<u8, F>(&message);
            values.iter_mut().zip(other).for_each(|(sum, x)| *sum += x);
        }
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.state().gone = true;
        self.shared.changed.notify_all();
    }
}

impl Team for Threads {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.shared.size
    }
    fn sum_f32(&self, values: &mut [f32]) -> Result<()> {
        self.sum(values)
    }
    fn sum_f64(&self, values: &mut [f64]) -> Result<()> {
        self.sum(values)
    }
    fn gather(&self, message: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.meet(vec![message.to_vec()], |state| {
            state.brought.iter().map(|brought| brought[0].clone()).collect()
        })
    }
    fn exchange(&self, messages: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let messages = messages.iter().map(|message| message.to_vec()).collect();
        self.meet(messages, |state| {
            state.brought.iter().map(|brought| brought[self.rank].clone()).collect()
        })
    }
    fn broadcast(&self, root: usize, message: &mut Vec<u8>) -> Result<()> {
        *message = self.meet(vec![std::mem::take(message)], |s| s.brought[root][0].clone())?;
        Ok(())
    }
    fn wait(&self) -> Result<()> {
        self.rendezvous()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_where_they_should() {
        Threads::run(3, |team| {
            let me = team.rank() as u8;
            assert_eq!(team.gather(&vec![me; team.rank()]).unwrap(), [vec![], vec![1], vec![2, 2]]);
            let messages: Vec<Vec<u8>> = (0..3).map(|to| vec![me, to]).collect();
            let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
            assert_eq!(team.exchange(&messages).unwrap(), [[0, me], [1, me], [2, me]]);
            let mut message = vec![me];
            team.broadcast(2, &mut message).unwrap();
            assert_eq!(message, [2]);
        });
    }

    #[test]
    fn nobody_waits_for_one_who_is_gone() {
        let outcomes = Threads::run(3, |team| match team.rank() {
            1 => Ok(()),
            _ => team.wait(),
        });
        assert!(outcomes[0].is_err() && outcomes[2].is_err());
    }
}
