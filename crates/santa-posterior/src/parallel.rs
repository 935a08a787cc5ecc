//! Chains side by side.

use crate::error::Result;

/// Does `work` for every item, on all cores, and reports the first error in the items' order.
#[cfg(feature = "parallel")]
pub fn each<T: Send>(
    items: &mut [T],
    work: impl Fn(usize, &mut T) -> Result<()> + Sync,
) -> Result<()> {
    use rayon::prelude::*;
    let outcomes: Vec<Result<()>> =
        items.par_iter_mut().enumerate().map(|(i, item)| work(i, item)).collect();
    outcomes.into_iter().collect()
}

/// Does `work` for every item, one after the other.
#[cfg(not(feature = "parallel"))]
pub fn each<T: Send>(
    items: &mut [T],
    work: impl Fn(usize, &mut T) -> Result<()> + Sync,
) -> Result<()> {
    let outcomes: Vec<Result<()>> =
        items.iter_mut().enumerate().map(|(i, item)| work(i, item)).collect();
    outcomes.into_iter().collect()
}
