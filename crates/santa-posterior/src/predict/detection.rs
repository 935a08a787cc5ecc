//! Whether uncertainty tells strange inputs from familiar ones.

use crate::error::{Error, Result};
use serde::Serialize;

/// How a measure of uncertainty (an entropy, a mutual information) separates two sets of examples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Detection {
    /// Its mean over the familiar examples.
    pub familiar: f64,
    /// Its mean over the strange ones.
    pub strange: f64,
    /// The chance that a strange example has more of it than a familiar one; see [`auroc`].
    pub auroc: f64,
}

impl Detection {
    /// Compares the two sets.
    pub fn between(familiar: &[f64], strange: &[f64]) -> Result<Self> {
        let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
        let auroc = auroc(familiar, strange)?;
        Ok(Detection { familiar: mean(familiar), strange: mean(strange), auroc })
    }
}

/// The area under the receiver operating characteristic of the rule "strange if the score exceeds a
/// threshold".
///
/// It is the Mann-Whitney statistic (Hanley and McNeil, 1982), with familiar scores $x_i$ and strange
/// ones $y_j$:
///
/// $$ \frac{1}{nm} \sum_{i=1}^n \sum_{j=1}^m \left( \lbrack y_j > x_i \rbrack + \tfrac12 \lbrack y_j = x_i \rbrack \right) $$
///
/// ```
/// use santa_posterior::predict::auroc;
///
/// assert_eq!(auroc(&[0.1, 0.2], &[0.3, 0.4])?, 1.0);
/// assert_eq!(auroc(&[0.1, 0.2], &[0.2])?, 0.75);
/// # Ok::<(), santa_posterior::Error>(())
/// ```
pub fn auroc(familiar: &[f64], strange: &[f64]) -> Result<f64> {
    for (name, scores) in [("familiar", familiar), ("strange", strange)] {
        if scores.is_empty() {
            return Err(Error::data(format!("there are no {name} examples to compare")));
        }
        if let Some(i) = scores.iter().position(|x| x.is_nan()) {
            return Err(Error::data(format!("score {i} of the {name} examples is NaN")));
        }
    }
    let mut sorted = familiar.to_vec();
    sorted.sort_by(f64::total_cmp);
    let twice: f64 = strange
        .iter()
        .map(|y| sorted.partition_point(|x| x < y) + sorted.partition_point(|x| x <= y))
        .map(|places| places as f64)
        .sum();
    Ok(twice / 2.0 / (familiar.len() as f64 * strange.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    #[test]
    fn the_area_is_the_share_of_pairs_in_order() {
        let stream = Stream::new(5, 0, Purpose::Custom(3));
        for case in 0..50u64 {
            // Small integers: many ties.
            let scores = |segment: u32, n: u32| -> Vec<f64> {
                (0..n).map(|i| stream.below(case, segment, i, 6) as f64).collect()
            };
            let (x, y) = (scores(0, 1 + case as u32), scores(1, 40));
            let pairs = x.iter().flat_map(|x| y.iter().map(move |y| (x, y)));
            let half_points: u32 =
                pairs.map(|(x, y)| if y > x { 2 } else { u32::from(x == y) }).sum();
            let by_hand = f64::from(half_points) / 2.0 / (x.len() * y.len()) as f64;
            let area = auroc(&x, &y).unwrap();
            assert!((area - by_hand).abs() < 1e-12);
            assert!((auroc(&y, &x).unwrap() - (1.0 - by_hand)).abs() < 1e-12);
        }
    }

    #[test]
    fn equals_are_a_coin_and_zero_has_no_sign() {
        assert_eq!(auroc(&[1.0; 3], &[1.0; 5]).unwrap(), 0.5);
        assert_eq!(auroc(&[-0.0, 0.0], &[0.0, -0.0]).unwrap(), 0.5);
        assert_eq!(auroc(&[0.0], &[f64::INFINITY]).unwrap(), 1.0);
        let both = Detection::between(&[1.0, 3.0], &[2.0]).unwrap();
        assert_eq!(both, Detection { familiar: 2.0, strange: 2.0, auroc: 0.5 });
    }

    #[test]
    fn nothing_and_nan_are_refused() {
        assert!(auroc(&[], &[1.0]).unwrap_err().to_string().contains("familiar"));
        assert!(auroc(&[1.0], &[]).is_err());
        assert!(Detection::between(&[1.0], &[f64::NAN]).is_err());
    }
}
