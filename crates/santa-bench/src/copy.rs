//! Memory copied, as the yardstick for steps that move memory.

use crate::clock::{Effort, best};
use std::hint::black_box;
use std::time::Instant;

/// A way to copy a piece of memory to another of the same length.
pub type CopyBytes = fn(&[u8], &mut [u8]);

/// The system's.
pub const PLAIN: CopyBytes = |source, sink| sink.copy_from_slice(source);

/// Bytes of a cache line. Threads share none.
const LINE: usize = 64;

/// Two pieces of memory.
#[derive(Debug)]
pub struct Pair {
    source: Vec<u8>,
    sink: Vec<u8>,
}

impl Pair {
    /// Memory whose copy moves `bytes`: half of them are read and half written.
    pub fn moving(bytes: usize) -> Self {
        // Both are written to, for pages that were never touched are no memory yet.
        Pair { source: vec![1; bytes / 2], sink: vec![2; bytes / 2] }
    }

    /// Bytes that a copy moves.
    pub fn bytes(&self) -> usize {
        2 * self.source.len()
    }

    /// Copies one to the other, on all threads, a piece each.
    pub fn copy(&mut self, copy: CopyBytes) {
        let piece = self.source.len().div_ceil(crate::threads()).next_multiple_of(LINE).max(LINE);
        #[cfg(feature = "parallel")]
        {
            use rayon::prelude::*;
            let pieces = self.sink.par_chunks_mut(piece).zip(self.source.par_chunks(piece));
            pieces.with_max_len(1).for_each(|(sink, source)| copy(source, sink));
        }
        #[cfg(not(feature = "parallel"))]
        for (sink, source) in self.sink.chunks_mut(piece).zip(self.source.chunks(piece)) {
            copy(source, sink);
        }
        black_box(&mut self.sink);
    }
}

/// Seconds of the best plain copy that moves `bytes`.
pub fn seconds(effort: Effort, bytes: usize) -> f64 {
    let mut pair = Pair::moving(bytes);
    best(effort, || {
        let start = Instant::now();
        pair.copy(PLAIN);
        start.elapsed()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_copied() {
        for bytes in [0, 2, 130, 100_000] {
            let mut pair = Pair::moving(bytes);
            pair.copy(PLAIN);
            assert_eq!(pair.bytes(), bytes);
            assert_eq!(pair.source, pair.sink);
        }
    }
}
