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
use santa_distributed::error::{Error, Result};
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
         belong together; start it with the `mpirun` of the MPI that it was built with, or build it again \
         with the `mpicc` of this one in the PATH"
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

    /// The name of this machine.
    pub fn host(&self) -> String {
        host()
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

/// Lengths as MPI wants them, and where each message begins.
fn layout(lengths: &[u64]) -> Result<(Vec<Count>, Vec<Count>, usize)> {
    let (mut counts, mut starts, mut total) = (Vec::new(), Vec::new(), 0u64);
    let count = |length: u64| {
        Count::try_from(length).map_err(|_| Error::Setting {
            field: "message".into(),
            value: format!("{length} bytes"),
            allowed: "MPI counts up to 2^31 of them".into(),
        })
    };
    for length in lengths {
        starts.push(count(total)?);
        counts.push(count(*length)?);
        total += length;
    }
    Ok((counts, starts, count(total)? as usize))
}

fn divide(all: &[u8], counts: &[Count], starts: &[Count]) -> Vec<Vec<u8>> {
    let ranges =
        counts.iter().zip(starts).map(|(n, first)| *first as usize..(*first + *n) as usize);
    ranges.map(|range| all[range].to_vec()).collect()
}

impl Team for World {
    fn rank(&self) -> usize {
        self.comm.rank() as usize
    }
    fn size(&self) -> usize {
        self.comm.size() as usize
    }
    fn sum_f32(&self, values: &mut [f32]) -> Result<()> {
        self.sum_into_f32(&values.to_vec(), values)
    }
    fn sum_f64(&self, values: &mut [f64]) -> Result<()> {
        self.sum_into_f64(&values.to_vec(), values)
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
        let (counts, starts, total) = layout(&lengths)?;
        let message = if message.is_empty() { &NOTHING[..0] } else { message };
        let mut all = somewhere(total);
        let mut parts = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
        self.patience.during(|| self.comm.all_gather_varcount_into(message, &mut parts));
        Ok(divide(&all, &counts, &starts))
    }

    fn exchange(&self, messages: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let sent: Vec<u64> = messages.iter().map(|message| message.len() as u64).collect();
        let mut received = vec![0u64; self.size()];
        self.patience.during(|| self.comm.all_to_all_into(&sent[..], &mut received[..]));
        let mut out = messages.concat();
        out.push(0);
        let (counts, starts, _) = layout(&sent)?;
        let outgoing = Partition::new(&out[..], &counts[..], &starts[..]);
        let (counts, starts, total) = layout(&received)?;
        let mut all = somewhere(total);
        let mut incoming = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
        self.patience.during(|| self.comm.all_to_all_varcount_into(&outgoing, &mut incoming));
        Ok(divide(&all, &counts, &starts))
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
