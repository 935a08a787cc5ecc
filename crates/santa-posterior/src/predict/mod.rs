//! What the posterior predicts, and how sure it is.
//!
//! A posterior predicts by the mean of its draws' predictions. The draws come one at a time and are
//! forgotten: [`Predictive`] holds class probabilities in the memory of a few predictions,
//! [`RegressionPredictive`] the law of a number. Neither knows a model: what they take are rows of
//! numbers, such as those of santa-nn's `Classifier::log_probabilities`.
//!
//! ```
//! use santa_posterior::predict::{Predictive, Scores};
//!
//! // Three examples of two classes. Two draws agree on the first, not on the second, and neither
//! // knows the third.
//! let mut predictive = Predictive::new(3, 2)?;
//! predictive.push_probabilities(&[0.9, 0.1, 0.9, 0.1, 0.5, 0.5])?;
//! predictive.push_probabilities(&[0.9, 0.1, 0.1, 0.9, 0.5, 0.5])?;
//!
//! let probabilities = predictive.probabilities().unwrap();
//! let of = predictive.uncertainties();
//! assert!((of[1].entropy - of[2].entropy).abs() < 1e-12); // both are as good as a coin,
//! assert!(of[1].mutual_information > 0.3); // one because the draws contradict each other,
//! assert_eq!(of[2].mutual_information, 0.0); // the other because there is nothing to know
//!
//! let scores = Scores::of(&probabilities, &[0, 0, 1])?;
//! println!("{scores}");
//! # Ok::<(), santa_posterior::Error>(())
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`Predictive`], [`Uncertainty`] | classes: mean probabilities, entropies, mutual information |
//! | [`Scores`], [`Bin`] | how good and how honest they are: likelihood, Brier score, calibration |
//! | [`Detection`], [`auroc`] | whether uncertainty tells strange inputs from familiar ones |
//! | [`rotate`] | images turned by degrees: inputs that are a little, or very, strange |
//! | [`RegressionPredictive`], [`Noise`] | numbers: mean, intervals, log density, PIT values |

mod classes;
mod detection;
mod numbers;
mod rotate;
mod scores;
mod special;

pub use classes::{Predictive, PredictiveState, Uncertainty};
pub use detection::{Detection, auroc};
pub use numbers::{Noise, RegressionPredictive};
pub use rotate::rotate;
pub use scores::{BINS, Bin, Scores};

/// The first of the largest.
fn likeliest(row: &[f64]) -> usize {
    (1..row.len()).fold(0, |best, k| if row[k] > row[best] { k } else { best })
}
