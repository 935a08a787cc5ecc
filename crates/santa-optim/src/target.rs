//! What is being minimised or sampled, apart from the gradient itself: the parameters' layout, the
//! number of data N, the prior, and parameter groups.
//!
//! $$ U(\theta) = -\log p(\theta) - \sum_{n=1}^N \log p(x_n \mid \theta) $$
//!
//! Gradients come in as *means* over a minibatch, without the prior: what every framework computes.
//! The [`Target`] knows the rest, so N and the prior cannot be forgotten, nor applied twice:
//! nothing else in the library takes either.

use crate::error::{Error, Result, check};
use crate::layout::Layout;
use serde::{Deserialize, Serialize};

/// N, the number of data that the potential sums over: the whole training set, not the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct DataSize(u64);

impl DataSize {
    /// A potential that is no sum over data: the gradient handed over is the gradient of U.
    pub const ONE: DataSize = DataSize(1);

    /// N data; at least one.
    pub fn new(n: u64) -> Result<Self> {
        if n == 0 {
            return Err(Error::setting("data_size", n, "a potential needs at least one datum"));
        }
        Ok(DataSize(n))
    }
    /// N.
    pub fn get(self) -> u64 {
        self.0
    }
    /// N as a float.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl TryFrom<u64> for DataSize {
    type Error = Error;
    fn try_from(n: u64) -> Result<Self> {
        DataSize::new(n)
    }
}
impl From<DataSize> for u64 {
    fn from(n: DataSize) -> u64 {
        n.0
    }
}

/// The prior p(theta), independent for each parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Prior {
    /// No prior.
    #[default]
    Flat,
    /// `N(0, 1/precision)`: -log p = precision * theta^2 / 2.
    Gaussian {
        /// One over the variance.
        precision: f64,
    },
    /// Laplace: -log p = |theta| / scale.
    Laplace {
        /// Mean absolute value of a parameter.
        scale: f64,
    },
}

impl Prior {
    /// Gaussian of a given precision (one over the variance).
    pub fn gaussian(precision: f64) -> Self {
        Prior::Gaussian { precision }
    }
    /// Laplace of a given scale.
    pub fn laplace(scale: f64) -> Self {
        Prior::Laplace { scale }
    }
    /// The Gaussian prior that equals a framework's `weight_decay` (added to the mean gradient)
    /// for N data: precision = weight_decay * N.
    pub fn from_weight_decay(weight_decay: f64, n: DataSize) -> Self {
        if weight_decay == 0.0 {
            Prior::Flat
        } else {
            Prior::Gaussian { precision: weight_decay * n.as_f64() }
        }
    }

    fn check(&self, field: &str) -> Result<()> {
        match *self {
            Prior::Flat => Ok(()),
            Prior::Gaussian { precision } => {
                check::positive(&format!("{field}.precision"), precision)
            }
            Prior::Laplace { scale } => check::positive(&format!("{field}.scale"), scale),
        }
    }

    /// Coefficients of theta and of sign(theta) in the *mean* gradient of U.
    pub fn mean_gradient(&self, n: DataSize) -> (f64, f64) {
        match *self {
            Prior::Flat => (0.0, 0.0),
            Prior::Gaussian { precision } => (precision / n.as_f64(), 0.0),
            Prior::Laplace { scale } => (0.0, 1.0 / (scale * n.as_f64())),
        }
    }

    /// -log p of one parameter, up to a constant.
    pub fn energy(&self, theta: f64) -> f64 {
        match *self {
            Prior::Flat => 0.0,
            Prior::Gaussian { precision } => 0.5 * precision * theta * theta,
            Prior::Laplace { scale } => theta.abs() / scale,
        }
    }
}

/// Settings for the segments whose name matches a pattern. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Group {
    /// A name with `*` for any run of characters: `*.bias`, `layer1.*`.
    pub pattern: String,
    /// Multiplies the learning rate.
    pub lr_scale: Option<f64>,
    /// Replaces the prior.
    pub prior: Option<Prior>,
    /// A frozen segment does not move, and has no say in the gradient's norm.
    pub frozen: Option<bool>,
}

impl Group {
    /// A group that changes nothing yet.
    pub fn new(pattern: impl Into<String>) -> Self {
        Group { pattern: pattern.into(), ..Group::default() }
    }
    /// Multiplies the learning rate.
    pub fn lr_scale(mut self, scale: f64) -> Self {
        self.lr_scale = Some(scale);
        self
    }
    /// Replaces the prior.
    pub fn prior(mut self, prior: Prior) -> Self {
        self.prior = Some(prior);
        self
    }
    /// Holds the segments where they are.
    pub fn frozen(mut self) -> Self {
        self.frozen = Some(true);
        self
    }
}

/// What a segment's groups come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentSettings {
    /// Factor of the learning rate.
    pub lr_scale: f64,
    /// Its prior.
    pub prior: Prior,
    /// It does not move.
    pub frozen: bool,
}

/// Layout, N, prior and groups: everything about U but its gradient.
///
/// ```
/// use santa::{DataSize, Group, Layout, Prior, Target};
///
/// let layout = Layout::new([("l1.weight", vec![4, 3]), ("l1.bias", vec![4])])?;
/// let target = Target::new(layout, DataSize::new(60_000)?, Prior::gaussian(1.0))?
///     .with_group(Group::new("*.bias").prior(Prior::Flat).lr_scale(2.0))?;
/// assert_eq!(target.settings(1).lr_scale, 2.0);
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TargetDescription", into = "TargetDescription")]
pub struct Target {
    layout: Layout,
    data_size: DataSize,
    prior: Prior,
    groups: Vec<Group>,
    settings: Vec<SegmentSettings>,
}

impl Target {
    /// A target without groups.
    pub fn new(layout: Layout, data_size: DataSize, prior: Prior) -> Result<Self> {
        prior.check("prior")?;
        let settings =
            vec![SegmentSettings { lr_scale: 1.0, prior, frozen: false }; layout.segments().len()];
        Ok(Target { layout, data_size, prior, groups: Vec::new(), settings })
    }

    /// A density of `dim` parameters given by its whole gradient: N = 1, no further prior.
    pub fn density(dim: usize) -> Result<Self> {
        Target::new(Layout::flat(dim)?, DataSize::ONE, Prior::Flat)
    }

    /// Adds a group; where groups overlap, the later one wins.
    pub fn with_group(mut self, group: Group) -> Result<Self> {
        let field = format!("group `{}`", group.pattern);
        if let Some(scale) = group.lr_scale {
            check::positive(&format!("{field}.lr_scale"), scale)?;
        }
        if let Some(prior) = &group.prior {
            prior.check(&format!("{field}.prior"))?;
        }
        let mut matched = false;
        for (segment, settings) in self.layout.segments().iter().zip(&mut self.settings) {
            if segment.matches(&group.pattern) {
                matched = true;
                settings.lr_scale = group.lr_scale.unwrap_or(settings.lr_scale);
                settings.prior = group.prior.unwrap_or(settings.prior);
                settings.frozen = group.frozen.unwrap_or(settings.frozen);
            }
        }
        if !matched {
            const SHOWN: usize = 12;
            let names: Vec<_> =
                self.layout.segments().iter().take(SHOWN).map(|s| s.name()).collect();
            return Err(Error::Structure(format!(
                "{field} matches no segment; there are {}{}",
                names.join(", "),
                if self.layout.segments().len() > SHOWN { ", ..." } else { "" }
            )));
        }
        self.groups.push(group);
        Ok(self)
    }

    /// The parameters' layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// Number of parameters.
    pub fn dim(&self) -> usize {
        self.layout.dim()
    }
    /// N.
    pub fn data_size(&self) -> DataSize {
        self.data_size
    }
    /// The groups, in the order they were added.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
    /// What holds for a segment.
    pub fn settings(&self, segment: usize) -> &SegmentSettings {
        &self.settings[segment]
    }
    /// True if no segment has a prior.
    pub fn is_flat(&self) -> bool {
        self.settings.iter().all(|s| s.prior == Prior::Flat)
    }

    /// -log p(theta), up to a constant.
    pub fn prior_energy<F: crate::Real>(&self, theta: &[F]) -> f64 {
        self.layout
            .segments()
            .iter()
            .zip(&self.settings)
            .map(|(segment, settings)| {
                theta[segment.range()]
                    .iter()
                    .map(|x| settings.prior.energy(x.to_f64()))
                    .sum::<f64>()
            })
            .sum()
    }

    /// Turns the mean gradient of the loss into the mean gradient of U, $\nabla U/N$, in place: adds
    /// the prior's part.
    pub fn add_prior<F: crate::Real>(&self, theta: &[F], gradient: &mut [F]) {
        for (segment, settings) in self.layout.segments().iter().zip(&self.settings) {
            let (ridge, lasso) = settings.prior.mean_gradient(self.data_size);
            let (ridge, lasso) = (F::from_f64(ridge), F::from_f64(lasso));
            let range = segment.range();
            for (g, x) in gradient[range.clone()].iter_mut().zip(&theta[range]) {
                *g += ridge * *x + lasso * x.sign();
            }
        }
    }

    /// Turns the mean gradient of the loss into the whole gradient of U, in place.
    pub fn full_gradient<F: crate::Real>(&self, theta: &[F], gradient: &mut [F]) {
        let n = self.data_size.as_f64();
        for (segment, settings) in self.layout.segments().iter().zip(&self.settings) {
            let (ridge, lasso) = settings.prior.mean_gradient(self.data_size);
            for i in segment.range() {
                let x = theta[i].to_f64();
                let sign = theta[i].sign().to_f64();
                gradient[i] = F::from_f64(n * (gradient[i].to_f64() + ridge * x + lasso * sign));
            }
        }
    }
}

/// The serialised form of a [`Target`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetDescription {
    layout: Layout,
    data_size: DataSize,
    prior: Prior,
    groups: Vec<Group>,
}

impl TryFrom<TargetDescription> for Target {
    type Error = Error;
    fn try_from(d: TargetDescription) -> Result<Self> {
        let mut target = Target::new(d.layout, d.data_size, d.prior)?;
        for group in d.groups {
            target = target.with_group(group)?;
        }
        Ok(target)
    }
}

impl From<Target> for TargetDescription {
    fn from(t: Target) -> Self {
        TargetDescription {
            layout: t.layout,
            data_size: t.data_size,
            prior: t.prior,
            groups: t.groups,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_groups_win_and_unknown_names_are_refused() {
        let layout = Layout::new([("a.w", vec![1]), ("a.b", vec![1]), ("c.b", vec![1])]).unwrap();
        let target = Target::new(layout, DataSize::ONE, Prior::gaussian(2.0)).unwrap();
        let target = target
            .with_group(Group::new("*.b").prior(Prior::Flat))
            .unwrap()
            .with_group(Group::new("c.*").frozen().lr_scale(3.0))
            .unwrap();
        assert_eq!(target.settings(0).prior, Prior::gaussian(2.0));
        assert_eq!(target.settings(1).prior, Prior::Flat);
        assert!(target.settings(2).frozen && target.settings(2).prior == Prior::Flat);
        let text = serde_json::to_string(&target).unwrap();
        assert_eq!(serde_json::from_str::<Target>(&text).unwrap(), target);
        let message = target.with_group(Group::new("d.*")).unwrap_err().to_string();
        assert!(message.contains("`d.*`") && message.contains("a.w"), "{message}");
    }

    #[test]
    fn the_whole_gradient_is_n_times_the_mean_plus_the_prior() {
        let layout = Layout::new([("w", vec![1]), ("b", vec![1])]).unwrap();
        let target = Target::new(layout, DataSize::new(10).unwrap(), Prior::gaussian(3.0))
            .unwrap()
            .with_group(Group::new("b").prior(Prior::laplace(0.5)))
            .unwrap();
        let mut mean = [0.1f64, 0.2];
        target.add_prior(&[2.0, -4.0], &mut mean);
        assert!((mean[0] - 0.7).abs() < 1e-15 && mean[1].abs() < 1e-15, "{mean:?}");
        let mut g = [0.1f64, 0.2];
        target.full_gradient(&[2.0, -4.0], &mut g);
        assert!((g[0] - 7.0).abs() < 1e-12 && g[1].abs() < 1e-12, "{g:?}");
        assert_eq!(target.prior_energy(&[2.0f64, -4.0]), 6.0 + 8.0);
    }
}
