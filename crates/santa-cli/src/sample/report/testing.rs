//! Draws and rows for tests.

use super::Row;
use santa::noise::{Purpose, Stream};
use santa_posterior::Draws;

/// Independent standard normal draws of a chain.
pub fn normals(chain: u32, draws: usize) -> Vec<f64> {
    let mut out = vec![0.0; draws];
    Stream::new(2, chain, Purpose::Data).normals(0, 0, 0, &mut out);
    out
}

/// The row of a quantity with these diagnostics.
pub fn row(name: &str, r_hat: f64, ess: f64) -> Row {
    let (mean, sd, mcse) = (0.012, 0.987, 0.017);
    let (q5, q50, q95) = (-1.62, 0.02, 1.63);
    Row { name: name.into(), mean, sd, q5, q50, q95, mcse, ess_bulk: ess, ess_tail: ess, r_hat }
}

/// Draws of quantities, and a row for each: `value` has chain, draw and number of the quantity.
pub fn draws(
    names: &[&str],
    (chains, draws): (usize, usize),
    value: impl Fn(usize, usize, usize) -> f64,
) -> (Draws, Vec<Row>) {
    let mut out = Draws::new(names.iter().copied(), chains).unwrap();
    for chain in 0..chains {
        for draw in 0..draws {
            let values: Vec<f64> = (0..names.len()).map(|q| value(chain, draw, q)).collect();
            out.push(chain, &values).unwrap();
        }
    }
    (out, names.iter().map(|name| row(name, 1.001, 2_000.0)).collect())
}
