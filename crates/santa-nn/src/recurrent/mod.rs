//! The paper's gated recurrent unit for sequences of binary vectors: polyphonic music.
//!
//! The state $h_{t-1}$ predicts the keys $x_t$ that are down at step $t$, and $x_t$ then leads to the
//! next state, from a first state that is learned:
//!
//! $$ h_0 = \tanh b_0, \qquad p(x_t = 1) = \sigma(h_{t-1} V + d) $$
//! $$ r_t = \sigma(x_t W_r + h_{t-1} U_r + b_r), \qquad z_t = \sigma(x_t W_z + h_{t-1} U_z + b_z) $$
//! $$ c_t = \tanh(x_t W_c + r_t \odot (h_{t-1} U_c) + b_c), \qquad
//!    h_t = z_t \odot h_{t-1} + (1 - z_t) \odot c_t $$
//!
//! $W = [W_r, W_z, W_c]$ and likewise for $U$ and $b$. The loss of a step is the sum of the binary
//! cross-entropies of its keys; [`Normalisation`] says how steps are put together.
//!
//! Gradients go through whole sequences. They have the same bits with any number of threads.

mod architecture;
mod backward;
mod forward;
mod gradient;
mod gru;
mod halves;
mod model;
mod output;
mod pair;
mod panels;
mod plan;
#[cfg(test)]
mod reference;
mod rolls;
mod tensors;
#[cfg(test)]
mod tests;
mod weights;

pub use architecture::{GruArchitecture, GruInitialisation};
pub(crate) use gru::Task;
pub use gru::{Gru, Nll, Normalisation};
pub use model::SequenceModel;
pub use rolls::PianoRolls;
pub use tensors::Tensor;
