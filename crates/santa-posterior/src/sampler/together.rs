//! The chains of one member of a team among those of all, and what the members tell each other.
//!
//! Everything here is collective: all members call the same things in the same order. Outcomes travel
//! with what was found, so that a member in trouble is waited for by nobody: all return the same error.

use crate::error::{Error, Result};
use crate::parallel;
use santa_distributed::ordered::share;
use santa_distributed::{Error as TeamError, Team};
use std::ops::Range;

/// A member's chains, and the team.
pub struct Together<'t> {
    team: &'t dyn Team,
    chains: Range<u32>,
}

/// What a message begins with: how its sender fares.
const WELL: u8 = 0;
const DIVERGED: u8 = 1;
const INTERRUPTED: u8 = 2;
const REFUSED: u8 = 3;

impl<'t> Together<'t> {
    /// Of so many chains in all.
    pub fn new(team: &'t dyn Team, chains: u32) -> Self {
        let mine = share(chains as usize, team.rank(), team.size());
        Together { team, chains: mine.start as u32..mine.end as u32 }
    }

    /// The numbers of this member's chains, among those of all.
    pub fn chains(&self) -> Range<u32> {
        self.chains.clone()
    }
    /// How many members there are.
    pub fn size(&self) -> usize {
        self.team.size()
    }
    /// Whether there is nobody else. Errors are then returned as they are.
    pub fn is_alone(&self) -> bool {
        self.team.size() == 1
    }
    fn is_first(&self) -> bool {
        self.team.rank() == 0
    }

    /// Does `work` for every chain, each under its number among all, on all cores. Returns what each of
    /// *all* chains has found, in their order, or the first error in that order.
    pub fn each<T: Send>(
        &self,
        items: &mut [T],
        work: impl Fn(u32, &mut T) -> Result<Vec<f64>> + Sync,
    ) -> Result<Vec<Vec<f64>>> {
        let first = self.chains.start;
        let mut slots: Vec<_> = items.iter_mut().map(|item| (item, Ok(Vec::new()))).collect();
        parallel::each(&mut slots, |i, (item, slot)| {
            *slot = work(first + i as u32, item);
            Ok(())
        })?;
        let mut mine = Vec::with_capacity(slots.len());
        let mut trouble = None;
        for (chain, (_, outcome)) in self.chains().zip(slots) {
            match outcome {
                Ok(found) => mine.push(found),
                Err(error) => {
                    trouble = Some((chain, error));
                    break;
                }
            }
        }
        if self.is_alone() {
            return trouble.map_or(Ok(mine), |(_, error)| Err(error));
        }
        let packed = match trouble {
            None => Ok(pack(mine.iter().map(|found| bytemuck::cast_slice(found)))),
            Some((chain, error)) => Err((Some(chain), error)),
        };
        let mut all = Vec::new();
        for message in self.meet(packed)? {
            all.extend(unpack(&message)?.iter().map(|b| bytemuck::pod_collect_to_vec(b)));
        }
        Ok(all)
    }

    /// What rank 0 has found, to all. The others do nothing.
    pub fn of_first(&self, work: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        if self.is_alone() {
            return work();
        }
        let mut message = match self.is_first() {
            true => encode(&work().map_err(|error| (None, error))),
            false => Vec::new(),
        };
        self.team.broadcast(0, &mut message)?;
        decode(0, message)
    }

    /// Numbers that chain 0 has, to all.
    pub fn numbers_of_first(&self, numbers: &[f64]) -> Result<Vec<f64>> {
        let bytes = self.of_first(|| Ok(bytemuck::cast_slice(numbers).to_vec()))?;
        Ok(bytemuck::pod_collect_to_vec(&bytes))
    }

    /// Refuses to go on if some member cannot, or has other `what` than rank 0.
    pub fn alike(&self, what: &str, mine: Result<Vec<u8>>) -> Result<()> {
        if self.is_alone() {
            return mine.map(drop);
        }
        let all = self.meet(mine.map_err(|error| (None, error)))?;
        match all.iter().position(|other| *other != all[0]) {
            None => Ok(()),
            Some(rank) => Err(Error::Team(TeamError::Apart {
                rank,
                what: what.into(),
                remedy: "start all ranks with the same command".into(),
            })),
        }
    }

    /// Messages, one for each chain, to rank 0, which gets those of all other members' chains, in
    /// their order.
    pub fn to_first(&self, mine: Result<Vec<Vec<u8>>>) -> Result<Vec<Vec<u8>>> {
        if self.is_alone() {
            return mine.map(|_| Vec::new());
        }
        let (mine, outcome) = match mine {
            Ok(mine) => (mine, Ok(Vec::new())),
            Err(error) => (Vec::new(), Err((None, error))),
        };
        self.meet(outcome)?;
        let mut messages = vec![Vec::new(); self.size()];
        if !self.is_first() {
            messages[0] = pack(mine.iter().map(Vec::as_slice));
        }
        let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let mut all = Vec::new();
        for message in self.team.exchange(&messages)? {
            all.extend(unpack(&message)?);
        }
        Ok(all)
    }

    /// Everybody's message, by rank; or the error of the first who has one. One that all have alike
    /// is returned as it is.
    fn meet(&self, mine: Result<Vec<u8>, (Option<u32>, Error)>) -> Result<Vec<Vec<u8>>> {
        let message = encode(&mine);
        let all = self.team.gather(&message)?;
        if let Err((_, error)) = mine
            && all.iter().all(|other| *other == message)
        {
            return Err(error);
        }
        all.into_iter().enumerate().map(|(rank, message)| decode(rank, message)).collect()
    }
}

fn encode(outcome: &Result<Vec<u8>, (Option<u32>, Error)>) -> Vec<u8> {
    let (tag, text) = match outcome {
        Ok(found) => return [&[WELL], found.as_slice()].concat(),
        Err((_, Error::Interrupted)) => (INTERRUPTED, String::new()),
        // That one names the chain.
        Err((_, Error::Diverged(text))) => (DIVERGED, text.clone()),
        Err((chain, error)) => {
            let tag = if error.is_divergence() { DIVERGED } else { REFUSED };
            (tag, chain.map_or(error.to_string(), |chain| format!("chain {chain}: {error}")))
        }
    };
    [&[tag], text.as_bytes()].concat()
}

fn decode(rank: usize, mut message: Vec<u8>) -> Result<Vec<u8>> {
    if message.is_empty() {
        return Err(unreadable());
    }
    let content = message.split_off(1);
    let text = || String::from_utf8_lossy(&content).into_owned();
    match message[0] {
        WELL => Ok(content),
        INTERRUPTED => Err(Error::Interrupted),
        DIVERGED => Err(Error::Diverged(format!("rank {rank}: {}", text()))),
        _ => Err(Error::Team(TeamError::Member { rank, message: text() })),
    }
}

/// Several messages as one, each after its length.
fn pack<'a>(messages: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut packed = Vec::new();
    for message in messages {
        packed.extend_from_slice(&(message.len() as u64).to_le_bytes());
        packed.extend_from_slice(message);
    }
    packed
}

fn unpack(mut packed: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut messages = Vec::new();
    while !packed.is_empty() {
        let (len, rest) = packed.split_first_chunk().ok_or_else(unreadable)?;
        let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| unreadable())?;
        let (message, rest) = rest.split_at_checked(len).ok_or_else(unreadable)?;
        messages.push(message.to_vec());
        packed = rest;
    }
    Ok(messages)
}

fn unreadable() -> Error {
    Error::Team(TeamError::Lost(
        "a message of another rank cannot be read; start all ranks from the same program".into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa_distributed::Threads;

    const CHAINS: u32 = 5;

    #[test]
    fn what_chains_find_comes_to_all_in_their_order() {
        for size in 1..=CHAINS as usize {
            let found = Threads::run(size, |team| {
                let together = Together::new(&team, CHAINS);
                let mut items: Vec<u32> = together.chains().collect();
                together
                    .each(&mut items, |chain, item| {
                        assert_eq!(chain, *item);
                        Ok(vec![0.1 * f64::from(chain); chain as usize])
                    })
                    .unwrap()
            });
            for all in found {
                let expected: Vec<_> =
                    (0..CHAINS).map(|c| vec![0.1 * f64::from(c); c as usize]).collect();
                assert_eq!(all, expected);
            }
        }
    }

    #[test]
    fn all_return_the_first_error_of_any() {
        let errors = Threads::run(3, |team| {
            let together = Together::new(&team, CHAINS);
            let mut items: Vec<u32> = together.chains().collect();
            let work = |chain, _: &mut u32| match chain {
                0..2 => Ok(Vec::new()),
                _ => Err(Error::data("no such thing")),
            };
            let first = together.each(&mut items, work).unwrap_err().to_string();
            let read = together.of_first(|| Err(Error::data("not there"))).unwrap_err();
            let stopped = together.alike(
                "mood",
                match team.rank() {
                    2 => Err(Error::Interrupted),
                    _ => Ok(Vec::new()),
                },
            );
            assert!(matches!(stopped, Err(Error::Interrupted)));
            let apart = together.alike("mood", Ok(vec![u8::from(team.rank() == 2)]));
            [first, read.to_string(), apart.unwrap_err().to_string()]
        });
        for [first, read, apart] in errors {
            assert_eq!(first, "rank 1: chain 2: no such thing");
            assert_eq!(read, "rank 0: not there");
            assert!(apart.starts_with("rank 2 has another mood"), "{apart}");
        }
    }

    #[test]
    fn an_error_that_all_have_alike_is_returned_as_it_is() {
        let errors = Threads::run(2, |team| {
            let together = Together::new(&team, CHAINS);
            together.alike("settings", Err(Error::setting("chains", 0, "more"))).unwrap_err()
        });
        assert!(errors.iter().all(|error| matches!(error, Error::Setting { .. })));
    }

    #[test]
    fn rank_0_gets_the_messages_of_all_other_chains() {
        let messages = Threads::run(3, |team| {
            let together = Together::new(&team, CHAINS);
            let mine = together.chains().map(|chain| vec![chain as u8; 2]).collect();
            together.to_first(Ok(mine)).unwrap()
        });
        assert_eq!(messages[0], [[1, 1], [2, 2], [3, 3], [4, 4]]);
        assert!(messages[1].is_empty() && messages[2].is_empty());
    }
}
