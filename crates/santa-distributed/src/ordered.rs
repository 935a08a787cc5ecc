//! Sums whose order of additions does not depend on how many members there are.
//!
//! A floating-point sum depends on its order. Here the terms are the leaves of a fixed binary tree, and
//! every inner node is the sum of its two children, whoever computes it:
//!
//! 1. A member owns a run of consecutive leaves, and computes the largest nodes above them.
//! 2. The elements are divided into one stretch for each member; everybody sends it that stretch of
//!    its nodes, and it computes the rest of the tree.
//! 3. The stretches are gathered by all.
//!
//! With as many members as leaves, or a power of two of both, that is as much traffic as any sum of long
//! vectors needs, twice their length for each member.

use crate::error::{Error, Result};
use crate::team::{Number, Team};
use std::ops::Range;

/// A node of the tree: the leaves below it.
type Node = Range<usize>;

fn children(node: &Node) -> (Node, Node) {
    let middle = node.start + node.len().div_ceil(2);
    (node.start..middle, middle..node.end)
}

/// The largest nodes whose leaves are all in `owned`, from left to right.
fn cover(node: Node, owned: &Range<usize>, found: &mut Vec<Node>) {
    if node.start >= owned.end || node.end <= owned.start {
        return;
    }
    if owned.start <= node.start && node.end <= owned.end {
        return found.push(node);
    }
    let (left, right) = children(&node);
    cover(left, owned, found);
    cover(right, owned, found);
}

/// The part of a whole of `len` elements that belongs to `rank` of `size`, in equal stretches.
pub fn share(len: usize, rank: usize, size: usize) -> Range<usize> {
    len * rank / size..len * (rank + 1) / size
}

/// A sum of vectors in a fixed order; see the [module](self).
#[derive(Clone, Debug)]
pub struct OrderedSum<F> {
    leaves: usize,
    spare: Vec<Vec<F>>,
}

impl<F: Number> OrderedSum<F> {
    /// Of so many terms, by a team that has no more members.
    pub fn new(leaves: usize, team: &dyn Team) -> Result<Self> {
        if leaves < team.size() {
            return Err(Error::Setting {
                field: "parts".into(),
                value: leaves.to_string(),
                allowed: format!("there must be one for each of the {} ranks", team.size()),
            });
        }
        Ok(OrderedSum { leaves, spare: Vec::new() })
    }

    /// Sums the terms that `leaf` computes, each into a buffer of the length of `total`. Every member
    /// computes those of [`share`].
    pub fn sum(
        &mut self,
        team: &dyn Team,
        mut leaf: impl FnMut(usize, &mut [F]),
        total: &mut [F],
    ) -> Result<()> {
        let (len, size, root) = (total.len(), team.size(), 0..self.leaves);
        let nodes_of = |rank| {
            let mut nodes = Vec::new();
            cover(root.clone(), &share(self.leaves, rank, size), &mut nodes);
            nodes
        };
        let all: Vec<Vec<Node>> = (0..size).map(nodes_of).collect();
        let mine = &all[team.rank()];
        let mut sums: Vec<Vec<F>> = Vec::with_capacity(mine.len());
        for node in mine {
            let mut sum = self.take(len);
            self.compute(node.clone(), &mut leaf, &mut sum);
            sums.push(sum);
        }
        if size == 1 {
            // The only node is the root.
            total.copy_from_slice(&sums[0]);
            self.spare.append(&mut sums);
            return Ok(());
        }

        let messages: Vec<Vec<F>> = (0..size)
            .map(|to| sums.iter().flat_map(|sum| &sum[share(len, to, size)]).copied().collect())
            .collect();
        let bytes: Vec<&[u8]> =
            messages.iter().map(|message| bytemuck::cast_slice(message)).collect();
        let received = team.exchange(&bytes)?;
        self.spare.append(&mut sums);

        let stretch = share(len, team.rank(), size).len();
        let mut known: Vec<(Node, Vec<F>)> = Vec::new();
        for (nodes, message) in all.into_iter().zip(received) {
            let values = bytemuck::pod_collect_to_vec::<u8, F>(&message);
            for (i, node) in nodes.into_iter().enumerate() {
                known.push((node, values[i * stretch..(i + 1) * stretch].to_vec()));
            }
        }
        let whole = assemble(root, &mut known.into_iter());
        for (rank, message) in team.gather(bytemuck::cast_slice(&whole))?.iter().enumerate() {
            let place = &mut total[share(len, rank, size)];
            place.copy_from_slice(&bytemuck::pod_collect_to_vec::<u8, F>(message));
        }
        Ok(())
    }

    fn compute(&mut self, node: Node, leaf: &mut impl FnMut(usize, &mut [F]), sum: &mut [F]) {
        if node.len() == 1 {
            return leaf(node.start, sum);
        }
        let (left, right) = children(&node);
        self.compute(left, leaf, sum);
        let mut other = self.take(sum.len());
        self.compute(right, leaf, &mut other);
        add(sum, &other);
        self.spare.push(other);
    }

    fn take(&mut self, len: usize) -> Vec<F> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.resize(len, F::ZERO);
        buffer
    }
}

fn add<F: Number>(sum: &mut [F], other: &[F]) {
    sum.iter_mut().zip(other).for_each(|(sum, x)| *sum += *x);
}

/// The sum of a node from those of the nodes below it that are known, which come from left to right.
fn assemble<F: Number>(node: Node, known: &mut dyn Iterator<Item = (Node, Vec<F>)>) -> Vec<F> {
    fn rest<F: Number>(
        node: Node,
        next: &mut Option<(Node, Vec<F>)>,
        known: &mut dyn Iterator<Item = (Node, Vec<F>)>,
    ) -> Vec<F> {
        if next.as_ref().is_some_and(|(there, _)| *there == node) {
            let sum = next.take().map(|(_, sum)| sum).unwrap_or_default();
            *next = known.next();
            return sum;
        }
        let (left, right) = children(&node);
        let mut sum = rest(left, next, known);
        add(&mut sum, &rest(right, next, known));
        sum
    }
    let mut next = known.next();
    rest(node, &mut next, known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::Threads;
    use santa::noise::{Purpose, Stream};

    fn term(i: usize, place: &mut [f32]) {
        let stream = Stream::new(1, 0, Purpose::Custom(1));
        stream.normals(i as u64, 0, 0, place);
    }

    fn summed(leaves: usize, size: usize) -> Vec<f32> {
        let mut all = Threads::run(size, |team| {
            let mut total = vec![0.0; 101];
            let mut sum = OrderedSum::new(leaves, &team).unwrap();
            sum.sum(&team, term, &mut total).unwrap();
            // Again, with buffers that are not new.
            sum.sum(&team, term, &mut total).unwrap();
            total
        });
        let first = all.swap_remove(0);
        assert!(all.iter().all(|other| *other == first));
        first
    }

    #[test]
    fn the_sum_is_the_same_for_any_number_of_members() {
        for leaves in [1, 2, 5, 8, 12] {
            let alone = summed(leaves, 1);
            for size in 2..=leaves.min(7) {
                assert_eq!(summed(leaves, size), alone, "{leaves} leaves, {size} members");
            }
        }
    }

    #[test]
    fn it_is_the_sum() {
        let mut exact = vec![0.0f64; 101];
        let mut place = vec![0.0; 101];
        for i in 0..12 {
            term(i, &mut place);
            exact.iter_mut().zip(&place).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        for (a, b) in summed(12, 5).iter().zip(exact) {
            assert!((f64::from(*a) - b).abs() < 1e-5, "{a} {b}");
        }
    }

    /// Negative control: in the order of the ranks, what comes out depends on how many there are.
    #[test]
    fn a_plain_sum_is_not_the_same() {
        let plain = |size: usize| {
            Threads::run(size, |team| {
                let mut total = vec![0.0f32; 101];
                let mut place = vec![0.0; 101];
                for i in share(12, team.rank(), size) {
                    term(i, &mut place);
                    add(&mut total, &place);
                }
                f32::sum(&team, &mut total).unwrap();
                total
            })
            .swap_remove(0)
        };
        assert_ne!(plain(1), plain(3));
    }

    #[test]
    fn fewer_terms_than_members_are_refused() {
        let errors = Threads::run(3, |team| OrderedSum::<f64>::new(2, &team).map(|_| ()));
        assert!(errors[0].as_ref().unwrap_err().to_string().contains("3 ranks"));
    }
}
