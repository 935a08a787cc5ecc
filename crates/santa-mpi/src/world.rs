//! All processes of an MPI job, as a team.

use crate::patience::{Patience, end};
use mpi::collective::SystemOperation;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::request::multiple_scope;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Equivalence, Root};
use mpi::{Count, Threading};
use santa_distributed::Launch;
use santa_distributed::error::Result;
use santa_distributed::team::{Making, Team};
use std::time::Duration;

/// Why a job cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// MPI cannot be used twice in a process.
    #[error("MPI has been initialised, or finalised, in this process before")]
    Again,
    /// The launcher and the library are not of the same MPI.
    #[error(
        "{by} started {expected} processes, but this program's MPI ({library}) sees {found}: they do not \
         belong together; start it with the `mpirun` of the MPI that it was built with (under Slurm, with \
         `srun --mpi=pmix`), or build it again with the `mpicc` of this one in the PATH"
    )]
    OtherMpi {
        /// The launcher.
        by: &'static str,
        /// How many processes it started.
        expected: usize,
        /// How many the library sees.
        found: usize,
        /// The library.
        library: String,
    },
}

/// All processes of an MPI job.
pub struct World {
    comm: SimpleCommunicator,
    patience: Patience,
    // Last, so that MPI is left after everything else.
    _universe: Universe,
}

/// The most bytes of one message: counts are `int` in MPI.
const CHUNK: usize = 1 << 30;

impl World {
    /// Joins the job that this process was started for. Waiting for the others for longer than
    /// `patience` ends the job: a machine was cut off, or a process hangs.
    pub fn join(patience: Duration) -> Result<World, JoinError> {
        let joined = mpi::initialize_with_threading(Threading::Funneled);
        let (universe, _) = joined.ok_or(JoinError::Again)?;
        let comm = universe.world();
        let found = comm.size() as usize;
        if let Some(Launch { by, size, .. }) = Launch::detect()
            && size != found
        {
            let library = library();
            return Err(JoinError::OtherMpi { by, expected: size, found, library });
        }
        let rank = comm.rank();
        let host = host();
        let last_words = move || {
            format!(
                "error: rank {rank} on {host} has waited {} s for the others: one of them hangs, or its \
                 machine cannot be reached\n  hint: checkpoints are whole; start again with `--resume`, or \
                 wait longer with `--patience`",
                patience.as_secs()
            )
        };
        let patience = Patience::new(patience, last_words);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The others would wait for this process for ever.
            before(panic);
            end(PANICKED);
        }));
        Ok(World { comm, patience, _universe: universe })
    }

    fn all_reduce<E: Equivalence>(&self, values: &[E], total: &mut [E]) {
        if values.is_empty() {
            return;
        }
        let sum = SystemOperation::sum();
        self.patience.during(|| self.comm.all_reduce_into(values, total, sum));
    }

    fn sum_pieces<'a, E: Equivalence + 'a>(&self, make: &mut Making<'_, 'a, E>) -> Result<()> {
        multiple_scope(PIECES, |scope, started| {
            let made = make(&mut |piece: &'a [E], place: &'a mut [E]| {
                let sum = SystemOperation::sum();
                started.add(self.comm.immediate_all_reduce_into(scope, piece, place, sum));
            });
            if let Err(error) = made {
                // The sums that have begun cannot be taken back, nor can the others be told.
                eprintln!("error: rank {}: {error}", self.comm.rank());
                end(crate::LOST);
            }
            let mut done = Vec::with_capacity(PIECES);
            self.patience.during(|| started.wait_all(&mut done));
            Ok(())
        })
    }
}

/// The exit code of a panic, as Rust has it.
const PANICKED: u8 = 101;
/// Pieces of a gradient, about.
const PIECES: usize = 32;

/// The MPI that this program was built with, in its own words.
pub fn library() -> String {
    let text = mpi::environment::library_version().unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    words.join(" ").trim_end_matches(',').into()
}

fn host() -> String {
    mpi::environment::processor_name().unwrap_or_else(|_| "an unnamed machine".into())
}

/// No bytes, at an address that can be shown to MPI: that of an empty vector may be the one that means
/// "in place".
static NOTHING: [u8; 1] = [0];

/// Room for so many bytes, at such an address.
fn somewhere(len: usize) -> Vec<u8> {
    vec![0; len.max(1)]
}

/// The parts of some messages that go in one round, as MPI wants them: how long each is, and where it
/// begins among the others.
struct Round {
    counts: Vec<Count>,
    starts: Vec<Count>,
}

impl Round {
    /// The part from `first` on, of at most `most` bytes, of messages of these lengths.
    fn new(lengths: &[u64], first: u64, most: u64) -> Self {
        let part = |length: &u64| length.saturating_sub(first).min(most) as Count;
        let counts: Vec<Count> = lengths.iter().map(part).collect();
        let mut total = 0;
        let starts = counts.iter().map(|count| {
            total += count;
            total - count
        });
        Round { starts: starts.collect(), counts }
    }

    /// How many bytes there are in all.
    fn len(&self) -> usize {
        self.counts.iter().map(|count| *count as usize).sum()
    }

    /// Adds the parts to what is known of each message.
    fn append(&self, parts: &[u8], messages: &mut [Vec<u8>]) {
        for ((count, start), message) in self.counts.iter().zip(&self.starts).zip(messages) {
            message.extend_from_slice(&parts[*start as usize..][..*count as usize]);
        }
    }
}

/// The part of a message that goes in a round.
fn part_of(message: &[u8], first: u64, most: u64) -> &[u8] {
    let len = message.len();
    &message[len.min(first as usize)..len.min((first + most) as usize)]
}

impl Drop for World {
    /// Leaving waits for the others, too.
    fn drop(&mut self) {
        self.patience.begin();
    }
}

impl Team for World {
    fn rank(&self) -> usize {
        self.comm.rank() as usize
    }
    fn size(&self) -> usize {
        self.comm.size() as usize
    }
    fn sum_f32(&self, values: &mut [f32]) -> Result<()> {
        let mine = values.to_vec();
        self.sum_into_f32(&mine, values)
    }
    fn sum_f64(&self, values: &mut [f64]) -> Result<()> {
        let mine = values.to_vec();
        self.sum_into_f64(&mine, values)
    }
    fn sum_into_f32(&self, values: &[f32], sum: &mut [f32]) -> Result<()> {
        self.all_reduce(values, sum);
        Ok(())
    }
    fn sum_into_f64(&self, values: &[f64], sum: &mut [f64]) -> Result<()> {
        self.all_reduce(values, sum);
        Ok(())
    }
    fn sum_pieces_f32<'a>(&self, make: &mut Making<'_, 'a, f32>) -> Result<()> {
        self.sum_pieces(make)
    }
    fn sum_pieces_f64<'a>(&self, make: &mut Making<'_, 'a, f64>) -> Result<()> {
        self.sum_pieces(make)
    }

    fn gather(&self, message: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut lengths = vec![0u64; self.size()];
        let mine = message.len() as u64;
        self.patience.during(|| self.comm.all_gather_into(&mine, &mut lengths[..]));
        let mut all = vec![Vec::new(); self.size()];
        let most = (CHUNK / self.size()) as u64;
        let longest = lengths.iter().copied().max().unwrap_or_default();
        for first in (0..longest).step_by(most as usize) {
            let round = Round::new(&lengths, first, most);
            let part = part_of(message, first, most);
            let part = if part.is_empty() { &NOTHING[..0] } else { part };
            let mut parts = somewhere(round.len());
            let mut received =
                PartitionMut::new(&mut parts[..], &round.counts[..], &round.starts[..]);
            self.patience.during(|| self.comm.all_gather_varcount_into(part, &mut received));
            round.append(&parts, &mut all);
        }
        Ok(all)
    }

    fn exchange(&self, messages: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let sent: Vec<u64> = messages.iter().map(|message| message.len() as u64).collect();
        let mut coming = vec![0u64; self.size()];
        self.patience.during(|| self.comm.all_to_all_into(&sent[..], &mut coming[..]));
        // As many rounds as the longest message of all takes.
        let mut longest = vec![0u64; self.size()];
        let mine = sent.iter().copied().max().unwrap_or_default();
        self.patience.during(|| self.comm.all_gather_into(&mine, &mut longest[..]));
        let longest = longest.iter().copied().max().unwrap_or_default();
        let mut all = vec![Vec::new(); self.size()];
        let most = (CHUNK / self.size()) as u64;
        for first in (0..longest).step_by(most as usize) {
            let mut out = somewhere(0);
            out.clear();
            messages
                .iter()
                .for_each(|message| out.extend_from_slice(part_of(message, first, most)));
            let away = Round::new(&sent, first, most);
            let here = Round::new(&coming, first, most);
            let mut parts = somewhere(here.len());
            let outgoing = Partition::new(&out[..], &away.counts[..], &away.starts[..]);
            let mut incoming =
                PartitionMut::new(&mut parts[..], &here.counts[..], &here.starts[..]);
            self.patience.during(|| self.comm.all_to_all_varcount_into(&outgoing, &mut incoming));
            here.append(&parts, &mut all);
        }
        Ok(all)
    }

    fn broadcast(&self, root: usize, message: &mut Vec<u8>) -> Result<()> {
        let root = self.comm.process_at_rank(root as i32);
        let mut length = message.len() as u64;
        self.patience.during(|| root.broadcast_into(&mut length));
        message.resize(length as usize, 0);
        for chunk in message.chunks_mut(CHUNK) {
            self.patience.during(|| root.broadcast_into(chunk));
        }
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        self.patience.during(|| self.comm.barrier());
        Ok(())
    }
}
