//! The draws of several chains.

use crate::error::{Error, Result};

/// Draws of named quantities, by several chains.
///
/// A quantity is a parameter or a function of the parameters; what a network's draws hold, for
/// instance, are a few functions of its half a million weights.
///
/// ```
/// use santa_posterior::Draws;
///
/// let mut draws = Draws::new(["slope", "noise"], 2)?;
/// draws.push(0, &[1.0, 0.5])?;
/// draws.push(1, &[1.2, 0.4])?;
/// assert_eq!((draws.chains(), draws.len(), draws.dim()), (2, 1, 2));
/// assert_eq!(draws.quantity(0), [[1.0], [1.2]]);
/// # Ok::<(), santa_posterior::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    names: Vec<String>,
    /// Of each chain, one draw after the other.
    chains: Vec<Vec<f64>>,
}

impl Draws {
    /// No draws yet, of these quantities.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>, chains: usize) -> Result<Self> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.is_empty() {
            return Err(Error::data("draws of nothing; name at least one quantity"));
        }
        let mut known = std::collections::HashSet::new();
        if let Some(name) = names.iter().find(|name| !known.insert(name.as_str())) {
            return Err(Error::data(format!("two quantities have the name `{name}`")));
        }
        if chains == 0 {
            return Err(Error::setting("chains", chains, "there must be at least one"));
        }
        Ok(Draws { names, chains: vec![Vec::new(); chains] })
    }

    /// Appends a draw to a chain.
    pub fn push(&mut self, chain: usize, draw: &[f64]) -> Result<()> {
        if draw.len() != self.names.len() {
            return Err(Error::data(format!(
                "a draw of {} quantities where there are {}",
                draw.len(),
                self.names.len()
            )));
        }
        let chains = self.chains.len();
        let Some(all) = self.chains.get_mut(chain) else {
            return Err(Error::setting("chain", chain, format!("there are {chains} chains")));
        };
        all.extend_from_slice(draw);
        Ok(())
    }

    /// Appends several draws, one after the other, to a chain.
    pub fn extend(&mut self, chain: usize, draws: &[f64]) -> Result<()> {
        if !draws.len().is_multiple_of(self.dim()) {
            let (found, dim) = (draws.len(), self.dim());
            return Err(Error::data(format!("{found} numbers are no draws of {dim} quantities")));
        }
        draws.chunks_exact(self.dim()).try_for_each(|draw| self.push(chain, draw))
    }

    /// Names of the quantities.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// Number of quantities.
    pub fn dim(&self) -> usize {
        self.names.len()
    }
    /// Number of chains.
    pub fn chains(&self) -> usize {
        self.chains.len()
    }
    /// Draws that every chain has.
    pub fn len(&self) -> usize {
        self.chains.iter().map(Vec::len).min().unwrap_or(0) / self.dim()
    }
    /// Draws of one chain.
    ///
    /// # Panics
    /// If there is no such chain.
    pub fn of_chain(&self, chain: usize) -> u64 {
        (self.chains[chain].len() / self.dim()) as u64
    }
    /// Whether some chain has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// One draw of one chain.
    ///
    /// # Panics
    /// If there is no such chain or draw.
    pub fn draw(&self, chain: usize, draw: usize) -> &[f64] {
        &self.chains[chain][draw * self.dim()..(draw + 1) * self.dim()]
    }
    /// All draws of a chain, one after the other.
    ///
    /// # Panics
    /// If there is no such chain.
    pub fn chain(&self, chain: usize) -> &[f64] {
        &self.chains[chain][..self.len() * self.dim()]
    }
    /// The draws of one quantity, chain by chain, as many as every chain has.
    ///
    /// # Panics
    /// If there is no such quantity.
    pub fn quantity(&self, quantity: usize) -> Vec<Vec<f64>> {
        assert!(quantity < self.dim(), "quantity {quantity} of {}", self.dim());
        (0..self.chains())
            .map(|c| self.chain(c).iter().skip(quantity).step_by(self.dim()).copied().collect())
            .collect()
    }
    /// The place of a quantity, by its name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_kept_by_chain_and_the_shortest_chain_counts() {
        let mut draws = Draws::new(["a", "b"], 2).unwrap();
        for i in 0..3 {
            draws.push(0, &[f64::from(i), 10.0]).unwrap();
        }
        draws.push(1, &[7.0, 8.0]).unwrap();
        assert_eq!((draws.len(), draws.position("b")), (1, Some(1)));
        assert_eq!(draws.quantity(0), [[0.0], [7.0]]);
        assert_eq!(draws.draw(0, 2), [2.0, 10.0]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        assert!(Draws::new(["a", "a"], 1).unwrap_err().to_string().contains("`a`"));
        assert!(Draws::new(Vec::<String>::new(), 1).is_err());
        assert!(Draws::new(["a"], 0).is_err());
        let mut draws = Draws::new(["a"], 1).unwrap();
        assert!(draws.push(0, &[1.0, 2.0]).is_err());
        assert!(draws.push(1, &[1.0]).unwrap_err().to_string().contains("1 chains"));
    }
}
