//! What local steps sample where everything is linear: mean and covariance, exactly.
//!
//! If the potential of every member is quadratic and its dynamics have no thermostat, a step of member k
//! is affine in its state x (theta, or theta and u):
//!
//! $$ x \leftarrow M_k x + c_k + B \zeta, \qquad \zeta \sim N(0, I) $$
//!
//! and so are H steps and an averaging. With the same noise for all members
//!
//! $$ x \leftarrow \bar M x + \bar c + \sum_{j=0}^{H-1} P_j B \zeta_j, \qquad
//!    \bar M = \tfrac1K \sum_k M_k^H, \quad
//!    \bar c = \tfrac1K \sum_k \sum_{j<H} M_k^j c_k, \quad
//!    P_j = \tfrac1K \sum_k M_k^j $$
//!
//! so that the averages' law has the mean $(I - \bar M)^{-1} \bar c$ and the covariance that solves
//!
//! $$ \Sigma = \bar M \Sigma \bar M^\top + \sum_{j=0}^{H-1} P_j B B^\top P_j^\top $$
//!
//! With noise of their own the last sum is $\frac{1}{K^2} \sum_{jk} M_k^j B B^\top (M_k^j)^\top$: where
//! the members agree, one K-th of what it should be. Both equations are solved by doubling: the map of n
//! rounds with itself is that of 2n.

use crate::error::{Error, Result};
use santa::{Batch, Potential};

/// A potential whose gradient is affine: $\nabla U(\theta) = A \theta - b$.
#[derive(Clone, Debug, PartialEq)]
pub struct Quadratic {
    /// A, row by row.
    pub curvature: Vec<f64>,
    /// b
    pub pull: Vec<f64>,
}

impl Quadratic {
    /// What a potential is if it is quadratic: from its gradients at the origin and at the unit vectors,
    /// with all data and with the prior.
    pub fn of(potential: &mut impl Potential<f64>) -> Result<Self> {
        let dim = potential.target().dim();
        let mut at = |theta: &[f64]| -> Result<Vec<f64>> {
            let mut gradient = vec![0.0; dim];
            potential.loss_gradient(theta, &Batch::full(), &mut gradient)?;
            potential.target().full_gradient(theta, &mut gradient);
            Ok(gradient)
        };
        let mut theta = vec![0.0; dim];
        let origin = at(&theta)?;
        let mut curvature = vec![0.0; dim * dim];
        for j in 0..dim {
            theta[j] = 1.0;
            for (i, slope) in at(&theta)?.iter().enumerate() {
                curvature[i * dim + j] = slope - origin[i];
            }
            theta[j] = 0.0;
        }
        Ok(Quadratic { curvature, pull: origin.iter().map(|slope| -slope).collect() })
    }

    /// The number of parameters.
    pub fn dim(&self) -> usize {
        self.pull.len()
    }
}

/// A step that is affine: $x \leftarrow M x + c + B \zeta$.
#[derive(Clone, Debug, PartialEq)]
pub struct Affine {
    /// M, row by row.
    pub map: Vec<f64>,
    /// c
    pub shift: Vec<f64>,
    /// $B B^\top$, row by row.
    pub diffusion: Vec<f64>,
}

impl Affine {
    /// SGLD: $\theta \leftarrow \theta - \eta (A\theta - b) + \sqrt{2\eta/\beta}\ \zeta$.
    pub fn sgld(of: &Quadratic, eta: f64, beta: f64) -> Self {
        let dim = of.dim();
        let mut step = Affine::still(dim);
        for i in 0..dim {
            for j in 0..dim {
                step.map[i * dim + j] -= eta * of.curvature[i * dim + j];
            }
            step.shift[i] = eta * of.pull[i];
            step.diffusion[i * dim + i] = 2.0 * eta / beta;
        }
        step
    }

    /// SGHMC, x being theta and then u:
    /// $u \leftarrow (1-\alpha) u - \eta (A\theta - b) + \sqrt{2\alpha\eta/\beta}\ \zeta$,
    /// $\theta \leftarrow \theta + u$.
    pub fn sghmc(of: &Quadratic, eta: f64, alpha: f64, beta: f64) -> Self {
        Self::with_momentum(of, 1.0 - alpha, eta, 2.0 * alpha * eta / beta)
    }

    /// Santa with the gradient at the midpoint, no metric, the diffusion that goes with the friction,
    /// and a thermostat so heavy that $\alpha$ stays:
    /// $u \leftarrow e^{-\alpha/2} (e^{-\alpha/2} u - \eta (A\theta - b) + \sqrt{2\alpha\eta/\beta}\ \zeta)$,
    /// $\theta \leftarrow \theta + u$.
    pub fn santa(of: &Quadratic, eta: f64, alpha: f64, beta: f64) -> Self {
        let half = (-0.5 * alpha).exp();
        Self::with_momentum(of, half * half, half * eta, half * half * 2.0 * alpha * eta / beta)
    }

    fn with_momentum(of: &Quadratic, keep: f64, push: f64, variance: f64) -> Self {
        let dim = of.dim();
        let mut step = Affine::still(2 * dim);
        for i in 0..dim {
            // The new u is in both.
            for (row, own) in [(i, 1.0), (dim + i, 0.0)] {
                for j in 0..dim {
                    let stays = if i == j { own } else { 0.0 };
                    step.map[row * 2 * dim + j] = stays - push * of.curvature[i * dim + j];
                }
                step.map[row * 2 * dim + dim + i] = keep;
                step.shift[row] = push * of.pull[i];
                step.diffusion[row * 2 * dim + i] = variance;
                step.diffusion[row * 2 * dim + dim + i] = variance;
            }
        }
        step
    }

    /// The step that leaves everything where it is.
    fn still(dim: usize) -> Self {
        let mut map = vec![0.0; dim * dim];
        map.iter_mut().step_by(dim + 1).for_each(|x| *x = 1.0);
        Affine { map, shift: vec![0.0; dim], diffusion: vec![0.0; dim * dim] }
    }

    fn dim(&self) -> usize {
        self.shift.len()
    }

    /// This step, and then another with noise of its own.
    fn then(&self, next: &Affine) -> Affine {
        let dim = self.dim();
        let mut shift = next.shift.clone();
        for i in 0..dim {
            shift[i] += (0..dim).map(|j| next.map[i * dim + j] * self.shift[j]).sum::<f64>();
        }
        let mut diffusion = sandwich(&next.map, &self.diffusion, dim);
        add(&mut diffusion, &next.diffusion, 1.0);
        Affine { map: product(&next.map, &self.map, dim), shift, diffusion }
    }
}

/// Whose noise the members have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// All the same, as [`LocalSteps`](crate::LocalSteps) has it.
    Shared,
    /// Each its own: the averages are too cold.
    Independent,
}

/// `every` steps of each member, and their average.
///
/// # Panics
/// If there is no member, or if their dimensions differ.
pub fn round(members: &[Affine], every: u64, noise: Noise) -> Affine {
    let (dim, share) = (members[0].dim(), 1.0 / members.len() as f64);
    let nothing = Affine { map: vec![0.0; dim * dim], ..Affine::still(dim) };
    let mut mean = nothing.clone();
    let mut powers: Vec<Affine> = vec![Affine::still(dim); members.len()];
    for _ in 0..every {
        // What noise of the last step but j has become when the round ends.
        let mut response = vec![0.0; dim * dim];
        for (power, member) in powers.iter_mut().zip(members) {
            add(&mut response, &power.map, share);
            *power = power.then(member);
        }
        if noise == Noise::Shared {
            add(&mut mean.diffusion, &sandwich(&response, &members[0].diffusion, dim), 1.0);
        }
    }
    for power in &powers {
        add(&mut mean.map, &power.map, share);
        add(&mut mean.shift, &power.shift, share);
        if noise == Noise::Independent {
            add(&mut mean.diffusion, &power.diffusion, share * share);
        }
    }
    mean
}

/// Mean and covariance (row by row) of the law that a step leaves as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Law {
    /// Of every coordinate.
    pub mean: Vec<f64>,
    /// Row by row.
    pub covariance: Vec<f64>,
}

impl Law {
    /// Of the averages of a team.
    pub fn of_averages(members: &[Affine], every: u64, noise: Noise) -> Result<Self> {
        Law::left_by(&round(members, every, noise))
    }

    /// Of a step that is made again and again. Refused if there is no such law because it diverges.
    pub fn left_by(step: &Affine) -> Result<Self> {
        /// So many doublings reach further than any chain.
        const DOUBLINGS: u32 = 60;
        /// What is left of the start by then does not count.
        const FORGOTTEN: f64 = 1e-20;
        let mut step = step.clone();
        for _ in 0..DOUBLINGS {
            let left = step.map.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
            if left < FORGOTTEN {
                return Ok(Law { mean: step.shift, covariance: step.diffusion });
            }
            step = step.then(&step);
        }
        Err(Error::Setting {
            field: "eta".into(),
            value: "too large".into(),
            allowed: "the steps diverge, and have no law; lower it".into(),
        })
    }

    /// The variance of a coordinate.
    ///
    /// # Panics
    /// If there is no such coordinate.
    pub fn variance(&self, i: usize) -> f64 {
        self.covariance[i * (self.mean.len() + 1)]
    }
}

fn add(sum: &mut [f64], other: &[f64], factor: f64) {
    sum.iter_mut().zip(other).for_each(|(sum, x)| *sum += factor * x);
}

/// a b
fn product(a: &[f64], b: &[f64], dim: usize) -> Vec<f64> {
    let mut c = vec![0.0; dim * dim];
    for i in 0..dim {
        for k in 0..dim {
            let factor = a[i * dim + k];
            add(&mut c[i * dim..(i + 1) * dim], &b[k * dim..(k + 1) * dim], factor);
        }
    }
    c
}

/// $a b a^\top$
fn sandwich(a: &[f64], b: &[f64], dim: usize) -> Vec<f64> {
    let half = product(a, b, dim);
    let mut c = vec![0.0; dim * dim];
    for i in 0..dim {
        for j in 0..dim {
            c[i * dim + j] = (0..dim).map(|k| half[i * dim + k] * a[j * dim + k]).sum();
        }
    }
    c
}
