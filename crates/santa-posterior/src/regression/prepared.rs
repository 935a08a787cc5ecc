//! A regression made ready for its chains.

use super::laplace::Laplace;
use super::potential::Regression;
use crate::error::Result;
use crate::sampler::{Member, Quantities, Sampler, Scales, quantities};
use santa::noise::{Purpose, Stream};

/// A regression with its mode and the curvature there: the anchor of the minibatches, where chains
/// start, and how wide they are. This is what `santa sample` makes its chains of.
///
/// ```
/// use santa_posterior::regression::{Design, Regression, Scaling};
/// use santa_posterior::sampler::Sampler;
///
/// let x: Vec<f64> = (0..300).map(|i| f64::from(i % 17)).collect();
/// let y: Vec<f64> = (0..300).map(|i| f64::from(i % 17) + f64::from(i % 5)).collect();
/// let design = Design::new(["x"], &x, true, Scaling::Standardised)?;
/// let sampler = Sampler { draws: 100, warm_up: 100, batch_size: 30, ..Sampler::seeded(1) };
/// let prepared = Regression::linear(design, &y)?.prepare(&sampler, true)?;
/// let recorder = prepared.recorder();
/// let posterior = sampler.run(sampler.members(|chain| {
///     prepared.member(&sampler, chain, recorder.clone())
/// }))?;
/// assert_eq!(posterior.draws.names(), ["intercept", "x", "sigma"]);
/// # Ok::<(), santa_posterior::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prepared {
    /// The regression, with an anchor at the mode where batches are smaller than the data.
    pub regression: Regression,
    /// The mode and the curvature there; of several the heaviest.
    pub laplace: Laplace,
    /// The [other modes](Regression::modes), which the chains do not see.
    pub other_modes: Vec<Laplace>,
    /// The scales of the curvature, unless the warm-up is to find its own.
    pub scales: Option<Scales<f64>>,
}

impl Regression {
    /// Finds the mode, of several the heaviest, and puts the anchor there if the sampler's batches are smaller than the data.
    /// With `use_curvature` the scales are those of the curvature, correlations and all: of many
    /// coefficients the triangle is more work than a batch, but without it steps are shorter by far.
    pub fn prepare(self, sampler: &Sampler, use_curvature: bool) -> Result<Prepared> {
        let n = self.target().data_size().get();
        let mut other_modes = self.modes()?;
        let laplace = other_modes.remove(0);
        let scales = match use_curvature {
            true => Some(Scales::dense(&laplace.mode, &laplace.covariance())?),
            false => None,
        };
        let regression = match (sampler.batch_size as u64) < n {
            true => self.with_anchor(&laplace.mode)?,
            false => self,
        };
        Ok(Prepared { regression, laplace, other_modes, scales })
    }
}

impl Prepared {
    /// Keeps coefficients and noise in the units of the data.
    pub fn recorder(&self) -> Quantities<impl FnMut(&[f64], &mut [f64]) + Clone + Send + use<>> {
        let regression = self.regression.clone();
        quantities(regression.names(), move |theta: &[f64], out: &mut [f64]| {
            // As long as its names: `original` gives one number for each.
            match regression.original(theta) {
                Ok(values) => out.copy_from_slice(&values),
                Err(_) => out.fill(f64::NAN),
            }
        })
    }

    /// Where a chain starts, from standard normals: a draw of the Gaussian at the mode, made twice as
    /// wide, so that chains that agree have come from different sides.
    pub fn start(&self, normals: &[f64]) -> Vec<f64> {
        const SPREAD: f64 = 2.0;
        let wide: Vec<f64> = normals.iter().map(|x| SPREAD * x).collect();
        self.laplace.draw(&wide)
    }

    /// The share of the posterior that each of the other modes has, by the Gaussians at all of them.
    pub fn shares_of_others(&self) -> Vec<f64> {
        let above = |mode: &Laplace| (mode.log_mass() - self.laplace.log_mass()).exp();
        let all = 1.0 + self.other_modes.iter().map(above).sum::<f64>();
        self.other_modes.iter().map(|mode| above(mode) / all).collect()
    }

    /// A chain of a sampler.
    pub fn member<R>(
        &self,
        sampler: &Sampler,
        chain: u32,
        recorder: R,
    ) -> Member<f64, Regression, R> {
        let mut normals = vec![0.0; self.laplace.mode.len()];
        Stream::new(sampler.seed, chain, Purpose::Initialisation).normals(0, 0, 0, &mut normals);
        let member = Member::new(self.regression.clone(), recorder, self.start(&normals));
        match &self.scales {
            Some(scales) => member.with_scales(scales.clone()),
            None => member,
        }
    }
}
