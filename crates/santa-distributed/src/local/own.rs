//! A member's part of the data.

use crate::ordered::share;
use crate::team::{Number, Team};
use santa::{Batch, Potential, Result, Target};

/// What a member computes its gradients from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Division {
    /// Its part of every batch. Each batch is divided as [`Shared`](crate::Shared) divides it, so that
    /// the team as a whole sees the data in the order in which one member would.
    #[default]
    Batches,
    /// Its part of the data, one stretch for each member, whatever they have in common. For data that
    /// cannot be moved; the members then walk towards different places, see the
    /// [module](crate::local).
    ///
    /// In place of datum i of N it takes datum $\lfloor i n / N \rfloor$ of its own n: batches that are
    /// drawn with replacement remain so. All data are all of its own.
    Data,
}

/// A potential of which a member computes its own part, and nobody sums: for
/// [`LocalSteps`](crate::LocalSteps).
///
/// Gradients are weighted so that their mean over the members is the gradient of the whole batch,
/// whether its parts are of equal size or not. A member without data hands over a gradient of zero.
#[derive(Clone, Debug)]
pub struct Own<P> {
    potential: P,
    rank: usize,
    size: usize,
    division: Division,
    everything: Vec<u32>,
    mine: Vec<u32>,
}

impl<P> Own<P> {
    /// This member's part of a potential that every member has.
    pub fn new(potential: P, team: &dyn Team, division: Division) -> Self {
        let (rank, size) = (team.rank(), team.size());
        Own { potential, rank, size, division, everything: Vec::new(), mine: Vec::new() }
    }
    /// The potential.
    pub fn potential(&self) -> &P {
        &self.potential
    }
    /// The potential, to change or to evaluate elsewhere.
    pub fn potential_mut(&mut self) -> &mut P {
        &mut self.potential
    }
}

impl<F: Number, P: Potential<F>> Potential<F> for Own<P> {
    fn target(&self) -> &Target {
        self.potential.target()
    }

    fn loss_gradient(&mut self, theta: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        let data_size = self.potential.target().data_size();
        self.potential.target().layout().check_len("the gradient", gradient.len())?;
        batch.check(data_size)?;
        let n = data_size.get() as usize;
        if batch.indices().is_none() && self.everything.is_empty() {
            self.everything = (0..n as u32).collect();
        }
        let indices = batch.indices().unwrap_or(&self.everything);
        let places = share(indices.len(), self.rank, self.size);
        let (part, factor) = match self.division {
            Division::Batches => {
                let part = batch.with_indices(&indices[places.clone()]).beginning_at(places.start);
                let whole = self.potential.weight(&batch.with_indices(indices));
                let own = if places.is_empty() { 0.0 } else { self.potential.weight(&part) };
                (part, self.size as f64 * own / whole)
            }
            Division::Data => {
                let own = share(n, self.rank, self.size);
                self.mine.clear();
                match batch.indices() {
                    None => self.mine.extend(own.clone().map(|i| i as u32)),
                    Some(_) => self.mine.extend(
                        indices[places.clone()]
                            .iter()
                            .filter(|_| !own.is_empty())
                            .map(|i| (own.start + *i as usize * own.len() / n) as u32),
                    ),
                }
                let part = batch.with_indices(&self.mine).beginning_at(places.start);
                (part, (self.size * own.len()) as f64 / n as f64)
            }
        };
        if part.is_empty(n) {
            gradient.fill(F::ZERO);
            return Ok(0.0);
        }
        let loss = self.potential.loss_gradient(theta, &part, gradient)?;
        if factor != 1.0 {
            let factor = F::from_f64(factor);
            gradient.iter_mut().for_each(|g| *g *= factor);
        }
        Ok(factor * loss)
    }

    fn loss(&mut self, theta: &[F], batch: &Batch<'_>) -> Result<f64> {
        self.potential.loss(theta, batch)
    }
    fn weight(&self, batch: &Batch<'_>) -> f64 {
        self.potential.weight(batch)
    }
    fn energy(&mut self, theta: &[F]) -> Result<f64> {
        self.potential.energy(theta)
    }
    fn state(&self) -> Vec<(&'static str, Vec<F>)> {
        self.potential.state()
    }
    fn restore(&mut self, state: &[(String, Vec<F>)]) -> Result<()> {
        self.potential.restore(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::Threads;
    use santa::noise::{Purpose, Stream};
    use santa::potential::analytic::LinearRegression;

    const THETA: [f64; 3] = [0.3, -0.2, 0.1];

    fn model() -> LinearRegression {
        let stream = Stream::new(1, 0, Purpose::Data);
        LinearRegression::synthetic(10, 3, 1.0, 1.0, &stream).unwrap().0
    }

    /// Loss and gradient, averaged over a team.
    fn averaged(size: usize, division: Division, batch: &Batch<'_>) -> Vec<f64> {
        let parts = Threads::run(size, |team| {
            let mut own = Own::new(model(), &team, division);
            let mut values = vec![f64::NAN; 4];
            values[3] = own.loss_gradient(&THETA, batch, &mut values[..3]).unwrap();
            values
        });
        (0..4).map(|i| parts.iter().map(|part| part[i]).sum::<f64>() / size as f64).collect()
    }

    /// Five members do not divide seven data, and eleven have nothing to do in part.
    #[test]
    fn the_mean_of_the_parts_is_the_whole() {
        let list = [4, 8, 1, 5, 0, 2, 9];
        let cases = [
            (Division::Batches, Batch::full()),
            (Division::Batches, Batch::of(&list)),
            (Division::Data, Batch::full()),
        ];
        for (division, batch) in cases {
            let mut whole = vec![0.0; 4];
            whole[3] = model().loss_gradient(&THETA, &batch, &mut whole[..3]).unwrap();
            for size in [1, 2, 5, 11] {
                for (a, b) in averaged(size, division, &batch).iter().zip(&whole) {
                    assert!((a - b).abs() < 1e-12, "{division:?}, {size} members: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn a_member_with_its_own_data_sees_no_others() {
        Threads::run(2, |team| {
            let mut own = Own::new(model(), &team, Division::Data);
            let (mut seen, mut expected) = ([0.0; 3], [0.0; 3]);
            own.loss_gradient(&THETA, &Batch::of(&[0, 9, 5, 1]), &mut seen).unwrap();
            // Places 0 and 1 are the first member's, 2 and 3 the second's; so are the data from 5 on.
            let indices = [[0, 4], [5 + 2, 5]][team.rank()];
            model().loss_gradient(&THETA, &Batch::of(&indices), &mut expected).unwrap();
            assert_eq!(seen, expected);
        });
    }

    #[test]
    fn data_that_do_not_exist_are_refused() {
        Threads::run(2, |team| {
            let mut own = Own::new(model(), &team, Division::Data);
            assert!(own.loss_gradient(&THETA, &Batch::of(&[10]), &mut [0.0; 3]).is_err());
            assert!(own.loss_gradient(&THETA, &Batch::full(), &mut [0.0; 2]).is_err());
        });
    }
}
