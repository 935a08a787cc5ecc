//! Draws for ArviZ: plots, comparisons of models and more, in Python.
//!
//! A store is a folder in the format Zarr 2, with the groups `posterior` and, if there are sample
//! statistics, `sample_stats`; every variable has the dimensions `chain` and `draw` first. ArviZ opens
//! it as `InferenceData`:
//!
//! ```python
//! import arviz
//! data = arviz.from_zarr("draws.zarr")  # with zarr 2
//!
//! import xarray  # with zarr 3
//! data = arviz.InferenceData.from_datatree(xarray.open_datatree("draws.zarr", engine="zarr"))
//!
//! arviz.summary(data)
//! ```
//!
//! Names with an index, `beta[3]`, `w[0,2]`, `w.2`, become elements of an array if the indices of their
//! stem make up a whole one of at least two elements, counted from 0 or from 1. The array's dimensions
//! are `beta_dim_0` and so on, with the indices as coordinates. Other names are variables as they are.

mod names;
mod zarr;

use crate::draws::Draws;
use crate::error::{Error, Result};
use names::{Variable, variables};
use serde_json::{Map, Value, json};
use std::path::Path;
use zarr::{Array, Numbers, Store};

/// The dimensions that all variables have.
const CHAIN_AND_DRAW: [&str; 2] = ["chain", "draw"];

/// What to write; [`write`](Self::write) does it.
///
/// ```
/// use santa_posterior::{Draws, arviz::Export};
///
/// let mut draws = Draws::new(["slope", "noise"], 1)?;
/// draws.push(0, &[1.0, 0.5])?;
/// draws.push(0, &[1.1, 0.4])?;
/// let folder = tempfile::tempdir().unwrap();
/// Export::new(&draws)
///     .statistic("lp", &[vec![-3.0, -2.5]])
///     .attribute("seed", 42)
///     .write(folder.path().join("draws.zarr"))?;
/// # Ok::<(), santa_posterior::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Export<'a> {
    draws: &'a Draws,
    statistics: Vec<(String, &'a [Vec<f64>])>,
    attributes: Map<String, Value>,
    replace: bool,
}

impl<'a> Export<'a> {
    /// The draws alone, with the library's name and version as attributes.
    pub fn new(draws: &'a Draws) -> Self {
        let mut attributes = Map::new();
        attributes.insert("inference_library".into(), json!("santa"));
        attributes.insert("inference_library_version".into(), json!(env!("CARGO_PKG_VERSION")));
        Export { draws, statistics: Vec::new(), attributes, replace: false }
    }

    /// A number for each draw of each chain, such as `lp`, `energy` or the temperature.
    pub fn statistic(mut self, name: impl Into<String>, chains: &'a [Vec<f64>]) -> Self {
        self.statistics.push((name.into(), chains));
        self
    }

    /// An attribute of the store and of its groups, such as the seed or the name of the model.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Whether an older store of this name is replaced; otherwise, and for any folder that is no Zarr
    /// store, it is an error.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Writes the store, beside its place and under another name until it is whole.
    ///
    /// An interruption never leaves half a store of this name; hidden folders `.NAME.*.tmp` may remain.
    /// If it comes between the two renamings of a replacement, there is none of this name, and both the
    /// older and the new one are whole under such names.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        self.store()?.write(path.as_ref(), self.replace)
    }

    fn store(&self) -> Result<Store<'_>> {
        if self.draws.is_empty() {
            return Err(Error::data("some chain has no draws, so that there is nothing to export"));
        }
        let mut store = Store::new(&self.attributes);
        self.posterior(&mut store)?;
        if !self.statistics.is_empty() {
            self.sample_stats(&mut store)?;
        }
        Ok(store)
    }

    fn posterior(&self, store: &mut Store<'a>) -> Result<()> {
        let draws = self.draws;
        self.group(store, "posterior");
        for Variable { name, places, axes } in variables(draws.names()) {
            let mut shape = vec![draws.chains(), draws.len()];
            let mut dimensions = CHAIN_AND_DRAW.map(String::from).to_vec();
            for (i, axis) in axes.iter().enumerate() {
                let dimension = format!("{name}_dim_{i}");
                let index = axis.clone().map(|i| i as i64).collect();
                store.add(coordinate("posterior", &dimension, index))?;
                shape.push(axis.len());
                dimensions.push(dimension);
            }
            let value = Box::new(move |chain: usize, draw: usize, element: usize| {
                draws.draw(chain, draw)[places[element]]
            });
            let numbers = Numbers::Real(value);
            store.add(Array { group: "posterior", name, shape, dimensions, numbers })?;
        }
        Ok(())
    }

    fn sample_stats(&self, store: &mut Store<'a>) -> Result<()> {
        let (chains, draws) = (self.draws.chains(), self.draws.len());
        self.group(store, "sample_stats");
        for (name, numbers) in &self.statistics {
            let numbers: &'a [Vec<f64>] = numbers;
            if numbers.len() != chains || numbers.iter().any(|chain| chain.len() != draws) {
                return Err(Error::data(format!(
                    "the statistic `{name}` should have {chains} chains of {draws} numbers, as the draws \
                     have"
                )));
            }
            store.add(Array {
                group: "sample_stats",
                name: name.clone(),
                shape: vec![chains, draws],
                dimensions: CHAIN_AND_DRAW.map(String::from).to_vec(),
                numbers: Numbers::Real(Box::new(move |chain, draw, _| numbers[chain][draw])),
            })?;
        }
        Ok(())
    }

    /// A group with the coordinates of chains and draws; those names are taken then.
    fn group(&self, store: &mut Store<'a>, name: &'static str) {
        store.groups.push(name);
        for (dimension, size) in
            CHAIN_AND_DRAW.into_iter().zip([self.draws.chains(), self.draws.len()])
        {
            store.arrays.push(coordinate(name, dimension, (0..size as i64).collect()));
        }
    }
}

fn coordinate<'a>(group: &'static str, dimension: &str, values: Vec<i64>) -> Array<'a> {
    Array {
        group,
        name: dimension.to_string(),
        shape: vec![values.len()],
        dimensions: vec![dimension.to_string()],
        numbers: Numbers::Index(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn draws() -> Draws {
        let mut draws = Draws::new(["mu", "w[0]", "w[1]"], 2).unwrap();
        for chain in 0..2 {
            for draw in 0..3 {
                let first = f64::from(chain * 100 + draw * 10);
                draws.push(chain as usize, &[first, first + 1.0, first + 2.0]).unwrap();
            }
        }
        draws
    }
    fn json(path: &Path) -> Value {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }
    fn numbers(path: &Path) -> Vec<f64> {
        let bytes = fs::read(path).unwrap();
        bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
    }
    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_store_has_the_files_of_the_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("draws.zarr");
        let lp = [vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0]];
        Export::new(&draws()).statistic("lp", &lp).attribute("seed", 42).write(&path).unwrap();
        assert_eq!(json(&path.join(".zgroup")), json!({ "zarr_format": 2 }));
        assert_eq!(json(&path.join("posterior/.zattrs"))["seed"], 42);
        assert_eq!(json(&path.join(".zattrs"))["inference_library"], "santa");
        assert_eq!(
            json(&path.join("posterior/w/.zarray")),
            json!({
                "zarr_format": 2, "shape": [2, 3, 2], "chunks": [1, 3, 2], "dtype": "<f8",
                "order": "C", "fill_value": "NaN", "compressor": null, "filters": null,
            })
        );
        assert_eq!(
            json(&path.join("posterior/w/.zattrs")),
            json!({ "_ARRAY_DIMENSIONS": ["chain", "draw", "w_dim_0"] })
        );
        assert_eq!(
            numbers(&path.join("posterior/w/1.0.0")),
            [101.0, 102.0, 111.0, 112.0, 121.0, 122.0]
        );
        assert_eq!(numbers(&path.join("posterior/mu/0.0")), [0.0, 10.0, 20.0]);
        assert_eq!(numbers(&path.join("sample_stats/lp/1.0")), [4.0, 5.0, 6.0]);
        let draw = fs::read(path.join("sample_stats/draw/0")).unwrap();
        assert_eq!(draw, [0i64, 1, 2].map(i64::to_le_bytes).concat());
        let all = &json(&path.join(".zmetadata"))["metadata"];
        assert_eq!(all["posterior/w/.zarray"], json(&path.join("posterior/w/.zarray")));
        assert_eq!(entries(folder.path()), 1);
    }

    #[test]
    fn an_older_store_is_replaced_only_if_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("draws.zarr");
        let draws = draws();
        Export::new(&draws).write(&path).unwrap();
        let error = Export::new(&draws).write(&path).unwrap_err().to_string();
        assert!(error.contains("replace"), "{error}");
        Export::new(&draws).attribute("run", 2).replace(true).write(&path).unwrap();
        assert_eq!(json(&path.join(".zattrs"))["run"], 2);
        assert_eq!(entries(folder.path()), 1);
    }

    #[test]
    fn a_folder_that_is_no_store_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("thesis.tex"), "x").unwrap();
        let error = Export::new(&draws()).replace(true).write(&path).unwrap_err().to_string();
        assert!(error.contains("no Zarr store"), "{error}");
        assert!(path.join("thesis.tex").exists());
        assert_eq!(entries(folder.path()), 1);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("draws.zarr");
        let draws = draws();
        let refused = |export: Export<'_>| export.write(&path).unwrap_err().to_string();
        assert!(refused(Export::new(&draws).statistic("lp", &[vec![1.0]])).contains("`lp`"));
        let lp = [vec![1.0; 3], vec![1.0; 3]];
        let twice = Export::new(&draws).statistic("lp", &lp).statistic("lp", &lp);
        assert!(refused(twice).contains("two variables"));
        assert!(refused(Export::new(&draws).statistic("draw", &lp)).contains("`draw`"));
        for bad in ["a/b", "..", ".hidden", "", "a\\b"] {
            let mut named = Draws::new([bad], 1).unwrap();
            assert!(refused(Export::new(&named)).contains("no draws"));
            named.push(0, &[1.0]).unwrap();
            assert!(refused(Export::new(&named)).contains("rename"), "{bad}");
        }
        assert_eq!(entries(folder.path()), 0);
    }
}
