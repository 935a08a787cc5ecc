//! Dynamics in tensor operations beside the library's kernels, on a GPU or on a driver that acts as one.
//!
//! Without a GPU, `mesa-vulkan-drivers` on Debian brings such a driver.

#![cfg(feature = "wgpu")]

mod twins;

use burn::tensor::{Device, DeviceType};
use santa::{Algorithm, Error, Prior, Santa};
use santa_burn::device::CHECK_EVERY;
use twins::*;

/// What a GPU may round more coarsely: its square roots, quotients and exponentials are off by a few
/// units in the last place, where the host's are off by at most one.
const COARSER: f64 = 10.0;

/// The first device that wgpu finds; says so if there is none.
fn device() -> Option<Device> {
    let device = Device::enumerate(DeviceType::Wgpu).into_vec().into_iter().next();
    if device.is_none() {
        eprintln!("skipped: wgpu finds no adapter (a driver for Vulkan is in mesa-vulkan-drivers)");
    }
    device
}

#[test]
fn every_dynamics_gives_the_numbers_of_the_kernel() {
    let Some(device) = device() else { return };
    for algorithm in algorithms() {
        let prior = Prior::gaussian(2.0);
        let Found { off, what, .. } = run_both(&algorithm, prior, Compare::Trajectories, &device);
        eprintln!("{}: {what} is off by {off:e}", algorithm.name());
        assert!(off < COARSER * TOLERANCE, "{what} is off by {off:e}: {algorithm:#?}");
    }
}

#[test]
fn santa_gives_the_numbers_of_the_kernel_under_every_option() {
    const CASES: u32 = 60;
    let Some(device) = device() else { return };
    for case in 0..CASES {
        let santa = santa(case);
        let prior = Prior::laplace(0.5);
        let found = run_both(&santa.clone().into(), prior, Compare::Steps, &device);
        let Found { off, what, .. } = found;
        let tolerance = COARSER * TOLERANCE_OF_CORRECTIONS;
        assert!(off < tolerance, "case {case}: {what} is off by {off:e}: {santa:#?}");
    }
}

#[test]
fn a_wrong_segment_number_gives_another_trajectory() {
    let Some(device) = device() else { return };
    let (santa, target) = (Santa::new(1e-2, 20).into(), target(Prior::Flat));
    let mut host = Host::new(&santa, &target);
    let mut guest = Guest::new(&santa, &target, SEGMENT + 1, &device);
    for _ in 0..STEPS {
        host.step();
        guest.step();
    }
    assert!(difference(&host, &guest).1 > 100.0 * COARSER * TOLERANCE);
}

#[test]
fn a_nan_is_noticed_at_the_next_look() {
    let Some(device) = device() else { return };
    let santa: Algorithm = Santa::new(1e-2, 20).into();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut guest = Guest::new(&santa, &target(Prior::Flat), SEGMENT, &device);
        let mut values = start();
        values[9] = bad;
        guest.theta = tensor(&values, &device);
        let fine = tensor(&start(), &device).zeros_like();
        let mut outcome = Ok(guest.theta.clone());
        for _ in 1..=CHECK_EVERY {
            outcome = guest.dynamics.step(outcome.unwrap(), fine.clone());
        }
        let error = outcome.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::NotFinite { index: 9, .. }), "{error}");
    }
}
