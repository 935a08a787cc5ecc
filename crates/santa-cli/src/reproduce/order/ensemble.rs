//! Many chains of Santa on a separable potential, as the coordinates of one vector.

use santa::dynamics::GradientAt;
use santa::noise::{Purpose, Stream};
use santa::{Integrator, Santa, StepSize, Stepper, Target};

/// One coordinate's potential.
#[derive(Clone, Copy)]
pub struct Potential {
    /// U.
    pub u: fn(f64) -> f64,
    /// Its slope.
    pub du: fn(f64) -> f64,
}

/// Chains at work.
pub struct Ensemble {
    stepper: Stepper<f64>,
    potential: Potential,
    theta: Vec<f64>,
    gradient: Vec<f64>,
    noise: GradientNoise,
    /// Share of u by which the paper's $\theta_t$ is behind the one that is stored.
    behind: f64,
}

struct GradientNoise {
    sd: f64,
    stream: Stream,
    draws: Vec<f64>,
}

impl Ensemble {
    /// Friction and diffusion of all that is measured here.
    const FRICTION: f64 = 1.0;

    /// Chains with step size `h` from `theta`, thermal momenta, and frictions from their law at the
    /// first temperature. `chain` tells the noise of ensembles apart.
    pub fn new(
        santa: &Santa,
        h: f64,
        potential: Potential,
        theta: Vec<f64>,
        (seed, chain): (u64, u32),
    ) -> santa::Result<Self> {
        let santa = Santa { step: StepSize::paper(h * h, Self::FRICTION), ..santa.clone() };
        let spread = h / santa.beta.schedule().at(1).sqrt();
        let stores_midpoints =
            santa.integrator == Integrator::Splitting && santa.gradient_at == GradientAt::Midpoint;
        let behind = if stores_midpoints { 0.5 } else { 0.0 };
        let target = Target::density(theta.len())?;
        let mut stepper = Stepper::new(santa, &target, seed, chain)?;
        if let Some(shift) = stepper.state_vector_mut("alpha_shift") {
            Stream::new(seed, chain, Purpose::Initialisation).normals(0, 0, 0, shift);
            shift.iter_mut().for_each(|x| *x *= spread);
        }
        let gradient = vec![0.0; theta.len()];
        let stream = Stream::new(seed, chain, Purpose::Data);
        let noise = GradientNoise { sd: 0.0, stream, draws: Vec::new() };
        Ok(Ensemble { stepper, potential, theta, gradient, noise, behind })
    }

    /// The same with gradients that are off by normal noise.
    pub fn with_noise(mut self, sd: f64) -> Self {
        self.noise.sd = sd;
        self.noise.draws = vec![0.0; if sd > 0.0 { self.theta.len() } else { 0 }];
        self
    }

    /// Where the chains are. Between the steps of the midpoint splitting that is the midpoint.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// The paper's $\theta_t$: where a whole step ends.
    pub fn ends(&self) -> impl Iterator<Item = f64> {
        let u = self.stepper.state_vector("u").unwrap_or(&[]);
        self.theta.iter().zip(u).map(|(theta, u)| theta - self.behind * u)
    }

    /// Makes steps.
    pub fn walk(&mut self, steps: u64) -> santa::Result<()> {
        let GradientNoise { sd, stream, draws } = &mut self.noise;
        for _ in 0..steps {
            for (f, x) in self.gradient.iter_mut().zip(&self.theta) {
                *f = (self.potential.du)(*x);
            }
            if *sd > 0.0 {
                stream.normals(self.stepper.steps(), 0, 0, draws);
                self.gradient.iter_mut().zip(draws.iter()).for_each(|(f, z)| *f += *sd * z);
            }
            self.stepper.step(&mut self.theta, &self.gradient)?;
        }
        Ok(())
    }

    /// Averages of U over the first L steps from here, for each L of `lengths` (rising) and each
    /// chain, a chain being `dims` neighbouring coordinates.
    pub fn averages(&mut self, lengths: &[u64], dims: usize) -> santa::Result<Vec<Vec<f64>>> {
        let mut sums = vec![0.0; self.theta.len()];
        let mut averages = Vec::with_capacity(lengths.len());
        let mut done = 0;
        for &length in lengths {
            while done < length {
                self.walk(1)?;
                done += 1;
                for (sum, x) in sums.iter_mut().zip(self.ends()) {
                    *sum += (self.potential.u)(x);
                }
            }
            let chain = |part: &[f64]| part.iter().sum::<f64>() / length as f64;
            averages.push(sums.chunks(dims).map(chain).collect());
        }
        Ok(averages)
    }
}

/// Curves of groups of chains, for the jackknife: in each group, the mean of `of` over its chains, by
/// length.
pub fn grouped(averages: &[Vec<f64>], of: impl Fn(f64) -> f64) -> Vec<Vec<f64>> {
    /// Enough for a standard error that is itself known to a fifth.
    const GROUPS: usize = 16;
    let chains = averages.first().map_or(0, Vec::len);
    let size = chains.div_ceil(GROUPS).max(1);
    let groups = 0..chains.div_ceil(size);
    let mean = |part: &[f64]| part.iter().map(|x| of(*x)).sum::<f64>() / part.len() as f64;
    let group = |i: usize| {
        let members = i * size..((i + 1) * size).min(chains);
        averages.iter().map(|all| mean(&all[members.clone()])).collect()
    };
    groups.map(group).collect()
}
