//! Optimizers in tensor operations.

use super::state::{Moment, State};
use burn::tensor::Tensor;
use santa::dynamics::{Adadelta, Adagrad, Adam, BiasCorrection, RmsProp, Sgd};
use santa::{Result, Schedule};

fn learning_rate(lr: &Schedule, m: &Moment) -> Result<f64> {
    Ok(lr.positive_at("lr", m.t)? * m.lr.product())
}

/// $v \leftarrow \rho v + (1-\rho) f^2$
fn average_square<const D: usize>(v: Tensor<D>, f: &Tensor<D>, rho: f64) -> Tensor<D> {
    v * rho as f32 + f.clone() * (1.0 - rho) as f32 * f.clone()
}

pub(super) fn sgd<const D: usize>(
    s: &Sgd,
    m: &Moment,
    theta: Tensor<D>,
    f: Tensor<D>,
    state: &mut State<D>,
) -> Result<Tensor<D>> {
    let lr = learning_rate(&s.lr, m)? as f32;
    if s.momentum == 0.0 {
        return Ok(theta - f * lr);
    }
    let momentum = s.momentum as f32;
    let b = state.take("momentum")? * momentum + f.clone();
    state.put("momentum", b.clone());
    let direction = if s.nesterov { f + b * momentum } else { b };
    Ok(theta - direction * lr)
}

pub(super) fn adagrad<const D: usize>(
    s: &Adagrad,
    m: &Moment,
    theta: Tensor<D>,
    f: Tensor<D>,
    state: &mut State<D>,
) -> Result<Tensor<D>> {
    let lr = learning_rate(&s.lr, m)? as f32;
    let v = state.take("v")? + f.clone() * f.clone();
    state.put("v", v.clone());
    Ok(theta - f * lr / (v.sqrt() + s.epsilon as f32))
}

pub(super) fn adadelta<const D: usize>(
    s: &Adadelta,
    m: &Moment,
    theta: Tensor<D>,
    f: Tensor<D>,
    state: &mut State<D>,
) -> Result<Tensor<D>> {
    let lr = learning_rate(&s.lr, m)? as f32;
    let epsilon = s.epsilon as f32;
    let v = average_square(state.take("v")?, &f, s.rho);
    let d = state.take("d")?;
    let delta = f * ((d.clone() + epsilon) / (v.clone() + epsilon)).sqrt();
    state.put("v", v);
    state.put("d", average_square(d, &delta, s.rho));
    Ok(theta - delta * lr)
}

pub(super) fn rmsprop<const D: usize>(
    s: &RmsProp,
    m: &Moment,
    theta: Tensor<D>,
    f: Tensor<D>,
    state: &mut State<D>,
) -> Result<Tensor<D>> {
    let lr = learning_rate(&s.lr, m)? as f32;
    let epsilon = s.epsilon as f32;
    let v = average_square(state.take("v")?, &f, s.rho);
    state.put("v", v.clone());
    let root = if s.epsilon_inside_root { (v + epsilon).sqrt() } else { v.sqrt() + epsilon };
    let mut direction = f / root;
    if s.momentum > 0.0 {
        direction = state.take("momentum")? * s.momentum as f32 + direction;
        state.put("momentum", direction.clone());
    }
    Ok(theta - direction * lr)
}

pub(super) fn adam<const D: usize>(
    s: &Adam,
    m: &Moment,
    theta: Tensor<D>,
    f: Tensor<D>,
    state: &mut State<D>,
) -> Result<Tensor<D>> {
    let lr = learning_rate(&s.lr, m)?;
    let t = m.t.min(i32::MAX as u64) as i32;
    // lr / (1 - beta1^t) and 1 / sqrt(1 - beta2^t)
    let (rate, root) = match s.bias_correction {
        BiasCorrection::Published => {
            (lr / (1.0 - s.beta1.powi(t)), 1.0 / (1.0 - s.beta2.powi(t)).sqrt())
        }
        BiasCorrection::Off => (lr, 1.0),
        // Their epsilon stands beside the uncorrected root.
        BiasCorrection::SwappedRates => {
            let first = 1.0 - (1.0 - s.beta1).powi(t);
            let second = 1.0 - (1.0 - s.beta2).powi(t);
            (lr * second.sqrt() / first, 1.0)
        }
    };
    let mean = state.take("m")? * s.beta1 as f32 + f.clone() * (1.0 - s.beta1) as f32;
    let v = average_square(state.take("v")?, &f, s.beta2);
    state.put("m", mean.clone());
    state.put("v", v.clone());
    let denominator = v.sqrt() * root as f32 + s.epsilon as f32;
    let keep = (1.0 - lr * s.decoupled_weight_decay) as f32;
    let theta = if keep == 1.0 { theta } else { theta * keep };
    Ok(theta - mean * rate as f32 / denominator)
}
