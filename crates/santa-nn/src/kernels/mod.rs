//! The arithmetic that all layers share, compiled for every instruction set and chosen at run time.
//!
//! Every sum has one order, which depends neither on the vector width nor on how the work is cut:
//! an element of a product is a chain of fused multiply-adds along `k`. Hence the same bits with any
//! number of threads and on every processor that has the fused multiply-add.

mod functions;
mod lanes;
mod product;
mod transpose;
mod vectorised;

pub use functions::{sigmoid, softplus, tanh};
pub use lanes::{Buffer, Scalar, zeros};
pub use product::{Start, View, multiply, multiply_parts};
pub use vectorised::vectorised;
