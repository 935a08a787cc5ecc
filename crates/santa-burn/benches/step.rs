//! A step with the system's allocator.

mod measure;

fn main() {
    measure::run("the system's");
}
