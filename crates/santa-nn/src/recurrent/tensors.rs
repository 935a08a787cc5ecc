//! Parameters from the tensors of the authors' code.

use super::architecture::{GATES, GruArchitecture};
use crate::kernels::{Buffer, Scalar, zeros};
use santa::{Error, Result};

/// A tensor that somebody has read from a file: row-major.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Its dimensions.
    pub shape: &'a [usize],
    /// Its values.
    pub values: &'a [f64],
}

impl GruArchitecture {
    /// Sizes and parameters from the tensors that the authors' code saves, found by name:
    ///
    /// | tensors | shapes | segment |
    /// | --- | --- | --- |
    /// | `decoder_gru_W`, `decoder_gru_Wx` | keys, 2 hidden; keys, hidden | `gru.input` |
    /// | `decoder_gru_U`, `decoder_gru_Ux` | hidden, 2 hidden; hidden, hidden | `gru.recurrent` |
    /// | `decoder_gru_b`, `decoder_gru_bx` | 2 hidden; hidden | `gru.bias` |
    /// | `decoder_gru_b0` | hidden | `gru.initial` |
    /// | `Vhid` | hidden, keys | `output.weight` |
    /// | `bhid` | keys | `output.bias` |
    ///
    /// ```
    /// use santa_nn::{GruArchitecture, Tensor};
    ///
    /// let zeros = [0.0; 4];
    /// let (gru, theta) = GruArchitecture::from_tensors::<f32>(|name| {
    ///     let shape: &[usize] = match name {
    ///         "decoder_gru_W" | "decoder_gru_U" => &[1, 2],
    ///         "decoder_gru_Wx" | "decoder_gru_Ux" | "Vhid" => &[1, 1],
    ///         "decoder_gru_b" => &[2],
    ///         _ => &[1],
    ///     };
    ///     let len = shape.iter().product();
    ///     Some(Tensor { shape, values: &zeros[..len] })
    /// })?;
    /// assert_eq!((gru.keys, gru.hidden, theta.len()), (1, 1, 12));
    /// # Ok::<(), santa::Error>(())
    /// ```
    pub fn from_tensors<'a, F: Scalar>(
        find: impl Fn(&str) -> Option<Tensor<'a>>,
    ) -> Result<(Self, Buffer<F>)> {
        let named = |name: &str| {
            find(name).ok_or_else(|| Error::Structure(format!("there is no tensor `{name}`")))
        };
        let [keys, hidden] =
            named("Vhid")?.shape.try_into().map(|[h, k]: [usize; 2]| [k, h]).map_err(|_| {
                Error::Structure("tensor `Vhid` is no matrix of hidden units and keys".into())
            })?;
        let architecture = GruArchitecture { keys, hidden };
        let layout = architecture.layout()?;
        let tensor = |name: &str, shape: &[usize]| {
            let tensor = named(name)?;
            if tensor.shape != shape || tensor.values.len() != shape.iter().product::<usize>() {
                return Err(Error::Structure(format!(
                    "tensor `{name}` has shape {:?} and {} values; `Vhid` asks for {shape:?}",
                    tensor.shape,
                    tensor.values.len()
                )));
            }
            Ok(tensor.values)
        };
        let mut theta = zeros(layout.dim());
        let mut write = |segment: &str, parts: &[&[f64]], rows: usize| {
            let Some(segment) = layout.segment(segment) else { return };
            let width = segment.range().len() / rows;
            for (row, to) in theta[segment.range()].chunks_exact_mut(width).enumerate() {
                let from = parts.iter().flat_map(|part| {
                    let width = part.len() / rows;
                    &part[row * width..(row + 1) * width]
                });
                to.iter_mut().zip(from).for_each(|(to, x)| *to = F::from_f64(*x));
            }
        };
        let gates = (GATES - 1) * hidden;
        for (segment, both, candidate, rows) in [
            ("gru.input", "decoder_gru_W", "decoder_gru_Wx", keys),
            ("gru.recurrent", "decoder_gru_U", "decoder_gru_Ux", hidden),
        ] {
            let parts = [tensor(both, &[rows, gates])?, tensor(candidate, &[rows, hidden])?];
            write(segment, &parts, rows);
        }
        let biases = [tensor("decoder_gru_b", &[gates])?, tensor("decoder_gru_bx", &[hidden])?];
        write("gru.bias", &biases, 1);
        write("gru.initial", &[tensor("decoder_gru_b0", &[hidden])?], 1);
        write("output.weight", &[tensor("Vhid", &[hidden, keys])?], 1);
        write("output.bias", &[tensor("bhid", &[keys])?], 1);
        Ok((architecture, theta))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Tensors of two keys and one unit, with numbers that tell where they go.
    fn tensors() -> BTreeMap<&'static str, (Vec<usize>, Vec<f64>)> {
        BTreeMap::from([
            ("decoder_gru_W", (vec![2, 2], vec![0.0, 1.0, 3.0, 4.0])),
            ("decoder_gru_Wx", (vec![2, 1], vec![2.0, 5.0])),
            ("decoder_gru_U", (vec![1, 2], vec![6.0, 7.0])),
            ("decoder_gru_Ux", (vec![1, 1], vec![8.0])),
            ("decoder_gru_b", (vec![2], vec![9.0, 10.0])),
            ("decoder_gru_bx", (vec![1], vec![11.0])),
            ("decoder_gru_b0", (vec![1], vec![12.0])),
            ("Vhid", (vec![1, 2], vec![13.0, 14.0])),
            ("bhid", (vec![2], vec![15.0, 16.0])),
        ])
    }

    fn convert(
        tensors: &BTreeMap<&str, (Vec<usize>, Vec<f64>)>,
    ) -> Result<(GruArchitecture, Buffer<f64>)> {
        GruArchitecture::from_tensors(|name| {
            tensors.get(name).map(|(shape, values)| Tensor { shape, values })
        })
    }

    #[test]
    fn every_number_finds_its_place() {
        let (architecture, theta) = convert(&tensors()).unwrap();
        assert_eq!(architecture, GruArchitecture { keys: 2, hidden: 1 });
        assert!(theta.iter().copied().eq((0..17).map(f64::from)));
    }

    #[test]
    fn missing_tensors_and_wrong_shapes_are_refused_by_name() {
        for name in tensors().into_keys() {
            let mut missing = tensors();
            missing.remove(name);
            let error = convert(&missing).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            let mut wrong = tensors();
            wrong.insert(name, (vec![3, 1, 1], vec![0.0; 3]));
            let error = convert(&wrong).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            let mut short = tensors();
            short.get_mut(name).unwrap().1.pop();
            let error = convert(&short).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
