//! Settings, targets and gradients at random, absurd ones among them, from a tape of words.

use santa::dynamics::*;
use santa::noise::{Purpose, Stream};
use santa::schedule::Piece;
use santa::{
    Algorithm, Clip, DataSize, Group, Integrator, InverseTemperature, Layout, OnTrouble, Prior,
    Rate, Real, Result, Schedule, StepSize, Target,
};

/// Where the choices come from: a given tape (which a shrinker can shorten: at its end come
/// zeros, the plain choices), or the counter-based noise of a case.
pub enum Dice<'a> {
    Tape(std::slice::Iter<'a, u32>),
    Noise { stream: Stream, case: u64, drawn: u32, words: [u32; 4] },
}

impl<'a> Dice<'a> {
    pub fn tape(words: &'a [u32]) -> Self {
        Dice::Tape(words.iter())
    }
    pub fn case(case: u64) -> Self {
        let stream = Stream::new(0, 0, Purpose::Custom(3));
        Dice::Noise { stream, case, drawn: 0, words: [0; 4] }
    }

    pub fn word(&mut self) -> u32 {
        match self {
            Dice::Tape(words) => words.next().copied().unwrap_or(0),
            Dice::Noise { stream, case, drawn, words } => {
                let k = *drawn % 4;
                if k == 0 {
                    *words = stream.words(*case, 0, *drawn / 4);
                }
                *drawn += 1;
                words[k as usize]
            }
        }
    }
    /// 0 .. n
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(n)) >> 32) as u32
    }
    /// True once in n.
    pub fn once_in(&mut self, n: u32) -> bool {
        self.below(n) == n - 1
    }
    pub fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u32) as usize].clone()
    }
    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        f64::from(self.word()) / 2f64.powi(32)
    }

    /// A number that hardly any setting expects.
    pub fn absurd(&mut self) -> f64 {
        const LIST: [f64; 20] = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            2.0,
            -1e-9,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            5e-324,      // the least denormal
            1.0 - 1e-16, // just below 1
            1e-40,       // a denormal f32
            1e-50,       // zero as an f32
            1e39,        // infinite as an f32
            3e38,        // nearly so
            1e154,       // its square nearly overflows
            1e-170,      // its square underflows
        ];
        if self.once_in(8) {
            let (high, low) = (self.word(), self.word());
            f64::from_bits(u64::from(high) << 32 | u64::from(low))
        } else {
            self.pick(&LIST)
        }
    }
    /// Usually between 1e-7 and 10.
    fn number(&mut self) -> f64 {
        if self.once_in(16) { self.absurd() } else { 10f64.powf(8.0 * self.unit() - 7.0) }
    }
    /// Usually in (0, 1).
    fn fraction(&mut self) -> f64 {
        if self.once_in(16) { self.absurd() } else { 0.999 * self.unit() + 5e-4 }
    }
    fn count(&mut self) -> u64 {
        if self.once_in(16) {
            self.pick(&[0, u64::MAX, u64::MAX - 1, 1 << 44, 1 << 63])
        } else {
            1 + u64::from(self.below(6))
        }
    }
    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.once_in(3) { Some(value(self)) } else { None }
    }

    pub fn schedule(&mut self, depth: u32) -> Schedule {
        let kinds = if depth == 0 { 6 } else { 8 };
        match self.below(kinds) {
            0 | 1 => Schedule::constant(self.number()),
            2 => {
                let sign = self.pick(&[1.0, -1.0]);
                Schedule::power(self.number(), self.number(), sign * self.number())
            }
            3 => Schedule::block_decay(self.number(), self.fraction(), self.count()),
            4 => Schedule::cosine(self.number(), self.number(), self.count()),
            5 => Schedule::cyclical(self.number(), self.number(), self.count()),
            6 => self.schedule(depth - 1).with_warm_up(self.count()),
            _ => Schedule::Piecewise {
                pieces: (0..self.below(3))
                    .map(|_| Piece { until: self.count(), schedule: self.schedule(depth - 1) })
                    .collect(),
                last: Box::new(self.schedule(depth - 1)),
            },
        }
    }
    fn beta(&mut self) -> InverseTemperature {
        match self.below(3) {
            0 => InverseTemperature::posterior(),
            1 => InverseTemperature::temperature(self.number()),
            _ => InverseTemperature::annealed(self.schedule(1)),
        }
    }
    fn step(&mut self) -> StepSize {
        match self.below(3) {
            0 => StepSize::practical(self.schedule(1), self.fraction()),
            1 => StepSize::heavy_ball(self.schedule(1), self.fraction()),
            _ => StepSize::paper(self.schedule(1), self.number()),
        }
    }
    fn rate(&mut self) -> Rate {
        if self.once_in(2) { Rate::eta(self.schedule(1)) } else { Rate::lr(self.schedule(1)) }
    }

    pub fn algorithm(&mut self) -> Algorithm {
        match self.below(16) {
            0 => Sgd {
                lr: self.schedule(2),
                momentum: self.pick(&[0.0, 0.9]) * self.fraction(),
                nesterov: self.once_in(2),
            }
            .into(),
            1 => Sgld { rate: self.rate(), beta: self.beta() }.into(),
            2 => Psgld {
                rate: self.rate(),
                beta: self.beta(),
                metric: if self.once_in(32) { PsgldMetric::Given } else { PsgldMetric::RmsProp },
                sigma: self.fraction(),
                lambda: self.number(),
                freeze_metric_after: self.maybe(Self::count),
                gamma: self.maybe(Self::number).map_or(Gamma::Off, |guard| Gamma::On { guard }),
                noiseless: self.once_in(3),
            }
            .into(),
            3 => Sghmc {
                step: self.step(),
                beta: self.beta(),
                b_hat: match self.below(3) {
                    0 => NoiseEstimate::Zero,
                    1 => NoiseEstimate::Constant(self.number()),
                    _ => NoiseEstimate::GradientVariance(self.number()),
                },
                noiseless: self.once_in(3),
            }
            .into(),
            4 | 5 => Sgnht { step: self.step(), beta: self.beta(), thermostat_mass: self.number() }
                .into(),
            6 => Msgnht {
                integrator: self.pick(&[Integrator::Splitting, Integrator::Euler]),
                gradient_at: self.pick(&[GradientAt::Midpoint, GradientAt::Start]),
                step: self.step(),
                beta: self.beta(),
                thermostat_mass: self.number(),
            }
            .into(),
            7 => Adagrad { lr: self.schedule(2), epsilon: self.number(), initial_v: self.number() }
                .into(),
            8 => Adadelta { lr: self.schedule(2), rho: self.fraction(), epsilon: self.number() }
                .into(),
            9 => RmsProp {
                lr: self.schedule(2),
                rho: self.fraction(),
                epsilon: self.number(),
                epsilon_inside_root: self.once_in(2),
                momentum: self.pick(&[0.0, 0.9]) * self.fraction(),
            }
            .into(),
            10 => Adam {
                lr: self.schedule(2),
                beta1: self.fraction(),
                beta2: self.fraction(),
                epsilon: self.number(),
                bias_correction: self.pick(&[
                    BiasCorrection::Published,
                    BiasCorrection::Off,
                    BiasCorrection::SwappedRates,
                ]),
                decoupled_weight_decay: self.maybe(Self::number).unwrap_or(0.0),
            }
            .into(),
            _ => self.santa().into(),
        }
    }

    fn santa(&mut self) -> Santa {
        Santa {
            integrator: self.pick(&[Integrator::Splitting, Integrator::Euler]),
            gradient_at: self.pick(&[GradientAt::Midpoint, GradientAt::Start]),
            step: self.step(),
            beta: self.beta(),
            exploration: match self.below(3) {
                0 => Exploration::Never,
                1 => Exploration::Always,
                _ => Exploration::Steps(self.count()),
            },
            alpha_in_refinement: self.pick(&[
                AlphaInRefinement::Frozen,
                AlphaInRefinement::WithTemperature,
                AlphaInRefinement::Accumulating,
            ]),
            metric: match self.below(24) {
                0..12 => Metric::RmsProp { sigma: self.fraction() },
                12..18 => Metric::Adagrad,
                18..23 => Metric::Identity,
                _ => Metric::Given,
            },
            freeze_metric_after: self.maybe(Self::count),
            second_moment_start: self
                .pick(&[SecondMomentStart::FirstSquaredGradient, SecondMomentStart::Zero]),
            lambda: self.number(),
            lambda_refining: self.maybe(Self::number),
            diffusion: match self.below(3) {
                0 => Diffusion::MatchFriction,
                1 => Diffusion::SameAsMetric,
                _ => Diffusion::Constant(self.number()),
            },
            noise_scale: match self.below(6) {
                0..4 => NoiseScale::Supplement,
                4 => NoiseScale::MainText,
                _ => NoiseScale::SecondMoment { divisor: self.number() },
            },
            corrections: self
                .maybe(Self::number)
                .map_or(Corrections::Off, |guard| Corrections::On { guard }),
            smoothing: self.maybe(Self::fraction).unwrap_or(0.0),
            push: if self.once_in(4) { Push::Halves } else { Push::Whole },
            rescale: self.once_in(2),
            thermostat_mass: if self.once_in(2) {
                ThermostatMass::Spread(self.number())
            } else {
                ThermostatMass::Mass(self.number())
            },
            thermostat_reads: if self.once_in(4) {
                ThermostatReads::Velocity
            } else {
                ThermostatReads::Momentum
            },
            bounds_while_exploring: self.once_in(2),
            friction_floor: self.maybe(Self::fraction),
            friction_ceiling: self.maybe(Self::number),
            initial_momentum: self.pick(&[InitialMomentum::Thermal, InitialMomentum::Zero]),
            adam_form: self.once_in(6),
        }
    }

    fn prior(&mut self) -> Prior {
        match self.below(4) {
            0 | 1 => Prior::Flat,
            2 => Prior::gaussian(self.number()),
            _ => Prior::laplace(self.number()),
        }
    }

    /// A target of a few elements, if it is one.
    pub fn target(&mut self) -> Result<Target> {
        const NAMES: [&str; 5] = ["a.w", "a.b", "c.w", "", "*"];
        const SIZES: [usize; 6] = [1, 2, 3, 0, usize::MAX, usize::MAX / 2];
        let segments = if self.once_in(32) { 0 } else { 1 + self.below(3) };
        let mut list = Vec::new();
        for i in 0..segments {
            let name = if self.once_in(32) { self.pick(&NAMES) } else { NAMES[i as usize] };
            let mut shape = vec![1 + self.below(3) as usize];
            if self.once_in(16) {
                shape = (0..self.below(3)).map(|_| self.pick(&SIZES)).collect();
            } else if self.once_in(16) {
                shape = vec![129];
            }
            list.push((name, shape));
        }
        let n = if self.once_in(16) { self.pick(&[0, u64::MAX, 1 << 53]) } else { self.count() };
        let mut target = Target::new(Layout::new(list)?, DataSize::new(n)?, self.prior())?;
        if self.once_in(3) {
            let pattern = self.pick(&["*", "*.w", "a.*", "**b*", "a*.*w", "", "nothing"]);
            target = target.with_group(Group {
                pattern: pattern.into(),
                lr_scale: self.maybe(Self::number),
                prior: self.maybe(Self::prior),
                frozen: self.maybe(|dice| dice.once_in(2)),
            })?;
        }
        Ok(target)
    }

    pub fn clip(&mut self) -> Clip {
        match self.below(6) {
            0..3 => Clip::Off,
            3 => Clip::Norm(self.number()),
            4 => Clip::Value(self.number()),
            _ => Clip::RescaleNorm(self.number()),
        }
    }

    pub fn policy(&mut self) -> OnTrouble {
        match self.below(4) {
            0 | 1 => OnTrouble::Stop,
            2 => OnTrouble::Skip { at_most: self.below(3) },
            _ => OnTrouble::RollBack {
                every: self.count() * u64::from(!self.once_in(32)),
                at_most: self.below(3),
            },
        }
    }

    /// Usually of order one, sometimes anything, in the element type.
    pub fn element<F: Real>(&mut self) -> F {
        F::from_f64(if self.once_in(24) { self.absurd() } else { 4.0 * self.unit() - 2.0 })
    }
    pub fn finite_element<F: Real>(&mut self) -> F {
        let x = self.element::<F>();
        if x.is_finite() { x } else { F::ZERO }
    }
}
