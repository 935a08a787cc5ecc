//! Second-order samplers with one friction, in tensor operations.

use super::state::{Moment, State, unreadable};
use burn::tensor::Tensor;
use santa::Result;
use santa::dynamics::{Sghmc, Sgnht};
use santa::units::LrScale;

pub(super) fn sghmc<const D: usize>(
    s: &Sghmc,
    m: &Moment,
    theta: Tensor<D>,
    f: Tensor<D>,
    state: &mut State<D>,
) -> Result<Tensor<D>> {
    let p = s.physics(m.t, m.n, m.lr)?;
    let keep = (1.0 - p.alpha0) as f32;
    let eta_n = (p.eta * m.n.as_f64()) as f32;
    let sd = (2.0 * s.diffusion(&p)? * p.eta / p.beta).sqrt() as f32;

    let mut u = state.take("u")? * keep - f * eta_n;
    if !s.noiseless {
        u = u + m.zeta(&theta) * sd;
    }
    state.put("u", u.clone());
    Ok(theta + u)
}

/// Besides theta, $\xi - A$ after the step: it needs the sum of all $u^2$, a number that is read from the
/// device. It is summed there, in single precision and in the device's order.
pub(super) fn sgnht<const D: usize>(
    s: &Sgnht,
    m: &Moment,
    mut shift: f64,
    theta: Tensor<D>,
    f: Tensor<D>,
    state: &mut State<D>,
) -> Result<(Tensor<D>, f64)> {
    let p = s.physics(m.t, m.n, m.lr)?;
    let keep = (1.0 - p.alpha0 - p.eta.sqrt() * shift) as f32;
    let eta_n = (p.eta * m.n.as_f64()) as f32;
    let sd = (2.0 * p.alpha0 * p.eta / p.beta).sqrt() as f32;
    // The thermostat runs on the clock of a group without a factor.
    let clock = s.physics(m.t, m.n, LrScale { group: 1.0, ..m.lr })?;

    let u = state.take("u")? * keep - f * eta_n + m.zeta(&theta) * sd;
    state.put("u", u.clone());
    let theta = theta + u.clone();

    // A group's factor weighs the sum and the count alike, and with one group it cancels.
    let count = theta.dims().iter().product::<usize>() as f64;
    // The expectation is taken away before the sum: a device may add one number after the other, and
    // the difference of two large sums would be lost in their rounding. That of the expectation itself
    // is made up for.
    let expected = p.eta / clock.beta;
    let excess = (u.clone() * u) - expected as f32;
    let excess: f32 = excess.sum().try_into_scalar().map_err(unreadable)?;
    let excess = f64::from(excess) / count + (f64::from(expected as f32) - expected);
    shift += clock.eta.sqrt() / clock.mass * excess / p.eta;
    Ok((theta, shift))
}
