//! What the warm-up found.

use super::scales::Scales;
use crate::error::{Error, Result};
use santa::{Checkpoint, Real};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What the warm-up found: everything that the draws depend on besides the settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning<F> {
    /// The scales.
    pub scales: Scales<F>,
    /// The point, in the coordinates that are sampled, about which the temperature is read.
    pub reference: Vec<F>,
    /// The numbers.
    pub figures: Figures,
}

/// The numbers of a [`Tuning`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// h, the step in units of the scales.
    pub step: f64,
    /// Steps between draws.
    pub thin: u64,
    /// V, the variance of the minibatch gradient of U in whitened coordinates, mean over them.
    pub gradient_noise: f64,
    /// By how much that noise differs between directions, relative to its mean:
    /// $\sqrt{d\ \mathrm{tr}\ \Sigma^2 / (\mathrm{tr}\ \Sigma)^2 - 1}$ with its covariance $\Sigma$.
    /// Zero if it is the same in all, and where the scales have correlations, which make it so: there it
    /// is not measured.
    #[serde(default)]
    pub noise_unevenness: f64,
    /// What h would be if the noise were the same in all directions, and as strong: longer than the step
    /// where unevenness made it short.
    #[serde(default)]
    pub even_step: f64,
    /// The configurational temperature of the last window, times $\beta$.
    pub temperature: f64,
    /// Its standard error.
    pub temperature_error: f64,
    /// How often the step was halved because a window diverged or its temperature was off.
    pub halvings: u32,
    /// Added to a chain's number for its stream of noise.
    pub stream: u32,
}

const FIGURES: &str = "tuning";
const KIND: &str = "tuning/kind";
const CENTRE: &str = "tuning/centre";
const SCALES: &str = "tuning/scales";
const REFERENCE: &str = "tuning/reference";

impl<F: Real> Scales<F> {
    /// Puts them into a checkpoint.
    pub(super) fn save(&self, checkpoint: &mut Checkpoint) -> Result<()> {
        let (kind, parts) = match self {
            Scales::Identity => ("identity", None),
            Scales::Diagonal { centre, scales } => ("diagonal", Some((centre, scales))),
            Scales::Dense { centre, rows } => ("dense", Some((centre, rows))),
        };
        checkpoint.insert_meta(KIND, kind)?;
        if let Some((centre, scales)) = parts {
            checkpoint.insert_tensor(CENTRE, &[centre.len()], centre)?;
            checkpoint.insert_tensor(SCALES, &[scales.len()], scales)?;
        }
        Ok(())
    }

    /// Takes back what [`Scales::save`] put there, for `dim` parameters.
    pub(super) fn restore(checkpoint: &Checkpoint, dim: usize) -> Result<Self> {
        let kind: String = checkpoint.meta(KIND)?;
        Ok(match kind.as_str() {
            "identity" => Scales::Identity,
            "diagonal" => Scales::Diagonal {
                centre: checkpoint.tensor_of_shape(CENTRE, &[dim])?,
                scales: checkpoint.tensor_of_shape(SCALES, &[dim])?,
            },
            "dense" => Scales::Dense {
                centre: checkpoint.tensor_of_shape(CENTRE, &[dim])?,
                rows: checkpoint.tensor_of_shape(SCALES, &[dim * (dim + 1) / 2])?,
            },
            other => return Err(Error::data(format!("scales of the unknown kind `{other}`"))),
        })
    }
}

impl Figures {
    /// Takes them from a checkpoint of a [`Tuning`].
    pub(crate) fn read(checkpoint: &Checkpoint) -> Result<Self> {
        Ok(checkpoint.meta(FIGURES)?)
    }
}

impl<F: Real> Tuning<F> {
    /// Writes a file, whole or not at all.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut checkpoint = Checkpoint::new();
        checkpoint.insert_meta(FIGURES, &self.figures)?;
        checkpoint.insert_tensor(REFERENCE, &[self.reference.len()], &self.reference)?;
        self.scales.save(&mut checkpoint)?;
        Ok(checkpoint.write(path)?)
    }

    /// Reads a file, for `dim` parameters.
    pub fn read(path: impl AsRef<Path>, dim: usize) -> Result<Self> {
        let path = path.as_ref();
        Tuning::restore(&Checkpoint::read(path)?, dim).map_err(|error| match error {
            Error::Data(what) => Error::data(format!("{}: {what}", path.display())),
            other => other,
        })
    }

    /// Takes it from a checkpoint that was written.
    pub(super) fn restore(checkpoint: &Checkpoint, dim: usize) -> Result<Self> {
        Ok(Tuning {
            scales: Scales::restore(checkpoint, dim)?,
            reference: checkpoint.tensor_of_shape(REFERENCE, &[dim])?,
            figures: Figures::read(checkpoint)?,
        })
    }
}
