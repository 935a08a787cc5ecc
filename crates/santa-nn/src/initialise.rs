//! Initial parameters.

use crate::kernels::Scalar;
use santa::noise::{Purpose, Stream};
use serde::{Deserialize, Serialize};

/// How the weights of a layer begin. Every element is a function of seed, chain and place.
///
/// Fans: inputs and outputs of a fully connected layer; those of a convolution count each tap of the
/// kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Initialiser {
    /// As the paper's authors: weights *and biases* uniform within
    /// $\pm\sqrt{6 / (\text{fan}_{in} + \text{fan}_{out} + 1)}$.
    #[default]
    Paper,
    /// Glorot's: weights uniform within $\pm\sqrt{6 / (\text{fan}_{in} + \text{fan}_{out})}$.
    GlorotUniform,
    /// Glorot's: weights normal with variance $2 / (\text{fan}_{in} + \text{fan}_{out})$.
    GlorotNormal,
    /// He's, for ReLU: weights uniform within $\pm\sqrt{6 / \text{fan}_{in}}$.
    HeUniform,
    /// He's, for ReLU: weights normal with variance $2 / \text{fan}_{in}$.
    HeNormal,
    /// LeCun's: weights normal with variance $1 / \text{fan}_{in}$.
    LecunNormal,
    /// PyTorch's default: weights and biases uniform within $\pm 1/\sqrt{\text{fan}_{in}}$.
    Torch,
    /// Weights uniform within plus and minus this.
    Uniform(f64),
    /// Weights normal with this standard deviation.
    Normal(f64),
    /// A matrix with orthonormal rows or columns, whichever are fewer, times this gain; the columns of a
    /// convolution's are its output channels.
    Orthogonal(f64),
    /// Zeros.
    Zeros,
}

/// What a tensor is to its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Weight,
    Bias,
}

impl Initialiser {
    /// Refuses scales that are not positive numbers.
    pub(crate) fn check(&self) -> santa::Result<()> {
        let (Initialiser::Uniform(scale)
        | Initialiser::Normal(scale)
        | Initialiser::Orthogonal(scale)) = self
        else {
            return Ok(());
        };
        if *scale > 0.0 && scale.is_finite() {
            return Ok(());
        }
        Err(santa::Error::Setting {
            field: "initialiser".into(),
            value: scale.to_string(),
            allowed: "its scale must be positive and finite".into(),
        })
    }

    /// Fills a tensor that is segment `segment` of the parameters.
    ///
    /// `columns` is its last axis: outputs, or channels of the output.
    pub(crate) fn fill<F: Scalar>(
        &self,
        role: Role,
        [fan_in, fan_out]: [usize; 2],
        columns: usize,
        (seed, chain, segment): (u64, u32, u32),
        tensor: &mut [F],
    ) {
        let stream = Stream::new(seed, chain, Purpose::Initialisation);
        let (inputs, outputs) = (fan_in as f64, fan_out as f64);
        let mut uniform = |bound: f64| {
            for (i, x) in tensor.iter_mut().enumerate() {
                *x = F::from_f64(bound * (2.0 * stream.uniform(0, segment, i as u32) - 1.0));
            }
        };
        match (self, role) {
            (Initialiser::Paper, _) => return uniform((6.0 / (inputs + outputs + 1.0)).sqrt()),
            (Initialiser::Torch, _) => return uniform(1.0 / inputs.sqrt()),
            (_, Role::Bias) | (Initialiser::Zeros, _) => return tensor.fill(F::ZERO),
            (Initialiser::GlorotUniform, _) => return uniform((6.0 / (inputs + outputs)).sqrt()),
            (Initialiser::HeUniform, _) => return uniform((6.0 / inputs).sqrt()),
            (Initialiser::Uniform(bound), _) => return uniform(*bound),
            _ => stream.normals(0, segment, 0, tensor),
        }
        let scale = match self {
            Initialiser::GlorotNormal => (2.0 / (inputs + outputs)).sqrt(),
            Initialiser::HeNormal => (2.0 / inputs).sqrt(),
            Initialiser::LecunNormal => (1.0 / inputs).sqrt(),
            Initialiser::Normal(scale) => *scale,
            Initialiser::Orthogonal(gain) => {
                orthonormal(tensor, columns);
                *gain
            }
            _ => 1.0,
        };
        tensor.iter_mut().for_each(|x| *x *= F::from_f64(scale));
    }
}

/// Makes the rows or the columns of a matrix orthonormal, whichever are fewer, by Gram and Schmidt
/// twice over.
pub(crate) fn orthonormal<F: Scalar>(matrix: &mut [F], columns: usize) {
    let rows = matrix.len() / columns;
    let by_rows = rows <= columns;
    let (count, len) = if by_rows { (rows, columns) } else { (columns, rows) };
    let place = |vector: usize, i: usize| {
        if by_rows { vector * columns + i } else { i * columns + vector }
    };
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    for vector in 0..count {
        let mut v: Vec<f64> = (0..len).map(|i| matrix[place(vector, i)].to_f64()).collect();
        for _ in 0..2 {
            for other in &basis {
                let along: f64 = v.iter().zip(other).map(|(a, b)| a * b).sum();
                v.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
        }
        let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        v.iter_mut().for_each(|x| *x /= norm);
        for i in 0..len {
            matrix[place(vector, i)] = F::from_f64(v[i]);
        }
        basis.push(v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FANS: [usize; 2] = [200, 100];

    fn weights(initialiser: Initialiser, role: Role) -> Vec<f64> {
        let mut tensor = vec![f64::NAN; FANS[0] * FANS[1]];
        initialiser.fill(role, FANS, FANS[1], (7, 0, 0), &mut tensor);
        tensor
    }

    fn variance(tensor: &[f64]) -> f64 {
        tensor.iter().map(|x| x * x).sum::<f64>() / tensor.len() as f64
    }

    #[test]
    fn variances_are_the_ones_of_the_literature() {
        for (initialiser, expected) in [
            (Initialiser::Paper, 2.0 / 301.0),
            (Initialiser::GlorotUniform, 2.0 / 300.0),
            (Initialiser::GlorotNormal, 2.0 / 300.0),
            (Initialiser::HeUniform, 2.0 / 200.0),
            (Initialiser::HeNormal, 2.0 / 200.0),
            (Initialiser::LecunNormal, 1.0 / 200.0),
            (Initialiser::Torch, 1.0 / 600.0),
            (Initialiser::Uniform(0.3), 0.03),
            (Initialiser::Normal(0.3), 0.09),
            (Initialiser::Orthogonal(2.0), 4.0 / 200.0),
        ] {
            let found = variance(&weights(initialiser, Role::Weight));
            // The standard error of the ratio is at most sqrt(2 / 20,000) = 1 %.
            assert!((found / expected - 1.0).abs() < 0.06, "{initialiser:?}: {found} {expected}");
        }
    }

    #[test]
    fn biases_are_zero_but_for_the_paper_and_torch() {
        assert!(weights(Initialiser::HeNormal, Role::Bias).iter().all(|x| *x == 0.0));
        assert!(weights(Initialiser::Paper, Role::Bias).iter().all(|x| *x != 0.0));
        assert!(weights(Initialiser::Torch, Role::Bias).iter().any(|x| *x != 0.0));
    }

    #[test]
    fn an_orthogonal_matrix_is_orthogonal() {
        for (rows, columns) in [(5, 5), (3, 8), (8, 3)] {
            let mut matrix = vec![0.0f64; rows * columns];
            let fans = [rows, columns];
            Initialiser::Orthogonal(1.0).fill(Role::Weight, fans, columns, (1, 0, 0), &mut matrix);
            let few = rows.min(columns);
            for a in 0..few {
                for b in 0..few {
                    let product: f64 = if rows <= columns {
                        (0..columns)
                            .map(|i| matrix[a * columns + i] * matrix[b * columns + i])
                            .sum()
                    } else {
                        (0..rows).map(|i| matrix[i * columns + a] * matrix[i * columns + b]).sum()
                    };
                    let expected = f64::from(u8::from(a == b));
                    assert!((product - expected).abs() < 1e-14, "{rows} x {columns}: {product}");
                }
            }
        }
    }
}
