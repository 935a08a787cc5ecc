//! Many chains, a warm-up that finds scales and step size, and draws.
//!
//! # What is run
//!
//! The dynamics are Santa's at a constant temperature, in coordinates $z$ in which the posterior is
//! round, $\theta = c + L z$ ([`Whitened`]): a thermostat for each coordinate, no other metric, the
//! symmetric splitting with the gradient at its midpoint. Step size $h = \sqrt\eta$ and friction C
//! are then in units of the posterior's own scales, where good values are known beforehand:
//! $h \le 0.5$, $C = 1$.
//!
//! The coordinates are never quite round, and scales without correlations leave directions that are
//! much stiffer than others. Two things keep all of them at their own variance, exactly so where the
//! potential is harmonic and up to $h^2$ elsewhere: the thermostats read the velocity between the ends
//! of steps ([`ThermostatReads::Velocity`](santa::dynamics::ThermostatReads)), and draws are these
//! ends, $z - u/2$ with what the chain holds between its steps.
//!
//! # Warm-up
//!
//! 1. *Descent*: Adam, from wherever the chains start, to where the posterior has its mass.
//! 2. *Curvature*: first scales from differences of gradients, $s_i = 1/\sqrt{|H_{ii}|}$.
//! 3. *Windows*: the chains run, and the scales become those of their draws: the covariance within
//!    chains, pooled over them, drawn towards its diagonal when there are few draws.
//! 4. *Step size*: minibatches add noise of their own. With V the variance of the minibatch gradient
//!    of U in whitened coordinates, it acts as a friction of $h V/2$, which is kept below a given
//!    share of C: $h = \min(h_{\max}, 1/\omega, 2\ s\ C/V)$, where $\omega$ is the frequency of
//!    the stiffest direction. Noise that is not the same in all directions
//!    makes them unequally hot; the share is then as small as keeps the spread of their temperatures
//!    at 5 %.
//! 5. *A last window*, in which nothing is adapted but the thermostats find their level. The
//!    configurational temperature of it decides: if it is off $1/\beta$ by more than the tolerance
//!    and by more than chance, or if its standard error is as large as itself, the step is halved and
//!    the window repeated.
//!
//! A window in which a chain runs away is repeated with half the step, too, and so is the last one:
//! both from where the chains were before it. If no step works the run ends with
//! [`Error::Diverged`], and so it does if a chain runs away while it draws.
//!
//! From then on nothing is adapted, and what is sampled is $e^{-\beta U}$ up to the integrator's
//! error. The chains of a warm-up share what they find; their noise is their own.
//!
//! # A posterior in a few lines
//!
//! ```
//! use santa::noise::{Purpose, Stream};
//! use santa::potential::analytic::LogisticRegression;
//! use santa_posterior::sampler::{Member, Parameters, Sampler};
//!
//! let (model, _) = LogisticRegression::synthetic(500, 3, 1.0, &Stream::new(1, 0, Purpose::Data))?;
//! let sampler = Sampler { draws: 500, warm_up: 200, batch_size: 100, ..Sampler::seeded(42) };
//! let posterior = sampler.run(sampler.members(|_| {
//!     Member::new(model.clone(), Parameters::of(model.target()), vec![0.0; 3])
//! }))?;
//! assert_eq!((posterior.draws.chains(), posterior.draws.len()), (4, 500));
//! # Ok::<(), santa_posterior::Error>(())
//! ```

mod curvature;
mod explosion;
mod interim;
mod noise;
mod plan;
mod pooling;
mod posterior;
mod record;
mod run;
mod scales;
mod together;
mod tuning;
mod walker;
mod warm_up;
mod watch;
mod whitened;

pub use plan::Plan;
pub use posterior::{KINETIC, LOSS, Posterior, STATISTICS, TEMPERATURE, Temperature};
pub use record::{Parameters, Quantities, Recorder, quantities};
pub use scales::{Metric, Scales};
pub use tuning::{Figures, Tuning};
pub use watch::{Quiet, Stage, Watch};
pub use whitened::Whitened;

use crate::error::{Error, Result};
use crate::store::Store;
use santa::dynamics::Algorithm;
use santa::{Potential, Real, Sampling};
use santa_distributed::{Solo, Team};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use together::Together;

/// Settings of a sampling run. [`Sampler::seeded`] has the defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampler {
    /// The seed of everything; chains have streams of their own under it.
    pub seed: u64,
    /// Number of chains.
    pub chains: u32,
    /// Draws that each chain keeps.
    pub draws: u64,
    /// Length of the warm-up, in draws (of [`Sampler::thin`] steps each); none of them is kept.
    pub warm_up: u64,
    /// Steps between draws; by default as many as the slowest of them take to be forgotten, judged by
    /// the friction: $(C + h V/2)/h$.
    pub thin: Option<u64>,
    /// Draws per cycle, for cyclical schedules with dynamics of your own.
    pub cycles: Option<Cycles>,
    /// Data per minibatch.
    pub batch_size: usize,
    /// How minibatches are drawn.
    pub sampling: Sampling,
    /// $\beta$; 1 for the posterior.
    pub beta: f64,
    /// Which scales the warm-up finds.
    pub metric: Metric,
    /// C, the friction in units of the posterior's scales.
    pub friction: f64,
    /// The largest step h, in the same units; less where a direction is so stiff that it would not be
    /// resolved.
    pub largest_step: f64,
    /// How much of the friction minibatch noise may add, as a share of C, at most. Less where the noise
    /// of some directions is larger than that of others, which scales without correlations leave so: a
    /// thermostat for each coordinate would make some too hot and others too cold.
    pub noise_share: f64,
    /// By how much the configurational temperature may be off before the step is halved, relative.
    pub tolerance: f64,
    /// Steps of the descent at the beginning; 0 for none.
    pub descent: u64,
    /// Learning rate of the descent.
    pub descent_lr: f64,
    /// Dynamics of your own, in the parameters' own coordinates and as they are: nothing is adapted,
    /// and the warm-up is so many *steps* that are not kept. A metric that adapts is frozen at its
    /// end. For networks.
    pub dynamics: Option<Algorithm>,
}

/// Draws at the end of each cycle of a cyclical schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cycles {
    /// Steps of a cycle.
    pub period: u64,
    /// Draws of each.
    pub draws: u64,
}

/// What one chain is made of.
pub struct Member<F, P, R> {
    /// Its potential.
    pub potential: P,
    /// What is kept of its draws.
    pub recorder: R,
    /// Where it starts. Starts that lie far apart make a better test of convergence.
    pub start: Vec<F>,
    /// The scales, where they are known: the warm-up then finds the step alone.
    pub scales: Option<Scales<F>>,
}

impl<F, P, R> Member<F, P, R> {
    /// A chain from a start.
    pub fn new(potential: P, recorder: R, start: Vec<F>) -> Self {
        Member { potential, recorder, start, scales: None }
    }
    /// With known scales. All chains use those of the first.
    pub fn with_scales(mut self, scales: Scales<F>) -> Self {
        self.scales = Some(scales);
        self
    }
}

/// The most chains of one run.
pub const MAX_CHAINS: u32 = 1 << 16;

impl Sampler {
    /// Four chains of a thousand draws, everything else to be found by the warm-up.
    pub fn seeded(seed: u64) -> Self {
        Sampler {
            seed,
            chains: 4,
            draws: 1_000,
            warm_up: 500,
            thin: None,
            cycles: None,
            batch_size: 100,
            sampling: Sampling::WithReplacement,
            beta: 1.0,
            metric: Metric::Auto,
            friction: 1.0,
            largest_step: 0.5,
            noise_share: 0.5,
            tolerance: 0.05,
            descent: 1_000,
            descent_lr: 0.05,
            dynamics: None,
        }
    }

    /// The chains, made by a function of their number.
    pub fn members<F, P, R>(
        &self,
        make: impl FnMut(u32) -> Member<F, P, R>,
    ) -> Vec<Member<F, P, R>> {
        self.members_in_team(&Solo, make)
    }
    /// The chains that are this process's in a team, made by a function of their number among all.
    pub fn members_in_team<F, P, R>(
        &self,
        team: &dyn Team,
        make: impl FnMut(u32) -> Member<F, P, R>,
    ) -> Vec<Member<F, P, R>> {
        self.chains_in_team(team).map(make).collect()
    }
    /// The numbers of the chains that are this process's in a team.
    pub fn chains_in_team(&self, team: &dyn Team) -> Range<u32> {
        Together::new(team, self.chains).chains()
    }

    /// Refuses settings that cannot work.
    pub fn check(&self) -> Result<()> {
        if self.chains == 0 || self.chains > MAX_CHAINS {
            let allowed = format!("from 1 to {MAX_CHAINS}");
            return Err(Error::setting("chains", self.chains, allowed));
        }
        let counts = [
            ("draws", self.draws),
            ("batch_size", self.batch_size as u64),
            ("thin", self.thin.unwrap_or(1)),
        ];
        for (field, value) in counts {
            if value == 0 {
                return Err(Error::setting(field, value, "it must be at least 1"));
            }
        }
        let positive = [
            ("beta", self.beta),
            ("friction", self.friction),
            ("largest_step", self.largest_step),
            ("noise_share", self.noise_share),
            ("tolerance", self.tolerance),
            ("descent_lr", self.descent_lr),
        ];
        for (field, value) in positive {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::setting(field, value, "it must be positive and finite"));
            }
        }
        // The splitting is unstable from h = 2 on, whatever is sampled.
        if self.largest_step >= 2.0 {
            let allowed = "below 2, where the integrator becomes unstable; 0.5 is a good one";
            return Err(Error::setting("largest_step", self.largest_step, allowed));
        }
        if self.dynamics.is_none() {
            if self.cycles.is_some() {
                let allowed = "cycles need dynamics of your own, with a cyclical schedule";
                return Err(Error::setting("cycles", "set", allowed));
            }
            if self.warm_up < MIN_WARM_UP {
                let allowed = format!(
                    "scales and step size cannot be found in fewer than {MIN_WARM_UP} draws"
                );
                return Err(Error::setting("warm_up", self.warm_up, allowed));
            }
        }
        Ok(())
    }

    /// Which steps become draws, if it is left to the warm-up to say `thin`.
    fn plan(&self, thin: u64) -> Plan {
        match self.cycles {
            None => Plan::Every(self.thin.unwrap_or(thin)),
            Some(Cycles { period, draws }) => {
                Plan::Cycles { period, draws, every: self.thin.unwrap_or(1) }
            }
        }
    }

    /// Warms up and draws, keeping the draws in memory.
    pub fn run<F: Real, P: Potential<F> + Send, R: Recorder<F, P>>(
        &self,
        members: Vec<Member<F, P, R>>,
    ) -> Result<Posterior<F, R>> {
        self.run_watched(members, None, &Quiet)
    }

    /// Warms up and draws. With a store, the draws are written as they come, and a run that was
    /// interrupted goes on where its chains were; the draws are the same, bit for bit, as if it had
    /// not been.
    pub fn run_watched<F: Real, P: Potential<F> + Send, R: Recorder<F, P>>(
        &self,
        members: Vec<Member<F, P, R>>,
        store: Option<&Store>,
        watch: &dyn Watch,
    ) -> Result<Posterior<F, R>> {
        run::run(self, &Solo, members, store, watch)
    }

    /// The same by several processes, each with its share of the chains
    /// ([`Sampler::members_in_team`]): the draws are the same, bit for bit, for any number of them.
    ///
    /// A chain's noise depends on its number among all chains, and what the warm-up finds is gathered
    /// from all chains before it is pooled, in their order. All members call this, with the same
    /// settings; all get the draws and statistics of all chains, and rank 0 the recorders of all, which
    /// go there through [`Recorder::save`] (the others keep those of their own chains).
    ///
    /// A store is one for all, in a folder that all see; a run that was interrupted may go on with
    /// another number of members. Who meets trouble, or is asked to stop, tells the others at the end
    /// of the stage in the warm-up, and within about a second (or a draw, if that is longer) in the
    /// drawing: all end alike, with the same error if it was one.
    ///
    /// ```
    /// use santa::noise::{Purpose, Stream};
    /// use santa::potential::analytic::LinearRegression;
    /// use santa_distributed::Threads;
    /// use santa_posterior::sampler::{Member, Parameters, Quiet, Sampler};
    ///
    /// let stream = Stream::new(1, 0, Purpose::Data);
    /// let (model, _) = LinearRegression::synthetic(50, 2, 1.0, 1.0, &stream)?;
    /// let sampler = Sampler { chains: 3, draws: 20, warm_up: 20, ..Sampler::seeded(1) };
    /// let start = |_| Member::new(model.clone(), Parameters::of(model.target()), vec![0.0; 2]);
    /// let alone = sampler.run(sampler.members(start))?;
    /// let posteriors = Threads::run(2, |team| {
    ///     let mine = sampler.members_in_team(&team, start);
    ///     sampler.run_in_team(&team, mine, None, &Quiet).unwrap()
    /// });
    /// assert!(posteriors.iter().all(|posterior| posterior.draws == alone.draws));
    /// # Ok::<(), santa_posterior::Error>(())
    /// ```
    pub fn run_in_team<F: Real, P: Potential<F> + Send, R: Recorder<F, P> + Clone>(
        &self,
        team: &dyn Team,
        members: Vec<Member<F, P, R>>,
        store: Option<&Store>,
        watch: &dyn Watch,
    ) -> Result<Posterior<F, R>> {
        let mut posterior = run::run(self, team, members, store, watch)?;
        let together = Together::new(team, self.chains);
        posterior.recorders = run::gather_recorders::<F, P, R>(&together, posterior.recorders)?;
        Ok(posterior)
    }
}

/// The least warm-up, in draws.
pub const MIN_WARM_UP: u64 = 20;
