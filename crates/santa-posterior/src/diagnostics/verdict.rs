//! Whether draws can be trusted, in words.

use super::chains::MIN_DRAWS;
use super::summary::{Row, Summary};
use serde::Serialize;
use std::fmt;

/// R-hat above this is trouble (Vehtari et al. 2021).
const R_HAT_LIMIT: f64 = 1.01;
/// Effective draws that each chain should have for R-hat and the errors to be reliable (the same).
const ESS_PER_CHAIN: usize = 100;
/// Chains that a comparison should have (the same).
const ENOUGH_CHAINS: usize = 4;
/// Names that a sentence lists before it counts the rest.
const NAMES_LISTED: usize = 5;

/// What is wrong with draws; if nothing was found, `troubles` is empty.
///
/// Printed, it is a sentence or two for each trouble: what, how bad, what to try. Nothing found is no
/// proof: chains that all miss a mode agree with each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The worst kind first.
    pub troubles: Vec<Trouble>,
    /// Largest R-hat, if there is any.
    pub worst_r_hat: Option<f64>,
    /// Smallest effective sample size, bulk or tail, if there is any.
    pub least_ess: Option<f64>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trouble {
    /// Too few draws for any diagnostic.
    TooFewDraws {
        /// Draws of each chain.
        draws: usize,
    },
    /// NaN or infinite draws, or such large ones that they have no variance.
    NotFinite {
        /// Which quantities.
        quantities: Vec<String>,
    },
    /// All draws of all chains are the same.
    Constant {
        /// Which quantities.
        quantities: Vec<String>,
    },
    /// Some chains move and others do not.
    StillChains {
        /// Which quantities.
        quantities: Vec<String>,
    },
    /// R-hat above 1.01.
    ChainsDisagree {
        /// Which quantities, the worst first.
        quantities: Vec<String>,
        /// The largest R-hat.
        worst: f64,
    },
    /// An effective sample size below 100 a chain.
    FewEffectiveDraws {
        /// `bulk` or `tail`.
        part: &'static str,
        /// Which quantities, the worst first.
        quantities: Vec<String>,
        /// The smallest effective sample size.
        worst: f64,
        /// What there should be.
        needed: usize,
    },
    /// Fewer chains than a comparison should have.
    FewChains {
        /// How many.
        chains: usize,
    },
}

impl Verdict {
    pub(super) fn new(summary: &Summary) -> Self {
        let rows = &summary.rows;
        let mut troubles = Vec::new();
        if summary.draws < MIN_DRAWS {
            troubles.push(Trouble::TooFewDraws { draws: summary.draws });
        }
        let quantities = |wanted: &dyn Fn(&Row) -> bool| -> Vec<String> {
            rows.iter().filter(|row| wanted(row)).map(|row| row.name.clone()).collect()
        };
        let still = |row: &Row| row.not_finite == 0 && row.sd == 0.0;
        // With too few draws there is no variance either.
        let overflows =
            |row: &Row| summary.draws >= MIN_DRAWS && !(row.mean.is_finite() && row.sd.is_finite());
        let kinds = [
            quantities(&|row| row.not_finite > 0 || overflows(row)),
            quantities(&still),
            quantities(&|row| row.still_chains > 0 && !still(row)),
        ];
        let [not_finite, constant, still_chains] = kinds;
        if !not_finite.is_empty() {
            troubles.push(Trouble::NotFinite { quantities: not_finite });
        }
        if !constant.is_empty() && summary.draws >= MIN_DRAWS {
            troubles.push(Trouble::Constant { quantities: constant });
        }
        if !still_chains.is_empty() && summary.draws >= MIN_DRAWS {
            troubles.push(Trouble::StillChains { quantities: still_chains });
        }
        let moving: Vec<&Row> = rows.iter().filter(|row| !still(row)).collect();
        if let Some((quantities, worst)) =
            worst(&moving, |row| row.r_hat, |r_hat| r_hat > R_HAT_LIMIT, true)
        {
            troubles.push(Trouble::ChainsDisagree { quantities, worst });
        }
        let needed = ESS_PER_CHAIN * summary.chains;
        let mut few = |part, ess: fn(&Row) -> f64| {
            if let Some((quantities, worst)) = worst(&moving, ess, |ess| ess < needed as f64, false)
            {
                troubles.push(Trouble::FewEffectiveDraws { part, quantities, worst, needed });
            }
        };
        few("bulk", |row| row.ess_bulk);
        few("tail", |row| row.ess_tail);
        if summary.chains < ENOUGH_CHAINS {
            troubles.push(Trouble::FewChains { chains: summary.chains });
        }
        let known = |value: fn(&Row) -> f64| {
            moving.iter().map(move |row| value(row)).filter(|x| !x.is_nan())
        };
        Verdict {
            troubles,
            worst_r_hat: known(|row| row.r_hat).reduce(f64::max),
            least_ess: known(|row| row.ess_bulk).chain(known(|row| row.ess_tail)).reduce(f64::min),
        }
    }

    /// Whether no trouble was found.
    pub fn is_clean(&self) -> bool {
        self.troubles.is_empty()
    }
}

/// The names of rows whose value is bad, the worst first, and the worst value. NaN is not bad, but
/// unknown.
fn worst(
    rows: &[&Row],
    value: impl Fn(&Row) -> f64,
    bad: impl Fn(f64) -> bool,
    largest_first: bool,
) -> Option<(Vec<String>, f64)> {
    let mut found: Vec<(f64, &str)> =
        rows.iter().map(|row| (value(row), row.name.as_str())).filter(|(x, _)| bad(*x)).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    if largest_first {
        found.reverse();
    }
    let worst = found.first()?.0;
    Some((found.into_iter().map(|(_, name)| name.to_string()).collect(), worst))
}

/// `a`, `b` and 3 more.
fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_LISTED).map(|n| format!("`{n}`")).collect();
    let more = names.len() - shown.len();
    match (&shown[..], more) {
        ([one], 0) => one.clone(),
        ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            f.write_str("No trouble found")?;
            if let (Some(r_hat), Some(ess)) = (self.worst_r_hat, self.least_ess) {
                write!(
                    f,
                    ": R-hat is at most {r_hat:.3}, the effective sample size at least {ess:.0}"
                )?;
            }
            return writeln!(f, ".");
        }
        self.troubles.iter().try_for_each(|trouble| writeln!(f, "{trouble}"))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::TooFewDraws { draws } => write!(
                f,
                "Each chain has {draws} draws; below {MIN_DRAWS} nothing can be said. Sample longer."
            ),
            Trouble::NotFinite { quantities } => write!(
                f,
                "Draws of {} are NaN or infinite, or too large for a variance, so that nothing can be said \
                 of them. Lower the step size, or see whether the quantity is defined everywhere.",
                list(quantities)
            ),
            Trouble::Constant { quantities } => write!(
                f,
                "All draws of {} are the same. Fine for a constant; otherwise the chains do not move: \
                 raise the step size, or see whether the gradient reaches this quantity.",
                list(quantities)
            ),
            Trouble::StillChains { quantities } => write!(
                f,
                "Some chains do not move in {} and others do. Look at the chains one by one: they may \
                 have begun too far out; start them closer or lower the step size.",
                list(quantities)
            ),
            Trouble::ChainsDisagree { quantities, worst } => write!(
                f,
                "The chains disagree: R-hat is above {R_HAT_LIMIT} for {} (at worst {worst:.4}). Sample \
                 longer, warm up longer, or look for several modes; estimates are not to be trusted \
                 before.",
                list(quantities)
            ),
            Trouble::FewEffectiveDraws { part, quantities, worst, needed } => write!(
                f,
                "Few effective draws: the {part} ESS is below {needed} ({ESS_PER_CHAIN} a chain) for {} \
                 (at worst {worst:.0}). Sample longer, or find a step size that moves the chains \
                 further.",
                list(quantities)
            ),
            Trouble::FewChains { chains: 1 } => write!(
                f,
                "A single chain has none to disagree with, and R-hat is not known. Run at least \
                 {ENOUGH_CHAINS}, from starting points of their own."
            ),
            Trouble::FewChains { chains } => write!(
                f,
                "{chains} chains are few to compare. Run at least {ENOUGH_CHAINS}, from starting points \
                 of their own."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;
    use santa::noise::{Purpose, Stream};

    /// Four quantities of normal draws, changed by `f(chain, draw, quantity, z)`.
    fn verdict(chains: u32, n: usize, f: impl Fn(u32, usize, usize, f64) -> f64) -> Verdict {
        let mut draws = Draws::new(["a", "b", "c"], chains as usize).unwrap();
        for chain in 0..chains {
            let stream = Stream::new(4, chain, Purpose::Custom(0));
            for i in 0..n {
                let mut z = vec![0.0; 3];
                stream.normals(i as u64, 0, 0, &mut z);
                let draw: Vec<f64> = (0..3).map(|q| f(chain, i, q, z[q])).collect();
                draws.push(chain as usize, &draw).unwrap();
            }
        }
        Summary::new(&draws).verdict()
    }

    #[test]
    fn independent_draws_of_four_chains_have_no_trouble() {
        let verdict = verdict(4, 500, |_, _, _, z| z);
        assert!(verdict.is_clean(), "{verdict}");
        let words = verdict.to_string();
        assert!(words.starts_with("No trouble found: R-hat is at most 1.00"), "{words}");
    }

    #[test]
    fn a_chain_elsewhere_is_named_with_what_to_try() {
        let verdict =
            verdict(4, 500, |chain, _, q, z| if chain == 3 && q > 0 { z + q as f64 } else { z });
        let words = verdict.to_string();
        let Trouble::ChainsDisagree { quantities, worst } = &verdict.troubles[0] else {
            panic!("{words}")
        };
        assert_eq!(quantities[..], ["c", "b"]);
        assert!(*worst > 1.2 && verdict.worst_r_hat == Some(*worst));
        assert!(words.contains("R-hat is above 1.01 for `c` and `b` (at worst 1."), "{words}");
        assert!(words.contains("Sample longer"), "{words}");
    }

    #[test]
    fn few_effective_draws_are_counted_per_chain() {
        let words = verdict(4, 40, |_, _, _, z| z).to_string();
        assert!(words.contains("bulk ESS is below 400 (100 a chain)"), "{words}");
        assert!(words.contains("tail ESS"), "{words}");
    }

    #[test]
    fn draws_that_are_no_numbers_or_do_not_move_are_named() {
        let words = verdict(4, 500, |chain, i, q, z| match q {
            0 if i == 7 => f64::NAN,
            1 => 1.0,
            2 if chain == 2 => 0.3,
            _ => z,
        })
        .to_string();
        assert!(words.contains("Draws of `a` are NaN or infinite"), "{words}");
        assert!(words.contains("All draws of `b` are the same."), "{words}");
        assert!(words.contains("Some chains do not move in `c`"), "{words}");
    }

    /// Ranks know no size: R-hat and the effective sample sizes of such draws are fine.
    #[test]
    fn draws_without_a_variance_are_trouble_although_the_chains_agree() {
        let verdict = verdict(4, 500, |_, _, q, z| if q == 1 { 1e200 * z } else { z });
        assert_eq!(verdict.troubles, [Trouble::NotFinite { quantities: vec!["b".into()] }]);
        assert!(verdict.worst_r_hat < Some(1.01) && verdict.least_ess > Some(400.0));
    }

    #[test]
    fn too_few_chains_or_draws_to_say_anything_are_said() {
        assert!(verdict(1, 500, |_, _, _, z| z).to_string().contains("A single chain"));
        assert!(verdict(3, 500, |_, _, _, z| z).to_string().contains("3 chains are few"));
        let words = verdict(4, 2, |_, _, _, z| z).to_string();
        assert_eq!(words, "Each chain has 2 draws; below 4 nothing can be said. Sample longer.\n");
        assert!(verdict(4, 0, |_, _, _, z| z).to_string().contains("has 0 draws"));
    }

    #[test]
    fn long_lists_of_names_are_cut() {
        let names: Vec<String> = (0..8).map(|i| format!("w{i}")).collect();
        assert_eq!(list(&names), "`w0`, `w1`, `w2`, `w3`, `w4` and 3 more");
        assert_eq!(list(&names[..3]), "`w0`, `w1` and `w2`");
        assert_eq!(list(&names[..1]), "`w0`");
    }
}
