//! Parallel tempering: replicas at several temperatures that exchange what they have found.
//!
//! A chain at $\beta = 1$ rarely leaves a deep mode. Here R chains run at once, the rungs of a ladder
//!
//! $$ \beta_1 > \beta_2 > \dots > \beta_R, \qquad
//!    \pi(\theta_1, \dots, \theta_R) \propto \prod_{r=1}^R e^{-\beta_r U(\theta_r)}, $$
//!
//! and neighbours i, j swap their parameters from time to time, with probability
//!
//! $$ a = \min(1, e^D), \qquad D = (\beta_i - \beta_j)\ \bigl(U(\theta_i) - U(\theta_j)\bigr), $$
//!
//! which leaves $\pi$ as it is. The hot rungs cross the barriers, and the coldest, which is the one to
//! draw from, gets to see all modes with their right weights. The prior is a part of U and is tempered
//! with it: the hottest rung needs a law of its own, $\int e^{-\beta_R U} < \infty$.
//!
//! # What is exchanged
//!
//! The parameters $\theta$ alone. A rung keeps its temperature, its place in the team, its noise, and
//! all that its dynamics carry, for three reasons:
//!
//! 1. **It needs no rescaling.** A momentum has the law $N(0, \eta/\beta)$ and a thermostat
//!    $\alpha - \alpha_0$ one of variance $\eta/(\beta\mu)$, whatever $\theta$ is: what stays at its
//!    temperature has the right law after the swap as before. (Were the temperatures exchanged, momenta
//!    would have to be rescaled by $\sqrt{\beta_\text{old}/\beta_\text{new}}$.)
//! 2. **It is right with minibatches.** A thermostat has then learned the noise of the gradient, and its
//!    mean $\alpha_0 + \beta\eta V/2$ changes with the temperature in another way than its spread does.
//!    No factor would translate it to another temperature; it would have to learn again after each
//!    swap, and be biased meanwhile.
//! 3. **Each rung can have a step size of its own**, and is saved, observed and drawn from in one place.
//!
//! The price is a message of the length of $\theta$ for an accepted swap between two members, which is
//! less than what data-parallel training sends at every step.
//!
//! Independent of the momentum is the $\theta$ of the same *time*. The dynamics here leave $\theta$ half
//! a step ahead, $\theta_t = \theta_{t-1} + u_t$, where it is correlated with $u_t$ by a term of the order
//! of $h = \sqrt\eta$. So what is compared and exchanged is the middle of the last step, and each rung
//! adds its own half step again:
//!
//! $$ \bar\theta_r = \tfrac12(\theta_{r,t-1} + \theta_{r,t}), \qquad
//!    \theta_{i,t} \leftarrow \bar\theta_j + \tfrac12(\theta_{i,t} - \theta_{i,t-1}), $$
//!
//! which leaves an error of the second order, as the integrators have. (With $\theta_t$ itself, h = 0.2
//! and a swap at every other step, the variance of a normal law comes out 5 % too small.) A metric that
//! still moves depends on $\theta$ as well, through the last gradients: freeze it to be exact. And what
//! the dynamics themselves get wrong about $e^{-\beta U}$, by their step size or by the noise of
//! minibatches, swaps do not mend.
//!
//! # Minibatches and the penalty
//!
//! Energies of minibatches give D with an error. If that is normal with variance $s^2$, then
//! $\mathrm E\ e^{\hat D} = e^{D + s^2/2}$, and the plain rule accepts too often: it acts like
//! a further temperature. Accepting with
//!
//! $$ a = \min\bigl(1, e^{\hat D - s^2/2}\bigr) $$
//!
//! is exact again (the *penalty method*: Ceperley and Dewing, 1999; Deng and others, 2020, use it for
//! replica exchange with stochastic gradients), because then
//!
//! $$ \mathrm E\ a = \Phi\Bigl(\tfrac Ds - \tfrac s2\Bigr)
//!    {} + e^D\ \Phi\Bigl(-\tfrac Ds - \tfrac s2\Bigr) $$
//!
//! satisfies $\mathrm E\ a(D) = e^D\ \mathrm E\ a(-D)$.
//!
//! Here $\hat D$ is the mean over K independent minibatches, drawn with replacement, and $s^2$ is
//! estimated from their spread. That estimate errs too, and because $e^{-s^2/2}$ is convex the plain
//! penalty would again accept too often. Ceperley and Dewing's series makes up for it:
//!
//! $$ \frac{s^2}2 + \frac{s^4}{4(K+1)} + \frac{s^6}{3(K+1)(K+3)} $$
//!
//! are the first terms of $-\log f$ for the function with $\mathrm E\ f(\hat s^2) = e^{-s^2/2}$. What
//! is left is a bias of the log-odds between the two arrangements; at its worst over $|D| \le 4$:
//!
//! | s | K | no penalty | $s^2/2$ | the series |
//! | --- | --- | --- | --- | --- |
//! | 0.5 | 4 | 0.125 | 0.005 | 0.001 |
//! | 1 | 4 | 0.500 | 0.069 | 0.031 |
//! | 1 | 8 | 0.500 | 0.033 | 0.005 |
//! | 1 | 16 | 0.500 | 0.016 | 0.001 |
//! | 2 | 32 | 1.607 | 0.100 | 0.008 |
//!
//! So keep s below about 1 ([`Statistics::noise`] reports $s^2$), by larger batches, more of them, or
//! a finer ladder. Large s costs swaps as well: the acceptance falls like $2\ \Phi(-s/2)$.
//!
//! That is no small demand. Replicas of one posterior differ in each of d directions by about
//! $1/\sqrt N$, and $s^2$ is of the order of $(\beta_i - \beta_j)^2\ d\ N$ over the number of data looked
//! at. Swaps by exact energies already need $(\beta_i - \beta_j)^2\ d$ to be no more than about 1; so
//! about as many data must be seen as there are. Exact energies, the default, are often no dearer: one
//! pass over the data, without a gradient, every [`Tempering::swap_every`] steps.
//!
//! **Common random numbers.** Both energies of a pair are taken on the same data (and the same dropout
//! masks): then the error of $\hat D$ is the spread over data of the *difference*
//! $\log p(x_n \mid \theta_j) - \log p(x_n \mid \theta_i)$, and what both find hard cancels. Different
//! pairs of a round use different data, for their decisions must be independent.
//!
//! # The schedule
//!
//! Rounds alternate between the pairs (1, 2), (3, 4), ... and (2, 3), (4, 5), ...: the deterministic
//! even-odd schedule, under which a walker travels the ladder in one direction until a swap is refused
//! (Syed and others, 2022), instead of diffusing. The uniform number of a decision is a function of the
//! seed, the round and the pair, so all members of a team decide alike; and nothing depends on how many
//! they are: the bits are the same for one and for R.
//!
//! ```
//! use santa::dynamics::Sghmc;
//! use santa::potential::analytic::DoubleWell;
//! use santa::{Chain, InverseTemperature, Sampling, StepSize, Stepper};
//! use santa_distributed::Threads;
//! use santa_distributed::tempering::Tempering;
//!
//! // Rungs from beta = 4, where nothing crosses the barrier, to 0.4.
//! let settings = Tempering { swap_every: 10, ..Tempering::geometric(4.0, 0.4, 4) };
//! let shares = Threads::run(2, |team| -> santa_distributed::Result<f64> {
//!     let mut replicas = settings.init(team, |rung, beta| {
//!         let well = DoubleWell::new(1)?;
//!         let sghmc = Sghmc::new(StepSize::paper(0.04, 2.0)).beta(InverseTemperature::fixed(beta));
//!         let stepper = Stepper::new(sghmc, well.target(), settings.seed, rung)?;
//!         // All begin in the shallower well.
//!         Chain::new(well, stepper, vec![DoubleWell::LOCAL], Sampling::Full, 1)
//!     })?;
//!     replicas.advance(500)?;
//!     let mut deeper = 0;
//!     replicas.advance_with(500, |round| {
//!         deeper += round.coldest.is_some_and(|theta| theta[0] < DoubleWell::BARRIER) as u32;
//!     })?;
//!     Ok(f64::from(deeper) / 500.0)
//! });
//! assert!(shares[0].as_ref().unwrap() > &0.95); // the coldest rung is with the first member
//! ```

mod energies;
mod ladder;
#[cfg(test)]
mod law_tests;
mod penalty;
mod replicas;
mod saved;
mod statistics;
#[cfg(test)]
mod tests;

pub use energies::{Correction, Energies};
pub use ladder::{adapted, geometric};
pub use penalty::penalty;
pub use replicas::{Replicas, Round};
pub use statistics::Statistics;

use crate::error::{Error, Result};
use santa::noise::{MAX_CHAINS, MAX_SEGMENTS};
use serde::{Deserialize, Serialize};

/// Settings of parallel tempering; see the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tempering {
    /// The inverse temperatures of the rungs, from the coldest, which is the one to draw from.
    pub betas: Vec<f64>,
    /// Steps of every chain between two rounds of swaps.
    pub swap_every: u64,
    /// How the energies of a swap are known.
    pub energies: Energies,
    /// Of the chains' noise, and of the swaps'.
    pub seed: u64,
}

impl Default for Tempering {
    /// Eight temperatures from 1 to 10, a swap every 100 steps, exact energies.
    fn default() -> Self {
        const RUNGS: usize = 8;
        const HOTTEST: f64 = 0.1;
        const SWAP_EVERY: u64 = 100;
        Tempering {
            betas: geometric(1.0, HOTTEST, RUNGS),
            swap_every: SWAP_EVERY,
            energies: Energies::Full,
            seed: 0,
        }
    }
}

impl Tempering {
    /// A ladder of so many rungs between two inverse temperatures, in equal ratios.
    pub fn geometric(coldest: f64, hottest: f64, rungs: usize) -> Self {
        Tempering { betas: geometric(coldest, hottest, rungs), ..Tempering::default() }
    }

    /// With the rungs moved so that all pairs are refused equally often, as far as the statistics of a
    /// warm-up tell; see [`adapted`]. Frozen from then on: a ladder that kept adapting would bias what
    /// is drawn from it.
    pub fn adapted(&self, warm_up: &Statistics) -> Self {
        Tempering { betas: adapted(&self.betas, &warm_up.acceptance()), ..self.clone() }
    }

    /// Refuses what cannot work, by its name.
    pub fn check(&self) -> Result<()> {
        let refuse = |field: String, value: String, allowed: &str| {
            Err(Error::Setting { field, value, allowed: allowed.into() })
        };
        let most = (MAX_CHAINS as usize).min(u32::MAX as usize);
        if self.betas.is_empty() || self.betas.len() > most {
            let allowed = format!("there must be at least one, and at most {most}");
            let value = format!("a list of {}", self.betas.len());
            return refuse("betas".into(), value, &allowed);
        }
        for (r, beta) in self.betas.iter().enumerate() {
            if !(*beta > 0.0 && beta.is_finite()) {
                let allowed = "it must be positive and finite";
                return refuse(format!("betas[{r}]"), beta.to_string(), allowed);
            }
            if r > 0 && *beta >= self.betas[r - 1] {
                let allowed = format!(
                    "it must be below the one before, {}: coldest first",
                    self.betas[r - 1]
                );
                return refuse(format!("betas[{r}]"), beta.to_string(), &allowed);
            }
        }
        if self.swap_every == 0 {
            return refuse("swap_every".into(), "0".into(), "it must be at least 1");
        }
        if let Energies::Minibatches { size, batches, correction } = self.energies {
            if size == 0 {
                return refuse("energies.size".into(), "0".into(), "it must be at least 1");
            }
            let least = if correction == Correction::Penalty { 2 } else { 1 };
            if batches < least || batches > MAX_SEGMENTS {
                let allowed = format!(
                    "it must be at least {least} (the penalty needs their spread), and at most \
                     {MAX_SEGMENTS}"
                );
                return refuse("energies.batches".into(), batches.to_string(), &allowed);
            }
        }
        Ok(())
    }
}
