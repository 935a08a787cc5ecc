//! First-order samplers in tensor operations.

use super::state::{Moment, State};
use burn::tensor::Tensor;
use santa::Result;
use santa::dynamics::{Gamma, Psgld, Sgld};

pub(super) fn sgld<const D: usize>(
    s: &Sgld,
    m: &Moment,
    theta: Tensor<D>,
    f: Tensor<D>,
) -> Result<Tensor<D>> {
    let eta = s.rate.eta_at(m.t, m.n, m.lr.product())?;
    let eta_n = (eta * m.n.as_f64()) as f32;
    let sd = (2.0 * eta / s.beta.at(m.t)?).sqrt() as f32;
    let zeta = m.zeta(&theta);
    Ok(theta + (zeta * sd - f * eta_n))
}

pub(super) fn psgld<const D: usize>(
    s: &Psgld,
    m: &Moment,
    theta: Tensor<D>,
    f: Tensor<D>,
    state: &mut State<D>,
) -> Result<Tensor<D>> {
    let eta = s.rate.eta_at(m.t, m.n, m.lr.product())?;
    let beta = s.beta.at(m.t)?;
    let variance = 2.0 * eta / beta;
    let eta_n = (eta * m.n.as_f64()) as f32;
    let (sigma, one_minus_sigma) = (s.sigma as f32, (1.0 - s.sigma) as f32);
    let metric = |v: &Tensor<D>| (v.clone().sqrt() + s.lambda as f32).recip();
    let guard = match s.gamma {
        Gamma::On { guard } if s.estimates_gamma() && !s.noiseless => Some(guard),
        _ => None,
    };

    let mut v = state.take("v")?;
    let before = guard.map(|_| metric(&v));
    if s.freeze_metric_after.is_none_or(|last| m.t <= last) {
        v = v * sigma + f.clone() * one_minus_sigma * f.clone();
    }
    let g = metric(&v);
    state.put("v", v);

    let mut change = g.clone() * f * -eta_n;
    if let (Some(guard), Some(before)) = (guard, before) {
        let delta = state.take("delta")?;
        let spread = g.clone() * (guard * guard * variance) as f32;
        let gamma = (g.clone() - before) * delta.clone() / (delta.clone() * delta.clone() + spread);
        change = change + gamma * (eta / beta) as f32;
    }
    if !s.noiseless {
        change = change + g.sqrt() * m.zeta(&theta) * variance.sqrt() as f32;
    }
    if guard.is_some() {
        state.put("delta", change.clone());
    }
    Ok(theta + change)
}
