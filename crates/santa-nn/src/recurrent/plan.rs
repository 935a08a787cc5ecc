//! In which order the steps of a batch are computed.
//!
//! Sequences of similar length run in lockstep, a few at a time: a product with a few rows reads the
//! weights once for all of them. Such a *group* is the unit that threads work on. As many groups as
//! the workspace has room for make up a *wave*. Groups and waves depend on the data only, never on the
//! number of threads.

use super::rolls::PianoRolls;
use std::ops::Range;

/// Sequences in lockstep, at most.
pub(super) const LOCKSTEP: usize = 4;
/// Steps of a wave, unless one group alone has more.
const WAVE: usize = 4096;

/// One step of one sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Where the step is, counted through all sequences.
    pub step: usize,
    /// The sequence's place in the batch.
    pub place: usize,
}

/// Sequences in lockstep. Its rows are in order of time; of one time, longer sequences come first.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Its rows within the wave.
    pub rows: Range<usize>,
    /// Its part of [`Plan::counts`].
    pub times: Range<usize>,
}

/// A batch, cut into waves.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Sequences with their places in the batch, longest first.
    sorted: Vec<(usize, usize)>,
    /// How many of them have been planned.
    planned: usize,
    /// The groups of the present wave.
    pub groups: Vec<Group>,
    /// For each group and time, how many sequences have a step then.
    pub counts: Vec<usize>,
    /// The rows of the present wave.
    pub rows: Vec<Row>,
    /// For each key, the rows with a successor at which it is down.
    pub down: Vec<u32>,
    /// Where in `down` each key begins, and where the last one ends.
    pub down_offsets: Vec<usize>,
}

impl Plan {
    /// Begins with the first wave of a batch.
    pub fn start(&mut self, rolls: &PianoRolls, batch: impl Iterator<Item = usize>) {
        self.sorted.clear();
        self.sorted.extend(batch.enumerate().map(|(place, sequence)| (sequence, place)));
        self.sorted.sort_by_key(|(sequence, _)| std::cmp::Reverse(rolls.steps_of(*sequence)));
        self.planned = 0;
    }

    /// Plans the next wave; false after the last.
    pub fn next_wave(&mut self, rolls: &PianoRolls) -> bool {
        self.groups.clear();
        self.counts.clear();
        self.rows.clear();
        while self.planned < self.sorted.len() {
            let end = self.sorted.len().min(self.planned + LOCKSTEP);
            let group = &self.sorted[self.planned..end];
            let steps: usize = group.iter().map(|(sequence, _)| rolls.steps_of(*sequence)).sum();
            if !self.groups.is_empty() && self.rows.len() + steps > WAVE {
                break;
            }
            let (first_row, first_time) = (self.rows.len(), self.counts.len());
            for time in 0..rolls.steps_of(group[0].0) {
                let here = group.iter().take_while(|(s, _)| time < rolls.steps_of(*s));
                let before = self.rows.len();
                self.rows.extend(here.map(|(sequence, place)| Row {
                    step: rolls.range(*sequence).start + time,
                    place: *place,
                }));
                self.counts.push(self.rows.len() - before);
            }
            self.groups.push(Group {
                rows: first_row..self.rows.len(),
                times: first_time..self.counts.len(),
            });
            self.planned = end;
        }
        !self.groups.is_empty()
    }

    /// Lists for each key when it is down, in the order of rows. The last step of a sequence is left
    /// out: no state comes after it.
    pub fn sort_keys(&mut self, rolls: &PianoRolls) {
        let keys = rolls.keys();
        self.down_offsets.clear();
        self.down_offsets.resize(keys + 1, 0);
        let each = |visit: &mut dyn FnMut(usize, usize)| {
            for group in &self.groups {
                let counts = &self.counts[group.times.clone()];
                let mut row = group.rows.start;
                for (time, count) in counts.iter().enumerate() {
                    for i in 0..counts.get(time + 1).copied().unwrap_or(0) {
                        for key in rolls.down(self.rows[row + i].step) {
                            visit(row + i, *key as usize);
                        }
                    }
                    row += count;
                }
            }
        };
        let offsets = &mut self.down_offsets;
        each(&mut |_, key| offsets[key + 1] += 1);
        for key in 0..keys {
            offsets[key + 1] += offsets[key];
        }
        let down = &mut self.down;
        down.clear();
        down.resize(offsets[keys], 0);
        each(&mut |row, key| {
            down[offsets[key]] = row as u32;
            offsets[key] += 1;
        });
        // Each key now ends where it should begin the next.
        offsets.copy_within(0..keys, 1);
        offsets[0] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_of_time_with_longer_sequences_first() {
        // Steps: sequence 0 has 0; 1 has 1, 2, 3; 2 has 4, 5.
        let rolls =
            PianoRolls::new(2, vec![1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 1, 1], vec![0, 1, 4, 6]).unwrap();
        let mut plan = Plan::default();
        plan.start(&rolls, [0, 1, 2].into_iter());
        assert!(plan.next_wave(&rolls));
        let rows: Vec<_> = plan.rows.iter().map(|row| (row.step, row.place)).collect();
        assert_eq!(rows, [(1, 1), (4, 2), (0, 0), (2, 1), (5, 2), (3, 1)]);
        assert_eq!(plan.counts, [3, 2, 1]);
        plan.sort_keys(&rolls);
        // Rows 0, 1 and 3 have successors.
        assert_eq!((&plan.down[..], &plan.down_offsets[..]), (&[0, 0, 3][..], &[0, 1, 3][..]));
        assert!(!plan.next_wave(&rolls));
    }

    #[test]
    fn a_large_batch_comes_in_waves_that_hold_each_sequence_once() {
        let offsets: Vec<usize> = (0..=40).map(|i| i * 300).collect();
        let rolls = PianoRolls::new(1, vec![0; 12_000], offsets).unwrap();
        let mut plan = Plan::default();
        plan.start(&rolls, 0..40);
        let (mut waves, mut steps) = (0, Vec::new());
        while plan.next_wave(&rolls) {
            assert!(plan.rows.len() <= WAVE);
            waves += 1;
            steps.extend(plan.rows.iter().map(|row| row.step));
        }
        steps.sort_unstable();
        assert!(waves == 4 && steps.into_iter().eq(0..12_000));
    }
}
