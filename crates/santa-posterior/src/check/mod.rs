//! Whether a sampler samples what it should.
//!
//! Three questions, from the most general to the most exact:
//!
//! | question | tool | needs |
//! | --- | --- | --- |
//! | Are the posteriors right over all data that the prior predicts? | [`Calibration`] | a [`Model`] that simulates, independent draws |
//! | Does a transition leave the posterior where it is? | [`JointTest`] | a [`Model`] that simulates, no independent draws |
//! | How far off is one posterior, at this step and this batch size? | [`bias`] | a [`bias::Reference`], exact or from [`Hmc`] |
//!
//! # What a verdict means
//!
//! The first two are tests with a *stated false-alarm rate*: the chance that a right sampler fails,
//! over all quantities together. With Q quantities each is tested at the rate divided by Q
//! (Bonferroni), so the total stays below what is stated whatever the quantities' dependence.
//!
//! A test passes when it sees nothing, and it sees nothing below its *resolution*: the error that
//! it would notice in half of the cases. Samplers without a Metropolis correction are biased, by
//! $O(h^2)$ of the integrator and by what the minibatches add. They are right for a purpose when
//! that bias is below the resolution, and both tests report theirs. [`bias`] measures the rest.
//!
//! ```
//! use santa::noise::{Purpose, Stream};
//! use santa_posterior::check::{Calibration, Hmc, LinearModel};
//!
//! let features = Stream::new(1, 0, Purpose::Data);
//! let model = LinearModel::new(20, 2, 4.0, 1.0, &features)?;
//! let report = Calibration::new(40, 7).run(&model, |posterior, simulation| {
//!     let hmc = Hmc { warm_up: 60, draws: 7, every: 3, seed: simulation.into(), ..Hmc::default() };
//!     let run = hmc.run(posterior, &[vec![0.0; 2]])?;
//!     Ok((0..7).map(|i| run.draws.draw(0, i).to_vec()).collect())
//! })?;
//! assert!(report.passes(), "{report}");
//! # Ok::<(), santa_posterior::Error>(())
//! ```

pub mod bias;
mod dual_averaging;
mod geweke;
mod hmc;
mod laws;
mod model;
mod sbc;
mod uniformity;
mod walk;

pub use geweke::{JointQuantity, JointReport, JointTest};
pub use hmc::{Hmc, HmcRun};
pub use model::{LinearModel, LogisticModel, Model, log_likelihood, parameter_names};
pub use sbc::{Calibration, CalibrationReport, RankedQuantity, Resolution};
pub use uniformity::{rank_band, rank_p_value};
pub use walk::{Walk, gradient_variance};

use crate::error::{Error, Result};

/// The default chance that a right sampler fails a test.
pub const FALSE_ALARM_RATE: f64 = 1e-3;

/// Refuses a rate that is no chance.
fn check_rate(rate: f64) -> Result<()> {
    if rate > 0.0 && rate < 1.0 {
        Ok(())
    } else {
        Err(Error::setting("false_alarm_rate", rate, "it must lie between 0 and 1"))
    }
}

/// Refuses a count below `least`.
fn check_count(field: &str, value: u64, least: u64) -> Result<()> {
    if value >= least {
        Ok(())
    } else {
        Err(Error::setting(field, value, format!("it must be at least {least}")))
    }
}

/// The results for 0, 1, ..., in this order, on all cores.
fn in_parallel<T: Send>(n: u32, work: impl Fn(u32) -> Result<T> + Sync) -> Result<Vec<T>> {
    #[cfg(feature = "parallel")]
    {
        use rayon::iter::{IntoParallelIterator, ParallelIterator};
        (0..n).into_par_iter().map(&work).collect()
    }
    #[cfg(not(feature = "parallel"))]
    {
        (0..n).map(work).collect()
    }
}
