//! Santa in tensor operations: the lines of the library's kernel, in the same order.

use super::setting;
use super::state::{Moment, State};
use burn::tensor::Tensor;
use santa::dynamics::{
    AlphaInRefinement, Corrections, Diffusion, GradientAt, Metric, NoiseScale, Physics, Push,
    SecondMomentStart, ThermostatReads,
};
use santa::{Integrator, Result, Santa, Stage};

/// $G_2$ of a step: the noise's standard deviation, and what multiplies it.
#[derive(Clone, Copy)]
enum Noise {
    Off,
    Constant(f32),
    /// Times the square root of g of the step before.
    TimesRootMetric(f32),
    /// Times the square root of v.
    TimesRootSecondMoment(f32),
}

/// How alpha moves in a step.
#[derive(Clone, Copy)]
struct Thermostat {
    moves: bool,
    /// $\eta/\beta$, or zero when alpha only accumulates.
    target: f32,
    inverse_mass: f32,
    /// Bounds of $\alpha - \alpha_0$, where they hold.
    bounds: Option<(f32, f32)>,
}

#[derive(Clone, Copy)]
struct CorrectionScalars {
    eta_over_beta: f32,
    /// Square of the momentum below which 1/u is tamed.
    guard: f32,
    /// $\eta \mu$
    eta_mass: f32,
    /// $1/\sqrt\eta$
    inverse_h: f32,
    in_g2: bool,
}

struct Scalars {
    halves: bool,
    adam_form: bool,
    /// Whether alpha is stored after the step.
    keeps_alpha: bool,
    metric_moves: bool,
    /// v starts from the first squared gradient.
    seed_v: bool,
    sigma: f32,
    one_minus_sigma: f32,
    lambda: f32,
    /// $\sqrt{\eta_t / \eta_{t-1}}$
    rescale: f32,
    /// $\eta N$: multiplies the mean gradient.
    eta_n: f32,
    /// $\alpha_0$
    base: f32,
    noise: Noise,
    thermostat: Thermostat,
    correction: Option<CorrectionScalars>,
}

impl Scalars {
    fn new(s: &Santa, m: &Moment) -> Result<Self> {
        let now = s.physics(m.t, m.n, m.lr)?;
        let explore = now.stage == Stage::Exploring;
        let outside = if s.rescale && explore && m.t > 1 { m.lr_ratio.sqrt() } else { 1.0 };
        let rescale = (now.rescale * outside) as f32;

        let thermostat = thermostat(s, &now);
        let enters_refinement = !explore && (m.t == 1 || s.stage(m.t - 1) == Stage::Exploring);

        let correction = match s.corrections {
            Corrections::On { guard } if explore && s.metric != Metric::Identity => {
                Some(CorrectionScalars {
                    eta_over_beta: (now.eta / now.beta) as f32,
                    guard: (guard * guard * now.eta / now.beta) as f32,
                    eta_mass: (now.eta * now.mass) as f32,
                    inverse_h: (1.0 / now.eta.sqrt()) as f32,
                    in_g2: s.diffusion == Diffusion::SameAsMetric,
                })
            }
            _ => None,
        };

        let metric_moves = s.metric_moves(m.t);
        // A frozen metric keeps the lambda it was frozen with.
        let lambda_from = if metric_moves { m.t } else { s.freeze_metric_after.unwrap_or(m.t) };
        let lambda = s.lambda_at(lambda_from);
        let normal = lambda >= f64::from(f32::MIN_POSITIVE) && (lambda as f32).is_finite();
        if s.metric.keeps_history() && !normal {
            return Err(setting("lambda", lambda, "it must be a normal number of f32"));
        }
        let (sigma, one_minus_sigma) = match s.metric {
            Metric::RmsProp { sigma } => (sigma, 1.0 - sigma),
            _ => (1.0, 1.0),
        };
        Ok(Scalars {
            halves: s.push == Push::Halves,
            adam_form: s.adam_form,
            keeps_alpha: thermostat.moves || rescale != 1.0 || enters_refinement,
            metric_moves,
            seed_v: metric_moves
                && m.t == 1
                && s.second_moment_start == SecondMomentStart::FirstSquaredGradient,
            sigma: sigma as f32,
            one_minus_sigma: one_minus_sigma as f32,
            lambda: lambda as f32,
            rescale,
            eta_n: (now.eta * m.n.as_f64()) as f32,
            base: now.alpha0 as f32,
            noise: noise(s, &now),
            thermostat,
            correction,
        })
    }
}

fn noise(s: &Santa, now: &Physics) -> Noise {
    if now.stage == Stage::Refining {
        return Noise::Off;
    }
    let h = now.eta.sqrt();
    let power = match s.noise_scale {
        NoiseScale::Supplement => now.eta * h,
        NoiseScale::MainText | NoiseScale::SecondMoment { .. } => now.eta,
    };
    let sd = |g2_power: f64| (2.0 * g2_power / now.beta).sqrt() as f32;
    match (s.noise_scale, s.diffusion) {
        (NoiseScale::SecondMoment { divisor }, _) => {
            Noise::TimesRootSecondMoment(sd(power / divisor))
        }
        (_, Diffusion::SameAsMetric) => Noise::TimesRootMetric(sd(power)),
        (_, Diffusion::Constant(g2)) => Noise::Constant(sd(g2 * power)),
        (_, Diffusion::MatchFriction) => Noise::Constant(sd(now.alpha0 / h * power)),
    }
}

fn thermostat(s: &Santa, now: &Physics) -> Thermostat {
    let (moves, target) = match (now.stage, s.alpha_in_refinement) {
        (Stage::Exploring, _) | (_, AlphaInRefinement::WithTemperature) => {
            (true, now.eta / now.beta)
        }
        (_, AlphaInRefinement::Accumulating) => (true, 0.0),
        (_, AlphaInRefinement::Frozen) => (false, 0.0),
    };
    let bounds = s
        .friction_bounds(now)
        .map(|(floor, ceiling)| ((floor - now.alpha0) as f32, (ceiling - now.alpha0) as f32));
    Thermostat { moves, target: target as f32, inverse_mass: (1.0 / now.mass) as f32, bounds }
}

/// $g_t$ and what the corrections and the noise need of the one before; `None` stands for ones.
struct Metrics<const D: usize> {
    g: Option<Tensor<D>>,
    before: Option<Tensor<D>>,
    /// $(g_t - g_{t-1}) / (g_t u_{t-1})$
    dg: Option<Tensor<D>>,
    v: Option<Tensor<D>>,
}

/// One step; see [`Santa`] for the equations.
pub(super) fn step<const D: usize>(
    santa: &Santa,
    m: &Moment,
    mut theta: Tensor<D>,
    mut f: Tensor<D>,
    state: &mut State<D>,
) -> Result<Tensor<D>> {
    let s = Scalars::new(santa, m)?;
    let mut u = state.take("u")?;
    let mut shift = state.take("alpha_shift")?;
    let alpha_before = (!s.keeps_alpha).then(|| shift.clone());

    if santa.smoothing > 0.0 {
        let smooth = state.take("f_smooth")?;
        if m.t > 1 {
            let a = santa.smoothing as f32;
            f = smooth * a + f * (1.0 - a);
        }
        state.put("f_smooth", f.clone());
    }
    if s.rescale != 1.0 {
        u = u * s.rescale;
        shift = shift * s.rescale;
    }
    let v = if santa.metric.keeps_history() { Some(state.take("v")?) } else { None };
    let metrics = metrics(&s, v, &f, &u);
    let zeta = (!matches!(s.noise, Noise::Off)).then(|| m.zeta(&theta));

    let forces = Forces { s: &s, f, zeta, metrics: &metrics };
    let thermostat = &s.thermostat;
    match (santa.integrator, santa.gradient_at) {
        // Algorithm 2 as printed: A B O B A, with the gradient from before the first A.
        (Integrator::Splitting, GradientAt::Start) => {
            theta = drift(theta, &metrics.g, &u, 0.5);
            shift = heat(thermostat, shift, &u, 0.5);
            (u, shift) = forces.damp_kick_damp(u, shift);
            shift = heat(thermostat, shift, &u, 0.5);
            theta = drift(theta, &metrics.g, &u, 0.5);
        }
        // Cut open between the first A and B.
        (Integrator::Splitting, GradientAt::Midpoint) => {
            let before = u.clone();
            (u, shift) = forces.damp_kick_damp(u, shift);
            shift = match santa.thermostat_reads {
                ThermostatReads::Momentum => heat(thermostat, shift, &u, 1.0),
                ThermostatReads::Velocity => heat_by_velocity(&s, shift, before, &u),
            };
            theta = drift(theta, &metrics.g, &u, 1.0);
        }
        // Algorithm 1.
        (Integrator::Euler, _) => {
            shift = heat(thermostat, shift, &u, 1.0);
            shift = clamp_friction(thermostat, shift);
            let mut kick = forces.gradient_kick();
            if s.adam_form {
                kick = kick * (shift.clone() + s.base);
            }
            kick = forces.correct(kick, &shift);
            kick = forces.shake(kick);
            u = (1.0f32 - (shift.clone() + s.base)) * u + kick;
            theta = drift(theta, &metrics.g, &u, 1.0);
        }
    }

    state.put("u", u);
    state.put("alpha_shift", alpha_before.unwrap_or(shift));
    if let Some(v) = metrics.v {
        state.put("v", v);
    }
    Ok(theta)
}

fn metrics<const D: usize>(
    s: &Scalars,
    v: Option<Tensor<D>>,
    f: &Tensor<D>,
    u: &Tensor<D>,
) -> Metrics<D> {
    let Some(mut v) = v else { return Metrics { g: None, before: None, dg: None, v: None } };
    // $g = 1/\sqrt{\lambda + \sqrt v}$
    let root_metric = |v: &Tensor<D>| (v.clone().sqrt() + s.lambda).sqrt().recip();
    let wants_before = s.correction.is_some() || matches!(s.noise, Noise::TimesRootMetric(_));
    let mut before = wants_before.then(|| root_metric(&v));
    if s.seed_v {
        v = f.clone() * f.clone();
    } else if s.metric_moves {
        v = v * s.sigma + f.clone() * s.one_minus_sigma * f.clone();
    }
    let g = root_metric(&v);
    if s.seed_v && wants_before {
        before = Some(g.clone()); // there was no metric before
    }
    let dg = match (&s.correction, &before) {
        (Some(c), Some(before)) => {
            let inverse_u = u.clone() / (u.clone() * u.clone() + c.guard);
            Some((1.0f32 - before.clone() / g.clone()) * inverse_u)
        }
        _ => None,
    };
    Metrics { g: Some(g), before, dg, v: Some(v) }
}

/// A, first half of it: $\theta \leftarrow \theta + g u \cdot$ `part`
fn drift<const D: usize>(
    theta: Tensor<D>,
    g: &Option<Tensor<D>>,
    u: &Tensor<D>,
    part: f32,
) -> Tensor<D> {
    theta + times(g, u.clone()) * part
}

/// A, second half of it: $\alpha \leftarrow \alpha + (u^2 - \eta/\beta)/\mu \cdot$ `part`
fn heat<const D: usize>(
    thermostat: &Thermostat,
    shift: Tensor<D>,
    u: &Tensor<D>,
    part: f32,
) -> Tensor<D> {
    if !thermostat.moves {
        return shift;
    }
    let rate = thermostat.inverse_mass * part;
    (u.clone() * u.clone() - thermostat.target) * rate + shift
}

/// The same by the velocity between the ends of two steps:
/// $\alpha \leftarrow \alpha + [((u_{t-1} + u_t)/2)^2 - e^{-\alpha/2} \eta/\beta]/\mu$
fn heat_by_velocity<const D: usize>(
    s: &Scalars,
    shift: Tensor<D>,
    u_before: Tensor<D>,
    u: &Tensor<D>,
) -> Tensor<D> {
    if !s.thermostat.moves {
        return shift;
    }
    let velocity = (u_before + u.clone()) * 0.5f32;
    let half_damping = ((shift.clone() + s.base) * -0.5f32).exp();
    let excess = velocity.clone() * velocity - half_damping * s.thermostat.target;
    excess * s.thermostat.inverse_mass + shift
}

/// Where bounds hold, $\alpha$ is kept within them; a NaN passes, to be noticed.
fn clamp_friction<const D: usize>(thermostat: &Thermostat, mut shift: Tensor<D>) -> Tensor<D> {
    let Some((floor, ceiling)) = thermostat.bounds else { return shift };
    if floor.is_finite() {
        let low = shift.clone().lower_scalar(floor);
        shift = shift.mask_fill(low, floor);
    }
    if ceiling.is_finite() {
        let high = shift.clone().greater_scalar(ceiling);
        shift = shift.mask_fill(high, ceiling);
    }
    shift
}

/// `factor` times x, where `None` stands for ones.
fn times<const D: usize>(factor: &Option<Tensor<D>>, x: Tensor<D>) -> Tensor<D> {
    match factor {
        Some(factor) => factor.clone() * x,
        None => x,
    }
}

/// What pushes the momentum in a step.
struct Forces<'a, const D: usize> {
    s: &'a Scalars,
    f: Tensor<D>,
    zeta: Option<Tensor<D>>,
    metrics: &'a Metrics<D>,
}

impl<const D: usize> Forces<'_, D> {
    /// B O B: half the friction, gradient and noise, the other half of the friction. Gives u and
    /// $\alpha - \alpha_0$.
    fn damp_kick_damp(&self, u: Tensor<D>, shift: Tensor<D>) -> (Tensor<D>, Tensor<D>) {
        let s = self.s;
        let shift = clamp_friction(&s.thermostat, shift);
        let half_damping = ((shift.clone() + s.base) * -0.5f32).exp();
        let mut kick = self.gradient_kick();
        if s.adam_form {
            // 2 sinh(alpha/2), the momentum weight of the splitting
            kick = kick * (half_damping.clone().recip() - half_damping.clone());
        }
        let mut second_half = None;
        if s.halves {
            kick = kick * 0.5f32;
            second_half = Some(kick.clone());
        }
        kick = self.correct(kick, &shift);
        kick = self.shake(kick);
        let mut u = (u * half_damping.clone() + kick) * half_damping;
        if let Some(half) = second_half {
            u = u + half;
        }
        (u, shift)
    }

    /// $-\eta\ g f$
    fn gradient_kick(&self) -> Tensor<D> {
        times(&self.metrics.g, self.f.clone() * -self.s.eta_n)
    }

    /// $\eta \left( \tfrac1\beta \nabla G_1 + \mu\ G_1 (\Xi - G_2) \nabla G_2 \right)$
    fn correct(&self, mut kick: Tensor<D>, shift: &Tensor<D>) -> Tensor<D> {
        let (Some(c), Metrics { g: Some(g), before: Some(before), dg: Some(dg), .. }) =
            (&self.s.correction, self.metrics)
        else {
            return kick;
        };
        kick = kick + dg.clone() * c.eta_over_beta;
        if c.in_g2 {
            let xi = (shift.clone() + self.s.base) * c.inverse_h;
            kick = kick + g.clone() * c.eta_mass * (xi - before.clone()) * dg.clone();
        }
        kick
    }

    /// $+ \sqrt{2 G_2 \eta^{3/2} / \beta}\ \zeta$
    fn shake(&self, kick: Tensor<D>) -> Tensor<D> {
        let Some(zeta) = self.zeta.clone() else { return kick };
        let root = |x: &Option<Tensor<D>>| x.clone().map(Tensor::sqrt);
        match self.s.noise {
            Noise::Off => kick,
            Noise::Constant(sd) => kick + zeta * sd,
            Noise::TimesRootMetric(sd) => kick + times(&root(&self.metrics.before), zeta) * sd,
            Noise::TimesRootSecondMoment(sd) => kick + times(&root(&self.metrics.v), zeta) * sd,
        }
    }
}
