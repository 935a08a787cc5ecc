//! What is suspicious about a quantity, and which quantities are worst.

use super::Row;

/// R-hat that chains should be below (Vehtari, Gelman, Simpson, Carpenter and Bürkner, 2021).
pub const R_HAT: f64 = 1.01;
/// Effective draws that each chain should have at least (ibid.).
pub const ESS_PER_CHAIN: f64 = 100.0;

/// How bad the worst of a quantity's diagnostics is: above 1 where it misses what it should reach.
/// Where nothing could be computed, it is 1: neither good nor bad.
pub fn badness(row: &Row, chains: usize) -> f64 {
    let needed = ESS_PER_CHAIN * chains as f64;
    let parts = [(row.r_hat - 1.0) / (R_HAT - 1.0), needed / row.ess_bulk, needed / row.ess_tail];
    let known = parts.into_iter().filter(|part| !part.is_nan());
    known.reduce(f64::max).unwrap_or(1.0)
}

/// Quantities by number, the worst first: those with draws that are not finite, then by
/// [`badness`]; equal ones in the order of the draws.
pub fn worst_first(rows: &[Row], not_finite: &[usize], chains: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let key = |i: usize| if not_finite[i] > 0 { f64::INFINITY } else { badness(&rows[i], chains) };
    order.sort_by(|&a, &b| key(b).total_cmp(&key(a)));
    order
}

#[cfg(test)]
mod tests {
    use super::super::testing::row;
    use super::*;

    #[test]
    fn the_worst_quantity_is_the_one_that_misses_most() {
        let good = row("good", 1.001, 3_000.0);
        let apart = row("apart", 1.8, 3_000.0);
        let slow = row("slow", 1.005, 50.0);
        let unknown = row("unknown", f64::NAN, f64::NAN);
        assert!(badness(&good, 4) < 1.0);
        assert!(badness(&apart, 4) > badness(&slow, 4) && badness(&slow, 4) > 1.0);
        assert_eq!(badness(&unknown, 4), 1.0);
        let rows = [good.clone(), slow, unknown, apart, good];
        assert_eq!(worst_first(&rows, &[0; 5], 4), [3, 1, 2, 0, 4]);
        assert_eq!(worst_first(&rows, &[0, 0, 0, 0, 2], 4), [4, 3, 1, 2, 0]);
    }
}
