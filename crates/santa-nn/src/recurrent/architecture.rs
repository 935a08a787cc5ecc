//! Sizes, layout and initial values of the GRU.

use crate::kernels::{Buffer, Scalar, zeros};
use santa::noise::{Purpose, Stream};
use santa::{Error, Layout, Result};
use serde::{Deserialize, Serialize};

/// Sizes of a GRU.
///
/// ```
/// use santa_nn::GruArchitecture;
///
/// let gru = GruArchitecture { keys: 88, hidden: 200 };
/// assert_eq!(gru.layout()?.dim(), 191_288);
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GruArchitecture {
    /// Inputs of a step, and as many outputs.
    pub keys: usize,
    /// Hidden units.
    pub hidden: usize,
}

/// How the parameters begin. All biases, that of the first state included, begin at zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum GruInitialisation {
    /// The authors': input and output matrices uniform in `[-scale, scale]`, each of the three
    /// recurrent matrices orthogonal, uniformly among them.
    Orthogonal {
        /// Bound of the uniform law; the authors' is 0.05.
        scale: f64,
    },
    /// All matrices uniform in `[-scale, scale]` with `scale` $= 1/\sqrt{\text{hidden}}$, which is
    /// usual elsewhere (but there for the biases, too).
    Uniform,
}

impl Default for GruInitialisation {
    fn default() -> Self {
        GruInitialisation::Orthogonal { scale: 0.05 }
    }
}

/// Gates of a unit: r, z and the candidate.
pub(super) const GATES: usize = 3;

impl GruArchitecture {
    /// Names and shapes of the parameters, row-major; the columns of the first three are the units'
    /// gates: r, then z, then the candidate.
    ///
    /// | segment | shape | in the equations |
    /// | --- | --- | --- |
    /// | `gru.input` | keys, 3 hidden | $W$ |
    /// | `gru.recurrent` | hidden, 3 hidden | $U$ |
    /// | `gru.bias` | 3 hidden | $b$ |
    /// | `gru.initial` | hidden | $b_0$ |
    /// | `output.weight` | hidden, keys | $V$ |
    /// | `output.bias` | keys | $d$ |
    pub fn layout(&self) -> Result<Layout> {
        let GruArchitecture { keys, hidden } = *self;
        for (field, value) in [("keys", keys), ("hidden", hidden)] {
            // So that no product of sizes overflows.
            if value == 0 || u16::try_from(value).is_err() {
                return Err(Error::Setting {
                    field: field.into(),
                    value: value.to_string(),
                    allowed: format!("it must be at least 1 and at most {}", u16::MAX),
                });
            }
        }
        Layout::new([
            ("gru.input", vec![keys, GATES * hidden]),
            ("gru.recurrent", vec![hidden, GATES * hidden]),
            ("gru.bias", vec![GATES * hidden]),
            ("gru.initial", vec![hidden]),
            ("output.weight", vec![hidden, keys]),
            ("output.bias", vec![keys]),
        ])
    }

    /// Initial parameters of a chain.
    pub fn initial<F: Scalar>(
        &self,
        initialisation: GruInitialisation,
        seed: u64,
        chain: u32,
    ) -> Result<Buffer<F>> {
        let layout = self.layout()?;
        let stream = Stream::new(seed, chain, Purpose::Initialisation);
        let (scale, orthogonal) = match initialisation {
            GruInitialisation::Orthogonal { scale } if scale.is_finite() && scale >= 0.0 => {
                (scale, true)
            }
            GruInitialisation::Orthogonal { scale } => {
                return Err(Error::Setting {
                    field: "scale".into(),
                    value: scale.to_string(),
                    allowed: "it must be zero or positive, and finite".into(),
                });
            }
            GruInitialisation::Uniform => (1.0 / (self.hidden as f64).sqrt(), false),
        };
        let mut theta = zeros(layout.dim());
        for (index, segment) in (0u32..).zip(layout.segments()) {
            let values = &mut theta[segment.range()];
            match segment.name() {
                "gru.recurrent" if orthogonal => {
                    let row = GATES * self.hidden;
                    for gate in 0..GATES {
                        let matrix = orthogonal_matrix(self.hidden, &stream, index, gate as u64);
                        for (to, from) in
                            values.chunks_exact_mut(row).zip(matrix.chunks_exact(self.hidden))
                        {
                            let to = &mut to[gate * self.hidden..][..self.hidden];
                            to.iter_mut().zip(from).for_each(|(to, x)| *to = F::from_f64(*x));
                        }
                    }
                }
                "gru.input" | "gru.recurrent" | "output.weight" => {
                    for (i, to) in (0u32..).zip(values) {
                        *to = F::from_f64(scale * (2.0 * stream.uniform(0, index, i) - 1.0));
                    }
                }
                _ => (),
            }
        }
        Ok(theta)
    }
}

/// An orthogonal matrix, uniform among all of its size: the rows of a matrix of normal deviates,
/// made orthonormal one after the other. Twice, because once is not enough for nearly dependent rows.
fn orthogonal_matrix(n: usize, stream: &Stream, segment: u32, draw: u64) -> Vec<f64> {
    let mut matrix = vec![0.0f64; n * n];
    stream.normals(draw, segment, 0, &mut matrix);
    for i in 0..n {
        let (done, rest) = matrix.split_at_mut(i * n);
        let row = &mut rest[..n];
        for _ in 0..2 {
            for other in done.chunks_exact(n) {
                let overlap = dot(row, other);
                row.iter_mut().zip(other).for_each(|(x, y)| *x -= overlap * y);
            }
        }
        let norm = dot(row, row).sqrt();
        row.iter_mut().for_each(|x| *x /= norm);
    }
    matrix
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    /// Sums that run side by side.
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (a, b) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.0.iter().zip(b.0) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f64>() + a.1.iter().zip(b.1).map(|(a, b)| a * b).sum::<f64>()
}

/// The segments of a flat vector.
#[derive(Clone, Copy)]
pub(super) struct Parameters<'a, F> {
    pub keys: usize,
    pub hidden: usize,
    pub input: &'a [F],
    pub recurrent: &'a [F],
    pub bias: &'a [F],
    pub initial: &'a [F],
    pub output: &'a [F],
    pub output_bias: &'a [F],
}

impl<'a, F> Parameters<'a, F> {
    pub fn new(GruArchitecture { keys, hidden }: GruArchitecture, theta: &'a [F]) -> Self {
        let (input, rest) = theta.split_at(keys * GATES * hidden);
        let (recurrent, rest) = rest.split_at(hidden * GATES * hidden);
        let (bias, rest) = rest.split_at(GATES * hidden);
        let (initial, rest) = rest.split_at(hidden);
        let (output, output_bias) = rest.split_at(hidden * keys);
        Parameters { keys, hidden, input, recurrent, bias, initial, output, output_bias }
    }
}

/// The segments of a flat gradient.
pub(super) struct Gradient<'a, F> {
    pub input: &'a mut [F],
    pub recurrent: &'a mut [F],
    pub bias: &'a mut [F],
    pub initial: &'a mut [F],
    pub output: &'a mut [F],
    pub output_bias: &'a mut [F],
}

impl<'a, F> Gradient<'a, F> {
    pub fn new(GruArchitecture { keys, hidden }: GruArchitecture, gradient: &'a mut [F]) -> Self {
        let (input, rest) = gradient.split_at_mut(keys * GATES * hidden);
        let (recurrent, rest) = rest.split_at_mut(hidden * GATES * hidden);
        let (bias, rest) = rest.split_at_mut(GATES * hidden);
        let (initial, rest) = rest.split_at_mut(hidden);
        let (output, output_bias) = rest.split_at_mut(hidden * keys);
        Gradient { input, recurrent, bias, initial, output, output_bias }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        for (keys, hidden, field) in [(0, 1, "keys"), (1, 0, "hidden"), (1, 1 << 16, "hidden")] {
            let error = GruArchitecture { keys, hidden }.layout().unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
        let bad = GruInitialisation::Orthogonal { scale: f64::NAN };
        assert!(GruArchitecture { keys: 1, hidden: 1 }.initial::<f64>(bad, 0, 0).is_err());
        let unknown = r#"{ "keys": 1, "hidden": 1, "layers": 2 }"#;
        assert!(serde_json::from_str::<GruArchitecture>(unknown).is_err());
    }

    #[test]
    fn the_authors_initial_values_are_orthogonal_small_and_zero() {
        let gru = GruArchitecture { keys: 5, hidden: 24 };
        let layout = gru.layout().unwrap();
        let theta = gru.initial::<f64>(GruInitialisation::default(), 3, 0).unwrap();
        let part = |name: &str| &theta[layout.segment(name).unwrap().range()];
        for name in ["gru.input", "output.weight"] {
            assert!(part(name).iter().all(|x| x.abs() <= 0.05 && *x != 0.0));
        }
        for name in ["gru.bias", "gru.initial", "output.bias"] {
            assert!(part(name).iter().all(|x| *x == 0.0));
        }
        for gate in 0..GATES {
            let row = |i: usize| &part("gru.recurrent")[i * 72 + gate * 24..][..24];
            for (i, j) in (0..24).flat_map(|i| (0..24).map(move |j| (i, j))) {
                let expected = if i == j { 1.0 } else { 0.0 };
                assert!((dot(row(i), row(j)) - expected).abs() < 1e-14);
            }
        }
        let other = gru.initial::<f64>(GruInitialisation::default(), 3, 1).unwrap();
        assert!(theta[..] != other[..]);
        let uniform = gru.initial::<f64>(GruInitialisation::Uniform, 3, 0).unwrap();
        assert!(uniform.iter().all(|x| x.abs() <= 1.0 / 24f64.sqrt()));
    }
}
