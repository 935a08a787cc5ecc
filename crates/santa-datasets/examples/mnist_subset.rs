//! Makes the subset of MNIST in `data/mnist-subset` again from the full files:
//!
//! ```text
//! cargo run --release -p santa-datasets --example mnist_subset -- DATA_DIR FOLDER
//! ```

use flate2::{Compression, write::GzEncoder};
use santa_datasets::{Mnist, Store, idx::Idx};
use std::io::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(data_dir), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("the arguments are: DATA_DIR FOLDER".into());
    };
    let subset = Mnist::load(&Store::new(Some(data_dir.into()))?)?.subset()?;
    for (prefix, images) in [("train", &subset.train), ("t10k", &subset.test)] {
        let shape = vec![images.len(), images.height(), images.width()];
        let pixels = Idx { shape, values: images.pixels().to_vec() };
        let labels = Idx { shape: vec![images.len()], values: images.labels().to_vec() };
        for (name, idx) in [("images-idx3", pixels), ("labels-idx1", labels)] {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(&idx.to_bytes()?)?;
            let path = Path::new(&folder).join(format!("{prefix}-{name}-ubyte.gz"));
            std::fs::write(path, encoder.finish()?)?;
        }
    }
    Ok(())
}
