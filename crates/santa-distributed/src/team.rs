//! Several processes, or threads, that work on one thing.

use crate::error::Result;
use santa::Real;

/// What the members of a team can do together.
///
/// Every method but [`Team::rank`] and [`Team::size`] is *collective*: all members call it, in the same
/// order, and none returns before all have called (or one of them is lost, which is an error).
/// `santa-mpi` has the team that spans machines; [`Threads`](crate::Threads) is one within a process,
/// for tests, and [`Solo`] is nobody else.
pub trait Team {
    /// The number of this member, from 0.
    fn rank(&self) -> usize;
    /// How many members there are.
    fn size(&self) -> usize;
    /// The sum of everybody's values, element by element, to everybody: the same bits to all, in an
    /// order of additions that is the transport's choice.
    fn sum_f32(&self, values: &mut [f32]) -> Result<()>;
    /// The same in double precision.
    fn sum_f64(&self, values: &mut [f64]) -> Result<()>;
    /// The same for values that stay as they are, with the sum elsewhere.
    fn sum_into_f32(&self, values: &[f32], sum: &mut [f32]) -> Result<()> {
        sum.copy_from_slice(values);
        self.sum_f32(sum)
    }
    /// The same in double precision.
    fn sum_into_f64(&self, values: &[f64], sum: &mut [f64]) -> Result<()> {
        sum.copy_from_slice(values);
        self.sum_f64(sum)
    }
    /// Everybody's message to everybody, by rank. Their lengths may differ.
    fn gather(&self, message: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// A message for each member; returns those for this one, by rank.
    fn exchange(&self, messages: &[&[u8]]) -> Result<Vec<Vec<u8>>>;
    /// The message of member `root` in the place of everybody's.
    fn broadcast(&self, root: usize, message: &mut Vec<u8>) -> Result<()>;
    /// Waits until all are here.
    fn wait(&self) -> Result<()>;

    /// Sums values piece by piece while later pieces are still being made: `make` hands over each piece
    /// that is complete, and where its sum goes. All members make the same pieces in the same order.
    /// A transport that cannot sum while it computes does so at each piece.
    fn sum_pieces_f32<'a>(&self, make: &mut Making<'_, 'a, f32>) -> Result<()> {
        sum_at_once(make, |values| self.sum_f32(values))
    }
    /// The same in double precision.
    fn sum_pieces_f64<'a>(&self, make: &mut Making<'_, 'a, f64>) -> Result<()> {
        sum_at_once(make, |values| self.sum_f64(values))
    }
}

/// What makes pieces and hands each over with the place of its sum. If it fails before it has made all
/// of them, the others can only be told by the loss of this member.
pub type Making<'m, 'a, F> = dyn FnMut(&mut dyn FnMut(&'a [F], &'a mut [F])) -> Result<()> + 'm;

fn sum_at_once<F: Copy>(
    make: &mut Making<'_, '_, F>,
    sum: impl Fn(&mut [F]) -> Result<()>,
) -> Result<()> {
    let mut outcome = Ok(());
    make(&mut |piece, place| {
        place.copy_from_slice(piece);
        if outcome.is_ok() {
            outcome = sum(place);
        }
    })?;
    outcome
}

/// A number that teams can sum.
pub trait Number: Real + bytemuck::Pod {
    /// [`Team::sum_f32`] or [`Team::sum_f64`].
    fn sum(team: &dyn Team, values: &mut [Self]) -> Result<()>;
    /// [`Team::sum_into_f32`] or [`Team::sum_into_f64`].
    fn sum_into(team: &dyn Team, values: &[Self], sum: &mut [Self]) -> Result<()>;
    /// [`Team::sum_pieces_f32`] or [`Team::sum_pieces_f64`].
    fn sum_pieces<'a>(team: &dyn Team, make: &mut Making<'_, 'a, Self>) -> Result<()>;
}

macro_rules! number {
    ($type:ty, $sum:ident, $sum_into:ident, $sum_pieces:ident) => {
        impl Number for $type {
            fn sum(team: &dyn Team, values: &mut [Self]) -> Result<()> {
                team.$sum(values)
            }
            fn sum_into(team: &dyn Team, values: &[Self], sum: &mut [Self]) -> Result<()> {
                team.$sum_into(values, sum)
            }
            fn sum_pieces<'a>(team: &dyn Team, make: &mut Making<'_, 'a, Self>) -> Result<()> {
                team.$sum_pieces(make)
            }
        }
    };
}
number!(f32, sum_f32, sum_into_f32, sum_pieces_f32);
number!(f64, sum_f64, sum_into_f64, sum_pieces_f64);

/// A team of one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solo;

impl Team for Solo {
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        1
    }
    fn sum_f32(&self, _: &mut [f32]) -> Result<()> {
        Ok(())
    }
    fn sum_f64(&self, _: &mut [f64]) -> Result<()> {
        Ok(())
    }
    fn gather(&self, message: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![message.to_vec()])
    }
    fn exchange(&self, messages: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        Ok(messages.iter().map(|message| message.to_vec()).collect())
    }
    fn broadcast(&self, _: usize, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
    fn wait(&self) -> Result<()> {
        Ok(())
    }
}

macro_rules! forward_team {
    ($($pointer:ty),*) => {$(
        impl<T: Team + ?Sized> Team for $pointer {
            fn rank(&self) -> usize {
                (**self).rank()
            }
            fn size(&self) -> usize {
                (**self).size()
            }
            fn sum_f32(&self, values: &mut [f32]) -> Result<()> {
                (**self).sum_f32(values)
            }
            fn sum_f64(&self, values: &mut [f64]) -> Result<()> {
                (**self).sum_f64(values)
            }
            fn sum_into_f32(&self, values: &[f32], sum: &mut [f32]) -> Result<()> {
                (**self).sum_into_f32(values, sum)
            }
            fn sum_into_f64(&self, values: &[f64], sum: &mut [f64]) -> Result<()> {
                (**self).sum_into_f64(values, sum)
            }
            fn gather(&self, message: &[u8]) -> Result<Vec<Vec<u8>>> {
                (**self).gather(message)
            }
            fn exchange(&self, messages: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
                (**self).exchange(messages)
            }
            fn broadcast(&self, root: usize, message: &mut Vec<u8>) -> Result<()> {
                (**self).broadcast(root, message)
            }
            fn wait(&self) -> Result<()> {
                (**self).wait()
            }
            fn sum_pieces_f32<'a>(&self, make: &mut Making<'_, 'a, f32>) -> Result<()> {
                (**self).sum_pieces_f32(make)
            }
            fn sum_pieces_f64<'a>(&self, make: &mut Making<'_, 'a, f64>) -> Result<()> {
                (**self).sum_pieces_f64(make)
            }
        }
    )*};
}
forward_team!(&T, Box<T>, std::rc::Rc<T>, std::sync::Arc<T>);
