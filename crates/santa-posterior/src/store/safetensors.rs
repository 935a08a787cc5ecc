//! Parts as tensors: `draws` and `statistics`, one row per draw.

use super::Part;
use crate::error::Result;
use crate::sampler::STATISTICS;
use santa::Checkpoint;

const DRAWS: &str = "draws";
const STATISTICS_NAME: &str = "statistics";

pub fn encode(dim: usize, quantities: &[f64], statistics: &[f64]) -> Result<Vec<u8>> {
    let rows = quantities.len() / dim;
    let mut file = Checkpoint::new();
    file.insert_tensor(DRAWS, &[rows, dim], quantities)?;
    file.insert_tensor(STATISTICS_NAME, &[rows, STATISTICS.len()], statistics)?;
    Ok(file.to_bytes()?)
}

pub fn decode(bytes: &[u8], dim: usize) -> Result<Part> {
    let file = Checkpoint::from_bytes(bytes)?;
    let rows = file.shape(DRAWS)?.first().copied().unwrap_or(0);
    Ok(Part {
        quantities: file.tensor_of_shape(DRAWS, &[rows, dim])?,
        statistics: file.tensor_of_shape(STATISTICS_NAME, &[rows, STATISTICS.len()])?,
    })
}
