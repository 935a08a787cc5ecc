//! Santa by the splitting with the gradient at the midpoint, and none of the special cases: the
//! settings of the presets, as one loop that keeps everything in registers and runs at the speed of
//! memory. The same numbers, up to rounding, as the general update in `kernel.rs`.

use super::kernel::{Noise, Scalars, half_damping, root_metric};
use crate::dynamics::engine::{Least, WholeBlock};
use crate::real::{BLOCK, Real};

/// Updates a block; see [`Kernel::update_whole`](crate::dynamics::engine::Kernel::update_whole).
#[inline(always)]
pub(super) fn update<F: Real>(s: &Scalars<F>, block: WholeBlock<'_, F>, health: &mut [F; BLOCK]) {
    let WholeBlock { theta, gradient, ridge, zeta, least, state: [u, shift, v, _] } = block;
    let (Some(u), Some(shift)) = (u.first_chunk_mut(), shift.first_chunk_mut()) else { return };
    let mut none = [F::ZERO; BLOCK];
    let v = v.first_chunk_mut().unwrap_or(&mut none);
    let exploring = matches!(s.noise, Noise::Constant(_));
    let velocity = s.thermostat.reads_velocity;
    // A macro, not a function pointer: every instance must be inlined.
    macro_rules! run {
        ($reads:ident, $metric:ident) => {
            midpoint::<F, $reads, $metric>(
                s, ridge, least, theta, gradient, zeta, u, shift, v, health,
            )
        };
    }
    match (exploring, velocity, s.metric.keeps_history(), s.metric_moves) {
        (true, false, true, true) => run!(MOMENTUM, MOVES),
        (true, false, true, false) => run!(MOMENTUM, FROZEN),
        (true, false, false, _) => run!(MOMENTUM, IDENTITY),
        (true, true, true, true) => run!(VELOCITY, MOVES),
        (true, true, true, false) => run!(VELOCITY, FROZEN),
        (true, true, false, _) => run!(VELOCITY, IDENTITY),
        (false, _, true, true) => run!(NOTHING, MOVES),
        (false, _, true, false) => run!(NOTHING, FROZEN),
        (false, _, false, _) => run!(NOTHING, IDENTITY),
    }
}

/// What the thermostat reads, for [`midpoint`]: nothing when refining.
const NOTHING: u8 = 0;
const MOMENTUM: u8 = 1;
const VELOCITY: u8 = 2;

/// Kinds of metric, for [`midpoint`].
const MOVES: u8 = 0;
const FROZEN: u8 = 1;
const IDENTITY: u8 = 2;

/// B O B A with the gradient at the midpoint, one element after another.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn midpoint<F: Real, const READS: u8, const METRIC: u8>(
    s: &Scalars<F>,
    ridge: F,
    least: Least<F>,
    theta: &mut [F; BLOCK],
    gradient: &[F; BLOCK],
    zeta: &[F; BLOCK],
    u: &mut [F; BLOCK],
    shift: &mut [F; BLOCK],
    v: &mut [F; BLOCK],
    health: &mut [F; BLOCK],
) {
    let sd = if let Noise::Constant(sd) = s.noise { sd } else { F::ZERO };
    let infinity = F::from_f64(f64::INFINITY);
    let (floor, ceiling) = s.thermostat.bounds.unwrap_or((-infinity, infinity));
    for i in 0..BLOCK {
        let f = ridge.fma(theta[i], gradient[i]).or_zero_below(least.gradient);
        let mut check = F::ZERO;
        let g = if METRIC == IDENTITY {
            F::ONE
        } else {
            let mut v_i = v[i].or_zero_below(least.state);
            if METRIC == MOVES {
                v_i = s.sigma.fma(v_i, s.one_minus_sigma * f * f);
                v[i] = v_i;
                check = v_i * F::ZERO;
            }
            root_metric(s.lambda, v_i)
        };
        let x = if shift[i] < floor { floor } else { shift[i] };
        let shift_i = if x > ceiling { ceiling } else { x };
        let half_damping = half_damping(s.base + shift_i);
        let mut kick = -(s.eta_n * g * f);
        if READS != NOTHING {
            kick = sd.fma(zeta[i], kick);
        }
        let u_before = u[i].or_zero_below(least.state);
        let u_i = u_before.fma(half_damping, kick) * half_damping;
        u[i] = u_i;
        if READS != NOTHING {
            let heat = if READS == VELOCITY {
                let velocity = F::HALF * (u_before + u_i);
                velocity.fma(velocity, -(s.thermostat.target * half_damping))
            } else {
                u_i.fma(u_i, -s.thermostat.target)
            };
            shift[i] = heat.fma(s.thermostat.inverse_mass, shift_i);
            check = shift[i].fma(F::ZERO, check);
        }
        // An infinite u makes theta one.
        let theta_i = g.fma(u_i, theta[i]);
        theta[i] = theta_i;
        health[i] += theta_i.fma(F::ZERO, check);
    }
}
