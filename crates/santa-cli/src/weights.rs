//! Parameters from files: our checkpoints, other safetensors, and the authors' npz.

use crate::experiment::Experiment;
use crate::failure::{Failure, Result};
use crate::run::folder::checkpoints;
use crate::run::stored::{StoredRun, file};
use safetensors::{Dtype, SafeTensors};
use santa::Layout;
use santa_datasets::npz;
use santa_nn::{GruArchitecture, Scalar, Tensor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Shapes and values, by name.
type Tensors = BTreeMap<String, (Vec<usize>, Vec<f64>)>;

/// Named tensors of a file, in double precision.
pub struct Weights {
    path: PathBuf,
    tensors: Tensors,
}

impl Weights {
    /// Reads a safetensors or npz file, or the newest checkpoint of a run's folder.
    pub fn read(path: &Path) -> Result<Self> {
        let path = if path.is_dir() { newest(path)? } else { path.to_path_buf() };
        let is_npz = path.extension().is_some_and(|extension| extension == "npz");
        let tensors = if is_npz { read_npz(&path)? } else { read_safetensors(&path)? };
        Ok(Weights { path, tensors })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the run that wrote them, if there is one.
    pub fn run(&self) -> Option<PathBuf> {
        // A path within the present folder has no parents of its own.
        let path = std::path::absolute(&self.path).ok()?;
        let folder = path.parent()?.parent()?;
        StoredRun::is_run(folder).then(|| folder.to_path_buf())
    }

    /// Whether they have the names of the authors' recurrent networks.
    pub fn are_the_authors_gru(&self) -> bool {
        self.tensors.contains_key("decoder_gru_W")
    }

    /// Sizes and parameters of the authors' recurrent network.
    pub fn gru(&self) -> Result<(GruArchitecture, Vec<f64>)> {
        let find = |name: &str| {
            let (shape, values) = self.tensors.get(name)?;
            Some(Tensor { shape, values })
        };
        let (architecture, theta) =
            GruArchitecture::from_tensors::<f64>(find).map_err(|e| self.refuse(e))?;
        Ok((architecture, theta.to_vec()))
    }

    /// Parameters for a layout: tensors `theta/NAME` (a checkpoint's) or `NAME`.
    pub fn parameters<F: Scalar>(&self, layout: &Layout) -> Result<Vec<F>> {
        let mut theta = vec![F::ZERO; layout.dim()];
        for segment in layout.segments() {
            let name = segment.name();
            let tensor = self.tensors.get(&format!("theta/{name}"));
            let tensor = tensor.or_else(|| self.tensors.get(name)).ok_or_else(|| {
                self.refuse(format!("there is no tensor `{name}`, which the model has"))
            })?;
            if tensor.0 != segment.shape() {
                return Err(self.refuse(format!(
                    "tensor `{name}` has shape {:?}, the model's has {:?}",
                    tensor.0,
                    segment.shape()
                )));
            }
            let to = theta[segment.range()].iter_mut();
            to.zip(&tensor.1).for_each(|(to, x)| *to = F::from_f64(*x));
        }
        Ok(theta)
    }

    fn refuse(&self, text: impl std::fmt::Display) -> Failure {
        Failure::data(format!("{}: {text}", self.path.display()))
    }
}

fn newest(run: &Path) -> Result<PathBuf> {
    if !StoredRun::is_run(run) {
        let text = format!("{} is no run: it has no {}", run.display(), file::EXPERIMENT);
        return Err(Failure::data(text));
    }
    match checkpoints(run)?.pop() {
        Some((_, path)) => Ok(path),
        None => Err(Failure::data(format!("{} has no checkpoint yet", run.display()))),
    }
}

fn read_npz(path: &Path) -> Result<Tensors> {
    let arrays = npz::read(path)?;
    Ok(arrays.into_iter().map(|(name, a)| (name, (a.shape, a.values.to_f64()))).collect())
}

fn read_safetensors(path: &Path) -> Result<Tensors> {
    let refuse = |text: String| Failure::data(format!("{}: {text}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| refuse(e.to_string()))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|e| {
        refuse(format!("not a safetensors file ({e})"))
            .hint("a run's folder, a checkpoint, a safetensors or an .npz file is wanted")
    })?;
    let mut tensors = BTreeMap::new();
    for (name, tensor) in file.tensors() {
        let data = tensor.data();
        let values: Vec<f64> = match tensor.dtype() {
            Dtype::F32 => {
                data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect()
            }
            Dtype::F64 => data.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            other => {
                return Err(refuse(format!("tensor `{name}` is {other:?}; F32 and F64 are read")));
            }
        };
        tensors.insert(name, (tensor.shape().to_vec(), values));
    }
    Ok(tensors)
}

/// The experiment that is stored beside the weights.
pub fn stored_experiment(run: &Path) -> Result<Experiment> {
    crate::experiment::Draft::open(&run.display().to_string())?.resolve()
}
