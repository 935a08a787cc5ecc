//! Devices by name.

use burn::tensor::Device;

use crate::error::{Error, Result};

const KINDS: [&str; 3] = ["flex", "wgpu", "cuda"];

/// `flex`, `wgpu`, `wgpu:0`, `cuda`, `cuda:1`: a device of Burn, if the build has it.
///
/// `wgpu` alone is the adapter that wgpu prefers, with a number the discrete GPU of that number.
pub fn device(name: &str) -> Result<Device> {
    let refuse = |reason: String| Err(Error::Device { name: name.into(), reason });
    let (kind, index) = match name.split_once(':') {
        None => (name, None),
        Some((kind, index)) => match index.parse::<usize>() {
            Ok(index) => (kind, Some(index)),
            Err(_) => return refuse(format!("`{index}` is not a number, as in {kind}:0")),
        },
    };
    match kind {
        "flex" if index.is_some() => refuse("there is only one; write `flex`".into()),
        #[cfg(feature = "flex")]
        "flex" => Ok(Device::flex()),
        #[cfg(feature = "wgpu")]
        "wgpu" => Ok(Device::wgpu(match index {
            Some(index) => burn::tensor::DeviceKind::DiscreteGpu(index),
            None => burn::tensor::DeviceKind::DefaultDevice,
        })),
        #[cfg(feature = "cuda")]
        "cuda" => Ok(Device::cuda(index.unwrap_or(0))),
        _ if KINDS.contains(&kind) => refuse(format!(
            "this build is without it; build again with `--features {kind}`, as in `cargo run \
             --release -p santa-googlenet --features {kind} -- train`"
        )),
        _ => refuse("the devices are flex, wgpu and cuda, the last two also with a number".into()),
    }
}

/// Devices separated by commas, the first of which is the main one.
pub fn devices(names: &str) -> Result<Vec<Device>> {
    names.split(',').map(|name| device(name.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_had_say_what_can() {
        for (name, part) in [
            ("tpu", "the devices are flex, wgpu and cuda"),
            ("cuda:x", "`x` is not a number"),
            ("flex:1", "only one"),
            ("", "the devices are"),
        ] {
            let message = device(name).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
        #[cfg(not(feature = "cuda"))]
        assert!(device("cuda:0").unwrap_err().to_string().contains("--features cuda"));
        #[cfg(feature = "flex")]
        assert_eq!(devices("flex, flex").unwrap().len(), 2);
    }
}
