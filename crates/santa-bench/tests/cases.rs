//! Every case works; how fast is for the benchmarks.

use santa_bench::models::Model;
use santa_bench::steps::{self, Dynamics};
use santa_bench::{Case, Effort};
use std::collections::HashSet;

#[test]
fn names_are_as_documented_and_none_is_there_twice() {
    let cases = Case::all();
    let names: HashSet<&str> = cases.iter().map(Case::name).collect();
    assert_eq!(names.len(), cases.len());
    for name in ["copy", "fnn-400", "fnn-800", "cnn-paper", "cnn-authors", "gru-200"] {
        assert!(names.contains(name), "{name}");
    }
    for size in ["1e6", "2e7"] {
        for dynamics in ["santa-exploring", "santa-refining", "adam", "sgld", "sgd-m"] {
            assert!(names.contains(format!("{dynamics}-{size}").as_str()), "{dynamics}-{size}");
        }
    }
}

#[test]
fn every_dynamics_makes_a_step() {
    for dynamics in Dynamics::ALL {
        let times = steps::measure::<f64>(&dynamics, 100, &[], Effort::Once).unwrap();
        assert!(times.step > 0.0, "{}", dynamics.name);
        assert_eq!(times.copy, f64::INFINITY, "nothing was copied");
    }
}

#[test]
fn the_traffic_of_adam_is_that_of_its_vectors() {
    let adam = Dynamics::ALL.iter().find(|dynamics| dynamics.name == "adam").unwrap();
    // theta, m and v read and written, the gradient read
    assert_eq!(adam.bytes::<f32>(), 7 * 4);
}

#[test]
fn the_arithmetic_of_a_dense_network_is_that_of_its_products() {
    let model = Model::all().into_iter().find(|model| model.name() == "fnn-400").unwrap();
    let macs = 2 * 784 * 400 + 3 * 400 * 400 + 3 * 400 * 10;
    assert_eq!(model.flops(), 2.0 * 100.0 * f64::from(macs));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "minutes without optimization")]
fn every_case_can_be_measured() {
    for case in Case::all() {
        let measured = case.measure(Effort::Once).unwrap();
        assert!(measured.ms_per_step > 0.0, "{}", case.name());
        assert!(measured.gflops.is_none_or(|gflops| gflops > 0.0), "{}", case.name());
        assert_eq!(measured.gflops.is_none(), case.name() == "copy");
        assert!(measured.bytes_per_second > 0.0, "{}", case.name());
        assert!(measured.copy_bytes_per_second > 0.0, "{}", case.name());
    }
}
