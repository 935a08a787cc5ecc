//! Local steps: members that go on by themselves, and meet now and then to average.
//!
//! A gradient that is summed at every step costs a sum at every step, and so much waiting that beyond
//! some number of members nothing is gained. [`LocalSteps`] lets every member make H steps with its own
//! gradients, and then replaces everybody's parameters and state by their means.
//!
//! # Noise
//!
//! All members have the *same* noise: the same seed and the same chain. What they average is then a walk
//! at the temperature of each of them, and they part only by what their gradients differ. With noise of
//! their own, the mean of K members has only one K-th of its variance: a chain at one K-th of the
//! temperature, and that only as far as it has not been averaged away before. [`law`] has both laws for
//! quadratic potentials, exactly.
//!
//! # What is averaged
//!
//! Everything that the next step depends on, so that all members have the same bits after it:
//!
//! | vectors | dynamics | how, and why |
//! | --- | --- | --- |
//! | theta, momenta, smoothed gradients | all | mean: a step is affine in them and in the gradient: the mean of steps is the step of the means |
//! | second moments v, sums of squares | Santa, pSGLD, RMSprop, Adam, Adadelta, Adagrad | mean: means of squares stay means of squares; those of smaller batches, which have more noise |
//! | frictions $\alpha$, $\xi$ | Santa, mSGNHT, SGNHT | they are moved by the heat of the averaged momentum, below |
//!
//! A thermostat adds up heat, and a member's momentum is hotter than the mean of all momenta, by the
//! variance between members. Means of what their thermostats learn would cool the averages: on the
//! regressions of the example `local_bias` by half of the variance with H = 1, and more with longer
//! rounds. So each round's thermostats begin where the last one's ended, and are moved by
//! $\frac H\mu (\bar u^2 - \eta/\beta)$ when the members meet. That is one reading for H steps: with large H
//! the friction fluctuates more. In refinement, where nothing is to be learnt, they are averaged.
//!
//! # What it equals
//!
//! - One member: the chain itself, bit for bit, whatever H is.
//! - H = 1, and dynamics whose step is affine in the gradient (SGLD, SGHMC, SGD with or without momentum):
//!   the synchronous chain with [`Shared`](crate::Shared) gradients, up to rounding.
//! - H = 1, Santa with the gradient at the midpoint and a frozen metric, and SGNHT: the same. A metric that
//!   moves sees the squares of the members' gradients, not the square of their mean.
//! - Members that compute the same gradients, without thermostats: the chain of one of them, up to rounding.
//!
//! Otherwise there is a bias of first order in $\eta (H-1)$. For SGLD and $\nabla U_k = A_k\theta - b_k$
//! the mean $\theta^\ast$ of the posterior moves by
//!
//! $$ \Delta \approx \frac{\eta (H-1)}{2}\ A^{-1}\ \frac1K \sum_k A_k \nabla U_k(\theta^\ast),
//!    \qquad A = \frac1K \sum_k A_k $$
//!
//! Members that are pulled to different places do no harm as long as they are pulled with the same
//! curvature. With minibatches of common data ([`Division::Batches`]) the $U_k$ are new ones at every
//! step, and what is left is of second order; with data of their own ([`Division::Data`]) they are always
//! the same. The example `local_bias` measures both.

pub mod law;
mod own;
#[cfg(test)]
mod tests;
mod thermostat;

pub use own::{Division, Own};

use crate::error::{Error, Result};
use crate::shared::named;
use crate::team::{Number, Team};
use santa::{Chain, OnTrouble, Potential};
use std::hash::{DefaultHasher, Hash, Hasher};
use thermostat::Thermostats;

/// A chain that every member of a team has, and whose state they average after every H steps; see the
/// [module](self).
///
/// ```
/// use santa::dynamics::Sgld;
/// use santa::noise::{Purpose, Stream};
/// use santa::potential::analytic::LinearRegression;
/// use santa::{Chain, Rate, Sampling};
/// use santa_distributed::{Division, LocalSteps, Own, Threads};
///
/// let (model, _) = LinearRegression::synthetic(100, 3, 1.0, 1.0, &Stream::new(1, 0, Purpose::Data))?;
/// let ends = Threads::run(2, |team| -> santa_distributed::Result<Vec<f64>> {
///     let stepper = Sgld::new(Rate::lr(0.1)).init(model.target(), 42)?;
///     let own = Own::new(model.clone(), &team, Division::Batches);
///     let chain = Chain::new(own, stepper, vec![0.0; 3], Sampling::ShuffledEpochs, 20)?;
///     let mut local = LocalSteps::new(chain, team, 8)?;
///     local.advance(80)?;
///     Ok(local.chain().theta().to_vec())
/// });
/// assert_eq!(ends[0].as_ref().unwrap(), ends[1].as_ref().unwrap());
/// # Ok::<(), santa::Error>(())
/// ```
pub struct LocalSteps<F: Number, P: Potential<F>, T> {
    chain: Chain<F, P>,
    team: T,
    every: u64,
    wants_to_stop: fn() -> bool,
    stopping: bool,
    loss: Option<f64>,
    averagings: u64,
    /// Parameters and state in one piece, for one sum.
    buffer: Vec<F>,
}

impl<F: Number, P: Potential<F>, T: Team> LocalSteps<F, P, T> {
    /// A chain that averages after every `every` steps. All members begin at the same place, with the
    /// same settings, seed and chain: a difference is refused, with its rank. So is a potential that keeps
    /// a state of its own, and a policy that lets a member leave out steps that others make.
    pub fn new(chain: Chain<F, P>, team: T, every: u64) -> Result<Self> {
        let setting = |field: &str, value: String, allowed: &str| {
            let (field, allowed) = (field.into(), allowed.into());
            Err(Error::Setting { field, value, allowed })
        };
        if every == 0 {
            return setting("every", every.to_string(), "it must be at least 1");
        }
        let policy = chain.stepper().trouble_policy();
        if policy != OnTrouble::Stop {
            let allowed = "members make the same steps; only `stop` lets them";
            return setting("on_trouble", format!("{policy:?}"), allowed);
        }
        if let Some((name, _)) = chain.potential().state().first() {
            let allowed = "the potential keeps a state that is not averaged; use another";
            return setting("potential", format!("one with `{name}`"), allowed);
        }
        agree(&team, &fingerprints(&chain, every))?;
        Ok(LocalSteps {
            chain,
            team,
            every,
            wants_to_stop: || false,
            stopping: false,
            loss: None,
            averagings: 0,
            buffer: Vec::new(),
        })
    }

    /// With a way to ask this member whether it was told to stop. The members tell each other when they
    /// average: see [`LocalSteps::is_stopping`].
    pub fn stopping_when(mut self, wants_to_stop: fn() -> bool) -> Self {
        self.wants_to_stop = wants_to_stop;
        self
    }

    /// Makes `steps` steps, averaging after every H of them and after the last: a run is the same however
    /// it is cut, as long as H divides the pieces.
    ///
    /// If a member cannot go on, all stop at the next averaging with the same error, and their states are
    /// not those of a team any more.
    pub fn advance(&mut self, steps: u64) -> Result<()> {
        let mut left = steps;
        while left > 0 {
            let round = left.min(self.every);
            let before = Thermostats::of(self.chain.stepper())?;
            let outcome = self.chain.advance(round);
            self.average(outcome.err().map(|error| error.to_string()), &before, round)?;
            left -= round;
        }
        Ok(())
    }

    /// Replaces everybody's parameters and state by their means after a round of so many steps.
    fn average(
        &mut self,
        mut trouble: Option<String>,
        before: &Thermostats<F>,
        steps: u64,
    ) -> Result<()> {
        let position = match self.chain.stepper().position() {
            Ok(position) => Some(position),
            Err(error) => {
                trouble.get_or_insert(error.to_string());
                None
            }
        };
        let mut words = [
            self.chain.last_loss().unwrap_or(f64::NAN),
            f64::from(u8::from((self.wants_to_stop)())),
            f64::from(u8::from(trouble.is_some())),
            position.as_ref().and_then(|p| p.carried).unwrap_or_default(),
        ];
        self.team.sum_f64(&mut words)?;
        let [loss, stop, troubles, carried] = words;
        let Some(mut position) = position.filter(|_| troubles == 0.0) else {
            return Err(named(&self.team, trouble));
        };

        let share = 1.0 / self.team.size() as f64;
        self.buffer.clear();
        self.buffer.extend_from_slice(self.chain.theta());
        position.state.iter().for_each(|(_, vector)| self.buffer.extend_from_slice(vector));
        F::sum(&self.team, &mut self.buffer)?;
        let factor = F::from_f64(share);
        self.buffer.iter_mut().for_each(|x| *x *= factor);

        let (theta, mut rest) = self.buffer.split_at(self.chain.theta().len());
        for (_, vector) in &mut position.state {
            let (values, after) = rest.split_at(vector.len());
            vector.copy_from_slice(values);
            rest = after;
        }
        position.carried = position.carried.map(|_| carried * share);
        if self.team.size() > 1 {
            before.read(self.chain.stepper(), steps, &mut position)?;
        }
        // The same bits are refused by all, or by none.
        self.chain.stepper_mut().go_to(position)?;
        self.chain.theta_mut().copy_from_slice(theta);
        self.loss = Some(loss * share);
        self.stopping = stop > 0.0;
        self.averagings += 1;
        Ok(())
    }

    /// H
    pub fn every(&self) -> u64 {
        self.every
    }
    /// How often the members have met.
    pub fn averagings(&self) -> u64 {
        self.averagings
    }
    /// The mean over the members of the loss of their last batches, at the parameters that each had then.
    pub fn last_loss(&self) -> Option<f64> {
        self.loss
    }
    /// Whether a member had been told to stop at the last averaging: the same answer for all of them.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }
    /// The chain, the same for all members. A checkpoint of it is one of the team.
    pub fn chain(&self) -> &Chain<F, P> {
        &self.chain
    }
    /// The chain, to evaluate its potential, or to change what all members change alike.
    pub fn chain_mut(&mut self) -> &mut Chain<F, P> {
        &mut self.chain
    }
    /// The team.
    pub fn team(&self) -> &T {
        &self.team
    }
    /// Gives the chain and the team back.
    pub fn into_parts(self) -> (Chain<F, P>, T) {
        (self.chain, self.team)
    }
}

/// What must be the same for all members, and how they are told apart.
fn fingerprints<F: Number, P: Potential<F>>(
    chain: &Chain<F, P>,
    every: u64,
) -> [(&'static str, u64); 4] {
    let of = |parts: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        parts(&mut hasher);
        hasher.finish()
    };
    let (stepper, batches) = (chain.stepper(), chain.minibatches());
    let settings = format!(
        "{every} {:?} {:?} {:?} {} {:?}",
        stepper.algorithm(),
        stepper.clip(),
        stepper.lr_factor(),
        batches.batch_size(),
        batches.sampling()
    );
    [
        ("rhythm, algorithm, clipping, rate or batch", of(&|h| settings.hash(h))),
        ("seed or chain", of(&|h| (stepper.seed(), stepper.chain()).hash(h))),
        ("step", of(&|h| (stepper.steps(), batches.position()).hash(h))),
        (
            "start",
            of(&|h| {
                bytemuck::cast_slice::<F, u8>(chain.theta()).hash(h);
                stepper.carried().map(f64::to_bits).hash(h);
                stepper.state().for_each(|(_, v)| bytemuck::cast_slice::<F, u8>(v).hash(h));
            }),
        ),
    ]
}

/// Refuses members that differ from the first.
fn agree(team: &dyn Team, own: &[(&str, u64)]) -> Result<()> {
    let message: Vec<u8> = own.iter().flat_map(|(_, print)| print.to_le_bytes()).collect();
    let all = team.gather(&message)?;
    for (rank, message) in all.iter().enumerate() {
        let words = message.chunks(size_of::<u64>()).zip(all[0].chunks(size_of::<u64>()));
        if let Some((_, (what, _))) = words.zip(own).find(|((a, b), _)| a != b) {
            let what = (*what).into();
            let remedy = "local steps begin alike on all of them".into();
            return Err(Error::Apart { rank, what, remedy });
        }
    }
    Ok(())
}
