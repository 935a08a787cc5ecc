//! The fused update of Santa, in the order of the paper's Algorithms 1 and 2.
//!
//! Every line works on a lane of elements; options are decided once per lane, outside the loops. The
//! settings that matter most have the same update once more, as a single loop, in `midpoint.rs`.

use super::midpoint;
use super::{
    AlphaInRefinement, Corrections, Diffusion, GradientAt, Metric, NoiseScale, Push, Santa,
    SecondMomentStart, SeparableMetric, Stage, ThermostatReads,
};
use crate::dynamics::engine::{Block, Context, Kernel, LANE, Lane, WholeBlock};
use crate::error::{Error, Result};
use crate::real::{BLOCK, Real};
use crate::units::Integrator;
use std::sync::Arc;

/// State vectors: momentum u, friction $\alpha - \alpha_0$, second moment v, smoothed gradient.
pub(crate) const SLOTS: usize = 4;

#[derive(Clone)]
pub(crate) struct SantaKernel<F: Real> {
    pub settings: Santa,
    pub given: Option<Arc<dyn SeparableMetric<F>>>,
}

/// $G_2$ of a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Noise<F> {
    Off,
    /// The same standard deviation for all elements.
    Constant(F),
    /// Times the square root of g of the step before.
    TimesRootMetric(F),
    /// Times the square root of v.
    TimesRootSecondMoment(F),
}

/// How alpha moves in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thermostat<F> {
    pub moves: bool,
    /// $\eta/\beta$, or zero when alpha only accumulates.
    pub target: F,
    /// 1 / mass
    pub inverse_mass: F,
    /// Bounds of $\alpha - \alpha_0$, where they hold.
    pub bounds: Option<(F, F)>,
    /// It reads the velocity between the ends of two steps, not the momentum.
    pub reads_velocity: bool,
}

#[derive(Clone, Copy, Debug)]
struct CorrectionScalars<F> {
    eta_over_beta: F,
    /// Square of the momentum below which 1/u is tamed.
    guard: F,
    /// $\eta \mu$
    eta_mass: F,
    /// $1/\sqrt\eta$
    inverse_h: F,
    in_g2: bool,
}

/// What a step of Santa needs besides the vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalars<F> {
    integrator: Integrator,
    gradient_at: GradientAt,
    halves: bool,
    adam_form: bool,
    /// The first refining step: bounds that were not in force before are applied for good.
    enters_refinement: bool,
    pub(super) metric: Metric,
    pub(super) metric_moves: bool,
    /// v starts from the first squared gradient, the smoothed gradient from the first.
    seed_v: bool,
    seed_smooth: bool,
    pub(super) sigma: F,
    pub(super) one_minus_sigma: F,
    pub(super) lambda: F,
    smoothing: F,
    /// $\sqrt{\eta_t / \eta_{t-1}}$
    rescale: F,
    /// $\eta N$: multiplies the mean gradient.
    pub(super) eta_n: F,
    /// $\alpha_0$
    pub(super) base: F,
    pub(super) noise: Noise<F>,
    pub(super) thermostat: Thermostat<F>,
    correction: Option<CorrectionScalars<F>>,
}

impl<F: Real> Kernel<F, SLOTS> for SantaKernel<F> {
    type Scalars = Scalars<F>;

    fn scalars(&self, c: &Context<'_>) -> Result<Scalars<F>> {
        let s = &self.settings;
        let real = F::from_f64;
        let now = s.physics(c.t, c.target.data_size(), c.lr)?;
        let explore = now.stage == Stage::Exploring;
        let h = now.eta.sqrt();
        let outside = if s.rescale && explore && c.t > 1 { c.lr_ratio.sqrt() } else { 1.0 };

        let shaken = |g2_power: f64| (2.0 * g2_power / now.beta).sqrt();
        let noise = if !explore {
            Noise::Off
        } else {
            let power = match s.noise_scale {
                NoiseScale::Supplement => now.eta * h,
                NoiseScale::MainText | NoiseScale::SecondMoment { .. } => now.eta,
            };
            match (s.noise_scale, s.diffusion) {
                (NoiseScale::SecondMoment { divisor }, _) => {
                    Noise::TimesRootSecondMoment(real(shaken(power / divisor)))
                }
                (_, Diffusion::SameAsMetric) => Noise::TimesRootMetric(real(shaken(power))),
                (_, Diffusion::Constant(g2)) => Noise::Constant(real(shaken(g2 * power))),
                (_, Diffusion::MatchFriction) => {
                    Noise::Constant(real(shaken(now.alpha0 / h * power)))
                }
            }
        };

        let thermostat = {
            let (moves, target) = match (now.stage, s.alpha_in_refinement) {
                (Stage::Exploring, _) | (_, AlphaInRefinement::WithTemperature) => {
                    (true, now.eta / now.beta)
                }
                (_, AlphaInRefinement::Accumulating) => (true, 0.0),
                (_, AlphaInRefinement::Frozen) => (false, 0.0),
            };
            let bounds = s
                .friction_bounds(&now)
                .map(|(floor, ceiling)| (real(floor - now.alpha0), real(ceiling - now.alpha0)));
            Thermostat {
                moves,
                target: real(target),
                inverse_mass: real(1.0 / now.mass),
                bounds,
                reads_velocity: s.thermostat_reads == ThermostatReads::Velocity,
            }
        };

        let correction = match s.corrections {
            Corrections::On { guard } if explore && s.metric != Metric::Identity => {
                Some(CorrectionScalars {
                    eta_over_beta: real(now.eta / now.beta),
                    guard: real(guard * guard * now.eta / now.beta),
                    eta_mass: real(now.eta * now.mass),
                    inverse_h: real(1.0 / h),
                    in_g2: s.diffusion == Diffusion::SameAsMetric,
                })
            }
            _ => None,
        };

        let metric_moves = s.metric_moves(c.t);
        // A frozen metric keeps the lambda it was frozen with.
        let lambda_from = if metric_moves { c.t } else { s.freeze_metric_after.unwrap_or(c.t) };
        let lambda = s.lambda_at(lambda_from);
        if s.metric.keeps_history() && !(lambda >= F::LEAST_NORMAL && real(lambda).is_finite()) {
            let allowed = format!("it must be a normal number of the element type, {}", F::NAME);
            return Err(Error::setting("lambda", lambda, allowed));
        }
        let lambda = real(lambda);
        Ok(Scalars {
            integrator: s.integrator,
            gradient_at: s.gradient_at,
            halves: s.push == Push::Halves,
            adam_form: s.adam_form,
            enters_refinement: !explore && (c.t == 1 || s.stage(c.t - 1) == Stage::Exploring),
            metric: s.metric,
            metric_moves,
            seed_v: metric_moves
                && c.t == 1
                && s.second_moment_start == SecondMomentStart::FirstSquaredGradient,
            seed_smooth: c.t == 1,
            sigma: real(match s.metric {
                Metric::RmsProp { sigma } => sigma,
                _ => 1.0,
            }),
            one_minus_sigma: real(match s.metric {
                Metric::RmsProp { sigma } => 1.0 - sigma,
                _ => 1.0,
            }),
            lambda,
            smoothing: real(s.smoothing),
            rescale: real(now.rescale * outside),
            eta_n: real(now.eta * c.target.data_size().as_f64()),
            base: real(now.alpha0),
            noise,
            thermostat,
            correction,
        })
    }

    fn writes(s: &Scalars<F>) -> [bool; SLOTS] {
        let alpha = s.thermostat.moves || s.rescale != F::ONE || s.enters_refinement;
        let v = s.metric.keeps_history() && s.metric_moves;
        [true, alpha, v, s.smoothing != F::ZERO]
    }

    fn noisy(s: &Scalars<F>) -> bool {
        !matches!(s.noise, Noise::Off)
    }

    /// The splitting with the gradient at the midpoint, and none of the special cases.
    fn has_whole(s: &Scalars<F>) -> bool {
        s.integrator == Integrator::Splitting
            && s.gradient_at == GradientAt::Midpoint
            && s.metric != Metric::Given
            && matches!(s.noise, Noise::Off | Noise::Constant(_))
            && s.thermostat.moves == matches!(s.noise, Noise::Constant(_))
            && s.correction.is_none()
            && s.smoothing == F::ZERO
            && s.rescale == F::ONE
            && !(s.halves || s.adam_form || s.seed_v || s.enters_refinement)
    }

    #[inline(always)]
    fn update_whole(s: &Scalars<F>, block: WholeBlock<'_, F>, health: &mut [F; BLOCK]) {
        midpoint::update(s, block, health);
    }

    #[inline(always)]
    fn update(&self, s: &Scalars<F>, block: &mut Block<F, SLOTS>) {
        let Block { theta, f, zeta, state: [u, shift, v, smooth], first, filled } = block;

        if s.smoothing != F::ZERO {
            smooth_gradient(s, f, smooth);
        }
        if s.rescale != F::ONE {
            for i in 0..LANE {
                u[i] *= s.rescale;
                shift[i] *= s.rescale;
            }
        }

        // The metric, and what the corrections and the noise need of the one before.
        let mut g = Lane::splat(F::ONE);
        let mut g_before = Lane::splat(F::ONE); // g_{t-1}
        let mut dg = Lane::splat(F::ZERO); // dg/dtheta, or (g_t - g_{t-1}) / (g_t u_{t-1})
        match s.metric {
            Metric::Identity => {}
            Metric::RmsProp { .. } | Metric::Adagrad => {
                if s.correction.is_some() || matches!(s.noise, Noise::TimesRootMetric(_)) {
                    for i in 0..LANE {
                        g_before[i] = root_metric(s.lambda, v[i]);
                    }
                }
                if s.seed_v {
                    for i in 0..LANE {
                        v[i] = f[i] * f[i];
                    }
                } else if s.metric_moves {
                    for i in 0..LANE {
                        v[i] = s.sigma.fma(v[i], s.one_minus_sigma * f[i] * f[i]);
                    }
                }
                for i in 0..LANE {
                    g[i] = root_metric(s.lambda, v[i]);
                }
                if s.seed_v {
                    g_before = g; // there was no metric before
                }
                if let Some(c) = &s.correction {
                    for i in 0..LANE {
                        let inverse_u = u[i] / (u[i] * u[i] + c.guard);
                        dg[i] = (F::ONE - g_before[i] / g[i]) * inverse_u;
                    }
                }
            }
            Metric::Given => {
                if let Some(given) = &self.given {
                    let here = ..*filled;
                    given.evaluate(*first, &theta.0[here], &mut g.0[here], &mut dg.0[here]);
                }
                g_before = g;
            }
        }

        match (s.integrator, s.gradient_at) {
            // Algorithm 2 as printed: A B O B A, with the gradient from before the first A.
            (Integrator::Splitting, GradientAt::Start) => {
                drift(theta, &g, u, F::HALF);
                heat(&s.thermostat, shift, u, F::HALF);
                damp_kick_damp(s, f, zeta, &g, &g_before, &dg, v, u, shift);
                heat(&s.thermostat, shift, u, F::HALF);
                drift(theta, &g, u, F::HALF);
            }
            // The same five steps, cut open between the first A and B: the gradient is taken where
            // the kick acts, and the two halves of A that meet become one.
            (Integrator::Splitting, GradientAt::Midpoint) => {
                let u_before = *u;
                damp_kick_damp(s, f, zeta, &g, &g_before, &dg, v, u, shift);
                if s.thermostat.reads_velocity {
                    heat_by_velocity(s, shift, &u_before, u);
                } else {
                    heat(&s.thermostat, shift, u, F::ONE);
                }
                self.average_metric(*first, *filled, theta, &mut g, u);
                drift(theta, &g, u, F::ONE);
            }
            // Algorithm 1.
            (Integrator::Euler, _) => {
                heat(&s.thermostat, shift, u, F::ONE);
                clamp_friction(s, shift);
                let mut kick = gradient_kick(s, &g, f);
                if s.adam_form {
                    for i in 0..LANE {
                        kick[i] *= s.base + shift[i];
                    }
                }
                correct(s, &g, &g_before, &dg, shift, &mut kick);
                shake(s, zeta, &g_before, v, &mut kick);
                for i in 0..LANE {
                    u[i] = (F::ONE - (s.base + shift[i])).fma(u[i], kick[i]);
                }
                drift(theta, &g, u, F::ONE);
            }
        }
    }
}

impl<F: Real> SantaKernel<F> {
    /// For a metric that is a function of theta: g averaged over the way that the drift will go,
    /// which keeps the second order.
    #[inline(always)]
    fn average_metric(
        &self,
        first: usize,
        filled: usize,
        theta: &Lane<F>,
        g: &mut Lane<F>,
        u: &Lane<F>,
    ) {
        if let Some(given) = &self.given {
            let mut there = *theta;
            drift(&mut there, g, u, F::ONE);
            let mut g_there = Lane::splat(F::ONE);
            let mut unused = Lane::splat(F::ZERO);
            let here = ..filled;
            given.evaluate(first, &there.0[here], &mut g_there.0[here], &mut unused.0[here]);
            for i in 0..LANE {
                g[i] = F::HALF * (g[i] + g_there[i]);
            }
        }
    }
}

/// B O B: half the friction, gradient and noise, the other half of the friction.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn damp_kick_damp<F: Real>(
    s: &Scalars<F>,
    f: &Lane<F>,
    zeta: &Lane<F>,
    g: &Lane<F>,
    g_before: &Lane<F>,
    dg: &Lane<F>,
    v: &Lane<F>,
    u: &mut Lane<F>,
    shift: &mut Lane<F>,
) {
    clamp_friction(s, shift);
    let mut kick = gradient_kick(s, g, f);
    if s.adam_form {
        for i in 0..LANE {
            // 2 sinh(alpha/2), the momentum weight of the splitting
            let half_damping = half_damping(s.base + shift[i]);
            kick[i] *= F::ONE / half_damping - half_damping;
        }
    }
    let mut second_half = Lane::splat(F::ZERO);
    if s.halves {
        for i in 0..LANE {
            kick[i] *= F::HALF;
            second_half[i] = kick[i];
        }
    }
    correct(s, g, g_before, dg, shift, &mut kick);
    shake(s, zeta, g_before, v, &mut kick);
    for i in 0..LANE {
        let half_damping = half_damping(s.base + shift[i]);
        u[i] = u[i].fma(half_damping, kick[i]) * half_damping;
    }
    if s.halves {
        for i in 0..LANE {
            u[i] += second_half[i];
        }
    }
}

/// $e^{-\alpha/2}$
#[inline(always)]
pub(super) fn half_damping<F: Real>(alpha: F) -> F {
    (-F::HALF * alpha).exp()
}

/// $f \leftarrow a f_{\text{before}} + (1-a) f$
#[inline(always)]
fn smooth_gradient<F: Real>(s: &Scalars<F>, f: &mut Lane<F>, smooth: &mut Lane<F>) {
    if s.seed_smooth {
        *smooth = *f;
    } else {
        for i in 0..LANE {
            smooth[i] = s.smoothing * smooth[i] + (F::ONE - s.smoothing) * f[i];
        }
        *f = *smooth;
    }
}

/// $g = 1/\sqrt{\lambda + \sqrt v}$
#[inline(always)]
pub(super) fn root_metric<F: Real>(lambda: F, v: F) -> F {
    F::ONE / (lambda + v.sqrt()).sqrt()
}

/// A, first half of it: $\theta \leftarrow \theta + g u \cdot$ `part`
#[inline(always)]
fn drift<F: Real>(theta: &mut Lane<F>, g: &Lane<F>, u: &Lane<F>, part: F) {
    for i in 0..LANE {
        theta[i] = (g[i] * part).fma(u[i], theta[i]);
    }
}

/// A, second half of it: $\alpha \leftarrow \alpha + (u^2 - \eta/\beta)/\mu \cdot$ `part`
#[inline(always)]
fn heat<F: Real>(thermostat: &Thermostat<F>, shift: &mut Lane<F>, u: &Lane<F>, part: F) {
    if thermostat.moves {
        let rate = thermostat.inverse_mass * part;
        for i in 0..LANE {
            shift[i] = u[i].fma(u[i], -thermostat.target).fma(rate, shift[i]);
        }
    }
}

/// The same by the velocity between the ends of two steps:
/// $\alpha \leftarrow \alpha + [((u_{t-1} + u_t)/2)^2 - e^{-\alpha/2} \eta/\beta]/\mu$
#[inline(always)]
fn heat_by_velocity<F: Real>(s: &Scalars<F>, shift: &mut Lane<F>, u_before: &Lane<F>, u: &Lane<F>) {
    let thermostat = &s.thermostat;
    if thermostat.moves {
        for i in 0..LANE {
            let velocity = F::HALF * (u_before[i] + u[i]);
            let target = thermostat.target * half_damping(s.base + shift[i]);
            shift[i] = velocity.fma(velocity, -target).fma(thermostat.inverse_mass, shift[i]);
        }
    }
}

/// Where bounds hold, $\alpha$ is kept within them.
#[inline(always)]
fn clamp_friction<F: Real>(s: &Scalars<F>, shift: &mut Lane<F>) {
    if let Some((floor, ceiling)) = s.thermostat.bounds {
        for i in 0..LANE {
            // Comparisons that let a NaN pass, to be noticed.
            let x = if shift[i] < floor { floor } else { shift[i] };
            shift[i] = if x > ceiling { ceiling } else { x };
        }
    }
}

/// $-\eta\ g f$
#[inline(always)]
fn gradient_kick<F: Real>(s: &Scalars<F>, g: &Lane<F>, f: &Lane<F>) -> Lane<F> {
    let mut kick = Lane::splat(F::ZERO);
    for i in 0..LANE {
        kick[i] = -(s.eta_n * g[i] * f[i]);
    }
    kick
}

/// $\eta \left( \tfrac1\beta \nabla G_1 + \mu\ G_1 (\Xi - G_2) \nabla G_2 \right)$
#[inline(always)]
fn correct<F: Real>(
    s: &Scalars<F>,
    g: &Lane<F>,
    g_before: &Lane<F>,
    dg: &Lane<F>,
    shift: &Lane<F>,
    kick: &mut Lane<F>,
) {
    let Some(c) = &s.correction else { return };
    for i in 0..LANE {
        kick[i] += c.eta_over_beta * dg[i];
    }
    if c.in_g2 {
        for i in 0..LANE {
            let xi = (s.base + shift[i]) * c.inverse_h;
            kick[i] += c.eta_mass * g[i] * (xi - g_before[i]) * dg[i];
        }
    }
}

/// $+ \sqrt{2 G_2 \eta^{3/2} / \beta}\ \zeta$
#[inline(always)]
fn shake<F: Real>(
    s: &Scalars<F>,
    zeta: &Lane<F>,
    g_before: &Lane<F>,
    v: &Lane<F>,
    kick: &mut Lane<F>,
) {
    match s.noise {
        Noise::Off => {}
        Noise::Constant(sd) => {
            for i in 0..LANE {
                kick[i] = sd.fma(zeta[i], kick[i]);
            }
        }
        Noise::TimesRootMetric(sd) => {
            for i in 0..LANE {
                kick[i] += sd * g_before[i].sqrt() * zeta[i];
            }
        }
        Noise::TimesRootSecondMoment(sd) => {
            for i in 0..LANE {
                kick[i] += sd * v[i].sqrt() * zeta[i];
            }
        }
    }
}
