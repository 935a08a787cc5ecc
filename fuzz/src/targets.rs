//! What the fuzz targets do with their bytes, for each library of the workspace in a file of its own,
//! which that library's tests include.

#[path = "lib.rs"]
mod dynamics;
mod readers;

pub use dynamics::checkpoint;
pub use readers::{gzip_idx, idx, image, matlab, npz};
